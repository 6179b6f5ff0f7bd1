//! Signs of failure in the result of a call.

use std::borrow::Cow;

use memchr::memmem;

use super::bytes::ByteSet;
use super::outcome::ends_as_failed_run;
use crate::core::json::Json;
use crate::core::text::Pattern;

/// Words that report a failure wherever they stand.
const REPORTS: [&str; 17] = [
    "cannot",
    "crashloopbackoff",
    "denied",
    "evicted",
    "failed",
    "failure",
    "fatal",
    "imagepullbackoff",
    "invalid",
    "killed",
    "oomkilled",
    "panic",
    "panicked",
    "refused",
    "rejected",
    "traceback",
    "undefined",
];
/// No report is longer (bytes).
const LONGEST_REPORT: usize = 64;
/// Ends of words that do.
const REPORT_ENDS: [&str; 2] = ["error", "exception"];
/// Pairs of words that do, one blank between them.
const REPORT_PAIRS: [(&str, &str); 5] = [
    ("data", "race"),
    ("not", "found"),
    ("no", "such"),
    ("unable", "to"),
    ("timed", "out"),
];

/// The bytes of the words that are looked at.
static OF_WORDS: ByteSet = ByteSet::of(b"_").and_alphanumeric();
/// The last letters of words that report a failure; and the first ones of those that do as a whole.
static LAST_OF_REPORTS: ByteSet = ByteSet::of(b"cdefhklnrtyCDEFHKLNRTY");
static FIRST_OF_REPORTS: ByteSet = ByteSet::of(b"cdefikoprtuCDEFIKOPRTU");

/// A result that is a failure as a whole, by the form of its beginning. A text that is about errors
/// begins with the same words, but goes on otherwise. What is searched for is apart from it, so
/// that nothing behind the beginning is looked at. Words end where those of ASCII do, here and
/// below: behind other scripts the fast engine cannot tell, and the others take a hundred times as
/// long.
pub(super) static FAILED: Pattern = Pattern::new(concat!(
    r"(?im)\A\s*(#{3,6} |\*\*|[❌✗✖]\s*)?(<(tool_use_)?error>",
    r"|\[?(fatal |runtime |uncaught |unhandled )*(error|exception|failure|fatal|panic)s?",
    r"(\s*[:!\]\[]|\s*$|\s+(in thread|while|when|occurred|executing|running|calling|reading)",
    r"(?-u:\b)",
    r"|\s+(code )?-?\d)",
    r"|[a-z_.]*(error|exception)(\s*\[[^\]]*\])?:",
    r"|(erreur|erro|fehler|błąd|hata|ошибка|오류|エラー|错误|錯誤)(\s*[:：!]|\s*$|\s+-?\d)",
    r"|[a-z_]+( [a-z]+)? failed: |error from server \(",
    r"|(api|code|curl|gateway|request|response|server|status|upstream): [45]\d\d",
    r"(\s*$|[:,.;)]|\s+[-–(])",
    r"|<[a-z:]+ [^<>\n]{0,80}(code|status)=.[45]\d\d(?-u:\b)",
    r"|(the )?(tool|command|request|call|operation|execution)( execution| call)? failed(?-u:\b)",
    r"|failed( to(?-u:\b)|:|$)|mcp error -?\d|\[errno -?\d+\]|e[a-z]{3,12}: ",
    r"|(permission|access) denied|command not found",
    r"|http(/\d(\.\d)?)?( error)?:? ?[45]\d\d(?-u:\b)",
    r"|([a-z]+: )?[45]\d\d:? (bad request|unauthorized|forbidden|not found|method not allowed",
    r"|conflict|gone|too many requests|internal server error|bad gateway|service unavailable",
    r"|gateway timeout)",
    r"|[a-z_]+: (cannot access|\(\d+\) |[^\n]*(no such file or directory|permission denied",
    r"|not found|connection (refused|reset by peer|timed out)|no route to host",
    r"|network is unreachable)\s*$)",
    r"|(bash|sh|zsh|cmd): .*(not found|no such)|thread '[^'\n]*' .{0,20}panicked at)",
));

