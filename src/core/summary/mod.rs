//! Summaries of older turns that a model writes: what to ask it, and what to make of its answer. Who asks, when, and how
//! often is the shell's business (`crate::summarizer`).
//!
//! ```text
//! cut         how much of a conversation is to be summarised now, and on what it builds
//! transcript  exchanges as quoted text
//! fold        a transcript in pieces that the model can read
//! prompt      the request for a summary
//! accept      an answer, checked against what it is about
//! artifacts   the files that calls read and changed
//! ```
//!
//! A summary covers a prefix of the *original* messages, which the client sends again each time: so it can be made before
//! it is needed, does not depend on what other strategies did meanwhile, and can be made anew from the originals.

mod cut;
mod files;
mod prompt;
mod refine;
mod transcript;
mod validate;

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::conversation::Measure;
use crate::core::conversation::scale;
use crate::core::conversation::{Fingerprint, PrefixHash};
use crate::core::text::Pattern;

pub use cut::PendingSummary;
pub(in crate::core) use cut::{floor, next};
pub(in crate::core) use files::files;
pub use files::{FileAccess, FileRule};
pub use prompt::{PROMPT, continued, request};
pub use refine::{Chunk, ChunkPlan};
pub use validate::{Accepted, Answer, Rejected, Terms, validate};

/// The patterns of this room.
pub(in crate::core) static PATTERNS: [&Pattern; 3] =
    [&prompt::BLOCK_TAG, &validate::MARKER, &validate::ROLE_LABEL];

/// The window that the defaults are made for, tokens.
const USUAL_WINDOW: u64 = 128_000;
/// Recent tokens that stay in a window of that size.
const USUAL_KEEP: u64 = 20_000;
/// Where windows are small, no less than this stays, or a quarter of the window.
const LEAST_KEEP: u64 = 2_000;
/// The share of the target that a summary may take: one in so many.
const SUMMARY_SHARE: u64 = 4;
/// Below this many tokens nothing can be summarised.
const LEAST_SUMMARY: u64 = 256;

/// The options of `summarize`.
#[derive(Debug, Clone)]
pub struct Options {
    /// What stays as it is.
    pub keep: Recent,
    /// The share of window − reserve from which on a summary is prepared.
    pub prepare_at: f64,
    /// How long a request waits for a summary that is not ready.
    pub wait: Duration,
    /// The longest summary, tokens.
    pub max_tokens: u64,
    /// Updates after which a summary is made anew from the originals.
    pub refresh_every: u32,
    /// Characters of a result, or of a call's arguments, that are shown to the summariser.
    pub result_limit: usize,
    /// The share of the target for what Baler itself adds to a summary.
    pub facts: f64,
    /// The share of identifiers and numbers in a summary that may stand nowhere in its source.
    pub max_ungrounded: f64,
    /// The role of the message with the summary.
    pub role: SummaryRole,
    /// Which calls read and change files.
    pub artifacts: Arc<[FileRule]>,
}

/// The newest part of a conversation that is not summarised: whatever any of these asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recent {
    /// Tokens; by the window when nothing at all is given.
    pub tokens: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Messages, rounded up to whole exchanges.
    pub messages: Option<u64>,
}

/// Whose message a summary is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the wire's")]
pub enum SummaryRole {
    User,
    System,
    Developer,
}

impl SummaryRole {
    /// As it is written in a message.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SummaryRole::User => "user",
            SummaryRole::System => "system",
            SummaryRole::Developer => "developer",
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
    crate::core::conversation::ratio(window, USUAL_WINDOW).min(1.0)
}

/// A summary of the first messages of a conversation, as a model wrote it and Baler checked it.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The text.
    pub text: Box<str>,
    /// Its tokens.
    pub tokens: u64,
    /// Times it was updated since it was made from the originals, plus one.
    pub generation: u32,
    /// Whether it builds on an earlier one.
    pub incremental: bool,
    /// Whether it ends inside a turn, whose beginning has a section of its own.
    pub split: bool,
    /// What it took.
    pub spent: Spent,
}

/// What a summary took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Calls of the summariser.
    pub calls: u64,
    /// Prompt tokens of these calls, as reported, else as counted.
    pub prompt_tokens: u64,
    /// Tokens of its answers.
    pub completion_tokens: u64,
    /// Time from the first call to the last answer.
    pub took: Duration,
}

/// What is known of the summary of a prefix.
#[derive(Debug, Clone)]
pub enum State {
    /// Here it is.
    Ready(Arc<Summary>),
    /// It is being made.
    Running,
    /// It could not be made, and is not to be tried again now.
    Failed,
}

/// The summaries of one conversation's prefixes.
pub struct Summaries<'a> {
    measures: &'a [Measure],
    seed: Fingerprint,
    /// Made when it is first looked at: most requests are far from needing a summary.
    chain: OnceCell<Vec<Fingerprint>>,
    state: &'a dyn Fn(&Fingerprint) -> Option<State>,
    /// Whether a step may stop to ask for a summary that is not ready.
    pub may_ask: bool,
}

impl<'a> Summaries<'a> {
    /// The summaries of a conversation whose keys start from `seed`; `state` says what is known of each.
    #[must_use]
    pub fn new(
        measures: &'a [Measure],
        seed: Fingerprint,
        state: &'a dyn Fn(&Fingerprint) -> Option<State>,
        may_ask: bool,
    ) -> Self {
        Summaries {
            measures,
            seed,
            chain: OnceCell::new(),
            state,
            may_ask,
        }
    }

    /// The keys: entry `i` is the digest of the first `i` messages, instructions left out.
    fn chain(&self) -> &[Fingerprint] {
        self.chain.get_or_init(|| chain(self.measures, &self.seed))
    }

    /// What is known of the summary of the first messages.
    #[must_use]
    pub fn of(&self, messages: usize) -> Option<State> {
        (self.state)(self.chain().get(messages)?)
    }
}

impl fmt::Debug for Summaries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summaries")
            .field("messages", &self.measures.len())
            .field("may_ask", &self.may_ask)
            .finish_non_exhaustive()
    }
}

fn chain(measures: &[Measure], seed: &Fingerprint) -> Vec<Fingerprint> {
    let mut chain = PrefixHash::new(seed);
    let mut digests = Vec::with_capacity(measures.len() + 1);
    digests.push(chain.digest());
    for measure in measures {
        if !measure.role.is_instruction() {
            chain.push(&measure.digest);
        }
        digests.push(chain.digest());
    }
    digests
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
