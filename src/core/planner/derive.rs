//! Decisions that any replica can make again: the walk over the points at which the conversation was once a request.

use crate::core::Cancel;
use crate::core::budget::Budget;
use crate::core::conversation::Measure;
use crate::core::conversation::{Author, Speaker};
use crate::core::conversation::{Fingerprint, PrefixHash};
use crate::core::conversation::{Size, scale};
use crate::core::edit::Edit;
use crate::core::edit::{MeasuredConversation, size_of_edited, tokens_of};
use crate::core::planner::compact::{Outcome, compact};
use crate::core::planner::{Compaction, Deferred, Lookup, PlanInput};
use crate::core::policy::{ConditionView, SeenMessage};
use crate::core::policy::{Policy, Reason};
use crate::core::strategy::Stopped;

/// The chain of checkpoints: entry `i` is the digest of the first `i` messages, instructions left out, where a request
/// ended there.
pub(super) fn checkpoint_chain(
    measures: &[Measure],
    seed: Fingerprint,
) -> Vec<Option<Fingerprint>> {
    let mut chain = PrefixHash::new(&seed);
    let mut digests = Vec::with_capacity(measures.len() + 1);
    digests.push(None);
    for (at, measure) in measures.iter().enumerate() {
        if !measure.speaker.is_instruction() {
            chain.push(&measure.digest);
        }
        digests.push(is_request_point(measures, at + 1).then(|| chain.digest()));
    }
    digests
}

/// Whether the first `length` messages were once, or are now, a request of their own.
pub(super) fn is_request_point(measures: &[Measure], length: usize) -> bool {
    measures
        .get(length)
        .is_none_or(|next| next.speaker == Speaker::Assistant)
}

pub(super) struct Derived {
    pub edits: Vec<Edit>,
    pub replayed: bool,
    pub compaction: Option<Compaction>,
    /// Length of the list at the last compaction that this walk made.
    pub made_at: Option<usize>,
    pub deferred: Option<Deferred>,
    pub trigger_errors: u64,
}

/// Who looks whether a trigger fires.
pub(super) struct Watch<'w, 'c> {
    pub policy: &'w Policy,
    pub input: &'w PlanInput<'c>,
    pub budget: Budget,
    /// Whether it is this request that is looked at, and not one that was made earlier.
    pub now: bool,
}

impl Watch<'_, '_> {
    /// The trigger that fires for the list that `edits` leave of `conversation`, which has this size.
    pub(super) fn fires(
        &self,
        conversation: &MeasuredConversation<'_>,
        edits: &[Edit],
        size: Size,
        errors: &mut u64,
    ) -> Option<Reason> {
        let Some(when) = &self.policy.when else {
            return self.policy.trigger.fires(size, self.budget.room);
        };
        let others = self.policy.trigger.fires(size, self.budget.room);
        // Headers are known of this request only: what they decide is not derived.
        if others.is_some() || (when.reads_headers() && !self.now) {
            return others;
        }
        let messages = || {
            let all = conversation.measures.iter().zip(edits).enumerate();
            let seen = all.flat_map(|(seq, (measure, edit))| match edit {
                Edit::Keep | Edit::Replace(_) => vec![SeenMessage {
                    seq,
                    role: measure.role,
                    tokens: tokens_of(measure, edit),
                }],
                edit => edit
                    .new_messages()
                    .iter()
                    .map(|new| SeenMessage {
                        seq,
                        role: conversation.dialect.role_of(Author::User),
                        tokens: new.tokens,
                    })
                    .collect(),
            });
            seen.collect()
        };
        let Budget { window, room, .. } = self.budget;
        let view = ConditionView {
            total_tokens: size.tokens,
            budget: room,
            window,
            messages: &messages,
            request: self.input.request,
        };
        match when.evaluate(&view) {
            Ok(fires) => fires.then_some(Reason::Condition),
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
pub(super) fn derive(
    conversation: &MeasuredConversation<'_>,
    policy: &Policy,
    input: &PlanInput<'_>,
    prefixes: &[Option<Fingerprint>],
    lookup: &Lookup<'_>,
    cancel: &Cancel,
) -> Result<Derived, Stopped> {
    let budget = policy.budget(input.window);
    let length = conversation.messages.len();
    let known = (1..=length)
        .rev()
        .find_map(|at| Some((at, (lookup.checkpoint)(prefixes.get(at)?.as_ref()?)?)));
    let (base, edits) = match &known {
        Some((at, checkpoint)) => (*at, checkpoint.thaw(conversation.messages)),
        None => (0, vec![Edit::Keep; length]),
    };
    let mut derived = Derived {
        edits,
        replayed: known.is_some(),
        compaction: None,
        made_at: None,
        deferred: None,
        trigger_errors: 0,
    };

    let mut size = size_of_edited(&conversation.prefix(base), &derived.edits);
    // Below this many tokens it is not worth another try: the last one found too little to save.
    let mut retry_at = 0;
    for at in base..length {
        let Some(measure) = conversation.measures.get(at) else {
            break;
        };
        size.add(measure);
        let point = at + 1;
        // What others answer cannot be derived: with anybody to ask, only this request is decided about.
        if !is_request_point(conversation.measures, point)
            || (point < length && !input.outside.is_silent())
        {
            continue;
        }
        let then = conversation.prefix(point);
        let edits = derived.edits.get(..point).unwrap_or_default();
        let watch = Watch {
            policy,
            input,
            budget,
            now: false,
        };
        let Some(reason) = watch.fires(&then, edits, size, &mut derived.trigger_errors) else {
            continue;
        };
        if size.tokens < retry_at && size.tokens <= budget.room {
            continue;
        }
        match compact(&then, policy, edits, budget, reason, input, cancel)? {
            Outcome::Made(compacted) => {
                size = size_of_edited(&then, &compacted.edits);
                for (slot, edit) in derived.edits.iter_mut().zip(compacted.edits) {
                    *slot = edit;
                }
                derived.compaction = Some(Compaction {
                    reason,
                    reports: compacted.reports,
                });
                derived.made_at = Some(point);
                derived.deferred = None;
                retry_at = 0;
            }
            Outcome::Deferred(why) => {
                derived.deferred = why;
                if matches!(reason, Reason::Ratio | Reason::Tokens) {
                    retry_at = size.tokens + budget.min_gain;
                }
            }
        }
    }
    Ok(derived)
}
