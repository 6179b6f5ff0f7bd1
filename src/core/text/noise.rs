//! Removes terminal noise.

use std::borrow::Cow;

use super::bytes::ByteSet;
use super::lines::{LEAST_REPEATS, runs, split_lines};

/// The text that a terminal would show in the end. Escape sequences and trailing blanks are
/// removed, an overwritten line keeps its last version, runs of blank lines shrink to one, and
/// repeated lines get a count. Borrowed if nothing changes.
#[must_use]
pub fn without_noise(text: &str) -> Cow<'_, str> {
    let plain = without_escapes(text);
    if is_settled(&plain) {
        return plain;
    }
    let mut out = String::with_capacity(plain.len());
    let mut first = true;
    for (line, times) in runs(split_lines(&plain).map(settled)) {
        if !first {
            out.push('\n');
        }
        first = false;
        out.push_str(line);
        if times >= LEAST_REPEATS && !line.is_empty() {
            out.push_str(&format!(" (×{times})"));
        } else {
            // Several blank lines separate no more than one does.
            for _ in 1..times.min(if line.is_empty() { 1 } else { times }) {
                out.push('\n');
                out.push_str(line);
            }
        }
    }
    if out == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// Whether no line changes, and none repeats the one before it.
fn is_settled(text: &str) -> bool {
    runs(split_lines(text)).all(|(line, times)| times == 1 && settled(line).len() == line.len())
}

/// The visible part of a line: the text after the last carriage return, without trailing blanks.
pub(super) fn settled(line: &str) -> &str {
    let line = line.trim_end();
    if !line.as_bytes().contains(&b'\r') {
        return line;
    }
    line.rsplit('\r')
        .find(|part| !part.trim().is_empty())
        .unwrap_or("")
        .trim_end()
}

/// Control characters but line breaks, carriage returns and tabs, and the first byte of those
/// beyond ASCII, which is that of some letters, too.
pub(super) static MAY_BE_NOISE: ByteSet = ByteSet::of(b"\x0b\x0c\x7f\xc2")
    .and(0, 0x08)
    .and(0x0e, 0x1f);

/// The text without terminal escape sequences (CSI, OSC and two-character ones) and without control
/// characters other than line breaks, carriage returns and tabs.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    let is_noise = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !text.bytes().any(|byte| MAY_BE_NOISE.has(byte)) || !text.contains(is_noise) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            match chars.next_if(|next| next.is_ascii()) {
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
    }
}
