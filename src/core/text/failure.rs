//! Signs of failure in the result of a call.

use crate::core::json::Json;
use crate::core::text::Pattern;

/// Words of a line that reports a failure.
pub(super) static FAILURE: Pattern = Pattern::new(concat!(
    concat!(
        r"(?i-u)\b([a-z]*error|[a-z]*exception|traceback|failed|failure|fatal|",
        r"panic(ked)?|denied|refused|cannot"
    ),
    r"|not found|no such|invalid|undefined|unable to|timed out|assert(ion)?error)\b",
));

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
    FAILURE.is_match(line)
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
