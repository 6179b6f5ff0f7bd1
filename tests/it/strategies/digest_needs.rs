//! What the next step needs most is in a digest, where there is little room.

use baler::core::policy::Policy;
use serde_json::{Value, json};

use crate::invariants::{Core, policy_of};
use crate::support::{message, messages_of, request, words};

use super::{calls, forced, job, result, tagged, tokens};

/// A policy that digests down to `target` tokens.
fn down_to(target: u64) -> Policy {
    policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ))
}

pub(super) fn digest_in(target: u64, all: &[String]) -> String {
    tagged(
        &forced(all, &down_to(target)).messages,
        "conversation_digest",
    )
}

#[test]
fn what_a_record_refers_to_stays_with_it() {
    let bookings: Vec<String> = (0..7).map(|n| format!("B{}X{n}Q", 4 * n + 1)).collect();
    let customer = json!({
        "customer_id": "anna_oz_77", "since": "2019-04-02", "level": "gold",
        "memo": words(1, 200),
        "travellers": (0..9).map(|n| json!({"first": words(n, 1), "born": format!("199{n}-01-02")}))
            .collect::<Vec<Value>>(),
        "bookings": bookings,
    })
    .to_string();
    let steps = [
        (
            "get_customer",
            r#"{"customer_id":"anna_oz_77"}"#,
            customer.as_str(),
        ),
        ("list", "{}", "done"),
    ];
    let all = job(&steps);
    let digest = digest_in(160, &all);
    assert!(digest.contains(&bookings.join(", ")), "{digest}");
}

/// Of each row of `columns` that is below a head with `name`: its cells.
fn rows_below<'d>(digest: &'d str, name: &str) -> Vec<Vec<&'d str>> {
    let (_, below) = digest.split_once(name).unwrap_or((digest, ""));
    let rows = below.lines().skip(1);
    rows.take_while(|row| row.starts_with("  ") && !row.contains('…'))
        .map(|row| row.trim().split(',').collect())
        .collect()
}

#[test]
fn rows_without_room_as_a_whole_are_told_by_what_decisions_turn_on() {
    let invoices: Vec<Value> = (0..60)
        .map(|n| {
            let status = ["paid", "open", "overdue"][n as usize % 3];
            json!({
                "id": format!("INV-{}", 2000 + n), "customer": format!("C{:03}", n % 7),
                "amount": 137.5 * f64::from(n), "due": format!("2025-0{}-1{}", 1 + n % 9, n % 10),
                "status": status, "reminded": n % 4 == 0,
            })
        })
        .collect();
    let list = json!({ "invoices": invoices }).to_string();
    let steps = [
        ("list_invoices", "{}", list.as_str()),
        ("list", "{}", "done"),
    ];
    let all = job(&steps);
    let digest = digest_in(950, &all);
    let whole = rows_below(&digest, "invoices: [60]{");
    let short = rows_below(&digest, "invoices, others: [");
    assert!(whole.len() > 15 && short.len() > 5, "{digest}");
    let others = format!("others: [{}]{{id,reminded,status}}:", 60 - whole.len());
    assert!(digest.contains(&others), "{digest}");
    let mut told = 0;
    for invoice in &invoices {
        let has = |row: &&Vec<&str>| row.iter().any(|cell| invoice["id"] == *cell);
        let rows: Vec<_> = whole.iter().chain(&short).filter(has).collect();
        assert!(rows.len() < 2, "{digest}");
        told += rows.len();
        let status = |row: &&Vec<&str>| row.iter().any(|cell| invoice["status"] == *cell);
        assert!(rows.iter().all(status), "{digest}");
    }
    assert_eq!(told, whole.len() + short.len(), "{digest}");
}

#[test]
fn rows_fill_what_the_choice_leaves() {
    let rows: Vec<Value> = (0..90)
        .map(|n| {
            json!({"id": format!("IT-{}", 7000 + n), "state": (["new", "sold"][n % 2]),
            "made": format!("2029-0{}-11", 1 + n % 9), "text": words(n, 2)})
        })
        .collect();
    let list = json!({ "items": rows }).to_string();
    let all = job(&[("list_items", "{}", list.as_str()), ("wait", "{}", "ok")]);
    for target in (500..1_500).step_by(100) {
        let after = forced(&all, &down_to(target)).messages;
        let digest = tagged(&after, "conversation_digest");
        let shown = rows_below(&digest, "items: [90]{").len()
            + rows_below(&digest, "items, others: [").len();
        assert!((1..90).contains(&shown), "{digest}");
        // A row in short takes less than this.
        let left = target.saturating_sub(tokens(&after));
        assert!(left < 20, "{left} of {target} tokens are unused: {digest}");
    }
}

