//! The ladder: strategies in the policy's order, each making the span smaller until the target is met.
//!
//! To add a strategy: a file here with its options and one function over a [`Draft`], an entry in `strategies!` below, and
//! its options as written in `config`. A strategy is a pure function of its options and the draft, looks at the span
//! only, leaves calls and results together, and changes nothing when applied to its own output.

mod clear_results;
mod coalesce;
mod collapse_errors;
mod dedupe;
mod digest;
mod label;
mod minify;
mod oversize;
mod role_alternation;
mod scope;
mod sliding_window;
mod strip;
mod summarize;
mod token_budget;
mod trim_results;
mod truncate;
mod webhook;

use crate::core::conversation::Size;
use crate::core::edit::{Draft, Target};
use crate::core::summary;
use crate::core::summary::{PendingSummary, Summaries};
use crate::core::{Cancel, Cancelled};

pub use clear_results::ClearResults;
pub use coalesce::Coalesce;
pub use dedupe::Dedupe;
pub use minify::Minify;
pub use oversize::NAME as OVERSIZE;
pub use scope::Scope;
pub use sliding_window::SlidingWindow;
pub use strip::Strip;
pub use token_budget::TokenBudget;
pub use trim_results::{Outline, Pick, Sample, TrimResults};
pub use truncate::Truncate;
pub use webhook::{WebhookAnswer, WebhookRequest};

/// One step of a ladder.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it does.
    pub strategy: Strategy,
    /// What it is limited to.
    pub scope: Scope,
    /// Name and options as JSON, for those who ask.
    pub options: String,
}

/// What a step does, with its options.
#[derive(Debug, Clone)]
pub enum Strategy {
    /// Repeated results and blocks become a reference to their newest copy.
    Dedupe(Dedupe),
    /// Results say the same in fewer tokens.
    Minify(Minify),
    /// Large results are cut, sampled or outlined.
    TrimResults(TrimResults),
    /// Old tool results become a placeholder.
    ClearResults(ClearResults),
    /// Old images, audio, files and reasoning go.
    Strip(Strip),
    /// Failures that were overcome shrink to a line.
    CollapseErrors,
    /// Older turns become a transcript.
    Coalesce(Coalesce),
    /// Older exchanges become an extract of what may be needed.
    Digest,
    /// The newest turns, exchanges or messages stay.
    SlidingWindow(SlidingWindow),
    /// Older turns become a summary by a model.
    Summarize(Box<summary::Options>),
    /// The oldest exchanges go until the rest fits.
    TokenBudget(TokenBudget),
    /// The span goes to the operator's service, the one of this number among the policy's.
    Webhook(usize),
}

/// What an application of a strategy tells beside what the draft shows.
#[derive(Debug, Default)]
struct Done {
    /// Messages it put something smaller in place of.
    replaced: u64,
    /// Counts of its own, by name; those of [`Strategy::details`] that are missing are 0.
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
    /// The result must not be sent: a defect of a strategy.
    Invalid,
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
    pub summaries: Option<&'a Summaries>,
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

impl Strategy {
    /// All strategy names, for metrics.
    pub const NAMES: [&'static str; 13] = [
        dedupe::NAME,
        minify::NAME,
        trim_results::NAME,
        clear_results::NAME,
        strip::NAME,
        collapse_errors::NAME,
        coalesce::NAME,
        digest::NAME,
        summarize::NAME,
        sliding_window::NAME,
        token_budget::NAME,
        webhook::NAME,
        oversize::NAME,
    ];

    /// Its name in configuration, logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Strategy::Dedupe(_) => dedupe::NAME,
            Strategy::Minify(_) => minify::NAME,
            Strategy::TrimResults(_) => trim_results::NAME,
            Strategy::ClearResults(_) => clear_results::NAME,
            Strategy::Strip(_) => strip::NAME,
            Strategy::CollapseErrors => collapse_errors::NAME,
            Strategy::Coalesce(_) => coalesce::NAME,
            Strategy::Digest => digest::NAME,
            Strategy::Summarize(_) => summarize::NAME,
            Strategy::SlidingWindow(_) => sliding_window::NAME,
            Strategy::TokenBudget(_) => token_budget::NAME,
            Strategy::Webhook(_) => webhook::NAME,
        }
    }

    /// The names of its own counts, in the order of its reports.
    fn details(&self) -> &'static [&'static str] {
        match self {
            Strategy::CollapseErrors => &["errors_collapsed"],
            Strategy::Coalesce(_) => &coalesce::DETAILS,
            Strategy::Digest => &["lines", "lines_shown"],
            Strategy::Summarize(_) => &summarize::DETAILS,
            Strategy::Webhook(_) => &["discarded"],
            _ => &[],
        }
    }
}

impl Step {
    fn apply(
        &self,
        draft: &mut Draft<'_>,
        goal: Target,
        window: u64,
        outside: &ExternalInputs<'_>,
    ) -> Result<Done, Stopped> {
        let scope = &self.scope;
        Ok(match &self.strategy {
            Strategy::Dedupe(options) => dedupe::apply(*options, scope, draft).into(),
            Strategy::Minify(options) => minify::apply(*options, scope, draft).into(),
            Strategy::TrimResults(options) => trim_results::apply(options, scope, draft).into(),
            Strategy::ClearResults(options) => {
                clear_results::apply(options, scope, draft, goal).into()
            }
            Strategy::Strip(options) => strip::apply(*options, scope, draft).into(),
            Strategy::CollapseErrors => collapse_errors::apply(scope, draft),
            Strategy::Coalesce(options) => coalesce::apply(options, scope, draft, goal),
            Strategy::Digest => digest::apply(scope, draft, goal),
            Strategy::Summarize(options) => {
                summarize::apply(options, scope, draft, goal, window, outside)?
            }
            Strategy::SlidingWindow(options) => sliding_window::apply(options, scope, draft).into(),
            Strategy::TokenBudget(options) => {
                token_budget::apply(options, scope, draft, goal).into()
            }
            Strategy::Webhook(number) => {
                webhook::apply(*number, scope, draft, goal, outside.answers)?
            }
        })
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
    for step in ladder {
        cancel.check()?;
        if goal.met(draft.size()) {
            break;
        }
        let strategy = &step.strategy;
        reports.push(reported(
            strategy.name(),
            strategy.details(),
            draft,
            |draft| step.apply(draft, goal, window, outside),
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
