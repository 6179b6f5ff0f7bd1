//! Lists in a digest: of resources with lists and addresses of their own, of messages, of what the
//! model found, and of what people pass on beside their own words.

use serde_json::{Value, json};

use crate::support::{message, words};

use super::digest_needs::digest_in;
use super::{job, tokens};

/// A pull request as its API tells it.
fn pull(n: u32) -> Value {
    let number = 4_100 + n * 7;
    let page = format!("https://git.example/ledger/pull/{number}");
    json!({
        "url": format!("https://api.git.example/pulls/{number}"),
        "id": 1_000_000 + n * 13_577, "node_id": format!("PR_kwDO{number}xyz"), "html_url": page,
        "number": number, "state": if n == 5 { "open" } else { "closed" },
        "title": words(n as usize, 5),
        "user": {"login": format!("dev-{n}"), "html_url": format!("https://git.example/dev-{n}")},
        "labels": [
            {"name": format!("area/{n}"), "color": "8a29a0"}, {"name": "size/M", "color": "fbca04"}
        ],
        "merged_at": format!("2026-11-{:02}T10:28:42Z", 10 + n), "author_association": "MEMBER",
    })
}

/// Pages of resources are tables: one pattern stands for addresses that a number or a name makes,
/// and the lists that items have are one table with the items' numbers.
#[test]
fn resources_with_addresses_and_lists_of_their_own_are_rows() {
    let pulls = Value::from((0..9).map(pull).collect::<Vec<_>>()).to_string();
    let filler = words(7, 900);
    let all = job(&[
        ("list_pulls", "{}", pulls.as_str()),
        ("think", "{}", filler.as_str()),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) * 60 / 100, &all);
    for n in 0..9 {
        let row = digest
            .lines()
            .find(|line| line.contains(&format!("dev-{n}")));
        let row = row.unwrap_or_else(|| panic!("{n}: {digest}"));
        assert!(row.contains(&format!(",{},", 4_100 + n * 7)), "{row}");
        assert!(row.contains(&words(n, 5)), "{row}");
    }
    let pattern = "html_url=https://git.example/ledger/pull/<number>";
    assert_eq!(digest.matches(pattern).count(), 1, "{digest}");
    assert_eq!(digest.matches("/ledger/pull/").count(), 1, "{digest}");
    let labels = " [].labels: [18]{of_number,color,name}:\n  4100,8a29a0,area/0\n";
    assert!(digest.contains(labels), "{digest}");
    assert!(!digest.contains("PR_kwDO"), "{digest}");
}

/// Messages of a channel have their texts in their rows, however long the list.
#[test]
fn messages_keep_their_texts() {
    let said = |n: usize| match n {
        11 => {
            "no blocker, the workaround is `upload.part_size_mib: 16` in the config of the shard, \
               since the default of 5 is what bites"
                .to_owned()
        }
        n => words(n, 16),
    };
    let messages: Vec<Value> = (0..18)
        .map(|n| {
            let (user, ts) = (format!("U{n}RAMK"), format!("1795680{n}.86"));
            json!({"user": user, "text": said(n), "ts": ts})
        })
        .collect();
    let thread = json!({"ok": true, "messages": messages}).to_string();
    let filler = words(7, 900);
    let all = job(&[
        ("thread_replies", "{}", thread.as_str()),
        ("think", "{}", filler.as_str()),
        ("list", "{}", "done"),
    ]);
    for percent in [20, 40] {
        let digest = digest_in(tokens(&all) * percent / 100, &all);
        assert!(digest.contains("part_size_mib: 16"), "{percent}: {digest}");
        assert!(!digest.contains("others: "), "{percent}: {digest}");
    }
}

/// What the model worked out stands in the list that it told it in, not in the last line alone.
#[test]
fn what_the_model_found_stays_item_by_item() {
    let bulk: Vec<Value> = (0..90)
        .map(|n| json!({"doc": format!("D-{n}"), "plant": n % 4, "text": words(n, 4)}))
        .collect();
    let bulk = Value::from(bulk).to_string();
    let found = "Result of the match for KB-88142:\n- Item 20: 4,000.00 too much\n\
                 - Item 30: 1,851.50 too much, since QM 200014873 sent 70 of them back\n\
                 - Item 40: freight, 184.00 too much\nTotal 6,035.50 net.";
    let mut all = job(&[("list_documents", "{}", bulk.as_str())]);
    all.push(message("assistant", found));
    all.push(message("user", "Thanks. Now the other one."));
    let more = words(3, 700);
    all.extend(
        job(&[
            ("list_documents", "{}", more.as_str()),
            ("list", "{}", "done"),
        ])
        .split_off(1),
    );
    for percent in [25, 40] {
        let digest = digest_in(tokens(&all) * percent / 100, &all);
        for amount in ["4,000.00", "1,851.50", "184.00", "6,035.50"] {
            assert!(digest.contains(amount), "{percent}, {amount}: {digest}");
        }
    }
}

/// What people say themselves stays before the sheets and logs that they pass on.
#[test]
fn own_words_stay_before_what_is_pasted() {
    let sheet = |n: usize| -> String {
        let row = |at: usize| {
            let item = words(at + n, 4);
            format!(
                "  {at:02}.1  {item}   {} m²   {}.40   {}.80\n",
                at * 3,
                50 + at,
                900 + at * 37
            )
        };
        (0..60).map(row).collect()
    };
    let decisions = [
        "The kitchen stays at the back, we have seen it now.",
        "Use lime plaster in the hall.",
        "We take Bram, he is nice.",
        "The pergola is cancelled.",
    ];
    let mut all = vec![message("user", "We renovate a house.")];
    for (n, decision) in decisions.iter().enumerate() {
        all.push(message("user", &format!("This came today:\n{}", sheet(n))));
        all.push(message("assistant", &words(n, 40)));
        all.push(message("user", decision));
        all.push(message("assistant", &words(n + 9, 40)));
    }
    all.extend(job(&[("list", "{}", "done")]));
    let digest = digest_in(tokens(&all) * 15 / 100, &all);
    for decision in decisions {
        assert!(digest.contains(decision), "{decision}: {digest}");
    }
}

/// The row that the user chose by what it is, some messages ago, stays: the next call takes its id.
#[test]
fn the_row_that_was_chosen_by_its_words_stays() {
    let plans: Vec<Value> = (0..24)
        .map(|n| {
            let name = format!(
                "{} {} GB",
                ["Basic", "Essentials", "Family", "Unlimited"][n / 6],
                5 + n % 6 * 5
            );
            json!({"code": format!("PL-{}", 7_311 + n * 17), "name": name, "notes": words(n, 6),
                "monthly": 12.5 + n as f64})
        })
        .collect();
    let plans = json!({ "plans": plans }).to_string();
    let mut all = vec![message("user", "Which plans are there?")];
    all.extend(job(&[("list_plans", "{}", plans.as_str())]).split_off(1));
    all.push(message(
        "assistant",
        "There are several. Which one do you want?",
    ));
    all.push(message(
        "user",
        "ok the Essentials with 15 GB for him please",
    ));
    all.push(message("assistant", "Noted. And for you?"));
    let filler = words(7, 500);
    all.push(message("user", "I think about it. What is my balance?"));
    all.extend(job(&[("balance", "{}", filler.as_str()), ("list", "{}", "done")]).split_off(1));
    all.push(message("user", "Then order what I said."));
    let digest = digest_in(tokens(&all) * 25 / 100, &all);
    assert!(digest.contains("PL-7447"), "{digest}");
}
