//! How soon another compaction may be tried after the last one.

use super::planner::Planner;
use crate::core::conversation::Measure;
use crate::core::policy::Reason;

/// Between two compactions lie at least so many messages, where the list fits meanwhile and the
/// first of them did not come to the target; for another reason than the list's size in any case.
const LEAST_APART: usize = 6;
/// After an attempt that changed nothing the list grows by one part in so many before the next, so
/// that attempts cost no more than a few times the list's length.
const RETRY_STEP: usize = 16;

/// The last attempt at a compaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Length of the list.
    pub(super) at: usize,
    /// Calls of tools in the client's list.
    pub(super) calls: u64,
    /// Whether it changed nothing.
    pub(super) in_vain: bool,
    /// Whether it left more tokens than the target.
    pub(super) fell_short: bool,
}

impl Attempt {
    /// A compaction that was made when the list with these measures had `at` messages.
    pub(super) fn made(measures: &[Measure], at: usize, fell_short: bool) -> Self {
        Attempt {
            at,
            calls: calls_in(measures.get(..at).unwrap_or_default()),
            in_vain: false,
            fell_short,
        }
    }

    /// Length of the list.
    pub(super) fn length(self) -> usize {
        self.at
    }

    /// Whether another attempt, for this reason at a list of `length`, is too soon. A compaction
    /// that came to its target leaves room for several turns. One that did not, and numbers of
    /// messages and expressions, which may be as true behind a compaction as before it, would have
    /// the list rewritten on every request.
    /// `calls` are those of the client's list, which has this `length`.
    pub(super) fn is_too_near(
        self,
        reason: Reason,
        (length, calls): (usize, u64),
        planner: &Planner<'_>,
    ) -> bool {
        let policy = planner.policy;
        let between = |limit: Option<u64>| {
            let limit = limit.unwrap_or(0);
            limit.saturating_sub(policy.low_count(limit, &planner.budget()))
        };
        let gap = |limit| usize::try_from(between(limit)).unwrap_or(usize::MAX);
        // Calls may stay in the list, such as those of results that were cleared.
        let calls_since = calls.saturating_sub(self.calls);
        if reason == Reason::ToolUses && calls_since < between(policy.trigger.tool_uses) {
            return true;
        }
        let apart = match reason {
            Reason::Messages => gap(policy.trigger.messages),
            // A turn has two messages at least.
            Reason::Turns => gap(policy.trigger.turns).saturating_mul(2),
            Reason::ToolUses | Reason::Condition => 0,
            Reason::Ratio | Reason::Tokens | Reason::Idle if self.fell_short => 0,
            Reason::Ratio | Reason::Tokens | Reason::Idle => return false,
            Reason::Overflow | Reason::Forced => return false,
        };
        let vain = if self.in_vain {
            self.at / RETRY_STEP
        } else {
            0
        };
        length < self.at.saturating_add(apart.max(LEAST_APART).max(vain))
    }
}

/// Calls of tools in a list.
pub(super) fn calls_in(measures: &[Measure]) -> u64 {
    measures.iter().map(|m| u64::from(m.shape.calls)).sum()
}
