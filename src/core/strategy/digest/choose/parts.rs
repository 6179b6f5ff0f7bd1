//! The rows of one part of a record, such as the legs of a trip. They are taken together or not at
//! all: half of a trip cannot be booked.

use std::ops::Range;

use crate::core::strategy::digest::line::DigestLine;
use crate::core::strategy::digest::weigh::weight::{Weighed, is_row_of_records};
use crate::core::strategy::maps::{Map, Set};

/// The most rows that are taken together: more are a list to look things up in.
const MOST_ROWS: usize = 6;

/// The rows that are taken together.
pub(super) struct Parts {
    /// By row, those that it is one of.
    rows: Map<usize, Range<usize>>,
    /// By row, the words of those of them above it.
    told: Map<usize, Set<u32>>,
}

impl Parts {
    pub(super) fn of(lines: &[DigestLine], of: &Weighed) -> Self {
        let mut parts = Parts {
            rows: Map::default(),
            told: Map::default(),
        };
        let mut at = 0;
        while at < lines.len() {
            let record = record_of(lines, of, at);
            let is_of_it = |row: &usize| record.is_some() && record_of(lines, of, *row) == record;
            let end = at + 1 + (at + 1..lines.len()).take_while(is_of_it).count();
            if (2..=MOST_ROWS).contains(&(end - at)) {
                parts.add(at..end, of);
            }
            at = end;
        }
        parts
    }

    fn add(&mut self, part: Range<usize>, of: &Weighed) {
        let mut told: Set<u32> = Set::default();
        for row in part.clone() {
            self.rows.insert(row, part.clone());
            self.told.insert(row, told.clone());
            if let Some(weight) = of.lines.get(row) {
                told.extend(of.words_at(&weight.words).map(|(id, _)| id));
            }
        }
    }

    /// The other rows that a row is taken together with.
    pub(super) fn beside(&self, row: usize) -> impl Iterator<Item = usize> {
        let part = self.rows.get(&row).cloned().unwrap_or_default();
        part.filter(move |other| *other != row)
    }

    /// The words that those of them above it have.
    pub(super) fn told_above(&self, row: usize) -> Option<&Set<u32>> {
        self.told.get(&row)
    }
}

/// The table and the name of the record that a line is a row of a part of.
fn record_of(lines: &[DigestLine], of: &Weighed, at: usize) -> Option<(usize, u32)> {
    let row = lines.get(at).filter(|line| line.depth == 1)?;
    let weight = of.lines.get(at);
    let weight = weight.filter(|weight| is_row_of_records(lines, row, weight))?;
    let (name, word) = of.name_of(weight)?;
    word.is_id.then_some((weight.entry, name))
}
