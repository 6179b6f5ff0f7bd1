//! The ladder: strategies in the policy's order, each making the span smaller until the target is met.
//!
//! To add a strategy: a file here with its options and one function over a [`Draft`], an entry in [`Strategy`], and its
//! options as written in `config`. A strategy is a pure function of its options and the draft, looks at the span
//! only, leaves calls and results together, and changes nothing when applied to its own output.

mod clear_results;
mod oversize;
mod sliding_window;
mod token_budget;

use super::draft::{Draft, Goal};
use super::size::Size;
use super::{Cancel, Cancelled};

pub use clear_results::ClearResults;
pub use oversize::NAME as OVERSIZE;
pub use sliding_window::SlidingWindow;
pub use token_budget::TokenBudget;

/// One step of a ladder, with its options.
#[derive(Debug, Clone)]
pub enum Strategy {
    /// Old tool results become a placeholder.
    ClearResults(ClearResults),
    /// The newest turns, exchanges or messages stay.
    SlidingWindow(SlidingWindow),
    /// The oldest exchanges go until the rest fits.
    TokenBudget(TokenBudget),
}

/// What a step did, in the same shape whether it acted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Size before it.
    pub before: Size,
    /// Size after it.
    pub after: Size,
    /// Messages it dropped.
    pub dropped: u64,
    /// Messages it put something smaller in place of.
    pub replaced: u64,
}

impl Report {
    /// Whether anything changed.
    #[must_use]
    pub fn acted(&self) -> bool {
        self.dropped + self.replaced > 0
    }
}

impl Strategy {
    /// All strategy names, for metrics.
    pub const NAMES: [&'static str; 4] = [clear_results::NAME, sliding_window::NAME, token_budget::NAME, oversize::NAME];

    /// Its name in configuration, logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Strategy::ClearResults(_) => clear_results::NAME,
            Strategy::SlidingWindow(_) => sliding_window::NAME,
            Strategy::TokenBudget(_) => token_budget::NAME,
        }
    }

    /// Returns how many messages it replaced.
    fn apply(&self, draft: &mut Draft<'_>, goal: Goal) -> u64 {
        match self {
            Strategy::ClearResults(options) => clear_results::apply(options, draft, goal),
            Strategy::SlidingWindow(options) => sliding_window::apply(options, draft),
            Strategy::TokenBudget(options) => token_budget::apply(options, draft, goal),
        }
    }
}

/// Runs the ladder down to the goal. What then still exceeds the room because of the newest results is cut
/// (`oversize`): the one edit that reaches into the tail.
///
/// # Errors
/// [`Cancelled`] when nobody waits any more.
pub fn descend(ladder: &[Strategy], draft: &mut Draft<'_>, goal: Goal, cancel: &Cancel) -> Result<Vec<Report>, Cancelled> {
    let mut reports = Vec::with_capacity(ladder.len() + 1);
    for strategy in ladder {
        cancel.check()?;
        if goal.met(draft.size()) {
            break;
        }
        reports.push(reported(strategy.name(), draft, |draft| strategy.apply(draft, goal)));
    }
    if draft.size().tokens > goal.room {
        reports.push(reported(oversize::NAME, draft, |draft| oversize::apply(draft, goal)));
    }
    Ok(reports)
}

fn reported<'a>(strategy: &'static str, draft: &mut Draft<'a>, apply: impl FnOnce(&mut Draft<'a>) -> u64) -> Report {
    let before = draft.size();
    let replaced = apply(draft);
    let after = draft.size();
    Report { strategy, before, after, dropped: before.messages - after.messages, replaced }
}
