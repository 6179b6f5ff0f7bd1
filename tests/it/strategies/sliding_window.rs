//! `sliding_window`: how many of the newest messages, exchanges or turns stay.

use crate::invariants::Core;
use crate::support::{agent, message, request, words};

use super::{calls, compacted, forced, policy, policy_with, result, tokens};

#[test]
fn a_window_keeps_the_newest_messages_rounded_to_whole_exchanges() {
    let all = agent(12, 20);
    for messages in [5, 6] {
        let after = compacted(
            &all,
            &format!("{{ sliding_window = {{ messages = {messages} }} }}"),
        );
        assert_eq!(
            after.messages,
            [&all[..2], &all[20..]].concat(),
            "{messages}: three exchanges of two messages"
        );
        let report = after.report("sliding_window");
        assert_eq!((report.before.messages, report.after.messages), (26, 8));
        assert_eq!(
            (report.before.tokens, report.after.tokens),
            (tokens(&all), tokens(&after.messages))
        );
        assert_eq!((report.dropped, report.replaced), (18, 0));
    }
}

#[test]
fn a_window_is_twenty_messages_unless_told_otherwise() {
    let all = agent(15, 20);
    assert_eq!(
        compacted(&all, r#""sliding_window""#).messages,
        [&all[..2], &all[12..]].concat()
    );
}

#[test]
fn a_window_counts_exchanges() {
    let all = agent(12, 20);
    let after = compacted(&all, "{ sliding_window = { exchanges = 4 } }");
    assert_eq!(after.messages, [&all[..2], &all[18..]].concat());
    assert_eq!(after.report("sliding_window").dropped, 16);
}

#[test]
fn a_window_counts_turns_by_their_user_messages() {
    // Five turns of four messages behind one instruction.
    let mut all = vec![message("system", "You help.")];
    for turn in 0..5 {
        let id = format!("call_{turn}");
        all.extend([
            message("user", &words(turn, 20)),
            calls(&[(&id, "read", "{}")]),
            result(&id, "found"),
            message("assistant", "Done."),
        ]);
    }
    let after = compacted(&all, "{ sliding_window = { turns = 2 } }");
    // The first user message is pinned; of what else there was, the last two turns stay whole.
    assert_eq!(after.messages, [&all[..2], &all[13..]].concat());
    let after = forced(
        &all,
        &policy_with(
            "pin = { first_user = false }",
            "{ sliding_window = { turns = 2 } }",
        ),
    );
    assert_eq!(after.messages, [&all[..1], &all[13..]].concat());
    assert_eq!(
        (
            after.report("sliding_window").before.turns,
            after.report("sliding_window").after.turns
        ),
        (5, 2)
    );
}

#[test]
fn a_window_never_parts_parallel_calls() {
    let mut all = agent(6, 20);
    all.push(calls(&[
        ("a", "read", "{}"),
        ("b", "read", "{}"),
        ("c", "list", "{}"),
    ]));
    all.extend([result("c", "three"), result("a", "one"), result("b", "two")]);
    all.push(message("assistant", "I have read it."));
    for messages in 2..=5 {
        let after = compacted(
            &all,
            &format!("{{ sliding_window = {{ messages = {messages} }} }}"),
        );
        assert_eq!(
            after.messages,
            [&all[..2], &all[14..]].concat(),
            "{messages}: the last answer and all four messages of the calls"
        );
    }
    assert_eq!(
        compacted(&all, "{ sliding_window = { messages = 1 } }").messages,
        [&all[..2], &all[18..]].concat()
    );
}

#[test]
fn a_window_that_is_not_full_changes_nothing() {
    let all = agent(12, 20);
    for window in [
        "messages = 24",
        "messages = 25",
        "exchanges = 12",
        "turns = 1",
    ] {
        let outcome = Core::default().ask_with(
            &request(&all),
            &policy(&format!("{{ sliding_window = {{ {window} }} }}")),
            true,
        );
        assert_eq!(outcome.sent, request(&all), "{window}: not a byte");
        assert!(outcome.plan.compaction.is_none(), "{window}");
    }
    assert_ne!(
        compacted(&all, "{ sliding_window = { messages = 22 } }").messages,
        all,
        "a smaller one does"
    );
}

/// The roles of a list, by their first letters.
fn roles(messages: &[String]) -> String {
    let roles = messages.iter().map(|raw| {
        let message: serde_json::Value = serde_json::from_str(raw).unwrap();
        message["role"].as_str().unwrap().chars().next().unwrap()
    });
    roles.collect()
}

#[test]
fn what_is_left_begins_with_an_answer_only_where_the_clients_list_does() {
    let chat: Vec<String> = std::iter::once(message("system", "You help."))
        .chain((0..12).map(|at| {
            let speaker = if at % 2 == 0 { "user" } else { "assistant" };
            message(speaker, &words(at, 40))
        }))
        .chain([message("user", "Well?")])
        .collect();
    let unpinned = "pin = { first_user = false }";
    let after =
        |all: &[String], step: &str| roles(&forced(all, &policy_with(unpinned, step)).messages);
    for (step, expected) in [
        ("{ sliding_window = { messages = 5 } }", "suauau"),
        ("{ sliding_window = { messages = 4 } }", "suau"),
        ("{ sliding_window = { exchanges = 2 } }", "suau"),
    ] {
        assert_eq!(after(&chat, step), expected, "{step}");
    }
    // For whatever budget.
    for budget in (100..600).step_by(20) {
        let step = format!("{{ token_budget = {{ budget = {{ tokens = {budget} }} }} }}");
        let left = after(&chat, &step);
        assert!(left.starts_with("su"), "{budget}: {left}");
    }
    // In a long turn the question stays, and not only the end of the turn.
    let mut turn = vec![message("system", "You help."), message("user", "Before.")];
    turn.extend(agent(8, 30).split_off(1));
    turn.push(message("user", "Well?"));
    let left = after(&turn, "{ sliding_window = { messages = 7 } }");
    assert_eq!(left, "suatatatu");
    // A client may do otherwise.
    let begins = [&chat[..1], &chat[2..]].concat();
    let left = after(&begins, "{ sliding_window = { messages = 4 } }");
    assert_eq!(left, "sauau");
}
