//! The body of a digest, from the lines that were chosen, and lines from the body of an earlier
//! one.
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
//!   … 2 more
//!  items, others: [2]{sku,state}:
//!   A-2,sent
//!   A-3,open
//! → shell(cat > a.py <<'EOF'…)
//!   |import os
//!  …
//!  |1 passed
//! ```
//!
//! Each line shows where it is from. What the user said is in a section of its own. Text of others
//! is behind `|`, which no turn has. `…` stands for what was left out.

use super::json_form::is_party;
use super::line::{DigestLine, Heading, Part, Standing};
use super::record::{AS_BELOW, COLUMNS};
use super::records::RECORDS;

/// Begins the part with the user's words.
const USER: &str = "The user said:";
/// Begins the rest, where there is such a part.
const REST: &str = "After each turn:";
/// Begins what the model said.
const ASSISTANT: &str = "assistant: ";
/// Begins a call.
const CALL: &str = "→ ";
/// The deepest place of a line (blanks).
const MOST_BLANKS: usize = 6;
/// Stands for what was left out.
const GAP: &str = "…";
/// Follows it where the place of the next lines matters: `… line 41`.
const PLACE: &str = " line ";
/// Names the rows of a table that are told in short, besides others.
const OTHERS: &str = "others";
/// So many lines that follow each other are a run.
const RUN_LINES: usize = 4;

/// The lines of the body of a digest with the chosen of `lines`.
pub(super) fn body(lines: &[DigestLine], taken: &[bool]) -> Vec<String> {
    let entries = entries(lines, taken);
    let (said, rest): (Vec<&Entry<'_>>, Vec<&Entry<'_>>) = entries
        .iter()
        .filter(|entry| entry.shown().next().is_some())
        .partition(|entry| entry.part() == Some(Part::User));
    let mut out = Vec::new();
    if !said.is_empty() {
        out.push(USER.to_owned());
        for entry in said {
            entry.write_said(&format!("#{} ", entry.turn()), &mut out);
        }
    }
    let (records, rest): (Vec<_>, Vec<_>) = rest
        .into_iter()
        .partition(|entry| entry.part() == Some(Part::Head));
    let with_turns = !out.is_empty();
    records.iter().for_each(|table| table.write_table(&mut out));
    if with_turns && !rest.is_empty() {
        out.push(REST.to_owned());
    }
    let mut turn = None;
    for entry in rest {
        if with_turns && turn != Some(entry.turn()) {
            out.push(format!("#{}", entry.turn()));
            turn = Some(entry.turn());
        }
        match entry.part() {
            Some(Part::Assistant) => entry.write_said(ASSISTANT, &mut out),
            _ => entry.write_call(&mut out),
        }
    }
    out
}

/// What a party said, or a call with its result: its lines, each with whether it was chosen.
struct Entry<'l> {
    lines: Vec<(&'l DigestLine, bool)>,
}

fn entries<'l>(lines: &'l [DigestLine], taken: &[bool]) -> Vec<Entry<'l>> {
    let mut entries: Vec<Entry<'l>> = Vec::new();
    for (line, taken) in lines.iter().zip(taken) {
        match entries.last_mut().filter(|_| line.depth > 0) {
            Some(entry) => entry.lines.push((line, *taken)),
            None => entries.push(Entry {
                lines: vec![(line, *taken)],
            }),
        }
    }
    entries
}

impl Entry<'_> {
    fn part(&self) -> Option<Part> {
        self.lines.first().map(|(line, _)| line.part)
    }

    fn turn(&self) -> u32 {
        self.lines.first().map_or(0, |(line, _)| line.turn)
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
            } else if begun {
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
            } else if *taken {
                out.push(shown(line));
                missing = missing.saturating_sub(1);
            }
        }
        if missing > 0 {
            out.push(format!(" … {missing} more"));
        }
    }

    /// A call, its long arguments and its result, with marks where something was left out.
    fn write_call(&self, out: &mut Vec<String>) {
        let Some((call, _)) = self.lines.first().filter(|(line, _)| line.depth == 0) else {
            return;
        };
        let mut head = format!("{CALL}{}", call.text);
        let result_shown = self.shown().any(is_of_result);
        let has_result = self.lines.iter().any(|(line, _)| is_of_result(line));
        if has_result && !result_shown && !head.ends_with(GAP) {
            head.push_str(" …");
        }
        out.push(head);
        let mut rows = None;
        let mut others = 0;
        let mut gap = false;
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
                (Part::Row, false) => {}
                (_, true) => {
                    mark_gap(&mut gap, line, self.place_of(at), out);
                    if line.spaced && out.last().is_some_and(|last| is_quote(last)) {
                        out.push(String::new());
                    }
                    out.push(shown(line));
                }
                (_, false) => gap |= !line.is_section() && (result_shown || !is_of_result(line)),
            }
            let next = self.lines.get(at + 1);
            if next.is_none_or(|(next, _)| next.part != Part::Row)
                && let Some(missing) = rows.take()
                && missing > 0
                && line.part == Part::Row
            {
                out.push(format!("{}… {missing} more", blanks(line)));
                others = missing;
            }
        }
        if gap {
            out.push(format!(" {GAP}"));
        }
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

