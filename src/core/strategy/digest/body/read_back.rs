//! The lines of an earlier digest from its body, as `write` describes it.

use super::gaps::{MORE_BELOW, is_gap, place_in};
use super::marks::{AT_A_STEP, DONE_OTHERWISE, FAILED, MADE_GOOD, REMOVED, UNDONE};
use super::untold;
use super::write::{ARGUMENT, ASSISTANT, BELOW, CALL, MOST_BLANKS, REST, USER};
use crate::core::strategy::digest::calls::changes::mark_changes;
use crate::core::strategy::digest::line::{
    ALSO, DigestLine, Heading, Outcome, Part, SINCE, STRIDE, Standing,
};
use crate::core::strategy::digest::lists::OpenItems;
use crate::core::strategy::digest::results::records::{NEWEST, RECORDS};
use crate::core::strategy::digest::texts::printed::OpenTable;
use crate::core::strategy::digest::texts::quoted::{LINE_BYTES, MOST_BLANK};
use crate::core::text::split_lines;
use crate::core::{Cancel, Cancelled};

/// A line from this length on may be a piece of a longer one (bytes).
const LEAST_PIECE: usize = LINE_BYTES / 3;

/// The lines of an earlier digest, of which only the text is left.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn read_back(
    body: &str,
    cancel: &Cancel,
) -> Result<Vec<DigestLine>, Cancelled> {
    let mut reader = Reader {
        turn: 0,
        user_below: false,
        entry: None,
        below: Part::Text,
        head: None,
        blank: 0,
        is_newest: false,
        number: 0,
        lists: OpenItems::default(),
        table: OpenTable::default(),
    };
    let mut lines: Vec<DigestLine> = Vec::new();
    for (at, text) in split_lines(body).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        lines.extend(reader.read(text, lines.len()));
    }
    for at in 1..lines.len() {
        let deeper = lines.get(at).map_or(0, |line| line.depth);
        if let Some(above) = lines.get_mut(at - 1) {
            above.opens = above.depth > 0 && above.depth < deeper;
        }
    }
    lines
        .chunk_by_mut(|_, next| next.depth > 0)
        .for_each(mark_changes);
    // What was said and done in the same turn stands together again.
    lines.sort_by_key(|line| line.turn);
    Ok(lines)
}

/// The number of the last message of the user that went into the body of a digest.
pub(in super::super) fn last_turn(body: &str) -> u32 {
    let numbers = split_lines(body).filter_map(|line| {
        let number = line.strip_prefix('#')?;
        match before_below(number) {
            // The message with this number is still there.
            Some(number) => number.parse::<u32>().ok()?.checked_sub(1),
            None => number.split(' ').next()?.parse().ok(),
        }
    });
    numbers.max().unwrap_or_default()
}

/// Reads the lines of a body in their order.
struct Reader<'t> {
    turn: u32,
    user_below: bool,
    /// What the present entry is.
    entry: Option<Part>,
    /// What indented quotes are: lines of an argument, or of a text in a result.
    below: Part,
    /// The depth of the head of the present table.
    head: Option<u8>,
    /// Blank lines above the next one.
    blank: u8,
    /// The present table of records is that of what records themselves have.
    is_newest: bool,
    /// The number of the next line in its text; 0 where it is not known.
    number: u32,
    /// The open items of what a party said.
    lists: OpenItems,
    /// The printed table that is open in a text.
    table: OpenTable<'t>,
}

impl<'t> Reader<'t> {
    /// Reads a line, with so many lines above it.
    fn read(&mut self, text: &'t str, above: usize) -> Option<DigestLine> {
        match text {
            USER | REST => {}
            "" => self.blank = (self.blank + 1).min(MOST_BLANK),
            _ if is_count(text) => {}
            _ => {
                let mut line = self.line(text)?;
                (line.turn, line.user_below) = (self.turn, self.user_below);
                line.blank_above = std::mem::take(&mut self.blank);
                if line.part.is_said() {
                    if line.depth == 0 {
                        self.lists = OpenItems::default();
                    }
                    line.within = self.lists.read(0, &line.text);
                }
                self.find_head(text, &mut line, above);
                self.count(&mut line);
                return Some(line);
            }
        }
        None
    }

