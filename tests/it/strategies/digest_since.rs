//! What came of things since a digest's lines were true: what was undone, deleted, tried only, or
//! told anew; and what is not so at all.

use baler::core::text::Failures;
use serde_json::{Value, json};

use super::digest_needs::digest_in;
use super::job;
use crate::support::{message, words};

/// The digest of these calls, each with its tool, arguments and result, in so many tokens.
pub(super) fn told(target: u64, calls: &[(&str, Value, Value)]) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut made: Vec<(String, String, String)> = calls
        .iter()
        .map(|(tool, asked, gave)| ((*tool).to_owned(), text(asked), text(gave)))
        .collect();
    made.push((
        "read".to_owned(),
        r#"{"path":"notes"}"#.to_owned(),
        words(7, 700),
    ));
    made.push(("list".to_owned(), "{}".to_owned(), "nothing".to_owned()));
    let made: Vec<(&str, &str, &str)> = made
        .iter()
        .map(|(tool, asked, gave)| (tool.as_str(), asked.as_str(), gave.as_str()))
        .collect();
    digest_in(target, &job(&made))
}

fn contract(id: &str, fee: u32, state: &str) -> Value {
    json!({"id": id, "fee": fee, "state": state, "owner": "Okafor"})
}

#[test]
fn what_was_only_tried_or_is_of_another_place_is_no_state() {
    let get = |id: &str| json!({ "id": id });
    for (tool, asked, gave) in [
        (
            "preview_change",
            json!({"id": "S-31", "fee": 900}),
            json!({"id": "S-31", "fee": 900, "state": "active", "by": "Okafor", "applied": false}),
        ),
        (
            "update_contract",
            json!({"id": "S-31", "fee": 900, "dry_run": true}),
            contract("S-31", 900, "active"),
        ),
        (
            "update_contract",
            json!({"id": "S-31", "fee": 900}),
            json!({"id": "S-31", "fee": 900, "state": "pending_approval", "owner": "Okafor"}),
        ),
        (
            "get_contract",
            json!({"id": "S-31", "env": "staging"}),
            contract("S-31", 900, "test"),
        ),
    ] {
        let digest = told(
            420,
            &[
                ("get_contract", get("S-31"), contract("S-31", 100, "active")),
                ("get_contract", get("C-44"), contract("C-44", 30, "active")),
                (tool, asked.clone(), gave),
            ],
        );
        let rows: Vec<&str> = digest
            .lines()
            .filter(|line| line.starts_with(" S-31,"))
            .collect();
        assert!(
            rows.iter().all(|row| row.contains("100")),
            "{tool} {asked}: {digest}"
        );
        assert!(digest.contains("100"), "{tool} {asked}: {digest}");
        assert!(
            !digest.contains("changed since"),
            "{tool} {asked}: {digest}"
        );
    }
}

#[test]
fn what_another_tool_tells_of_the_same_id_is_no_newer_state() {
    let order = |id: &str, total: u32, state: &str| {
        let carrier = "DHL";
        json!({"order_id": id, "total": total, "state": state, "carrier": carrier})
    };
    let get = |id: &str| json!({ "order_id": id });
    for (tool, asked) in [
        (
            "get_order_version",
            json!({"order_id": "O-31", "version": 1}),
        ),
        ("preview_cancel", get("O-31")),
        ("supplier_get_order", get("O-31")),
    ] {
        let digest = told(
            460,
            &[
                ("get_order", get("O-31"), order("O-31", 100, "open")),
                ("get_order", get("O-32"), order("O-32", 30, "open")),
                ("get_order", get("O-33"), order("O-33", 40, "open")),
                (tool, asked, order("O-31", 900, "cancelled")),
            ],
        );
        let is_row = |line: &&str| line.starts_with(" O-31,");
        assert!(
            !digest.lines().any(|line| is_row(&line)),
            "{tool}: {digest}"
        );
        assert!(
            digest.contains("state: open, total: 100"),
            "{tool}: {digest}"
        );
        assert!(
            digest.contains("→ get_order(order_id=O-31)"),
            "{tool}: {digest}"
        );
        assert!(
            digest.contains(&format!("→ {tool}(order_id=O-31")),
            "{digest}"
        );
        assert!(!digest.contains("changed since"), "{tool}: {digest}");
    }
}

