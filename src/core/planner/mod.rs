//! From a request and what the ledger knows to a plan: replay, estimate, decide, compact.
//!
//! ```text
//! mod        one request, from start to plan
//! derive     what any replica decides again
//! estimate   how large a list is for the upstream
//! compact    one compaction, and whether it is worth it
//! prior      usage that a client brings along, as text
//! ```
//!
//! Decisions come in two kinds. *Derived* ones depend on the policy and the messages alone: every assistant message in
//! the history was once a request, so walking those request points from the start (or from the last checkpoint) gives
//! the same edits in every replica, with or without a ledger. *Forced* ones depend on what only this moment knows:
//! usage that the upstream reported, how it counts and what it refused, the request's own `max_tokens`, a header. They can add a compaction, never
//! prevent one, and are found again only through the ledger.

mod compact;
mod derive;
mod estimate;
pub mod gate;
mod prior_usage;

use std::sync::Arc;
use std::time::Duration;

use crate::core::Cancel;
use crate::core::budget::Budget;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::Measure;
use crate::core::conversation::{Size, scale};
use crate::core::edit::{Checkpoint, Edit};
use crate::core::edit::{Draft, MeasuredConversation, Target, size_of_edited};
use crate::core::models::Prices;
use crate::core::policy::{Condition, RequestFacts};
use crate::core::policy::{Policy, Reason};
use crate::core::strategy::{ExternalInputs, Report, Stopped};
use crate::core::summary;
use crate::core::summary::PendingSummary;

use compact::{Outcome, compact};
use derive::{Watch, checkpoint_chain, derive};
use estimate::Estimate;
pub use estimate::UsageEstimate;

/// What the ledger knows, as two look-ups.
pub struct Lookup<'a> {
    /// The checkpoint made from exactly this prefix.
    pub checkpoint: &'a dyn Fn(&Fingerprint) -> Option<Arc<Checkpoint>>,
    /// Prompt tokens that the upstream reported for exactly this list.
    pub usage: &'a dyn Fn(&Fingerprint) -> Option<u64>,
    /// Time since exactly this list was last sent.
    pub silence: &'a dyn Fn(&Fingerprint) -> Option<Duration>,
}

/// The first links of the two chains of a request.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// Of checkpoints: tenant, upstream, policy.
    pub checkpoint: Fingerprint,
    /// Of reported usage: tenant, upstream, model, and the fixed parts of the prompt.
    pub usage: Fingerprint,
}

/// One request's circumstances.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// The context length, tokens.
    pub window: u64,
    /// Prices of cached tokens, when known.
    pub prices: Option<Prices>,
    /// What a policy's expression may know of the request.
    pub request: &'a RequestFacts,
    /// What others said of the conversation.
    pub outside: ExternalInputs<'a>,
    /// What only this moment knows: it can force a compaction, and never takes part in a derived decision.
    pub now: LiveFacts,
}

/// What only one moment knows of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveFacts {
    /// The longest reply that the request asks for, tokens.
    pub max_output_tokens: Option<u64>,
    /// The request asked to be compacted now.
    pub force: bool,
    /// What the upstream taught about the model.
    pub learned: ModelCalibration,
    /// Usage that the request itself brings along.
    pub prior: Option<PriorUsage>,
    /// The upstream refused the request as too long: prompt tokens that it has at least.
    pub overflow: Option<u64>,
}

/// What an upstream taught about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelCalibration {
    /// The context length, where it said that it is narrower than thought.
    pub window: Option<u64>,
    /// Its tokens per token of ours.
    pub factor: f64,
}

impl Default for ModelCalibration {
    fn default() -> Self {
        ModelCalibration {
            window: None,
            factor: 1.0,
        }
    }
}

/// Usage that a client brings along: it was reported for the first messages of its list, as they were sent then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorUsage {
    /// Messages of the client's list that it covers.
    pub messages: usize,
    /// Prompt tokens as reported.
    pub prompt_tokens: u64,
    /// What was counted for the same, when it is told: another count is about another list.
    pub counted: Option<u64>,
}

impl PlanInput<'_> {
    /// The context length that is left of the one thought of.
    fn live_window(&self) -> u64 {
        self.now
            .learned
            .window
            .map_or(self.window, |learned| learned.min(self.window))
    }
}

