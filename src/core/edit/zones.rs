//! What of a conversation may be touched: head, span, tail, and what was condensed.

use globset::GlobSet;
use regex::Regex;

use crate::core::conversation::Size;

/// How much of the newest part of the conversation stays as it is: whatever any of these asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Exchanges up to this many tokens.
    pub tokens: u64,
    /// Turns.
    pub turns: u64,
    /// Exchanges.
    pub exchanges: u64,
}

/// What stays wherever it stands.
#[derive(Debug, Clone, Default)]
pub struct Pin {
    /// The first user message: the task.
    pub first_user: bool,
    /// Exchanges that call a tool so named.
    pub tools: Option<GlobSet>,
    /// Messages whose text matches.
    pub text: Option<Regex>,
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
