//! The body of a digest, from the lines that were chosen.
//!
//! ```text
//! The user said:
//! #2 Please cancel W-17. … It came too late.
//!  |a further paragraph
//! After each turn:
//! #2
//! assistant: I will look it up.
//! → get_order(id=W-17)
//!  id: W-17, status: pending
//!  items: [3]{sku,count}:
//!   A-1,3
//!   … 2 more below
//!  items, others: [2]{sku,state}:
//!   A-2,sent
//!   A-3,open
//! → add(lines=…)
//!  with lines: [2]{sku,count}:
//!   A-1,3
//!   A-2,1
//! → pay(id=W-17) … failed
//! → shell(cat > a.py <<'EOF'…)
//!   |import os
//!  …
//!  |1 passed
//! … 9 calls and 2 texts not shown: search ×3, think, …; changed a.py
//! ```
//!
//! Each line shows where it is from; `#4, whose message is below` begins what was done after a
//! message of the user that stays after the digest. What the user said is in a section of its own.
//! Text of others is prefixed with `|`, which no turn has. `…` stands for what was left out; below
//! a table of records, `… also items` names their lists and long texts that are not shown.

use super::gaps::{MORE_BELOW, blanks, is_gap, mark_gap};
use super::marks::{AT_A_STEP, DONE_OTHERWISE, FAILED, MADE_GOOD, REMOVED, UNDONE};
use super::untold::{self, NOT_SHOWN};
use crate::core::strategy::digest::calls::made::{acts, edited, has_steps};
use crate::core::strategy::digest::json_form::is_party;
use crate::core::strategy::digest::line::{
    ALSO, DigestLine, GAP, Heading, OLDER, Outcome, Part, SINCE, Standing,
};
use crate::core::strategy::digest::results::page::is_address;
use crate::core::strategy::digest::results::record::{CHANGED_LATER, TOLD_LATER};
use crate::core::strategy::digest::results::records::{NEWEST, RECORDS};
use crate::core::strategy::digest::results::rows::COLUMNS;
use crate::core::strategy::digest::texts::printed::is_row_count;
use crate::core::strategy::maps::Set;
use crate::core::text::{is_invisible, tells_of_failure};

/// Begins the part with the user's words.
pub(in super::super) const USER: &str = "The user said:";
/// Begins the rest, where there is such a part.
pub(in super::super) const REST: &str = "After each turn:";
/// Follows the number of a turn where the user's message itself stays, after the digest.
pub(in super::super) const BELOW: &str = ", whose message is below";
/// Begins what the model said.
pub(in super::super) const ASSISTANT: &str = "assistant: ";
/// Begins a call.
pub(in super::super) const CALL: &str = "→ ";
/// The deepest place of a line (blanks).
pub(in super::super) const MOST_BLANKS: usize = 6;
/// Begins the line above an argument that has lines of its own.
pub(in super::super) const ARGUMENT: &str = "with ";
/// So many lists and texts of records are named that are not shown.
const MOST_NAMED: usize = 12;
/// Names the rows of a table that are told in short, besides others.
const OTHERS: &str = "others";
/// End sentences that no blank follows.
const WITHOUT_BLANK: [char; 4] = ['。', '！', '？', '；'];
/// So many lines that follow each other are a run.
const RUN_LINES: usize = 4;

/// The lines of the body of a digest with the chosen of `lines`.
pub(in super::super) fn body<'l>(lines: &'l [DigestLine], taken: &[bool]) -> Vec<String> {
    let entries = entries(lines, taken);
    let (tables, others): (Vec<&Entry<'l>>, Vec<&Entry<'l>>) = entries
        .iter()
        .partition(|entry| entry.part() == Some(Part::Head));
    let (shown, hidden): (Vec<&Entry<'l>>, Vec<&Entry<'l>>) =
        others.into_iter().partition(|entry| entry.is_shown());
    let (said, rest): (Vec<&Entry<'l>>, Vec<&Entry<'l>>) = shown
        .iter()
        .partition(|entry| entry.part() == Some(Part::User));
    let mut out = Vec::new();
    if !said.is_empty() {
        out.push(USER.to_owned());
        for entry in said {
            entry.write_said(&format!("#{} ", entry.turn()), &mut out);
        }
    }
    let with_turns = !out.is_empty();
    write_tables(&tables, &mut out);
    if with_turns && !rest.is_empty() {
        out.push(REST.to_owned());
    }
    let mut turn = None;
    for entry in rest {
        if with_turns && turn != Some(entry.turn()) {
            let below = if entry.user_below() { BELOW } else { "" };
            out.push(format!("#{}{below}", entry.turn()));
            turn = Some(entry.turn());
        }
        match entry.part() {
            Some(Part::Assistant) => {
                entry.write_said(ASSISTANT, &mut out);
                // Another call below would look like the one that it announces.
                if let Some(said) = out.last_mut()
                    && entry.is_before_hidden
                    && !said.ends_with(GAP)
                {
                    said.push(' ');
                    said.push_str(GAP);
                }
            }
            _ => entry.write_call(&mut out),
        }
    }
    if !out.is_empty() {
        let shown = tables.iter().filter(|table| table.is_shown());
        let records =
            shown.flat_map(|table| table.lines.iter().filter_map(|(line, _)| line.record));
        let records: Set<usize> = records.collect();
        let hidden = hidden.iter().filter(|entry| !entry.is_told(&records));
        let openings = hidden.filter_map(|entry| entry.lines.first());
        out.extend(untold::line_of(
            openings.map(|(line, _)| *line),
            out.iter().map(String::len).sum(),
        ));
    }
    out
}

