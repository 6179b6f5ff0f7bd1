//! What a digest tells apart: states of records, what calls asked for, who said it, and what is
//! below which head. Each was told as something else once.

use baler::core::policy::Policy;
use serde_json::{Value, json};

use crate::invariants::policy_of;
use crate::support::{message, words};

use super::{forced, job, tagged};

fn down_to(target: u64) -> Policy {
    policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ))
}

fn digest_in(target: u64, all: &[String]) -> String {
    tagged(
        &forced(all, &down_to(target)).messages,
        "conversation_digest",
    )
}

/// The digest of calls, each with its tool, arguments and result, and enough text behind them.
fn digest_of(target: u64, calls: &[(&str, Value, Value)]) -> String {
    let calls: Vec<(&str, String, String)> = calls
        .iter()
        .map(|(tool, asked, result)| (*tool, asked.to_string(), result.to_string()))
        .collect();
    let filler = words(7, 900);
    let mut steps: Vec<(&str, &str, &str)> = calls
        .iter()
        .map(|(tool, asked, result)| (*tool, asked.as_str(), result.as_str()))
        .collect();
    steps.extend([
        ("read", r#"{"path":"notes"}"#, filler.as_str()),
        ("list", "{}", "done"),
    ]);
    digest_in(target, &job(&steps))
}

/// Whether a line tells all of this.
fn tells(digest: &str, all: &[&str]) -> bool {
    digest
        .lines()
        .any(|line| all.iter().all(|needed| line.contains(needed)))
}

#[test]
fn what_was_asked_for_otherwise_is_told() {
    let hours = |month: &str, hours: u32| {
        (
            "get_hours",
            json!({"employee_id": "E-731", "month": month}),
            json!({"employee_id": "E-731", "hours": hours, "overtime": hours - 150}),
        )
    };
    let digest = digest_of(
        500,
        &[
            hours("2026-01", 161),
            hours("2026-02", 152),
            hours("2026-03", 170),
        ],
    );
    for (month, hours) in [("2026-01", "161"), ("2026-02", "152"), ("2026-03", "170")] {
        let below = digest.split(month).nth(1).expect(&digest);
        let below: Vec<&str> = below.lines().take(2).collect();
        assert!(below.concat().contains(hours), "{month}: {digest}");
    }
}

/// The digest of calls whose results are these texts, with enough text behind them.
fn digest_of_texts(target: u64, calls: &[(&str, Value, String)]) -> String {
    let filler = words(7, 900);
    let calls: Vec<(&str, String, &str)> = calls
        .iter()
        .map(|(tool, asked, result)| (*tool, asked.to_string(), result.as_str()))
        .collect();
    let steps = calls
        .iter()
        .map(|(tool, asked, result)| (*tool, asked.as_str(), *result));
    let behind = [
        ("read", r#"{"path":"notes"}"#, filler.as_str()),
        ("list", "{}", "done"),
    ];
    let steps: Vec<_> = steps.chain(behind).collect();
    digest_in(target, &job(&steps))
}

#[test]
fn lines_are_where_the_text_has_them() {
    let function = |n: usize| {
        let by = n * 37;
        format!(
            "def f{n}(a, b):\n    value = a * {by} + b\n    \
            check(value, {n})\n    return value\n\n\n"
        )
    };
    let file: String = (0..60).map(function).collect();
    let lines: Vec<&str> = file.lines().collect();
    let path = json!({"path": "src/f.py"});
    let mut marks = 0;
    for target in [300, 500, 800, 1_100] {
        let digest = digest_of_texts(target, &[("read_file", path.clone(), file.clone())]);
        let told: Vec<&str> = digest.lines().collect();
        for (mark, next) in told.iter().zip(told.iter().skip(1)) {
            let Some(number) = mark.trim().strip_prefix("… line ") else {
                continue;
            };
            let number: usize = number.trim_end_matches(':').parse().unwrap();
            assert_eq!(next.strip_prefix(" |"), Some(lines[number - 1]), "{digest}");
            marks += 1;
        }
        // What stood between two functions stands there.
        assert!(!digest.contains("return value\n\n |def"), "{digest}");
    }
    assert!(marks > 2, "{marks} marks");
}

#[test]
fn what_failed_last_stays_with_what_it_was_told() {
    let book = |paid: u32, answer: &str| {
        let asked =
            json!({"guest": "user_4831", "from": "HAM", "to": "LIS", "bags": 3, "paid": paid});
        ("book", asked, answer.to_owned())
    };
    let read = |n: u32| {
        let id = format!("R{n}XQ7");
        let made = format!("2026-05-{}", 10 + n);
        let fields = json!({"id": id, "made": made, "fare": 310 + n, "cabin": "economy",
            "seat": format!("1{n}C"), "status": "active"});
        ("get_booking", json!({"id": id}), fields.to_string())
    };
    let reads: Vec<_> = (0..12).map(read).collect();
    let refused = book(255, "Error: total price is 305, but paid 255");
    let booked = book(
        305,
        r#"{"booking":"BK-9917","status":"booked","total":305}"#,
    );
    for target in [260, 280, 300, 320] {
        let failed = [reads.as_slice(), std::slice::from_ref(&refused)].concat();
        let digest = digest_of_texts(target, &failed);
        let (_, below) = digest.split_once("book(bags=3").expect(&digest);
        assert!(below.contains("paid=255"), "{digest}");
        assert!(below.contains("is 305, but paid 255"), "{digest}");
        // Where the tool did its work since, its failure is nothing to go on from.
        let mended = [failed.as_slice(), std::slice::from_ref(&booked)].concat();
        let digest = digest_of_texts(target, &mended);
        assert!(!digest.contains("but paid 255"), "{digest}");
    }
}

/// The mark that counts one missing row costs about what the row costs.
#[test]
fn the_last_row_of_a_table_stands_in_place_of_its_mark() {
    let user = |n: u32, kinds: &[&str]| {
        let method = |(at, kind): (usize, &&str)| {
            let id = format!("{kind}_{n}{at}7{at}");
            let digits = (1000 + n as usize + at).to_string();
            match *kind {
                "cash" => json!({"source": kind, "id": kind, "last_four": null}),
                _ => json!({"source": kind, "id": id, "last_four": digits}),
            }
        };
        let methods: Vec<Value> = kinds.iter().enumerate().map(method).collect();
        let id = format!("user_{n}");
        let email = format!("p{n}@example.com");
        (
            "get_user",
            json!({"user_id": id}),
            json!({"user_id": id, "email": email, "payment_methods": methods}),
        )
    };
    let calls = [
        user(4831, &["credit_card", "cash", "gift_card"]),
        user(7702, &["gift_card", "credit_card", "cash"]),
        user(5150, &["paypal", "cash", "credit_card", "bank"]),
        user(6093, &["cash", "credit_card", "gift_card", "voucher"]),
    ];
    let mut tables = 0;
    for target in (300..520).step_by(20) {
        let digest = digest_of(target, &calls);
        tables = tables.max(digest.matches("payment_methods: [").count());
        // In one of them the room may be at its end.
        let missing_one = digest.matches("… 1 more").count();
        assert!(missing_one <= 1, "{target}: {digest}");
    }
    assert_eq!(tables, calls.len());
}

#[test]
fn an_exit_code_is_no_record() {
    let run = |command: &str, code: u32, said: &str| {
        (
            "run",
            json!({ "command": command }),
            json!({"exit_code": code, "stdout": said, "number": 1, "code": "OK"}),
        )
    };
    let digest = digest_of(
        500,
        &[
            run("make test", 1, "test codec_v18 failed"),
            run("make lint", 1, "unused import"),
            run("make clean", 0, "removed 14 files"),
        ],
    );
    for (command, said) in [
        ("make test", "codec_v18"),
        ("make lint", "unused"),
        ("make clean", "14"),
    ] {
        assert!(
            digest.contains(command) && digest.contains(said),
            "{digest}"
        );
    }
}

#[test]
fn what_was_done_stays_when_a_newer_result_tells_the_state() {
    let refund = |amount: u32, refunded: u32| {
        (
            "create_refund",
            json!({"order_id": "W-77", "amount": amount, "reason": format!("item {amount}")}),
            json!({"order_id": "W-77", "status": "delivered", "refunded": refunded}),
        )
    };
    let order = json!({"order_id": "W-77", "status": "delivered", "refunded": 65, "total": 180});
    let get = ("get_order", json!({"order_id": "W-77"}), order);
    let digest = digest_of(400, &[get.clone(), refund(40, 40), refund(25, 65), get]);
    for amount in ["amount=40", "amount=25"] {
        assert!(tells(&digest, &["create_refund", amount]), "{digest}");
    }
    // The older look at the order is told by the newer one.
    assert_eq!(digest.matches("get_order").count(), 1, "{digest}");
}

#[test]
fn rows_of_records_tell_what_was_asked_for() {
    let observe = |n: u32, mrn: &str, kind: &str| {
        (
            "observe",
            json!({"mrn": mrn, "kind": kind}),
            json!({"observation_id": format!("OBS-{n}"), "value": n % 97, "method": "echo"}),
        )
    };
    let digest = digest_of(
        500,
        &[
            observe(8413, "204518", "ejection"),
            observe(3232, "331907", "ejection"),
            observe(9357, "204518", "bmi"),
        ],
    );
    for (id, mrn, kind) in [
        ("OBS-8413", "204518", "ejection"),
        ("OBS-3232", "331907", "ejection"),
        ("OBS-9357", "204518", "bmi"),
    ] {
        assert!(tells(&digest, &[id, mrn, kind]), "{id}: {digest}");
    }
    // Calls that asked for different things, and are not named by the record, stay with theirs.
    let book = |n: u32, asked: Value| {
        (
            "book",
            asked,
            json!({"booking_id": format!("BK-{n}"), "status": "booked", "fee": n, "desk": "A"}),
        )
    };
    let digest = digest_of(
        500,
        &[
            book(771, json!({"patient": "Quill", "slot": "SL-5"})),
            book(772, json!({"room": "R-9"})),
            book(
                773,
                json!({"patient": "Brekke", "lines": [{"a": 1}, {"a": 2}]}),
            ),
        ],
    );
    for (call, id) in [("SL-5", "BK-771"), ("R-9", "BK-772"), ("Brekke", "BK-773")] {
        let below = digest.split(call).nth(1).expect(&digest);
        let below: Vec<&str> = below.lines().take(5).collect();
        assert!(below.concat().contains(id), "{call}: {digest}");
    }
}

#[test]
fn what_repeats_the_arguments_stays_beside_other_values() {
    let set = (
        "set_threshold",
        json!({"metric": "cpu", "value": 70}),
        json!({"ok": true, "metric": "cpu", "previous": {"value": 85}, "current": {"value": 70}}),
    );
    let transfer = (
        "transfer",
        json!({"from": "ACC-1", "amount": 500}),
        json!({"debit": {"from": "ACC-1", "amount": 500}, "credit": {"amount": 450}}),
    );
    let echo = ("note", json!({"text": "hello"}), json!({"text": "hello"}));
    let digest = digest_of(400, &[set, transfer, echo]);
    assert!(
        digest.contains("current: {value: 70}, previous: {value: 85}"),
        "{digest}"
    );
    assert!(
        digest.contains("debit: {amount: 500, from: ACC-1}"),
        "{digest}"
    );
    assert!(
        digest.contains("note(text=hello)\n text: hello"),
        "{digest}"
    );
    assert!(
        !digest.contains("{}") && !digest.contains("metric: cpu"),
        "{digest}"
    );
}

#[test]
fn rows_have_the_names_that_come_beside_them() {
    let rows: Vec<Value> = (0..6)
        .map(|n| json!([format!("2026-0{n}"), 4000 + n]))
        .collect();
    let sql = (
        "run_sql",
        json!({"sql": "select month, arms"}),
        json!({"columns": ["month", "arms"], "rows": rows, "ms": 12}),
    );
    let values: Vec<Value> = (0..12)
        .map(|n| json!([1700 + n, format!("{n}.5")]))
        .collect();
    let series = (
        "range",
        json!({"q": "up"}),
        json!({"metric": "up", "values": values}),
    );
    let digest = digest_of(600, &[sql, series]);
    assert!(
        digest.contains("rows: [6]{month,arms}:\n  2026-00,4000\n"),
        "{digest}"
    );
    assert!(
        digest.contains("values: [12]{1,2}:\n  1700,\"0.5\"\n"),
        "{digest}"
    );
    assert!(!digest.contains("columns:"), "{digest}");
}

#[test]
fn short_answers_stay_with_what_they_answer() {
    let mut all = job(&[]);
    all.pop();
    for n in 0..8 {
        let options = format!(
            "{}.\nFor room {n} there is:\n1. oak {n}1\n2. larch {n}2\n3. pine {n}3\nWhich one?",
            words(n, 40)
        );
        let question = format!("{}. Shall room {n} be painted?", words(n + 90, 40));
        all.extend([
            message("assistant", &options),
            message("user", ["2, please.", "Option 3"][n % 2]),
            message("assistant", &question),
            message("user", ["Yes.", "No."][n % 2]),
        ]);
    }
    all.extend([
        message("assistant", "Done."),
        message("user", "What did I choose?"),
    ]);
    let digest = digest_in(1_100, &all);
    let (said, rest) = digest.split_once("After each turn:").expect(&digest);
    for (answer, times) in [("2, please.", 4), ("Option 3", 4), ("Yes.", 4), ("No.", 4)] {
        assert_eq!(said.matches(answer).count(), times, "{answer}: {digest}");
    }
    for n in 0..8 {
        let chosen = [format!("2. larch {n}2"), format!("3. pine {n}3")][n % 2].clone();
        assert!(rest.contains(&chosen), "{chosen}: {digest}");
        assert!(
            rest.contains(&format!("Shall room {n} be painted?")),
            "{n}: {digest}"
        );
    }
}

#[test]
fn a_sentence_is_of_the_one_who_said_it() {
    let sentence = "Book the train at 09:12 and not the flight, please.";
    let mut all = job(&[("read", "{}", &words(3, 600))]);
    all.pop();
    all.extend([
        message("user", sentence),
        message("assistant", sentence),
        message("user", "Go on."),
    ]);
    all.extend(job(&[("list", "{}", "done")]).split_off(2));
    let digest = digest_in(300, &all);
    let (said, _) = digest.split_once("After each turn:").expect(&digest);
    assert!(said.contains(sentence), "{digest}");
}

#[test]
fn an_item_of_a_list_stands_below_its_own_head() {
    let list = "Here is what I have in mind for the kitchen.\n\n\
        Things that I have and must NOT be ordered:\n- oak parquet OAK-7731\n- sink SUB-500\n\n\
        To be ordered:\n- tiles M8TX\n- oven HBG7341\n\nColours that she dislikes:\n- RAL 7016";
    let heads = [
        ("OAK-7731", "NOT be ordered:"),
        ("SUB-500", "NOT be ordered:"),
        ("M8TX", "To be ordered:"),
        ("HBG7341", "To be ordered:"),
        ("RAL 7016", "dislikes:"),
    ];
    for party in ["user", "assistant"] {
        let mut all = job(&[("read", "{}", &words(3, 900))]);
        all.pop();
        all.extend([message(party, list), message("user", "Go on.")]);
        all.extend(job(&[("list", "{}", "done")]).split_off(2));
        let mut shown = 0;
        for room in (150..400).step_by(10) {
            let digest = digest_in(room, &all);
            let mut head = "";
            for line in digest.lines() {
                if line.ends_with(':') {
                    head = line;
                }
                let of = heads.iter().find(|(item, _)| line.contains(item));
                if let Some((item, of)) = of {
                    assert!(head.ends_with(of), "{item}: {digest}");
                    shown += 1;
                }
            }
        }
        assert!(shown > 5, "{party}: {shown}");
    }
}

#[test]
fn what_is_known_of_a_record_that_was_named_stays_before_that_of_others() {
    let due = |at: usize| format!("2026-03-{:02}", 1 + at % 28);
    let (invoice, paid) = (|at: usize| 7000 + 13 * at, |at: usize| 1000 + 7 * at);
    // An id names its row wherever it stands.
    let first = |at: usize| {
        format!(
            r#"{{"id":"PAY-{at:03}","invoice":"INV-{}","due":"{}","paid":{}}}"#,
            invoice(at),
            due(at),
            paid(at)
        )
    };
    let last = |at: usize| {
        format!(
            r#"{{"amount":{},"due":"{}","invoice":"INV-{}","payment_id":"PAY-{at:03}"}}"#,
            paid(at),
            due(at),
            invoice(at)
        )
    };
    for payment in [&first as &dyn Fn(usize) -> String, &last] {
        let payments: Vec<String> = (0..60).map(payment).collect();
        let listed = format!(r#"{{"payments":[{}]}}"#, payments.join(","));
        let mut all = job(&[("list_payments", "{}", listed.as_str())]);
        all.push(message("user", "PAY-041 failed, and so did PAY-004."));
        for step in 1..6 {
            all.push(message("assistant", &format!("Step {step} is done.")));
            all.push(message("user", &format!("Go on with step {}.", step + 1)));
        }
        let digest = digest_in(450, &all);
        for named in ["PAY-004", "PAY-041"] {
            assert!(tells(&digest, &[named, "INV-"]), "{named}\n{digest}");
        }
        assert!(digest.contains(" more"), "{digest}");
    }
}

#[test]
fn a_row_that_the_model_listed_too_is_that_of_what_the_user_named() {
    let flight = |at: usize| {
        format!(
            r#"{{"flight_number":"HAT{}","gate":"B{}","leaves":"2026-05-{:02}","seats":{}}}"#,
            200 + at,
            300 + at,
            1 + at % 28,
            3000 + at
        )
    };
    let flights: Vec<String> = (0..60).map(flight).collect();
    let found = format!(r#"{{"flights":[{}]}}"#, flights.join(","));
    let mut all = job(&[("search", "{}", found.as_str())]);
    all.extend([
        message(
            "assistant",
            "Two are left:\n\n1. Flight HAT217\n2. Flight HAT241",
        ),
        message("user", "HAT241 is the one that I want."),
    ]);
    for step in 1..6 {
        all.push(message("assistant", &format!("Step {step} is done.")));
        all.push(message("user", &format!("Go on with step {}.", step + 1)));
    }
    let digest = digest_in(350, &all);
    assert!(tells(&digest, &["HAT241", "B341"]), "{digest}");
    assert!(digest.contains(" more"), "{digest}");
}

#[test]
fn what_was_done_after_a_message_that_stays_behind_the_digest_says_so() {
    let filler = words(7, 900);
    let steps = [
        ("look", r#"{"at":"A-17"}"#, filler.as_str()),
        ("move", r#"{"to":"B-23"}"#, "moved"),
        ("list", "{}", "done"),
    ];
    // The third message of the user is the last one, which stays; calls follow it.
    let mut all = job(&[("read", r#"{"path":"notes"}"#, "two notes")]);
    all.push(message("user", "Now move it to where it belongs."));
    let calls = job(&steps);
    all.extend(calls[2..calls.len() - 1].iter().cloned());
    let sent = forced(&all, &down_to(300)).messages;
    let digest = tagged(&sent, "conversation_digest");
    let (before, after) = digest
        .split_once("\n#3, whose message is below\n")
        .expect(&digest);
    assert!(
        before.contains("→ read") && after.contains("→ move"),
        "{digest}"
    );
    let place = |text: &str| sent.iter().position(|raw| raw.contains(text));
    let below = place("Now move it").expect("the last message of the user stays");
    assert!(place("conversation_digest") < Some(below), "{sent:#?}");
    // The number is that of the same message where the digest is digested.
    let again = tagged(
        &forced(&sent, &down_to(250)).messages,
        "conversation_digest",
    );
    assert!(again.contains("\n#3, whose message is below\n"), "{again}");
}

#[test]
fn what_the_user_chose_by_its_name_stays_before_what_he_did_not() {
    let hotels = [
        ("Hotel Brandis", "Kornweg 114", "0411-5571"),
        ("Hotel Alster", "Seestrasse 87", "0411-8834"),
        ("Hotel Corvin", "Am Markt 203", "0411-2290"),
    ];
    let item = |(at, (name, street, phone)): (usize, &(&str, &str, &str))| {
        format!(
            "{}. **{name}**\n   - Street: {street}\n   - Phone: {phone}\n   - Opens at {}:15\n",
            at + 1,
            at + 6
        )
    };
    let offer: String = hotels.iter().enumerate().map(item).collect();
    let mut all = job(&[]);
    all.extend([
        message("assistant", &format!("These have rooms:\n\n{offer}")),
        message("user", "Hotel Alster sounds right, we take that."),
    ]);
    for step in 1..6 {
        let done = format!("Step {step} is done: form F-{step}81{step} is at office {step}.");
        all.push(message("assistant", &done));
        all.push(message("user", &format!("Go on with step {}.", step + 1)));
    }
    let digest = digest_in(300, &all);
    for told in ["2. **Hotel Alster**", "Seestrasse 87", "0411-8834"] {
        assert!(digest.contains(told), "{told}\n{digest}");
    }
    let others = ["Kornweg 114", "Am Markt 203"];
    assert!(!others.iter().all(|told| digest.contains(told)), "{digest}");
}

/// Tables as programs print them: the names of the columns, what is below, and how rows begin.
fn printed_tables() -> [(&'static str, String, &'static str); 3] {
    let rows = |row: &dyn Fn(usize) -> String| -> String { (0..60).map(row).collect() };
    let state = |at: usize| if at == 41 { "failed" } else { "settled" };
    let psql = rows(&|at| format!(" PAY-{at:03} | {:9} | {}\n", state(at), 100 + at));
    let csv = rows(&|at| format!("INV-{at:03},{},{}\n", state(at), 100 + at));
    let pods = rows(&|at| format!("web-{at:03}   {}/1     {}\n", at % 2, state(at)));
    [
        (
            "id       | state     | debit",
            format!("\n----+----+----\n{psql}(60 rows)"),
            "PAY-",
        ),
        ("number,state,credit", format!("\n{csv}"), "INV-"),
        ("NAME      READY   STATUS", format!("\n{pods}"), "web-"),
    ]
}

fn told_with_its_columns(digest: &str, names: &str, id: &str) {
    let told = digest.lines().filter(|line| line.contains(id)).count();
    assert!(told > 1, "{id}: rows are told\n{digest}");
    assert!(digest.contains(names), "{id}\n{digest}");
}

#[test]
fn rows_of_a_printed_table_stay_with_the_names_of_its_columns() {
    for (names, below, id) in printed_tables() {
        let table = Value::from(format!("{names}{below}"));
        let text = [("shell", json!({"command": format!("show {id}")}), table)];
        told_with_its_columns(&digest_of(300, &text), names, id);
    }
}

#[test]
fn rows_of_a_printed_table_stay_with_them_in_the_digest_of_a_digest() {
    for (names, below, id) in printed_tables() {
        let table = format!("{names}{below}");
        let command = json!({"command": format!("show {id}")}).to_string();
        let filler = words(7, 900);
        let steps = [
            ("shell", command.as_str(), table.as_str()),
            ("read", r#"{"path":"notes"}"#, filler.as_str()),
            ("list", "{}", "done"),
        ];
        let mut all = forced(&job(&steps), &down_to(900)).messages;
        let first = tagged(&all, "conversation_digest");
        told_with_its_columns(&first, names, id);
        all.extend(job(&[("read", "{}", &words(5, 600)), ("list", "{}", "done")]).split_off(2));
        let second = digest_in(300, &all);
        assert!(second.len() < first.len(), "{second}");
        told_with_its_columns(&second, names, id);
    }
}
