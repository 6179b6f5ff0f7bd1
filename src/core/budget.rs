//! The numbers that a decision compares with, and amounts of tokens as operators write them.

use crate::core::conversation::scale;

/// A number of tokens, absolute or as a share of something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// This many tokens.
    Tokens(u64),
    /// This share, 0..=1.
    Ratio(f64),
}

impl Amount {
    /// The tokens meant, given the whole that a ratio is a share of.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Tokens(tokens) => tokens,
            Amount::Ratio(ratio) => scale(whole, ratio),
        }
    }
}

/// The numbers that a decision compares with. All in prompt tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The context length.
    pub window: u64,
    /// window − reserve: what the prompt may take.
    pub room: u64,
    /// Low-water mark.
    pub target: u64,
    /// The least a compaction must save while the prompt still fits.
    pub min_gain: u64,
}