/// The same, by a report anywhere in it.
pub(super) static REPORTED: Pattern =
    Pattern::new(r"(?im)^Traceback \(most recent call last\)|^panic: ");

/// An exit code in that, or at the end of a result: that of a log longer than the part that is
/// searched. See [`exited`].
pub(super) static EXITED: Pattern = Pattern::new(concat!(
    r"(?i)<(returncode|exit_code)>\s*-?[1-9]",
    r"|(?-u:\b)(exit (code|status)|exited with( code| status)?|return ?code|exit_code)",
    r"( ?[:=] ?| )-?[1-9][0-9]*",
    r"|(?m-i:^(--- FAIL: |FAIL\t))",
));

/// Begins a line of a command that failed, wherever that stands: a merge, a statement in psql, a
/// script of a package.
const FAILED_COMMANDS: [&str; 5] = [
    "CONFLICT (",
    "ELIFECYCLE ",
    " ELIFECYCLE ",
    "ERROR:  ",
    "error: could not apply ",
];

/// Begins the line of a test that failed, in Go.
const GO_TEST: &str = "--- FAIL: ";

/// Keys of what failed, in other languages than English.
const FAILURE_KEYS: [&str; 12] = [
    "błąd",
    "erreur",
    "erro",
    "errore",
    "fehler",
    "fel",
    "fout",
    "hata",
    "ошибка",
    "エラー",
    "오류",
    "错误",
];

/// How a result goes on behind `The user ` where he did not want the call.
const REFUSED: [&str; 4] = ["declined", "denied", "doesn't want to proceed", "rejected"];

/// How what an agent's program answers begins where it did not run a call, because of its form.
const NOT_RUN: [&str; 8] = [
    "Expected exactly one action",
    "Format error",
    "No action found",
    "No tool calls found in the response",
    "Please always provide EXACTLY ONE action",
    "Your last output did not use any tool calls",
    "Your output was not formatted correctly",
    "[ERROR] You did not use a tool",
];

/// What the member that tells what came of a call says where it did not do what it was asked for.
const DECLINES: [&str; 7] = [
    "declined", "denied", "error", "failed", "failure", "refused", "rejected",
];

/// Announces a trace of calls.
pub(in crate::core) const TRACE: &str = "Traceback (most recent call last)";

/// Whether a line reports a failure.
#[must_use]
pub fn tells_of_failure(line: &str) -> bool {
    if without_stamp(line).trim_start().starts_with(GO_TEST) {
        return true;
    }
    let mut rest = line.as_bytes();
    let mut before: &[u8] = &[];
    loop {
        let (gap, behind) = rest.split_at(OF_WORDS.run(rest, false));
        if behind.is_empty() {
            return false;
        }
        let (word, behind) = behind.split_at(OF_WORDS.run(behind, true));
        if reports(word) || (gap == b" " && is_pair(before, word)) {
            return true;
        }
        (before, rest) = (word, behind);
    }
}

/// What a line says behind the job, the step and the time that a service puts before each.
pub(super) fn without_stamp(line: &str) -> &str {
    let last = line.rsplit_once('\t').map_or(line, |(_, last)| last);
    let stamped = last.split_once(' ').filter(|(time, _)| {
        time.ends_with('Z') && time.contains('T') && time.starts_with(|c: char| c.is_ascii_digit())
    });
    stamped.map_or(line, |(_, said)| said)
}

/// Whether a line with this word may report a failure: one without such a word does not.
#[must_use]
pub(in crate::core) fn may_report(word: &str) -> bool {
    let mut parts = word.as_bytes().split(|byte| !OF_WORDS.has(*byte));
    parts.any(|part| {
        let begins = |(first, _): &(&str, &str)| part.eq_ignore_ascii_case(first.as_bytes());
        reports(part) || part == b"FAIL" || REPORT_PAIRS.iter().any(begins)
    })
}

