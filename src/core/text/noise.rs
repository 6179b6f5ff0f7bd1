//! Removes terminal noise.

use std::borrow::Cow;
use std::iter::repeat_n;

use super::bytes::any_byte;
use super::lines::{LEAST_REPEATS, runs, split_lines};

/// The text that a terminal would show in the end: its `quiet_lines`, without terminal escape
/// sequences and control characters. Borrowed if nothing changes.
#[must_use]
pub fn without_noise(text: &str) -> Cow<'_, str> {
    let plain = without_escapes(text);
    if is_settled(&plain) {
        return plain;
    }
    let mut out = String::with_capacity(plain.len());
    for (at, (line, _)) in quiet_lines(&plain).enumerate() {
        if at > 0 {
            out.push('\n');
        }
        out.push_str(&line);
    }
    if out == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// The lines of a text without escape sequences, each with the number of lines that it stands for:
/// an overwritten line keeps its last version, trailing blanks are removed, runs of blank lines
/// shrink to one, and repeated lines get a count.
pub(in crate::core) fn quiet_lines(plain: &str) -> impl Iterator<Item = (Cow<'_, str>, usize)> {
    runs(split_lines(plain).map(settled)).flat_map(|(line, times)| {
        if line.is_empty() {
            repeat_n((Cow::Borrowed(line), times), 1)
        } else if times >= LEAST_REPEATS {
            repeat_n((Cow::Owned(format!("{line} (×{times})")), times), 1)
        } else {
            repeat_n((Cow::Borrowed(line), 1), times)
        }
    })
}

/// Whether no line changes, and none repeats the one before it.
fn is_settled(text: &str) -> bool {
    runs(split_lines(text)).all(|(line, times)| times == 1 && settled(line).len() == line.len())
}

/// The visible part of a line: the text after the last carriage return, without trailing blanks.
pub(super) fn settled(line: &str) -> &str {
    let line = line.trim_end();
    if memchr::memchr(b'\r', line.as_bytes()).is_none() {
        return line;
    }
    line.rsplit('\r')
        .find(|part| !part.trim().is_empty())
        .unwrap_or("")
        .trim_end()
}

/// Whether a text may have noise: control characters but line breaks, carriage returns and tabs, or
/// the first byte of those beyond ASCII, which is that of some letters, too.
pub(super) fn may_have_noise(text: &str) -> bool {
    let is_break = |byte: u8| (byte == b'\n') | (byte == b'\r') | (byte == b'\t');
    let may_be = |byte| ((byte < b' ') & !is_break(byte)) | (byte == 0x7f) | (byte == 0xc2);
    any_byte(text.as_bytes(), may_be)
}

/// The text without terminal escape sequences (CSI, OSC and two-character ones) and without control
/// characters other than line breaks, carriage returns and tabs.
pub(in crate::core) fn without_escapes(text: &str) -> Cow<'_, str> {
    let is_noise = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !may_have_noise(text) || !text.contains(is_noise) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            match chars.next_if(|next| matches!(next, ' '..='~')) {
                Some('[') => {
                    while chars
                        .next_if(|c| ('\u{20}'..'\u{40}').contains(c))
                        .is_some()
                    {}
                }
                Some(']') => {
                    // An OSC sequence ends with BEL or ESC \. An unfinished one ends with its line,
                    // so that it hides no more than that.
                    while chars
                        .next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n'))
                        .is_some()
                    {}
                    if chars.next_if_eq(&'\u{1b}').is_some() {
                        chars.next_if_eq(&'\\');
                    }
                    chars.next_if_eq(&'\u{7}');
                    continue;
                }
                _ => continue,
            }
            // The final byte of a CSI sequence.
            chars.next_if(|c| ('\u{40}'..'\u{7f}').contains(c));
        } else if !is_noise(c) {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_noise_goes_and_what_was_said_stays() {
        let text = "\u{1b}[31mred\u{1b}[0m  \n10%\r50%\r100% done\r\n\
            same\nsame\nsame\n\n\n\u{1b}]0;title\u{7}end";
        assert_eq!(without_noise(text), "red\n100% done\nsame (×3)\n\nend");
        assert!(matches!(without_noise("a\n\tb\na"), Cow::Borrowed(_)));
        assert_eq!(without_noise("\u{1b}"), "");
        assert_eq!(without_noise("x\nx"), "x\nx");
        assert_eq!(without_noise("\u{1b}\nx\n"), "\nx\n");
    }

    #[test]
    fn quiet_lines_stand_for_all_lines() {
        let text = "a\n\n\n\nb\nb\nb\nc\nc\n";
        let all: Vec<_> = quiet_lines(text).collect();
        let told = all
            .iter()
            .map(|(line, stands_for)| (line.as_ref(), *stands_for));
        let expected = [
            ("a", 1),
            ("", 3),
            ("b (×3)", 3),
            ("c", 1),
            ("c", 1),
            ("", 1),
        ];
        assert!(told.eq(expected), "{all:?}");
    }
}
