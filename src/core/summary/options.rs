//! The options of `summarize`.

use std::sync::Arc;
use std::time::Duration;

use super::files::FileRule;
use crate::core::conversation::{Author, ratio, scale};

/// The window that the defaults are made for, tokens.
const USUAL_WINDOW: u64 = 128_000;
/// Recent tokens that stay in a window of that size.
const USUAL_KEEP: u64 = 20_000;
/// The least that stays in small windows, tokens, or a quarter of the window if that is less.
const LEAST_KEEP: u64 = 2_000;
/// The share of the target that a summary may take: one in so many.
const SUMMARY_SHARE: u64 = 4;
/// The least that a summary may take, tokens.
const LEAST_SUMMARY: u64 = 256;

/// The options of `summarize`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The newest part, which stays as it is.
    pub keep: Recent,
    /// The share of window − reserve at which a summary is prepared.
    pub prepare_at: f64,
    /// How long a request waits for a summary that is not ready.
    pub wait: Duration,
    /// The longest summary, tokens.
    pub max_tokens: u64,
    /// Updates after which a summary is made anew from the originals.
    pub refresh_every: u32,
    /// Characters of a result, or of a call's arguments, that are shown to the summariser.
    pub result_limit: usize,
    /// The share of the target that Baler's own additions to a summary may take.
    pub facts: f64,
    /// The share of identifiers and numbers in a summary that may be missing from its source.
    pub max_ungrounded: f64,
    /// The role of the message with the summary.
    pub role: SummaryRole,
    /// The calls that read and change files.
    pub artifacts: Arc<[FileRule]>,
}

/// The newest part of a conversation, which is not summarised: the most that any of these asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recent {
    /// Tokens; by the window when nothing at all is given.
    pub tokens: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Messages, rounded up to whole exchanges.
    pub messages: Option<u64>,
}

/// The party in whose name a summary is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the parties")]
pub enum SummaryRole {
    User,
    System,
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
                messages: None,
                ..
            } => scale(USUAL_KEEP, ratio_of(window)).max(least),
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
}

fn ratio_of(window: u64) -> f64 {
    ratio(window, USUAL_WINDOW).min(1.0)
}

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};

    #[test]
    fn what_stays_and_how_long_a_summary_may_be_go_by_the_window() {
        let sources = Sources {
            ladder: Some(vec!["summarize".to_owned()]),
            ..Sources::default()
        };
        let policy = load(&sources).unwrap().policies.remove(0);
        let (_, options) = policy.summarize().unwrap();
        for (window, reserve, keep, summary) in [
            (1_000_000, 16_384, 20_000, 4_096),
            (128_000, 16_384, 20_000, 4_096),
            (64_000, 16_000, 10_000, 4_096),
            (32_000, 8_000, 5_000, 3_000),
            (8_192, 2_048, 2_000, 768),
            (4_096, 1_024, 1_024, 384),
        ] {
            let budget = policy.budget(window);
            assert_eq!(window - budget.room, reserve, "{window}");
            assert_eq!(
                (
                    options.keep_tokens(window, budget.target),
                    options.summary_tokens(budget.target)
                ),
                (keep, summary),
                "{window}"
            );
        }
    }
}
