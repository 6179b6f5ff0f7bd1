//! Summaries, and the view of those that a conversation has.

use std::sync::Arc;
use std::time::Duration;

use crate::core::conversation::Fingerprint;

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

/// The summaries of one conversation's prefixes, as the shell found them.
#[derive(Debug, Default)]
pub struct Summaries {
    /// The keys: entry `i` is for the first `i` messages, instructions left out.
    keys: Vec<Fingerprint>,
    /// The state of each, in the same order.
    states: Vec<Option<State>>,
    /// Whether a step may stop to ask for a summary that is not ready.
    pub may_ask: bool,
}

impl Summaries {
    /// The summaries of a conversation: one state for each of its keys.
    #[must_use]
    pub fn new(keys: Vec<Fingerprint>, states: Vec<Option<State>>, may_ask: bool) -> Self {
        Summaries {
            keys,
            states,
            may_ask,
        }
    }

    /// The keys, by the number of messages.
    pub(super) fn keys(&self) -> &[Fingerprint] {
        &self.keys
    }

    /// The state of the summary of the first `messages` messages; `None` when nobody asked for one.
    #[must_use]
    pub fn of(&self, messages: usize) -> Option<&State> {
        self.states.get(messages)?.as_ref()
    }
}
