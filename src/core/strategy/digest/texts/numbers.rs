//! The numbers that lines of a text have in the file that it is from.

use crate::core::strategy::digest::line::leading_number;

/// Lines behind which the output of a command stands, words of lines that say that something of it
/// was left out, and how long these are (bytes).
const OUTPUT_BEGINS: [&str; 3] = ["<output>", "<output_head>", "<stdout>"];
const LEFT_OUT: [&str; 5] = ["elided", "omitted", "output_tail", "skipped", "truncated"];
const LEFT_OUT_BYTES: usize = 120;

/// The numbers of the lines of a text, one after another.
pub(super) struct Numbers {
    /// That of the first line, and of the next.
    first: u32,
    next: u32,
    are_known: bool,
}

impl Numbers {
    /// Of a text whose first line has this number; `None` where its lines have none.
    pub(super) fn from(first: Option<u32>) -> Self {
        Numbers {
            first: first.unwrap_or_default(),
            next: first.unwrap_or_default(),
            are_known: first.is_some(),
        }
    }

    /// The number of the next line, which stands for so many; 0 where it has none, or shows it.
    pub(super) fn of(&mut self, line: &str, stands_for: usize) -> u32 {
        let number = self.next;
        let lines = u32::try_from(stands_for).unwrap_or(u32::MAX);
        self.next = number.saturating_add(lines);
        match numbering(line) {
            Numbering::GoesOn => {}
            Numbering::Begins => self.next = self.first,
            Numbering::Ends => self.are_known = false,
        }
        if self.are_known && !shows_number(line) {
            number
        } else {
            0
        }
    }
}

/// What a line does to the numbers of those below it.
enum Numbering {
    GoesOn,
    /// The output of a command begins below.
    Begins,
    /// Something was left out: nobody knows how many lines.
    Ends,
}

/// What a line of a result does to the numbers of those below it.
fn numbering(line: &str) -> Numbering {
    if OUTPUT_BEGINS.contains(&line) {
        return Numbering::Begins;
    }
    let tells = line.len() <= LEFT_OUT_BYTES && line.starts_with(['<', '[', '.', '…', '(']);
    match tells && LEFT_OUT.iter().any(|word| line.contains(word)) {
        true => Numbering::Ends,
        false => Numbering::GoesOn,
    }
}

/// Whether a line begins with a number that a listing or a search gave it.
fn shows_number(line: &str) -> bool {
    let (number, behind) = leading_number(line);
    let is_barred = behind.trim_start().starts_with("| ");
    !number.is_empty() && (is_barred || behind.starts_with(['\t', ':', '|', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_where_the_output_begins_to_where_something_is_left_out() {
        let text = "<returncode>1</returncode>\n<output>\nfn a() {\n\n  7 | b();\n}\n\
            <elided_chars>\n212 characters elided\n</elided_chars>\nfn z() {}";
        let numbers = |first| -> Vec<u32> {
            let mut numbers = Numbers::from(first);
            text.lines().map(|line| numbers.of(line, 1)).collect()
        };
        assert_eq!(numbers(Some(40)), [40, 41, 40, 41, 0, 43, 0, 0, 0, 0]);
        assert_eq!(numbers(None), [0; 10]);
    }
}