/// Whether a word reports a failure by itself. The first look is at its length and its first and
/// last letters.
fn reports(word: &[u8]) -> bool {
    let (Some(first), Some(last)) = (word.first(), word.last()) else {
        return false;
    };
    if !(5..=LONGEST_REPORT).contains(&word.len()) || !LAST_OF_REPORTS.has(*last) {
        return false;
    }
    let is = |known: &&str| word.eq_ignore_ascii_case(known.as_bytes());
    let ends = |end: &&str| {
        let from = word.len().checked_sub(end.len());
        let tail = from.and_then(|from| word.get(from..)).unwrap_or_default();
        tail.eq_ignore_ascii_case(end.as_bytes()) && word.iter().all(u8::is_ascii_alphabetic)
    };
    let may_end = matches!(last, b'r' | b'R' | b'n' | b'N');
    (FIRST_OF_REPORTS.has(*first) && REPORTS.iter().any(is))
        || (may_end && REPORT_ENDS.iter().any(ends))
}

fn is_pair(first: &[u8], second: &[u8]) -> bool {
    matches!(
        (first.len(), second.len()),
        (4, 4) | (3, 5) | (2, 4) | (6, 2) | (5, 3)
    ) && REPORT_PAIRS.iter().any(|(one, other)| {
        first.eq_ignore_ascii_case(one.as_bytes()) && second.eq_ignore_ascii_case(other.as_bytes())
    })
}

/// Whether a tool result as a whole is a failure: by its form, an exit code, or an error field.
#[must_use]
pub(super) fn is_failure(text: &str) -> bool {
    is_failure_as(text, Json::parse(text).as_ref())
}

/// Whether a result is a failure, by `json` where it is an object or a list.
#[must_use]
pub(super) fn is_failure_as(text: &str, json: Option<&Json>) -> bool {
    match json {
        Some(Json::Object(members)) => {
            let explains = members.iter().any(|(key, value)| {
                matches!(key.as_str(), "message" | "error" | "detail" | "reason")
                    && matches!(value, Json::String(text) if !text.is_empty())
            });
            members
                .iter()
                .any(|(key, value)| is_sign(key, value, explains))
        }
        Some(_) => false,
        None => {
            let head = head_of(text);
            FAILED.is_match(head)
                || REPORTED.is_match(head)
                || names_trace(head)
                || is_refused(head)
                || is_not_run(head)
                || exited(head)
                || (head.len() < text.len() && exited(end_of(text)))
                || ends_as_failed_run(end_of(text))
        }
    }
}

/// Whether a text says that what was run failed. An exit code ends its line: a title may be about
/// one. In columns, or behind a time, it is that of something else, which is only looked at.
fn exited(text: &str) -> bool {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes());
    let mut begins = std::iter::once(0).chain(ends.map(|end| end + 1));
    if begins.any(|at| begins_as_failed(text.get(at..).unwrap_or_default())) {
        return true;
    }
    may_have_exited(text)
        && EXITED
            .regex()
            .find_iter(text)
            .any(|code| is_exit(text, code))
}

/// Whether a text has one of the words that all of those have: `exit`, `return code`, `FAIL`. It is
/// several times as fast as the search for them.
fn may_have_exited(text: &str) -> bool {
    let bytes = text.as_bytes();
    let before = |at: usize| bytes.get(..at).unwrap_or_default();
    let ends = |before: &[u8], end: &[u8]| {
        let last = before.get(before.len().saturating_sub(end.len())..);
        last.is_some_and(|last| last.eq_ignore_ascii_case(end))
    };
    let is_exit = |at: usize| ends(before(at), b"e");
    let is_code = |at: usize| {
        let before = before(at);
        ends(before.strip_suffix(b" ").unwrap_or(before), b"return")
    };
    memchr::memchr2_iter(b'x', b'X', bytes).any(is_exit)
        || memchr::memchr2_iter(b'c', b'C', bytes).any(is_code)
        || text.contains("FAIL")
}

