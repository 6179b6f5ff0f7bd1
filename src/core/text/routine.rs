//! Lines by which tools tell of each thing that went as it should: downloads, and tests that
//! passed.

use super::failure::without_stamp;

/// Words of lines about what is fetched and unpacked.
const FETCHES: [&str; 17] = [
    "Collecting",
    "Download",
    "Downloaded",
    "Downloading",
    "Extracting",
    "Fetched",
    "Fetching",
    "Installing:",
    "Pull",
    "Pulled",
    "Pulling",
    "Resolving",
    "Selecting",
    "Unpacking",
    "Using",
    "Verifying",
    "Waiting",
];
/// The same with a number behind it, and how lines begin that tell of what is there already.
const GET: &str = "Get:";
const INSTALLED: &str = "Requirement already satisfied";
/// How lines begin and end that say that a test passed.
const PASSED: [&str; 7] = [
    "✓ ",
    "✔ ",
    "√ ",
    "ok ",
    "--- PASS: ",
    "=== RUN ",
    "=== PAUSE ",
];
const PASSES: [&str; 4] = [" ... ok", " PASSED", " passed", " PASS"];
/// What a line has that tells how far something is: `data.aws_region.here: Reading...`.
const GOES_ON: [&str; 6] = [
    ": Reading...",
    ": Refreshing state...",
    ": Read complete after ",
    ": Still reading... [",
    ": Still creating... [",
    ": Still destroying... [",
];
/// What a line of a passing test class has.
const OF_CLASS: [&str; 3] = ["Failures: 0,", "Errors: 0,", "Time elapsed:"];
/// How the line begins that announces one, behind the level.
const RUNNING: &str = "[INFO] Running ";
/// Where such a word may stand.
const FIRST_WORDS: usize = 3;

/// Whether a line tells of one thing of many that went as it should.
#[must_use]
pub fn is_routine(line: &str) -> bool {
    let line = without_stamp(line).trim();
    let (Some(first), Some(last)) = (line.bytes().next(), line.bytes().last()) else {
        return false;
    };
    // Most lines are told apart by their first and last bytes.
    let passed = (matches!(first, b'o' | b'-' | b'=') || !first.is_ascii())
        && PASSED.iter().any(|begin| line.starts_with(begin));
    let passes =
        matches!(last, b'k' | b'D' | b'd' | b'S') && PASSES.iter().any(|end| line.ends_with(end));
    let goes_on = matches!(last, b'.' | b']') && GOES_ON.iter().any(|part| line.contains(part));
    passed
        || passes
        || goes_on
        || ((first == b'[' || first.is_ascii_uppercase()) && is_of_build(line))
}

/// The same of a line that begins with a capital letter or a level in brackets.
fn is_of_build(line: &str) -> bool {
    let is_level = line.starts_with('[');
    line.starts_with(INSTALLED)
        || (is_level && line.starts_with(RUNNING))
        || (is_level && OF_CLASS.iter().all(|part| line.contains(part)))
        || fetches(line)
}

fn fetches(line: &str) -> bool {
    let mut words = line.split(' ').take(FIRST_WORDS);
    words.any(|word| {
        let word = word.trim_start_matches(['[', '#']);
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && (FETCHES.contains(&word) || word.starts_with(GET))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_as_it_should_is_told_from_what_did_not() {
        for routine in [
            "[INFO] Downloaded from nexus: https://nexus.example/a.jar (12 kB at 1 MB/s)",
            "  ✓ reads the configuration 54ms",
            "tests/test_a.py::test_b PASSED",
            "test core::reads ... ok",
            "    --- PASS: TestReads/empty (0.00s)",
            "Collecting requests>=2.31",
            "data.aws_region.here: Reading...",
            "module.a.aws_iam_role.b: Refreshing state... [id=b-efc1dc]",
        ] {
            assert!(is_routine(routine), "{routine}");
        }
        for other in [
            "test core::reads ... FAILED",
            "    --- FAIL: TestReads/empty (0.00s)",
            "Tests run: 71, Failures: 0",
            "✗ reads the configuration",
            "error: could not download the index",
            "okay then",
        ] {
            assert!(!is_routine(other), "{other}");
        }
    }
}
