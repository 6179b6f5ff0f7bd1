//! Lines that sum up what a command did.

use std::ops::RangeInclusive;

use super::built_in::Pattern;
use super::bytes::ByteSet;
use super::words::RunChars;

/// The characters of the words and numbers in such a line.
static IN_WORDS: RunChars = RunChars::with(b".-_");
static DIGITS: ByteSet = ByteSet::of(b"").and(b'0', b'9');

/// What stands behind a number in such a line.
const COUNTED: [&str; 30] = [
    "passed",
    "failed",
    "failure",
    "failures",
    "error",
    "errors",
    "warning",
    "warnings",
    "skipped",
    "ignored",
    "tests",
    "examples",
    "added",
    "changed",
    "destroyed",
    "removed",
    "updated",
    "inserted",
    "deleted",
    "created",
    "modified",
    "insertions",
    "deletions",
    "imported",
    "rows",
    "vulnerabilities",
    "problems",
    "issues",
    "succeeded",
    "unchanged",
];
/// Their shortest and longest (bytes), and their last letters: what the first look is at.
const COUNTED_BYTES: RangeInclusive<usize> = 4..=15;
static LAST_OF_COUNTED: ByteSet = ByteSet::of(b"dersgDERSG");
/// The same behind `to`: `2 to add`.
const TO: [&str; 5] = ["add", "change", "destroy", "import", "remove"];
/// A longer line is none of them (bytes).
const MOST_BYTES: usize = 240;
/// Counts from which on a line sums up, unless it begins as one that does.
const LEAST_COUNTS: usize = 2;
/// How such lines begin.
const BEGINNINGS: [&str; 6] = [
    "plan:",
    "summary:",
    "result:",
    "total:",
    "test result:",
    "totals:",
];

/// How build tools say how it ended, behind the level of the line.
const VERDICTS: [&str; 2] = ["BUILD SUCCESS", "BUILD FAIL"];
const LEVELS: [&str; 2] = ["[INFO] ", "[ERROR] "];

/// How tools that check or build something say in their last lines that it failed: a count of what
/// did, or a verdict. Counts of errors alone are data, and those in columns are of something else.
pub(super) static FAILED_RUN: Pattern = Pattern::new(concat!(
    r"(?m)(?-u:\b)[1-9][0-9]* (?i:failed|failures?|errors?)(?-u:\b)",
    r"(\s*[,;|)=]| in [0-9]| generated|[ .=]*$)",
    r"|^\s*Found [1-9][0-9]* errors?(?-u:\b)",
    r"|(?i:(?-u:\b)(pass(ed)?|tests( run)?)\s*[=:] ?[0-9]+[^\n]*",
    r"(?-u:\b)(fail(ed|ures?)?|errors?)\s*[=:] ?[1-9])",
    r"|^\s*(test result: FAILED|FAILED \(|BUILD FAIL|make(\[[0-9]+\])?: \*\*\* |npm (ERR!|error) ",
    r"|error: (could not compile|aborting due to)|ninja: error: |ERROR: Job failed",
    r"|\[ERROR\] (\[Help [0-9]|Re-run Maven|To see the full stack|For more information about))",
));
/// What all of these have some of: the first look is at them.
const OF_FAILED_RUNS: [&str; 7] = ["AIL", "ERR", "Help", "Re-run", "***", "ail", "rror"];
/// The lines at the end of an output in which they say it.
const LAST_LINES: usize = 4;

/// Whether the end of an output says that what was run failed.
#[must_use]
pub(super) fn ends_as_failed_run(end: &str) -> bool {
    let end = end.trim_end();
    let begin = memchr::memrchr_iter(b'\n', end.as_bytes()).nth(LAST_LINES - 1);
    let last = end.get(begin.map_or(0, |at| at + 1)..).unwrap_or_default();
    let may =
        |line: &&str| !line.contains('\t') && OF_FAILED_RUNS.iter().any(|of| line.contains(of));
    last.lines()
        .filter(may)
        .any(|line| FAILED_RUN.is_match(line))
}

/// Whether a line sums up what a command did: `5 failed, 3 passed`, `Plan: 2 to add, 1 to destroy`.
#[must_use]
pub fn sums_up(line: &str) -> bool {
    if line.len() > MOST_BYTES {
        return false;
    }
    let counted = numbers(line).filter(|rest| is_of_counted(rest));
    let found = counted.take(LEAST_COUNTS).count();
    let start = line.trim_start();
    let begins = || {
        BEGINNINGS.iter().any(|known| {
            let start = start.get(..known.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(known))
        })
    };
    let is_verdict = || {
        let levels = LEVELS.iter();
        let behind = levels.filter_map(|level| start.strip_prefix(level)).next();
        let behind = behind.unwrap_or(start);
        VERDICTS.iter().any(|verdict| behind.starts_with(verdict))
    };
    found >= LEAST_COUNTS || (found > 0 && begins()) || is_verdict()
}

