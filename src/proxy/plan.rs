//! Runs the core for one request: off the event loop when it may take long, within a budget of
//! time, and without ever taking the request down with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::Cancel;
use crate::core::strategy::{Need, WebhookAnswer, WebhookRequest};
use crate::observe::event::{Phase, PhaseTimed, PlanBegan, PlanEnded};
use crate::proxy::Proxy;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned, Purpose, Run};
use crate::proxy::plan_run::{PlanOutcome, run_once};
use crate::summarizer::DueSummary;
use crate::webhook;

/// The least deadline for making a request smaller that the upstream refused.
const RETRY_DEADLINE: Duration = Duration::from_secs(10);

/// Plans a request. Where its ladder wants that, the policy's webhooks are called, or a summary is
/// waited for.
///
/// # Errors
/// [`PlanFailure`]: the client's bytes are to be forwarded, or the request rejected, as the policy
/// decides.
pub(super) async fn ask(
    proxy: &Arc<Proxy>,
    request: &Arc<PlanRequest>,
    purpose: Purpose,
) -> Result<Planned, PlanFailure> {
    let mut run = Arc::new(Run::first(request, purpose));
    let mut waited = Duration::ZERO;
    loop {
        let (need, scope) = match conclude_within(proxy, request, &run).await? {
            PlanOutcome::Planned(planned) => return Ok(Planned { waited, ..*planned }),
            PlanOutcome::LooksUp(lookup) => {
                // Once, in one round trip; what is found is in memory for the next run.
                let answered = proxy.shared.ledger.fetch(lookup).await;
                let run = Arc::make_mut(&mut run);
                (run.may_look_up, run.knows_all) = (false, answered);
                continue;
            }
            PlanOutcome::TakesLong => {
                Arc::make_mut(&mut run).is_brief = false;
                continue;
            }
            PlanOutcome::Asks(need, scope) => (*need, scope),
        };
        let began = Instant::now();
        // Each is asked once, so that this comes to an end.
        match need {
            Need::Webhook(asked) => {
                let answer = call_webhook(proxy, request, &asked).await?;
                let answers = &mut Arc::make_mut(&mut run).answers;
                let slot = answers.get_mut(asked.webhook);
                *slot.ok_or(PlanFailure::UnknownWebhook)? = answer;
            }
            Need::Summary(pending) => {
                Arc::make_mut(&mut run).may_ask = false;
                let pending = *pending;
                let due = DueSummary { scope, pending };
                if let Some(mut finished) = proxy.spawn_summary(request, &due) {
                    // With or without a summary at its end: the next run finds out.
                    let wait = request.summary_wait();
                    let _ = tokio::time::timeout(wait, finished.changed()).await;
                }
            }
        }
        waited += began.elapsed();
    }
}

async fn call_webhook(
    proxy: &Proxy,
    request: &PlanRequest,
    asked: &WebhookRequest,
) -> Result<WebhookAnswer, PlanFailure> {
    let webhook = request.policy.webhooks().nth(asked.webhook);
    let webhook = webhook.ok_or(PlanFailure::UnknownWebhook)?;
    let caller = webhook::Caller {
        id: &request.id,
        policy: &request.policy.name,
        model: request.model.as_deref(),
    };
    let metrics = &proxy.shared.metrics;
    Ok(webhook::call(&proxy.upstream, webhook, caller, asked, metrics).await)
}

/// One run. Once the budget of time is spent, the planner takes cheaper steps; at the deadline it
/// is given up.
async fn conclude_within(
    proxy: &Arc<Proxy>,
    request: &Arc<PlanRequest>,
    run: &Arc<Run>,
) -> Result<PlanOutcome, PlanFailure> {
    let limits = &proxy.shared.snapshot.config.limits;
    let began = Instant::now();
    let _in_flight = InFlight::begin(proxy);
    // A refused request has nothing to lose by waiting, and no request waits for an assessment.
    let deadline = match run.purpose {
        Purpose::Send => limits.plan_deadline,
        Purpose::Assess | Purpose::Retry(_) => limits.plan_deadline.max(RETRY_DEADLINE),
    };
    let (spent, over) = (began + limits.plan_timeout, began + deadline);
    let cancel = Cancel::at_deadline(move || Instant::now() >= over);
    let cancel = cancel.with_budget(move || Instant::now() >= spent);
    let cancel = Arc::new(if run.is_brief {
        cancel.for_brief_work()
    } else {
        cancel
    });
    if request.is_planned_inline(run) {
        // Nothing can interrupt work on the event loop, so that it checks the deadline itself.
        return guarded(|| run_once(&proxy.shared, request, run, &cancel));
    }
    let planning = {
        let (proxy, cancel) = (Arc::clone(proxy), Arc::clone(&cancel));
        let (request, run) = (Arc::clone(request), Arc::clone(run));
        move || {
            let (phase, took) = (Phase::Queue, began.elapsed());
            PhaseTimed { phase, took }.emit(&proxy.shared.metrics);
            guarded(|| run_once(&proxy.shared, &request, &run, &cancel))
        }
    };
    // The work stops when this future stops waiting: at the deadline, or when the client left and
    // the future is dropped.
    let _stop = StopOnDrop(cancel);
    let planned = proxy.shared.pool.run(planning);
    match tokio::time::timeout(deadline, planned).await {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Err(PlanFailure::Panic),
        Err(_) => Err(PlanFailure::Deadline),
    }
}

