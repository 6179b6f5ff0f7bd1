//! From a request and what the ledger knows to a plan: replay, estimate, decide, compact.
//!
//! Decisions come in two kinds. *Derived* ones depend on the policy and the messages alone: every assistant message in
//! the history was once a request, so walking those request points from the start (or from the last checkpoint) gives
//! the same edits in every replica, with or without a ledger. *Forced* ones depend on what only this moment knows:
//! usage that the upstream reported, the request's own `max_tokens`, a header. They can add a compaction, never
//! prevent one, and are found again only through the ledger.

use std::sync::Arc;
use std::time::Duration;

use super::Cancel;
use super::chat::Role;
use super::digest::{Chain, Digest};
use super::draft::{Draft, Goal, Subject, digests_of, size_of_edited, tokens_of};
use super::models::Prices;
use super::plan::{Checkpoint, Edit};
use super::policy::{Budget, Policy, Reason};
use super::size::{Size, as_float, ratio, scale};
use super::strategy::{Answer, Report, Stopped, descend};
use super::tokens::Measure;
use super::when::{Request, Seen, View, When};

/// What the ledger knows, as two look-ups.
pub struct Lookup<'a> {
    /// The checkpoint made from exactly this prefix.
    pub checkpoint: &'a dyn Fn(&Digest) -> Option<Arc<Checkpoint>>,
    /// Prompt tokens that the upstream reported for exactly this list.
    pub usage: &'a dyn Fn(&Digest) -> Option<u64>,
    /// Time since exactly this list was last sent.
    pub silence: &'a dyn Fn(&Digest) -> Option<Duration>,
}

/// The first links of the two chains of a request.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// Of checkpoints: tenant, upstream, policy.
    pub checkpoint: Digest,
    /// Of reported usage: tenant, upstream, model, and the fixed parts of the prompt.
    pub usage: Digest,
}

/// One request's circumstances.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The context length, tokens.
    pub window: u64,
    /// The longest reply that the request asks for, tokens.
    pub max_output_tokens: Option<u64>,
    /// The request asked to be compacted now.
    pub force: bool,
    /// Prices of cached tokens, when known.
    pub prices: Option<Prices>,
    /// What a policy's expression may know of the request.
    pub request: &'a Request,
    /// What the policy's webhooks answered.
    pub answers: &'a [Answer],
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
    pub held_back: Option<HeldBack>,
    /// Times that the policy's expression failed, and its ratio decided.
    pub trigger_errors: u64,
    /// What to keep in the ledger: the key and the checkpoint.
    pub record: Option<(Digest, Checkpoint)>,
    /// The key that the usage of what is sent is kept under.
    pub usage_key: Digest,
}

/// Why a compaction was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// It would save less than the policy's least gain.
    LittleGain,
    /// What it saves is not worth what the upstream would read anew.
    BreakEven,
}

