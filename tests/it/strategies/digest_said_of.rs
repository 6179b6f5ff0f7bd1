//! What a line is said of comes with it: the item with what is said in it, the sender with the
//! mail, the title with the hit; and of the variants of a product those that one piece of the
//! user's message describes.

use serde_json::json;

use crate::support::{message, words};

use super::digest_needs::digest_in;
use super::{calls, result, tokens};

/// The digest of one call with its result, what the model said of it, and pages that nobody needs
/// any more, in so many percent of the tokens.
fn digest_of(tool: &str, found: &str, note: &str, last: &str, percent: u64) -> String {
    let mut all = vec![
        message("user", "Have a look, please."),
        calls(&[("call_1", tool, "{}")]),
        result("call_1", found),
        message("assistant", note),
    ];
    for n in 0..5 {
        let id = format!("call_filler_{n}");
        let path = format!(r#"{{"path":"docs/page_{n}.md"}}"#);
        all.extend([
            message("user", &format!("And what does page {n} say?")),
            calls(&[(id.as_str(), "read_page", path.as_str())]),
            result(&id, &words(n + 3, 90)),
            message("assistant", &format!("Page {n} is about {}.", words(n, 6))),
        ]);
    }
    all.push(message("user", last));
    digest_in(tokens(&all) * percent / 100, &all)
}

/// For each line with `said`, one of the lines above it has `of`, and none between them `other`.
fn stands_below(digest: &str, said: &str, of: &str, other: &str) -> bool {
    let lines: Vec<&str> = digest.lines().collect();
    let mut told = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(said));
    told.all(|(at, line)| {
        let above = lines[..at].iter().rev();
        let mut heads = std::iter::once(line)
            .chain(above)
            .filter(|line| line.contains(of) || line.contains(other));
        heads.next().is_some_and(|head| head.contains(of))
    })
}

#[test]
fn a_sentence_of_an_item_is_not_told_without_the_item() {
    let note = "Comparable sites, by what was measured since they were built:\n\
        - La Rance: from 1,520 to 860 ha by the charts. A thesis of 2009 gives 950 ha, -37 %.\n\
        - Annapolis: no data of the flats at all. It stopped in 2019 for its turbines.\n\
        - Sihwa: a gain of 5.2 km2 of flats. The wall stood there before, built in 1994.";
    for percent in [22, 26, 30, 36] {
        let digest = digest_of("search", &words(1, 200), note, "Go on, please.", percent);
        for (said, of) in [
            ("950 ha", "La Rance"),
            ("2019", "Annapolis"),
            ("1994", "Sihwa"),
        ] {
            assert!(stands_below(&digest, said, of, "- "), "{percent} {digest}");
        }
    }
}

#[test]
fn what_a_mail_says_is_told_below_its_sender() {
    let mails = "From: Voss <contact@voss.example>\nMIME-Version: 1.0\nSubject: Special offer\n\
        Dear customer, all maps of this month cost 10 % less than they did.\n\n\
        From: Guild Imaging <im@guild.example>\nSubject: T92511 copy\n\
        We offer 8 pages at 300 dpi for GBP 25.60, with order form GH-2.\n\
        The delivery takes 15 working days from the order on.\n\n\
        From: Ann Lee <ann@lee.example>\nX-Spam-Score: 0.7\nSubject: Friday\n\
        The reading room is closed on Friday, so please come on Monday 3 March.";
    for percent in [24, 28, 34, 40] {
        let digest = digest_of(
            "inbox",
            mails,
            "There are three.",
            "Order the copy.",
            percent,
        );
        assert!(
            stands_below(&digest, "25.60", "Guild Imaging", "From:"),
            "{digest}"
        );
        assert!(
            stands_below(&digest, "3 March", "Ann Lee", "From:"),
            "{digest}"
        );
        // How a mail was carried says nothing; that makes it no older one.
        assert!(!digest.contains("older state"), "{digest}");
    }
    let digest = digest_of("inbox", mails, "There are three.", "Order the copy.", 40);
    assert!(digest.contains("25.60"), "{digest}");
}

#[test]
fn each_variant_is_found_by_the_piece_that_describes_it() {
    let materials = ["glass", "stainless steel", "ceramic"];
    let sizes = ["1 liter", "1.5 liters", "2 liters"];
    let mut variants = Vec::new();
    for (m, material) in materials.iter().enumerate() {
        for (s, size) in sizes.iter().enumerate() {
            for (h, heat) in ["gas", "induction"].iter().enumerate() {
                let id = 4_238_115_171_u64 + (m * 700_303 + s * 90_017 + h * 4_409) as u64;
                variants.push(
                    json!({"item_id": id.to_string(), "available": (m + s + h) % 3 > 0,
                    "options": {"material": material, "capacity": size, "heat": heat},
                    "price": 90.5 + m as f64 + s as f64 * 2.25}),
                );
            }
        }
    }
    let id_of = |material: &str, size: &str, heat: &str| -> String {
        let options = json!({"material": material, "capacity": size, "heat": heat});
        let one = variants
            .iter()
            .find(|variant| variant["options"] == options);
        one.unwrap()["item_id"].as_str().unwrap().to_owned()
    };
    let product = json!({"name": "Tea Kettle", "variants": &variants}).to_string();
    let last = "Change the kettle from stainless steel, 2 liters, induction to one in glass, \
        1 liter, for gas.";
    let wanted = id_of("glass", "1 liter", "gas");
    let replaced = id_of("stainless steel", "2 liters", "induction");
    for percent in [24, 30, 36] {
        let digest = digest_of("get_product", &product, "Here they are.", last, percent);
        assert!(digest.contains(&wanted), "{wanted} {percent} {digest}");
        assert!(digest.contains(&replaced), "{replaced} {percent} {digest}");
    }
}

#[test]
fn what_the_model_noted_of_documents_has_room_before_their_sentences() {
    let page: String = (0..24)
        .map(|n| {
            format!(
                "The clause {n} of the draft says that {}, as before.\n",
                words(n, 14)
            )
        })
        .collect();
    let note = "They tracked three changes, and there are more of substance.\n\
        - A director has to give a guarantee on request.\n\
        - The share of the charge became a fair part of it.\n\
        - The break came two years later, with all sums paid.\n\
        - The deposit was doubled and is held for the term.\n\
        Shall I go on?";
    let digest = digest_of("open_lease", &page, note, "Draft the letter, please.", 34);
    for noted in [
        "guarantee on request",
        "a fair part",
        "two years later",
        "doubled",
    ] {
        assert!(digest.contains(noted), "{noted} {digest}");
    }
}
