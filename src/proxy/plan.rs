//! Runs the core for one request: off the event loop when it may take long, within a deadline, and
//! without ever taking the request down with it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::conversation::{Fingerprint, Measure, group};
use crate::core::edit::MeasuredConversation;
use crate::core::edit::{Piece, render, validate};
use crate::core::planner::{
    LiveFacts, Lookup, ModelCalibration, Plan, PlanInput, Seeds, UsageEstimate, assess, gate, plan,
};
use crate::core::policy::OnUnfit;
use crate::core::strategy::{ExternalInputs, Need, Stopped, WebhookAnswer, WebhookRequest};
use crate::core::summary::Summaries;
use crate::core::wire::chat::{Chat, Outline};
use crate::core::{Cancel, Cancelled};
use crate::observe::event::{
    Action, CheckpointLookedUp, ConditionFailed, DecisionReason, DoesNotFit, LadderRan, PassReason,
    Phase, PhaseTimed, Sizes,
};
use crate::proxy::exchange::Decision;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned, Purpose, Run};
use crate::proxy::{Proxy, Shared};
use crate::webhook;

/// A body up to this length is planned on the event loop; a longer one on a thread for such work.
const INLINE_BYTES: usize = 64 * 1_024;

/// What one run comes to.
enum PlanOutcome {
    Planned(Box<Planned>),
    /// It cannot go on without an answer to this.
    Asks(Box<Need>),
}

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
        let need = match conclude_within(proxy, request, &run).await? {
            PlanOutcome::Planned(planned) => return Ok(Planned { waited, ..*planned }),
            PlanOutcome::Asks(need) => need,
        };
        let began = Instant::now();
        // Each is asked once, so that this comes to an end.
        match *need {
            Need::Webhook(asked) => {
                let answer = call_webhook(proxy, request, &asked).await?;
                let answers = &mut Arc::make_mut(&mut run).answers;
                let slot = answers.get_mut(asked.webhook);
                *slot.ok_or(PlanFailure::UnknownWebhook)? = answer;
            }
            Need::Summary(pending) => {
                Arc::make_mut(&mut run).may_ask = false;
                if let Some(mut finished) = proxy.spawn_summary(request, &pending) {
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
    let webhook = request.policy.webhooks.get(asked.webhook);
    let webhook = webhook.ok_or(PlanFailure::UnknownWebhook)?;
    let caller = webhook::Caller {
        policy: &request.policy.name,
        model: request.model.as_deref(),
    };
    let metrics = &proxy.shared.metrics;
    Ok(webhook::call(&proxy.upstream, webhook, caller, asked, metrics).await)
}

/// One run, within the deadline.
async fn conclude_within(
    proxy: &Arc<Proxy>,
    request: &Arc<PlanRequest>,
    run: &Arc<Run>,
) -> Result<PlanOutcome, PlanFailure> {
    let timeout = proxy.shared.snapshot.config.limits.plan_timeout;
    let deadline = Instant::now() + timeout;
    let cancel = Arc::new(Cancel::at_deadline(move || Instant::now() >= deadline));
    if request.body.len() <= INLINE_BYTES && request.encoding().is_loaded() {
        // Nothing can interrupt work on the event loop, so that it checks the deadline itself.
        return guarded(|| answer(&proxy.shared, request, run, &cancel));
    }
    let planning = {
        let (proxy, cancel) = (Arc::clone(proxy), Arc::clone(&cancel));
        let (request, run) = (Arc::clone(request), Arc::clone(run));
        tokio::task::spawn_blocking(move || {
            guarded(|| answer(&proxy.shared, &request, &run, &cancel))
        })
    };
    // The work stops when this future stops waiting: at the deadline, or when the client left and
    // the future is dropped.
    let _stop = StopOnDrop(cancel);
    match tokio::time::timeout(timeout, planning).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(PlanFailure::Panic),
        Err(_) => Err(PlanFailure::Deadline),
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

fn answer(
    shared: &Shared,
    request: &PlanRequest,
    run: &Run,
    cancel: &Cancel,
) -> Result<PlanOutcome, PlanFailure> {
    let policy = &*request.policy;
    let model = request.model.as_deref();
    let window = request.window.tokens;
    let passed = |reason| Planned {
        decision: Decision::passed(reason, window),
        body: None,
        rejected: false,
        pending: None,
        waited: Duration::ZERO,
    };
    let pass = |reason: PassReason| PlanOutcome::Planned(Box::new(passed(reason)));
    let mut clock = Clock::start(shared);

    let outline = match Outline::parse(&request.body) {
        Ok(outline) => outline,
        Err(unreadable) => return Ok(pass(unreadable.into())),
    };
    clock.lap(Phase::View);
    let encoding = request.encoding();
    let mut measures: Vec<Measure> = Vec::with_capacity(outline.messages.len());
    for raw in &outline.messages {
        cancel.check().map_err(|Cancelled| PlanFailure::Deadline)?;
        match shared.ledger.measure(raw, encoding) {
            Ok(measure) => measures.push(measure),
            Err(unreadable) => return Ok(pass(unreadable.into())),
        }
    }
    let fixed_tokens = shared.ledger.fixed_tokens(&outline, encoding);
    clock.lap(Phase::Measure);

    let state = |prefix: &Fingerprint| shared.summarizer.state(&shared.ledger, prefix);
    let summaries = request.origin.as_ref().map(|_| {
        let seed = shared.summarizer.seed(&request.tenant, &policy.identity);
        Summaries::new(&measures, seed, &state, run.may_ask)
    });
    let input = PlanInput {
        window,
        prices: policy.prices_for(model),
        request: &request.facts,
        outside: ExternalInputs {
            answers: &run.answers,
            summaries: summaries.as_ref(),
        },
        now: LiveFacts {
            max_output_tokens: outline.max_output_tokens,
            force: request.force,
            learned: learned(shared, request, run),
            prior: request.prior,
            overflow: run.refused().map(|refused| refused.prompt_tokens),
        },
    };
    let lookup = Lookup {
        checkpoint: &|prefix| shared.ledger.checkpoint(prefix),
        usage: &|list| shared.ledger.usage(list),
        silence: &|list| policy.idle.and_then(|_| shared.ledger.silence(list)),
    };
    let seeds = Seeds {
        checkpoint: request.checkpoint_seed,
        usage: shared.identities.usage_seed(request, &outline),
    };
    if matches!(run.purpose, Purpose::Assess) {
        let known = assess(&measures, fixed_tokens, policy, input, seeds.usage, &lookup);
        let mut planned = passed(PassReason::Gate);
        planned.decision.sizes = Some(Sizes {
            before: known.size,
            after: known.size,
        });
        planned.decision.budget = Some(known.budget);
        planned.decision.estimate = Some(known.estimate);
        return Ok(PlanOutcome::Planned(Box::new(planned)));
    }

    let chat = match outline.view() {
        Ok(chat) => chat,
        Err(unreadable) => return Ok(pass(unreadable.into())),
    };
    let Ok(exchanges) = group(&chat.messages) else {
        return Ok(pass(PassReason::BrokenPairing));
    };
    let conversation = MeasuredConversation {
        messages: &chat.messages,
        measures: &measures,
        exchanges: &exchanges,
        fixed_tokens,
        encoding,
        family: policy.family_for(model),
    };
    clock.lap(Phase::View);
    let plan = match plan(&conversation, policy, input, seeds, &lookup, cancel) {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(PlanFailure::Deadline),
        Err(Stopped::Asks(asked)) => return Ok(PlanOutcome::Asks(asked)),
    };
    clock.lap(Phase::Decide);

    let mut planned = conclude(shared, request, &chat, plan)?;
    if request.is_observed() {
        // An observed request is sent as it came: its usage is that of the whole list.
        planned.decision.estimate =
            Some(UsageEstimate::of_all(&seeds.usage, &measures, fixed_tokens));
    }
    clock.lap(Phase::Render);
    Ok(PlanOutcome::Planned(Box::new(planned)))
}

/// What the upstream taught about the model. A refused request is planned with what its refusal
/// taught.
fn learned(shared: &Shared, request: &PlanRequest, run: &Run) -> ModelCalibration {
    let Some(refused) = run.refused() else {
        return request.window.learned;
    };
    let known = shared.ledger.learned(&request.model_key);
    let windows = [known.window, refused.narrowed];
    ModelCalibration {
        window: windows.into_iter().flatten().min(),
        ..known
    }
}

/// Validates, records and renders a plan.
fn conclude(
    shared: &Shared,
    request: &PlanRequest,
    chat: &Chat<'_>,
    plan: Plan,
) -> Result<Planned, PlanFailure> {
    let policy = &*request.policy;
    let observe = request.is_observed();
    if plan.edited() {
        validate(&chat.messages, &plan.edits).map_err(|_| PlanFailure::Invalid)?;
    }
    let metrics = &shared.metrics;
    let found = plan.replayed;
    CheckpointLookedUp { found }.emit(metrics);
    let (action, reason) = action_of(&plan, observe);
    if let Some(compaction) = &plan.compaction {
        LadderRan {
            id: &request.id,
            policy: &policy.name,
            reason: compaction.reason,
            reports: &compaction.reports,
        }
        .emit(metrics);
    }
    let times = plan.trigger_errors;
    ConditionFailed { times }.emit(metrics);
    let strategies = match &plan.compaction {
        Some(compaction) => compaction
            .reports
            .iter()
            .filter(|report| report.acted())
            .map(|report| report.strategy)
            .collect(),
        None => Vec::new(),
    };
    if !plan.fits {
        DoesNotFit.emit(metrics);
    }
    let decision = Decision {
        action,
        reason,
        sizes: Some(Sizes {
            before: plan.before,
            after: plan.after,
        }),
        budget: Some(plan.budget),
        window: plan.budget.window,
        estimate: Some(plan.estimate),
        strategies,
    };
    let rejected = !plan.fits && policy.on_unfit == OnUnfit::Reject && !observe;
    let body =
        (plan.edited() && !observe).then(|| pieces(&request.body, &render(chat, &plan.edits)));
    if let Some((prefix, checkpoint)) = plan.record {
        let budget = policy.budget(request.window.tokens);
        if gate::nothing_can_trigger(&request.body, policy, &budget, 1.0) {
            shared.ledger.never_gate(request.checkpoint_seed);
        }
        shared.ledger.keep_checkpoint(prefix, checkpoint);
    }
    Ok(Planned {
        decision,
        body,
        rejected,
        pending: plan.due,
        waited: Duration::ZERO,
    })
}

/// What a plan amounts to, and why.
fn action_of(plan: &Plan, observe: bool) -> (Action, DecisionReason) {
    let compaction = plan.compaction.as_ref();
    if !plan.edited() {
        let reason = if !plan.fits {
            PassReason::Unfit
        } else if let Some(deferred) = plan.deferred {
            deferred.into()
        } else {
            PassReason::BelowTrigger
        };
        return (Action::None, DecisionReason::Passed(reason));
    }
    let reason = compaction.map_or(DecisionReason::Checkpoint, |compaction| {
        DecisionReason::Triggered(compaction.reason)
    });
    let action = if observe {
        Action::Observed
    } else if compaction.is_some() {
        Action::Compacted
    } else {
        Action::Replayed
    };
    (action, reason)
}

/// The pieces as slices of the client's body and new bytes.
fn pieces(body: &Bytes, pieces: &[Piece]) -> Vec<Bytes> {
    let slice = |range: &Range<usize>| {
        if range.end <= body.len() && range.start <= range.end {
            body.slice(range.clone())
        } else {
            Bytes::new()
        }
    };
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Client(range) => slice(range),
            Piece::New(json) => Bytes::copy_from_slice(json.as_bytes()),
            Piece::Comma => Bytes::from_static(b","),
        })
        .collect()
}

/// Takes the time of each phase; recorded once, at the end of a run.
struct Clock<'s> {
    shared: &'s Shared,
    last: Instant,
    laps: Vec<(Phase, Duration)>,
}

