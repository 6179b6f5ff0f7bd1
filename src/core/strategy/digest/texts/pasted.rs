//! What people paste into their messages: lines of logs, sheets and exports, beside what they say
//! themselves.

use crate::core::text::ByteSet;

/// The fewest such lines of a block, and the most others between two of them.
const LEAST_LINES: usize = 6;
const MOST_BETWEEN: usize = 2;
/// Separators from which on a line is a row.
const LEAST_SEPARATORS: usize = 3;
/// Runs of blanks from which on it is.
const LEAST_RUNS: usize = 2;
/// What stands in a date or a time between its digits.
static IN_TIMES: ByteSet = ByteSet::of(b".:/-T ").and(b'0', b'9');
/// The shortest date or time (bytes).
const LEAST_TIME: usize = 5;

/// Whether each line of a message is of a block that was pasted.
pub(super) fn pasted_in(text: &str) -> Vec<bool> {
    let rows: Vec<bool> = text.lines().map(is_row).collect();
    let mut pasted = vec![false; rows.len()];
    let (mut first, mut last, mut number) = (0, 0, 0);
    let mut end = |first: usize, last: usize, number: usize| {
        if number >= LEAST_LINES {
            let block = pasted.get_mut(first..=last).into_iter().flatten();
            block.for_each(|line| *line = true);
        }
    };
    for (at, _) in rows.iter().enumerate().filter(|(_, is_row)| **is_row) {
        if number > 0 && at - last > MOST_BETWEEN + 1 {
            end(first, last, number);
            number = 0;
        }
        if number == 0 {
            first = at;
        }
        (last, number) = (at, number + 1);
    }
    end(first, last, number);
    pasted
}

/// Whether a line is one of a log, a sheet or an export by its form.
fn is_row(line: &str) -> bool {
    let line = line.trim();
    begins_with_time(line) || has_columns(line) || line.starts_with("> ")
}

/// `2026-10-12 09:14`, `[14/02/26, 18:22]`
fn begins_with_time(line: &str) -> bool {
    let line = line.strip_prefix(['[', '(']).unwrap_or(line);
    let time = IN_TIMES.run(line.as_bytes(), true);
    let time = line.get(..time).unwrap_or_default().trim_end();
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    let between = time.bytes().filter(|b| b".:/-".contains(b)).count();
    time.len() >= LEAST_TIME && digits >= 3 && between > 0 && line.len() > time.len()
}

/// Cells with separators, or with runs of blanks between them.
fn has_columns(line: &str) -> bool {
    let count = |separator: u8| line.bytes().filter(|b| *b == separator).count();
    let is_sheet = [b'|', b'\t', b';']
        .iter()
        .any(|b| count(*b) >= LEAST_SEPARATORS);
    let is_list = count(b',') >= LEAST_SEPARATORS && !line.contains(", ");
    let mut runs = line.split("  ").filter(|part| !part.trim().is_empty());
    is_sheet || is_list || runs.nth(LEAST_RUNS).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_sheets_logs_and_exports_are_pasted() {
        let sheet = "a;1;x;2\n".repeat(6);
        let quote = "  01.1  PE foil, sprayed      24 h    39.74    953.76\n".repeat(6);
        let log = "2026-11-02 10:00:00 INFO started\n".repeat(6);
        let chat = "[14/02/26, 18:22] Joris: fine\n".repeat(6);
        for block in [sheet, quote, log, chat] {
            let text = format!("This is what came:\n{block}\nIt is too much.");
            let pasted = pasted_in(&text);
            let expected: Vec<bool> = text
                .lines()
                .map(|line| block.contains(line) && !line.is_empty())
                .collect();
            assert_eq!(pasted, expected, "{text}");
        }
    }

    #[test]
    fn what_people_say_is_not() {
        let list = "- Toilet stays.\n- Door left, not right, as said.\n".repeat(6);
        let numbered = "1. Oak, 14 mm\n2. No lamp\n".repeat(6);
        let few = "a;1;x;2\n".repeat(5);
        for text in [list, numbered, few] {
            assert!(!pasted_in(&text).contains(&true), "{text}");
        }
    }
}
