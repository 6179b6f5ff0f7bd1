//! Runs the core for one request: off the event loop when it may take long, within a deadline, and never taking the
//! request down with it.

use crate::core::policy::RequestFacts;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::conversation::Fingerprint;
use crate::core::conversation::Measure;
use crate::core::conversation::group;
use crate::core::edit::MeasuredConversation;
use crate::core::edit::{Piece, render, validate};
use crate::core::planner::{
    LiveFacts, Lookup, ModelCalibration, Plan, PlanInput, PriorUsage, Seeds, UsageEstimate, assess,
    plan,
};
use crate::core::policy::{Mode, OnUnfit, Policy};
use crate::core::strategy::{ExternalInputs, Need, Stopped, WebhookAnswer};
use crate::core::summary::{PendingSummary, Summaries};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::core::wire::chat::{Chat, Outline};
use crate::core::{Cancel, Cancelled};
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
                    policy.webhooks.get(asked.webhook),
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

fn answer(proxy: &Proxy, request: &PlanRequest, cancel: &Cancel) -> Result<PlanOutcome, Failure> {
    let Some(policy) = proxy.config.policies.get(request.policy) else {
        return Err(Failure::Panic);
    };
    let model = request.model.as_deref();
    let window = request.window;
    let passed = |reason| Planned {
        decision: Decision::without_a_look(Action::None, reason, window),
        body: None,
        refused: false,
        due: None,
        waited: Duration::ZERO,
    };
    let pass = |reason| PlanOutcome::Planned(Box::new(passed(reason)));
    let mut clock = Clock::start(proxy);

    let outline = match Outline::parse(&request.body) {
        Ok(outline) => outline,
        Err(unreadable) => return Ok(pass(unreadable.as_str())),
    };
    clock.lap(Phase::View);
    let encoding = request.encoding();
    let mut measures: Vec<Measure> = Vec::with_capacity(outline.messages.len());
    for raw in &outline.messages {
        cancel.check().map_err(|Cancelled| Failure::Deadline)?;
        match proxy.ledger.measure(raw, encoding) {
            Ok(measure) => measures.push(measure),
            Err(unreadable) => return Ok(pass(unreadable.as_str())),
        }
    }
    let fixed_tokens = proxy.ledger.fixed_tokens(&outline, encoding);
    clock.lap(Phase::Measure);

    let state = |prefix: &Fingerprint| proxy.summarizer.state(&proxy.ledger, prefix);
    let summaries = request.occasion.as_ref().map(|_| {
        let seed = proxy
            .summarizer
            .seed(request.dialect, &request.tenant, &policy.identity);
        Summaries::new(&measures, seed, &state, request.may_ask)
    });
    let input = PlanInput {
        window,
        prices: policy.prices_for(model),
        request: &request.request,
        outside: ExternalInputs {
            answers: &request.answers,
            summaries: summaries.as_ref(),
        },
        now: LiveFacts {
            max_output_tokens: outline.max_output_tokens,
            force: request.force,
            learned: learned(proxy, request),
            prior: request.prior,
            overflow: request.overflow,
        },
    };
    let lookup = Lookup {
        checkpoint: &|prefix| proxy.ledger.checkpoint(prefix),
        usage: &|list| proxy.ledger.usage(list),
        silence: &|list| policy.idle.and_then(|_| proxy.ledger.silence(list)),
    };
    let seeds = Seeds {
        checkpoint: checkpoint_seed(proxy, request, policy, window),
        usage: usage_seed(proxy, request, &outline),
    };
    if request.sent {
        let known = assess(&measures, fixed_tokens, policy, input, seeds.usage, &lookup);
        let mut thought = passed("gate");
        thought.decision.sizes = Some([known.size; 2]);
        thought.decision.budget = Some(known.budget);
        thought.decision.estimate = Some(known.estimate);
        return Ok(PlanOutcome::Planned(Box::new(thought)));
    }

    let chat = match outline.view() {
        Ok(chat) => chat,
        Err(unreadable) => return Ok(pass(unreadable.as_str())),
    };
    let Ok(exchanges) = group(&chat.messages) else {
        return Ok(pass("broken_pairing"));
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
        Err(Stopped::Cancelled) => return Err(Failure::Deadline),
        Err(Stopped::Asks(asked)) => return Ok(PlanOutcome::Asks(asked)),
    };
    clock.lap(Phase::Decide);

    let observe = request.observe || policy.mode == Mode::Observe;
    let mut thought = conclude(proxy, request, policy, observe, &chat, plan, seeds)?;
    if observe {
        // What is observed only is sent as it came: its usage is that of another list.
        thought.decision.estimate =
            Some(UsageEstimate::of_all(&seeds.usage, &measures, fixed_tokens));
    }
    clock.lap(Phase::Render);
    Ok(PlanOutcome::Planned(Box::new(thought)))
}

/// What is known of the model.
fn learned(proxy: &Proxy, request: &PlanRequest) -> ModelCalibration {
    let known = proxy.ledger.learned(&request.model_key);
    ModelCalibration {
        window: [known.window, request.narrowed].into_iter().flatten().min(),
        ..known
    }
}

/// Validates, records and renders a plan.
fn conclude(
    proxy: &Proxy,
    request: &PlanRequest,
    policy: &Policy,
    observe: bool,
    chat: &Chat<'_>,
    plan: Plan,
    seeds: Seeds,
) -> Result<Planned, Failure> {
    if plan.edited() {
        validate(&chat.messages, &plan.edits).map_err(|_| Failure::Invalid)?;
    }
    if plan.replayed {
        &proxy.metrics.checkpoint_hits
    } else {
        &proxy.metrics.checkpoint_misses
    }
    .inc();
    let (action, reason) = match &plan.compaction {
        _ if !plan.edited() => (Action::None, "below_trigger"),
        _ if observe => (
            Action::Observed,
            plan.compaction
                .as_ref()
                .map_or("checkpoint", |compaction| compaction.reason.as_str()),
        ),
        Some(compaction) => (Action::Compacted, compaction.reason.as_str()),
        None => (Action::Replayed, "checkpoint"),
    };
    if let Some(compaction) = &plan.compaction {
        compaction_happened(
            &proxy.metrics,
            &request.id,
            &policy.name,
            compaction.reason,
            &compaction.reports,
        );
    }
    let reason = match (action, plan.deferred) {
        (Action::None, _) if !plan.fits => "unfit",
        (Action::None, Some(deferred)) => deferred.as_str(),
        _ => reason,
    };
    proxy.metrics.trigger_errors.inc_by(plan.trigger_errors);
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
        proxy.metrics.unfit.inc();
    }
    let decision = Decision {
        action,
        reason,
        sizes: Some([plan.before, plan.after]),
        budget: Some(plan.budget),
        window: plan.budget.window,
        estimate: Some(plan.estimate),
        strategies,
    };
    let refused = !plan.fits && policy.on_unfit == OnUnfit::Reject && !observe;
    let body =
        (plan.edited() && !observe).then(|| pieces(&request.body, &render(chat, &plan.edits)));
    if let Some((prefix, checkpoint)) = plan.record {
        if crate::core::planner::gate::nothing_can_trigger(
            request.dialect,
            &request.body,
            policy,
            &policy.budget(request.window),
            1.0,
        ) {
            proxy.ledger.never_gate(seeds.checkpoint);
        }
        proxy.ledger.keep_checkpoint(prefix, checkpoint);
    }
    Ok(Planned {
        decision,
        body,
        refused,
        due: plan.due,
        waited: Duration::ZERO,
    })
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