/// Whether that is what a command ended with.
fn is_exit(text: &str, code: regex::Match<'_>) -> bool {
    if !code.as_str().ends_with(|c: char| c.is_ascii_digit()) || code.as_str().starts_with('<') {
        return true;
    }
    let before = text.get(..code.start()).unwrap_or_default();
    let before = before.rsplit('\n').next().unwrap_or_default();
    let behind = text.get(code.end()..).unwrap_or_default();
    let behind = behind.split('\n').next().unwrap_or_default();
    let ends = |c: char| c.is_whitespace() || matches!(c, '.' | ')' | ']');
    behind.chars().all(ends)
        && !before.contains('\t')
        && !before.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a line is one of a command that failed.
fn begins_as_failed(line: &str) -> bool {
    let may = matches!(
        line.as_bytes().first(),
        Some(b'C' | b'E' | b'e' | b' ' | b'[')
    );
    may && (FAILED_COMMANDS.iter().any(|begin| line.starts_with(begin))
        || line
            .strip_prefix("[exit ")
            .is_some_and(|code| code.starts_with(|c: char| ('1'..='9').contains(&c))))
}

/// Whether a text says that the user did not want the call.
fn is_refused(text: &str) -> bool {
    let refused = text.trim_start().strip_prefix("The user ");
    let begins = |text: &str| REFUSED.iter().any(|begin| text.starts_with(begin));
    refused.is_some_and(begins)
}

/// Whether a result says that the call was not run, because of its form.
#[must_use]
pub(in crate::core) fn is_not_run(text: &str) -> bool {
    let text = text.trim_start();
    NOT_RUN.iter().any(|begin| text.starts_with(begin))
}

/// Whether a text announces a trace behind the name of what was raised, as notebooks do.
fn names_trace(text: &str) -> bool {
    let at = memmem::find(text.as_bytes(), TRACE.as_bytes());
    let named = at.and_then(|at| text.get(..at));
    let name = named.and_then(|before| before.rsplit('\n').next());
    name.is_some_and(|name| {
        let name = name.trim_end();
        name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Interrupt")
    })
}

/// Whether a member of a result says that the call failed. `explains`: another member says why; a
/// status alone is often that of the thing that was asked for.
fn is_sign(key: &str, value: &Json, explains: bool) -> bool {
    let number = match value {
        Json::Number(number) => number.parse::<f64>().ok(),
        _ => None,
    };
    let key = if FAILURE_KEYS.contains(&key) {
        "error"
    } else {
        key
    };
    match key {
        // A number of errors is a count.
        "errors" => matches!(value, Json::List(items) if !items.is_empty()),
        "error" | "exception" | "error_message" | "errorMessage" => match value {
            Json::Null | Json::Bool(false) => false,
            Json::Bool(true) => true,
            Json::Number(_) => number.is_some_and(|code| code != 0.0),
            Json::String(text) => {
                let text = text.trim().to_ascii_lowercase();
                !matches!(
                    text.as_str(),
                    "" | "none" | "null" | "no" | "false" | "0" | "no error"
                )
            }
            Json::List(items) => !items.is_empty(),
            Json::Object(members) => !members.is_empty(),
        },
        "is_error" | "isError" => *value == Json::Bool(true),
        "success" | "ok" => *value == Json::Bool(false),
        "exit_code" | "returncode" | "return_code" | "exitCode" | "exit_status" => {
            number.is_some_and(|code| code != 0.0)
        }
        "statusCode" | "status_code" | "status" if number.is_some() => {
            number.is_some_and(|code| (400.0..600.0).contains(&code))
        }
        // What was asked for was declined. A state is that of the thing.
        "outcome" | "result" => {
            let declines = |text: &str| DECLINES.iter().any(|no| text.eq_ignore_ascii_case(no));
            matches!(value, Json::String(text) if declines(text))
        }
        "status" => {
            explains
                && matches!(value, Json::String(status) if status == "error" || status == "failure")
        }
        _ => false,
    }
}

/// The part of a text that is searched for signs of failure.
fn head_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(4_096)).unwrap_or(text)
}

