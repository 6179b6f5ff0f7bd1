//! What is sent, as fingerprints: the corpus, and real conversations where they are at hand, under
//! every ladder and in three windows. A change that should not alter a byte leaves the file as it
//! is; one that should is listed in its commit.
//!
//! Every run plays a part of the cases on record, `BALER_LONG=1` all of them. To record:
//! `BALER_RECORD=1 BALER_LONG=1 cargo test --profile checks --test it fingerprints::`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baler::core::conversation::Fingerprint;

use crate::corpus::corpus;
use crate::invariants::Core;
use crate::invariants::policy_of;
use crate::support::long;
use crate::traces::body;
use crate::traces::conversations;
use crate::traces::request_points;

/// Ladders by name: every strategy alone, with options, and in company.
const LADDERS: [(&str, &str); 20] = [
    ("default", ""),
    ("dedupe", r#"ladder = ["dedupe"]"#),
    (
        "dedupe-whole",
        r#"ladder = [{ dedupe = { blocks = false, older_than = 2 } }]"#,
    ),
    ("minify", r#"ladder = ["minify"]"#),
    (
        "trim-truncate",
        r#"ladder = [{ trim_results = { truncate = { size = 300, head = 120, tail = 80 } } }]"#,
    ),
    (
        "trim-outline",
        r#"ladder = [{ trim_results = { skip_small = false, outline = {} } }]"#,
    ),
    (
        "trim-sample",
        r#"ladder = [{ trim_results = { sample = { items = 2, pick = "spread" } } }]"#,
    ),
    (
        "clear",
        r#"ladder = [{ clear_results = { keep = 2, clear_inputs = true } }]"#,
    ),
    ("strip", r#"ladder = ["strip"]"#),
    ("collapse", r#"ladder = ["collapse_errors"]"#),
    ("coalesce", r#"ladder = ["coalesce"]"#),
    ("digest", r#"ladder = ["digest"]"#),
    (
        "digest-scoped",
        r#"ladder = [{ digest = { exclude_tools = ["read*"], older_than = 2 } }, "token_budget"]"#,
    ),
    (
        "window-turns",
        r#"ladder = [{ sliding_window = { turns = 2 } }]"#,
    ),
    (
        "window-exchanges",
        r#"ladder = [{ sliding_window = { exchanges = 4 } }]"#,
    ),
    ("budget", r#"ladder = ["token_budget"]"#),
    (
        "lossy-all",
        concat!(
            r#"ladder = ["dedupe", "minify", "strip", "collapse_errors", "trim_results", "#,
            r#""clear_results", "coalesce", "token_budget"]"#,
        ),
    ),
    (
        "summarize",
        concat!(
            r#"ladder = [{ summarize = { keep = { tokens = 200 }, max_tokens = 64, prepare_at = "#,
            r#"0.3 } }, "digest", "token_budget"]"#,
        ),
    ),
    (
        "alternate",
        "roles = \"alternate\"\nladder = [\"digest\", \"token_budget\"]",
    ),
    (
        "pinned",
        "pin = { tools = [\"get_*\"], text = \"(?i)error\" }\n\
        keep = { tokens = 100, exchanges = 2 }",
    ),
];

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(name)
}

fn short(parts: &[String]) -> String {
    let digest = Fingerprint::of_parts(&parts.iter().map(String::as_bytes).collect::<Vec<_>>());
    digest.0[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What is sent for every request of a conversation, in its order; and the same of a core that sees
/// only the last one, is asked to compact it, and was told that the upstream counts more.
fn played(bodies: &[String], policy: &str, summaries: bool) -> String {
    let policy = policy_of(policy);
    let core = || Core::with_summaries(summaries.then_some(3));
    let lived = core();
    let mut sent: Vec<String> = bodies
        .iter()
        .map(|body| lived.ask(body, &policy).sent)
        .collect();
    let last = bodies.last().unwrap();
    sent.push(core().ask_with(last, &policy, true).sent);
    let told = core();
    for body in bodies {
        let outcome = told.ask(body, &policy);
        told.usage.borrow_mut().insert(
            outcome.plan.estimate.key,
            outcome.counted[1].tokens * 13 / 10,
        );
        sent.push(outcome.sent);
    }
    short(&sent)
}

/// Compares `found` with what is on record in `name`; or records it.
fn compare(name: &str, found: &BTreeMap<String, String>, all: bool) {
    let path = file(name);
    if std::env::var_os("BALER_RECORD").is_some() {
        let text: String = found
            .iter()
            .map(|(case, print)| format!("{case} {print}\n"))
            .collect();
        return std::fs::write(path, text).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let known: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .collect();
    let changed: Vec<&str> = found
        .iter()
        .filter(|(case, print)| known.get(case.as_str()) != Some(&print.as_str()))
        .map(|(case, _)| case.as_str())
        .collect();
    assert!(
        changed.is_empty(),
        "{} of {} cases send other bytes: {}",
        changed.len(),
        found.len(),
        changed.join(", ")
    );
    assert!(
        !all || known.len() == found.len(),
        "every case on record is played"
    );
}

/// Whether a case is played in every run: each ladder in one window, the default ladder in all of
/// them.
fn is_quick(ladder: &str, window: u64, middle: u64) -> bool {
    ladder == "default" || window == middle
}

#[test]
fn what_is_sent_for_the_corpus_is_what_was_sent() {
    let mut found = BTreeMap::new();
    for (name, body, tokens) in corpus() {
        for (ladder, toml) in LADDERS {
            for percent in [25, 45, 75] {
                if !long() && !is_quick(ladder, percent, 45) {
                    continue;
                }
                let window = (tokens * percent / 100).max(300);
                let policy = format!(
                    "[[policy]]\nwindow = {window}\nreserve = 64\nmin_gain = {{ tokens = 0 }}\n\
                    {toml}\n"
                );
                let print = played(std::slice::from_ref(&body), &policy, ladder == "summarize");
                found.insert(format!("{name} {ladder} {percent}"), print);
            }
        }
    }
    compare("fingerprints.txt", &found, long());
}

/// Which conversations of a file are played under the default ladder, and which under all of them:
/// those on record, or the shortest one of each.
fn chosen(conversations: &[Vec<String>]) -> (Vec<usize>, Vec<usize>) {
    if long() {
        return ((0..conversations.len().min(12)).collect(), vec![0, 1]);
    }
    let size = |at: &usize| conversations[*at].iter().map(String::len).sum::<usize>();
    let shortest_of = |first: usize| (0..conversations.len().min(first)).min_by_key(size);
    (
        shortest_of(12).into_iter().collect(),
        shortest_of(2).into_iter().collect(),
    )
}

#[test]
fn what_is_sent_for_real_conversations_is_what_was_sent() {
    let mut found = BTreeMap::new();
    for name in [
        "airline-agent.jsonl",
        "coding-agent.jsonl",
        "coding-session.jsonl",
        "retail-agent.jsonl",
        "travel-zh.jsonl",
    ] {
        let Some(conversations) = conversations(name) else {
            return;
        };
        let (by_default, by_all) = chosen(&conversations);
        for (at, messages) in conversations.iter().enumerate() {
            let played_at = |ladder: &str| {
                let quick = ["default", "digest", "lossy-all", "alternate", "pinned"];
                by_all.contains(&at) && (long() || quick.contains(&ladder))
                    || by_default.contains(&at) && ladder == "default"
            };
            let bodies = bodies(messages);
            for (ladder, toml) in LADDERS.iter().filter(|(ladder, _)| played_at(ladder)) {
                for window in [4_096, 8_192, 32_768] {
                    if !long() && !is_quick(ladder, window, 8_192) {
                        continue;
                    }
                    let policy = format!("[[policy]]\nwindow = {window}\n{toml}\n");
                    found.insert(
                        format!("{name} {at} {ladder} {window}"),
                        played(&bodies, &policy, *ladder == "summarize"),
                    );
                }
            }
        }
    }
    compare("fingerprints-traces.txt", &found, long());
}

/// The requests of a conversation; of long ones every tenth and the last.
fn bodies(messages: &[String]) -> Vec<String> {
    let points = request_points(messages);
    let step = if points.len() > 60 { 10 } else { 1 };
    let chosen = points.iter().rev().step_by(step).rev();
    chosen.map(|length| body(&messages[..*length])).collect()
}
