//! Whether a trigger will probably fire within the next turns, and at which size: the time to
//! prepare a summary.

use super::plan::TriggerErrors;
use super::planner::Planner;
use super::session::Session;
use super::watch::Watch;
use crate::core::budget::Budget;
use crate::core::conversation::{Size, ratio, scale};
use crate::core::edit::Edit;
use crate::core::policy::DEFAULT_RATIO;

/// The least that a summary must stand for where a trigger is not about tokens.
const LEAST_GAIN: u64 = 256;
/// Messages by which a list is assumed to grow before the summary is there.
const MESSAGES_AHEAD: usize = 4;

/// A trigger that will fire soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Near {
    /// Tokens that the list will probably take then.
    pub tokens: u64,
    /// The least that a summary must stand for.
    pub min_gain: u64,
}

/// The list to be sent, as triggers see it.
#[derive(Clone, Copy)]
pub(super) struct Listed<'l> {
    pub size: Size,
    pub edits: &'l [Edit],
    pub budget: Budget,
}

/// The trigger that will fire first; `None` where none of them is near. `share` is the step's
/// `prepare_at`.
pub(super) fn near(
    planner: &Planner<'_>,
    session: &Session<'_>,
    list: Listed<'_>,
    share: f64,
) -> Option<Near> {
    let (now, budget) = (list.size.tokens, list.budget);
    let trigger = &planner.policy.trigger;
    if now >= trigger.prepares_at(&budget, share) {
        return Some(Near {
            tokens: trigger
                .high(budget.window, budget.prompt)
                .unwrap_or(budget.prompt),
            min_gain: budget.min_gain,
        });
    }
    let [messages, turns, tool_uses] = trigger.prepares_at_counts(share);
    let counts = [
        (messages, trigger.messages, list.size.messages),
        (turns, trigger.turns, list.size.turns),
        (tool_uses, trigger.tool_uses, list.size.tool_uses),
    ];
    let min_gain = budget.min_gain.min(LEAST_GAIN);
    for (from, limit, count) in counts {
        if from.is_some_and(|from| count >= from) {
            // The conversation goes on as it did so far.
            let tokens = scale(now, ratio(limit.unwrap_or(count), count).max(1.0));
            return Some(Near { tokens, min_gain });
        }
    }
    let tokens = scale(now, DEFAULT_RATIO / share.clamp(0.1, DEFAULT_RATIO));
    condition_is_near(planner, session, list, tokens).then_some(Near { tokens, min_gain })
}

/// Whether the policy's expression is true for the list as it will be in a few messages.
fn condition_is_near(
    planner: &Planner<'_>,
    session: &Session<'_>,
    list: Listed<'_>,
    tokens: u64,
) -> bool {
    if planner.policy.when.is_none() {
        return false;
    }
    let mut measures = session.measures().to_vec();
    let mut edits = list.edits.to_vec();
    let newest = measures.len().saturating_sub(MESSAGES_AHEAD);
    measures.extend_from_within(newest..);
    edits.resize(measures.len(), Edit::Keep);
    let watch = Watch {
        previous: 0,
        session,
        planner,
        budget: list.budget,
        now: true,
    };
    let size = Size {
        tokens,
        ..list.size
    };
    watch
        .fires(&measures, &edits, size, &mut TriggerErrors::default())
        .is_some()
}
