//! What a digest keeps of what is acted on next: the parts of a record as a whole, and what was
//! offered.

use serde_json::{Value, json};

use super::digest_needs::digest_in;
use super::job;
use crate::support::{message, words};

/// The legs of the trip of booking `n`: two, three or four.
pub(super) fn legs_of(n: usize) -> Vec<Value> {
    let place = |at: usize| ["GRZ", "VIE", "ZRH", "OSL", "BGO"][(n + at) % 5];
    (0..2 + n % 3)
        .map(|at| {
            json!({
                "from": place(at), "to": place(at + 1), "price": 90 + 17 * n + 7 * at,
                "flight": format!("ZQ{}", 300 + 10 * n + at),
                "date": format!("2031-03-{:02}", 2 + n + 5 * at),
            })
        })
        .collect()
}

/// A chat in which six bookings were looked up, and what the user says then.
pub(super) fn bookings_and(answer: &str) -> Vec<String> {
    let found: Vec<(String, String)> = (1..7)
        .map(|n| {
            let id = format!("BK{}7Q", 40 + n);
            let booking = json!({
                "booking_id": id, "bags": n % 3,
                "cabin": if n % 2 == 0 { "economy" } else { "business" },
                "created_at": format!("2031-02-0{n}T08:1{n}:00"), "legs": legs_of(n),
                "guests": [{ "name": words(n, 2), "born": format!("198{n}-04-0{n}") }]
            });
            (json!({ "booking_id": id }).to_string(), booking.to_string())
        })
        .collect();
    let calls: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|(asked, booking)| ("get_booking", asked.as_str(), booking.as_str()))
        .collect();
    let mut all = job(&calls);
    all.pop();
    let told = "These are your six bookings. Which of them should be changed?";
    all.extend([message("assistant", told), message("user", answer)]);
    all
}

#[test]
fn the_parts_of_the_record_that_is_acted_on_stay_whole() {
    let all = bookings_and("Please move BK437Q to economy.");
    let mut whole = 0;
    for target in (180..460).step_by(20) {
        let digest = digest_in(target, &all);
        let legs = digest.lines().filter(|line| line.starts_with(" BK437Q,"));
        let legs = legs.filter(|line| line.contains(",ZQ")).count();
        assert!([0, legs_of(3).len()].contains(&legs), "{target}: {digest}");
        whole += usize::from(legs > 0);
    }
    assert!(whole > 5, "{whole}");
}

/// A chat in which the model offers a flight there and one back, and what is said after it.
fn offer_and(said: &[(&str, &str)]) -> Vec<String> {
    let found = |from: &str, n: usize| {
        let flights = (n..n + 4).map(|n| {
            let (seats, price) = (n % 37, 40 + n % 53);
            json!({ "flight": format!("ZQ{n}"), "from": from, "seats": seats, "price": price })
        });
        Value::from_iter(flights).to_string()
    };
    let (there, back) = (found("GRZ", 311), found("OSL", 466));
    let mut all = job(&[
        ("search", r#"{"from":"GRZ","on":"2031-03-05"}"#, &there),
        ("search", r#"{"from":"OSL","on":"2031-03-19"}"#, &back),
    ]);
    all.pop();
    let leg = |name: &str, flight: &str, at: &str, price: u32| {
        format!(
            "### {name}\n- **Flight:** {flight}\n- **Leaves:** March {at} from gate {price}\n\
            - **Price:** ${price}\n"
        )
    };
    let offer = format!(
        "The cheapest trip is this one:\n{}{}In all it costs $112.",
        leg("There", "ZQ313", "5", 43),
        leg("Back", "ZQ468", "19", 69)
    );
    all.push(message("assistant", &offer));
    all.extend(said.iter().map(|(role, text)| message(role, text)));
    all
}

#[test]
fn an_offer_stays_while_the_model_asks_for_what_it_needs() {
    let asked = "To go on, I'll need the following information:\n\
        1. Passengers: the first name, the last name and the date of birth of each\n\
        2. Payment: which of the methods in your profile should be used\n\
        3. Bags: whether there are any, and how many each of them has\n\
        4. Insurance: whether you would like to have it\n\n\
        Once that is known, the trip can be booked.";
    let all = offer_and(&[
        ("user", "Good, book that."),
        ("assistant", asked),
        ("user", "It is for me alone, without bags."),
    ]);
    for target in [200, 220, 260, 320] {
        let digest = digest_in(target, &all);
        for needed in ["ZQ313", "ZQ468", "$112"] {
            assert!(digest.contains(needed), "{target} {needed}: {digest}");
        }
    }
}