#[test]
fn the_script_that_was_written_last_stays_whole_where_the_room_is_small() {
    let steps = |n: usize| {
        (0..14).map(move |at| format!("    total_{n} += rate_{n}[{at}] * {}", words(n + at, 2)))
    };
    let script = |n: usize| -> String {
        let lines: Vec<String> = steps(n).collect();
        json!({"command": format!("cat > run_{n}.py <<'EOF'\n{}\nEOF", lines.join("\n"))})
            .to_string()
    };
    // What each of them printed competes for the room.
    let printed = |n: usize| -> String {
        let error = |at: usize| {
            let (code, said, file) = (4_000 + at * 37 + n, words(n + at, 5), words(at, 1));
            format!("error E-{code}: {said} in src/{file}_{n}.rs:{at}\n")
        };
        (0..40).map(error).collect()
    };
    let (scripts, outputs): (Vec<String>, Vec<String>) =
        (0..4).map(|n| (script(n), printed(n))).unzip();
    let mut calls: Vec<(&str, &str, &str)> = scripts
        .iter()
        .zip(&outputs)
        .map(|(script, output)| ("bash", script.as_str(), output.as_str()))
        .collect();
    calls.push(("bash", r#"{"command":"true"}"#, "done"));
    let all = job(&calls);
    let digest = digest_in(1_000, &all);
    assert!(steps(3).all(|line| digest.contains(&line)), "{digest}");
}

#[test]
fn what_the_model_found_stays_before_its_offers_of_help() {
    let turns = [
        (
            "I want to change W-310.",
            "I can help you with that. Please tell me your customer number.",
        ),
        (
            "It is C-9.",
            "Please hold on for a moment. W-310 was bought with a voucher, so that it \
            cannot be refunded. Let me know how you would like to go on!",
        ),
        (
            "Then leave it. And W-77?",
            "Certainly, I can look into that. The parcel W-77 waits in \
            the customs office of Graz. If you need any further assistance, feel free to ask!",
        ),
        (
            "Good. What does W-5 weigh?",
            "No problem! It weighs more than the carrier allows. \
            Shall I split it? Please confirm with a \"yes\" to proceed.",
        ),
        (
            "Yes.",
            "I have split it into two parcels. Have a great day!",
        ),
    ];
    let mut all = vec![
        message("system", "You are an agent."),
        message("user", "Hello!"),
    ];
    for (at, (user, model)) in turns.iter().enumerate() {
        let id = format!("call_{at}");
        let found = json!({"notes": words(at, 40), "code": 7_000 + at * 31}).to_string();
        all.extend([
            message("user", user),
            calls(&[(&id, "look_up", &json!({"nth": at}).to_string())]),
            result(&id, &found),
            message("assistant", model),
        ]);
    }
    all.extend([
        message("user", "And now?"),
        message("assistant", "One moment."),
        message("user", "?"),
    ]);
    let digest = digest_in(275, &all);
    for found in [
        "cannot be refunded",
        "customs office of Graz",
        "more than the carrier allows",
    ] {
        assert!(digest.contains(found), "{found}: {digest}");
    }
    for empty in ["I can help", "hold on", "look into that", "feel free"] {
        assert!(!digest.contains(empty), "{empty}: {digest}");
    }
    // "Yes" says nothing without what it answers.
    assert!(digest.contains("Shall I split it?"), "{digest}");
}

#[test]
fn what_the_user_agrees_to_stays_with_its_numbers() {
    let flights: Vec<Value> = (0..40)
        .map(|n| {
            json!({"flight_number": format!("ZQ{}", 410 + n), "seats": n % 5,
            "departs": format!("1{}:20", n % 10), "price": 90 + 13 * n})
        })
        .collect();
    let flights = json!({ "flights": flights }).to_string();
    let steps: Vec<(&str, &str, &str)> = vec![("search_flights", "{}", flights.as_str()); 1];
    let mut all = job(&steps);
    all.pop();
    let offer = "I found this connection for you:\n\n\
        - **Outbound**:\n  - Flight: ZQ413\n  - Seats: two by the window\n\
        - **Return**:\n  - Flight: ZQ419\n  - Seats: two by the aisle\n\n\
        The total is $346. I would take it from voucher_88213. \
        Is there anything else that I should look at?";
    all.extend([
        message("assistant", offer),
        message("user", "Yes, please proceed."),
    ]);
    let digest = digest_in(450, &all);
    for needed in ["ZQ413", "ZQ419", "$346", "voucher_88213"] {
        let said = digest.split("assistant: ").nth(1).expect(&digest);
        assert!(said.contains(needed), "{needed}: {digest}");
    }
}

#[test]
fn what_was_written_last_is_a_run_and_a_run_has_its_place() {
    let code = |name: &str| -> Vec<String> {
        (1..60)
            .map(|n| format!("    {name}_{n} = compute({name}, {n}, \"{}\")", words(n, 2)))
            .collect()
    };
    let (first, last) = (code("old").join("\n"), code("new"));
    let write = |path: &str, text: &str| json!({"path": path, "content": text}).to_string();
    let (older, newer) = (write("a.py", &first), write("b.py", &last.join("\n")));
    let listing: String = (0..40).map(|n| format!("{}\n", words(n, 9))).collect();
    let steps = [
        ("write_file", older.as_str(), "ok"),
        ("run", r#"{"command":"ls"}"#, listing.as_str()),
        ("write_file", newer.as_str(), "ok"),
        ("run", r#"{"command":"true"}"#, "done"),
    ];
    let all = job(&steps);
    let digest = digest_in(tokens(&all) / 4, &all);
    // At least eight lines follow each other, and say where that is.
    let from = last
        .windows(8)
        .position(|run| {
            let run: String = run.iter().map(|line| format!("  |{line}\n")).collect();
            digest.contains(&run)
        })
        .unwrap_or_else(|| panic!("{digest}"));
    let place = format!("  … line {}:\n  |{}\n", from + 1, last[from]);
    assert!(from < 2 || digest.contains(&place), "{digest}");
    // The lines of a long text that stay together somewhere in it say where that is.
    let mut lines: Vec<String> = (1..200).map(|n| words(n, 6)).collect();
    for (at, line) in lines.iter_mut().enumerate().skip(119).take(6) {
        *line = format!("error: E-{} in src/parser_{at}.rs:{at}", 4_000 + at);
    }
    let text = lines.join("\n");
    let steps = [
        ("run", r#"{"command":"cat make.log"}"#, text.as_str()),
        ("run", r#"{"command":"true"}"#, "done"),
    ];
    let all = job(&steps);
    let digest = digest_in(300, &all);
    let (above, _) = digest.split_once(" |error: E-4119").unwrap();
    let place = above
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(" … line "));
    let place: usize = place.unwrap().trim_end_matches(':').parse().unwrap();
    let run = place..=120;
    let run: String = run.map(|n| format!(" |{}\n", lines[n - 1])).collect();
    assert!(
        place >= 110 && digest.contains(&format!(" … line {place}:\n{run}")),
        "{digest}"
    );
}

#[test]
fn forced_at_each_request_a_list_rests_at_the_target() {
    const TARGET: u64 = 3_000;
    let policy = policy_of(
        "[[policy]]\nwindow = 60000\nreserve = 0\ntrigger = { tokens = 30000 }\n\
        target = { tokens = 3000 }\n",
    );
    let core = Core::default();
    let mut all = job(&[]);
    all.pop();
    let mut above = 0;
    for at in 0..40_usize {
        // Now and then a result that alone is more than the target.
        let size = if at % 13 == 12 {
            6_000
        } else {
            40 + at * 17 % 400
        };
        let id = format!("c{at}");
        let asked = json!({"q": format!("Q-{}", 100 + at)}).to_string();
        let newest = [
            super::calls(&[(&id, "find", &asked)]),
            super::result(&id, &words(at, size)),
        ];
        let alone = tokens(&newest);
        all.extend(newest);
        let sent = core.ask_with(&request(&all), &policy, true).sent;
        let after = tokens(&messages_of(sent.as_bytes()));
        // A result that has no answer yet is not cut while the request fits: a small digest is all
        // that is left beside it.
        let most = TARGET.max(alone + tokens(&all[..2]) + TARGET / 6);
        assert!(after <= most, "{after} of {most} at {at}");
        above += usize::from(after > TARGET);
    }
    assert_eq!(
        above, 3,
        "only while the newest result is larger than the target"
    );
}

#[test]
fn what_a_mail_demands_stays_beside_tables_of_ids() {
    let mail = concat!(
        "Dear Ms Oz,\n\nthank you for asking, we gladly take part in the survey this spring. ",
        "The office is in the yellow house behind the station and easy to find.\n\n",
        "Please do not quote the figure of 4.4 percent before the tenth of June.\n\n",
        "Kind regards\nJo",
    );
    let mail = json!({"id": "em-5512", "from": "jo@lab.example", "body": mail}).to_string();
    let listed = |n: usize| {
        let row = |m: usize| {
            let id = n * 40 + m;
            let start = format!("2026-05-{:02}T{:02}:00", 10 + m, 8 + n);
            let id_told = format!("ev-{}", 2000 + id);
            let fixed = m.is_multiple_of(2);
            json!({"id": id_told, "start": start, "title": words(id, 2), "fixed": fixed})
        };
        json!({"events": (0..12).map(row).collect::<Vec<Value>>()}).to_string()
    };
    let lists: Vec<String> = (0..6).map(listed).collect();
    let days: Vec<String> = (0..6).map(|n| format!(r#"{{"week":{n}}}"#)).collect();
    let mut steps = vec![("read_email", r#"{"id":"em-5512"}"#, mail.as_str())];
    for (day, list) in days.iter().zip(&lists) {
        steps.push(("list_events", day, list));
    }
    let all = job(&steps);
    let digest = digest_in(tokens(&all) / 4, &all);
    let demand = "Please do not quote the figure of 4.4 percent before the tenth of June.";
    assert!(digest.contains(demand), "{digest}");
}

/// Beside the user's words, an offer and eight records, the row of the card that the user names
/// by its last digits stays: the next call takes its id.
#[test]
fn the_row_that_the_newest_message_names_stays_beside_what_was_said() {
    let methods = ["3127", "4529", "5931", "7333"].map(|digits| {
        let id = format!("pm_48{digits}1");
        json!({"method_id": id, "kind": "credit_card", "network": "visa", "last_four": digits})
    });
    let profile = json!({
        "customer_id": "anna_oz_77", "level": "gold", "since": "2019-04-02",
        "payment_methods": methods,
    });
    let booking = |n: usize| {
        let leg = json!([{"leg": format!("HX{}", 100 + n * 17), "price": 120 + n * 31}]);
        json!({
            "booking_id": format!("B{}X{n}Q", 4 * n + 1), "customer_id": "anna_oz_77",
            "origin": format!("P{n}A"), "destination": format!("Q{n}B"), "cabin": "economy",
            "created_at": format!("2026-05-{}T0{n}:14:30", 10 + n), "bags": n % 3, "legs": leg,
        })
        .to_string()
    };
    let bookings: Vec<String> = (0..8).map(booking).collect();
    let asked = |n: usize| format!(r#"{{"booking_id":"B{}X{n}Q"}}"#, 4 * n + 1);
    let asked: Vec<String> = (0..8).map(asked).collect();
    let profile = profile.to_string();
    let mut steps = vec![(
        "get_profile",
        r#"{"customer_id":"anna_oz_77"}"#,
        profile.as_str(),
    )];
    for (asked, booking) in asked.iter().zip(&bookings) {
        steps.push(("get_booking", asked, booking));
    }
    let refused: Vec<String> = (0..8)
        .map(|n| format!("Do not book {}.", words(n, 6)))
        .collect();
    let offered: Vec<String> = (0..5)
        .map(|n| format!("{}. {} for {} EUR", n + 1, words(n + 30, 9), 100 + n * 13))
        .collect();
    let mut all = vec![message("user", &refused.join(" "))];
    all.extend(job(&steps));
    all.push(message("user", "B9X2Q to business, please."));
    let offer = format!("{}\nWhich card shall I use?", offered.join("\n"));
    all.push(message("assistant", &offer));
    all.push(message(
        "user",
        "The first one, with the card ending in 5931.",
    ));
    for percent in [42, 46, 50] {
        let digest = digest_in(tokens(&all) * percent / 100, &all);
        assert!(digest.contains("pm_4859311"), "at {percent} %: {digest}");
    }
}

/// Among forty slots that differ in their times, the one stays that the user names by its day and
/// hour as people write them, and among forty quotes that whose total he names: the next call takes
/// its id.
#[test]
fn the_row_that_is_named_by_a_day_or_an_amount_as_people_write_it_stays() {
    let slots: Vec<Value> = (0..40)
        .map(|n| {
            let starts = format!("2027-11-{:02}T{:02}:20", 5 + n % 20, 9 + n / 20);
            let slot = format!("SL-{}", 9_100 + n * 7);
            json!({"slot": slot, "starts": starts, "room": format!("E{}", n % 3)})
        })
        .collect();
    let quotes: Vec<Value> = (0..40)
        .map(|n| {
            let total = 1_240.5 + 117.0 * f64::from(n);
            json!({"quote": format!("QT-{}", 5_000 + n * 3), "total": total, "days": n % 4})
        })
        .collect();
    let slots = json!({ "slots": slots }).to_string();
    let quotes = json!({ "quotes": quotes }).to_string();
    let all = job(&[("find_slots", "{}", &slots), ("list_quotes", "{}", &quotes)]);
    for (asked, id) in [
        ("Então fica dia 17/11 às 10:20.", "SL-9324"),
        ("Dann den 24. November um 9:20 Uhr.", "SL-9233"),
        ("Quello da 3.463,50 euro, grazie.", "QT-5057"),
        ("The one for $1,708.50, please.", "QT-5012"),
    ] {
        let mut all = all.clone();
        all.push(message("assistant", "Here they are. Which one?"));
        all.push(message("user", asked));
        let digest = digest_in(tokens(&all) * 15 / 100, &all);
        assert!(digest.contains(id), "{asked}: {digest}");
    }
}

/// A policy's own signs of failure decide in a digest as the usual ones do: among the lines of a
/// log the one that tells of it stays.
#[test]
fn what_a_policy_calls_a_failure_stays() {
    let log = |cause: &str| {
        let line = |n: usize| {
            if n == 140 {
                cause.to_owned()
            } else {
                format!(
                    "12:00:{:02} worker {n} finished batch {} of the night",
                    n % 60,
                    n * 7
                )
            }
        };
        (0..300).map(|n| line(n) + "\n").collect::<String>()
    };
    let cause = "%%SEV2%% the clearing house does not take part";
    let text = log(cause);
    let steps = [("night_run", "{}", text.as_str()), ("list", "{}", "done")];
    let all = job(&steps);
    let digest = |rule: &str| {
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
             target = {{ tokens = 500 }}\nladder = [\"digest\"]\n{rule}"
        ));
        tagged(&forced(&all, &policy).messages, "conversation_digest")
    };
    let own = digest("failures = [{ tool = \"night_*\", pattern = \"^%%SEV\" }]\n");
    assert!(own.contains(cause), "{own}");
    // The rule of another tool changes nothing.
    let other = digest("failures = [{ tool = \"day_*\", pattern = \"^%%SEV\" }]\n");
    assert_eq!(other, digest(""));
}

#[test]
fn the_page_that_was_opened_stays_before_other_hits() {
    let hits = |topic: &str| {
        let hit = |year: u32| {
            json!({"title": format!("{topic} in {year}, tables"),
                "url": format!("https://figures.example/{topic}/{year}"),
                "score": f64::from(year % 7) * 0.1 + 0.2})
        };
        json!((2015..2023).map(hit).collect::<Vec<Value>>()).to_string()
    };
    let page = |topic: &str, first: u32| {
        let row = |year: u32| format!("| {year} | {} |\n", first + year * 7_919 % 9_973);
        let rows: String = (2012..2023).map(row).collect();
        format!("# {topic}\n\n| year | tonnes |\n|---|---|\n{rows}\nPort traffic is left out.\n")
    };
    let (wood, steel) = (hits("wood"), hits("steel"));
    let (of_wood, of_steel) = (page("wood", 30_000), page("steel", 60_000));
    let steps = [
        ("search", r#"{"query":"wood"}"#, wood.as_str()),
        (
            "open",
            r#"{"url":"https://figures.example/wood/2022"}"#,
            &of_wood,
        ),
        ("search", r#"{"query":"steel"}"#, &steel),
        (
            "open",
            r#"{"url":"https://figures.example/steel/2022"}"#,
            &of_steel,
        ),
        ("list", "{}", "done"),
    ];
    let digest = digest_in(550, &job(&steps));
    let told = |line: &&str| line.trim_start().starts_with("|| 20");
    assert!(digest.lines().filter(told).count() > 8, "{digest}");
    assert!(digest.contains("| year | tonnes |"), "{digest}");
}

/// A user's question with the passages that an application put beside it.
fn asked_with_passages(nth: usize, question: &str) -> String {
    let passages = format!(
        "[1] Ports\n{}.\n\n[2] Windows\n{}.",
        words(nth, 60),
        words(nth + 50, 60)
    );
    message(
        "user",
        &format!("Context:\n{passages}\n\nQuestion: {question}"),
    )
}

#[test]
fn passages_beside_a_question_are_not_the_users_words() {
    let mut all = vec![message("system", "Answer by the context.")];
    let questions = [
        "Is 8443 taken?",
        "The window is Saturday 13 June, 22:00.",
        "Payroll runs that night. New window: Saturday 20 June, 20:00.",
        "Does Bergen keep its port?",
    ];
    for (nth, question) in (1..).zip(questions) {
        all.push(asked_with_passages(nth, question));
        all.push(message("assistant", &format!("Noted as {nth}.")));
    }
    all.push(message("user", "When is it?"));
    let digest = digest_in(320, &all);
    let (said, rest) = digest.split_once("After each turn:").unwrap_or_default();
    assert!(said.contains("Saturday 20 June, 20:00."), "{digest}");
    assert!(!said.contains("[1] Ports"), "{digest}");
    // Whatever is shown of them is quoted.
    let passages = rest.lines().filter(|line| line.contains("[1] Ports"));
    assert!(
        passages.clone().all(|line| line.starts_with(" |")),
        "{digest}"
    );
}

#[test]
fn what_takes_something_back_stays_before_what_it_takes_back() {
    let mut all = vec![message("system", "You draft a lease.")];
    let asked = |n: usize| match n {
        3 => "Add a premium of 3 months of rent to clause 10, as a condition.".to_owned(),
        11 => "Scrap the premium, the client changed his mind about it.".to_owned(),
        _ => format!(
            "Is clause {n} about {} as long as clause {}?",
            words(n, 2),
            n + 20
        ),
    };
    for n in 1..14 {
        all.push(message("user", &asked(n)));
        all.push(message(
            "assistant",
            &format!("It is, {}.", words(n + 70, 40)),
        ));
    }
    all.push(message("user", "Send clause 10."));
    let digest = digest_in(380, &all);
    assert!(digest.contains("Scrap the premium"), "{digest}");
}

#[test]
fn the_function_that_is_to_be_changed_stays_whole() {
    let function = |name: &str, n: usize| {
        let body: String = (0..6)
            .map(|line| format!("    let {} = {line};\n", words(n + line, 1)))
            .collect();
        format!("pub fn {name}(order: &Order) -> u64 {{\n{body}}}\n\n")
    };
    let names = ["net_sum", "totalLabel", "gross_sum", "draw_row", "tax_of"];
    let file: String = (0..)
        .step_by(20)
        .zip(names)
        .map(|(n, name)| function(name, n))
        .collect();
    let filler = words(9, 900);
    let mut all = job(&[
        ("read_file", r#"{"path":"src/label.rs"}"#, file.as_str()),
        ("read_file", r#"{"path":"notes.md"}"#, filler.as_str()),
        ("list", "{}", "done"),
    ]);
    all.push(message("assistant", "That is all there is."));
    all.push(message("user", "Now change totalLabel, please."));
    let digest = digest_in(420, &all);
    let wanted = function("totalLabel", 20);
    let first = wanted.lines().take(5).map(|line| format!(" |{line}"));
    let first = first.collect::<Vec<_>>().join("\n");
    assert!(digest.contains(&first), "{digest}");
}
