//! Runs the core for one request: off the event loop when it may take long, within a deadline, and never taking the
//! request down with it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::Cancel;
use crate::core::conversation::Fingerprint;
use crate::core::edit::Piece;
use crate::core::planner::{
    Counting, Deferred, LiveFacts, ModelCalibration, NotPlanned, Plan, Planner, PriorUsage, Seeds,
    Session, UsageEstimate, UsageKey, gate,
};
use crate::core::policy::{Mode, OnUnfit, Policy, RequestFacts};
use crate::core::strategy::{ExternalInputs, Need, Stopped, WebhookAnswer};
use crate::core::summary::{PendingSummary, Summaries};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Outline;
use crate::observe::{Action, Phase, compaction_happened};
use crate::proxy::Proxy;
use crate::proxy::exchange::Decision;
use crate::summarizer::SummaryOrigin;
use crate::webhook;

/// A body up to this length is thought about where it is; a longer one on a thread for such work.
const INLINE_BYTES: usize = 64 * 1_024;

/// One request as thinking sees it.
#[derive(Debug, Clone)]
pub(super) struct PlanRequest {
    /// Its wire format.
    pub dialect: Dialect,
    /// The body.
    pub body: Bytes,
    /// Index of its policy.
    pub policy: usize,
    /// The context length of its model, tokens: one figure for all that is thought about it.
    pub window: u64,
    /// The model it names.
    pub model: Option<String>,
    /// The request's path: part of where its usage belongs.
    pub path: String,
    /// Fingerprint of its credentials.
    pub tenant: Fingerprint,
    /// What the upstream taught about the model is kept under this.
    pub model_key: Fingerprint,
    /// Asked to be compacted now.
    pub force: bool,
    /// Asked to be forwarded as it is.
    pub observe: bool,
    /// It was sent already: only find out what there is to know.
    pub sent: bool,
    /// Its id, for log lines.
    pub id: String,
    /// What the policy's expression may know of it.
    pub request: RequestFacts,
    /// What the policy's webhooks answered so far.
    pub answers: Vec<WebhookAnswer>,
    /// For whom summaries are made, where the policy wants any.
    pub occasion: Option<Arc<SummaryOrigin>>,
    /// Whether a step may still ask for a summary and wait for it.
    pub may_ask: bool,
    /// Usage that it brings along.
    pub prior: Option<PriorUsage>,
    /// The upstream refused it as too long: prompt tokens that it has at least.
    pub overflow: Option<u64>,
    /// A window that is assumed for this one time.
    pub narrowed: Option<u64>,
}

impl PlanRequest {
    fn encoding(&self) -> Encoding {
        Encoding::for_model(self.model.as_deref().unwrap_or_default())
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Planned {
    /// For the record and the headers.
    pub decision: Decision,
    /// The body to send; the client's when there is none.
    pub body: Option<Vec<Bytes>>,
    /// The policy refuses the request because it does not fit.
    pub refused: bool,
    /// The summary that is worth preparing now.
    pub due: Option<PendingSummary>,
    /// Time spent waiting for others.
    pub waited: Duration,
}

/// What one run of thinking comes to.
enum PlanOutcome {
    Planned(Box<Planned>),
    /// It cannot go on without an answer to this.
    Asks(Box<Need>),
}

/// Why thinking failed; the label of `baler_fail_open_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// A panic: a defect.
    #[error("thinking panicked")]
    Panic,
    /// Longer than `limits.plan_timeout`.
    #[error("thinking took too long")]
    Deadline,
    /// The result was not a valid chat: a defect of a strategy.
    #[error("the result is not valid")]
    Invalid,
}

impl Failure {
    /// Label value.
    #[must_use]
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Failure::Panic => "panic",
            Failure::Deadline => "deadline",
            Failure::Invalid => "invalid_result",
        }
    }
}

