//! What the next call is about: the records that the user's newest message or the model's proposal
//! before it names, the thing that he asks for by its name, the offer that he agreed to.

use serde_json::{Value, json};

use super::digest_needs::digest_in;
use super::digest_parts::{bookings_and, legs_of};
use super::{calls, job, result};
use crate::support::{message, words};

/// The rows of a table that are shown of booking `id`, by what all of them have.
fn rows(digest: &str, id: &str, of: &str) -> usize {
    let lines = digest.lines();
    let rows = lines.filter(|line| line.starts_with(&format!(" {id},")));
    rows.filter(|row| row.contains(of)).count()
}

#[test]
fn the_record_in_question_is_told_with_all_its_lists() {
    let plain = bookings_and("Go on with what we talked about.");
    let named = bookings_and("Please move BK437Q to economy.");
    let mut proposed = bookings_and("Yes, please.");
    let at = proposed.len() - 2;
    proposed[at] = message("assistant", "Shall I move BK437Q to economy?");
    let mut told = [0; 3];
    for (all, told) in [plain, proposed, named].iter().zip(&mut told) {
        for target in (240..480).step_by(20) {
            let digest = digest_in(target, all);
            let has_legs = rows(&digest, "BK437Q", ",ZQ") == legs_of(3).len();
            let has_own = rows(&digest, "BK437Q", "T08:13:00") == 1;
            *told += usize::from(has_legs && has_own);
        }
    }
    let [plain, proposed, named] = told;
    assert!(named >= 9, "{told:?}");
    assert!(proposed >= 9, "{told:?}");
    assert!(plain + 5 < named.min(proposed), "{told:?}");
}