/// A plan being made, for as long as this value lives.
struct InFlight<'p>(&'p Proxy);

impl<'p> InFlight<'p> {
    fn begin(proxy: &'p Proxy) -> Self {
        PlanBegan.emit(&proxy.shared.metrics);
        InFlight(proxy)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        PlanEnded.emit(&self.0.shared.metrics);
    }
}

struct StopOnDrop(Arc<Cancel>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Turns a panic into a failure like any other.
fn guarded<T>(plan: impl FnOnce() -> Result<T, PlanFailure>) -> Result<T, PlanFailure> {
    // INVARIANT: a panic in here leaves nothing that is shared half-changed; the ledger's caches
    // are written whole.
    catch_unwind(AssertUnwindSafe(plan)).unwrap_or(Err(PlanFailure::Panic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::config;
    use crate::core::conversation::Fingerprint;
    use crate::core::models::ModelFacts;
    use crate::core::planner::ModelCalibration;
    use crate::core::tokens::Encoding;
    use crate::core::wire::Dialect;
    use crate::ledger::Beginning;
    use crate::observe::Metrics;
    use crate::proxy::Shared;
    use crate::proxy::plan_request::RequestWindow;
    use crate::proxy::read::EffectiveMode;

    #[test]
    fn a_panic_is_a_failure_like_any_other() {
        let failed: Result<(), PlanFailure> = guarded(|| panic!("a defect"));
        assert_eq!(failed, Err(PlanFailure::Panic));
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }

    fn shared() -> Shared {
        let config = config::load(&config::Sources::default()).unwrap();
        Shared::new(config, Arc::new(Metrics::new().unwrap())).unwrap()
    }

    fn request(shared: &Shared, messages: usize) -> PlanRequest {
        let policy = Arc::clone(shared.snapshot.config.policies.last().unwrap());
        let (tokens, source) = policy.window_by(&ModelFacts::default(), None);
        let message = |n| format!(r#"{{"role":"user","content":"hi {n}"}}"#);
        let list = (0..messages).map(message).collect::<Vec<_>>().join(",");
        let none = Fingerprint::of(b"");
        PlanRequest {
            dialect: Dialect::ChatCompletions,
            body: Bytes::from(format!(r#"{{"messages":[{list}]}}"#)),
            beginning: Beginning::default(),
            id: String::new(),
            policy,
            mode: EffectiveMode::Enforce,
            force: false,
            model: None,
            known: ModelFacts::default(),
            encoding: Encoding::O200K,
            path: String::new(),
            tenant: none,
            model_key: none,
            checkpoint_seed: none,
            window: RequestWindow {
                tokens,
                source,
                input_limit: None,
                learned: ModelCalibration::default(),
            },
            facts: crate::core::policy::RequestFacts::default(),
            prior: None,
            origin: None,
        }
    }

    /// What a run comes to whose deadline is over after this many checks, and the checks that it
    /// made.
    fn run_with(messages: usize, checks: usize) -> (Result<(), PlanFailure>, usize) {
        let shared = shared();
        let request = request(&shared, messages);
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let is_over = move || counter.fetch_add(1, Ordering::Relaxed) >= checks;
        let cancel = Cancel::at_deadline(is_over);
        let run = Run::first(&request, Purpose::Send);
        let outcome = guarded(|| run_once(&shared, &request, &run, &cancel));
        (outcome.map(drop), made.load(Ordering::Relaxed))
    }

    #[test]
    fn planning_stops_at_the_first_check_after_its_deadline() {
        assert_eq!(run_with(500, 20), (Err(PlanFailure::Deadline), 21));
        let (outcome, checks) = run_with(500, usize::MAX);
        assert_eq!(outcome, Ok(()));
        assert!(checks >= 500, "every message is a step: {checks}");
    }
}
