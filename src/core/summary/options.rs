//! The options of `summarize` steps.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{FileRule, usual_rules};
use crate::core::conversation::{Author, ratio, scale};

/// The window that the defaults are made for, tokens.
const USUAL_WINDOW: u64 = 128_000;
/// Recent tokens that stay in a window of that size.
const USUAL_KEEP: u64 = 20_000;
/// In small windows at least this stays, or a quarter of the window.
const LEAST_KEEP: u64 = 2_000;
/// The share of the target that a summary may take: one in so many.
const SUMMARY_SHARE: u64 = 4;
/// Below this many tokens nothing can be summarised.
const LEAST_SUMMARY: u64 = 256;

/// Older turns become a summary by a model, which is prepared before it is needed. See
/// `[summarizer]`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Summarize")]
pub struct Options {
    /// The recent part that is not summarised, in whole exchanges: the most that any key asks for,
    /// at most half of the target. Without a key it is 20000 tokens in a window of 128000, and less
    /// in smaller ones.
    pub keep: Recent,
    /// Share of window − reserve from which on a summary is prepared in the background, for the
    /// default trigger; for other triggers the same distance before them, as a factor.
    pub prepare_at: f64,
    /// How long a request waits for a summary that is not ready; with "0s" the rest of the ladder
    /// acts at once.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub wait: Duration,
    /// The longest summary, tokens; at most a quarter of the target.
    pub max_tokens: u64,
    /// Updates after which a summary is made anew from the originals, where those fit the
    /// summariser's window.
    pub refresh_every: u32,
    /// Characters of a result, or of a call's arguments, that the summariser is shown.
    pub result_limit: usize,
    /// Share of the target that Baler may add to a summary itself: lists of files, and an extract
    /// as `digest` makes it.
    pub extract_share: f64,
    /// Share of the identifiers and numbers of a summary that its source may lack; a summary with
    /// more is discarded.
    pub max_ungrounded: f64,
    /// The role of the message with the summary: "user", "system" or "developer".
    pub role: SummaryRole,
    /// The calls that read and change files: the first rule that finds a file counts. Rules for the
    /// tools of common agents when not given.
    pub files: Option<Vec<FileRule>>,
}

/// The newest part of a conversation that is not summarised: the most that any of these keys asks
/// for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recent {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Exchanges.
    pub exchanges: Option<u64>,
    /// Messages, rounded up to whole exchanges.
    pub messages: Option<u64>,
}

/// The role of the message with a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummaryRole {
    /// The user's, marked as data.
    User,
    /// The system's.
    System,
    /// The developer's.
    Developer,
}

impl SummaryRole {
    /// The author of the message.
    #[must_use]
    pub fn author(self) -> Author {
        match self {
            SummaryRole::User => Author::User,
            SummaryRole::System => Author::System,
            SummaryRole::Developer => Author::Developer,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            keep: Recent::default(),
            prepare_at: 0.65,
            wait: Duration::ZERO,
            max_tokens: 4_096,
            refresh_every: 4,
            result_limit: 2_000,
            extract_share: 0.1,
            max_ungrounded: 0.3,
            role: SummaryRole::User,
            files: None,
        }
    }
}

impl Options {
    /// Recent tokens that stay in a window of which compaction leaves `target` tokens.
    #[must_use]
    pub fn keep_tokens(&self, window: u64, target: u64) -> u64 {
        let least = LEAST_KEEP.min(window / 4);
        let wanted = match self.keep {
            Recent {
                tokens: Some(tokens),
                ..
            } => tokens,
            Recent {
                turns: None,
                exchanges: None,
                messages: None,
                ..
            } => scale(USUAL_KEEP, ratio(window, USUAL_WINDOW).min(1.0)).max(least),
            Recent { .. } => 0,
        };
        wanted.min((target / 2).max(least))
    }

    /// The longest summary, tokens, where compaction leaves `target` tokens.
    #[must_use]
    pub fn summary_tokens(&self, target: u64) -> u64 {
        self.max_tokens
            .min((target / SUMMARY_SHARE).max(LEAST_SUMMARY))
    }

    /// The rules for files: those that were given, else those for the tools of common agents.
    #[must_use]
    pub fn file_rules(&self) -> &[FileRule] {
        self.files.as_deref().unwrap_or_else(|| usual_rules())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_part_and_the_longest_summary_follow_the_window() {
        let options = Options::default();
        for (window, target, keep, summary) in [
            (1_000_000, 491_808, 20_000, 4_096),
            (128_000, 55_808, 20_000, 4_096),
            (64_000, 24_000, 10_000, 4_096),
            (32_000, 12_000, 5_000, 3_000),
            (8_192, 3_072, 2_000, 768),
            (4_096, 1_536, 1_024, 384),
        ] {
            assert_eq!(
                (
                    options.keep_tokens(window, target),
                    options.summary_tokens(target)
                ),
                (keep, summary),
                "{window}"
            );
        }
    }
}
