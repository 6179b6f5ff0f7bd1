//! The contract between the ladder and a strategy: options that describe and check themselves, and
//! one function over a draft.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::need::{ExternalInputs, Stopped};
use super::report::Done;
use super::scope::Scope;
use crate::core::Cancel;
use crate::core::edit::{Draft, Target};
use crate::core::text::Failures;

/// A strategy, which is the type of its options. Doc comments of the type and its fields become the
/// JSON schema.
pub(super) trait Options: Default + Serialize + DeserializeOwned + JsonSchema {
    /// The strategy's name in configuration, logs and metrics.
    const NAME: &'static str;

    /// Whether the strategy takes single milliseconds for any list: it runs even when the time for
    /// planning is spent.
    const QUICK: bool = false;

    /// Names of the strategy's own counts, in the order of its reports.
    const COUNTS: &'static [&'static str] = &[];

    /// Reports values that are out of range or contradict each other or the policy's trigger.
    fn check(&self, _check: &mut OptionCheck<'_>) {}

    /// Whether the options say which of the newest messages the step keeps. Where they do not, the
    /// policy's `keep` holds.
    fn keeps_its_own(&self) -> bool {
        false
    }

    /// Makes the span of `draft` smaller.
    ///
    /// # Errors
    /// [`Stopped`], where the strategy needs an answer from outside first, or its time is spent.
    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped>;
}

/// One run of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'r> {
    /// The limits of the step.
    pub(super) scope: &'r Scope,
    /// Where the compaction is to end.
    pub(super) target: Target,
    /// The context length, tokens.
    pub(super) window: u64,
    /// The number of `webhook` steps before this one in the ladder.
    pub(super) webhook: usize,
    /// Answers that were fetched for the ladder.
    pub(super) external: &'r ExternalInputs<'r>,
    /// The signs of failure in results.
    pub(super) failures: Failures<'r>,
    /// Whether a digest of a certain size is written now, and not only counted.
    pub(super) writes: bool,
    /// Bounds its time: [`Cancel::check_budget`] in every loop that may be long.
    pub(super) cancel: &'r Cancel,
}

/// The policy's trigger, as far as the options of a step must suit it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TriggerLimits {
    /// Share of window − reserve.
    pub ratio: Option<f64>,
    /// Messages.
    pub messages: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
}

/// Collects the problems of a step's options.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct OptionCheck<'c> {
    /// The policy's trigger.
    pub(in crate::core) trigger: TriggerLimits,
    report: &'c mut dyn FnMut(&str, String),
}

impl<'c> OptionCheck<'c> {
    /// A check that passes each problem to `report`, with the path of its key inside the step's
    /// table; the path is empty where the table as a whole is wrong.
    pub fn new(trigger: TriggerLimits, report: &'c mut dyn FnMut(&str, String)) -> Self {
        OptionCheck { trigger, report }
    }

    pub(in crate::core) fn fail(&mut self, key: &str, problem: impl Into<String>) {
        (self.report)(key, problem.into());
    }

    /// Reports a value below `least`.
    pub(in crate::core) fn at_least(&mut self, key: &str, value: u64, least: u64) {
        if value < least {
            self.fail(key, format!("{value} is too small; at least {least}"));
        }
    }

    /// Reports a share that is not above 0 and at most 1.
    pub(in crate::core) fn positive_share(&mut self, key: &str, share: f64) {
        if !(share > 0.0 && share <= 1.0) {
            self.fail(key, format!("{share} is not between 0 and 1"));
        }
    }

    /// Reports a share that is not between 0 and 1, both included.
    pub(in crate::core) fn share(&mut self, key: &str, share: f64) {
        if !(0.0..=1.0).contains(&share) {
            self.fail(key, format!("{share} is not between 0 and 1"));
        }
    }
}
