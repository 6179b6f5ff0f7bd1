//! The limits of every step: tools by name, and messages older than the newest.

use crate::invariants::policy_of;
use crate::support::words;

use super::{compacted, forced, job, numbered, results, tagged};

/// Five old exchanges with these tools.
fn with_tools() -> Vec<String> {
    let contents: Vec<String> = (0..5)
        .map(|seed| format!("result {seed}: {}", words(seed, 200)))
        .collect();
    let names = ["read", "search", "read_file", "search", "read"];
    let steps: Vec<_> = names
        .iter()
        .zip(&contents)
        .map(|(name, content)| (*name, "{}", content.as_str()))
        .collect();
    job(&steps)
}

#[test]
fn tools_and_age_limit_what_is_dropped() {
    let all = with_tools();
    // Which of the five exchanges stay.
    let stay = |after: &[String]| -> Vec<usize> {
        (0..5)
            .filter(|nth| after.contains(&all[2 + 2 * nth]))
            .collect()
    };
    for (options, left) in [
        ("older_than = 0", vec![]),
        ("tools = [\"search\"]", vec![0, 2, 4]),
        ("exclude_tools = [\"search\"]", vec![1, 3]),
        (
            "tools = [\"read*\"], exclude_tools = [\"read_*\"]",
            vec![1, 2, 3],
        ),
        ("older_than = 5", vec![3, 4]),
        ("older_than = 6", vec![2, 3, 4]),
        ("older_than = 7", vec![2, 3, 4]),
        ("older_than = 7, tools = [\"search\"]", vec![0, 2, 3, 4]),
        ("older_than = 100", vec![0, 1, 2, 3, 4]),
    ] {
        for step in [
            format!("{{ token_budget = {{ budget = {{ tokens = 1 }}, {options} }} }}"),
            format!("{{ sliding_window = {{ exchanges = 1, {options} }} }}"),
        ] {
            let after = compacted(&all, &step).messages;
            assert_eq!(stay(&after), left, "{step}");
            assert_eq!(after.len(), 3 + 2 * left.len(), "{step}: whole exchanges");
        }
    }
}

#[test]
fn tools_and_age_limit_whose_results_change() {
    let large = numbered(40);
    let names = ["read", "search", "read_file", "search", "read"];
    let distinct: Vec<String> = (0..5).map(|n| format!("number {n}\n{large}")).collect();
    let noisy: Vec<String> = (0..5)
        .map(|n| format!("{n}\nsame line\nsame line\nsame line\nsame line\nsame line\nend   "))
        .collect();
    let same = vec![words(1, 60); 5];
    let traces: Vec<String> = (0..5)
        .map(|n| {
            if n == 4 {
                "fine".to_owned()
            } else {
                // Each for another reason, so that none is the other's repetition.
                format!("Error: {}\n{large}", ["disk", "net", "fuel", "heat"][n])
            }
        })
        .collect();
    for (options, changed) in [
        ("tools = [\"search\"]", vec![1, 3]),
        ("exclude_tools = [\"search\"]", vec![0, 2, 4]),
        ("older_than = 7", vec![0, 1]),
        ("older_than = 7, tools = [\"read*\"]", vec![0]),
    ] {
        let with = |name: &str, more: &str, contents: &[String]| {
            let steps: Vec<_> = names
                .iter()
                .zip(contents)
                .map(|(name, content)| (*name, "{}", content.as_str()))
                .collect();
            let after = results(
                &compacted(
                    &job(&steps),
                    &format!("{{ {name} = {{ {more} {options} }} }}"),
                )
                .messages,
            );
            (0..5)
                .filter(|nth| after[*nth] != contents[*nth])
                .collect::<Vec<_>>()
        };
        assert_eq!(
            with(
                "trim_results",
                "truncate = { size = 100, head = 20, tail = 10 },",
                &distinct
            ),
            changed,
            "trim_results {options}"
        );
        assert_eq!(with("minify", "", &noisy), changed, "minify {options}");
        let copies: Vec<usize> = changed.iter().copied().filter(|nth| *nth != 4).collect();
        assert_eq!(
            with("dedupe", "", &same),
            copies,
            "dedupe {options}: the newest copy is what the others refer to"
        );
        // The last result is a success of `read`: of the failures only the first is one of that
        // tool.
        let overcome: Vec<usize> = changed.iter().copied().filter(|nth| *nth == 0).collect();
        assert_eq!(
            with("collapse_errors", "", &traces),
            overcome,
            "collapse_errors {options}"
        );
    }
}

#[test]
fn tools_and_age_limit_what_is_condensed() {
    let all = with_tools();
    for (step, tag) in [
        ("coalesce", "conversation_transcript"),
        ("digest", "conversation_digest"),
    ] {
        let policy = |options: &str| {
            policy_of(&format!(
                "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
                ladder = [{{ {step} = {{ {options} }} }}]\n"
            ))
        };
        let after = forced(&all, &policy("exclude_tools = [\"search\"]")).messages;
        tagged(&after, tag);
        assert!(
            after.contains(&all[4])
                && after.contains(&all[5])
                && after.contains(&all[8])
                && after.contains(&all[9]),
            "{step}: searches stay"
        );
        assert!(
            [2, 3, 6, 7, 10, 11]
                .iter()
                .all(|at| !after.contains(&all[*at])),
            "{step}: the rest is condensed"
        );
        let after = forced(&all, &policy("older_than = 5")).messages;
        tagged(&after, tag);
        assert_eq!(
            after[after.len() - 5..],
            all[8..],
            "{step}: the newest five stay"
        );
    }
}
