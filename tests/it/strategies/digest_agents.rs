//! What digests tell of the tools that agents have in browsers, clusters, notebooks and offices:
//! each result as what it is, and its newest state.

use serde_json::{Value, json};

use crate::invariants::policy_of;
use crate::support::words;

use super::{forced, job, tagged};

/// The digest of calls, each with its tool, arguments and result, before a newest one that stays.
fn digest_of(target: u64, calls: &[(&str, Value, String)]) -> String {
    let policy = policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ));
    let filler = words(7, 900);
    let behind = [
        ("think", json!({}), filler),
        ("list", json!({}), "done".to_owned()),
    ];
    let calls: Vec<(&str, String, &str)> = calls
        .iter()
        .chain(&behind)
        .map(|(tool, asked, result)| (*tool, asked.to_string(), result.as_str()))
        .collect();
    let steps: Vec<(&str, &str, &str)> = calls
        .iter()
        .map(|(tool, asked, result)| (*tool, asked.as_str(), *result))
        .collect();
    tagged(
        &forced(&job(&steps), &policy).messages,
        "conversation_digest",
    )
}

fn page(lamps: &[(&str, u32)]) -> String {
    let mut page = "- Page URL: https://shop/lamps\n- main [ref=e1]:\n".to_owned();
    for (at, (lamp, price)) in lamps.iter().enumerate() {
        let lamp = format!(
            "  - listitem [ref=e{at}0]:\n    - link \"{lamp}\" [ref=e{at}1] [cursor=pointer]:\n\
            \x20     - /url: /{at}\n    - generic [ref=e{at}2]: €{price}\n\
            \x20   - button \"Add to basket\" [ref=e{at}3]\n"
        );
        page.push_str(&lamp);
    }
    page
}

#[test]
fn the_price_on_an_old_page_stays_with_its_thing() {
    let names: Vec<String> = (0..30).map(|n| format!("Lamp {}", words(n, 2))).collect();
    let lamps: Vec<(&str, u32)> = names.iter().map(String::as_str).zip(1_000..).collect();
    let others = [("Desk one", 7), ("Desk two", 8), ("Desk three", 9)];
    let calls = [
        (
            "browser_navigate",
            json!({"url": "https://shop/lamps"}),
            page(&lamps),
        ),
        (
            "browser_navigate",
            json!({"url": "https://shop/desks"}),
            page(&others),
        ),
    ];
    let digest = digest_of(420, &calls);
    let prices: Vec<usize> = digest.match_indices("€10").map(|(at, _)| at).collect();
    assert!(!prices.is_empty(), "{digest}");
    for at in prices {
        // Between a price and the name of its lamp stands nothing of another one.
        let above = &digest[..at];
        let name = above.rfind("link \"Lamp").unwrap();
        assert!(!above[name..].contains('€'), "{digest}");
        assert!(!above[name..].contains('…'), "{digest}");
    }
    let old = digest.split("https://shop/desks").next().unwrap();
    assert!(!old.contains("[ref="), "{digest}");
    assert!(!old.contains("Add to basket"), "{digest}");
    assert!(
        digest.contains("[ref=e"),
        "the newest page has its handles: {digest}"
    );
}

#[test]
fn parts_of_a_result_and_logs_of_objects_are_told_as_what_they_are() {
    let issue = json!({"number": 17, "state": "open", "labels": [{"id": 1, "name": "bug"}]});
    let parts = json!({"content": [{"type": "text", "text": issue.to_string()}]});
    let log = (0..9).map(|n| {
        let level = if n == 4 { "error" } else { "info" };
        format!(r#"{{"level":"{level}","msg":"step {n}","took":{}}}"#, n * 7)
    });
    let log = log.collect::<Vec<_>>().join("\n");
    let digest = digest_of(
        400,
        &[
            ("get_issue", json!({"number": 17}), parts.to_string()),
            ("logs", json!({"pod": "web"}), log),
        ],
    );
    assert!(digest.contains("\n state: open\n"), "{digest}");
    assert!(!digest.contains("type: text"), "{digest}");
    assert!(digest.contains("error,step 4,28"), "{digest}");
}

#[test]
fn the_newest_state_of_a_printed_row_stays() {
    let table = |state: &str| {
        let rows = (40..60).map(|n| format!("{n}        {state:<12} web-{n}"));
        let rows = rows.collect::<Vec<_>>().join("\n");
        format!("REVISION  STATUS       CHART\n{rows}")
    };
    let digest = digest_of(
        260,
        &[
            (
                "run",
                json!({"command": "helm history web"}),
                table("deployed"),
            ),
            (
                "run",
                json!({"command": "helm history web --max 20"}),
                table("superseded"),
            ),
        ],
    );
    let count = |state: &str| digest.matches(state).count();
    assert!(count("superseded") > count("deployed"), "{digest}");
}

#[test]
fn commands_that_change_something_and_what_came_out_otherwise_stay() {
    let row = |n: u32, state: &str, why: &str| -> Value {
        let invoice = format!("RE-{n}");
        json!({"invoice": invoice, "state": state, "fee": 0, "why": why})
    };
    let mut rows: Vec<Value> = (0..12).map(|n| row(3_000 + n, "sent", "")).collect();
    rows[7] = row(3_007, "refused", "level 1 was sent in May");
    let read = |n: usize| ("read", json!({"path": format!("n{n}")}), words(n, 60));
    let mut calls = vec![
        (
            "bash",
            json!({"command": "helm -n shop rollback web 47 --wait"}),
            "Rollback was a success!".to_owned(),
        ),
        (
            "remind",
            json!({"level": 1}),
            json!({"run": "ML-46", "results": rows}).to_string(),
        ),
    ];
    calls.extend((0..9).map(read));
    let digest = digest_of(420, &calls);
    assert!(digest.contains("rollback web 47"), "{digest}");
    assert!(digest.contains("RE-3007"), "{digest}");
}

#[test]
fn what_the_user_said_to_a_call_that_he_refused_stays_quoted() {
    let refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected \
        (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how \
        to proceed, the user said:\nno dependency bumps, pin lodash at 4.17.20 instead";
    let read = |n: usize| ("read", json!({"path": format!("n{n}")}), words(n, 60));
    let mut calls = vec![("Bash", json!({"command": "npm update"}), refusal.to_owned())];
    calls.extend((0..9).map(read));
    let digest = digest_of(300, &calls);
    // It is no word of his: a file may begin with the same.
    assert!(!digest.contains("The user said:"), "{digest}");
    let said = "\n |no dependency bumps, pin lodash";
    assert!(digest.contains(said), "{digest}");
}

#[test]
fn comments_keep_their_texts() {
    let comment = |n: u32, text: &str| {
        json!({"id": format!("c{n}"), "author": {"id": n, "name": format!("Ann {n}")},
            "created_at": "2026-05-03T10:00:00Z", "body": text})
    };
    let must =
        "The replacement has to go out with a signature required: do not release RPL-104466 as is.";
    let comments = [
        comment(1, &words(3, 14)),
        comment(2, must),
        comment(3, &words(5, 14)),
    ];
    let ticket = json!({"ticket": {"id": "T-5", "comments": comments}});
    let digest = digest_of(
        400,
        &[("get_ticket", json!({"id": "T-5"}), ticket.to_string())],
    );
    assert!(digest.contains("do not release RPL-104466"), "{digest}");
}
