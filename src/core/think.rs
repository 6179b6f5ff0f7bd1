//! From a request and what the ledger knows to a plan: replay, estimate, decide, compact.
//!
//! Decisions come in two kinds. *Derived* ones depend on the policy and the messages alone: every assistant message in
//! the history was once a request, so walking those request points from the start (or from the last checkpoint) gives
//! the same edits in every replica, with or without a ledger. *Forced* ones depend on what only this moment knows:
//! usage that the upstream reported, the request's own `max_tokens`, a header. They can add a compaction, never
//! prevent one, and are found again only through the ledger.

use std::sync::Arc;

use super::chat::Role;
use super::digest::{Chain, Digest};
use super::draft::{Draft, Goal, Subject, digest_of, size_of_edited, tokens_of};
use super::plan::{Checkpoint, Edit};
use super::policy::{Budget, Policy, Reason};
use super::size::{Size, ratio, scale};
use super::strategy::{Report, descend};
use super::tokens::Measure;
use super::{Cancel, Cancelled};

/// What the ledger knows, as two look-ups.
pub struct Lookup<'a> {
    /// The checkpoint made from exactly this prefix.
    pub checkpoint: &'a dyn Fn(&Digest) -> Option<Arc<Checkpoint>>,
    /// Prompt tokens that the upstream reported for exactly this list.
    pub usage: &'a dyn Fn(&Digest) -> Option<u64>,
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
pub struct Circumstances {
    /// The context length, tokens.
    pub window: u64,
    /// The longest reply that the request asks for, tokens.
    pub max_output_tokens: Option<u64>,
    /// The request asked to be compacted now.
    pub force: bool,
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
    /// What to keep in the ledger: the key and the checkpoint.
    pub record: Option<(Digest, Checkpoint)>,
    /// The key that the usage of what is sent is kept under.
    pub usage_key: Digest,
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
/// [`Cancelled`] when nobody waits any more.
pub fn think(
    subject: &Subject<'_>,
    policy: &Policy,
    circumstances: Circumstances,
    seeds: Seeds,
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Plan, Cancelled> {
    let prefixes = checkpoint_chain(subject.measures, seeds.checkpoint);
    let derived = derive(subject, policy, policy.budget(circumstances.window), &prefixes, lookup, cancel)?;
    let counted = size_of_edited(subject, &derived.edits);
    let mut estimate = Estimate::of(subject.measures, Some(&derived.edits), counted, subject.fixed_tokens, seeds.usage, lookup);
    let mut plan = Plan {
        before: size_of_edited(subject, &vec![Edit::Keep; subject.messages.len()]),
        after: estimate.size,
        budget: policy.budget_for(circumstances.window, circumstances.max_output_tokens),
        fits: true,
        record: None,
        usage_key: estimate.key,
        edits: derived.edits,
        replayed: derived.replayed,
        compaction: derived.compaction,
    };
    let mut made_at = derived.made_at;

    // What the walk decided by the same numbers is not decided again.
    let knows_more = estimate.size.tokens > estimate.counted || plan.budget.room < policy.budget(circumstances.window).room;
    let reason = match () {
        () if circumstances.force => Some(Reason::Forced),
        () if knows_more => policy.trigger.fires(estimate.size, plan.budget.room),
        () => None,
    };
    if let Some(reason) = reason {
        // The upstream counts otherwise than we do: the goal, which is in its tokens, is put into ours.
        let counted = Budget {
            room: estimate.to_counted(plan.budget.room),
            target: estimate.to_counted(plan.budget.target),
            min_gain: estimate.to_counted(plan.budget.min_gain),
            ..plan.budget
        };
        if let Some(compacted) = compact(subject, policy, plan.edits.clone(), counted, reason, cancel)? {
            plan.edits = compacted.edits;
            plan.compaction = Some(Compaction { reason, reports: compacted.reports });
            made_at = Some(subject.messages.len());
            estimate = estimate.after_edits(subject, &plan.edits, seeds.usage);
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
    circumstances: Circumstances,
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
    chain(seed, measures.iter().map(|measure| measure.digest))
}

/// The digest of a whole list.
fn chain(seed: &Digest, messages: impl Iterator<Item = Digest>) -> Digest {
    let mut chain = Chain::new(seed);
    messages.for_each(|message| chain.push(&message));
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
}

/// Walks the request points behind the longest known checkpoint and compacts wherever the policy's trigger fires.
fn derive(
    subject: &Subject<'_>,
    policy: &Policy,
    budget: Budget,
    prefixes: &[Option<Digest>],
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Derived, Cancelled> {
    let length = subject.messages.len();
    let known = (1..=length).rev().find_map(|at| Some((at, (lookup.checkpoint)(prefixes.get(at)?.as_ref()?)?)));
    let (base, edits) = match &known {
        Some((at, checkpoint)) => (*at, checkpoint.thaw(subject.messages)),
        None => (0, vec![Edit::Keep; length]),
    };
    let mut derived = Derived { edits, replayed: known.is_some(), compaction: None, made_at: None };

    let mut size = size_of_edited(&subject.prefix(base), &derived.edits);
    // Below this many tokens it is not worth another try: the last one found too little to save.
    let mut retry_at = 0;
    for at in base..length {
        let Some(measure) = subject.measures.get(at) else { break };
        size.add(measure);
        let point = at + 1;
        if !is_request_point(subject.measures, point) {
            continue;
        }
        let Some(reason) = policy.trigger.fires(size, budget.room) else { continue };
        if size.tokens < retry_at && size.tokens <= budget.room {
            continue;
        }
        let then = subject.prefix(point);
        let edits = derived.edits.get(..point).unwrap_or_default().to_vec();
        match compact(&then, policy, edits, budget, reason, cancel)? {
            Some(compacted) => {
                size = size_of_edited(&then, &compacted.edits);
                for (slot, edit) in derived.edits.iter_mut().zip(compacted.edits) {
                    *slot = edit;
                }
                derived.compaction = Some(Compaction { reason, reports: compacted.reports });
                derived.made_at = Some(point);
                retry_at = 0;
            }
            None if matches!(reason, Reason::Ratio | Reason::Tokens) => retry_at = size.tokens + budget.min_gain,
            None => {}
        }
    }
    Ok(derived)
}

struct Compacted {
    edits: Vec<Edit>,
    reports: Vec<Report>,
}

/// Runs the ladder on `edits`. `None` when it changes nothing, or saves too little to be worth a rewrite of what the
/// upstream has cached while the request still fits.
fn compact(
    subject: &Subject<'_>,
    policy: &Policy,
    edits: Vec<Edit>,
    budget: Budget,
    reason: Reason,
    cancel: &Cancel,
) -> Result<Option<Compacted>, Cancelled> {
    cancel.check()?;
    let before = size_of_edited(subject, &edits);
    let (mut goal, mut keep) = (Goal { target: budget.target, room: budget.room, messages: None, turns: None }, policy.keep);
    // Counts come down by the same share as tokens do, and a tail measured in tokens must not stand in their way.
    let low = |limit: Option<u64>| limit.map(|limit| scale(limit, ratio(budget.target, budget.room)));
    match reason {
        Reason::Ratio | Reason::Tokens => {}
        Reason::Messages => (goal.messages, keep.tokens) = (low(policy.trigger.messages), 0),
        Reason::Turns => (goal.turns, keep.tokens) = (low(policy.trigger.turns), 0),
        Reason::Forced => goal.target = goal.target.min(before.tokens / 2),
    }
    let mut draft = Draft::new(*subject, edits, &policy.pin, &keep, goal);
    let reports = descend(&policy.ladder, &mut draft, goal, cancel)?;
    let gain = before.tokens.saturating_sub(draft.size().tokens);
    let pays = !matches!(reason, Reason::Ratio | Reason::Tokens) || gain >= budget.min_gain || before.tokens > budget.room;
    Ok((gain > 0 && pays).then(|| Compacted { edits: draft.into_edits(), reports }))
}

/// How large the edited list is: what the upstream reported for its longest known prefix, and counts for the rest.
struct Estimate {
    /// The size, in the upstream's tokens as far as known.
    size: Size,
    /// The same, counted throughout.
    counted: u64,
    /// Chain digest of the whole edited list.
    key: Digest,
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
            if let Some(digest) = digest_of(measure, edit) {
                chain.push(&digest);
                tokens += tokens_of(measure, edit);
            }
            if is_request_point(measures, at + 1) {
                points.push((chain.digest(), tokens));
            }
        }
        let known = points.iter().rev().find_map(|(key, counted)| Some(((lookup.usage)(key)?, counted)));
        let live = known.map_or(counted.tokens, |(reported, prefix)| reported + (counted.tokens - prefix));
        Estimate { size: Size { tokens: live, ..counted }, counted: counted.tokens, key: chain.digest() }
    }

    /// The same circumstances with other edits, for which nothing was reported yet: counts, scaled by how much the
    /// upstream's count was above ours.
    fn after_edits(&self, subject: &Subject<'_>, edits: &[Edit], seed: Digest) -> Self {
        let counted = size_of_edited(subject, edits);
        let key = chain(&seed, subject.measures.iter().zip(edits).filter_map(|(measure, edit)| digest_of(measure, edit)));
        Estimate { size: Size { tokens: self.to_reported(counted.tokens).min(self.size.tokens), ..counted }, counted: counted.tokens, key }
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