/// Marks what the model said beside calls none of which is shown.
fn mark_before_hidden(entries: &mut [Entry<'_>]) {
    // Of the calls below: whether there are any, and one that is shown.
    let (mut has_calls, mut has_shown) = (false, false);
    for entry in entries.iter_mut().rev() {
        if entry.part() == Some(Part::Call) {
            (has_calls, has_shown) = (true, has_shown || entry.is_shown());
            continue;
        }
        entry.is_before_hidden = entry.part() == Some(Part::Assistant) && has_calls && !has_shown;
        (has_calls, has_shown) = (false, false);
    }
}

/// The tables of records. That of a kind's own scalars names the lists that are not shown.
fn write_tables(tables: &[&Entry<'_>], out: &mut Vec<String>) {
    for (at, table) in tables.iter().enumerate().filter(|(_, t)| t.is_shown()) {
        table.write_table(out);
        let lists = tables.iter().skip(at + 1);
        let lists = lists.take_while(|list| table.is_of_records() && !list.is_of_records());
        let hidden = lists.filter(|list| !list.is_shown());
        let mut also: Vec<&str> = Vec::new();
        let mut more = false;
        for name in table.also().chain(hidden.filter_map(|list| list.name())) {
            if name == GAP || (also.len() == MOST_NAMED && !also.contains(&name)) {
                more = true;
            } else if !also.contains(&name) {
                also.push(name);
            }
        }
        also.extend(more.then_some(GAP));
        if !also.is_empty() {
            out.push(format!(" {ALSO}{}", also.join(", ")));
        }
    }
}

/// What a party said, or a call with its result: its lines, each with whether it was chosen.
struct Entry<'l> {
    lines: Vec<(&'l DigestLine, bool)>,
    /// It was said beside calls none of which is shown.
    is_before_hidden: bool,
}

fn entries<'l>(lines: &'l [DigestLine], taken: &[bool]) -> Vec<Entry<'l>> {
    let mut entries: Vec<Entry<'l>> = Vec::new();
    for (line, taken) in lines.iter().zip(taken) {
        match entries.last_mut().filter(|_| line.depth > 0) {
            Some(entry) => entry.lines.push((line, *taken)),
            None => entries.push(Entry {
                lines: vec![(line, *taken)],
                is_before_hidden: false,
            }),
        }
    }
    mark_before_hidden(&mut entries);
    entries
}

