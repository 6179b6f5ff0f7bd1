//! Cache marks of edited messages, decided for each request anew: clients move their marks on, and
//! a mark that stayed behind in a checkpoint would be one more than the API allows.
//!
//! INVARIANT: a new message carries a mark only if a message that it stands for carries one in this
//! request. So there are never more marks than the client has, and new messages add none beyond
//! what APIs allow.

use std::collections::BTreeMap;

use super::edits::Edit;
use crate::core::wire::chat::Outline;
use crate::core::wire::{CacheMark, Dialect};

/// Marks that APIs allow in one request.
const MOST: usize = 4;

/// The marks that new messages carry, by the index of the message whose edit they belong to.
pub(super) fn marks_of_edits<'a>(
    dialect: Dialect,
    outline: &Outline<'a>,
    edits: &[Edit],
) -> BTreeMap<usize, Vec<CacheMark<'a>>> {
    let mut all = dialect.count_marks(outline.body);
    if all == 0 {
        return BTreeMap::new();
    }
    let mut carried: BTreeMap<usize, Vec<CacheMark<'a>>> = BTreeMap::new();
    // Dropped messages are stood for by the last new message before them.
    let mut stand = None;
    for (at, (raw, edit)) in outline.messages.iter().zip(edits).enumerate() {
        let marks = match edit {
            Edit::Keep => continue,
            _ => dialect.cache_marks(raw),
        };
        all = all.saturating_sub(dialect.count_marks(raw));
        if let Edit::Stand(_) = edit {
            stand = Some(at);
        }
        match (edit, stand) {
            (Edit::Replace(_), _) if !marks.is_empty() => {
                carried.insert(at, marks);
            }
            (Edit::Stand(_) | Edit::Drop, Some(stand)) => {
                let last = marks.last().map(|mark| vec![mark.at_end()]);
                last.map(|last| carried.insert(stand, last));
            }
            _ => {}
        }
    }
    // The newest marks are worth most.
    let mut left = MOST.saturating_sub(all);
    let mut allowed = BTreeMap::new();
    for (at, mut marks) in carried.into_iter().rev() {
        let first = marks.len().saturating_sub(left);
        let marks = marks.split_off(first);
        left -= marks.len();
        if !marks.is_empty() {
            allowed.insert(at, marks);
        }
    }
    allowed
}