/// The end of a text, which is searched for an exit code.
fn end_of(text: &str) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(512))..)
        .unwrap_or_default()
}

/// The line of a failure that names the cause: the message of a JSON error; else the last that
/// reports one, as in traces, else the first.
#[must_use]
pub(super) fn failure_line(text: &str) -> Cow<'_, str> {
    if let Some(message) = Json::parse(text).as_ref().and_then(message_of) {
        return Cow::Owned(message.to_owned());
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let mut reports = lines().filter(|line| {
        tells_of_failure(line)
            && !line.trim_start().starts_with('<')
            && !line.starts_with("Traceback")
    });
    let line = reports.next_back().or_else(|| lines().next());
    Cow::Borrowed(line.unwrap_or(text))
}

/// The members in which the message of a JSON error stands.
const MESSAGE_KEYS: [&str; 9] = [
    "error",
    "error_message",
    "errorMessage",
    "exception",
    "errors",
    "message",
    "detail",
    "reason",
    "stderr",
];

/// Whether the message of a JSON error may stand in a member of this name.
#[must_use]
pub fn is_message_key(key: &str) -> bool {
    MESSAGE_KEYS.contains(&key) || FAILURE_KEYS.contains(&key)
}

/// The message of a JSON error.
fn message_of(json: &Json) -> Option<&str> {
    let keys = MESSAGE_KEYS.iter().chain(&FAILURE_KEYS);
    keys.into_iter().find_map(|key| match json.get(key)? {
        Json::String(text) if !text.trim().is_empty() => Some(text.as_str()),
        Json::List(items) => match items.first()? {
            Json::String(text) => Some(text.as_str()),
            item => nested_message(item),
        },
        value => nested_message(value),
    })
}

