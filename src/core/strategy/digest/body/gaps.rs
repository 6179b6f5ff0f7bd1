//! The marks of what is left out of a call and its result.

use crate::core::strategy::digest::line::{ALSO, DigestLine, GAP, SINCE};

/// Follows the mark where the place of the next lines matters: `… line 41:`.
const PLACE: &str = " line ";
/// Behind the number of rows that are not shown whole: they are told in short.
pub(in super::super) const MORE_BELOW: &str = " below";

/// Writes the mark of a gap before a line, if there is one, with the number of the line where it
/// is known.
pub(super) fn mark_gap(
    gap: &mut bool,
    line: &DigestLine,
    place: Option<u32>,
    out: &mut Vec<String>,
) {
    if !std::mem::take(gap) {
        return;
    }
    let place = place.map_or_else(String::new, |number| format!("{PLACE}{number}:"));
    out.push(format!("{}{GAP}{place}", blanks(line)));
}

/// The number in the mark of a gap: that of the next line.
pub(in super::super) fn place_in(mark: &str) -> Option<u32> {
    let place = mark.strip_prefix(GAP)?.strip_prefix(PLACE)?;
    // Digests of earlier versions have no colon.
    place.strip_suffix(':').unwrap_or(place).parse().ok()
}

/// Whether a line is the mark of a gap.
pub(in super::super) fn is_gap(text: &str) -> bool {
    let is_mark = |mark: &&str| text.starts_with(*mark);
    text == GAP || place_in(text).is_some() || [ALSO, SINCE].iter().any(is_mark)
}

/// The blanks that show the place of a line.
pub(super) fn blanks(line: &DigestLine) -> String {
    " ".repeat(usize::from(line.depth))
}
