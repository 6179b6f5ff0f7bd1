//! The ladder: strategies in the policy's order, each of which makes the span smaller until the target is met.
//!
//! To add a strategy: a file here (its options, with the trait `Options`, and one function over a [`Draft`]), a line in
//! `table.rs`, a test file, and a paragraph in `config/strategies.md`. A strategy is a pure function of its options and
//! the draft. It looks at the span only, leaves calls and results together, and changes nothing when it is applied to its
//! own output.

mod clear_results;
mod coalesce;
mod collapse_errors;
mod dedupe;
mod digest;
mod keys;
mod label;
mod minify;
mod options;
mod oversize;
mod role_alternation;
mod scope;
mod sliding_window;
mod step;
mod strip;
mod summarize;
mod table;
mod token_budget;
mod trim_results;
mod truncate;
mod webhook;

use crate::core::conversation::Size;
use crate::core::edit::{Draft, Target};
use crate::core::summary::{PendingSummary, Summaries};
use crate::core::{Cancel, Cancelled};

use options::Run;

pub use clear_results::ClearResults;
pub use coalesce::Coalesce;
pub use collapse_errors::CollapseErrors;
pub use dedupe::Dedupe;
pub use digest::Digest;
pub use minify::Minify;
pub use options::{OptionCheck, TriggerLimits};
pub use oversize::NAME as OVERSIZE;
pub use scope::Scope;
pub use sliding_window::SlidingWindow;
pub use step::Step;
pub use strip::Strip;
pub use summarize::Summarize;
pub use table::Strategy;
pub use token_budget::TokenBudget;
pub use trim_results::{Outline, Pick, Sample, TrimResults};
pub use truncate::{Truncate, Unit};
pub use webhook::{Webhook, WebhookAnswer, WebhookRequest};

/// The result of a strategy, besides what the draft shows.
#[derive(Debug, Default)]
struct Done {
    /// Messages that were replaced by something smaller.
    replaced: u64,
    /// The strategy's own counts, by name; those of `Options::COUNTS` that are missing are 0.
    details: Vec<(&'static str, u64)>,
}

impl From<u64> for Done {
    fn from(replaced: u64) -> Self {
        Done {
            replaced,
            details: Vec::new(),
        }
    }
}

/// What a step did, in the same shape whether it acted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Counts of the strategy's own, by name.
    pub details: Vec<(&'static str, u64)>,
}

impl Report {
    /// Whether anything changed.
    #[must_use]
    pub fn acted(&self) -> bool {
        self.dropped + self.replaced > 0 || self.before != self.after
    }
}

/// Why a ladder did not come to its end.
#[derive(Debug)]
pub enum Stopped {
    /// Nobody waits any more.
    Cancelled,
    /// A step needs an answer from outside.
    Asks(Box<Need>),
}

/// What a step needs from outside.
#[derive(Debug)]
pub enum Need {
    /// The answer of a webhook.
    Webhook(WebhookRequest),
    /// A summary.
    Summary(Box<PendingSummary>),
}

/// What others have said so far of a conversation, as far as steps ask for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExternalInputs<'a> {
    /// What the policy's webhooks answered.
    pub answers: &'a [WebhookAnswer],
    /// The summaries that there are.
    pub summaries: Option<&'a Summaries<'a>>,
}

impl ExternalInputs<'_> {
    /// Whether nobody is asked: then the same messages make for the same list, wherever and whenever.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.answers.is_empty() && self.summaries.is_none()
    }
}

impl From<Cancelled> for Stopped {
    fn from(_: Cancelled) -> Self {
        Stopped::Cancelled
    }
}

/// Runs the ladder down to the goal. What exceeds the room because of the newest exchange alone is cut (`oversize`): the
/// one edit that reaches into the tail, first where head and tail alone are too much, and last where nothing else helped.
///
/// # Errors
/// [`Stopped`]: cancelled, or in need of an answer; with it, the same call comes to its end.
pub fn descend(
    ladder: &[Step],
    draft: &mut Draft<'_>,
    mut goal: Target,
    window: u64,
    outside: &ExternalInputs<'_>,
    cancel: &Cancel,
) -> Result<Vec<Report>, Stopped> {
    let mut reports = Vec::with_capacity(ladder.len() + 2);
    let alternates = draft.conversation().family.alternates;
    let room = goal.room;
    if alternates {
        let bridged = draft.size().tokens;
        role_alternation::unbridge(draft);
        // What stood between the roles will stand there again.
        let bridges = bridged.saturating_sub(draft.size().tokens);
        goal.room = goal.room.saturating_sub(bridges);
        goal.target = goal.target.saturating_sub(bridges);
    }
    let first = reported(oversize::NAME, &[], draft, |draft| {
        Ok(oversize::apply_first(draft, goal).into())
    })?;
    if first.acted() {
        reports.push(first);
    }
    for (at, step) in ladder.iter().enumerate() {
        cancel.check()?;
        if goal.met(draft.size()) {
            break;
        }
        let strategy = &step.strategy;
        let run = Run {
            scope: &step.scope,
            target: goal,
            window,
            webhook: webhooks(ladder.get(..at).unwrap_or_default()).count(),
            external: outside,
        };
        reports.push(reported(
            strategy.name(),
            strategy.counts(),
            draft,
            |draft| strategy.apply(&run, draft),
        )?);
    }
    if alternates {
        role_alternation::bridge(draft);
        goal.room = room;
    }
    if draft.size().tokens > goal.room {
        reports.push(reported(oversize::NAME, &[], draft, |draft| {
            Ok(oversize::apply_last(draft, goal).into())
        })?);
    }
    Ok(reports)
}

/// The options of the `webhook` steps of a ladder, in order.
pub fn webhooks(ladder: &[Step]) -> impl Iterator<Item = &Webhook> {
    ladder.iter().filter_map(|step| match &step.strategy {
        Strategy::Webhook(webhook) => Some(webhook),
        _ => None,
    })
}

fn reported<'a>(
    strategy: &'static str,
    details: &[&'static str],
    draft: &mut Draft<'a>,
    apply: impl FnOnce(&mut Draft<'a>) -> Result<Done, Stopped>,
) -> Result<Report, Stopped> {
    let before = draft.size();
    let done = apply(draft)?;
    let after = draft.size();
    let told = |name: &str| {
        done.details
            .iter()
            .find(|(key, _)| *key == name)
            .map_or(0, |(_, count)| *count)
    };
    let details = details.iter().map(|name| (*name, told(name))).collect();
    Ok(Report {
        strategy,
        before,
        after,
        dropped: before.messages.saturating_sub(after.messages),
        replaced: done.replaced,
        details,
    })
}
