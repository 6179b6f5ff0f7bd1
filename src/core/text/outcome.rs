//! Lines that sum up what a command did.

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

/// Whether a line sums up what a command did: `5 failed, 3 passed`, `Plan: 2 to add, 1 to destroy`.
#[must_use]
pub fn sums_up(line: &str) -> bool {
    if line.len() > MOST_BYTES || !line.bytes().any(|b| b.is_ascii_digit()) {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    let words = || lower.split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_'));
    let words: Vec<&str> = words().filter(|word| !word.is_empty()).collect();
    let counts = |at: usize| {
        let [number, what, more] = [at, at + 1, at + 2].map(|at| words.get(at).copied());
        let is_number = number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
        let is_counted = |word: Option<&str>| word.is_some_and(|word| COUNTED.contains(&word));
        let is_to = what == Some("to") && more.is_some_and(|word| TO.contains(&word));
        is_number && (is_counted(what) || is_counted(more) || is_to)
    };
    let found = (0..words.len()).filter(|at| counts(*at)).count();
    let begins = BEGINNINGS
        .iter()
        .any(|start| lower.trim_start().starts_with(start));
    found >= if begins { 1 } else { LEAST_COUNTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_what_was_done_sum_up() {
        for line in [
            "5 failed, 3 passed in 0.41s",
            "Plan: 2 to add, 1 to change, 1 to destroy.",
            "test result: FAILED. 12 passed; 1 failed; 0 ignored",
            " 3 files changed, 7 insertions(+), 2 deletions(-)",
            "Tests:       1 failed, 28 passed, 29 total",
        ] {
            assert!(sums_up(line), "{line}");
        }
        for line in [
            "retry after 3 errors",
            "8 passengers to Rome",
            "v2.failed = 3",
            "",
            "rows: 12",
        ] {
            assert!(!sums_up(line), "{line}");
        }
    }
}
