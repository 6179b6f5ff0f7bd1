//! One turn of a hundred exchanges, under every strategy that drops or condenses.

use crate::invariants::{Core, check, policy_of};
use crate::support::{agent, messages_of, request};

use super::tokens;

#[test]
fn a_long_run_of_one_turn_shrinks_with_every_strategy_that_drops_or_condenses() {
    let all = agent(100, 60);
    for step in [
        r#""sliding_window""#,
        "{ sliding_window = { exchanges = 12 } }",
        r#""token_budget""#,
        "{ token_budget = { budget = { ratio = 0.3 } } }",
        r#""coalesce""#,
        r#""digest""#,
        "{ clear_results = { keep = 5 } }",
    ] {
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = 6000\nreserve = 0\ntrigger = {{ ratio = 0.8 }}\n\
            keep = {{ tokens = 500 }}\nladder = [{step}]\n"
        ));
        let body = request(&all);
        let outcome = Core::default().ask(&body, &policy);
        check(&body, &policy, &outcome);
        assert!(
            tokens(&all) > 6000 && outcome.counted[1].tokens < 4800,
            "{step}: {:?}",
            outcome.counted
        );
        assert!(outcome.plan.fits, "{step}");
        let sent = messages_of(outcome.sent.as_bytes());
        assert_eq!(sent[..2], all[..2], "{step}: instruction and task stay");
        assert_eq!(
            sent[sent.len() - 2..],
            all[200..],
            "{step}: the newest exchange stays"
        );
        assert!(
            outcome.plan.compaction.unwrap().reports[0].acted(),
            "{step}"
        );
    }
}