    /// Finds the names of the columns of a printed table's row. Rows may be left out above it.
    fn find_head(&mut self, text: &'t str, line: &mut DigestLine, at: usize) {
        if !line.part.is_quoted() {
            if !is_gap(&line.text) {
                self.table.end();
            }
            return;
        }
        if line.blank_above > 0 {
            self.table.end();
        }
        let text = text.trim_start_matches(' ');
        let head = self.table.read(text.strip_prefix('|').unwrap_or(text), at);
        line.within = head.map(|head| at - head);
        line.is_printed_row = line.part == Part::Text && head.is_some();
    }

    /// Counts the lines of a text from the place that the mark of a gap gave on, up to what may
    /// stand for more or less than a line: blank ones, a repeated one, a piece of a long one.
    fn count(&mut self, line: &mut DigestLine) {
        if let Some(number) = place_in(&line.text) {
            self.number = number;
        } else if !line.part.is_quoted() || line.blank_above == MOST_BLANK || self.number == 0 {
            self.number = 0;
        } else {
            line.number = self.number + u32::from(line.blank_above);
            let may_be_several = line.text.ends_with(')') && line.text.contains(" (×");
            self.number = if may_be_several || line.text.len() > LEAST_PIECE {
                0
            } else {
                line.number + 1
            };
        }
    }

    /// Begins a turn, by its number alone or with what the user said.
    fn numbered(&mut self, text: &str) -> Option<DigestLine> {
        let only = before_below(text);
        self.user_below = only.is_some();
        let (number, said) = match only {
            Some(number) => (number, ""),
            None => text.split_once(' ').unwrap_or((text, "")),
        };
        self.turn = number.parse().unwrap_or(self.turn);
        if said.is_empty() {
            return None;
        }
        self.entry = Some(Part::User);
        Some(DigestLine::new(Part::User, 0, said))
    }

    /// Begins a call.
    fn called(&mut self, call: &str) -> DigestLine {
        self.entry = Some(Part::Call);
        (self.below, self.head) = (Part::Argument, None);
        let since = [
            (UNDONE, Outcome::Undone),
            (REMOVED, Outcome::Removed),
            (MADE_GOOD, Outcome::MadeGood),
            (DONE_OTHERWISE, Outcome::DoneOtherwise),
        ];
        let overcome = since
            .into_iter()
            .find_map(|(mark, outcome)| Some((call.strip_suffix(mark)?, outcome)));
        let call = overcome.map_or(call, |(call, _)| call);
        let failed = call
            .strip_suffix(AT_A_STEP)
            .unwrap_or(call)
            .strip_suffix(FAILED);
        let mut line = DigestLine::new(Part::Call, 0, failed.unwrap_or(call));
        line.outcome = match (overcome, failed) {
            (Some((_, outcome)), _) => outcome,
            (None, Some(_)) => Outcome::Failed,
            (None, None) => Outcome::Done,
        };
        line
    }

