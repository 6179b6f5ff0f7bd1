//! `collapse_errors`: a failed attempt before a success becomes one line.

use super::{compacted, forced, job, numbered, policy_with, results};

#[test]
fn a_failure_that_was_overcome_shrinks_to_its_line() {
    let trace = |what: &str| {
        format!(
            "Traceback (most recent call last):\n{}\n{what}",
            numbered(12)
        )
    };
    let all = job(&[
        ("run", r#"{"cmd":"a"}"#, &trace("ValueError: bad value 17")),
        ("run", r#"{"cmd":"b"}"#, &trace("KeyError: 'name'")),
        ("run", r#"{"cmd":"c"}"#, "all tests pass"),
        ("deploy", "{}", &trace("TimeoutError: no answer")),
        ("run", r#"{"cmd":"d"}"#, &trace("OSError: disk full")),
    ]);
    let after = compacted(&all, r#""collapse_errors""#);
    let left = results(&after.messages);
    assert_eq!(
        left[..3],
        [
            "[failed, overcome later: ValueError: bad value 17]",
            "[failed, overcome later: KeyError: 'name']",
            "all tests pass"
        ]
    );
    assert_eq!(
        left[3..],
        results(&all)[3..],
        "what was never overcome stays in full"
    );
    let report = after.report("collapse_errors");
    assert_eq!(
        (report.replaced, report.dropped, &report.details[..]),
        (2, 0, &[("errors_collapsed", 2)][..])
    );
    assert_eq!(
        compacted(&after.messages, r#""collapse_errors""#).messages,
        after.messages
    );
}

#[test]
fn another_tools_success_overcomes_nothing() {
    let trace = format!("Error: it broke\n{}", numbered(12));
    let other = format!("Error: it broke otherwise\n{}", numbered(12));
    let all = job(&[
        ("run", "{}", &trace),
        ("read", "{}", "fine"),
        ("run", "{}", &other),
    ]);
    assert_eq!(compacted(&all, r#""collapse_errors""#).messages, all);
    let all = job(&[
        ("read", "{}", "fine"),
        ("run", "{}", "fine"),
        ("run", "{}", &trace),
    ]);
    assert_eq!(
        compacted(&all, r#""collapse_errors""#).messages,
        all,
        "nor does an earlier one of its own"
    );
}

#[test]
fn of_failures_that_go_on_the_newest_of_each_kind_stays() {
    let trace = |what: &str| {
        format!(
            "Traceback (most recent call last):\n{}\n{what}",
            numbered(12)
        )
    };
    let all = job(&[
        (
            "run",
            r#"{"n":1}"#,
            &trace("ValueError: bad value in line 17"),
        ),
        (
            "run",
            r#"{"n":2}"#,
            &trace("ValueError: bad value in line 203"),
        ),
        ("run", r#"{"n":3}"#, &trace("KeyError: 'name'")),
        ("test", "{}", &trace("ValueError: bad value in line 5")),
        (
            "run",
            r#"{"n":4}"#,
            &trace("ValueError: bad value in line 18"),
        ),
    ]);
    let after = compacted(&all, r#""collapse_errors""#);
    let (before, left) = (results(&all), results(&after.messages));
    assert_eq!(
        left[..2],
        [
            "[failed, and again later: ValueError: bad value in line 17]",
            "[failed, and again later: ValueError: bad value in line 203]",
        ]
    );
    assert_eq!(
        left[2..],
        before[2..],
        "another cause, another tool, the newest"
    );
    assert_eq!(
        after.report("collapse_errors").details,
        [("errors_collapsed", 2)]
    );
    let again = compacted(&after.messages, r#""collapse_errors""#);
    assert_eq!(again.messages, after.messages);
}

#[test]
fn an_operator_says_what_a_failure_is_and_how_its_line_reads() {
    let log = |what: &str| format!("{}\n{what}\n{}", numbered(10), numbered(3));
    let all = job(&[
        ("Shell_1", r#"{"n":1}"#, &log("!! quota of 7 used up")),
        ("other", r#"{"n":2}"#, &log("!! quota of 7 used up")),
        ("Shell_1", r#"{"n":3}"#, "done"),
        ("other", r#"{"n":4}"#, "done"),
    ]);
    let rule = "failures = [{ tool = \"shell_*\", pattern = \"(?m)^!! \" }]";
    let after =
        |more: &str, ladder: &str| results(&forced(&all, &policy_with(more, ladder)).messages);
    let before = results(&all);
    assert_eq!(after("", r#""collapse_errors""#), before);
    let collapsed = after(rule, r#""collapse_errors""#);
    assert_eq!(
        collapsed[0],
        "[failed, overcome later: !! quota of 7 used up]"
    );
    assert_eq!(collapsed[1..], before[1..], "the rule is for one tool");
    let own = "{ collapse_errors = { text = \"[no: {error}, by {tool}]\" } }";
    let worded = after(rule, own);
    assert_eq!(worded[0], "[no: !! quota of 7 used up, by Shell_1]");
    // It is recognised when it comes back.
    let policy = policy_with(rule, own);
    let once = forced(&all, &policy).messages;
    assert_eq!(forced(&once, &policy).messages, once);
}