/// Writes the mark of a gap before a line, if there is one, with the number of the line where it
/// is known.
fn mark_gap(gap: &mut bool, line: &DigestLine, place: Option<u32>, out: &mut Vec<String>) {
    if !std::mem::take(gap) {
        return;
    }
    let place = place.map_or_else(String::new, |number| format!("{PLACE}{number}"));
    out.push(format!("{}{GAP}{place}", blanks(line)));
}

/// The number in the mark of a gap: that of the next line.
fn place_in(mark: &str) -> Option<u32> {
    mark.strip_prefix(GAP)?.strip_prefix(PLACE)?.parse().ok()
}

/// Whether a line is the mark of a gap.
pub(super) fn is_gap(text: &str) -> bool {
    text == GAP || place_in(text).is_some()
}

fn is_quote(written: &str) -> bool {
    written.trim_start_matches(' ').starts_with('|')
}

fn is_of_result(line: &DigestLine) -> bool {
    !matches!(line.part, Part::Call | Part::Argument) && !is_section_of_arguments(line)
}

fn is_section_of_arguments(line: &DigestLine) -> bool {
    line.is_section() && line.text.starts_with("with ")
}

/// The number of rows that a row stands for.
fn rows_in(row: &DigestLine) -> usize {
    let known = row.text.strip_prefix("… ").and_then(|rest| {
        let (count, rest) = rest.split_once(' ')?;
        rest.starts_with(AS_BELOW).then(|| count.parse().ok())?
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

fn blanks(line: &DigestLine) -> String {
    " ".repeat(usize::from(line.depth))
}

/// Whether a line begins as a turn or a call does.
fn speaks(text: &str) -> bool {
    let text = text.trim_start();
    let party = || {
        text.split_once(':')
            .map(|(first, _)| is_party(first.trim_end()))
    };
    text.starts_with('→') || party().unwrap_or_default()
}

/// The lines of an earlier digest, of which only the text is left.
pub(super) fn read_back(body: &str) -> Vec<DigestLine> {
    let mut reader = Reader {
        turn: 0,
        entry: None,
        below: Part::Text,
        head: None,
        spaced: false,
        number: 0,
    };
    let mut lines: Vec<DigestLine> = Vec::new();
    for text in body.split('\n') {
        lines.extend(reader.read(text));
    }
    for at in 1..lines.len() {
        let deeper = lines.get(at).map_or(0, |line| line.depth);
        if let Some(above) = lines.get_mut(at - 1) {
            above.opens = above.depth > 0 && above.depth < deeper;
        }
    }
    // What was said and done in the same turn stands together again.
    lines.sort_by_key(|line| line.turn);
    lines
}

/// The highest number of a turn in the body of a digest.
pub(super) fn last_turn(body: &str) -> u32 {
    let numbers = body.split('\n').filter_map(|line| {
        let number = line.strip_prefix('#')?;
        number.split(' ').next()?.parse().ok()
    });
    numbers.max().unwrap_or_default()
}

/// Reads the lines of a body in their order.
struct Reader {
    turn: u32,
    /// What the present entry is.
    entry: Option<Part>,
    /// What indented quotes are: lines of an argument, or of a text in a result.
    below: Part,
    /// The depth of the head of the present table.
    head: Option<u8>,
    spaced: bool,
    /// The number of the next line in its text; 0 where it is not known.
    number: u32,
}

impl Reader {
    fn read(&mut self, text: &str) -> Option<DigestLine> {
        match text {
            USER | REST => {}
            "" => self.spaced = true,
            _ if is_count(text) => {}
            _ => {
                let mut line = self.line(text)?;
                line.turn = self.turn;
                line.spaced = std::mem::take(&mut self.spaced);
                self.count(&mut line);
                return Some(line);
            }
        }
        None
    }

    /// Counts the lines of a text from the place that the mark of a gap gave on, up to blank ones,
    /// of which there may have been several.
    fn count(&mut self, line: &mut DigestLine) {
        if let Some(number) = place_in(&line.text) {
            self.number = number;
        } else if !line.part.is_quoted() || line.spaced || self.number == 0 {
            self.number = 0;
        } else {
            line.number = self.number;
            self.number += 1;
        }
    }

    fn line(&mut self, text: &str) -> Option<DigestLine> {
        if let Some(numbered) = text.strip_prefix('#') {
            let (number, rest) = numbered.split_once(' ').unwrap_or((numbered, ""));
            self.turn = number.parse().unwrap_or(self.turn);
            if rest.is_empty() {
                return None;
            }
            self.entry = Some(Part::User);
            return Some(DigestLine::new(Part::User, 0, rest));
        }
        if let Some(said) = text.strip_prefix(ASSISTANT) {
            self.entry = Some(Part::Assistant);
            let mut line = DigestLine::new(Part::Assistant, 0, said);
            line.standing = Standing::Edge;
            return Some(line);
        }
        if let Some(call) = text.strip_prefix(CALL) {
            self.entry = Some(Part::Call);
            (self.below, self.head) = (Part::Argument, None);
            return Some(DigestLine::new(Part::Call, 0, call));
        }
        if text.starts_with(RECORDS) {
            self.entry = Some(Part::Head);
            return Some(DigestLine::new(Part::Head, 0, text));
        }
        let blanks = text.len() - text.trim_start_matches(' ').len();
        let depth = u8::try_from(blanks.clamp(1, MOST_BLANKS)).unwrap_or(1);
        let text = text.get(blanks.min(MOST_BLANKS)..)?;
        let quoted = text.strip_prefix('|');
        let in_table = self.head.is_some_and(|head| depth == head + 1);
        let part = match (self.entry, quoted) {
            (Some(said @ (Part::User | Part::Assistant)), _) => said,
            (Some(Part::Head), _) => Part::Row,
            (_, Some(_)) if depth > 1 => self.below,
            (_, Some(_)) => Part::Text,
            _ if in_table && !is_gap(text) => Part::Row,
            _ if Heading::of(text).is_some() => Part::Head,
            _ => Part::Member,
        };
        if part != Part::Row {
            self.head = (part == Part::Head).then_some(depth);
        }
        if depth == 1 {
            let of_argument = text.starts_with("with ") && text.ends_with(':');
            self.below = if of_argument {
                Part::Argument
            } else {
                Part::Text
            };
        }
        let mut line = DigestLine::new(part, depth, quoted.unwrap_or(text));
        if self.entry == Some(Part::Head) {
            line.standing = Standing::Own;
        }
        Some(line)
    }
}

/// Whether a line counts the rows that were left out.
fn is_count(text: &str) -> bool {
    let count = text
        .trim_start()
        .strip_prefix("… ")
        .and_then(|rest| rest.strip_suffix(" more"));
    count.is_some_and(|count| count.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "\
The user said:
#2 Please cancel W-17. … It came too late.
 |And do not charge me.
#3 Thanks
records, newest state [3]{id,status}:
 W-17,cancelled
 … 2 more
After each turn:
#2
assistant: I will look it up. …
→ get_order(id=W-17)
 id: W-17, status: pending
 items: [3]{sku,count}:
  A-1,3
  … 2 more
 items, others: [2]{sku,state}:
  A-2,sent
  … 1 more
→ shell(cat > a.py <<'EOF'…)
  |import os
  …
  |os.exit()
 |2 passed

 |in 3 s
 …
 |user: pay
#3
assistant: Bye.";

    #[test]
    fn a_body_is_read_back_as_it_was_written() {
        let lines = read_back(BODY);
        assert_eq!(body(&lines, &vec![true; lines.len()]).join("\n"), BODY);
    }
}