/// Thinks about a request, and asks the policy's webhooks, or waits for a summary, where its ladder wants that.
///
/// # Errors
/// [`Failure`]: the client's bytes are to be forwarded, or the request refused, as the policy says.
pub(super) async fn ask(
    proxy: &Arc<Proxy>,
    worker: usize,
    mut request: PlanRequest,
) -> Result<Planned, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let asked = match conclude_within(proxy, request.clone()).await? {
            PlanOutcome::Planned(thought) => return Ok(Planned { waited, ..*thought }),
            PlanOutcome::Asks(asked) => asked,
        };
        let policy = proxy
            .config
            .policies
            .get(request.policy)
            .ok_or(Failure::Panic)?;
        let began = Instant::now();
        // Each is asked once, so that this comes to an end.
        match *asked {
            Need::Webhook(asked) => {
                let (Some(webhook), Some(answer)) = (
                    policy.webhooks().nth(asked.webhook),
                    request.answers.get_mut(asked.webhook),
                ) else {
                    return Err(Failure::Panic);
                };
                let upstream = proxy.upstreams.get(worker).ok_or(Failure::Panic)?;
                *answer = webhook::ask(
                    upstream,
                    webhook,
                    &policy.name,
                    request.model.as_deref(),
                    &asked,
                    &proxy.metrics,
                )
                .await;
            }
            Need::Summary(due) => {
                request.may_ask = false;
                let wait = policy
                    .summarize()
                    .map(|(_, options)| options.wait)
                    .unwrap_or_default();
                let running = request
                    .occasion
                    .as_ref()
                    .and_then(|occasion| proxy.prepare(worker, request.policy, &due, occasion));
                if let Some(mut running) = running {
                    // Over is over, with a summary or without; the second run sees which.
                    let _ = tokio::time::timeout(wait, running.changed()).await;
                }
            }
        }
        waited += began.elapsed();
    }
}

/// One run, within the deadline.
async fn conclude_within(proxy: &Arc<Proxy>, request: PlanRequest) -> Result<PlanOutcome, Failure> {
    let cancel = Arc::new(Cancel::default());
    if request.body.len() <= INLINE_BYTES && request.encoding().is_loaded() {
        return guarded(|| answer(proxy, &request, &cancel));
    }
    let thinking = {
        let (proxy, cancel) = (Arc::clone(proxy), Arc::clone(&cancel));
        tokio::task::spawn_blocking(move || guarded(|| answer(&proxy, &request, &cancel)))
    };
    // Whoever stops waiting (deadline, or the client left and this future was dropped) stops the work.
    let _stop = StopOnDrop(cancel);
    match tokio::time::timeout(proxy.config.limits.plan_timeout, thinking).await {
        Ok(Ok(thought)) => thought,
        Ok(Err(_)) => Err(Failure::Panic),
        Err(_) => Err(Failure::Deadline),
    }
}

