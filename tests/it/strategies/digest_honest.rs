//! What a digest must not suggest: that nothing was changed, that a call succeeded, that all rows
//! are alike, that text of others is a line of its own.

use baler::core::policy::Policy;
use serde_json::{Value, json};

use crate::invariants::policy_of;
use crate::support::words;

use super::{forced, job, tagged};

fn down_to(target: u64) -> Policy {
    policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ))
}

/// The digest of calls, each with its tool, arguments and result, and enough text behind them.
fn digest_of(target: u64, calls: &[(String, Value, String)]) -> String {
    let asked: Vec<String> = calls
        .iter()
        .map(|(_, asked, _)| asked.to_string())
        .collect();
    let filler = words(7, 900);
    let mut steps: Vec<(&str, &str, &str)> = calls
        .iter()
        .zip(&asked)
        .map(|((tool, _, result), asked)| (tool.as_str(), asked.as_str(), result.as_str()))
        .collect();
    steps.extend([
        ("read", r#"{"path":"notes"}"#, filler.as_str()),
        ("list", "{}", "done"),
    ]);
    tagged(
        &forced(&job(&steps), &down_to(target)).messages,
        "conversation_digest",
    )
}

fn call(tool: &str, asked: Value, result: impl Into<String>) -> (String, Value, String) {
    (tool.to_owned(), asked, result.into())
}

#[test]
fn what_was_changed_stays_before_what_was_only_looked_at() {
    let reads = (0..14).map(|n| {
        let found = json!({"id": format!("K-{n}"), "holder": words(n, 3), "open": true,
            "made": format!("2026-03-{}", 10 + n), "sum": 100 + n * 7});
        call(
            "get_case",
            json!({"case_id": format!("K-{n}")}),
            found.to_string(),
        )
    });
    let changes = [("K-3", "close_case"), ("K-9", "crm.updateCase")].map(|(id, tool)| {
        call(
            tool,
            json!({"case_id": id, "by": "desk 4"}),
            r#"{"ok":true}"#,
        )
    });
    let mut calls: Vec<_> = reads.collect();
    calls.insert(4, changes[0].clone());
    calls.insert(10, changes[1].clone());
    for target in [260, 320, 400] {
        let digest = digest_of(target, &calls);
        for changed in [
            "→ close_case(by=desk 4, case_id=K-3)",
            "→ crm.updateCase(by=desk 4, case_id=K-9)",
        ] {
            assert!(digest.contains(changed), "{target}: {digest}");
        }
    }
}

#[test]
fn a_failure_without_its_report_says_that_it_is_one() {
    let pages = (0..12).map(|n| call("open_page", json!({"n": n}), words(n, 70)));
    let mut calls: Vec<_> = pages.collect();
    let failed = format!("Error: {}", words(3, 150));
    calls.insert(5, call("click", json!({"at": "order 7"}), failed));
    calls.insert(6, call("click", json!({"at": "order 8"}), words(9, 120)));
    let mut hidden = 0;
    for target in (240..900).step_by(20) {
        let digest = digest_of(target, &calls);
        let mut lines = digest
            .lines()
            .skip_while(|line| !line.contains("at=order 7"));
        let Some(head) = lines.next() else { continue };
        let told = lines
            .take_while(|line| line.starts_with(' '))
            .any(|line| line.contains("Error: "));
        assert_eq!(!told, head.ends_with(" failed"), "{digest}");
        hidden += u32::from(!told);
        let fine = digest.lines().find(|line| line.contains("at=order 8"));
        assert!(fine.is_none_or(|line| !line.contains("failed")), "{digest}");
    }
    assert!(hidden > 0, "the report had room every time");
}

/// The reason stands beside a code, or behind a head that announces it.
#[test]
fn the_last_failure_stays_with_its_reason() {
    let why = "claim C-7 cannot be handed in while its booking stands; cancel it as MEDICAL first";
    let refused = json!({"error": {"code": "NOT_CANCELLED", "retryable": true, "message": why}});
    let trace = format!("Traceback (most recent call last):\n  File \"run.py\"\nValueError: {why}");
    for result in [refused.to_string(), trace] {
        let reads = (0..12).map(|n| {
            let found = json!({"id": format!("R{n}"), "fare": 310 + n, "cabin": "economy",
                "seat": format!("1{n}C"), "made": format!("2026-05-{}", 10 + n)});
            call(
                "get_booking",
                json!({"id": format!("R{n}")}),
                found.to_string(),
            )
        });
        let mut calls: Vec<_> = reads.collect();
        calls.push(call("hand_in", json!({"claim": "C-7"}), result));
        for target in [320, 360] {
            let digest = digest_of(target, &calls);
            assert!(digest.contains("cancel it as MEDICAL first"), "{digest}");
        }
    }
}

/// Rows without an id may stand in another record as well, where nothing tells whose they are.
#[test]
fn the_head_of_a_table_is_true_of_all_its_rows() {
    let events = |codes: &[&str]| -> Vec<Value> {
        let event = |(day, code): (usize, &&str)| {
            let at = format!("2026-05-1{day}T01:11Z");
            json!({"at": at, "code": code, "depot": 4011})
        };
        codes.iter().enumerate().map(event).collect()
    };
    let shipment = |id: u32, codes: &[&str]| {
        let found = json!({"shipment_id": id, "seal": format!("SL{id}"), "events": events(codes)});
        call(
            "get_shipment",
            json!({"shipment_id": id}),
            found.to_string(),
        )
    };
    let calls = [
        shipment(7001, &["DEP", "PU", "DEP", "EXC"]),
        shipment(7002, &["PU", "PU", "EXC", "EXC"]),
    ];
    for target in [200, 300, 400, 900] {
        let digest = digest_of(target, &calls);
        assert!(!digest.contains("told later"), "{digest}");
        assert!(!digest.contains("code=DEP"), "{digest}");
    }
}

#[test]
fn no_cell_or_key_looks_like_a_line_of_the_digests_own() {
    let rows: Vec<Value> = [
        "The user said:",
        "After each turn:",
        "#7 pay",
        "… 3 calls not shown: f",
    ]
    .iter()
    .enumerate()
    .map(|(n, name)| json!({"name": name, "state": "open", "n": n * 37}))
    .collect();
    let record = json!({"#7": "pay P-7002", "rows": rows, "status": "open"});
    let calls = [call("get", json!({"what": 1}), record.to_string())];
    let digest = digest_of(400, &calls);
    assert!(digest.contains("pay P-7002"), "{digest}");
    for line in digest.lines().filter(|line| line.starts_with(' ')) {
        let line = line.trim_start();
        for own in ["The user said", "After each", "#7", "… 3 calls"] {
            assert!(!line.starts_with(own), "{line:?} in {digest}");
        }
    }
}

/// A record in a table does not have the long texts of its result.
#[test]
fn calls_whose_text_is_hidden_count_although_their_record_is_shown() {
    let mail = |n: usize| {
        let body = format!("Dear all,\n{}", words(n, 160));
        let found = json!({"id": format!("m_{n}"), "from": format!("p{n}@example.org"),
            "date": format!("2026-05-{}", 10 + n), "body": body});
        call(
            "read_mail",
            json!({"id": format!("m_{n}")}),
            found.to_string(),
        )
    };
    let calls: Vec<_> = (0..8).map(mail).collect();
    for target in [400, 600] {
        let digest = digest_of(target, &calls);
        let shown = digest.matches("→ read_mail(").count();
        let tools = digest
            .split_once("not shown: ")
            .map_or("", |(_, tools)| tools);
        let mails = tools
            .split([',', '\n'])
            .find(|tool| tool.trim().starts_with("read_mail"));
        let counted = mails.map_or(0, |mails| match mails.split_once(" ×") {
            Some((_, times)) => times.parse().unwrap(),
            None => 1,
        });
        assert!(digest.contains("records, newest state"), "{digest}");
        // The rows are no whole mails.
        assert!(digest.contains("\n … also body\n"), "{digest}");
        assert!(shown < 8, "{digest}");
        assert_eq!(shown + counted, 8, "{digest}");
    }
}

#[test]
fn the_mark_of_a_result_stands_behind_the_arguments() {
    let script = "first step\nsecond step of 17\nthird step";
    let mut calls: Vec<_> = (0..10)
        .map(|n| call("look", json!({"n": n}), words(n, 60)))
        .collect();
    calls.push(call("run", json!({"script": script}), words(5, 200)));
    let mut seen = 0;
    for target in (150..500).step_by(20) {
        let digest = digest_of(target, &calls);
        let lines: Vec<&str> = digest.lines().collect();
        let Some(at) = lines.iter().position(|line| line.starts_with("→ run(")) else {
            continue;
        };
        let has_argument = lines[at + 1].starts_with("  |");
        assert!(!(has_argument && lines[at].ends_with(" …")), "{digest}");
        seen += u32::from(has_argument);
    }
    assert!(seen > 0, "no target shows the script");
}

#[test]
fn what_was_set_anew_since_does_not_look_like_what_is_there() {
    let reads = (0..6).map(|n| call("read_page", json!({"n": n}), words(n, 50)));
    let mut calls: Vec<_> = reads.collect();
    let set = |asked: Value| call("calendar_update", asked, r#"{"ok":true,"etag":"a91"}"#);
    calls.insert(
        1,
        set(json!({"id": "ev-7", "start": "2026-03-02T09:30", "hall": "Hall Amber"})),
    );
    calls.insert(3, set(json!({"id": "ev-7", "hall": "Hall Birch"})));
    calls.insert(5, set(json!({"id": "ev-8", "hall": "Hall Cedar"})));
    // One that failed set nothing.
    calls.insert(
        7,
        call(
            "calendar_update",
            json!({"id": "ev-8", "hall": "Hall Dahlia"}),
            "Error: no such hall",
        ),
    );
    for target in (160..500).step_by(20) {
        let digest = digest_of(target, &calls);
        assert!(!digest.contains("Amber"), "{target}: {digest}");
        let first = digest
            .lines()
            .find(|line| line.contains("ev-7") && line.contains("start="));
        assert!(
            first.is_none_or(|line| line.contains("hall=(changed since)")),
            "{digest}"
        );
    }
    let all = digest_of(500, &calls);
    for set in [
        "start=2026-03-02T09:30",
        "hall=Hall Birch",
        "hall=Hall Cedar",
    ] {
        assert!(all.contains(set), "{set}: {all}");
    }
}

/// Two cells of a sheet, two meetings of a person, two notes: the second call replaces nothing.
#[test]
fn calls_about_parts_of_a_thing_replace_nothing() {
    let set = |tool: &str, asked: Value| call(tool, asked, r#"{"ok":true}"#);
    let calls = [
        set(
            "update_sheet",
            json!({"sheet_id": "S-1", "cell": "A1", "text": "Amber"}),
        ),
        set(
            "update_sheet",
            json!({"sheet_id": "S-1", "cell": "B1", "text": "Birch"}),
        ),
        set("set_reminder", json!({"person_id": "P-1", "at": "Cedar"})),
        set("set_reminder", json!({"person_id": "P-1", "at": "Dahlia"})),
        set("updateOrder", json!({"orderId": "O-1", "tree": "Elm"})),
        set("updateOrder", json!({"orderId": "O-1", "tree": "Fir"})),
        set(
            "updateOrder",
            json!({"orderId": "O-1", "internalNote": "Gorse"}),
        ),
        set(
            "updateOrder",
            json!({"orderId": "O-1", "internalNote": "Hazel"}),
        ),
    ];
    let digest = digest_of(500, &calls);
    for (value, stays) in [
        ("Amber", true),
        ("Birch", true),
        ("Cedar", true),
        ("Elm", false),
        ("Gorse", true),
        ("Hazel", true),
    ] {
        assert_eq!(digest.contains(value), stays, "{value}: {digest}");
    }
}

#[test]
fn an_argument_with_commas_does_not_look_like_several() {
    let step = "PN: closed, stage=won, revisit in May";
    let calls = [
        call(
            "update_deal",
            json!({"deal": "D-20418", "next_step": step}),
            r#"{"ok":true}"#,
        ),
        call("run", json!({"command": "echo a, b"}), "a, b"),
    ];
    let digest = digest_of(400, &calls);
    assert!(
        digest.contains(&format!("next_step=\"{step}\"")),
        "{digest}"
    );
    assert!(digest.contains("→ run(command=echo a, b)"), "{digest}");
}

/// That something was done is no state of what it was done to.
#[test]
fn an_acknowledgement_is_no_record() {
    let update = |n: usize| {
        let done =
            json!({"id": format!("ev-{n}"), "ok": true, "etag": format!("a{n}"), "notified": n});
        call(
            "calendar_update",
            json!({"id": format!("ev-{n}"), "hall": words(n, 1)}),
            done.to_string(),
        )
    };
    let calls: Vec<_> = (3..6).map(update).collect();
    let digest = digest_of(400, &calls);
    assert!(!digest.contains("newest state"), "{digest}");
    assert!(digest.contains("→ calendar_update("), "{digest}");
}

/// No row, and no line below a call, has a value that a newer result shows to be another one.
#[test]
fn what_a_newer_result_changed_does_not_look_like_what_is_there() {
    let draft = |n: usize| {
        let draft = json!({
            "adjustment_id": format!("AJ-70{n}"), "amount": 119 + n, "status": "draft",
            "reason": words(n, 4),
        });
        let id = json!({"adjustment_id": format!("AJ-70{n}")});
        call("get_adjustment", id, draft.to_string())
    };
    let run = |n: usize, state: &str| json!({"run_id": format!("R-80{n}"), "state": state});
    let runs = |state: &str| {
        let runs: Vec<Value> = (1..5).map(|n| run(n, state)).collect();
        json!({"count": 4, "runs": runs}).to_string()
    };
    let reviews = |is: &str| {
        let review = |n: usize| json!({"review_id": format!("V-{n}"), "is": is, "by": words(n, 3)});
        json!({"reviews": [review(9), review(8)]}).to_string()
    };
    let submitted = r#"{"adjustment_id":"AJ-701","status":"submitted"}"#;
    let calls = [
        draft(1),
        draft(2),
        call("list_runs", json!({"branch": "a"}), runs("failed")),
        call("submit", json!({"adjustment_id": "AJ-701"}), submitted),
        call(
            "get_run",
            json!({"run_id": "R-803"}),
            run(3, "passed").to_string(),
        ),
        call("list_reviews", json!({"pull": 7}), reviews("refused")),
        call("list_reviews", json!({"pull": 7}), reviews("granted")),
    ];
    let mut shown = 0;
    for target in (120..700).step_by(20) {
        let digest = digest_of(target, &calls);
        for line in digest.lines() {
            for (id, old) in [("AJ-701", "draft"), ("R-803", "failed"), ("V-9", "refused")] {
                assert!(
                    !line.contains(id) || !line.contains(old),
                    "{target}: {digest}"
                );
            }
        }
        assert!(!digest.contains("refused"), "{target}: {digest}");
        shown += usize::from(digest.contains("AJ-702") && digest.contains("draft"));
    }
    assert!(shown > 0);
}

/// A failure that was made good is not told without what made it good.
#[test]
fn a_failure_that_was_overcome_does_not_look_like_the_outcome() {
    let ask = |supplier: &str, result: &str| {
        let asked = json!({"supplier_id": supplier, "note": words(3, 12)});
        call("send_rfq", asked, result)
    };
    let calls = [
        ask("S-152", "Error: the address bounced"),
        ask("S-152", r#"{"rfq_id":"RFQ-906","state":"out"}"#),
        ask("S-160", "Error: the address bounced"),
        ask("S-171", r#"{"rfq_id":"RFQ-907","state":"out"}"#),
    ];
    let mut shown = 0;
    for target in (100..500).step_by(20) {
        let digest = digest_of(target, &calls);
        let of_failed = |line: &&str| line.contains("S-152") && line.contains("failed");
        let failed = digest.lines().any(|line| of_failed(&line));
        assert!(!failed || digest.contains("RFQ-906"), "{target}: {digest}");
        shown += usize::from(digest.contains("S-160"));
    }
    assert!(shown > 0);
}

/// What a change answers with may tell of the change only.
#[test]
fn answers_of_changes_alone_are_no_newest_state() {
    let accept = |claim: &str, documents: [&str; 1]| {
        let done = json!({
            "claim_id": claim, "accepted": documents, "missing": ["D5"], "at": "2026-03-02",
        });
        let asked = json!({"claim_id": claim, "documents": documents});
        call("accept_documents", asked, done.to_string())
    };
    let calls = [
        accept("CL-1", ["K-1"]),
        accept("CL-1", ["K-2"]),
        accept("CL-2", ["K-3"]),
    ];
    let digest = digest_of(500, &calls);
    assert!(!digest.contains("newest state"), "{digest}");
    assert!(digest.contains("K-1") && digest.contains("K-3"), "{digest}");
}

#[test]
fn a_plan_that_was_replaced_tells_nothing() {
    let plan = |step: &str, done: [&str; 2]| {
        json!({"todos": [
            {"content": format!("{step} the parser"), "status": done[0]},
            {"content": "measure the parser", "status": done[1]},
            {"content": "describe the parser", "status": "pending"},
        ]})
    };
    let calls = [
        call(
            "todo_write",
            plan("sketch", ["in_progress", "pending"]),
            "ok",
        ),
        call(
            "todo_write",
            plan("write", ["completed", "in_progress"]),
            "ok",
        ),
    ];
    let digest = digest_of(3_000, &calls);
    assert!(digest.contains("write the parser,completed"), "{digest}");
    for old in ["sketch", "measure the parser,pending"] {
        assert!(!digest.contains(old), "{old}: {digest}");
    }
}

#[test]
fn a_failure_whose_success_has_no_room_says_that_there_was_one() {
    let timeout = json!({"error": {"code": "TIMEOUT", "message": "not reachable", "status": 504}});
    let mut calls = vec![
        call(
            "look_up_plate",
            json!({"plate": "GK417RT"}),
            timeout.to_string(),
        ),
        call("look_up_plate", json!({"plate": "GK417RT"}), words(3, 400)),
    ];
    let digest = digest_of(1_400, &calls);
    assert!(digest.contains(", succeeded since"), "{digest}");
    // Another plate is another thing.
    calls[1].1 = json!({"plate": "ZZ1"});
    let digest = digest_of(1_400, &calls);
    assert!(!digest.contains(", succeeded since"), "{digest}");
}

#[test]
fn a_line_that_was_edited_since_is_not_told_as_the_file_has_it() {
    let line = |clock: &str| format!("    l := &Lease{{ID: id, granted: {clock}}}");
    let found = format!(
        "a/grant.go:27:{}\na/restore.go:19:    l := &Lease{{ID: r}}",
        line("now()")
    );
    let edit =
        json!({"path": "a/grant.go", "old_string": line("now()"), "new_string": line("clock()")});
    let calls = [
        call("grep", json!({"pattern": "&Lease"}), found),
        call("edit_file", edit, "edited"),
    ];
    let digest = digest_of(4_000, &calls);
    assert!(digest.contains("restore.go:19"), "{digest}");
    assert!(!digest.contains("grant.go:27"), "{digest}");
}

/// Two payments by one card are two payments: what they refer to does not make them states of one.
#[test]
fn payments_that_refer_to_one_card_are_no_states_of_one_payment() {
    let paid =
        |kind: &str, amount: f64| json!({"kind": kind, "amount": amount, "card_id": "card_77"});
    let order = |id: &str, history: &[Value]| {
        json!({"order_id": id, "status": "open", "address": words(3, 12), "payments": history})
            .to_string()
    };
    let calls = [
        call(
            "get_order",
            json!({"order_id": "W-11"}),
            order("W-11", &[paid("payment", 61.25)]),
        ),
        call(
            "cancel_order",
            json!({"order_id": "W-12"}),
            order("W-12", &[paid("payment", 48.75), paid("refund", 48.75)]),
        ),
        call("read_page", json!({"n": 1}), words(4, 120)),
    ];
    for target in (220..500).step_by(20) {
        let digest = digest_of(target, &calls);
        assert!(!digest.contains("changed since"), "{target}: {digest}");
    }
    let all = digest_of(500, &calls);
    assert!(all.contains("61.25") && all.contains("48.75"), "{all}");
}

/// Rows show what things are like; whoever reads that one is cancelled must see that he did it.
#[test]
fn a_change_is_told_although_a_row_shows_what_came_of_it() {
    let booking = |id: &str, status: &str| {
        let seats: Vec<Value> = (1..4)
            .map(|n| json!({"seat": n, "name": words(n, 2)}))
            .collect();
        json!({"booking_id": id, "status": status, "cabin": "B", "bags": 1, "seats": seats})
            .to_string()
    };
    let about = |tool: &str, id: &str, status: &str| {
        call(tool, json!({"booking_id": id}), booking(id, status))
    };
    let calls = [
        about("get_booking", "BK-31", "open"),
        about("get_booking", "BK-32", "open"),
        about("cancel_booking", "BK-32", "cancelled"),
        about("get_booking", "BK-33", "open"),
        call("read_page", json!({"n": 1}), words(4, 160)),
    ];
    let mut rows = 0;
    for target in (240..500).step_by(20) {
        let digest = digest_of(target, &calls);
        let row = digest.lines().find(|line| line.starts_with(" BK-32,"));
        rows += usize::from(row.is_some_and(|row| row.contains("cancelled")));
        let done = digest.contains("→ cancel_booking(booking_id=BK-32)");
        assert!(done || row.is_none(), "{target}: {digest}");
    }
    assert!(rows > 3, "no target shows the row");
}
