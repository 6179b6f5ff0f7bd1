//! The marks between which a conversation lives: where it is compacted, down to where, and what a
//! forced compaction does to it.

use serde_json::json;

use crate::invariants::{Core, DIALECT, policy_of};
use crate::support::{message, messages_of, request, words};
use baler::core::conversation::scale;
use baler::core::planner::gate;

/// A conversation with calls, each of about 120 tokens that say something of their own.
fn conversation(calls: usize) -> Vec<String> {
    let mut all = vec![
        message("system", "You are an agent."),
        message("user", "Go."),
    ];
    for n in 0..calls {
        let id = format!("call_{n}");
        let arguments = json!({ "item": format!("IT-{}", 5_000 + n * 37) }).to_string();
        let call = json!({"id": id, "type": "function",
            "function": {"name": "look_up", "arguments": arguments}});
        let text: String = (0..6)
            .map(|line| {
                let value = n * 7_919 + line * 131;
                format!(
                    "field {value} of IT-{} is {} in hall {line}\n",
                    5_000 + n * 37,
                    value * 3
                )
            })
            .collect();
        all.extend([
            json!({"role": "assistant", "content": null, "tool_calls": [call]}).to_string(),
            json!({"role": "tool", "tool_call_id": id, "content": text}).to_string(),
        ]);
    }
    all
}

/// A conversation of about `tokens` prompt tokens.
fn of_tokens(tokens: u64) -> Vec<String> {
    let size = |calls| {
        let body = request(&conversation(calls));
        let idle = policy_of("[[policy]]\nwindow = 1000000\n");
        Core::default().ask(&body, &idle).counted[0].tokens
    };
    let each = (size(11) - size(1)) / 10;
    conversation(usize::try_from(tokens / each).unwrap())
}

#[test]
fn a_policy_that_names_no_trigger_acts_later_in_small_windows() {
    for (window, trigger, share, acts) in [
        (16_000, "", 0.86, false),
        (16_000, "", 0.94, true),
        (31_999, "", 0.86, false),
        (32_000, "", 0.86, true),
        (32_768, "", 0.76, false),
        (16_000, "trigger = { ratio = 0.8 }", 0.86, true),
        (16_000, "trigger = { turns = 900 }", 0.94, false),
    ] {
        let policy = policy_of(&format!("[[policy]]\nwindow = {window}\n{trigger}\n"));
        let room = policy.budget(window).prompt;
        let tokens = scale(room, share);
        let outcome = Core::default().ask(&request(&of_tokens(tokens)), &policy);
        let made = outcome.plan.compaction.is_some();
        assert_eq!(
            made, acts,
            "{window} {trigger} {share}: {:?}",
            outcome.counted
        );
    }
}

#[test]
fn the_gate_knows_the_later_trigger_of_small_windows() {
    let policy = policy_of("[[policy]]\nwindow = 16000\n");
    let given = policy_of("[[policy]]\nwindow = 16000\ntrigger = { ratio = 0.8 }\n");
    let budget = policy.budget(16_000);
    // Bytes between eight and nine tenths of the room.
    let text = words(1, 4_000);
    let text = &text[..usize::try_from(budget.prompt * 85 / 100).unwrap() - 100];
    let body = request(&[message("user", text)]);
    let passes = |policy| {
        gate::nothing_can_trigger(
            DIALECT,
            gate::Glance::of(body.as_bytes()),
            policy,
            &budget,
            1.0,
        )
    };
    assert!(passes(&policy) && !passes(&given));
}

#[test]
fn forced_again_and_again_a_list_comes_to_rest_at_the_target() {
    let policy = policy_of("[[policy]]\nwindow = 40000\nreserve = 0\nkeep = { tokens = 2000 }\n");
    let target = policy.budget(40_000).target;
    let (core, all) = (Core::default(), of_tokens(30_000));
    let first = core.ask_with(&request(&all), &policy, true);
    assert!(first.counted[1].tokens <= target, "{:?}", first.counted);
    let sent = first.sent;
    for _ in 0..5 {
        let again = core.ask_with(&request(&all), &policy, true);
        assert_eq!(again.sent, sent, "at rest");
    }
    // A client that sends what it was sent finds the same.
    let compacted = messages_of(sent.as_bytes());
    let outcome = Core::default().ask_with(&request(&compacted), &policy, true);
    assert_eq!(outcome.sent, request(&compacted));
}

#[test]
fn a_short_list_is_forced_once() {
    let policy = policy_of("[[policy]]\nwindow = 100000\nkeep = { tokens = 200 }\n");
    let (core, all) = (Core::default(), of_tokens(4_000));
    let [before, after] = core.ask_with(&request(&all), &policy, true).counted;
    assert!(
        after.tokens <= before.tokens / 2,
        "an effect on a short list: {after:?}"
    );
    let again = core.ask_with(&request(&all), &policy, true).counted[1];
    assert_eq!(again.tokens, after.tokens, "and no further one");
}

/// The text of the newest tool result of a list.
fn newest_result(messages: &[String]) -> String {
    let tool = messages.iter().rev().find(|raw| raw.contains("\"tool\""));
    DIALECT.entry(tool.unwrap()).unwrap().texts().concat()
}

#[test]
fn results_that_the_model_has_not_answered_stay_while_the_request_fits() {
    let log: String = (0..400)
        .map(|line| format!("worker {line} wrote /srv/data/part-{}.bin\n", line * 7_919))
        .collect();
    for (last, window, target) in [
        (None, 12_000, 0.5),
        (None::<&str>, 12_000, 0.1),
        (None, 12_000, 0.7),
    ] {
        let mut all = of_tokens(4_000);
        let call = json!({"id": "last", "type": "function",
            "function": {"name": "read_log", "arguments": "{}"}});
        all.extend([
            json!({"role": "assistant", "content": null, "tool_calls": [call]}).to_string(),
            json!({"role": "tool", "tool_call_id": "last", "content": log}).to_string(),
        ]);
        all.extend(last.map(|text| message("user", text)));
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = {window}\nreserve = 0\nkeep = {{ turns = 1 }}\n\
            target = {{ ratio = {target} }}\n"
        ));
        let outcome = Core::default().ask_with(&request(&all), &policy, true);
        let [before, after] = outcome.counted;
        assert!(
            before.tokens <= window && after.tokens < before.tokens,
            "{before:?} {after:?}"
        );
        let sent = messages_of(outcome.sent.as_bytes());
        assert_eq!(newest_result(&sent), log, "{last:?} {target}");
    }
}
