//! Gaps that no mark is worth.

use super::Choice;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};

/// The longest line that takes no more than the mark that would stand for it (bytes).
const MARK_BYTES: usize = 8;

impl Choice<'_> {
    /// Takes the lines between two others that are no longer than the mark of a gap: `C. both.`
    pub(super) fn close_gaps(&mut self) {
        for at in 1..self.lines.len() {
            let needs = self.of.lines.get(at).and_then(|weight| weight.needs);
            let goes_on = self.lines.get(at + 1).is_some_and(|line| line.depth > 0);
            if self.lines.get(at).is_some_and(is_short)
                && goes_on
                && self.is_taken(at - 1)
                && self.is_taken(at + 1)
                && needs.is_none_or(|needs| self.is_taken(needs))
            {
                self.take(at);
            }
        }
    }
}

/// Whether a line of a text or a record is that short.
fn is_short(line: &DigestLine) -> bool {
    line.text.len() <= MARK_BYTES
        && line.depth > 0
        && !line.joins
        && line.is_whole()
        && !matches!(line.part, Part::Row | Part::Head | Part::Untold)
        && !matches!(
            line.standing,
            Standing::Gone | Standing::Repeated | Standing::Told
        )
}
