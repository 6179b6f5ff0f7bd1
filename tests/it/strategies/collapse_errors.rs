//! `collapse_errors`: a failed attempt before a success becomes one line.

use super::{compacted, job, numbered, results};

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
    let all = job(&[
        ("run", "{}", &trace),
        ("read", "{}", "fine"),
        ("run", "{}", &trace),
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