impl HeldBack {
    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HeldBack::LittleGain => "little_gain",
            HeldBack::BreakEven => "break_even",
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
pub fn think(
    subject: &Subject<'_>,
    policy: &Policy,
    circumstances: Circumstances<'_>,
    seeds: Seeds,
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Plan, Stopped> {
    let prefixes = checkpoint_chain(subject.measures, seeds.checkpoint);
    let derived = derive(subject, policy, &circumstances, &prefixes, lookup, cancel)?;
    let counted = size_of_edited(subject, &derived.edits);
    let mut estimate = Estimate::of(subject.measures, Some(&derived.edits), counted, subject.fixed_tokens, seeds.usage, lookup);
    let mut plan = Plan {
        before: size_of_edited(subject, &vec![Edit::Keep; subject.messages.len()]),
        after: estimate.size,
        budget: policy.budget_for(circumstances.window, circumstances.max_output_tokens),
        fits: true,
        held_back: derived.held_back,
        trigger_errors: derived.trigger_errors,
        record: None,
        usage_key: estimate.key,
        edits: derived.edits,
        replayed: derived.replayed,
        compaction: derived.compaction,
    };
    let mut made_at = derived.made_at;

    // What the walk decided by the same numbers is not decided again.
    let knows_more = estimate.size.tokens > estimate.counted || plan.budget.room < policy.budget(circumstances.window).room;
    let cold = policy.idle.is_some_and(|idle| {
        estimate.silence.is_some_and(|silence| silence >= idle.after) && estimate.size.tokens >= scale(plan.budget.room, idle.ratio)
    });
    let watch = Watch { policy, circumstances: &circumstances, budget: plan.budget, now: true };
    let fires = |plan: &mut Plan, edits: &[Edit]| watch.fires(subject, edits, estimate.size, &mut plan.trigger_errors);
    let edits = std::mem::take(&mut plan.edits);
    let reason = match () {
        () if circumstances.force => Some(Reason::Forced),
        () if knows_more || policy.when.as_ref().is_some_and(When::reads_headers) => fires(&mut plan, &edits),
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
            Reason::Forced => Budget { target: counted.target.min(estimate.counted / 2), ..counted },
            _ => counted,
        };
        match compact(subject, policy, &plan.edits, counted, reason, &circumstances, cancel)? {
            Outcome::Made(compacted) => {
                plan.edits = compacted.edits;
                plan.compaction = Some(Compaction { reason, reports: compacted.reports });
                plan.held_back = None;
                made_at = Some(subject.messages.len());
                estimate = estimate.after_edits(subject, &plan.edits, seeds.usage);
            }
            Outcome::HeldBack(why) => plan.held_back = why.or(plan.held_back),
        }
    }

    plan.after = estimate.size;
    plan.usage_key = estimate.key;
    // What the edits took away is added to what is left, so that before and after are of the same making.
    plan.before.tokens = plan.after.tokens + estimate.to_reported(plan.before.tokens.saturating_sub(estimate.counted));
    plan.fits = plan.after.tokens <= plan.budget.room;
    plan.record = made_at.and_then(|at| Some(((*prefixes.get(at)?)?, Checkpoint::freeze(subject.messages, plan.edits.get(..at)?))));
    Ok(plan)
}

/// Compacts a request at once, whatever triggers say, to at most `target` prompt tokens where that is possible.
///
/// # Errors
/// [`Stopped`], as for [`think`].
pub fn compact_to(
    subject: &Subject<'_>,
    policy: &Policy,
    target: u64,
    circumstances: &Circumstances<'_>,
    cancel: &Cancel,
) -> Result<(Vec<Edit>, Vec<Report>), Stopped> {
    let edits = vec![Edit::Keep; subject.messages.len()];
    if size_of_edited(subject, &edits).tokens <= target {
        return Ok((edits, Vec::new()));
    }
    let budget = Budget { window: target, room: target, target, min_gain: 0 };
    Ok(match compact(subject, policy, &edits, budget, Reason::Forced, circumstances, cancel)? {
        Outcome::Made(compacted) => (compacted.edits, compacted.reports),
        Outcome::HeldBack(_) => (edits, Vec::new()),
    })
}

/// What there is to know about a request that was sent as it came.
#[derive(Debug, Clone, Copy)]
pub struct Assessment {
    /// Its size.
    pub size: Size,
    /// The numbers it is compared with.
    pub budget: Budget,
    /// The key that its usage is kept under.
    pub usage_key: Digest,
}

/// Assesses a request without deciding anything.
#[must_use]
pub fn assess(
    measures: &[Measure],
    fixed_tokens: u64,
    policy: &Policy,
    circumstances: Circumstances<'_>,
    usage_seed: Digest,
    lookup: &Lookup<'_>,
) -> Assessment {
    let mut counted = Size { tokens: fixed_tokens, ..Size::default() };
    for measure in measures {
        counted.add(measure);
    }
    let estimate = Estimate::of(measures, None, counted, fixed_tokens, usage_seed, lookup);
    Assessment {
        size: estimate.size,
        budget: policy.budget_for(circumstances.window, circumstances.max_output_tokens),
        usage_key: estimate.key,
    }
}

/// The key that the usage of a client's own list is kept under.
#[must_use]
pub fn usage_key(seed: &Digest, measures: &[Measure]) -> Digest {
    chain(seed, measures.iter().map(|measure| &measure.digest))
}

/// The digest of a whole list.
fn chain<'d>(seed: &Digest, messages: impl Iterator<Item = &'d Digest>) -> Digest {
    let mut chain = Chain::new(seed);
    messages.for_each(|message| chain.push(message));
    chain.digest()
}

