//! Programs that the newest calls run: how they were run before is how they are run again.

use crate::core::strategy::digest::line::{DigestLine, Outcome, Part, STRIDE, Standing};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::maps::{Map, Set};
use crate::core::{Cancel, Cancelled};

/// Ends of the names of scripts.
const SCRIPTS: [&str; 10] = [
    ".bash", ".js", ".mjs", ".php", ".pl", ".ps1", ".py", ".rb", ".sh", ".ts",
];
/// Options with which a program only tells about itself, or of what it would do.
const ONLY_TELLS: [&str; 6] = ["--check", "--dry-run", "--help", "--version", "-h", "-n"];
/// The fewest options of a call that nobody knows by heart.
const LEAST_OPTIONS: usize = 3;
/// The part of a call that is looked at (bytes), and the words of it.
const LOOKED_AT: usize = 1_000;
const MOST_WORDS: usize = 80;

/// The last call with an effect of each program that the calls which stay run, too.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn run_again(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<Set<usize>, Cancelled> {
    let mut stays: Set<&str> = Set::default();
    for call in &context.calls {
        cancel.check_budget()?;
        stays.extend(programs_in(call));
    }
    let mut last: Map<&str, usize> = Map::default();
    if stays.is_empty() {
        return Ok(Set::default());
    }
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let is_call = line.part == Part::Call && line.outcome == Outcome::Done;
        if !is_call || line.standing == Standing::Repeated {
            continue;
        }
        let mut words = words_in(&line.text);
        let options = words_in(&line.text).filter(|word| word.starts_with('-'));
        if options.count() < LEAST_OPTIONS || words.any(|word| ONLY_TELLS.contains(&word)) {
            continue;
        }
        let known = programs_in(&line.text).filter(|program| stays.contains(program));
        last.extend(known.map(|program| (program, at)));
    }
    Ok(last.into_values().collect())
}

/// The scripts that a call runs, as they are written.
fn programs_in(call: &str) -> impl Iterator<Item = &str> {
    words_in(call).filter(|word| {
        let is_script = SCRIPTS.iter().any(|end| word.ends_with(end));
        word.starts_with("./") || (is_script && !word.starts_with('-'))
    })
}

fn words_in(call: &str) -> impl Iterator<Item = &str> {
    let near = call.get(..call.floor_char_boundary(LOOKED_AT));
    let is_break = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '=' | '"' | '\'' | ';');
    let words = near.unwrap_or_default().split(is_break);
    words.filter(|word| !word.is_empty()).take(MOST_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_call_with_an_effect_of_a_program_that_runs_again_is_told() {
        let run = "shell(command=./ops/fill.py --table t --lag 30 --window 22:00-04:30)";
        let calls = [
            "shell(command=./ops/fill.py --table t --lag 60 --window 20:00-04:30)",
            run,
            "shell(command=./ops/fill.py --table t --lag 30 --dry-run)",
            "shell(command=python other.py --a 1 --b 2 --c 3)",
            "shell(command=./ops/fill.py --help)",
        ];
        let lines = calls.map(|call| DigestLine::new(Part::Call, 0, call));
        let context = Context {
            calls: vec![r#"{"command": "./ops/fill.py --table t --dry-run"}"#.to_owned()],
            ..Context::default()
        };
        let found = run_again(&lines, &context, &Cancel::default()).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [1]);
        let none = run_again(&lines, &Context::default(), &Cancel::default()).unwrap();
        assert!(none.is_empty());
    }
}