impl<'s> Clock<'s> {
    fn start(shared: &'s Shared) -> Self {
        Clock {
            shared,
            last: Instant::now(),
            laps: Vec::with_capacity(4),
        }
    }

    fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        match self.laps.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, time)) => *time += took,
            None => self.laps.push((phase, took)),
        }
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        for (phase, took) in self.laps.drain(..) {
            PhaseTimed { phase, took }.emit(&self.shared.metrics);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::config;
    use crate::observe::Metrics;
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
        Shared::new(config, Arc::new(Metrics::new().unwrap()))
    }

    fn request(shared: &Shared, messages: usize) -> PlanRequest {
        let policy = Arc::clone(shared.snapshot.config.policies.last().unwrap());
        let (tokens, source) = policy.window_by(None, None);
        let message = r#"{"role":"user","content":"hi"}"#;
        let list = vec![message; messages].join(",");
        let none = Fingerprint::of(b"");
        PlanRequest {
            body: Bytes::from(format!(r#"{{"messages":[{list}]}}"#)),
            id: String::new(),
            policy,
            mode: EffectiveMode::Enforce,
            force: false,
            model: None,
            path: String::new(),
            tenant: none,
            model_key: none,
            checkpoint_seed: none,
            window: RequestWindow {
                tokens,
                source,
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
        let outcome = guarded(|| answer(&shared, &request, &run, &cancel));
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