/// What is to be done with a request.
#[derive(Debug)]
pub struct Plan {
    /// One per message.
    pub edits: Vec<Edit>,
    /// Whether a checkpoint of the ledger was used.
    pub replayed: bool,
    /// The last compaction that was made for this request, be it at an earlier request point that nobody had seen.
    pub compaction: Option<Compaction>,
    /// Size of the client's list.
    pub before: Size,
    /// Size of what is sent.
    pub after: Size,
    /// The numbers it was decided by.
    pub budget: Budget,
    /// Whether it fits.
    pub fits: bool,
    /// Why a compaction that a trigger asked for was not made.
    pub deferred: Option<Deferred>,
    /// Times that the policy's expression failed, and its ratio decided.
    pub trigger_errors: u64,
    /// What to keep in the ledger: the key and the checkpoint.
    pub record: Option<(Fingerprint, Checkpoint)>,
    /// How the size of what is sent was estimated.
    pub estimate: UsageEstimate,
    /// The summary that is worth preparing while the upstream thinks.
    pub due: Option<PendingSummary>,
}

/// Why a compaction was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deferred {
    /// It would save less than the policy's least gain.
    BelowMinGain,
    /// What it saves is not worth what the upstream would read anew.
    BreakEven,
}

impl Deferred {
    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Deferred::BelowMinGain => "below_min_gain",
            Deferred::BreakEven => "break_even",
        }
    }
}

/// A compaction that just happened.
#[derive(Debug)]
pub struct Compaction {
    /// What triggered it.
    pub reason: Reason,
    /// What each step did.
    pub reports: Vec<Report>,
}

impl Plan {
    /// Whether anything but the client's bytes is to be sent.
    #[must_use]
    pub fn edited(&self) -> bool {
        self.edits.iter().any(|edit| *edit != Edit::Keep)
    }
}

