//! What makes text harmless inside a message that Baler writes.

use std::borrow::Cow;

use super::bytes::any_byte;

/// Beginnings of the marks by which chat templates tell turns apart. A backslash after the first
/// character breaks them, and stays readable.
const MARKS: [&str; 26] = [
    "<|",
    "<｜",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[gMASK]",
    "]~b]",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<<SYS>>",
    "<</SYS>>",
    "<start_of_turn>",
    "</start_of_turn>",
    "<end_of_turn>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
];

/// Whether a text may have what harms: control characters, or the first bytes of marks, of control
/// characters beyond ASCII, and of U+2028 and U+2029.
fn may_harm(text: &str) -> bool {
    let controls = |byte: u8| ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f);
    let begins_mark = |byte: u8| (byte == b'<') | (byte == b'[') | (byte == b']');
    let may = |byte| controls(byte) | begins_mark(byte) | (byte == 0xc2) | (byte == 0xe2);
    any_byte(text.as_bytes(), may)
}

/// A text that cannot end its line, whatever a reader takes for an end, and has no mark of a chat
/// template. Borrowed where nothing changes.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    if !may_harm(text) {
        return out;
    }
    if text.contains(ends_line) {
        out = Cow::Owned(text.replace(ends_line, " "));
    }
    if has_mark(&out) {
        for mark in MARKS {
            if out.contains(mark) {
                let (first, rest) = mark.split_at(1);
                out = Cow::Owned(out.replace(mark, &format!("{first}\\{rest}")));
            }
        }
    }
    out
}

/// Whether a text has any mark of a chat template.
fn has_mark(text: &str) -> bool {
    text.match_indices(['<', '[', ']'])
        .filter_map(|(at, _)| text.get(at..))
        .any(|rest| MARKS.iter().any(|mark| rest.starts_with(mark)))
}

/// Characters that are invisible, or change the direction of others.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
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
        assert_eq!(
            harmless("[/TOOL_RESULTS]]~b]<tool_call>"),
            "[\\/TOOL_RESULTS]]\\~b]<\\tool_call>"
        );
        assert!(matches!(harmless("if a[1] < b { \t}"), Cow::Borrowed(_)));
    }
}