/// Whether a line with this word may sum up: one without such a word does not.
#[must_use]
pub(in crate::core) fn may_sum_up(word: &str) -> bool {
    let mut rest = word;
    let mut parts = std::iter::from_fn(|| IN_WORDS.next(&mut rest));
    parts.any(|part| {
        let is = |known: &&str| part.eq_ignore_ascii_case(known);
        is_counted(part) || TO.iter().any(is) || part == "BUILD"
    })
}

/// What stands behind each number that is a word of its own.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            let begin = DIGITS.run(rest.as_bytes(), false);
            let (before, number) = rest.split_at_checked(begin)?;
            let digits = DIGITS.run(number.as_bytes(), true);
            if digits == 0 {
                return None;
            }
            rest = number.get(digits..)?;
            if !IN_WORDS.has_last_of(before) && !IN_WORDS.has_first_of(rest) {
                return Some(rest);
            }
        }
    })
}

/// Whether one of the two words behind a number, given what stands behind it, says what it counts.
fn is_of_counted(mut behind: &str) -> bool {
    let Some(first) = IN_WORDS.next(&mut behind) else {
        return false;
    };
    is_counted(first)
        || IN_WORDS.next(&mut behind).is_some_and(|second| {
            let is = |known: &&str| second.eq_ignore_ascii_case(known);
            is_counted(second) || (first.eq_ignore_ascii_case("to") && TO.iter().any(is))
        })
}

fn is_counted(word: &str) -> bool {
    let is = |known: &&str| word.eq_ignore_ascii_case(known);
    may_be_counted(word) && COUNTED.iter().any(is)
}

fn may_be_counted(word: &str) -> bool {
    COUNTED_BYTES.contains(&word.len())
        && word.bytes().last().is_some_and(|b| LAST_OF_COUNTED.has(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::text::words_of;

    #[test]
    fn the_first_look_lets_all_of_them_pass() {
        for known in COUNTED {
            assert!(may_be_counted(known), "{known}");
            assert!(may_be_counted(&known.to_uppercase()), "{known}");
        }
    }

    #[test]
    fn a_failed_run_is_known_by_its_last_lines() {
        for end in [
            "src/a.test.ts\n\n Tests  2 failed | 65 passed (67)\n Duration 1.2s\n",
            "=== 1 failed in 0.12s ===",
            "FAILED tests/a.py::b\n==== 2 failed, 65 passed in 3.1s ====",
            "Done. PASS=5 WARN=0 ERROR=1 SKIP=0 TOTAL=6",
            "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0",
            "test result: FAILED. 12 passed; 1 failed; 0 ignored",
            "Ran 3 tests in 0.1s\n\nFAILED (failures=1)",
            "Found 3 errors in 1 file (checked 2 source files)",
            "✖ 5 problems (5 errors, 0 warnings)",
            "make: *** [Makefile:3: test] Error 1",
        ] {
            assert!(ends_as_failed_run(end), "{end}");
        }
        for end in [
            "==== 67 passed in 3.1s ====",
            "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0",
            "test result: ok. 12 passed; 0 failed; 1 ignored",
            "Done. PASS=6 WARN=0 ERROR=0 SKIP=0 TOTAL=6",
            "1 failed in 0.1s\na\nb\nc\nd",
            "errors: 3",
            "errors 12 warnings 10",
            "core (arm)\tTest\ttest result: FAILED. 12 passed; 1 failed; 0 ignored",
            "after 3 failed logins the account is locked",
            "",
        ] {
            assert!(!ends_as_failed_run(end), "{end}");
        }
    }

    #[test]
    fn counts_of_what_was_done_sum_up() {
        for line in [
            "5 failed, 3 passed in 0.41s",
            "Plan: 2 to add, 1 to change, 1 to destroy.",
            "test result: FAILED. 12 passed; 1 failed; 0 ignored",
            " 3 files changed, 7 insertions(+), 2 deletions(-)",
            "Tests:       1 failed, 28 passed, 29 total",
            "[INFO] BUILD SUCCESS",
            "BUILD FAILED in 3s",
        ] {
            assert!(sums_up(line), "{line}");
            assert!(words_of(line).any(may_sum_up), "{line}");
        }
        for line in [
            "retry after 3 errors",
            "8 passengers to Rome",
            "v2.failed = 3",
            "",
            "rows: 12",
            "see BUILD SUCCESS above",
        ] {
            assert!(!sums_up(line), "{line}");
        }
    }
}
