//! A line that waits to be taken, in the order in which lines are taken.

use std::cmp::Ordering;

/// A line that waits to be taken.
pub(super) struct Candidate {
    /// Its score for each token that it takes, as far as that is known.
    pub density: f32,
    pub line: usize,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    /// Densest first; of equals the newer.
    fn cmp(&self, other: &Self) -> Ordering {
        self.density
            .total_cmp(&other.density)
            .then(self.line.cmp(&other.line))
    }
}
