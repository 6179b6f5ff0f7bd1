//! Terminal noise, removed.

use std::borrow::Cow;

/// Repetitions of a line from which on they are counted instead of shown.
const LEAST_REPEATS: usize = 3;

/// A text as a terminal would show it in the end: escape sequences gone, of a line that was written over only what was
/// written last, trailing blanks gone, blank lines and repeated lines told once. Borrowed when there is nothing to do.
#[must_use]
pub fn without_noise(text: &str) -> Cow<'_, str> {
    let plain = without_escapes(text);
    let mut out = String::with_capacity(plain.len());
    let mut lines = plain.split('\n').map(settled).peekable();
    let mut first = true;
    while let Some(line) = lines.next() {
        let mut times = 1;
        while lines.next_if_eq(&line).is_some() {
            times += 1;
        }
        if !first {
            out.push('\n');
        }
        first = false;
        out.push_str(line);
        if times >= LEAST_REPEATS && !line.is_empty() {
            out.push_str(&format!(" (×{times})"));
        } else {
            // A blank line is told once; it separates.
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

/// What is to be seen of a line: behind the last carriage return, without trailing blanks.
fn settled(line: &str) -> &str {
    let line = line.trim_end();
    line.rsplit('\r')
        .find(|part| !part.trim().is_empty())
        .unwrap_or("")
        .trim_end()
}

/// The text without terminal escape sequences (CSI, OSC and two-character ones) and other control characters but line
/// breaks, carriage returns and tabs.
fn without_escapes(text: &str) -> Cow<'_, str> {
    let is_noise = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_noise) {
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
                    // Up to BEL or ESC \, but never beyond the line: an unfinished sequence hides no more than that.
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
        let text = "\u{1b}[31mred\u{1b}[0m  \n10%\r50%\r100% done\r\nsame\nsame\nsame\n\n\n\u{1b}]0;title\u{7}end";
        assert_eq!(without_noise(text), "red\n100% done\nsame (×3)\n\nend");
        assert!(matches!(without_noise("a\n\tb\na"), Cow::Borrowed(_)));
        assert_eq!(without_noise("\u{1b}"), "");
        assert_eq!(without_noise("x\nx"), "x\nx");
    }
}
