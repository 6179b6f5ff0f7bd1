//! What was decided, and what goes with it: the option that was chosen between refused ones, what
//! was confirmed in a word, the plan as it was told last, how a program was run, the rows of what
//! the parties talk about.

use serde_json::{Value, json};

use crate::support::{message, words};

use super::digest_needs::digest_in;
use super::{calls, result, tokens};

/// Work that nobody needs any more, which takes room.
fn filler(from: usize, exchanges: usize) -> Vec<String> {
    (from..from + exchanges)
        .flat_map(|n| {
            let id = format!("call_filler_{n}");
            let path = format!(r#"{{"path":"docs/page_{n}.md"}}"#);
            [
                message("user", &format!("And what does page {n} say?")),
                calls(&[(id.as_str(), "read_page", path.as_str())]),
                result(&id, &words(n + 3, 90)),
                message("assistant", &format!("Page {n} is about {}.", words(n, 6))),
            ]
        })
        .collect()
}

fn with_filler(decided: &[String]) -> Vec<String> {
    let first = message("user", "Have a look at the table, please.");
    let last = message("user", "Good. Go on, please.");
    [&[first][..], decided, &filler(0, 6), &[last]].concat()
}

fn digest_of(all: &[String], percent: u64) -> String {
    digest_in(tokens(all) * percent / 100, all)
}

#[test]
fn the_option_between_refused_ones_is_told_and_these_are_not() {
    let all = with_filler(&[
        message(
            "assistant",
            "Options:\n\nA) rewrite the table in place, which locks it for hours\n\
             B) a new column `ref_big` with a trigger, filled in batches\n\
             C) a new table with partitions, and a rename\n\
             D) let the sequence start at -2147483648, which buys 200 weeks",
        ),
        message(
            "user",
            "D is out, the scanners treat negatives as errors. A obviously not. C I'd love, but \
             not this quarter. So B. What I ask for:\n\n- only between 22:00 and 04:30\n\
             - stop if the standby lags more than 30 s",
        ),
    ]);
    let digest = digest_of(&all, 30);
    assert!(digest.contains("ref_big"), "{digest}");
    assert!(!digest.contains("-2147483648"), "{digest}");
}

#[test]
fn what_was_confirmed_in_a_word_is_told_with_its_code() {
    let all = with_filler(&[
        message(
            "assistant",
            "The statements for the primary, please confirm:\n```sql\nset lock_timeout='2s';\n\
             alter table shipments add column ref_big bigint;\n```",
        ),
        message("user", "confirmed"),
    ]);
    let digest = digest_of(&all, 30);
    assert!(digest.contains("set lock_timeout='2s';"), "{digest}");
    assert!(digest.contains("add column ref_big bigint"), "{digest}");
}

#[test]
fn a_plan_is_told_as_it_was_told_last() {
    let day = |day: &str, what: [&str; 3]| {
        format!(
            "**{day}**\n- 09:30 {}\n- 13:00 {}\n- 19:00 {}\n\n",
            what[0], what[1], what[2]
        )
    };
    let draft = [
        day("Friday 19 June", ["arrival", "coffee", "supper"]),
        day(
            "Saturday 20 June",
            ["birthday breakfast", "canoe", "dinner at the Seeprinz"],
        ),
        day("Sunday 21 June", ["palace garden", "boat tour", "barbecue"]),
    ];
    let all = with_filler(&[
        message(
            "assistant",
            &format!("A first draft.\n\n{}", draft.concat()),
        ),
        message(
            "user",
            "The birthday is on Sunday! So breakfast and dinner move. No canoe.",
        ),
        message(
            "assistant",
            "Revised:\n\n**Fri 19**: arrival, coffee, supper\n**Sat 20**: palace garden, barbecue\n\
             **Sun 21**: birthday breakfast, electric boat, dinner",
        ),
    ]);
    for percent in [30, 50] {
        let digest = digest_of(&all, percent);
        assert!(
            !digest.contains("canoe\n") && !digest.contains("Seeprinz"),
            "{digest}"
        );
    }
    assert!(digest_of(&all, 50).contains("electric boat"));
}

#[test]
fn how_a_program_was_run_is_told_where_it_is_run_again() {
    let run = "./ops/fill.py --table shipments --to-pk 1806131589 --batch 5000 --lag-standby \
               replica_dr --max-lag 30 --window 22:00-04:30 --checkpoint /var/lib/fill/big.ckpt";
    let again = "./ops/fill.py --table shipments --to-pk 1806131589 --batch 5000 --dry-run";
    let call = |command: &str| json!({ "command": command }).to_string();
    let (run, again) = (call(run), call(again));
    let log: String = (0..40)
        .map(|n| format!("22:{:02}:10 INFO pk={} rows={}\n", n, n * 5_000, n * 4_870))
        .collect();
    let mut all = with_filler(&[
        calls(&[("call_1", "shell", run.as_str())]),
        result("call_1", &log),
        message("assistant", "The first night is done."),
    ]);
    all.extend([
        calls(&[("call_2", "shell", again.as_str())]),
        result("call_2", "DRY 5000 rows"),
        message("assistant", "The dry run looks good."),
        message("user", "Then start tonight's run, all arguments explicit."),
    ]);
    let digest = digest_of(&all, 40);
    assert!(
        digest.contains("--lag-standby replica_dr --max-lag 30"),
        "{digest}"
    );
    assert!(digest.contains("/var/lib/fill/big.ckpt"), "{digest}");
}

/// The rows of the order that is talked about come before those of other ones, though their ids
/// are known, and others' are not.
#[test]
fn the_rows_of_what_the_parties_talk_about_come_first() {
    let row = |n: usize| {
        let order = if n % 6 == 2 { 45_207 } else { 45_300 + n * 13 };
        json!({"receipt": format!("GR-{}", 561_800 + n * 7), "order": format!("PO-{order}"),
            "line": 10 * (1 + n % 4), "qty": 100 + n * 31, "dock": format!("Q{}", 1 + n % 4)})
    };
    let rows: Vec<Value> = (0..36).map(row).collect();
    let all = with_filler(&[
        message("assistant", "The mismatch is in PO-45207 of Brandt."),
        message("user", "Start with Brandt, PO-45207."),
        calls(&[("call_1", "list_receipts", r#"{"from":"2025-09-01"}"#)]),
        result("call_1", &json!({ "count": 36, "rows": rows }).to_string()),
    ]);
    let digest = digest_of(&all, 35);
    let own = digest.matches(",PO-45207,").count();
    let others = digest.matches(",PO-45").count() - own;
    assert!(own == 6 && others < 30, "{own} {others} {digest}");
}

#[test]
fn a_printed_table_that_is_shown_whole_has_no_marks_of_gaps() {
    let table = " slot      | plugin | active | lag\n-----------+--------+--------+-------\n \
                 replica1  |        | t      | 1 kB\n dwh_7     | pgout  | t      | 41 MB\n \
                 old_bi_41 | wal2   | f      | 611 GB\n(3 rows)\n";
    let all = with_filler(&[
        calls(&[(
            "call_1",
            "sql",
            r#"{"statement":"select slot, lag from slots"}"#,
        )]),
        result("call_1", table),
        message("assistant", "old_bi_41 holds 611 GB."),
    ]);
    let digest = digest_of(&all, 60);
    let shown = digest.split("→ sql(").nth(1).unwrap();
    let shown = shown.split("assistant:").next().unwrap();
    assert!(shown.contains("dwh_7"), "{digest}");
    assert!(!shown.contains('…') && !shown.contains("-----"), "{digest}");
}

/// The same call was made again: what it was given is what was given.
#[test]
fn arguments_that_a_later_call_gave_again_are_told_as_they_are() {
    let amend = r#"{"order_id":"O-77","line":1,"qty":1,"cuts":[]}"#;
    let refused = r#"{"error":{"code":"PICK_LOCKED","message":"order is in picking"}}"#;
    let done = r#"{"ok":true,"order_id":"O-77","line":1,"old_qty":2,"new_qty":1}"#;
    let all = with_filler(&[
        calls(&[("call_1", "amend_order", amend)]),
        result("call_1", refused),
        calls(&[("call_2", "stop_picking", r#"{"order_id":"O-77"}"#)]),
        result("call_2", r#"{"ok":true}"#),
        calls(&[("call_3", "amend_order", amend)]),
        result("call_3", done),
        message("assistant", "One was taken out."),
    ]);
    for percent in [30, 60] {
        let digest = digest_of(&all, percent);
        assert!(!digest.contains("changed since"), "{digest}");
        assert!(
            digest.contains("amend_order(order_id=O-77, line=1, qty=1, cuts=[])"),
            "{digest}"
        );
    }
}