/// The message one level down: `{"error": {"message": …}}`.
fn nested_message(json: &Json) -> Option<&str> {
    ["message", "detail", "reason"]
        .iter()
        .find_map(|key| match json.get(key)? {
            Json::String(text) => Some(text.as_str()),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::text::words_of;

    #[test]
    fn the_first_look_lets_all_reports_pass() {
        for known in REPORTS.iter().chain(&REPORT_ENDS) {
            assert!(reports(known.as_bytes()), "{known}");
            assert!(reports(known.to_uppercase().as_bytes()), "{known}");
        }
    }

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
            "    --- FAIL: TestReap (0.00s)",
            "test (1.22)\tRun tests\t2026-03-02T09:14:05.1Z --- FAIL: TestReap (0.00s)",
            "WARNING: DATA RACE",
        ] {
            assert!(tells_of_failure(report), "{report}");
            assert!(words_of(report).any(may_report), "{report}");
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
    fn a_long_log_fails_by_the_exit_code_at_its_end() {
        let log = "compiling\n".repeat(2_000);
        assert!(is_failure(&format!("{log}exit code: 1\n")));
        assert!(!is_failure(&format!("{log}exit code: 0\n")));
        assert!(is_failure(&format!(
            "{log}FAIL\tgithub.com/a/lease\t0.655s\n"
        )));
    }

    #[test]
    fn signs_are_found_beside_letters_of_other_scripts() {
        for failed in [
            "построено за 3 с\nexit code: 2",
            "构建失败。exited with 1",
            "✓ 12 → “ok”\nTraceback (most recent call last):",
            "Error: datei fehlt – Größe",
        ] {
            assert!(is_failure(failed), "{failed}");
        }
        assert!(!is_failure("построено за 3 с → exit code: 0"));
    }

    #[test]
    fn the_first_look_lets_all_exits_pass() {
        for text in [
            "exit code: 1",
            "it ended: EXIT STATUS 2",
            "Exited with code 3",
            "return code 4",
            "ReturnCode=5",
            "<returncode>6",
            "<exit_code> 7",
            "exit_code=8",
            "--- FAIL: TestReap",
            "FAIL\tgithub.com/a/lease",
        ] {
            assert!(EXITED.is_match(text) && may_have_exited(text), "{text}");
        }
        assert!(!may_have_exited(
            "fn code(a: &str) { turn codes into an axe }"
        ));
    }

    #[test]
    fn a_title_about_exit_codes_is_no_failure() {
        for fine in [
            "[prep/4.11.3 2be6f81d3] fix(cli): exit code 2 on corrupt manifest (#2331)",
            "2be6f81d3 fix(cli): return code 2 when the file is missing",
            "the process exited with 1 warning",
            "core (arm)\tTest\t2025-04-08T09:24:07Z ##[error]Process exited with exit code 1.",
            "2025-04-08T09:24:07Z ##[error]Process exited with exit code 1.",
        ] {
            assert!(!is_failure(fine), "{fine}");
        }
        for failed in [
            "SET\nERROR:  canceling statement due to lock timeout",
            "Auto-merging a.ts\nCONFLICT (content): Merge conflict in a.ts",
            " ELIFECYCLE  Test failed. See above for more details.\n[exit 1]",
            "npm run build exited with code 2.",
            "(exit status 1)",
        ] {
            assert!(is_failure(failed), "{failed}");
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
            "----\nKeyError          Traceback (most recent call last)\nCell In[3], line 1",
            "The user doesn't want to proceed with this tool use.",
            "The user denied this operation.",
            "### Error\nTimeoutError: locator.click: Timeout 5000ms exceeded.",
            "❌ Error: no such page",
            "<returncode>1</returncode>\n<output>x</output>",
            "bash: foo: command not found",
            "Process exited with code 127",
            "HTTP 500 Internal Server Error",
            "404 Not Found",
            "ENOENT: no such file or directory, open 'x'",
            "Permission denied",
            "Tool execution failed: timeout",
            "MCP error -32602: Invalid arguments",
            "[Errno 2] No such file or directory: 'x'",
            "ls: cannot access 'x': No such file or directory",
            "thread 'main' panicked at src/main.rs:2:5:\nboom",
            "Exception in thread \"main\" java.lang.NullPointerException",
            "running\nTraceback (most recent call last):\nKeyError: 'x'",
            r#"{"isError": true, "content": []}"#,
            r#"{"statusCode":404}"#,
            r#"{"status":"error","message":"no such order"}"#,
            r#"{"error_message":"quota"}"#,
            r#"{"fehler":"Zustimmung fehlt"}"#,
        ] {
            assert!(is_failure(failed), "{failed}");
        }
        for fine in [
            r#"{"error":null,"id":1}"#,
            "def error(): pass",
            "<returncode>0</returncode>\nError handling docs",
            "0 errors",
            r#"{"errors":0,"passed":60,"rows":[1]}"#,
            r#"{"error":0,"id":1}"#,
            r#"{"error":"","id":1}"#,
            r#"{"status":"failed","job":"nightly"}"#,
            r#"{"status":200,"body":"x"}"#,
            "Error handling in Rust\nis done with Result.",
            "Failure modes of pumps",
            "Exception handling in Python",
            "Errors and how to read them",
            "[1]",
            "",
        ] {
            assert!(!is_failure(fine), "{fine}");
        }
        let quota = r#"{"request_id":"r","payload":"xxx","error":"quota exceeded for P-77"}"#;
        assert_eq!(failure_line(quota), "quota exceeded for P-77");
        assert_eq!(
            failure_line(r#"{"errors":[{"message":"no such field"}]}"#),
            "no such field"
        );
        assert_eq!(
            failure_line("Traceback (most recent call last):\n  File x\nValueError: bad\n"),
            "ValueError: bad"
        );
    }
}
