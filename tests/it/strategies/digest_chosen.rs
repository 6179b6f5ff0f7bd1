//! What a digest keeps of the options that the model offered, given what the user chose.

use serde_json::{Value, json};

use super::digest_needs::digest_in;
use super::job;
use crate::support::{message, words};

/// A chat in which the model offers six options of two flights each, and what the user says then.
fn options_and(answer: &str) -> Vec<String> {
    let flights: Vec<Value> = (1..13)
        .map(|n| {
            json!({
                "flight_number": format!("ZQ{}", 300 + n), "seats": 20 + n,
                "gate": format!("G{n}"), "price": 90 + 13 * n, "craft": words(n, 1),
            })
        })
        .collect();
    let found = json!({ "flights": flights }).to_string();
    let mut all = job(&[("search_flights", "{}", found.as_str())]);
    all.pop();
    let options: Vec<String> = (1..7)
        .map(|n| {
            let flight = |nth: usize, at: usize| {
                format!(
                    "   - **Flight {nth}:**\n     - Flight Number: ZQ{}\n     \
                    - Departure: {}:05\n     - Price: ${}\n",
                    300 + at,
                    6 + at,
                    90 + 13 * at
                )
            };
            let (first, second) = (flight(1, 2 * n - 1), flight(2, 2 * n));
            format!("{n}. **Flight Option {n}:**\n{first}{second}")
        })
        .collect();
    let offer = format!(
        "These are left from Graz (GRZ):\n\n{}\nAll can be paid with voucher_7712. \
        Which of them do you want?",
        options.join("\n")
    );
    all.extend([message("assistant", &offer), message("user", answer)]);
    all
}

#[test]
fn the_option_that_was_chosen_stays_whole() {
    for answer in [
        "I would like to book Flight Option 4, please.",
        "Let us go with the fourth option, since it is the cheaper one, and send me the invoice.",
        "Take the one with ZQ307 from Graz (GRZ).",
        "4, please",
    ] {
        let digest = digest_in(330, &options_and(answer));
        let said = digest.split("assistant: ").last().unwrap();
        for needed in ["ZQ307", "13:05", "$181", "ZQ308", "14:05", "$194"] {
            assert!(said.contains(needed), "{answer} {needed}: {digest}");
        }
        let shown = |n: usize| said.contains(&format!("Flight Number: ZQ{}", 300 + n));
        let others = (1..13).filter(|n| !matches!(n, 7 | 8) && shown(*n)).count();
        assert!(others < 5, "{answer}: {digest}");
        let rows = digest.lines().filter(|line| line.starts_with("  ZQ30"));
        let rows: Vec<&str> = rows
            .map(|row| row.trim().split(',').next().unwrap())
            .collect();
        assert!(
            rows.iter().all(|row| ["ZQ307", "ZQ308"].contains(row)),
            "{answer}: {digest}"
        );
    }
}

#[test]
fn what_introduces_a_list_chooses_none_of_its_items() {
    // All of these fly from where the user said, so that he named none of them.
    let all = options_and("And which of those from GRZ have a meal?");
    let digest = digest_in(330, &all);
    let said = digest.split("assistant: ").last().unwrap();
    assert!(said.contains("voucher_7712"), "{digest}");
}

#[test]
fn a_value_of_an_option_stays_with_the_option() {
    let mut all = job(&[("search_flights", "{}", &words(4, 500))]);
    all.pop();
    let options: Vec<String> = (1..9)
        .map(|n| {
            format!(
                "{n}. **Flight ZQ{n}**\n   - Departure: 1{n}:05\n   - Arrival: 2{n}:55\n   \
                - Price: ${}\n   - Seats left: {}",
                110 + n * 17,
                20 + n
            )
        })
        .collect();
    let offer = format!(
        "These are left:\n\n{}\n\nWhich of them do you want?",
        options.join("\n\n")
    );
    all.extend([
        message("assistant", &offer),
        message("user", "I will take ZQ6. What is the fare for two?"),
    ]);
    for room in [300, 360, 420] {
        let digest = digest_in(room, &all);
        let mut option = 0;
        let mut shown = 0;
        for line in digest.lines() {
            if let Some((_, flight)) = line.split_once("**Flight ZQ") {
                option = flight[..1].parse().unwrap();
            }
            if let Some((_, price)) = line.split_once("Price: $") {
                let price: String = price.chars().take_while(char::is_ascii_digit).collect();
                assert_eq!(price, (110 + option * 17).to_string(), "{digest}");
                shown += 1;
            }
        }
        assert!(shown > 0 && digest.contains("Price: $212"), "{digest}");
    }
}

