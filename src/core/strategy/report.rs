//! Reports: what each step did.

use crate::core::conversation::Size;

/// What a strategy did, besides the changes that the draft shows.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Messages that it replaced by smaller ones.
    pub replaced: u64,
    /// Counts of its own, by name; those in the strategy's list that are missing are 0.
    pub details: Vec<(&'static str, u64)>,
}

impl From<u64> for Done {
    fn from(replaced: u64) -> Self {
        Done {
            replaced,
            details: Vec::new(),
        }
    }
}

/// What a step did, in the same shape whether it acted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Size before it.
    pub before: Size,
    /// Size after it.
    pub after: Size,
    /// Messages that it dropped.
    pub dropped: u64,
    /// Messages that it replaced by smaller ones.
    pub replaced: u64,
    /// Counts of the strategy's own, by name.
    pub details: Vec<(&'static str, u64)>,
    /// Whether it ran in the place of steps that there was no time for.
    pub shortcut: bool,
}

impl Report {
    /// Whether anything changed.
    #[must_use]
    pub fn acted(&self) -> bool {
        self.dropped + self.replaced > 0 || self.before != self.after
    }
}
