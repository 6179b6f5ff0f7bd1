//! Which lines the shares of the room are for.

use crate::core::strategy::digest::calls::made::edited;
use crate::core::strategy::digest::line::{DigestLine, Outcome, Part, Standing};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::text::{asks, greets_by_name, is_question, only_serves, shape, waits, words_of};

/// The most words of a sentence that says nothing by itself, such as `Your call.`
const CRUMB_WORDS: usize = 5;

/// Whether a sentence says nothing by itself: it has no name or number, and hardly a word.
pub(super) fn is_crumb(text: &str) -> bool {
    let tells = words_of(text).any(|word| shape(word) >= 1.0);
    text.is_ascii() && !tells && text.split_whitespace().count() <= CRUMB_WORDS
}

/// Whether a sentence of the model's tells something, rather than to ask, to offer help or to
/// thank.
pub(super) fn says_more_than_help(line: &DigestLine) -> bool {
    !asks(&line.text)
        && !waits(&line.text)
        && !only_serves(&line.text)
        && !greets_by_name(&line.text)
}

/// Whether a line is a sentence in which the model noted something.
pub(super) fn is_note(line: &DigestLine) -> bool {
    line.part == Part::Assistant
        && matches!(line.standing, Standing::Edge | Standing::Usual)
        && !is_question(&line.text)
}

/// The turn of the newest records, where no result stays besides the digest: the user's newest
/// message may ask for more of what they have. `None` where all is of one turn.
pub(super) fn newest_turn(lines: &[DigestLine], context: &Context) -> Option<u32> {
    if !context.texts.is_empty() {
        return None;
    }
    let of_records = lines.iter().filter(|line| is_of_records(line));
    let told = lines.iter().find(|line| line.part != Part::Untold);
    let first = told.map(|line| line.turn);
    let newest = of_records.map(|line| line.turn).max();
    newest.filter(|newest| first.is_some_and(|first| first < *newest))
}

/// Whether a line tells what a record in a result has. Rows of tables have other shares.
pub(super) fn is_of_records(line: &DigestLine) -> bool {
    matches!(line.part, Part::Record | Part::Member) && !line.of_argument
}

/// Whether a line is one that the model wrote, of a script or a file: of a long argument, or an
/// edit that has room on the line of its call.
pub(super) fn is_written(line: &DigestLine) -> bool {
    let is_edit = || line.outcome == Outcome::Done && edited(&line.text).is_some();
    match line.part {
        Part::Argument => matches!(line.standing, Standing::Usual | Standing::Beside),
        Part::Call => line.standing == Standing::Usual && is_edit(),
        _ => false,
    }
}

/// Whether a line has the scalars of a record.
pub(super) fn is_record(line: &DigestLine, _: &Weight) -> bool {
    line.part == Part::Record || (line.standing == Standing::Own && line.depth == 1)
}

/// Whether a line is the row of what the newest messages name.
pub(super) fn is_chosen_row(line: &DigestLine, weight: &Weight) -> bool {
    weight.is_chosen() && line.part == Part::Row && is_to_tell(line)
}

/// Whether a line is the row of what a party named.
pub(super) fn is_named_row(line: &DigestLine, weight: &Weight) -> bool {
    let is_row = line.part == Part::Row || line.is_printed_row;
    weight.is_named() && !weight.meant && is_row && is_to_tell(line)
}

/// Whether a line is the row that an older message of the user's describes.
pub(super) fn is_meant_row(line: &DigestLine, weight: &Weight) -> bool {
    weight.meant && is_to_tell(line)
}

/// Whether a line is the row that the user picked.
pub(super) fn is_picked_row(line: &DigestLine, weight: &Weight) -> bool {
    weight.picked && is_to_tell(line)
}

/// Whether a line has a list that the model goes through.
pub(super) fn is_gone_through(line: &DigestLine, weight: &Weight) -> bool {
    weight.at_hand && is_of_records(line) && is_to_tell(line)
}

/// Whether a line is a row that was looked up since the newest message.
pub(super) fn is_at_hand(line: &DigestLine, weight: &Weight) -> bool {
    weight.at_hand && is_to_tell(line)
}

/// Whether a line is of the record that is talked about last, or the next of several, by its place.
pub(super) fn is_in_question(line: &DigestLine, weight: &Weight, nth: usize) -> bool {
    weight.in_question == Some(nth) && is_to_tell(line)
}

/// Whether a line is one that the newest messages describe.
pub(super) fn is_described(line: &DigestLine, weight: &Weight) -> bool {
    weight.described && line.standing != Standing::Repeated
}

/// Whether a line is whole and told nowhere else: an old plan names what the newest one does.
fn is_to_tell(line: &DigestLine) -> bool {
    line.is_whole() && line.standing != Standing::Repeated
}
