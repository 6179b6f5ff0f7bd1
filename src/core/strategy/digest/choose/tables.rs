//! The rows that the tables of a digest still miss: the last of them takes the place of the mark
//! that counts what is missing (`… 1 more`), which costs about as much and says nothing.

use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::weigh::weight::Weight;

/// The missing rows of each table.
pub(super) struct Tables {
    /// By line: the head that a row stands below.
    heads: Vec<Option<usize>>,
    /// By line: the rows below a head, and those of them that were not taken.
    rows: Vec<u32>,
    missing: Vec<u32>,
}

impl Tables {
    pub(super) fn new(lines: &[DigestLine], weights: &[Weight]) -> Self {
        let is_row = |line: &DigestLine| line.part == Part::Row && line.is_whole();
        let pairs = lines.iter().zip(weights);
        let heads: Vec<_> = pairs
            .map(|(line, weight)| weight.needs.filter(|_| is_row(line)))
            .collect();
        let mut rows = vec![0; lines.len()];
        for head in heads.iter().flatten() {
            if let Some(rows) = rows.get_mut(*head) {
                *rows += 1;
            }
        }
        Tables {
            heads,
            missing: rows.clone(),
            rows,
        }
    }

    /// No row is taken any more.
    pub(super) fn clear(&mut self) {
        self.missing.clone_from(&self.rows);
    }

    /// A row that was not taken yet is taken; other lines change nothing.
    pub(super) fn take(&mut self, line: usize) {
        let missing = self.head_of(line).and_then(|at| self.missing.get_mut(at));
        if let Some(missing) = missing {
            *missing = missing.saturating_sub(1);
        }
    }

    /// Whether the table of a row is shown and misses one row only.
    pub(super) fn misses_one(&self, line: usize) -> bool {
        self.head_of(line).is_some_and(|head| {
            let is_shown = self.rows.get(head) > Some(&1);
            is_shown && self.missing.get(head) == Some(&1)
        })
    }

    /// The rows of the table that a line is a row of.
    pub(super) fn rows_beside(&self, line: usize) -> impl Iterator<Item = usize> + '_ {
        let head = self.head_of(line);
        let first = head.map_or(self.heads.len(), |head| head + 1);
        let rows = (first..self.heads.len()).filter(move |at| self.head_of(*at) == head);
        let all = head.and_then(|head| self.rows.get(head));
        rows.take(all.map_or(0, |all| *all as usize))
    }

    fn head_of(&self, line: usize) -> Option<usize> {
        self.heads.get(line).copied().flatten()
    }
}