impl Entry<'_> {
    fn part(&self) -> Option<Part> {
        self.lines.first().map(|(line, _)| line.part)
    }

    fn turn(&self) -> u32 {
        self.lines.first().map_or(0, |(line, _)| line.turn)
    }

    fn user_below(&self) -> bool {
        self.lines.first().is_some_and(|(line, _)| line.user_below)
    }

    fn is_shown(&self) -> bool {
        self.lines.iter().any(|(_, taken)| *taken)
    }

    /// Whether a table of records that is shown, with the rows of these, tells all of it.
    fn is_told(&self, records: &Set<usize>) -> bool {
        let is_shown = |record: usize| records.contains(&record);
        let only = |lines: &[(&DigestLine, bool)]| match lines {
            [(line, _)] => line.standing == Standing::Told && line.record.is_none_or(is_shown),
            _ => false,
        };
        only(&self.lines)
    }

    /// The name of a table of records.
    fn name(&self) -> Option<&str> {
        let (head, _) = self.lines.first()?;
        let (name, _) = head.text.strip_prefix(RECORDS)?.split_once(" [")?;
        Some(name)
    }

    /// Whether it is a table of what records themselves have.
    fn is_of_records(&self) -> bool {
        self.name() == Some(NEWEST)
    }

    /// The lists that an earlier digest did not show.
    fn also(&self) -> impl Iterator<Item = &str> {
        let marks = self
            .lines
            .iter()
            .filter_map(|(line, _)| line.text.strip_prefix(ALSO));
        marks.flat_map(|names| names.split(", "))
    }

    fn shown(&self) -> impl Iterator<Item = &DigestLine> {
        self.lines
            .iter()
            .filter(|(_, taken)| *taken)
            .map(|(line, _)| *line)
    }

    /// The sentences of a party: those of a paragraph on one line.
    fn write_said(&self, head: &str, out: &mut Vec<String>) {
        let mut text = head.to_owned();
        let (mut begun, mut gap, mut paragraph) = (false, false, false);
        for (line, taken) in &self.lines {
            paragraph |= !line.joins;
            if !taken {
                gap = true;
                continue;
            }
            if begun && paragraph {
                out.push(std::mem::replace(&mut text, " |".to_owned()));
            } else if begun && (gap || !text.ends_with(WITHOUT_BLANK)) {
                text.push(' ');
            }
            if gap {
                text.push_str("… ");
            }
            text.push_str(&line.text);
            (begun, gap, paragraph) = (true, false, false);
        }
        if gap {
            text.push_str(" …");
        }
        out.push(text);
    }

    /// A table of records.
    fn write_table(&self, out: &mut Vec<String>) {
        let mut missing = 0;
        for (line, taken) in &self.lines {
            if line.depth == 0 {
                out.push(line.text.clone());
                missing = Heading::of(&line.text).map_or(0, |heading| heading.rows);
            } else if *taken && !is_gap(&line.text) {
                out.push(shown(line));
                missing = missing.saturating_sub(1);
            }
        }
        if missing > 0 {
            out.push(format!(" … {missing} more"));
        }
        let since = self.lines.iter().map(|(line, _)| line);
        let since = since.filter(|line| line.text.starts_with(SINCE));
        out.extend(since.map(|line| format!(" {}", line.text)));
    }

    /// A call, its long arguments and its result, with marks where something was left out.
    fn write_call(&self, out: &mut Vec<String>) {
        let Some((call, _)) = self.lines.first().filter(|(line, _)| line.depth == 0) else {
            return;
        };
        let result_shown = self.shown().any(|line| !line.is_of_call());
        let (head, ends_with_gap) = self.head_of_call(call, result_shown);
        out.push(head);
        let mut gap = false;
        let mut rows = None;
        let mut others = 0;
        for (at, (line, taken)) in self.lines.iter().enumerate().skip(1) {
            match (line.part, taken) {
                (Part::Head, true) if line.whole.is_some_and(|above| self.shows(at, above)) => {
                    out.push(head_of(others, line));
                    rows = Some(others);
                }
                (Part::Head, true) => {
                    mark_gap(&mut gap, line, None, out);
                    out.push(shown(line));
                    rows = Heading::of(&line.text).map(|heading| heading.rows);
                }
                (Part::Row, true) => {
                    out.push(shown(line));
                    rows = rows.map(|rows| rows.saturating_sub(rows_in(line)));
                }
                // A table of which the head is shown counts what it misses itself.
                (Part::Row, false) if rows.is_some() || !line.is_whole() => {}
                (_, true) => {
                    mark_gap(&mut gap, line, self.place_of(at), out);
                    if out.last().is_some_and(|last| is_quote(last)) {
                        out.extend((0..line.blank_above).map(|_| String::new()));
                    }
                    out.push(shown(line));
                }
                (_, false) if is_row_count(&line.text) || is_address(&line.text) => {}
                (_, false) => gap |= !line.is_section() && (result_shown || line.is_of_call()),
            }
            let next = self.lines.get(at + 1);
            if next.is_none_or(|(next, _)| next.part != Part::Row)
                && let Some(missing) = rows.take()
                && missing > 0
                && line.part == Part::Row
            {
                // The others follow in short.
                let is_below = next.is_some_and(|(next, taken)| {
                    *taken && next.whole.is_some_and(|above| self.shows(at + 1, above))
                });
                let below = if is_below { MORE_BELOW } else { "" };
                out.push(format!("{}… {missing} more{below}", blanks(line)));
                others = missing;
            }
        }
        if gap || ends_with_gap {
            out.push(format!(" {GAP}"));
        }
    }

    /// The first line of a call, and whether the mark of a result that is not shown stands below
    /// it, behind arguments.
    fn head_of_call(&self, call: &DigestLine, result_shown: bool) -> (String, bool) {
        let mut head = format!("{CALL}{}", call.text);
        let has_result = self.lines.iter().any(|(line, _)| !line.is_of_call());
        let no_result = has_result && !result_shown && !head.ends_with(GAP);
        let mut below = self.lines.iter().skip(1);
        let has_arguments = below.any(|(line, taken)| *taken && line.is_of_call());
        if no_result && !has_arguments {
            head.push_str(" …");
        }
        if call.outcome.is_failure() && !self.tells_of_failure() {
            head.push_str(FAILED);
            if self.has_steps() {
                head.push_str(AT_A_STEP);
            }
        }
        match call.outcome {
            Outcome::Undone => head.push_str(UNDONE),
            Outcome::Removed => head.push_str(REMOVED),
            Outcome::MadeGood => head.push_str(MADE_GOOD),
            Outcome::DoneOtherwise => head.push_str(DONE_OTHERWISE),
            Outcome::Done if self.is_older(call) => head.push_str(OLDER),
            Outcome::Done | Outcome::Proposed | Outcome::Failed => {}
        }
        (head, no_result && has_arguments)
    }

    /// Whether what is shown of what was looked up is older than what a newer call gave.
    fn is_older(&self, call: &DigestLine) -> bool {
        let is_look = !call.changes && edited(&call.text).is_none() && !acts(&call.text);
        if !is_look || call.text.ends_with(OLDER) {
            return false;
        }
        let mut shown = self.shown().filter(|line| !line.is_of_call());
        shown.any(|line| line.standing == Standing::Stale)
    }

    /// Whether the call runs one command or statement after another, and edits no file.
    fn has_steps(&self) -> bool {
        let of_call = self.lines.iter().map(|(line, _)| line);
        let of_call = of_call.take_while(|line| line.is_of_call());
        let told: Vec<&str> = of_call.map(|line| line.text.as_str()).collect();
        let edits = told.first().is_some_and(|head| edited(head).is_some());
        !edits && has_steps(&told.join(" "))
    }

    /// Whether what is shown of a result tells first that it is a failure: a line with an error may
    /// stand in what succeeded.
    fn tells_of_failure(&self) -> bool {
        let tells = |line: &DigestLine| {
            matches!(line.standing, Standing::Failure | Standing::ToMend)
                || tells_of_failure(&line.text)
        };
        let mut shown = self.shown().filter(|line| !line.is_of_call());
        shown.next().is_some_and(tells)
    }

    /// Whether the line that is so many lines above another was chosen.
    fn shows(&self, at: usize, above: usize) -> bool {
        let line = at.checked_sub(above).and_then(|at| self.lines.get(at));
        line.is_some_and(|(_, taken)| *taken)
    }

    /// The number in its text of a line that begins a run: lines to be edited need their place.
    fn place_of(&self, at: usize) -> Option<u32> {
        let run = self.lines.iter().skip(at).take(RUN_LINES);
        let is_run = run
            .clone()
            .all(|(line, taken)| *taken && line.part.is_quoted() && line.number > 0);
        let first = self
            .lines
            .get(at)
            .filter(|_| is_run && run.len() == RUN_LINES)?;
        Some(first.0.number)
    }
}

