//! What is sent, as fingerprints: the corpus, and real conversations where they are at hand, under every ladder and in
//! three windows. A change that should not alter a byte leaves the file as it is; one that should is listed in its commit.
//!
//! To record: `BALER_RECORD=1 BALER_LONG=1 cargo test --release --test it fingerprints::`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baler::core::conversation::Fingerprint;

use crate::corpus::corpus;
use crate::invariants::Core;
use crate::invariants::policy_of;
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
        r#"ladder = ["dedupe", "minify", "strip", "collapse_errors", "trim_results", "clear_results", "coalesce", "token_budget"]"#,
    ),
    (
        "summarize",
        r#"ladder = [{ summarize = { keep = { tokens = 200 }, max_tokens = 64, prepare_at = 0.3 } }, "digest", "token_budget"]"#,
    ),
    (
        "alternate",
        "roles = \"alternate\"\nladder = [\"digest\", \"token_budget\"]",
    ),
    (
        "pinned",
        "pin = { tools = [\"get_*\"], text = \"(?i)error\" }\nkeep = { tokens = 100, exchanges = 2 }",
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

/// What is sent for every request of a conversation, in its order; and the same of a core that sees only the last one, is
/// asked to compact it, and was told that the upstream counts more.
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

#[test]
fn what_is_sent_for_the_corpus_is_what_was_sent() {
    let mut found = BTreeMap::new();
    for (name, body, tokens) in corpus() {
        for (ladder, toml) in LADDERS {
            for percent in [25, 45, 75] {
                let window = (tokens * percent / 100).max(300);
                let policy = format!(
                    "[[policy]]\nwindow = {window}\nreserve = 64\nmin_gain = {{ tokens = 0 }}\n{toml}\n"
                );
                let print = played(std::slice::from_ref(&body), &policy, ladder == "summarize");
                found.insert(format!("{name} {ladder} {percent}"), print);
            }
        }
    }
    compare("fingerprints.txt", &found, true);
}

#[test]
fn what_is_sent_for_real_conversations_is_what_was_sent() {
    // All that is on record takes minutes: `BALER_LONG=1` plays it.
    let (most, most_alone) = if std::env::var_os("BALER_LONG").is_some() {
        (12, 2)
    } else {
        (2, 1)
    };
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
        for (at, messages) in conversations.iter().enumerate().take(most) {
            let points = request_points(messages);
            // Long ones are played by every tenth request and the last.
            let step = if points.len() > 60 { 10 } else { 1 };
            let bodies: Vec<String> = points
                .iter()
                .rev()
                .step_by(step)
                .rev()
                .map(|length| body(&messages[..*length]))
                .collect();
            for (ladder, toml) in LADDERS
                .iter()
                .filter(|(ladder, _)| at < most_alone || *ladder == "default")
            {
                for window in [4_096, 8_192, 32_768] {
                    let policy = format!("[[policy]]\nwindow = {window}\n{toml}\n");
                    found.insert(
                        format!("{name} {at} {ladder} {window}"),
                        played(&bodies, &policy, *ladder == "summarize"),
                    );
                }
            }
        }
    }
    compare("fingerprints-traces.txt", &found, false);
}
