//! `token_budget`: the oldest exchanges go until the rest fits.

use crate::invariants::{Core, policy_of};
use crate::support::{agent, message, messages_of, request, words};

use super::{calls, compacted, forced, result, tokens};

/// Asserts that of `all` only the oldest exchanges behind the head went, and none that could have
/// stayed in `budget`.
fn assert_fills(all: &[String], after: &[String], budget: u64) {
    let gone = all.len() - after.len();
    assert!(gone > 0);
    assert_eq!(
        after,
        [&all[..2], &all[2 + gone..]].concat(),
        "the oldest go, whole exchanges of them"
    );
    assert!(tokens(after) <= budget, "{} in {budget}", tokens(after));
    assert!(
        tokens(&[&all[..2], &all[gone..]].concat()) > budget,
        "one more exchange would have been too much"
    );
}

/// The key of a checkpoint leaves instructions out: with longer ones, what it left may be too much.
#[test]
fn what_was_compacted_below_shorter_instructions_fits_below_longer_ones() {
    let policy = policy_of("[[policy]]\nwindow = 2000\nreserve = 0\nladder = [\"token_budget\"]\n");
    let list = |rules: usize| {
        let mut all = vec![message("system", &"rule ".repeat(rules))];
        all.extend(agent(30, 50));
        request(&all)
    };
    let core = Core::default();
    let first = core.ask(&list(1), &policy);
    assert!(first.plan.fits && first.plan.compaction.is_some());
    let grown = core.ask(&list(900), &policy);
    let fresh = Core::default().ask(&list(900), &policy);
    assert!(fresh.plan.fits, "it can fit");
    assert!(
        grown.plan.fits,
        "{:?} in {:?}",
        grown.plan.after, grown.plan.budget
    );
}

#[test]
fn a_budget_is_met_by_dropping_no_more_than_needed() {
    let all = agent(30, 50);
    for (budget, tokens) in [
        ("tokens = 900", 900),
        ("tokens = 500", 500),
        ("ratio = 0.01", 1000),
        ("ratio = 0.007", 700),
    ] {
        let after = compacted(
            &all,
            &format!("{{ token_budget = {{ budget = {{ {budget} }} }} }}"),
        );
        assert_fills(&all, &after.messages, tokens);
        let report = after.report("token_budget");
        assert_eq!(report.dropped, (all.len() - after.messages.len()) as u64);
        assert_eq!(report.before.messages, 62);
    }
}

#[test]
fn a_budget_is_the_policys_target_unless_told_otherwise() {
    let all = agent(30, 50);
    let target = policy_of(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = { exchanges = 1 }\n\
        target = { tokens = 800 }\nladder = [\"token_budget\"]\n",
    );
    assert_fills(&all, &forced(&all, &target).messages, 800);
}

#[test]
fn a_budget_is_enforced_from_its_threshold_on() {
    let all = agent(30, 50);
    let size = tokens(&all);
    let step = |budget: u64, threshold: f64| {
        format!(
            "{{ token_budget = {{ budget = {{ tokens = {budget} }}, threshold = {threshold} }} }}"
        )
    };
    // A tenth of the budget is as much as there is: not above it.
    assert_eq!(compacted(&all, &step(size * 10, 0.1)).messages, all);
    // Above that share of it, exchanges go down to the share, though the budget itself was never
    // exceeded.
    assert_fills(
        &all,
        &compacted(&all, &step(size * 10 - 10, 0.1)).messages,
        size - 1,
    );
    assert_fills(&all, &compacted(&all, &step(size, 0.5)).messages, size / 2);
    // 1.5 times the budget is not reached, though the budget is exceeded; with 1.4 it is, and then
    // all of the excess goes.
    let budget = size * 10 / 15 + 2;
    assert_eq!(compacted(&all, &step(budget, 1.5)).messages, all);
    assert_fills(&all, &compacted(&all, &step(budget, 1.4)).messages, budget);
    assert_fills(
        &all,
        &compacted(&all, &step(size - 1, 1.0)).messages,
        size - 1,
    );
}

#[test]
fn the_newest_exchange_outlives_any_budget() {
    let all = agent(8, 50);
    let after = compacted(&all, "{ token_budget = { budget = { tokens = 1 } } }");
    assert_eq!(after.messages, [&all[..2], &all[16..]].concat());
    // With a user message at the end, that is the newest exchange.
    let all = [all, vec![message("user", "Well?")]].concat();
    let after = compacted(&all, "{ token_budget = { budget = { tokens = 1 } } }");
    assert_eq!(after.messages, [&all[..2], &all[18..]].concat());
}

#[test]
fn a_list_begins_with_a_question_where_a_transcript_has_to_go() {
    let all = [
        message("user", "Read both."),
        calls(&[("b", "read", "{}")]),
        result("b", &words(0, 200)),
        calls(&[("a", "read", "{}")]),
        result("a", &format!("KEEP {}", words(1, 100))),
        message("user", &format!("And now? {}", words(5, 300))),
    ];
    let sent = |window: u64| {
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = {window}\nreserve = 0\n\
            keep = {{ tokens = 0, exchanges = 1 }}\nmin_gain = {{ tokens = 0 }}\n\
            pin = {{ first_user = false, text = \"KEEP\" }}\n\
            ladder = [\"coalesce\", \"token_budget\"]\n"
        ));
        Core::default().ask(&request(&all), &policy).sent
    };
    // Of what stays without the question: the pinned call with its result, and the last message.
    let least = tokens(&all[3..]);
    let room = tokens(&[&all[..1], &all[3..]].concat());
    for window in room..room + 60 {
        let sent = sent(window);
        assert!(
            !sent.contains("<conversation_transcript>"),
            "{window}: {sent}"
        );
        assert_eq!(messages_of(sent.as_bytes())[0], all[0], "{window}");
    }
    assert_eq!(messages_of(sent(least).as_bytes()), all[3..]);
}