#[test]
fn of_several_records_in_question_the_first_that_is_open_comes_first() {
    let mut all = bookings_and("Yes, all of it, please.");
    let at = all.len() - 2;
    let proposal = "I would move BK437Q to economy, then cancel BK467Q. Shall I?";
    all[at] = message("assistant", proposal);
    let first = |digest: &str| {
        let legs = |id: &str, n: usize| rows(digest, id, ",ZQ") == legs_of(n).len();
        (legs("BK437Q", 3), legs("BK467Q", 6))
    };
    let shown: Vec<(bool, bool)> = (220..420)
        .step_by(20)
        .map(|target| first(&digest_in(target, &all)))
        .collect();
    assert!(shown.contains(&(true, false)), "{shown:?}");
    assert!(!shown.contains(&(false, true)), "{shown:?}");
    // Once the first was moved, the other is next.
    let moved = json!({"booking_id": "BK437Q", "cabin": "economy"}).to_string();
    all.extend([
        calls(&[("call_m", "update_booking", &moved)]),
        result("call_m", r#"{"ok":true}"#),
    ]);
    let shown: Vec<(bool, bool)> = (240..440)
        .step_by(20)
        .map(|target| first(&digest_in(target, &all)))
        .collect();
    assert!(shown.contains(&(false, true)), "{shown:?}");
}

/// A shop's order of things of several kinds, and the variants of one of them.
fn order_and(answer: &str) -> Vec<String> {
    let item = |name: &str, n: u32, options: Value| {
        json!({
            "name": name, "product_id": (54_269 + n).to_string(),
            "item_id": (89_263_290 + n).to_string(), "price": 100 + n, "options": options
        })
    };
    let order = json!({
        "order_id": "#W5511", "status": "delivered",
        "items": [
            item("Skateboard", 1, json!({"length": "31 inch", "design": "graphic"})),
            item("Charger", 2, json!({"color": "blue", "output": "USB"})),
            item("Luggage Set", 3, json!({"color": "black", "material": "softshell"})),
            item("Desk Lamp", 4, json!({"color": "white", "power": "battery"})),
        ]
    });
    let variants: Vec<Value> = ["black", "red", "green", "red", "blue", "silver", "black"]
        .iter()
        .enumerate()
        .map(|(n, color)| {
            json!({
                "item_id": format!("{}", 71_609_990 + n * 137), "available": true,
                "material": if n % 2 == 0 { "softshell" } else { "hardshell" },
                "color": color, "price": 480 + 7 * n
            })
        })
        .collect();
    let product = json!({"name": "Luggage Set", "product_id": "54272", "variants": variants});
    let (order, product) = (order.to_string(), product.to_string());
    let filler = [words(3, 300), words(4, 300)];
    let mut all = job(&[
        ("read", r#"{"path":"a"}"#, &filler[0]),
        ("get_order", r##"{"order_id":"#W5511"}"##, &order),
        ("get_product", r#"{"product_id":"54272"}"#, &product),
        ("read", r#"{"path":"b"}"#, &filler[1]),
    ]);
    all.pop();
    all.extend([
        message("assistant", "I have both now."),
        message("user", answer),
    ]);
    all
}

#[test]
fn what_is_asked_for_by_its_name_is_told_and_what_is_wanted_of_it() {
    let asks =
        order_and("Send me the luggage set in red, and the skateboard with 34 inch instead.");
    let other = order_and("Send me another one of both.");
    let (mut found, mut before) = (0, 0);
    for target in (260..420).step_by(20) {
        let has = |digest: &str| {
            let items = [",Luggage Set,", ",Skateboard,"];
            let is_red = digest
                .lines()
                .filter(|line| line.contains("  red,"))
                .count()
                == 2;
            items.iter().all(|item| digest.contains(item)) && is_red
        };
        found += usize::from(has(&digest_in(target, &asks)));
        before += usize::from(has(&digest_in(target, &other)));
    }
    assert!(found >= 7, "{found}, {before}: {}", digest_in(400, &asks));
    assert!(before < found, "{found}, {before}");
}

#[test]
fn a_short_offer_stays_what_was_agreed_to_once_something_was_looked_up() {
    let offer = "There is one that leaves after eight:\n\n- **Flight ZQ068**\n  - Leaves: 11:00\n\
        \x20 - Price: $107\n\nWould you like it?";
    let search = |n: usize| {
        (
            format!("call_s{n}"),
            format!(r#"{{"day":"2031-03-{n:02}"}}"#),
        )
    };
    let mut all = job(&[("read", r#"{"path":"a"}"#, &words(3, 500))]);
    all.pop();
    all.extend([
        message("user", "Does any of them leave after eight?"),
        message("assistant", offer),
        message("user", "Yes, that works for me! And look for one back."),
    ]);
    for n in 11..14 {
        let (id, asked) = search(n);
        all.extend([
            calls(&[(&id, "search", &asked)]),
            result(&id, &words(n, 90)),
        ]);
    }
    let digest = digest_in(340, &all);
    assert!(digest.contains("Flight ZQ068"), "{digest}");
    assert!(digest.contains("$107"), "{digest}");
}

#[test]
fn a_result_that_shows_the_state_before_a_change_says_what_was_asked() {
    let booking = |id: &str, cabin: &str| {
        json!({"booking_id": id, "cabin": cabin, "bags": 1, "owner": "ada_87"}).to_string()
    };
    let (one, two) = (booking("BK437Q", "business"), booking("BK447Q", "business"));
    let filler = words(7, 500);
    let steps = [
        ("get_booking", r#"{"booking_id":"BK437Q"}"#, one.as_str()),
        ("get_booking", r#"{"booking_id":"BK447Q"}"#, two.as_str()),
        (
            "update_booking",
            r#"{"booking_id":"BK437Q","cabin":"economy"}"#,
            one.as_str(),
        ),
        ("read", "{}", filler.as_str()),
        ("list", "{}", "nothing"),
    ];
    let digest = digest_in(300, &job(&steps));
    assert!(digest.contains("business (asked: economy)"), "{digest}");
    assert_eq!(digest.matches("asked:").count(), 1, "{digest}");
}