struct StopOnDrop(Arc<Cancel>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Turns a panic into a failure like any other.
fn guarded<T>(think: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // INVARIANT: nothing that is shared is left half-changed by a panic in here; the ledger's caches are written whole.
    catch_unwind(AssertUnwindSafe(think)).unwrap_or(Err(Failure::Panic))
}

/// Plans for one request: DESIGN.md 4, steps 5 to 8. What the ledger knows is fetched in two steps, all keys at once.
fn answer(proxy: &Proxy, request: &PlanRequest, cancel: &Cancel) -> Result<PlanOutcome, Failure> {
    let Some(policy) = proxy.config.policies.get(request.policy) else {
        return Err(Failure::Panic);
    };
    let pass = |reason| Ok(PlanOutcome::Planned(Box::new(passed(request, reason))));
    let mut clock = Clock::start(proxy);

    let outline = match request.dialect.outline(&request.body) {
        Ok(outline) => outline,
        Err(unreadable) => return pass(unreadable.as_str()),
    };
    clock.lap(Phase::View);
    let (dialect, encoding) = (request.dialect, request.encoding());
    let counting = Counting {
        encoding,
        message: &|raw| proxy.ledger.measures.measure(dialect, raw, encoding),
        fixed: &|outline| {
            proxy
                .ledger
                .measures
                .fixed_tokens(dialect, outline, encoding)
        },
    };
    let session = match Session::open(dialect, outline, &counting, cancel) {
        Ok(session) => session,
        Err(NotPlanned::Unreadable(unreadable)) => return pass(unreadable.as_str()),
        Err(NotPlanned::Cancelled(_)) => return Err(Failure::Deadline),
    };
    clock.lap(Phase::Measure);

    let model = (request.model.as_deref(), request.window);
    let seeds = Seeds {
        checkpoint: checkpoint_seed(proxy, request, policy, request.window),
        usage: usage_seed(proxy, request, session.outline()),
    };
    let planner = Planner::new(policy, model, &request.request, seeds, cancel);
    let live = LiveFacts {
        max_output_tokens: session.outline().max_output_tokens,
        force: request.force,
        learned: learned(proxy, request),
        prior: request.prior,
        overflow: request.overflow,
    };
    let usage = |keys: &[UsageKey]| proxy.ledger.known_usage(keys, policy.idle.is_some());
    if request.sent {
        let keys = planner.usage_keys(&session);
        let known = planner.assess(&session, (&keys, &usage(&keys)), &live);
        let mut planned = passed(request, "gate");
        planned.decision.sizes = Some([known.size; 2]);
        planned.decision.budget = Some(known.budget);
        planned.decision.estimate = Some(known.estimate);
        return Ok(PlanOutcome::Planned(Box::new(planned)));
    }

    let checkpoint = proxy
        .ledger
        .longest_checkpoint(&session.checkpoint_keys(&seeds.checkpoint));
    let summaries = summaries(proxy, request, policy, &session);
    let external = ExternalInputs {
        answers: &request.answers,
        summaries: summaries.as_ref(),
    };
    let plan = planner
        .derive(&session, checkpoint, &external)
        .and_then(|derived| {
            let keys = derived.usage_keys(&planner, &session);
            planner.decide(&session, derived, (&keys, &usage(&keys)), &external, live)
        });
    let plan = match plan {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(Failure::Deadline),
        Err(Stopped::Invalid) => return Err(Failure::Invalid),
        Err(Stopped::Asks(need)) => return Ok(PlanOutcome::Asks(need)),
    };
    clock.lap(Phase::Decide);

    let planned = conclude(proxy, request, policy, &session, plan, seeds);
    clock.lap(Phase::Render);
    Ok(PlanOutcome::Planned(Box::new(planned)))
}

/// A request that is forwarded as it came, for this reason.
fn passed(request: &PlanRequest, reason: &'static str) -> Planned {
    Planned {
        decision: Decision::without_a_look(Action::None, reason, request.window),
        body: None,
        refused: false,
        due: None,
        waited: Duration::ZERO,
    }
}

/// The summaries that exist for prefixes of the request, where its policy wants any.
fn summaries(
    proxy: &Proxy,
    request: &PlanRequest,
    policy: &Policy,
    session: &Session<'_>,
) -> Option<Summaries> {
    request.occasion.as_ref()?;
    let keys = session.summary_keys(&proxy.summarizer.seed(request.dialect, &request.tenant, &policy.identity));
    let states = keys
        .iter()
        .map(|key| proxy.summarizer.state(&proxy.ledger, key))
        .collect();
    Some(Summaries::new(keys, states, request.may_ask))
}

/// What is known of the model.
fn learned(proxy: &Proxy, request: &PlanRequest) -> ModelCalibration {
    let known = proxy.ledger.learned(&request.model_key);
    ModelCalibration {
        window: [known.window, request.narrowed].into_iter().flatten().min(),
        ..known
    }
}

/// Records and renders a plan.
fn conclude(
    proxy: &Proxy,
    request: &PlanRequest,
    policy: &Policy,
    session: &Session<'_>,
    plan: Plan,
    seeds: Seeds,
) -> Planned {
    let observe = request.observe || policy.delivery.mode == Mode::Observe;
    if plan.replayed {
        &proxy.metrics.checkpoint_hits
    } else {
        &proxy.metrics.checkpoint_misses
    }
    .inc();
    if let Some(compaction) = &plan.compaction {
        compaction_happened(
            &proxy.metrics,
            &request.id,
            &policy.name,
            compaction.reason,
            &compaction.reports,
        );
    }
    proxy.metrics.trigger_errors.inc_by(plan.trigger_errors);
    let is_broken = plan.deferred == Some(Deferred::BrokenPairing);
    let unfit = !plan.fits && !is_broken;
    if unfit {
        proxy.metrics.unfit.inc();
    }
    let decision = decision(&plan, observe, session, seeds);
    let refused = unfit && policy.delivery.on_unfit == OnUnfit::Reject && !observe;
    let edited = plan.edited() && !observe;
    let body = edited.then(|| pieces(&request.body, &session.render(&plan.edits)));
    if let Some((prefix, checkpoint)) = plan.checkpoint {
        let budget = policy.budget(request.window);
        if gate::nothing_can_trigger(request.dialect, &request.body, policy, &budget, 1.0) {
            proxy.ledger.never_gate(seeds.checkpoint);
        }
        proxy.ledger.keep_checkpoint(prefix, checkpoint);
    }
    Planned {
        decision,
        body,
        refused,
        due: plan.pending_summary,
        waited: Duration::ZERO,
    }
}

/// The decision that a plan amounts to, for the record and the headers.
fn decision(plan: &Plan, observe: bool, session: &Session<'_>, seeds: Seeds) -> Decision {
    let trigger = plan
        .compaction
        .as_ref()
        .map(|compaction| compaction.reason.as_str());
    let (action, reason) = if !plan.edited() {
        let reason = match plan.deferred {
            Some(Deferred::BrokenPairing) => Deferred::BrokenPairing.as_str(),
            _ if !plan.fits => "unfit",
            Some(deferred) => deferred.as_str(),
            None => "below_trigger",
        };
        (Action::None, reason)
    } else if observe {
        (Action::Observed, trigger.unwrap_or("checkpoint"))
    } else if let Some(trigger) = trigger {
        (Action::Compacted, trigger)
    } else {
        (Action::Replayed, "checkpoint")
    };
    let reports = plan
        .compaction
        .iter()
        .flat_map(|compaction| &compaction.reports);
    // A request that is only observed is sent as it came: its usage is that of another list.
    let estimate = if observe {
        UsageEstimate::of_all(&seeds.usage, session.measures(), session.fixed_tokens())
    } else {
        plan.estimate
    };
    Decision {
        action,
        reason,
        sizes: Some([plan.before, plan.after]),
        budget: Some(plan.budget),
        window: plan.budget.window,
        estimate: Some(estimate),
        strategies: reports
            .filter(|report| report.acted())
            .map(|report| report.strategy)
            .collect(),
    }
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

/// The first link of the chain of checkpoints: who asks, whom, under which policy and window.
pub(super) fn checkpoint_seed(
    proxy: &Proxy,
    request: &PlanRequest,
    policy: &Policy,
    window: u64,
) -> Fingerprint {
    let model = request.model.as_deref();
    // What else a derived decision stands on: what is known of the model, and its name where an expression may read it.
    let family = policy.family_for(model);
    let prices = policy
        .prices_for(model)
        .map(|prices| [prices.cache_read, prices.cache_write].map(f64::to_bits));
    let known = format!(
        "{family:?} {prices:?} {}",
        policy.when.as_ref().and(model).unwrap_or_default()
    );
    Fingerprint::of_parts(&[
        b"checkpoint",
        request.dialect.as_str().as_bytes(),
        &request.tenant.0,
        proxy.upstream_identity.as_bytes(),
        &policy.identity.0,
        &window.to_le_bytes(),
        known.as_bytes(),
    ])
}

/// What an upstream teaches about a model belongs to this: who asks where, and the model's name. Azure's stands in the
/// path. Tenants learn on their own: an error may quote what one of them wrote, and must not narrow another's window.
pub(super) fn model_key(
    proxy: &Proxy,
    dialect: Dialect,
    tenant: &Fingerprint,
    path: &str,
    model: Option<&str>,
) -> Fingerprint {
    let upstream = proxy.upstream_identity.as_bytes();
    Fingerprint::of_parts(&[
        b"model",
        dialect.as_str().as_bytes(),
        &tenant.0,
        upstream,
        path.as_bytes(),
        model.unwrap_or_default().as_bytes(),
    ])
}

/// The first link of the chain of reported usage: who asks, whom, for which model, and what else is in the prompt.
fn usage_seed(proxy: &Proxy, request: &PlanRequest, chat: &Outline<'_>) -> Fingerprint {
    let model = request.model.as_deref().unwrap_or_default();
    let mut parts: Vec<&[u8]> = vec![
        b"usage",
        request.dialect.as_str().as_bytes(),
        &request.tenant.0,
        proxy.upstream_identity.as_bytes(),
        request.path.as_bytes(),
        model.as_bytes(),
    ];
    // Without the choice among tools: clients change it from turn to turn, and it costs next to nothing.
    parts.extend(
        [
            chat.fixed.tools,
            chat.fixed.functions,
            chat.fixed.response_format,
        ]
        .map(|part| part.unwrap_or_default().as_bytes()),
    );
    Fingerprint::of_parts(&parts)
}

/// Takes the time of each phase; written down once a request, at the end.
struct Clock<'p> {
    proxy: &'p Proxy,
    last: Instant,
    laps: Vec<(Phase, Duration)>,
}

impl<'p> Clock<'p> {
    fn start(proxy: &'p Proxy) -> Self {
        Clock {
            proxy,
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
        for (phase, time) in &self.laps {
            self.proxy.metrics.spent(*phase, *time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use super::guarded;

    #[test]
    fn a_panic_is_a_failure_like_any_other() {
        let failed: Result<(), Failure> = guarded(|| panic!("a defect"));
        assert_eq!(failed, Err(Failure::Panic));
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }
}