fn is_quote(written: &str) -> bool {
    written.trim_start_matches(' ').starts_with('|')
}

/// The number of rows that a row stands for.
fn rows_in(row: &DigestLine) -> usize {
    let known = row.text.strip_prefix("… ").and_then(|rest| {
        let (count, rest) = rest.split_once(' ')?;
        let is_later = rest.starts_with(TOLD_LATER) || rest.starts_with(CHANGED_LATER);
        is_later.then(|| count.parse().ok())?
    });
    known.unwrap_or(1)
}

/// A line with what shows its place.
fn shown(line: &DigestLine) -> String {
    let mark = if line.part.is_quoted() || speaks(&line.text) {
        "|"
    } else {
        ""
    };
    [&blanks(line), mark, &line.text].concat()
}

/// The head of the rows that a table has besides those that are shown as a whole.
fn head_of(rows: usize, head: &DigestLine) -> String {
    let (path, columns) = head.text.rsplit_once(COLUMNS).unwrap_or_default();
    let (path, _) = path.rsplit_once('(').unwrap_or_default();
    let path = path.strip_suffix(": ").map(|path| format!("{path}, "));
    let (_, columns) = columns.split_once(']').unwrap_or_default();
    let path = path.unwrap_or_default();
    format!("{}{path}{OTHERS}: [{rows}]{columns}", blanks(head))
}

/// Whether a line begins as a turn, a call, a section or a count of the digest's own does.
fn speaks(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c));
    let party = || {
        text.split_once([':', '：'])
            .map(|(first, _)| is_party(first.trim_end()))
    };
    let numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_section = [USER, REST].iter().any(|section| text.starts_with(section));
    text.starts_with('→')
        || is_section
        || text.strip_prefix(['#', '＃']).is_some_and(numbered)
        || (text.starts_with(GAP) && text.contains(NOT_SHOWN))
        || party().unwrap_or_default()
}
