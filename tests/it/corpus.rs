//! Hostile transcripts, compacted: what becomes of them is on record, and every strategy alone
//! keeps the invariants on them.
//!
//! To accept a change: `INSTA_UPDATE=always cargo test --test it corpus::`, and read the
//! difference.

use std::path::PathBuf;

use baler::core::tokens::Encoding;
use baler::core::wire::Dialect;
use baler::core::wire::chat::{Chat, count_message};

use crate::invariants::Core;
use crate::invariants::check;
use crate::invariants::policy_of;
use crate::support::messages_of;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Name, body and tokens of each transcript.
pub fn corpus() -> Vec<(String, String, u64)> {
    let files = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| {
            let body = std::fs::read_to_string(&path).unwrap();
            let chat = Chat::parse(body.as_bytes()).unwrap();
            let tokens = chat
                .messages
                .iter()
                .map(|message| count_message(message.raw, Encoding::O200K).unwrap())
                .sum();
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                body,
                tokens,
            )
        })
        .collect();
    all.sort();
    assert!(all.len() >= 20, "the corpus is there");
    all
}

/// A list as people read it: who, how many tokens, and the beginning of what is said.
pub fn shown(body: &str) -> String {
    let describe = |raw: &String| {
        let entry = Dialect::ChatCompletions.entry(raw).unwrap();
        let mut text = entry.texts().join("\n");
        for call in entry.calls().filter(|call| call.legacy.is_none()) {
            text.push_str(&format!(
                "\n→ {} {}",
                call.name,
                call.arguments.map_or("", |text| text.raw())
            ));
        }
        let synthetic = text.starts_with("<conversation_");
        let limit = if synthetic { 6_000 } else { 160 };
        let clipped: String = text.chars().take(limit).collect();
        let (initial, rest) = entry.role.split_at(1);
        format!(
            "{}{rest} {}: {}",
            initial.to_uppercase(),
            count_message(raw, Encoding::O200K).unwrap(),
            clipped.escape_debug().to_string().replace("\\n", "\n  ")
        )
    };
    messages_of(body.as_bytes())
        .iter()
        .map(describe)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_default_policy_makes_this_of_them() {
    for (name, body, tokens) in corpus() {
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = {}\nreserve = 64\n",
            (tokens * 4 / 10).max(400)
        ));
        let outcome = Core::default().ask(&body, &policy);
        check(&body, &policy, &outcome);
        assert_eq!(
            Core::default().ask(&body, &policy).sent,
            outcome.sent,
            "{name}: deterministic"
        );
        let [before, after] = outcome.counted;
        let head = format!(
            "{} -> {} tokens, {} -> {} messages\n",
            before.tokens, after.tokens, before.messages, after.messages
        );
        insta::with_settings!({ snapshot_path => folder().join("snapshots"),
            prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, head + &shown(&outcome.sent));
        });
    }
}

#[test]
fn every_strategy_alone_keeps_the_invariants_on_them() {
    let ladders = [
        "dedupe",
        "minify",
        "trim_results",
        "clear_results",
        "strip",
        "collapse_errors",
        "coalesce",
        "digest",
        "sliding_window",
        "token_budget",
    ];
    for (name, body, tokens) in corpus() {
        for ladder in ladders {
            for (share, roles) in [(3, "free"), (7, "alternate")] {
                let window = (tokens * share / 10).max(300);
                let policy = policy_of(&format!(
                    "[[policy]]\nwindow = {window}\nreserve = 64\nroles = \"{roles}\"\n\
                    min_gain = {{ tokens = 0 }}\nladder = [\"{ladder}\"]\n"
                ));
                let outcome = Core::default().ask(&body, &policy);
                check(&body, &policy, &outcome);
                let again = Core::default().ask(&outcome.sent, &policy);
                assert!(
                    again.counted[1].tokens <= outcome.counted[1].tokens,
                    "{name}, {ladder}: I6"
                );
            }
        }
    }
}
