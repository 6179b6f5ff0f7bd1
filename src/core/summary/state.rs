//! Summaries, and the view of those that a conversation has.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::conversation::{Fingerprint, Measure, PrefixHash};

/// A summary of the first messages of a conversation, written by a model and checked by Baler.
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
    /// Its cost.
    pub spent: Spent,
}

/// The cost of a summary.
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

/// The state of the summary of a prefix.
#[derive(Debug, Clone)]
pub enum State {
    /// It is there.
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
    /// The summaries of a conversation whose keys start from `seed`; `state` looks one up by its
    /// key.
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

    /// The keys: entry `i` is the fingerprint of the first `i` messages, instructions left out.
    pub(super) fn chain(&self) -> &[Fingerprint] {
        self.chain.get_or_init(|| chain(self.measures, &self.seed))
    }

    /// The state of the summary of the first `messages` messages; `None` when nobody asked for one.
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
        if !measure.speaker.is_instruction() {
            chain.push(&measure.digest);
        }
        digests.push(chain.digest());
    }
    digests
}