#[test]
fn what_may_have_been_refused_leaves_the_old_value() {
    let issue = json!({"issue_id": "FAL-213", "points": 8, "priority": "High"});
    let set = json!({"issue_id": "FAL-213", "points": 13});
    let digest = |answer: Value| {
        let calls = [
            ("get_issue", json!({"issue_id": "FAL-213"}), issue.clone()),
            ("update_issue", set.clone(), answer),
        ];
        told(420, &calls)
    };
    for doubtful in [
        json!({"updated": 0}),
        json!({"code": 409, "message": "version conflict"}),
        json!("Not possible: the sprint is locked."),
    ] {
        let digest = digest(doubtful);
        assert!(digest.contains("points: 8 (asked since: 13)"), "{digest}");
    }
    for refused in [
        json!({"status": "declined"}),
        json!("Abgelehnt: Sprint gesperrt"),
    ] {
        let digest = digest(refused);
        assert!(digest.contains("points: 8,"), "{digest}");
        let tells = [" failed", "status: declined", "|Abgelehnt"];
        assert!(tells.iter().any(|told| digest.contains(told)), "{digest}");
    }
    for done in [
        json!({"ok": true}),
        json!("Updated."),
        json!({"status": 200}),
    ] {
        let digest = digest(done);
        assert!(digest.contains("points: (changed since)"), "{digest}");
    }
}

#[test]
fn a_number_is_the_id_of_one_thing_for_tools_named_alike() {
    let ticket =
        |id: u32| json!({"id": id, "state": "open", "title": words(id as usize, 2), "by": "Ana"});
    let user = json!({"id": 101, "state": "suspended", "name": "Hanna Kimm", "role": "guest"});
    let closed = json!({"id": 101, "state": "closed", "updated": true});
    let digest = told(
        460,
        &[
            ("get_ticket", json!({"id": 101}), ticket(101)),
            ("get_ticket", json!({"id": 102}), ticket(102)),
            (
                "update_ticket",
                json!({"id": 101, "state": "closed"}),
                closed,
            ),
            ("get_user", json!({"id": 101}), user),
        ],
    );
    assert!(
        digest.lines().any(|line| line.starts_with(" 101,closed")),
        "{digest}"
    );
    assert!(
        digest.lines().any(|line| line.starts_with(" 102,open")),
        "{digest}"
    );
}

