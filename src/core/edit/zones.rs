//! The zones of a conversation: head, span, tail, and exchanges that were condensed before.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::Size;
use crate::core::text::{NamePatterns, TextPattern};

/// How much of the newest part of the conversation stays unchanged: the most that any of these keys asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Exchanges up to this many tokens.
    pub tokens: u64,
    /// Turns.
    pub turns: u64,
    /// Exchanges.
    pub exchanges: u64,
}

/// Messages that stay unchanged wherever they stand.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pin {
    /// The first user message: most often the task.
    pub first_user: bool,
    /// Exchanges that call a tool with such a name; `*` and `?` are wild.
    pub tools: NamePatterns,
    /// Messages whose text matches this regular expression.
    pub text: Option<TextPattern>,
}

impl Default for Pin {
    fn default() -> Self {
        Pin {
            first_user: true,
            tools: NamePatterns::default(),
            text: None,
        }
    }
}

/// Where a compaction is to end. Tokens are prompt tokens, as counted.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Low-water mark: steps run while the draft is over it.
    pub target: u64,
    /// What the prompt may take at most.
    pub room: u64,
    /// Low-water mark of messages, when their number was the trigger.
    pub messages: Option<u64>,
    /// Low-water mark of turns, when their number was the trigger.
    pub turns: Option<u64>,
}

impl Target {
    /// Whether a list of this size needs nothing further.
    #[must_use]
    pub fn met(&self, size: Size) -> bool {
        size.tokens <= self.target
            && self.messages.is_none_or(|limit| size.messages <= limit)
            && self.turns.is_none_or(|limit| size.turns <= limit)
    }
}

/// Whether an exchange may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Instructions, pinned exchanges, the last user message: stay where they are.
    Head,
    /// Between head and tail: may be edited or dropped.
    Span,
    /// The newest exchanges: stay as they are.
    Tail,
    /// Gone, with new messages in its place: only what made those takes them up again.
    Condensed,
}
