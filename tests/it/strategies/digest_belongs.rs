//! What belongs to what in a digest: the ids of two things in one row, the name of what a list is
//! in, the row of a card that is told by its last digits, a list as it stands last.

use serde_json::{Value, json};

use crate::support::{message, words};

use super::digest_needs::digest_in;
use super::{calls, job, result, tokens};

/// A profile with four ways to pay, of which the user names one by the end of its number.
fn profile() -> String {
    let card = |id: u32, last: &str| {
        let id = format!("card_{id}");
        (
            id.clone(),
            json!({"source": "card", "brand": "visa", "last_four": last, "id": id}),
        )
    };
    let credit = |id: &str, amount: u32| {
        (
            id.to_owned(),
            json!({"source": "credit", "amount": amount, "id": id}),
        )
    };
    let methods = [
        credit("certificate_8045380", 500),
        card(4_196_779, "7238"),
        card(2_290_117, "9024"),
        credit("gift_card_5094406", 274),
    ];
    json!({
        "email": "ana.silva@example.com", "dob": "1957-10-05", "membership": "regular",
        "name": {"first": "Ana", "last": "Silva"},
        "address": {"address1": "141 Cedar Avenue", "city": "Columbus", "zip": "43282"},
        "orders": ["NM1VX1", "KC18K6", "S61CZX", "H8Q05L", "WUNA5K"],
        "methods": Value::Object(methods.into_iter().collect()),
        "saved": [
            {"born": "1972-06-16", "first": "Yara", "last": "Silva"},
            {"born": "1988-06-04", "first": "Isa", "last": "Moore"},
        ],
    })
    .to_string()
}

