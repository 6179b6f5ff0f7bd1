//! Signs of failure in the result of a call.

use crate::core::json::Json;
use crate::core::text::Pattern;

/// Words that report a failure wherever they stand.
const REPORTS: [&str; 11] = [
    "cannot",
    "denied",
    "failed",
    "failure",
    "fatal",
    "invalid",
    "panic",
    "panicked",
    "refused",
    "traceback",
    "undefined",
];
/// No report is longer (bytes).
const LONGEST_REPORT: usize = 64;
/// Ends of words that do.
const REPORT_ENDS: [&str; 2] = ["error", "exception"];
/// Pairs of words that do, one blank between them.
const REPORT_PAIRS: [(&str, &str); 4] = [
    ("not", "found"),
    ("no", "such"),
    ("unable", "to"),
    ("timed", "out"),
];

/// A result that is a failure as a whole: its beginning, or an exit code anywhere in it.
pub(super) static FAILED: Pattern = Pattern::new(concat!(
    r"(?i)^\s*(<(tool_use_)?error>",
    concat!(
        r"|\[?(fatal |runtime |uncaught ",
        r")?(error|exception|traceback|failed|failure|fatal|panic)\b|[a-z_.]*(error|",
        r"exception):)"
    ),
    r"|^\s*(bash|sh|zsh|cmd): .*(not found|no such)",
    r"|<(returncode|exit_code)>\s*-?[1-9]",
    r"|\b(exit (code|status)|exited with( code| status)?|return ?code|exit_code)[:= ]+-?[1-9]",
));

/// Whether a line reports a failure.
#[must_use]
pub fn tells_of_failure(line: &str) -> bool {
    let bytes = line.as_bytes();
    // The present word begins here; the one before it began and ended there.
    let (mut begins, mut before) = (None, (0, 0));
    for (at, byte) in bytes.iter().chain(b" ").enumerate() {
        if byte.is_ascii_alphanumeric() || *byte == b'_' {
            begins = begins.or(Some(at));
        } else if let Some(from) = begins.take() {
            let word = bytes.get(from..at).unwrap_or_default();
            let is_next = from == before.1 + 1 && bytes.get(before.1) == Some(&b' ');
            if reports(word)
                || (is_next && is_pair(bytes.get(before.0..before.1).unwrap_or_default(), word))
            {
                return true;
            }
            before = (from, at);
        }
    }
    false
}

/// Whether a word reports a failure by itself. The first look is at its length and its last letter.
fn reports(word: &[u8]) -> bool {
    let Some(last) = word.last() else {
        return false;
    };
    if word.len() < 5 || !b"cdehklnrty".contains(&last.to_ascii_lowercase()) {
        return false;
    }
    if word.len() > LONGEST_REPORT {
        return false;
    }
    let is = |known: &&str| word.eq_ignore_ascii_case(known.as_bytes());
    let ends = |end: &&str| {
        let from = word.len().checked_sub(end.len());
        let tail = from.and_then(|from| word.get(from..)).unwrap_or_default();
        tail.eq_ignore_ascii_case(end.as_bytes()) && word.iter().all(u8::is_ascii_alphabetic)
    };
    REPORTS.iter().any(is) || REPORT_ENDS.iter().any(ends)
}

fn is_pair(first: &[u8], second: &[u8]) -> bool {
    matches!(
        (first.len(), second.len()),
        (3, 5) | (2, 4) | (6, 2) | (5, 3)
    ) && REPORT_PAIRS.iter().any(|(one, other)| {
        first.eq_ignore_ascii_case(one.as_bytes()) && second.eq_ignore_ascii_case(other.as_bytes())
    })
}

/// Whether a tool result as a whole is a failure: by its beginning, an exit code, or an error
/// field.
#[must_use]
pub fn is_failure(text: &str) -> bool {
    match Json::parse(text) {
        Some(Json::Object(members)) => {
            members
                .iter()
                .any(|(key, value)| match (key.as_str(), value) {
                    ("error" | "errors" | "exception", value) => {
                        !matches!(value, Json::Null | Json::Bool(false))
                            && !matches!(value, Json::String(text) if text.is_empty())
                            && !matches!(value, Json::List(items) if items.is_empty())
                    }
                    ("is_error" | "isError", Json::Bool(true))
                    | ("success" | "ok", Json::Bool(false)) => true,
                    ("exit_code" | "returncode" | "exitCode", Json::Number(code)) => &**code != "0",
                    ("status", Json::String(status)) => {
                        matches!(status.as_str(), "error" | "failed" | "failure")
                    }
                    _ => false,
                })
        }
        Some(_) => false,
        None => FAILED.is_match(head_of(text)),
    }
}

/// The part of a text that is searched for signs of failure.
fn head_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(4_096)).unwrap_or(text)
}

/// The line of a failure that names the cause: the last that reports one, as in traces, else the
/// first.
#[must_use]
pub fn failure_line(text: &str) -> &str {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let mut reports = lines().filter(|line| {
        tells_of_failure(line)
            && !line.trim_start().starts_with('<')
            && !line.starts_with("Traceback")
    });
    reports
        .next_back()
        .or_else(|| lines().next())
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_report_a_failure_are_told_by_their_words() {
        for report in [
            "ValueError: bad",
            "it was not found",
            "x: No such file",
            "FAILED tests/a.py",
            "error[E0308]: mismatched",
            "request timed out.",
            "thread panicked",
            "denied",
        ] {
            assert!(tells_of_failure(report), "{report}");
        }
        for fine in [
            "last_error = 1",
            "errors: 0",
            "not  found",
            "failedx",
            "no suchlike",
            "naïve",
            "",
        ] {
            assert!(!tells_of_failure(fine), "{fine}");
        }
    }

    #[test]
    fn failures_are_recognised() {
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
        for fine in [
            r#"{"error":null,"id":1}"#,
            "def error(): pass",
            "<returncode>0</returncode>\nError handling docs",
            "0 errors",
            "[1]",
            "",
        ] {
            assert!(!is_failure(fine), "{fine}");
        }
        assert_eq!(
            failure_line("Traceback (most recent call last):\n  File x\nValueError: bad\n"),
            "ValueError: bad"
        );
    }
}
