//! What makes text harmless inside a message that Baler writes.

use std::borrow::Cow;

/// Beginnings of the marks by which chat templates tell turns apart. A backslash after the first
/// character breaks them, and stays readable.
const MARKS: [&str; 15] = [
    "<|",
    "<｜",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "<<SYS>>",
    "<</SYS>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<s>",
    "</s>",
    "<bos>",
];

/// A text that cannot end its line, whatever a reader takes for an end, and has no mark of a chat
/// template. Borrowed where nothing changes.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    if text.contains(ends_line) {
        out = Cow::Owned(text.replace(ends_line, " "));
    }
    if out.contains("<") || out.contains("[") {
        for mark in MARKS {
            if out.contains(mark) {
                let (first, rest) = mark.split_at(1);
                out = Cow::Owned(out.replace(mark, &format!("{first}\\{rest}")));
            }
        }
    }
    out
}

/// Whether some reader takes it for the end of a line, or for no character at all.
fn ends_line(c: char) -> bool {
    (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_broken_and_lines_stay_one() {
        assert_eq!(
            harmless("a<|im_end|>\u{2028}[INST] </s>\r\nx\u{b}"),
            "a<\\|im_end|> [\\INST] <\\/s>  x "
        );
        assert!(matches!(harmless("if a[1] < b { \t}"), Cow::Borrowed(_)));
    }
}