#[test]
fn what_the_user_says_again_in_short_stays() {
    let mut all = job(&[("read", r#"{"path":"notes"}"#, &words(7, 700))]);
    all.pop();
    for _ in 0..3 {
        all.push(message("user", "A box of D-7."));
        all.push(message("assistant", "Added."));
    }
    all.push(message("user", "Go on."));
    let digest = digest_in(200, &all);
    assert_eq!(digest.matches("A box of D-7.").count(), 3, "{digest}");
}

#[test]
fn a_table_of_records_names_what_changed_them_since() {
    let page =
        |id: &str, title: &str| json!({"id": id, "title": title, "published": true, "by": "Ana"});
    let digest = told(
        420,
        &[
            ("get_page", json!({"id": "P-101"}), page("P-101", "Prices")),
            ("get_page", json!({"id": "P-102"}), page("P-102", "Team")),
            ("unpublish", json!({"page": "P-101"}), json!("done")),
            ("delete_page", json!({"page": "P-102"}), json!("deleted")),
        ],
    );
    let since = " … changed since: P-101 by unpublish, P-102 by delete_page";
    assert!(digest.contains(since), "{digest}");
}

#[test]
fn items_that_have_other_values_below_are_told_from_those_that_are_the_same() {
    let status = |version: &str, up: bool| {
        let replicas: Vec<Value> = (0..4)
            .map(|n| json!({"id": format!("r{n}x7"), "host": format!("h{n}.dc"), "up": up}))
            .collect();
        json!({ "version": version, "replicas": replicas })
    };
    let asked = json!({"service": "api"});
    let digest = |first: bool| {
        let calls = [
            ("status", asked.clone(), status("1.5.0", first)),
            ("status", asked.clone(), status("1.4.0", true)),
        ];
        told(420, &calls)
    };
    assert!(digest(false).contains("changed later"), "{}", digest(false));
    assert!(!digest(false).contains("told later"), "{}", digest(false));
    assert!(digest(true).contains("told later"), "{}", digest(true));
    assert!(
        digest(false).contains("→ status(service=api), older state"),
        "{}",
        digest(false)
    );
}

#[test]
fn what_a_call_set_is_changed_in_older_records_whatever_it_answers() {
    let issue = |points: u32| json!({"issue_id": "FAL-213", "points": points, "priority": "High"});
    let digest = |set: Value| {
        told(
            420,
            &[
                ("get_issue", json!({"issue_id": "FAL-213"}), issue(8)),
                ("update_issue", set, json!({"updated": true})),
            ],
        )
    };
    let changed = digest(json!({"issue_id": "FAL-213", "points": 3}));
    assert!(!changed.contains("points: 8"), "{changed}");
    assert!(changed.contains("points: (changed since)"), "{changed}");
    for other in [
        json!({"issue_id": "FAL-214", "points": 3}),
        json!({"issue_id": "FAL-213", "comment": "3 points"}),
    ] {
        let same = digest(other);
        assert!(same.contains("points: 8"), "{same}");
    }
}

#[test]
fn a_tool_undoes_what_the_rest_of_its_name_says() {
    let book = json!({"item": "B-330"});
    let calls = [
        ("return_item", book.clone(), json!({"ok": true, "fee": 120})),
        ("undo_return", book, json!({"ok": true, "state": "on loan"})),
    ];
    let digest = told(420, &calls);
    let is_undone = |line: &str| line.ends_with(", undone since");
    let of_return = digest.lines().find(|line| line.contains("return_item("));
    assert!(of_return.is_none_or(is_undone), "{digest}");
    let of_undo = digest.lines().find(|line| line.contains("undo_return("));
    assert!(of_undo.is_some_and(|line| !is_undone(line)), "{digest}");
}

#[test]
fn what_was_undone_says_so() {
    let card = json!({"card": "4407-x"});
    let digest = told(
        900,
        &[
            (
                "freeze_card",
                card.clone(),
                json!({"card": "4407-x", "state": "frozen"}),
            ),
            (
                "unfreeze_card",
                card,
                json!({"card": "4407-x", "state": "active"}),
            ),
        ],
    );
    assert!(
        digest.contains("→ unfreeze_card(card=4407-x)\n"),
        "{digest}"
    );
    let frozen = digest
        .lines()
        .find(|line| line.starts_with("→ freeze_card"));
    assert!(
        frozen.is_none_or(|line| line.ends_with(", undone since")),
        "{digest}"
    );
    let edit = json!({"path": "src/price.rs", "old": "return a", "new": "return a + 1"});
    let digest = told(
        420,
        &[
            ("edit_file", edit, json!("edited")),
            (
                "bash",
                json!({"command": "git restore src/price.rs"}),
                json!(""),
            ),
        ],
    );
    assert!(!digest.contains("changed src/price.rs"), "{digest}");
    assert!(digest.contains("git restore src/price.rs"), "{digest}");
}

#[test]
fn a_job_that_failed_is_no_longer_running() {
    let job = json!({"job_id": "b-9021"});
    let running = json!({"job_id": "b-9021", "status": "running"});
    let failed = json!({"job_id": "b-9021", "status": "failed", "error": "disk full"});
    let digest = told(
        420,
        &[
            ("start_backup", json!({"db": "crm"}), running),
            ("job_status", job, failed),
        ],
    );
    assert!(!digest.contains("running"), "{digest}");
    assert!(digest.contains("disk full"), "{digest}");
}

#[test]
fn changes_are_counted_together_only_in_a_row() {
    let deploy = ("deploy", json!({"version": "1.5.0"}), json!("deployed"));
    let back = (
        "rollback_release",
        json!({"to": "1.4.9"}),
        json!("rolled back"),
    );
    let digest = told(420, &[deploy.clone(), back, deploy.clone()]);
    assert!(!digest.contains("×2"), "{digest}");
    let digest = told(420, &[deploy.clone(), deploy]);
    assert!(digest.contains("→ deploy(version=1.5.0) ×2"), "{digest}");
}

#[test]
fn a_count_is_no_status_and_a_refusal_is_a_failure() {
    for fine in [
        "ok: 412 KB",
        "total: 404 rows",
        "count: 429",
        "exit: 0\nlines: 412",
    ] {
        let digest = told(300, &[("upload", json!({"path": "a.pdf"}), json!(fine))]);
        assert!(!digest.contains("failed"), "{fine}: {digest}");
    }
    let failures = Failures::default();
    for failure in [
        "Error from server (Forbidden): deployments is forbidden",
        r#"{"result":"DECLINED","reason":"insufficient funds"}"#,
        r#"<response code="403">locked</response>"#,
        "status: 503",
    ] {
        assert!(failures.of(None).are(failure), "{failure}");
    }
}

#[test]
fn a_page_of_a_list_says_that_there_are_more() {
    let rows: Vec<Value> = (0..4)
        .map(|n| json!({"id": format!("INV-30{n}"), "customer": words(n, 1), "amount": 120 + n}))
        .collect();
    let page = json!({"total_count": 34, "has_more": true, "invoices": rows});
    let digest = told(420, &[("list_invoices", json!({"state": "open"}), page)]);
    assert!(digest.contains("INV-302"), "{digest}");
    assert!(
        digest.contains("has_more: true, total_count: 34"),
        "{digest}"
    );
}

#[test]
fn a_list_that_is_gone_through_stays() {
    let ids: Vec<String> = (0..7).map(|n| format!("QX{n}FT{n}")).collect();
    let user =
        json!({"user_id": "ana_7", "email": "ana@mail.example", "level": "gold", "orders": ids});
    let mut calls = vec![("get_user", json!({"user_id": "ana_7"}), user)];
    for id in &ids[..4] {
        let legs: Vec<Value> = (0..3)
            .map(
                |n| json!({"leg": n, "from": words(n, 1), "to": words(n + 9, 1), "price": 100 + n}),
            )
            .collect();
        let order = json!({"order_id": id, "user_id": "ana_7", "kind": words(3, 2),
            "made": "2026-03-02", "legs": legs});
        calls.push(("get_order", json!({ "order_id": id }), order));
    }
    let texts: Vec<(String, String, String)> = calls
        .iter()
        .map(|(tool, asked, gave)| ((*tool).to_owned(), asked.to_string(), gave.to_string()))
        .collect();
    let made: Vec<(&str, &str, &str)> = texts
        .iter()
        .map(|(tool, asked, gave)| (tool.as_str(), asked.as_str(), gave.as_str()))
        .collect();
    let mut all = job(&made);
    all.pop();
    let digest = digest_in(300, &all);
    for id in &ids[4..] {
        assert!(digest.contains(id.as_str()), "{id}: {digest}");
    }
}

#[test]
fn what_others_wrote_is_not_what_the_user_says() {
    let mut all = job(&[("list", "{}", "nothing")]);
    all.pop();
    let mail = "Is this mail genuine or a fraud? I got it this morning:\n\n\
        Dear Sir,\nplease transfer 900 EUR to account AT61 1904 3002 3457 3201 today.\n\
        Delete this message afterwards.";
    all.extend([
        message("user", mail),
        message("assistant", "It is a fraud."),
    ]);
    for n in 0..6 {
        all.extend([
            message("user", &format!("Tell me about {}.", words(n, 12))),
            message("assistant", &words(n + 40, 60)),
        ]);
    }
    all.push(message("user", "Go on."));
    let mut shown = 0;
    for target in [150, 200, 260, 340, 900] {
        let digest = digest_in(target, &all);
        if digest.contains("transfer 900 EUR") {
            shown += 1;
            assert!(
                digest.contains("Is this mail genuine or a fraud?"),
                "{target}: {digest}"
            );
        }
    }
    assert!(shown > 0, "it is shown where there is room");
}

#[test]
fn what_is_only_supposed_does_not_look_like_what_was_done() {
    let mut all = job(&[("list", "{}", "nothing")]);
    all.pop();
    let supposed = "Here's a simulation of it. Order 5517 is cancelled. \
        The customer gets 40 EUR back. The stock grows by one. None of this has been executed.";
    all.extend([
        message("user", "What would happen if I cancelled order 5517?"),
        message("assistant", supposed),
        message("user", &words(5, 90)),
        message("assistant", &words(6, 90)),
        message("user", "Go on."),
    ]);
    let mut shown = 0;
    for target in [150, 200, 260, 900] {
        let digest = digest_in(target, &all);
        if digest.contains("Order 5517 is cancelled") {
            shown += 1;
            assert!(
                digest.contains("None of this has been executed"),
                "{target}: {digest}"
            );
        }
    }
    assert!(shown > 0, "it is shown where there is room");
}

#[test]
fn of_several_users_each_has_a_name() {
    let mut all = job(&[("list", "{}", "nothing")]);
    all.pop();
    for (name, said) in [
        ("Maria", "I want the blue sofa, not the red one."),
        ("Jens", "Keep the red one, and pay with my card."),
    ] {
        all.push(json!({"role": "user", "name": name, "content": said}).to_string());
        all.push(message("assistant", &words(3, 60)));
    }
    all.push(message("user", "Go on."));
    let digest = digest_in(200, &all);
    assert!(digest.contains("Maria: I want the blue sofa"), "{digest}");
    assert!(digest.contains("Jens: Keep the red one"), "{digest}");
}

#[test]
fn the_rest_of_a_function_stays_whose_first_line_was_edited() {
    let body: Vec<String> = (0..9)
        .map(|n| {
            format!(
                "        let {} = self.{}({n});",
                words(n, 1),
                words(n + 50, 1)
            )
        })
        .collect();
    let file = format!(
        "//! A bucket.\n\nimpl Bucket {{\n{}\n    pub fn take_one(&mut self) -> Verdict {{\n{}\n\
        \x20   }}\n}}\n",
        (0..30)
            .map(|n| format!("    // {}", words(n, 9)))
            .collect::<Vec<_>>()
            .join("\n"),
        body.join("\n")
    );
    let patch = "*** Begin Patch\n*** Update File: src/bucket.rs\n@@ impl Bucket\n\
        -    pub fn take_one(&mut self) -> Verdict {\n\
        +    pub fn take_one(&mut self, now: Instant) -> Verdict {\n\
        *** End Patch";
    let filler = words(11, 900);
    let asked = json!({"cmd": "cat src/bucket.rs"}).to_string();
    let patched = json!({ "patch": patch }).to_string();
    let mut all = job(&[
        ("shell", asked.as_str(), file.as_str()),
        ("apply_patch", patched.as_str(), "Done."),
        ("read", r#"{"path":"notes"}"#, filler.as_str()),
        ("list", "{}", "nothing"),
    ]);
    all.pop();
    all.extend([
        message("assistant", "It rounds down."),
        message("user", "Then change take_one() to round up."),
    ]);
    let digest = digest_in(900, &all);
    let there = body
        .iter()
        .filter(|line| digest.contains(line.trim()))
        .count();
    assert!(there >= 7, "{there}: {digest}");
    assert!(digest.contains("now: Instant"), "{digest}");
}

#[test]
fn a_removed_line_makes_a_diff_no_older_state() {
    let diff = "--- a/retry.py\n+++ b/retry.py\n@@ -4,3 +4,3 @@\n def wait(attempt):\n\
        -    return 2 ** attempt  # seconds, without a limit\n\
        +    return min(30, 2 ** attempt)\n";
    let asked = json!({"command": "git diff"});
    let twice = [
        ("run", asked.clone(), json!(diff.replace("30", "60"))),
        ("run", asked.clone(), json!(diff)),
    ];
    // The whole diff fits.
    let newest = told(420, &twice[1..]);
    assert!(newest.contains(" |-    return 2 ** attempt"), "{newest}");
    assert!(!newest.contains("older state"), "{newest}");
    let both = told(700, &twice);
    assert_eq!(both.matches("older state").count(), 1, "{both}");
}