/// The chain of checkpoints: entry `i` is the digest of the first `i` messages, instructions left out, where a request
/// ended there.
fn checkpoint_chain(measures: &[Measure], seed: Digest) -> Vec<Option<Digest>> {
    let mut chain = Chain::new(&seed);
    let mut digests = Vec::with_capacity(measures.len() + 1);
    digests.push(None);
    for (at, measure) in measures.iter().enumerate() {
        if !measure.role.is_instruction() {
            chain.push(&measure.digest);
        }
        digests.push(is_request_point(measures, at + 1).then(|| chain.digest()));
    }
    digests
}

/// Whether the first `length` messages were once, or are now, a request of their own.
fn is_request_point(measures: &[Measure], length: usize) -> bool {
    measures.get(length).is_none_or(|next| next.role == Role::Assistant)
}

struct Derived {
    edits: Vec<Edit>,
    replayed: bool,
    compaction: Option<Compaction>,
    /// Length of the list at the last compaction that this walk made.
    made_at: Option<usize>,
    held_back: Option<HeldBack>,
    trigger_errors: u64,
}

/// Who looks whether a trigger fires.
struct Watch<'w, 'c> {
    policy: &'w Policy,
    circumstances: &'w Circumstances<'c>,
    budget: Budget,
    /// Whether it is this request that is looked at, and not one that was made earlier.
    now: bool,
}

impl Watch<'_, '_> {
    /// The trigger that fires for the list that `edits` leave of `subject`, which has this size.
    fn fires(&self, subject: &Subject<'_>, edits: &[Edit], size: Size, errors: &mut u64) -> Option<Reason> {
        let Some(when) = &self.policy.when else { return self.policy.trigger.fires(size, self.budget.room) };
        let others = self.policy.trigger.fires(size, self.budget.room);
        // Headers are known of this request only: what they decide is not derived.
        if others.is_some() || (when.reads_headers() && !self.now) {
            return others;
        }
        let messages = || {
            let all = subject.measures.iter().zip(edits).enumerate();
            let seen = all.flat_map(|(seq, (measure, edit))| match edit {
                Edit::Keep | Edit::Replace(_) => vec![Seen { seq, role: measure.role, tokens: tokens_of(measure, edit) }],
                edit => edit.new_messages().iter().map(|new| Seen { seq, role: Role::User, tokens: new.tokens }).collect(),
            });
            seen.collect()
        };
        let Budget { window, room, .. } = self.budget;
        let view = View { total_tokens: size.tokens, budget: room, window, messages: &messages, request: self.circumstances.request };
        match when.evaluate(&view) {
            Ok(fires) => fires.then_some(Reason::When),
            Err(_) => {
                *errors += 1;
                (size.tokens >= scale(room, FALLBACK_RATIO)).then_some(Reason::Ratio)
            }
        }
    }
}

/// The trigger of a policy whose expression fails.
const FALLBACK_RATIO: f64 = 0.8;