    fn line(&mut self, text: &str) -> Option<DigestLine> {
        if let Some(numbered) = text.strip_prefix('#') {
            return self.numbered(numbered);
        }
        if let Some(said) = text.strip_prefix(ASSISTANT) {
            self.entry = Some(Part::Assistant);
            let mut line = DigestLine::new(Part::Assistant, 0, said);
            line.standing = Standing::Edge;
            return Some(line);
        }
        if let Some(call) = text.strip_prefix(CALL) {
            return Some(self.called(call));
        }
        if let Some(calls) = untold::read_line(text) {
            self.entry = None;
            return Some(calls);
        }
        if let Some(table) = text.strip_prefix(RECORDS) {
            self.entry = Some(Part::Head);
            self.is_newest = table.starts_with(NEWEST);
            return Some(DigestLine::new(Part::Head, 0, text));
        }
        let blanks = text.len() - text.trim_start_matches(' ').len();
        let depth = u8::try_from(blanks.clamp(1, MOST_BLANKS)).unwrap_or(1);
        let text = text.get(blanks.min(MOST_BLANKS)..)?;
        let quoted = text.strip_prefix('|');
        let in_table = self.head.is_some_and(|head| depth == head + 1);
        let part = match (self.entry, quoted) {
            (Some(said @ (Part::User | Part::Assistant)), _) => said,
            (Some(Part::Head), _) if text.starts_with(ALSO) || text.starts_with(SINCE) => {
                Part::Untold
            }
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
        if depth == 1 && self.entry == Some(Part::Call) {
            let of_argument = text.starts_with(ARGUMENT) && text.ends_with(':');
            self.below = if of_argument {
                Part::Argument
            } else {
                Part::Text
            };
        }
        let mut line = DigestLine::new(part, depth, quoted.unwrap_or(text));
        if self.entry == Some(Part::Head) && self.is_newest {
            line.standing = Standing::Own;
        }
        line.of_argument = self.entry == Some(Part::Call)
            && self.below == Part::Argument
            && !line.part.is_quoted()
            && !is_gap(&line.text);
        Some(line)
    }
}

/// Whether a line counts the rows that were left out.
fn is_count(text: &str) -> bool {
    let count = text
        .trim_start()
        .strip_prefix("… ")
        .map(|rest| rest.strip_suffix(MORE_BELOW).unwrap_or(rest))
        .and_then(|rest| rest.strip_suffix(" more"));
    count.is_some_and(is_number)
}

/// The number of a turn of which the user's message is below.
fn before_below(text: &str) -> Option<&str> {
    text.strip_suffix(BELOW).filter(|number| is_number(number))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::body::write::body;

    fn read(body: &str) -> Vec<DigestLine> {
        read_back(body, &Cancel::default()).unwrap()
    }

    const BODY: &str = "\
The user said:
#2 Please cancel W-17. … It came too late.
 |And do not charge me.
#3 Thanks
records, newest state [3]{id,status}:
 W-17,cancelled
 … 2 more
 … also items, payments
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
→ add(lines=…)
 with lines: [2]{sku,count}:
  A-1,3
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
assistant: Bye.
#4, whose message is below
→ log_out()
… 9 calls not shown";

    #[test]
    fn what_is_within_an_item_is_so_when_it_is_read_back() {
        let body = "#1\nassistant: Two are left: …\n |1. HAT1\n |… - $9\n |2. HAT2\n |- $7";
        let lines = read(body);
        let within: Vec<Option<usize>> = lines.iter().map(|line| line.within).collect();
        assert_eq!(within, [None, None, Some(1), None, Some(1)]);
    }

    #[test]
    fn a_message_that_is_below_is_not_counted_yet() {
        assert_eq!(last_turn(BODY), 3);
        let mentioned = "#4 It is #9, whose message is below";
        assert_eq!(last_turn(mentioned), 4);
        assert!(!read(mentioned)[0].user_below);
    }

    #[test]
    fn a_body_is_read_back_as_it_was_written() {
        let lines = read(BODY);
        let all: Vec<bool> = lines.iter().map(|line| line.part != Part::Untold).collect();
        assert_eq!(body(&lines, &all).join("\n"), BODY);
    }

    #[test]
    fn a_call_that_failed_at_a_step_has_failed() {
        for call in ["→ sh(a && b) … failed at a step", "→ sh(a) failed"] {
            let lines = read(&format!("#1\n{call}\n"));
            assert_eq!(lines[0].outcome, Outcome::Failed, "{call}");
            assert!(!lines[0].text.contains("failed"), "{call}");
        }
    }
}
