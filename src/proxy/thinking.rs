//! Runs the core for one request: off the event loop when it may take long, within a deadline, and never taking the
//! request down with it.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Proxy;
use super::context::Finding;
use crate::core::chat::{Chat, Outline, group};
use crate::core::digest::Digest;
use crate::core::draft::Subject;
use crate::core::policy::{Mode, OnUnfit, Policy};
use crate::core::render::{Piece, render, validate};
use crate::core::strategy::{Answer, Asked, Outside, Stopped};
use crate::core::summary::{Due, Summaries};
use crate::core::think::{Circumstances, Known, Learned, Lookup, Moment, Plan, Prior, Seeds, assess, think};
use crate::core::tokens::{Encoding, Measure};
use crate::core::when;
use crate::core::{Cancel, Cancelled};
use crate::observe::{Action, Phase, compaction_happened};
use crate::summarizer::Occasion;
use crate::webhook;

/// A body up to this length is thought about where it is; a longer one on a thread for such work.
const INLINE_BYTES: usize = 64 * 1_024;

/// One request as thinking sees it.
#[derive(Debug, Clone)]
pub(super) struct Question {
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
    pub tenant: Digest,
    /// What the upstream taught about the model is kept under this.
    pub model_key: Digest,
    /// Asked to be compacted now.
    pub force: bool,
    /// Asked to be forwarded as it is.
    pub observe: bool,
    /// It was sent already: only find out what there is to know.
    pub sent: bool,
    /// Its id, for log lines.
    pub id: String,
    /// What the policy's expression may know of it.
    pub request: when::Request,
    /// What the policy's webhooks answered so far.
    pub answers: Vec<Answer>,
    /// For whom summaries are made, where the policy wants any.
    pub occasion: Option<Arc<Occasion>>,
    /// Whether a step may still ask for a summary and wait for it.
    pub may_ask: bool,
    /// Usage that it brings along.
    pub prior: Option<Prior>,
    /// The upstream refused it as too long: prompt tokens that it has at least.
    pub overflow: Option<u64>,
    /// A window that is assumed for this one time.
    pub narrowed: Option<u64>,
}

