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
    // Whether the last two words are numbers of which nothing was counted yet, and the last word.
    let (mut numbers, mut last) = ([false; 2], "");
    let mut found = 0;
    let words = line.split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_'));
    for word in words.filter(|word| !word.is_empty()) {
        let is = |known: &&str| word.eq_ignore_ascii_case(known);
        if numbers != [false; 2] {
            let [before, above] = numbers;
            if COUNTED.iter().any(is) {
                found += usize::from(before) + usize::from(above);
                numbers = [false; 2];
            } else if before && last.eq_ignore_ascii_case("to") && TO.iter().any(is) {
                found += 1;
                numbers = [false; 2];
            }
        }
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        numbers = [numbers[1], is_number];
        last = word;
    }
    let start = line.trim_start();
    let begins = || {
        BEGINNINGS.iter().any(|known| {
            let start = start.get(..known.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(known))
        })
    };
    found >= LEAST_COUNTS || (found > 0 && begins())
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
