//! What comes next, as far as it was agreed before: the function that the user names and the files
//! of a patch, the items that he answered by their numbers, the proposal that he agrees to some
//! messages later. And what is not one thing though it looks like it.

use serde_json::{Value, json};

use crate::support::{message, words};

use super::digest_needs::digest_in;
use super::{calls, result, tokens};

/// Calls and their results, which a model reads and nobody needs any more.
fn filler(exchanges: usize) -> Vec<String> {
    (0..exchanges)
        .flat_map(|n| {
            let id = format!("call_filler_{n}");
            let path = format!(r#"{{"path":"docs/page_{n}.md"}}"#);
            [
                calls(&[(id.as_str(), "read_page", path.as_str())]),
                result(&id, &words(n + 3, 160)),
            ]
        })
        .collect()
}

fn called(id: &str, tool: &str, arguments: &Value, answer: &str) -> [String; 2] {
    let arguments = arguments.to_string();
    [calls(&[(id, tool, &arguments)]), result(id, answer)]
}

/// A digest in so many percent of a conversation in which the user says `last` in the end.
fn digest_of(middle: &[&[String]], last: &str, percent: u64) -> String {
    let first = message("user", "Have a look at it, please.");
    let newest = [
        message("assistant", "All of them pass."),
        message("user", last),
    ];
    let all = [&[first][..], &middle.concat(), &newest].concat();
    digest_in(tokens(&all) * percent / 100, &all)
}

const LEASES: &str = "package lease\n\nfunc (m *Manager) Acquire(pool string) (*Lease, error) {\n\
    \tif m.limits.For(pool) == 0 {\n\t\treturn nil, ErrExhausted\n\t}\n\
    \treturn m.store.Put(pool)\n}\n\n\
    func (m *Manager) Renew(pool, id, owner string) (*Lease, error) {\n\
    \tl, err := m.store.Get(pool, id)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\
    \tif l.Owner != owner {\n\t\treturn nil, ErrNotOwner\n\t}\n\
    \tl.ExpiresAt = time.Now().Add(m.defaultTTL)\n\treturn l, m.store.Put(l)\n}\n";

#[test]
fn a_function_is_told_where_the_user_names_it_in_plain_words() {
    let read = |tool: &str, text: &str| {
        called("call_1", tool, &json!({"path": "src/lease.go"}), text).to_vec()
    };
    let component = "export function SearchField(props) {\n  return null;\n}\n\n\
        export function ExportMenu({ filters, total }) {\n  const params = toParams(filters);\n\
        \x20 track(\"invoices_export\", { total });\n  return <Menu items={params} />;\n}\n";
    for (text, last, line) in [
        (
            LEASES,
            "good. do Renew now, tests after",
            "\t\treturn nil, ErrNotOwner",
        ),
        (
            component,
            "and now the export menu",
            "  track(\"invoices_export\", { total });",
        ),
    ] {
        let digest = digest_of(&[&read("read_file", text), &filler(9)], last, 22);
        assert!(digest.contains(line), "{digest}");
    }
}

#[test]
fn a_command_in_words_is_told_as_what_is_run_and_without_the_report_around_its_output() {
    let command = json!({"command": ["bash", "-lc", "sed -n '1,40p' src/lease.go"]});
    let answer = format!("Exit code: 0\nWall time: 0.2 seconds\nOutput:\n{LEASES}");
    let read = called("call_1", "shell", &command, &answer);
    let digest = digest_of(&[&read, &filler(3)], "do Renew now", 70);
    let call = "→ shell(sed -n '1,40p' src/lease.go)";
    let call = call.replace("shell(", "shell(command=");
    assert!(digest.contains(&call), "{digest}");
    assert!(!digest.contains("Wall time"), "{digest}");
    // One that failed is told with its code.
    let answer = "Exit code: 2\nWall time: 0.2 seconds\nOutput:\nsed: no such file";
    let failed = called("call_2", "shell", &command, answer);
    let digest = digest_of(&[&failed, &filler(3)], "do Renew now", 70);
    assert!(digest.contains("Exit code: 2"), "{digest}");
}

#[test]
fn lines_of_a_patch_stand_below_the_file_that_they_are_of_and_what_it_took_out_is_gone() {
    let read = called(
        "call_1",
        "read_file",
        &json!({"path": "src/lease.go"}),
        LEASES,
    );
    let patch = "*** Begin Patch\n*** Update File: src/lease.go\n@@\n\
        \x20\t\treturn nil, ErrNotOwner\n \t}\n\
        -\tl.ExpiresAt = time.Now().Add(m.defaultTTL)\n\
        +\tl.ExpiresAt = m.clock().Add(m.defaultTTL)\n\
        *** Update File: docs/api.md\n@@\n-| `PUT` | 200, 404 `not_found` |\n\
        +| `PUT` | 200, 404 `not_found`, 409 `lease_lost` |\n*** End Patch";
    let patched = called(
        "call_2",
        "apply_patch",
        &json!({"input": patch}),
        "Success.",
    );
    for percent in [30, 40] {
        let digest = digest_of(&[&read, &patched, &filler(9)], "do Renew now", percent);
        assert!(!digest.contains(" |\tl.ExpiresAt = time.Now()"), "{digest}");
        if let Some(at) = digest.find("409 `lease_lost`") {
            let above = &digest[..at];
            let file = above.rfind("*** Update File: docs/api.md");
            assert!(file > above.rfind("src/lease.go"), "{digest}");
        }
        if percent == 40 {
            assert!(digest.contains("lease_lost"), "{digest}");
        }
    }
}

#[test]
fn the_next_cell_knows_what_those_before_it_made() {
    let cell =
        |id: &str, code: &str, out: &str| called(id, "run_cell", &json!({"code": code}), out);
    let load = "trips = read_table('trips')\nprint(len(trips))\n\
        medians = trips[trips.km > 1.5].copy()\n\
        medians['wh'] = medians.dsoc / 100 * medians.model.map(CAPACITY) / medians.km\n\
        print(medians.head())";
    let made = cell("call_1", load, "18204\n  model    wh");
    let used = cell(
        "call_2",
        "medians.groupby('model').wh.median()",
        "A    17.1\nB    21.9",
    );
    let first = message("user", "Have a look at it, please.");
    let last = message("user", "Now by depot, please.");
    let all = [&[first][..], &made, &filler(9), &used, &[last]].concat();
    let digest = digest_in(tokens(&all) * 22 / 100, &all);
    assert!(digest.contains("medians.dsoc / 100"), "{digest}");
}

#[test]
fn what_is_answered_by_several_numbers_has_its_items() {
    let proposal = message(
        "assistant",
        "Proposal:\n\n1. `Renew` refuses a lease that has run out.\n2. A small grace for clock \
         differences between instances.\n3. The sweeper takes only leases older than that.\n\
         4. `Put` with XX, so that nothing comes back.\n\nWhich error, and how long a grace?",
    );
    for (answer, items) in [
        (
            "2: let's say two seconds.\n4: no, the interface stays as it is.",
            ["A small grace for clock", "`Put` with XX"],
        ),
        (
            "Now 1 and 3.",
            ["refuses a lease that has run out", "The sweeper takes only"],
        ),
    ] {
        let said = [proposal.clone(), message("user", answer)];
        let digest = digest_of(&[&said, &filler(9)], "Go on.", 20);
        for item in items {
            assert!(digest.contains(item), "{answer}: {digest}");
        }
    }
}

#[test]
fn a_proposal_that_is_agreed_to_some_messages_later_is_told_whole() {
    let proposal = message(
        "assistant",
        "Noted:\n\n• autoscaler of `ledger-writer`: min 8 / max 8\n• silence of the lag alert, \
         group `writer`, 09:40 to 11:40\n\nSay go and I'll do both.",
    );
    let older = message(
        "assistant",
        "Plan so far:\n\n- min 9 / max 9\n- no silence\n\nShall I go on?",
    );
    let aside = [
        message("user", "Hold on, is the inflow really down?"),
        message("assistant", "It is at 153 a second."),
    ];
    let said = [older, message("user", "Wait."), proposal];
    let digest = digest_of(
        &[&said, &aside, &filler(9)],
        "good. go for both, as agreed",
        16,
    );
    assert!(digest.contains("09:40 to 11:40"), "{digest}");
    assert!(digest.contains("min 8 / max 8"), "{digest}");
}

#[test]
fn what_the_user_said_behind_an_interruption_is_his() {
    let interrupted = "[Request interrupted by user]\nNo! Use Postgres 16, and port 6543.";
    let blocks = json!({"role": "user", "content": [
        {"type": "text", "text": "[Request interrupted by user for tool use]"},
        {"type": "text", "text": "No! Use Postgres 16, and port 6543."},
    ]});
    for said in [message("user", interrupted), blocks.to_string()] {
        let middle = [message("assistant", "I will use MySQL."), said];
        let digest = digest_of(&[&middle, &filler(6)], "Go on.", 20);
        assert!(
            digest.contains("#2 No! Use Postgres 16, and port 6543."),
            "{digest}"
        );
    }
}

#[test]
fn a_row_cannot_say_that_rows_are_told_below() {
    let rows: Vec<Value> = (0..60)
        .map(|n| match n {
            5 => json!({"note": "… 999 told later", "by": "W-17", "state": "cancelled"}),
            _ => json!({"note": format!("report {n} of the yard"), "by": format!("X-{n}"),
                "state": "open"}),
        })
        .collect();
    let listed = called("call_1", "list_notes", &json!({}), &json!(rows).to_string());
    let said = [message("user", "W-17 is mine.")];
    let digest = digest_of(&[&listed, &said, &filler(6)], "Go on with W-17.", 15);
    assert!(digest.contains("W-17"), "{digest}");
    assert!(
        digest.contains(" more"),
        "what is missing is counted: {digest}"
    );
}

#[test]
fn things_of_two_tools_are_not_states_of_one() {
    let first = [
        json!({"account_id": "A-1001", "value": 7001}),
        json!({"id": 1, "name": "Room", "price": 101}),
        json!({"parent_id": null, "room": "Blue suite", "beds": 2}),
    ];
    let second = [
        json!({"account_id": "A-1001", "value": 500}),
        json!({"id": 1, "name": "Soup", "price": 7}),
        json!({"parent_id": null, "room": "Kitchen", "beds": 0}),
    ];
    for ((first, second), value) in first
        .iter()
        .zip(&second)
        .zip(["A-1001", "101", "Blue suite"])
    {
        let one = called(
            "call_1",
            "get_balance",
            &json!({"of": "x"}),
            &first.to_string(),
        );
        let other = called(
            "call_2",
            "get_limit",
            &json!({"for": "y"}),
            &second.to_string(),
        );
        let digest = digest_of(&[&one, &other, &filler(4)], "Go on.", 60);
        assert!(digest.contains("→ get_balance"), "{digest}");
        assert!(digest.contains(value), "{digest}");
    }
}

#[test]
fn a_plan_of_other_days_with_the_same_names_stays() {
    let rome = "Day 1: Hotel Artemide, booking ROM123\nDay 2: Vatican at 09:30, ticket VAT777\n\
        Day 3: Ostia, train at 10:12";
    let paris = "Day 1: Lutetia near Saint-Germain\nDay 2: Louvre and Orsay\nDay 3: Versailles";
    let said = [
        message("assistant", rome),
        message("user", "Good. And for Paris?"),
        message("assistant", paris),
    ];
    let digest = digest_of(&[&said, &filler(6)], "Go on.", 30);
    assert!(
        digest.contains("ROM123") && digest.contains("VAT777"),
        "{digest}"
    );
}
