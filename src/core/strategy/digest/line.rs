//! A line of the full digest, before anything is left out.

use std::ops::Range;

use crate::core::text::harmless;

/// Lines between two looks at the cancel flag.
pub(super) const STRIDE: usize = 128;
/// Stands for what was left out.
pub(super) const GAP: &str = "…";
/// Stands for a value that is another one now.
pub(super) const SET_SINCE: &str = "(changed since)";

/// Names the lists and long texts of records that are not shown.
pub(super) const ALSO: &str = "… also ";

/// Names the calls that changed records of a table after these were read.
pub(super) const SINCE: &str = "… changed since: ";

/// Ends a call of which a result is shown that a newer call gave anew.
pub(super) const OLDER: &str = ", older state";

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A sentence of the user.
    User,
    /// A sentence of the model.
    Assistant,
    /// A call: its name and its arguments.
    Call,
    /// A line of a long argument.
    Argument,
    /// Scalars that a record itself has.
    Record,
    /// Other values of JSON, with their keys.
    Member,
    /// The head of a table.
    Head,
    /// A row of a table.
    Row,
    /// A line of a text in a result.
    Text,
    /// Calls that an earlier digest does not show, or that were not read. It is never chosen.
    Untold,
}

impl Part {
    /// Whether it is somebody's text as it stood, rather than values with their keys: its words are
    /// no keys.
    pub(super) fn is_plain(self) -> bool {
        !matches!(self, Part::Record | Part::Member | Part::Head | Part::Row)
    }

    /// Whether it is quoted: text of others, which gets a mark that no turn has.
    pub(super) fn is_quoted(self) -> bool {
        matches!(self, Part::Argument | Part::Text)
    }

    /// Whether it is a sentence that somebody said.
    pub(super) fn is_said(self) -> bool {
        matches!(self, Part::User | Part::Assistant)
    }
}

/// What is known of a line besides its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Standing {
    #[default]
    Usual,
    /// The first or last sentence of what the model said, the one that tells most or stands before
    /// its closing question, or an item that was chosen or that it means to do: what it found,
    /// decided or promised.
    Edge,
    /// The same of what it said beside calls: what it meant to do.
    Aside,
    /// It is of what the model said last: the user answers it.
    Answered,
    /// It reports a failure, or explains the report above it.
    Failure,
    /// It says why the last call of a tool failed: that will be tried in another way.
    ToMend,
    /// Of what the user said: a line of a log, a sheet, an export, that he passes on.
    Pasted,
    /// A sentence of a text that is mostly sentences: of a page or a mail, not of code or a log.
    Prose,
    /// What a text comes to: below a heading that announces it, or the first sentence of a text in
    /// a record, such as a mail or a report.
    Conclusion,
    /// One of many that differ in their numbers only, or another line that says as little: what a
    /// mail repeats and how it was carried, a link in the frame of a page, a short word of the
    /// user's that he says again. Nothing newer tells it.
    Alike,
    /// A newer call has the same head: this is an older version of its arguments and its result.
    Stale,
    /// Of an edit or a diff, or of what was undone or tried again: what was there before. It is no
    /// older state of what was looked up.
    Replaced,
    /// Of a patch: it stays as it is, and shows where the lines beside it are.
    Beside,
    /// A newer call took it out of its file.
    Gone,
    /// It is said again later.
    Repeated,
    /// A call whose result is a row in a table of records, and that changed nothing.
    Told,
    /// The row of a record: in a table of like ones, or of the few records inside of one.
    Own,
}

