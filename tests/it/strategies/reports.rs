//! The reports of steps: one shape, whether a step acted or not.

use baler::core::strategy::{Report, Strategy};
use serde_json::json;

use crate::invariants::policy_of;
use crate::support::{message, words};

use super::{COUNTS, compacted, forced, job, numbered, tokens};

/// A chat that gives every strategy something to do, and one that gives none to any but those that
/// drop.
fn for_all() -> Vec<String> {
    let pretty = serde_json::to_string_pretty(&json!(
        (0..900).map(|n| json!({"id": n})).collect::<Vec<_>>()
    ))
    .unwrap();
    let trace = format!("Error: it broke\n{}", numbered(30));
    let mut all = job(&[
        ("run", "{}", &trace),
        ("list", "{}", &pretty),
        ("list", "{}", &pretty),
        ("run", "{}", "fine"),
    ]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    all.insert(
        2,
        json!({"role": "user", "content": [{"type": "text", "text": "See."}, image]}).to_string(),
    );
    all
}

/// What `summarize` counts.
const SUMMARY_COUNTS: [&str; 15] = [
    "messages_summarized",
    "messages_kept",
    "split_turn",
    "incremental",
    "generation",
    "summary_tokens",
    "summary_chars",
    "summarizer_calls",
    "summarizer_prompt_tokens",
    "summarizer_completion_tokens",
    "summarizer_ms",
    "files",
    "ready",
    "late",
    "failed",
];

#[test]
fn a_report_has_one_shape_whether_the_step_acted_or_not() {
    let all = for_all();
    let idle = [
        message("user", "One."),
        message("assistant", "Two."),
        message("user", "Three."),
    ];
    let webhook = "{ webhook = { url = \"http://127.0.0.1:9/\" } }";
    let mut names = Vec::new();
    for step in [
        r#""dedupe""#,
        r#""minify""#,
        r#""trim_results""#,
        "{ clear_results = { keep = 1 } }",
        r#""strip""#,
        r#""collapse_errors""#,
        r#""coalesce""#,
        r#""digest""#,
        r#""summarize""#,
        "{ sliding_window = { messages = 2 } }",
        r#""token_budget""#,
        webhook,
    ] {
        // A step of its own behind it changes something, so that there are reports at all.
        let reports = |messages: &[String], step: &str, target: u64| {
            let policy = policy_of(&format!(
                "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
                pin = {{ first_user = false }}\ntarget = {{ tokens = {target} }}\n\
                ladder = [{step}, {{ sliding_window = {{ messages = 1 }} }}]\n"
            ));
            forced(messages, &policy).reports.remove(0)
        };
        let acted = reports(&all, step, 200);
        let nothing = reports(
            &idle,
            &step
                .replace("messages = 2", "messages = 9")
                .replace(
                    "\"token_budget\"",
                    "{ token_budget = { threshold = 1000.0 } }",
                )
                .replace("\"coalesce\"", "{ coalesce = { older_than = 99 } }")
                .replace("\"digest\"", "{ digest = { older_than = 99 } }"),
            1,
        );
        // What others answer is not here.
        assert!(
            acted.acted() || step == webhook || acted.strategy == "summarize",
            "{acted:?}"
        );
        assert!(!nothing.acted(), "{nothing:?}");
        assert_eq!(acted.strategy, nothing.strategy);
        let keys = |report: &Report| {
            report
                .details
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&acted), keys(&nothing), "{step}");
        assert!(
            nothing.details.iter().all(|(_, count)| *count == 0),
            "{nothing:?}"
        );
        names.push(acted.strategy);
        let counts = match acted.strategy {
            "coalesce" => COUNTS.to_vec(),
            "digest" => vec!["lines", "lines_shown"],
            "collapse_errors" => vec!["errors_collapsed"],
            "summarize" => SUMMARY_COUNTS.to_vec(),
            "webhook" => vec!["discarded"],
            _ => vec![],
        };
        assert_eq!(keys(&acted), counts, "{step}");
    }
    assert_eq!(names, Strategy::NAMES, "every strategy there is");
}

#[test]
fn a_step_that_did_nothing_reports_so() {
    let contents: Vec<String> = (0..20)
        .map(|n| format!("number {n} of {}", words(n % 7 + 1, 40)))
        .collect();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    let names = [
        "dedupe",
        "minify",
        "trim_results",
        "clear_results",
        "strip",
        "collapse_errors",
        "sliding_window",
        "token_budget",
    ];
    let ladder = "\"dedupe\", \"minify\", \"trim_results\", { clear_results = { keep = 50 } }, \
        \"strip\", \"collapse_errors\", { sliding_window = { messages = 90 } }, \"token_budget\"";
    let after = compacted(&all, ladder);
    assert_eq!(
        after
            .reports
            .iter()
            .map(|report| report.strategy)
            .collect::<Vec<_>>(),
        names
    );
    for report in &after.reports[..7] {
        assert!(!report.acted(), "{report:?}");
        assert_eq!(report.before, report.after);
        assert_eq!(
            (
                report.before.tokens,
                report.before.messages,
                report.before.turns
            ),
            (tokens(&all), 43, 2)
        );
        assert_eq!((report.dropped, report.replaced), (0, 0));
    }
    let last = &after.reports[7];
    assert!(last.acted());
    assert_eq!(
        (last.before.messages, last.after.messages, last.dropped),
        (43, 3, 40)
    );
}
