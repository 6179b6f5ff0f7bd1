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
mod options;
mod prompt;
mod refine;
mod transcript;
mod validate;

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::conversation::Measure;
use crate::core::conversation::{Fingerprint, PrefixHash};

pub use cut::PendingSummary;
pub(in crate::core) use cut::{floor, next};
pub(in crate::core) use files::files;
pub use files::{FileAccess, FileRule};
pub use options::{Options, Recent, SummaryRole};
pub use prompt::{Limit, Manner, PROMPT, continued, request};
pub use refine::{Chunk, ChunkPlan};
pub use validate::{Accepted, Answer, Rejected, Terms, validate};

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