impl Standing {
    /// Whether something newer stands for the line.
    pub(super) fn is_old(self) -> bool {
        matches!(self, Self::Stale | Self::Replaced)
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outcome {
    #[default]
    Done,
    /// It was only tried, or waits for somebody to allow it.
    Proposed,
    /// A newer call undid it.
    Undone,
    /// A newer call removed the file that it wrote.
    Removed,
    /// Its result is a failure.
    Failed,
    /// The same, but the same call succeeded later.
    MadeGood,
    /// The same, but what it was for was done by a call that was given something else.
    DoneOtherwise,
}

impl Outcome {
    /// Whether the call failed, whatever came of it later.
    pub(super) fn is_failure(self) -> bool {
        matches!(
            self,
            Outcome::Failed | Outcome::MadeGood | Outcome::DoneOtherwise
        )
    }
}

/// A line of the full digest.
#[derive(Debug)]
pub(super) struct DigestLine {
    /// The line without the blanks and the mark that show its place.
    pub text: String,
    pub part: Part,
    /// 0 opens an entry; any other belongs to the last line of less depth that opens something.
    pub depth: u8,
    pub standing: Standing,
    /// The number of the user's message that it belongs to or follows.
    pub turn: u32,
    /// That message stays as it is, after the digest.
    pub user_below: bool,
    /// Deeper lines below belong to it.
    pub opens: bool,
    /// A table, or the head of a part, of an argument that is told line by line.
    pub of_argument: bool,
    /// A sentence that follows another on the same line.
    pub joins: bool,
    /// Of what was said: a line of code, of a log or of a file, between fences.
    pub is_code: bool,
    /// The distance upwards to the line without which it says nothing: the item or the head of the
    /// list that it is within, the question that it answers, the names of a printed table's
    /// columns, the key or the heading above it in a text, the first part of a list.
    pub within: Option<usize>,
    /// The row of a table that a program printed, or a thing in a page.
    pub is_printed_row: bool,
    /// Blank lines that stood before it; `MOST_BLANK` stands for more, too.
    pub blank_above: u8,
    /// Its number in the text that it is from, from 1; 0 where it has none, or shows its own.
    pub number: u32,
    /// The record that it tells of, of those that were read.
    pub record: Option<usize>,
    /// Of a call that changes something: its first line and the rows that it was given.
    pub changes: bool,
    /// Of what the model said: it answers what the user said before.
    pub replies: bool,
    /// Of a call: what came of it.
    pub outcome: Outcome,
    /// Of the head or a row of a table in short: the distance upwards to the same line as a whole.
    pub whole: Option<usize>,
}

impl DigestLine {
    /// A line. What could end it, or speak to a chat template, is made harmless.
    pub(super) fn new(part: Part, depth: u8, text: &str) -> Self {
        DigestLine {
            text: harmless(text).into_owned(),
            part,
            depth,
            standing: Standing::Usual,
            turn: 0,
            user_below: false,
            opens: false,
            of_argument: false,
            joins: false,
            is_code: false,
            within: None,
            is_printed_row: false,
            blank_above: 0,
            number: 0,
            record: None,
            changes: false,
            replies: false,
            outcome: Outcome::Done,
            whole: None,
        }
    }

    /// Whether it is of a call, rather than of its result.
    pub(super) fn is_of_call(&self) -> bool {
        self.of_argument || matches!(self.part, Part::Call | Part::Argument)
    }

    /// What its score goes by: an argument is one whatever its form.
    pub(super) fn weighed_as(&self) -> Part {
        if self.of_argument {
            Part::Argument
        } else {
            self.part
        }
    }

    /// Whether it is told as a whole.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_none()
    }

    /// Whether it says nothing without the lines below it.
    pub(super) fn is_section(&self) -> bool {
        self.part == Part::Head
            || (self.depth > 0 && !self.part.is_quoted() && self.text.ends_with(':'))
    }
}

/// The head of a table: `items: [2]{sku,count}:`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading<'t> {
    /// The number of rows that it announces.
    pub rows: usize,
    columns: &'t str,
}

impl<'t> Heading<'t> {
    /// The head in a line, if it is one.
    pub(super) fn of(line: &'t str) -> Option<Self> {
        let open = line.strip_suffix("}:")?;
        let (at, _) = open
            .match_indices("]{")
            .find(|(at, _)| rows_before(line, *at).is_some())?;
        Some(Heading {
            rows: rows_before(line, at)?,
            columns: open.get(at + 2..)?,
        })
    }

    /// The names of all columns, with those in which all rows are equal.
    pub(super) fn names(&self) -> impl Iterator<Item = &'t str> {
        let names = self.columns.split([',', '}']);
        names.filter_map(|part| part.rsplit('{').next()?.split('=').next())
    }

    /// The names of the cells of a row, without the columns in which all rows are equal.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'t str> {
        // A name before an opening bracket is that of a group.
        let leaf = |part: &&str| !part.is_empty() && !part.contains('=');
        self.columns
            .split([',', '}'])
            .filter_map(|part| part.rsplit('{').next())
            .filter(leaf)
    }
}

/// The number in brackets that ends at the bracket at `end`.
fn rows_before(line: &str, end: usize) -> Option<usize> {
    let before = line.get(..end)?;
    // Only the digits are looked at: a forged line may have a bracket at every other place.
    let open = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = before.get(open.len()..)?;
    open.ends_with('[').then(|| number.parse().ok())?
}

/// The digits that a line begins with, and what stands behind them.
pub(super) fn leading_number(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    line.split_at_checked(digits).unwrap_or(("", line))
}

/// The lines of the entry that begins with a line.
pub(super) fn entry_from(lines: &[DigestLine], begin: usize) -> Range<usize> {
    let behind = lines.iter().skip(begin + 1);
    let more = behind.take_while(|line| line.depth > 0).count();
    begin..(begin + 1 + more).min(lines.len())
}

/// The lines of entries that were read newest first, in their order.
pub(super) fn in_order(newest_first: Vec<Vec<DigestLine>>) -> Vec<DigestLine> {
    let mut lines = Vec::with_capacity(newest_first.iter().map(Vec::len).sum());
    newest_first
        .into_iter()
        .rev()
        .for_each(|entry| lines.extend(entry));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_names_the_cells_of_its_rows() {
        let head = Heading::of("f: [2]{id,name{first,last},kind=guest}:").unwrap();
        assert_eq!(head.rows, 2);
        assert_eq!(head.cells().collect::<Vec<_>>(), ["id", "first", "last"]);
        for other in ["notes: [3]:", "x: {a: b}:", "[x]{a}:", "a]{b}:"] {
            assert!(Heading::of(other).is_none(), "{other}");
        }
    }
}
