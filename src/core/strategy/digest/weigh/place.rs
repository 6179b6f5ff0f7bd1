//! The place of a word in its line: whether it is a key, a value, or the name of what the line
//! tells of.

use std::ops::Range;

use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::lists::is_listed;

/// A key with so many digits is an id (`address1` is not).
const ID_DIGITS: usize = 3;

/// The line that is being read.
pub(in super::super) struct Current<'t> {
    pub text: &'t str,
    pub part: Part,
    pub of_call: bool,
    /// The ends of its cells, where it is the row of a table.
    cells: Vec<usize>,
    /// Where what names it ends: that of a row is in its first cell, that of an item of a list
    /// anywhere.
    name_ends: usize,
    /// The mention that its first word is.
    pub from: usize,
    /// The last key in it.
    pub key: Option<u32>,
    /// The mentions that name what it tells of.
    pub name: Range<usize>,
}

/// The place of a word in its line.
pub(in super::super) struct Place {
    /// Bytes before it.
    offset: usize,
    /// It is assigned to the name before it, as in `key=value`.
    pub assigned: bool,
    /// It names a value.
    pub names_value: bool,
    /// It names a value, but is an id itself: a map from ids.
    pub id_as_key: bool,
    /// Its score is that of a key.
    pub key: bool,
    /// It is of what names the row or the item.
    pub is_name: bool,
}

impl<'t> Current<'t> {
    /// A line of which no word was read; `from` is the number of mentions before it.
    pub(in super::super) fn new(line: &'t DigestLine, from: usize) -> Self {
        let text = line.text.as_str();
        let cells = if line.part == Part::Row {
            commas(text)
        } else {
            Vec::new()
        };
        let name_ends = match line.part {
            Part::Row => cells.first().copied().unwrap_or(text.len()),
            Part::Assistant if is_listed(text) => text.len(),
            // As in `results["8712", Renewals Nordics].stages: […`.
            Part::Head => text
                .find(']')
                .filter(|end| has_title(text, *end))
                .unwrap_or(0),
            _ => 0,
        };
        Current {
            text,
            part: line.part,
            of_call: line.is_of_call(),
            cells,
            name_ends,
            from,
            key: None,
            name: from..from,
        }
    }

    /// The number of the cell that a word stands in, where it is the row of a table.
    pub(in super::super) fn cell_of(&self, place: &Place) -> usize {
        self.cells.partition_point(|comma| *comma < place.offset)
    }

    /// The place of `word`, a slice of the line's text.
    pub(in super::super) fn place_of(&self, word: &str) -> Place {
        let bytes = self.text.as_bytes();
        let offset = word.as_ptr() as usize - self.text.as_ptr() as usize;
        let after = bytes.get(offset + word.len());
        let before = offset.checked_sub(1).and_then(|at| bytes.get(at));
        let assigned = before == Some(&b'=');
        let plain = self.part.is_plain();
        let begins = || self.text.trim_start().as_ptr() == word.as_ptr();
        let numbering = plain && word.bytes().all(|b| b.is_ascii_digit()) && begins();
        let names_value = match after {
            Some(b':') => !plain,
            Some(b'=') => !plain || self.part == Part::Call,
            _ => false,
        };
        // A map from ids: an id as a key is needed like a value.
        let id_as_key =
            after == Some(&b':') && word.bytes().filter(u8::is_ascii_digit).count() >= ID_DIGITS;
        let in_heading = self.part == Part::Head && !assigned;
        let key = numbering || ((names_value || in_heading) && !id_as_key);
        Place {
            offset,
            assigned,
            names_value,
            id_as_key,
            key,
            is_name: offset < self.name_ends && (!key || self.part == Part::Head),
        }
    }
}

/// Whether the brackets that end there have an id with a title.
fn has_title(head: &str, end: usize) -> bool {
    let before = head.get(..end).and_then(|before| before.split_once('['));
    before.is_some_and(|(path, name)| !path.is_empty() && name.contains(", "))
}

/// The ends of a row's cells.
pub(in super::super) fn commas(row: &str) -> Vec<usize> {
    let mut quoted = false;
    row.bytes()
        .enumerate()
        .filter(|(_, byte)| {
            quoted ^= *byte == b'"';
            *byte == b',' && !quoted
        })
        .map(|(at, _)| at)
        .collect()
}
