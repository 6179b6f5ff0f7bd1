//! Plain text as strategies need it: terminal noise removed, lines and sentences, signs of failure.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::json::Json;

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
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// What is to be seen of a line: behind the last carriage return, without trailing blanks.
fn settled(line: &str) -> &str {
    let line = line.trim_end();
    line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or("").trim_end()
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
                Some('[') => while chars.next_if(|c| ('\u{20}'..'\u{40}').contains(c)).is_some() {},
                Some(']') => {
                    // Up to BEL or ESC \, but never beyond the line: an unfinished sequence hides no more than that.
                    while chars.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
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

/// Cuts a text into pieces of at most about `limit` bytes: after sentences where there are any, between words
/// otherwise, between characters at worst. Pieces put together again are the text.
pub fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, behind) = rest.split_at_checked(cut_at(rest, limit)).unwrap_or((rest, ""));
        rest = behind;
        Some(piece)
    })
}

fn cut_at(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let window = text.get(..text.floor_char_boundary(limit.max(4))).unwrap_or(text);
    let least = window.len() / 3;
    let after = |found: Option<usize>, width: usize| found.map(|at| at + width).filter(|at| *at > least);
    let ends = [". ", "! ", "? ", "; ", "。"];
    let sentence = ends.iter().filter_map(|end| after(window.rfind(end), end.len())).max();
    sentence
        .or_else(|| after(window.rfind(", "), 2))
        .or_else(|| after(window.rfind(char::is_whitespace), 1).map(|at| window.ceil_char_boundary(at)))
        .or_else(|| after(window.rfind([',', '/', '|', ';', '&']), 1))
        .unwrap_or(window.len())
}

/// Whether a line tells of a failure.
#[must_use]
pub fn tells_of_failure(line: &str) -> bool {
    static FAILURE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i-u)\b([a-z]*error|[a-z]*exception|traceback|failed|failure|fatal|panic(ked)?|denied|refused|cannot|not found|no such|invalid|undefined|unable to|timed out|assert(ion)?error)\b").ok()
    });
    FAILURE.as_ref().is_some_and(|pattern| pattern.is_match(line))
}

/// Whether a tool result as a whole is a failure: it says so at its beginning, by an exit code, or in an error field.
#[must_use]
pub fn is_failure(text: &str) -> bool {
    static FAILED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)^\s*(<(tool_use_)?error>|\[?(fatal |runtime |uncaught )?(error|exception|traceback|failed|failure|fatal|panic)\b|[a-z_.]*(error|exception):)",
            r"|^\s*(bash|sh|zsh|cmd): .*(not found|no such)",
            r"|<(returncode|exit_code)>\s*-?[1-9]",
            r"|\b(exit (code|status)|exited with( code| status)?|return ?code|exit_code)[:= ]+-?[1-9]",
        ))
        .ok()
    });
    match Json::parse(text) {
        Some(Json::Object(members)) => members.iter().any(|(key, value)| match (key.as_str(), value) {
            ("error" | "errors" | "exception", value) => {
                !matches!(value, Json::Null | Json::Bool(false))
                    && !matches!(value, Json::String(text) if text.is_empty())
                    && !matches!(value, Json::List(items) if items.is_empty())
            }
            ("is_error" | "isError", Json::Bool(true)) | ("success" | "ok", Json::Bool(false)) => true,
            ("exit_code" | "returncode" | "exitCode", Json::Number(code)) => &**code != "0",
            ("status", Json::String(status)) => matches!(status.as_str(), "error" | "failed" | "failure"),
            _ => false,
        }),
        Some(_) => false,
        None => FAILED.as_ref().is_some_and(|pattern| pattern.is_match(head_of(text))),
    }
}

/// As much of a text as tells whether it is a failure.
fn head_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(4_096)).unwrap_or(text)
}

/// The line of a failure that says what went wrong: the last that names it, as traces do, else the first.
#[must_use]
pub fn failure_line(text: &str) -> &str {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let mut told = lines().filter(|line| tells_of_failure(line) && !line.trim_start().starts_with('<') && !line.starts_with("Traceback"));
    told.next_back().or_else(|| lines().next()).unwrap_or(text)
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

    #[test]
    fn failures_are_known_by_what_they_say_of_themselves() {
        for failed in [
            r#"{"error":"no such order"}"#,
            r#"{"success": false}"#,
            "Error: file not found",
            "Traceback (most recent call last):\n  x\nValueError: bad",
            "ValueError: bad",
            "<returncode>1</returncode>\n<output>x</output>",
            "bash: foo: command not found",
            "Process exited with code 127",
        ] {
            assert!(is_failure(failed), "{failed}");
        }
        for fine in
            [r#"{"error":null,"id":1}"#, "def error(): pass", "<returncode>0</returncode>\nError handling docs", "0 errors", "[1]", ""]
        {
            assert!(!is_failure(fine), "{fine}");
        }
        assert_eq!(failure_line("Traceback (most recent call last):\n  File x\nValueError: bad\n"), "ValueError: bad");
    }

    #[test]
    fn pieces_lose_nothing() {
        for text in ["One. Two two. Three three three.", "漢字かな漢字かな漢字かな", "", "word ".repeat(40).as_str(), &"x".repeat(100)]
        {
            let all: Vec<&str> = pieces(text, 16).collect();
            assert_eq!(all.concat(), *text);
            assert!(all.iter().all(|piece| piece.len() <= 18), "{all:?}");
        }
    }
}