/// The next call takes the id of the card, also where there is little room.
#[test]
fn a_card_that_is_told_by_its_last_digits_keeps_its_id() {
    let flight = |n: usize| {
        json!({"flight": format!("HT{}", 139 + n * 66), "departs": format!("1{n}:05:00"),
            "arrives": format!("2{n}:00:00"), "status": "available",
            "seats": {"basic": 7 + n, "economy": 3 + n},
            "prices": {"basic": 83 + n, "economy": 114 + n * 31}})
    };
    let flights = Value::from((0..3).map(flight).collect::<Vec<_>>()).to_string();
    let all = [
        message("user", "A flight to Lima for two, please."),
        message(
            "assistant",
            "To assist you with that, I'll need some information: which cabin, how many bags, \
             and how you would like to pay. Once I have this information, I can proceed.",
        ),
        message(
            "user",
            "Economy, no bags. My email is ana.silva@example.com.",
        ),
        calls(&[("call_1", "get_profile", r#"{"user":"ana_silva"}"#)]),
        result("call_1", &profile()),
        message(
            "assistant",
            "Thank you, Ana. You can pay by:\n\n- Visa ending in 7238\n- Visa ending in 9024\n\
             - Gift card with $274\n\n\
             Once you confirm the payment method, I'll proceed with searching for flights.",
        ),
        message("user", "I'd prefer to use the Visa ending in 7238."),
        calls(&[("call_2", "search", r#"{"to":"LIM"}"#)]),
        result("call_2", &flights),
        message(
            "assistant",
            "Here are the flights to Lima on May 26 in economy class:\n\n\
             1. **HT139**\n   - Departure: 10:05\n   - Price: $114\n\n\
             2. **HT205**\n   - Departure: 11:05\n   - Price: $145\n\n\
             3. **HT271**\n   - Departure: 12:05\n   - Price: $176\n\n\
             Let me know which one you would like to book, and I'll proceed.",
        ),
        message("user", "HT271, with an aisle seat."),
        message(
            "assistant",
            "HT271 for two, paid by the Visa ending in 7238: is that right?",
        ),
        message("user", "Yes, book it."),
    ];
    let told = |percent: u64| digest_in(tokens(&all) * percent / 100, &all);
    let digests: Vec<String> = (40..=70).step_by(2).map(told).collect();
    let with_card = digests
        .iter()
        .filter(|digest| digest.contains("card_4196779"));
    // Rows that nobody chose are shown with it.
    assert!(with_card.count() >= 7, "{}", digests.join("\n"));
}

/// A row with two ids tells what belongs to what, though each of them stands elsewhere, too.
#[test]
fn the_ids_of_two_things_in_a_row_are_told_though_each_is_known() {
    let card = |n: usize| format!("credit_card_{}", 4_196_779 + (n % 3) * 331_407);
    let leg = |n: usize, from: &str, to: &str, at: usize| {
        json!({"from": from, "to": to, "price": 1_981 + n * 13,
            "number": format!("HT{}", 276 + at * 3 + n * (3 + at)),
            "date": format!("2026-06-{}", 21 + at + n % 3)})
    };
    let order = |n: usize| {
        let first = ["Raj", "Chen", "Omar", "Liam", "Noah", "Mia"][n];
        json!({
            "order_id": format!("W{}KQ", 7_120 + n * 37), "status": "open",
            "express": n.is_multiple_of(2),
            "created": format!("2026-05-{:02}T01:11:41", 10 + n),
            "legs": [leg(n, "SEA", "JFK", 0), leg(n, "JFK", "IAH", 1)],
            "people": [
                {"first": "Ana", "last": "Silva", "born": "1957-10-05"},
                {"first": first, "last": "Ito", "born": format!("19{}-04-1{n}", 70 + n)},
            ],
            "paid": [{"method": card(n), "amount": 5_330 + n * 71}],
        })
        .to_string()
    };
    let asked = |n: usize| format!(r#"{{"order_id":"W{}KQ"}}"#, 7_120 + n * 37);
    let orders: Vec<(String, String)> = (0..6).map(|n| (asked(n), order(n))).collect();
    let method = |n: usize| {
        let last = (7_238 + n * 311).to_string();
        json!({"id": card(n), "brand": "visa", "last_four": last})
    };
    let methods: Vec<Value> = (0..3).map(method).collect();
    let profile = json!({"user": "ana_silva", "methods": methods}).to_string();
    let mut results = vec![("get_profile", r#"{"user":"ana_silva"}"#, profile.as_str())];
    let told = orders.iter();
    results.extend(told.map(|(asked, told)| ("get_order", asked.as_str(), told.as_str())));
    let all = job(&results);
    let has_pair = |percent: u64| {
        let digest = digest_in(tokens(&all) * percent / 100, &all);
        let paid = digest
            .split_once("records, paid [")
            .map(|(_, behind)| behind);
        paid.is_some_and(|rows| {
            let first = rows.lines().nth(1);
            first.is_some_and(|row| row.contains(",credit_card_"))
        })
    };
    assert!((40..=70).any(has_pair));
}

/// The stages of pipelines are of no use without the names of the pipelines.
#[test]
fn a_list_inside_of_an_item_has_the_name_of_the_item() {
    let stage = |n: usize| {
        let id = (167_900_000 + n * 7_411).to_string();
        json!({"id": id, "label": words(n, 2), "metadata": {"closed": false, "probability": n % 4}})
    };
    let names = [
        "Sales",
        "Renewals Nordics",
        "Renewals DACH",
        "Partner deals",
    ];
    let pipeline = |(at, name): (usize, &&str)| {
        let stages: Vec<Value> = (0..4).map(|n| stage(at * 4 + n)).collect();
        let id = (87_120_553 + at * 18).to_string();
        json!({"id": id, "label": name, "order": at, "created": format!("2023-02-1{at}"),
            "stages": stages})
    };
    let pipelines: Vec<Value> = names.iter().enumerate().map(pipeline).collect();
    let pipelines = json!({ "results": pipelines }).to_string();
    let filler = words(7, 500);
    let all = job(&[
        ("pipelines_list", "{}", pipelines.as_str()),
        ("think", "{}", filler.as_str()),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) * 60 / 100, &all);
    assert!(
        digest.contains("\"87120571\", Renewals Nordics]"),
        "{digest}"
    );
}

/// Of a list that the user posts again, what an older one has otherwise is not what is left of it.
#[test]
fn a_list_of_things_to_do_is_told_as_the_user_posted_it_last() {
    let older = "Go on with the migration. The list:\n\n[x] common-model\n[ ] fx-rates\n\
                 [ ] settlement-batch\n[-] statement-pdf (blocked until January)\n[ ] admin-web";
    let newer = "Good. The list:\n\n[x] common-model\n[x] fx-rates (merged as 88d2e61)\n\
                 [x] settlement-batch\n[ ] statement-pdf\n[ ] admin-web";
    let filler = words(7, 400);
    let more = words(3, 400);
    let mut all = vec![message("user", "Hello.")];
    all.push(message("assistant", "Hello. What is next?"));
    all.push(message("user", older));
    all.extend(job(&[("run", "{}", filler.as_str())]).split_off(1));
    all.push(message("assistant", "fx-rates is done."));
    all.push(message("user", newer));
    all.extend(job(&[("run", "{}", more.as_str()), ("list", "{}", "done")]).split_off(1));
    let digest = digest_in(tokens(&all) * 50 / 100, &all);
    assert!(
        digest.contains("[x] fx-rates (merged as 88d2e61)"),
        "{digest}"
    );
    assert!(!digest.contains("[ ] fx-rates"), "{digest}");
    assert!(!digest.contains("[ ] settlement-batch"), "{digest}");
    assert!(digest.contains("blocked until January"), "{digest}");
}

/// An option that is no longer than the mark of a gap stays between the others.
#[test]
fn an_option_no_longer_than_its_mark_stays() {
    let filler = words(7, 700);
    let options = "Options:\n\
                   A. set the flag for eu-merchants to 15 % (holds until 17:30)\n\
                   B. roll quote-api back to revision 420 (e03b5aa)\n\
                   C. both.\n\n\
                   With B, auto-sync of checkout-quote-api has to be off first.";
    let mut all = job(&[("pods", "{}", filler.as_str())]);
    all.push(message("assistant", options));
    all.push(message("user", "C, A first"));
    all.extend(job(&[("flag", "{}", "ok"), ("list", "{}", "done")]).split_off(1));
    let digest = digest_in(tokens(&all) * 40 / 100, &all);
    assert!(digest.contains("revision 420"), "{digest}");
    assert!(digest.contains("C. both."), "{digest}");
}

/// What the user agreed to says nothing without the sentence before the question.
#[test]
fn a_short_question_stays_with_the_sentence_before_it() {
    let filler = words(7, 700);
    let mut all = job(&[("plan", "{}", filler.as_str())]);
    all.push(message(
        "assistant",
        "Ireland is done, 148 of 150 pods are ready. The plan for Virginia replaces 12 nodes of \
         ng-apps, two at a time. Apply?",
    ));
    all.push(message("user", "yes"));
    all.extend(job(&[("apply", "{}", "ok"), ("list", "{}", "done")]).split_off(2));
    for percent in [25, 40, 55] {
        let digest = digest_in(tokens(&all) * percent / 100, &all);
        assert!(
            digest.contains("Virginia replaces 12 nodes") || !digest.contains("Apply?"),
            "{percent}: {digest}"
        );
    }
}
