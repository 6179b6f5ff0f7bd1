//! The invariants over real agent conversations, where they are at hand.

use std::path::PathBuf;

use crate::invariants::{Core, check, policy_of};
use crate::support::messages_of;

/// The conversations of a file, each a list of raw messages; `None`, loudly, where the file is not.
fn conversations(name: &str) -> Option<Vec<Vec<String>>> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(name);
    match std::fs::read_to_string(&file) {
        Ok(text) => Some(text.lines().map(|line| messages_of(line.as_bytes())).collect()),
        Err(_) => {
            eprintln!("SKIPPED: {name} is not here; the invariants are not checked on real conversations");
            None
        }
    }
}

fn body(messages: &[String]) -> String {
    format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, messages.join(","))
}

/// Plays every `step`-th request of each conversation through a core that sees them all, and compares every now and
/// then with one that saw none.
fn play(name: &str, windows: &[u64], take: usize, step: usize) {
    let Some(conversations) = conversations(name) else { return };
    let (mut requests, mut compactions) = (0, 0);
    for window in windows {
        let policy = policy_of(&format!("[[policy]]\nwindow = {window}\n"));
        for messages in conversations.iter().take(take) {
            let core = Core::default();
            let mut earlier: Option<String> = None;
            let points = (1..messages.len())
                .filter(|at| messages[*at].contains(r#""role": "assistant""#) || messages[*at].contains(r#""role":"assistant""#));
            for (turn, length) in points.chain([messages.len()]).enumerate().filter(|(turn, _)| turn % step == 0) {
                let body = body(&messages[..length]);
                let outcome = core.ask(&body, &policy);
                check(&body, &policy, &outcome);
                let list = messages_of(outcome.sent.as_bytes()).join("\0");
                if let (Some(earlier), None) = (&earlier, &outcome.plan.compaction) {
                    assert!(list.starts_with(earlier), "I5 in {name}");
                }
                if turn % (step * 7) == 0 {
                    assert_eq!(Core::default().ask(&body, &policy).sent, outcome.sent, "a fresh core, {name}");
                }
                (requests, compactions) = (requests + 1, compactions + usize::from(outcome.plan.compaction.is_some()));
                earlier = Some(list);
            }
        }
    }
    println!("{name}: {requests} requests, {compactions} compactions");
    assert!(compactions > 0 && compactions * 3 < requests, "{name}: {compactions} compactions in {requests} requests");
}

#[test]
fn airline_agent() {
    play("airline-agent.jsonl", &[2_048, 4_096, 8_192], 40, 1);
}

#[test]
fn coding_agent() {
    play("coding-agent.jsonl", &[8_192, 32_768], 6, 3);
}

#[test]
fn coding_session() {
    play("coding-session.jsonl", &[8_192, 32_768], 1, 3);
}
