//! One step of a ladder: a strategy with its options, and the scope that it is limited to.

use super::clear_results::{self, ClearResults};
use super::coalesce::{self, Coalesce};
use super::collapse_errors;
use super::dedupe::{self, Dedupe};
use super::digest;
use super::minify::{self, Minify};
use super::need::{ExternalInputs, Stopped};
use super::oversize;
use super::report::Done;
use super::scope::Scope;
use super::sliding_window::{self, SlidingWindow};
use super::strip::{self, Strip};
use super::summarize;
use super::token_budget::{self, TokenBudget};
use super::trim_results::{self, TrimResults};
use super::webhook;
use crate::core::edit::{Draft, Target};
use crate::core::summary;

/// One step of a ladder.
#[derive(Debug, Clone)]
pub struct Step {
    /// The strategy, with its options.
    pub strategy: Strategy,
    /// The part of the conversation that it is limited to.
    pub scope: Scope,
    /// Name and options as JSON, for reports and identities.
    pub options: String,
}

/// A strategy, with its options.
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
    pub(super) fn details(&self) -> &'static [&'static str] {
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
    pub(super) fn apply(
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
