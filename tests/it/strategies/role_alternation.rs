//! Roles alternate after a compaction where a policy asks for it.

use baler::core::conversation::Speaker;

use crate::invariants::{Core, policy_of};
use crate::support::{agent, message, messages_of, request, words};

use super::{calls, result, role};

/// Turns of all kinds: a question, parallel calls, an answer, in turns as a strict template wants
/// them.
fn strict_chat(turns: usize) -> Vec<String> {
    let mut all = vec![message("system", "You help.")];
    for turn in 0..turns {
        let (a, b) = (format!("a{turn}"), format!("b{turn}"));
        all.push(message(
            "user",
            &format!("Question {turn}: {}", words(turn, 30)),
        ));
        if turn % 2 == 0 {
            all.push(calls(&[
                (&a, "read", &format!(r#"{{"path":"src/file_{turn}.rs"}}"#)),
                (&b, "list", "{}"),
            ]));
            all.extend([
                result(&a, &format!("content {turn} {}", words(turn, 60))),
                result(&b, &format!("listing-{turn} {}", words(turn + 5, 60))),
            ]);
        }
        all.push(message(
            "assistant",
            &format!("Answer {turn}: {}", words(turn + 3, 30)),
        ));
    }
    all
}

/// What a template that insists on turns would refuse.
fn broken_turns(messages: &[String]) -> Option<String> {
    let mut before: Option<Speaker> = None;
    for (at, now) in messages
        .iter()
        .map(|raw| role(raw))
        .filter(|role| !role.is_instruction())
        .enumerate()
    {
        let fine = match (before, now) {
            (None, now) => now == Speaker::User,
            (Some(Speaker::User | Speaker::Tool | Speaker::Assistant), Speaker::Assistant)
                if before != Some(Speaker::Assistant) =>
            {
                true
            }
            (Some(Speaker::Assistant), Speaker::User | Speaker::Tool)
            | (Some(Speaker::Tool), Speaker::Tool) => true,
            _ => false,
        };
        if !fine {
            return Some(format!("{before:?} then {now:?} at {at} of {messages:#?}"));
        }
        before = Some(now);
    }
    None
}

const BRIDGE: &str = "[earlier messages were condensed]";

const STEPS: [&str; 6] = [
    r#""digest""#,
    "{ sliding_window = { exchanges = 3 } }",
    "{ sliding_window = { turns = 2 } }",
    r#""token_budget""#,
    r#""digest", "token_budget""#,
    "{ coalesce = { chars = 30, output_limit = 4 } }",
];

#[test]
fn where_roles_alternate_they_do_after_every_compaction() {
    let strict = strict_chat(40);
    assert_eq!(broken_turns(&strict), None, "the client keeps to it");
    let single = agent(40, 60);
    let mut bridged = 0;
    for step in STEPS {
        for first_user in [true, false] {
            for (name, all) in [("turns", &strict), ("one turn", &single)] {
                let policy = policy_of(&format!(
                    "[[policy]]\nwindow = 2500\nreserve = 0\nroles = \"alternate\"\n\
                    keep = {{ tokens = 300, exchanges = 1 }}\n\
                    pin = {{ first_user = {first_user} }}\nladder = [{step}]\n"
                ));
                let core = Core::default();
                let mut compactions = 0;
                for end in (1..=all.len())
                    .filter(|end| *end == all.len() || role(&all[*end]) == Speaker::Assistant)
                {
                    let outcome = core.ask(&request(&all[..end]), &policy);
                    let sent = messages_of(outcome.sent.as_bytes());
                    assert_eq!(
                        broken_turns(&sent),
                        None,
                        "{step}, {name}, {first_user}, {end}"
                    );
                    compactions += usize::from(outcome.plan.compaction.is_some());
                    bridged += usize::from(outcome.sent.contains(BRIDGE));
                }
                // One turn is less than any number of turns: there a window of turns has nothing to
                // drop.
                assert!(
                    compactions >= 1 || (name == "one turn" && step.contains("turns")),
                    "{step}, {name}: {compactions}"
                );
            }
        }
    }
    assert!(bridged > 20, "bridges were needed: {bridged}");
}

#[test]
fn fillers_that_only_this_compaction_needs_have_room() {
    let pinned = format!("KEEP {}", words(1, 300));
    let all = [
        message("user", &format!("Read it, please: {}", words(0, 15))),
        calls(&[("a", "read", "{}")]),
        result("a", &pinned),
        message("assistant", &words(2, 15)),
        message("user", &words(3, 15)),
        message("assistant", &words(4, 15)),
        message("user", &format!("And now? {}", words(5, 400))),
    ];
    let policy = |window: u64| {
        policy_of(&format!(
            "[[policy]]\nwindow = {window}\nreserve = 0\nroles = \"alternate\"\n\
            keep = {{ tokens = 0, exchanges = 1 }}\nmin_gain = {{ tokens = 0 }}\n\
            pin = {{ first_user = false, text = \"KEEP\" }}\nladder = [\"token_budget\"]\n"
        ))
    };
    let asked = |window: u64| Core::default().ask(&request(&all), &policy(window));
    // What is pinned, the last question, and a filler before each.
    let least = asked(600).plan.after.tokens;
    for window in least..least + 60 {
        let outcome = asked(window);
        let after = outcome.plan.after.tokens;
        assert!(outcome.plan.fits, "{after} tokens in {window}");
        let sent = messages_of(outcome.sent.as_bytes());
        assert_eq!(broken_turns(&sent), None, "{window}");
    }
}

#[test]
fn where_roles_are_free_nothing_is_inserted() {
    let strict = strict_chat(40);
    for step in STEPS {
        for roles in ["", "roles = \"free\"\n"] {
            let policy = policy_of(&format!(
                "[[policy]]\nwindow = 2500\nreserve = 0\n\
                {roles}keep = {{ tokens = 300, exchanges = 1 }}\nladder = [{step}]\n"
            ));
            let outcome = Core::default().ask(&request(&strict), &policy);
            assert!(outcome.plan.edited(), "{step}");
            assert!(!outcome.sent.contains(BRIDGE), "{step}");
            let new = messages_of(outcome.sent.as_bytes())
                .iter()
                .filter(|raw| !strict.contains(raw))
                .count();
            assert_eq!(
                new,
                usize::from(step.contains("digest") || step.contains("coalesce")),
                "{step}: no message of Baler's own but one"
            );
        }
    }
}