/// Thinks about one request.
///
/// # Errors
/// [`Stopped`] when nobody waits any more, or an answer from outside is needed first.
pub fn plan(
    conversation: &MeasuredConversation<'_>,
    policy: &Policy,
    input: PlanInput<'_>,
    seeds: Seeds,
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Plan, Stopped> {
    let prefixes = checkpoint_chain(conversation.measures, seeds.checkpoint);
    let derived = derive(conversation, policy, &input, &prefixes, lookup, cancel)?;
    let counted = size_of_edited(conversation, &derived.edits);
    let now = &input.now;
    let mut estimate = Estimate::of(
        conversation.measures,
        Some(&derived.edits),
        counted,
        conversation.fixed_tokens,
        seeds.usage,
        lookup,
        now,
    );
    let mut plan = Plan {
        before: size_of_edited(conversation, &vec![Edit::Keep; conversation.messages.len()]),
        after: estimate.size,
        budget: policy.budget_for(input.live_window(), now.max_output_tokens),
        fits: true,
        deferred: derived.deferred,
        trigger_errors: derived.trigger_errors,
        record: None,
        estimate: estimate.known,
        edits: derived.edits,
        replayed: derived.replayed,
        compaction: derived.compaction,
        due: None,
    };
    let mut made_at = derived.made_at;

    // What the walk decided by the same numbers is not decided again.
    let knows_more = estimate.size.tokens > estimate.known.counted
        || plan.budget.room < policy.budget(input.window).room;
    let cold = policy.idle.is_some_and(|idle| {
        estimate
            .silence
            .is_some_and(|silence| silence >= idle.after)
            && estimate.size.tokens >= scale(plan.budget.room, idle.ratio)
    });
    let watch = Watch {
        policy,
        input: &input,
        budget: plan.budget,
        now: true,
    };
    let fires = |plan: &mut Plan, edits: &[Edit]| {
        watch.fires(conversation, edits, estimate.size, &mut plan.trigger_errors)
    };
    let edits = std::mem::take(&mut plan.edits);
    let reason = match () {
        () if now.overflow.is_some() => Some(Reason::Overflow),
        () if now.force => Some(Reason::Forced),
        () if knows_more || policy.when.as_ref().is_some_and(Condition::reads_headers) => {
            fires(&mut plan, &edits)
        }
        () => None,
    };
    let reason = reason.or(cold.then_some(Reason::Idle));
    plan.edits = edits;
    if let Some(reason) = reason {
        // The upstream counts otherwise than we do: the goal, which is in its tokens, is put into ours.
        let counted = Budget {
            room: estimate.to_counted(plan.budget.room),
            target: estimate.to_counted(plan.budget.target),
            min_gain: estimate.to_counted(plan.budget.min_gain),
            ..plan.budget
        };
        let counted = match reason {
            // Whoever asks for it wants to see something happen.
            Reason::Forced => Budget {
                target: counted.target.min(estimate.known.counted / 2),
                ..counted
            },
            _ => counted,
        };
        match compact(
            conversation,
            policy,
            &plan.edits,
            counted,
            reason,
            &input,
            cancel,
        )? {
            Outcome::Made(compacted) => {
                plan.edits = compacted.edits;
                plan.compaction = Some(Compaction {
                    reason,
                    reports: compacted.reports,
                });
                plan.deferred = None;
                made_at = Some(conversation.messages.len());
                estimate = estimate.after_edits(conversation, &plan.edits, seeds.usage);
            }
            Outcome::Deferred(why) => plan.deferred = why.or(plan.deferred),
        }
    }

    plan.after = estimate.size;
    plan.estimate = estimate.known;
    // What the edits took away is added to what is left, so that before and after are of the same making.
    plan.before.tokens = plan.after.tokens
        + estimate.to_reported(plan.before.tokens.saturating_sub(estimate.known.counted));
    plan.fits = plan.after.tokens <= plan.budget.room;
    plan.due = due(conversation, policy, &plan, &input);
    plan.record = made_at.and_then(|at| {
        Some((
            (*prefixes.get(at)?)?,
            Checkpoint::freeze(conversation.messages, plan.edits.get(..at)?),
        ))
    });
    Ok(plan)
}

/// The summary that is to be prepared now, so that it is there when a trigger fires.
fn due(
    conversation: &MeasuredConversation<'_>,
    policy: &Policy,
    plan: &Plan,
    input: &PlanInput<'_>,
) -> Option<PendingSummary> {
    let (step, options) = policy.summarize()?;
    let summaries = input.outside.summaries?;
    let Budget { room, target, .. } = plan.budget;
    if plan.after.tokens < scale(room, options.prepare_at) {
        return None;
    }
    let goal = Target {
        target,
        room,
        messages: None,
        turns: None,
    };
    let draft = Draft::new(
        *conversation,
        plan.edits.clone(),
        &policy.pin,
        &policy.keep,
        goal,
    );
    // When it is used, the list will have grown up to the trigger.
    let now = plan.after.tokens;
    let high = policy
        .trigger
        .tokens
        .unwrap_or_else(|| scale(room, policy.trigger.ratio.unwrap_or(1.0)));
    summary::next(
        &draft,
        options,
        step.scope.older_than,
        summary::Forecast {
            budget: plan.budget,
            tokens: now.max(high),
            growth: high.saturating_sub(now),
        },
        summaries,
    )
}

/// Compacts a request at once, whatever triggers say, to at most `target` prompt tokens where that is possible.
///
/// # Errors
/// [`Stopped`], as for [`plan`].
pub fn compact_to(
    conversation: &MeasuredConversation<'_>,
    policy: &Policy,
    target: u64,
    input: &PlanInput<'_>,
    cancel: &Cancel,
) -> Result<(Vec<Edit>, Vec<Report>), Stopped> {
    let edits = vec![Edit::Keep; conversation.messages.len()];
    if size_of_edited(conversation, &edits).tokens <= target {
        return Ok((edits, Vec::new()));
    }
    let budget = Budget {
        window: target,
        room: target,
        target,
        min_gain: 0,
    };
    Ok(
        match compact(
            conversation,
            policy,
            &edits,
            budget,
            Reason::Forced,
            input,
            cancel,
        )? {
            Outcome::Made(compacted) => (compacted.edits, compacted.reports),
            Outcome::Deferred(_) => (edits, Vec::new()),
        },
    )
}

/// What there is to know about a request that was sent as it came.
#[derive(Debug, Clone, Copy)]
pub struct Assessment {
    /// Its size.
    pub size: Size,
    /// The numbers it is compared with.
    pub budget: Budget,
    /// How its size was estimated.
    pub estimate: UsageEstimate,
}

/// Assesses a request without deciding anything.
#[must_use]
pub fn assess(
    measures: &[Measure],
    fixed_tokens: u64,
    policy: &Policy,
    input: PlanInput<'_>,
    usage_seed: Fingerprint,
    lookup: &Lookup<'_>,
) -> Assessment {
    let mut counted = Size {
        tokens: fixed_tokens,
        ..Size::default()
    };
    for measure in measures {
        counted.add(measure);
    }
    let estimate = Estimate::of(
        measures,
        None,
        counted,
        fixed_tokens,
        usage_seed,
        lookup,
        &input.now,
    );
    Assessment {
        size: estimate.size,
        budget: policy.budget_for(input.live_window(), input.now.max_output_tokens),
        estimate: estimate.known,
    }
}