impl Question {
    fn encoding(&self) -> Encoding {
        Encoding::for_model(self.model.as_deref().unwrap_or_default())
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Thought {
    /// For the record and the headers.
    pub finding: Finding,
    /// The body to send; the client's when there is none.
    pub body: Option<Vec<Bytes>>,
    /// The policy refuses the request because it does not fit.
    pub refused: bool,
    /// The summary that is worth preparing now.
    pub due: Option<Due>,
    /// Time spent waiting for others.
    pub waited: Duration,
}

/// What one run of thinking comes to.
enum Conclusion {
    Thought(Box<Thought>),
    /// It cannot go on without an answer to this.
    Asks(Box<Asked>),
}

/// Why thinking failed; the label of `baler_fail_open_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// A panic: a defect.
    #[error("thinking panicked")]
    Panic,
    /// Longer than `limits.think_timeout`.
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
pub(super) async fn ask(proxy: &Arc<Proxy>, worker: usize, mut question: Question) -> Result<Thought, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let asked = match conclude_within(proxy, question.clone()).await? {
            Conclusion::Thought(thought) => return Ok(Thought { waited, ..*thought }),
            Conclusion::Asks(asked) => asked,
        };
        let policy = proxy.config.policies.get(question.policy).ok_or(Failure::Panic)?;
        let began = Instant::now();
        // Each is asked once, so that this comes to an end.
        match *asked {
            Asked::Webhook(asked) => {
                let (Some(webhook), Some(answer)) = (policy.webhooks.get(asked.webhook), question.answers.get_mut(asked.webhook)) else {
                    return Err(Failure::Panic);
                };
                let upstream = proxy.upstreams.get(worker).ok_or(Failure::Panic)?;
                *answer = webhook::ask(upstream, webhook, &policy.name, question.model.as_deref(), &asked, &proxy.metrics).await;
            }
            Asked::Summary(due) => {
                question.may_ask = false;
                let wait = policy.summarize().map(|(_, options)| options.wait).unwrap_or_default();
                let running = question.occasion.as_ref().and_then(|occasion| proxy.prepare(worker, question.policy, &due, occasion));
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
async fn conclude_within(proxy: &Arc<Proxy>, question: Question) -> Result<Conclusion, Failure> {
    let cancel = Arc::new(Cancel::default());
    if question.body.len() <= INLINE_BYTES && question.encoding().is_loaded() {
        return guarded(|| answer(proxy, &question, &cancel));
    }
    let thinking = {
        let (proxy, cancel) = (Arc::clone(proxy), Arc::clone(&cancel));
        tokio::task::spawn_blocking(move || guarded(|| answer(&proxy, &question, &cancel)))
    };
    // Whoever stops waiting (deadline, or the client left and this future was dropped) stops the work.
    let _stop = StopOnDrop(cancel);
    match tokio::time::timeout(proxy.config.limits.think_timeout, thinking).await {
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

fn answer(proxy: &Proxy, question: &Question, cancel: &Cancel) -> Result<Conclusion, Failure> {
    let Some(policy) = proxy.config.policies.get(question.policy) else { return Err(Failure::Panic) };
    let model = question.model.as_deref();
    let window = question.window;
    let passed = |reason| Thought {
        finding: Finding::without_a_look(Action::None, reason, window),
        body: None,
        refused: false,
        due: None,
        waited: Duration::ZERO,
    };
    let pass = |reason| Conclusion::Thought(Box::new(passed(reason)));
    let mut clock = Clock::start(proxy);

    let outline = match Outline::parse(&question.body) {
        Ok(outline) => outline,
        Err(unreadable) => return Ok(pass(unreadable.as_str())),
    };
    clock.lap(Phase::View);
    let encoding = question.encoding();
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

    let state = |prefix: &Digest| proxy.summarizer.state(&proxy.ledger, prefix);
    let summaries = question.occasion.as_ref().map(|_| {
        let seed = proxy.summarizer.seed(&question.tenant, &policy.identity);
        Summaries::new(&measures, seed, &state, question.may_ask)
    });
    let circumstances = Circumstances {
        window,
        prices: policy.prices_for(model),
        request: &question.request,
        outside: Outside { answers: &question.answers, summaries: summaries.as_ref() },
        now: Moment {
            max_output_tokens: outline.max_output_tokens,
            force: question.force,
            learned: learned(proxy, question),
            prior: question.prior,
            overflow: question.overflow,
        },
    };
    let lookup = Lookup {
        checkpoint: &|prefix| proxy.ledger.checkpoint(prefix),
        usage: &|list| proxy.ledger.usage(list),
        silence: &|list| policy.idle.and_then(|_| proxy.ledger.silence(list)),
    };
    let seeds = Seeds { checkpoint: checkpoint_seed(proxy, question, policy, window), usage: usage_seed(proxy, question, &outline) };
    if question.sent {
        let known = assess(&measures, fixed_tokens, policy, circumstances, seeds.usage, &lookup);
        let mut thought = passed("gate");
        thought.finding.sizes = Some([known.size; 2]);
        thought.finding.budget = Some(known.budget);
        thought.finding.estimate = Some(known.estimate);
        return Ok(Conclusion::Thought(Box::new(thought)));
    }

    let chat = match outline.view() {
        Ok(chat) => chat,
        Err(unreadable) => return Ok(pass(unreadable.as_str())),
    };
    let Ok(exchanges) = group(&chat.messages) else { return Ok(pass("broken_pairing")) };
    let subject = Subject {
        messages: &chat.messages,
        measures: &measures,
        exchanges: &exchanges,
        fixed_tokens,
        encoding,
        family: policy.family_for(model),
    };
    clock.lap(Phase::View);
    let plan = match think(&subject, policy, circumstances, seeds, &lookup, cancel) {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(Failure::Deadline),
        Err(Stopped::Asks(asked)) => return Ok(Conclusion::Asks(asked)),
    };
    clock.lap(Phase::Decide);

    let observe = question.observe || policy.mode == Mode::Observe;
    let mut thought = conclude(proxy, question, policy, observe, &chat, plan, seeds)?;
    if observe {
        // What is observed only is sent as it came: its usage is that of another list.
        thought.finding.estimate = Some(Known::of_all(&seeds.usage, &measures, fixed_tokens));
    }
    clock.lap(Phase::Render);
    Ok(Conclusion::Thought(Box::new(thought)))
}

/// What is known of the model.
fn learned(proxy: &Proxy, question: &Question) -> Learned {
    let known = proxy.ledger.learned(&question.model_key);
    Learned { window: [known.window, question.narrowed].into_iter().flatten().min(), ..known }
}

/// Validates, records and renders a plan.
fn conclude(
    proxy: &Proxy,
    question: &Question,
    policy: &Policy,
    observe: bool,
    chat: &Chat<'_>,
    plan: Plan,
    seeds: Seeds,
) -> Result<Thought, Failure> {
    if plan.edited() {
        validate(&chat.messages, &plan.edits).map_err(|_| Failure::Invalid)?;
    }
    if plan.replayed { &proxy.metrics.checkpoint_hits } else { &proxy.metrics.checkpoint_misses }.inc();
    let (action, reason) = match &plan.compaction {
        _ if !plan.edited() => (Action::None, "below_trigger"),
        _ if observe => (Action::Observed, plan.compaction.as_ref().map_or("checkpoint", |compaction| compaction.reason.as_str())),
        Some(compaction) => (Action::Compacted, compaction.reason.as_str()),
        None => (Action::Replayed, "checkpoint"),
    };
    if let Some(compaction) = &plan.compaction {
        compaction_happened(&proxy.metrics, &question.id, &policy.name, compaction.reason, &compaction.reports);
    }
    let reason = match (action, plan.held_back) {
        (Action::None, _) if !plan.fits => "unfit",
        (Action::None, Some(held_back)) => held_back.as_str(),
        _ => reason,
    };
    proxy.metrics.trigger_errors.inc_by(plan.trigger_errors);
    let strategies = match &plan.compaction {
        Some(compaction) => compaction.reports.iter().filter(|report| report.acted()).map(|report| report.strategy).collect(),
        None => Vec::new(),
    };
    if !plan.fits {
        proxy.metrics.unfit.inc();
    }
    let finding = Finding {
        action,
        reason,
        sizes: Some([plan.before, plan.after]),
        budget: Some(plan.budget),
        window: plan.budget.window,
        estimate: Some(plan.estimate),
        strategies,
    };
    let refused = !plan.fits && policy.on_unfit == OnUnfit::Reject && !observe;
    let body = (plan.edited() && !observe).then(|| pieces(&question.body, &render(chat, &plan.edits)));
    if let Some((prefix, checkpoint)) = plan.record {
        if crate::core::gate::nothing_can_trigger(&question.body, policy, &policy.budget(question.window), 1.0) {
            proxy.ledger.never_gate(seeds.checkpoint);
        }
        proxy.ledger.keep_checkpoint(prefix, checkpoint);
    }
    Ok(Thought { finding, body, refused, due: plan.due, waited: Duration::ZERO })
}

/// The pieces as slices of the client's body and new bytes.
fn pieces(body: &Bytes, pieces: &[Piece]) -> Vec<Bytes> {
    let slice =
        |range: &Range<usize>| if range.end <= body.len() && range.start <= range.end { body.slice(range.clone()) } else { Bytes::new() };
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
pub(super) fn checkpoint_seed(proxy: &Proxy, question: &Question, policy: &Policy, window: u64) -> Digest {
    let model = question.model.as_deref();
    // What else a derived decision stands on: what is known of the model, and its name where an expression may read it.
    let family = policy.family_for(model);
    let prices = policy.prices_for(model).map(|prices| [prices.cache_read, prices.cache_write].map(f64::to_bits));
    let known = format!("{family:?} {prices:?} {}", policy.when.as_ref().and(model).unwrap_or_default());
    Digest::of_parts(&[
        b"checkpoint",
        &question.tenant.0,
        proxy.upstream_identity.as_bytes(),
        &policy.identity.0,
        &window.to_le_bytes(),
        known.as_bytes(),
    ])
}

/// What an upstream teaches about a model belongs to this: who asks where, and the model's name. Azure's stands in the
/// path. Tenants learn on their own: an error may quote what one of them wrote, and must not narrow another's window.
pub(super) fn model_key(proxy: &Proxy, tenant: &Digest, path: &str, model: Option<&str>) -> Digest {
    let upstream = proxy.upstream_identity.as_bytes();
    Digest::of_parts(&[b"model", &tenant.0, upstream, path.as_bytes(), model.unwrap_or_default().as_bytes()])
}

/// The first link of the chain of reported usage: who asks, whom, for which model, and what else is in the prompt.
fn usage_seed(proxy: &Proxy, question: &Question, chat: &Outline<'_>) -> Digest {
    let model = question.model.as_deref().unwrap_or_default();
    let mut parts: Vec<&[u8]> =
        vec![b"usage", &question.tenant.0, proxy.upstream_identity.as_bytes(), question.path.as_bytes(), model.as_bytes()];
    // Without the choice among tools: clients change it from turn to turn, and it costs next to nothing.
    parts.extend([chat.fixed.tools, chat.fixed.functions, chat.fixed.response_format].map(|part| part.unwrap_or_default().as_bytes()));
    Digest::of_parts(&parts)
}

/// Takes the time of each phase; written down once a request, at the end.
struct Clock<'p> {
    proxy: &'p Proxy,
    last: Instant,
    laps: Vec<(Phase, Duration)>,
}

impl<'p> Clock<'p> {
    fn start(proxy: &'p Proxy) -> Self {
        Clock { proxy, last: Instant::now(), laps: Vec::with_capacity(4) }
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
    use super::{Failure, guarded};

    #[test]
    fn a_panic_is_a_failure_like_any_other() {
        let failed: Result<(), Failure> = guarded(|| panic!("a defect"));
        assert_eq!(failed, Err(Failure::Panic));
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }
}