/// A chat in which the user wants another lamp instead of the one that he ordered, and what was
/// looked up since: the newest result has all of his words, too.
fn lamps_for(ordered: &str, wanted: &str) -> Vec<String> {
    let shades = ["silver", "black", "copper", "white"];
    let bases = ["oak", "stone", "steel"];
    let variants = (0..12).map(|n| {
        let id = format!("771{:03}", 113 + 37 * n);
        let lamp = json!({
            "lamp_id": id, "shade": shades[n % 4], "base": bases[n / 4],
            "dims": n % 2 == 1, "price": 41 + 7 * n,
        });
        (id, lamp)
    });
    let variants: serde_json::Map<String, Value> = variants.collect();
    let lamps = json!({ "name": words(1, 2), "variants": variants }).to_string();
    let order = json!({
        "order_id": "W-31", "status": "pending", "paid_with": "card_7712",
        "items": [
            { "name": "floor lamp", "lamp_id": "771150", "price": 47 },
            { "name": "desk lamp", "lamp_id": "772446", "price": 105 },
        ],
        "address": { "street": words(3, 3), "zip": "31007" },
    });
    let (order, notes) = (order.to_string(), words(5, 160));
    let desks = "In stock for desks: silver, black, copper and white shades; steel, oak and stone \
        bases.";
    let mut all = job(&[
        ("get_order", r#"{"order":"W-31"}"#, order.as_str()),
        ("get_product", r#"{"product":"floor lamp"}"#, &lamps),
        ("get_notes", r#"{"order":"W-31"}"#, &notes),
        ("get_product", r#"{"product":"desk lamp"}"#, desks),
    ]);
    all.pop();
    let task = format!(
        "For order W-31, please change the floor lamp with {ordered} to one with {wanted}, and \
        then the desk lamp, too."
    );
    if let Some(user) = all.get_mut(1) {
        *user = message("user", &task);
    }
    all
}

#[test]
fn the_row_that_the_user_describes_stays() {
    let ordered = "the black shade and the oak base";
    for (ordered, wanted, id) in [
        (ordered, "a white shade and a stone base", "771372"),
        (ordered, "a silver shade and a stone base", "771261"),
        (
            "the white shade and the steel base",
            "a copper shade and an oak base",
            "771187",
        ),
    ] {
        for target in (280..380).step_by(20) {
            let digest = digest_in(target, &lamps_for(ordered, wanted));
            assert!(digest.contains(id), "{target} {wanted} {id}: {digest}");
        }
    }
}

/// A customer's profile with his means of payment, and what he says in the end.
fn profile_and(answer: &[&str]) -> Vec<String> {
    let profile = json!({
        "customer_id": "mara_ilic_3391", "email": "mara.ilic@example.com", "born": "1988-02-11",
        "level": "silver", "trips": ["QX81LM", "PO22VV", "AA19ZK"],
        "address": {"street": "Weg 4", "place": "Linz", "code": "4020", "country": "AT"},
        "means": [
            {"source": "voucher", "amount": 500, "id": "voucher_8045380"},
            {"source": "voucher", "amount": 150, "id": "voucher_3887113"},
            {"source": "credit_card", "brand": "visa", "last_four": "7238",
             "id": "credit_card_4196779"},
            {"source": "gift_card", "amount": 274, "id": "gift_card_5094406"},
        ],
    });
    let found = json!([
        {"ride": "ZQ301", "from": "GRZ", "to": "LNZ", "leaves": "06:05", "price": 114},
        {"ride": "ZQ302", "from": "GRZ", "to": "LNZ", "leaves": "07:05", "price": 174},
        {"ride": "ZQ303", "from": "GRZ", "to": "LNZ", "leaves": "09:05", "price": 161},
    ]);
    let (profile, found) = (profile.to_string(), found.to_string());
    let mut all = job(&[
        (
            "get_profile",
            r#"{"customer_id":"mara_ilic_3391"}"#,
            profile.as_str(),
        ),
        (
            "search_rides",
            r#"{"from":"GRZ","to":"LNZ"}"#,
            found.as_str(),
        ),
    ]);
    all.pop();
    all.push(message(
        "assistant",
        "There are three rides to Linz. The one at seven costs 174 for each of you. You can pay \
        with a voucher, with the Visa that ends in 7238, or with your gift card. I can also keep \
        the seats for an hour, if you would like to think about it. Which of them shall it be?",
    ));
    for (nth, said) in answer.iter().enumerate() {
        if nth > 0 {
            all.push(message(
                "assistant",
                "So I will book ZQ302 for two. Is that right?",
            ));
        }
        all.push(message("user", said));
    }
    all
}

#[test]
fn the_card_whose_last_digits_the_user_said_stays_with_its_id() {
    for answer in [
        &["Take the one ending in 7238."][..],
        &[
            "Take the one ending in 7238, please.",
            "Yes, that is right. Go ahead.",
        ],
    ] {
        let digest = digest_in(330, &profile_and(answer));
        assert!(
            digest.contains("credit_card_4196779"),
            "{answer:?}: {digest}"
        );
    }
}

#[test]
fn a_number_of_another_matter_picks_no_row() {
    let kept = |digest: &str| digest.contains("credit_card_4196779");
    let picked = ["Take the one ending in 7238.", "Yes, that is right."];
    let long_ago = [&picked[..], &["And the seats?"; 3][..], &["Go on."]].concat();
    let (now, then) = (profile_and(&picked), profile_and(&long_ago));
    let last = (220..400)
        .step_by(10)
        .filter(|target| kept(&digest_in(*target, &now)));
    let then = (220..400)
        .step_by(10)
        .filter(|target| kept(&digest_in(*target, &then)));
    assert!(then.count() < last.count());
}

#[test]
fn a_value_is_known_by_the_words_that_people_say_for_it() {
    for answer in [
        &["I will use my gift card."][..],
        &["I will use my gift card.", "Yes, that is right. Go ahead."],
    ] {
        let digest = digest_in(330, &profile_and(answer));
        assert!(digest.contains("gift_card_5094406"), "{answer:?}: {digest}");
    }
}

#[test]
fn what_the_user_does_not_want_brings_no_row() {
    let staff: Vec<Value> = (0..12)
        .map(|n| {
            let name = ["Bram", "Salma", "Jelle", "Priya", "Koen", "Lucia"][n % 6];
            let name = format!("{name} {}", words(n + 1, 1));
            json!({"id": format!("E-34{n:02}"), "name": name, "desk": n * 7 % 11})
        })
        .collect();
    let staff = json!({ "members": staff }).to_string();
    let filler = words(3, 900);
    let mut all = job(&[("team_members", "{}", staff.as_str())]);
    all.pop();
    all.extend([
        message("assistant", "Who should be her guide?"),
        message(
            "user",
            &format!("Not Bram {}, he is on leave.", words(1, 1)),
        ),
        message("assistant", &format!("Then Priya {}.", words(4, 1))),
        message("user", "Good. Tell me about the office."),
        message("assistant", &filler),
        message("user", "Thanks."),
    ]);
    let digest = digest_in(160, &all);
    assert!(
        digest.contains("E-3403") && !digest.contains("E-3400"),
        "{digest}"
    );
}