/// Walks the request points behind the longest known checkpoint and compacts wherever the policy's trigger fires.
fn derive(
    subject: &Subject<'_>,
    policy: &Policy,
    circumstances: &Circumstances<'_>,
    prefixes: &[Option<Digest>],
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Derived, Stopped> {
    let budget = policy.budget(circumstances.window);
    let length = subject.messages.len();
    let known = (1..=length).rev().find_map(|at| Some((at, (lookup.checkpoint)(prefixes.get(at)?.as_ref()?)?)));
    let (base, edits) = match &known {
        Some((at, checkpoint)) => (*at, checkpoint.thaw(subject.messages)),
        None => (0, vec![Edit::Keep; length]),
    };
    let mut derived = Derived { edits, replayed: known.is_some(), compaction: None, made_at: None, held_back: None, trigger_errors: 0 };

    let mut size = size_of_edited(&subject.prefix(base), &derived.edits);
    // Below this many tokens it is not worth another try: the last one found too little to save.
    let mut retry_at = 0;
    for at in base..length {
        let Some(measure) = subject.measures.get(at) else { break };
        size.add(measure);
        let point = at + 1;
        // What a service outside answers cannot be derived: with one to ask, only this request is decided about.
        if !is_request_point(subject.measures, point) || (point < length && !circumstances.answers.is_empty()) {
            continue;
        }
        let then = subject.prefix(point);
        let edits = derived.edits.get(..point).unwrap_or_default();
        let watch = Watch { policy, circumstances, budget, now: false };
        let Some(reason) = watch.fires(&then, edits, size, &mut derived.trigger_errors) else { continue };
        if size.tokens < retry_at && size.tokens <= budget.room {
            continue;
        }
        match compact(&then, policy, edits, budget, reason, circumstances, cancel)? {
            Outcome::Made(compacted) => {
                size = size_of_edited(&then, &compacted.edits);
                for (slot, edit) in derived.edits.iter_mut().zip(compacted.edits) {
                    *slot = edit;
                }
                derived.compaction = Some(Compaction { reason, reports: compacted.reports });
                derived.made_at = Some(point);
                derived.held_back = None;
                retry_at = 0;
            }
            Outcome::HeldBack(why) => {
                derived.held_back = why;
                if matches!(reason, Reason::Ratio | Reason::Tokens) {
                    retry_at = size.tokens + budget.min_gain;
                }
            }
        }
    }
    Ok(derived)
}

struct Compacted {
    edits: Vec<Edit>,
    reports: Vec<Report>,
}

enum Outcome {
    Made(Compacted),
    /// Nothing is to be changed; with a reason where there was something to gain.
    HeldBack(Option<HeldBack>),
}

/// Runs the ladder on `edits`. While the request still fits, what it changes must be worth a rewrite of what the upstream
/// has cached.
fn compact(
    subject: &Subject<'_>,
    policy: &Policy,
    edits: &[Edit],
    budget: Budget,
    reason: Reason,
    circumstances: &Circumstances<'_>,
    cancel: &Cancel,
) -> Result<Outcome, Stopped> {
    cancel.check()?;
    let before = size_of_edited(subject, edits);
    let (mut goal, mut keep) = (Goal { target: budget.target, room: budget.room, messages: None, turns: None }, policy.keep);
    // Counts come down by the same share as tokens do, and a tail measured in tokens must not stand in their way.
    let low = |limit: Option<u64>| limit.map(|limit| scale(limit, ratio(budget.target, budget.room)));
    match reason {
        Reason::Messages => (goal.messages, keep.tokens) = (low(policy.trigger.messages), 0),
        Reason::Turns => (goal.turns, keep.tokens) = (low(policy.trigger.turns), 0),
        // An expression may be about anything: it is met by making the list half as large at least.
        Reason::When if before.tokens <= goal.target => goal.target = before.tokens / 2,
        Reason::Ratio | Reason::Tokens | Reason::When | Reason::Idle | Reason::Forced => {}
    }
    let mut draft = Draft::new(*subject, edits.to_vec(), &policy.pin, &keep, goal);
    let reports = descend(&policy.ladder, &mut draft, goal, circumstances.answers, cancel)?;
    let gain = before.tokens.saturating_sub(draft.size().tokens);
    // Where what must stay is above the low mark, waiting makes compactions as rare as the marks promise.
    let out_of_reach = draft.untouchable() > goal.target;
    let high = match reason {
        Reason::Tokens => policy.trigger.tokens.unwrap_or(budget.room),
        _ => scale(budget.room, policy.trigger.ratio.unwrap_or(1.0)),
    };
    let least = if out_of_reach { budget.min_gain.max(high.saturating_sub(goal.target)) } else { budget.min_gain };
    let after = draft.into_edits();
    if gain == 0 {
        return Ok(Outcome::HeldBack(None));
    }
    let must = before.tokens > budget.room || !matches!(reason, Reason::Ratio | Reason::Tokens | Reason::Idle);
    if !must && gain < least {
        return Ok(Outcome::HeldBack(Some(HeldBack::LittleGain)));
    }
    if !must && reason != Reason::Idle && policy.break_even && !pays(subject, edits, &after, gain, circumstances.prices) {
        return Ok(Outcome::HeldBack(Some(HeldBack::BreakEven)));
    }
    Ok(Outcome::Made(Compacted { edits: after, reports }))
}

/// Whether the requests still to come, as many as there were so far, save more by the smaller list than reading anew
/// what stands behind the first change costs.
fn pays(subject: &Subject<'_>, before: &[Edit], after: &[Edit], gain: u64, prices: Option<Prices>) -> bool {
    let Some(Prices { cache_read, cache_write }) = prices else { return true };
    let requests = 1 + subject.measures.iter().filter(|measure| measure.role == Role::Assistant).count() as u64;
    let first = before.iter().zip(after).position(|(before, after)| before != after).unwrap_or(after.len());
    let behind: u64 = subject.measures.iter().zip(after).skip(first).map(|(measure, edit)| tokens_of(measure, edit)).sum();
    as_float(requests) * as_float(gain) * cache_read > as_float(behind) * (cache_write - cache_read)
}

/// How large the edited list is: what the upstream reported for its longest known prefix, and counts for the rest.
struct Estimate {
    /// The size, in the upstream's tokens as far as known.
    size: Size,
    /// The same, counted throughout.
    counted: u64,
    /// Chain digest of the whole edited list.
    key: Digest,
    /// Time since the longest known prefix was last sent.
    silence: Option<Duration>,
}

impl Estimate {
    /// Estimates the list that `edits` leave (all of it without edits), which was counted as `counted`.
    fn of(measures: &[Measure], edits: Option<&[Edit]>, counted: Size, fixed_tokens: u64, seed: Digest, lookup: &Lookup<'_>) -> Self {
        let mut chain = Chain::new(&seed);
        // Where the edited list could have ended as a request: its digest there, and the tokens counted up to there.
        let mut points = Vec::with_capacity(measures.len() / 2 + 1);
        let mut tokens = fixed_tokens;
        for (at, measure) in measures.iter().enumerate() {
            let edit = edits.and_then(|edits| edits.get(at)).unwrap_or(&Edit::Keep);
            digests_of(measure, edit).for_each(|digest| chain.push(digest));
            tokens += tokens_of(measure, edit);
            if is_request_point(measures, at + 1) {
                points.push((chain.digest(), tokens));
            }
        }
        let known = points.iter().rev().find_map(|(key, counted)| Some(((lookup.usage)(key)?, counted)));
        let silence = points.iter().rev().find_map(|(key, _)| (lookup.silence)(key));
        let live = known.map_or(counted.tokens, |(reported, prefix)| reported + (counted.tokens - prefix));
        Estimate { size: Size { tokens: live, ..counted }, counted: counted.tokens, key: chain.digest(), silence }
    }

    /// The same circumstances with other edits, for which nothing was reported yet: counts, scaled by how much the
    /// upstream's count was above ours.
    fn after_edits(&self, subject: &Subject<'_>, edits: &[Edit], seed: Digest) -> Self {
        let counted = size_of_edited(subject, edits);
        let key = chain(&seed, subject.measures.iter().zip(edits).flat_map(|(measure, edit)| digests_of(measure, edit)));
        Estimate {
            size: Size { tokens: self.to_reported(counted.tokens).min(self.size.tokens), ..counted },
            counted: counted.tokens,
            key,
            silence: None,
        }
    }

    fn factor(&self) -> f64 {
        ratio(self.size.tokens, self.counted).max(1.0)
    }

    /// Upstream tokens as counted ones: smaller where the upstream counts more than we do.
    fn to_counted(&self, tokens: u64) -> u64 {
        scale(tokens, 1.0 / self.factor())
    }

    /// Counted tokens as upstream ones.
    fn to_reported(&self, tokens: u64) -> u64 {
        scale(tokens, self.factor())
    }
}
