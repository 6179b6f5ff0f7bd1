//! A newest result that alone exceeds the target.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baler::core::Cancel;
use baler::core::edit::Edit;
use serde_json::{Value, json};

use crate::invariants::policy_of;
use crate::support::message;

use super::{calls, compacted_while, forced, job, numbered, result, tagged, text, tokens};

#[test]
fn a_newest_result_that_is_too_much_loses_white_space_before_it_loses_a_value() {
    let items: Vec<Value> = (0..100)
        .map(|n| {
            json!({"identifier": format!("IT-{}", 4_000 + n),
            "description": format!("part {n}"), "available": n % 2})
        })
        .collect();
    let pretty = serde_json::to_string_pretty(&items).unwrap();
    let mut all = job(&[("list_items", "{}", &pretty)]);
    all.pop();
    let policy = policy_of(
        "[[policy]]\nwindow = 2000\nreserve = 0\ntrigger = { ratio = 1.0 }\n\
        target = { ratio = 0.9 }\nladder = [\"token_budget\"]\n",
    );
    assert!(tokens(&all) > 2_000);
    let after = forced(&all, &policy);
    let result = text(after.messages.last().unwrap());
    assert!(
        result.contains("of this tool result removed"),
        "what was done is said: {result}"
    );
    assert!(
        (0..100).all(|n| result.contains(&format!("part {n},IT-{}", 4_000 + n))),
        "{result}"
    );
    // Where that is too little, lines go.
    let small = policy_of(
        "[[policy]]\nwindow = 600\nreserve = 0\ntrigger = { ratio = 1.0 }\n\
        target = { ratio = 0.9 }\nladder = [\"token_budget\"]\n",
    );
    let cut = forced(&all, &small);
    assert!(tokens(&cut.messages) <= 600);
    assert!(text(cut.messages.last().unwrap()).contains("of this tool result removed"));
}

#[test]
fn a_newest_result_of_which_all_lines_stay_does_not_say_that_lines_are_missing() {
    // A listing with many blank lines, each with its number.
    let listing: String = (1..900)
        .map(|n| match n % 30 {
            0 => format!("  {n}\tlet field_{n} = read(source, {n});\n"),
            _ => format!("  {n}\t\n"),
        })
        .collect();
    let mut all = job(&[("read_file", "{}", &listing)]);
    all.pop();
    let policy = policy_of(
        "[[policy]]\nwindow = 1000\nreserve = 0\ntrigger = { ratio = 1.0 }\n\
        target = { ratio = 0.9 }\nladder = [\"token_budget\"]\n",
    );
    assert!(tokens(&all) > 1_000);
    let result = text(forced(&all, &policy).messages.last().unwrap());
    let fields = |n: usize| result.contains(&format!("let field_{n} = read"));
    assert!((1..30).all(|n| fields(30 * n)), "{result}");
    assert!(
        result.contains("blanks and noise") && !result.contains(" lines "),
        "{result}"
    );
}

#[test]
fn a_newest_result_with_half_of_a_surrogate_pair_is_cut_like_any_other() {
    // JavaScript writes such text where it cut a string inside of a character.
    let log: String = (0..400)
        .map(|n| format!("line {n} of the log\\n"))
        .collect();
    let mut all = job(&[("read_log", "{}", "HERE")]);
    all.pop();
    let newest = all.pop().unwrap();
    all.push(newest.replace("HERE", &format!("{log}cut \\ud83d")));
    let policy = policy_of(
        "[[policy]]\nwindow = 1000\nreserve = 0\ntrigger = { ratio = 1.0 }\n\
        target = { ratio = 0.9 }\nladder = [\"token_budget\"]\n",
    );
    assert!(tokens(&all) > 1_000);
    let after = forced(&all, &policy);
    assert!(tokens(&after.messages) <= 1_000);
    assert!(text(after.messages.last().unwrap()).contains("of this tool result removed"));
}

#[test]
fn a_target_without_room_above_it_is_shared_between_the_newest_result_and_what_is_older() {
    let log = |n: usize| {
        (0..40)
            .map(|line| format!("worker {n} line {line} wrote /srv/data/part-{n}-{line}.bin"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (old, new) = (log(1), log(2));
    let mut all = job(&[
        ("read_log", r#"{"n":1}"#, &old),
        ("read_log", r#"{"n":2}"#, &new),
    ]);
    all.pop();
    let newest = tokens(&all[all.len() - 2..]);
    let policy = |window: u64, ratio: f64| {
        policy_of(&format!(
            "[[policy]]\nwindow = {window}\nreserve = 0\ntrigger = {{ ratio = 1.0 }}\n\
            target = {{ ratio = {ratio} }}\nladder = [\"digest\", \"token_budget\"]\n"
        ))
    };
    // No room above the target: neither takes all of it.
    let shared = forced(&all, &policy(newest + 100, 0.99)).messages;
    assert!(tagged(&shared, "conversation_digest").contains("/srv/data/part-1-"));
    assert!(text(shared.last().unwrap()).contains("of this tool result removed"));
    // It has room as a whole beside what older messages need at least: it was not answered yet.
    let whole = forced(&all, &policy(newest + 600, 0.99)).messages;
    assert_eq!(text(whole.last().unwrap()), new);
    assert!(tagged(&whole, "conversation_digest").contains("/srv/data/part-1-"));
    // Room above it is for the newest.
    let roomy = forced(&all, &policy(newest * 2, 0.5)).messages;
    assert_eq!(text(roomy.last().unwrap()), new);
}

/// What becomes of old messages where it is the newest result that matters.
const LADDER: &str = r#""token_budget""#;

/// A long dialogue, then one call whose result alone is too much.
fn read_after(texts: usize) -> Vec<String> {
    let mut all: Vec<String> = (0..texts)
        .map(|nth| message("user", &format!("Part {nth} is mine.")))
        .collect();
    all.extend([
        calls(&[("c", "read_log", "{}")]),
        result("c", &numbered(2_000)),
    ]);
    all
}

#[test]
fn a_choice_of_lines_stops_between_the_texts_that_it_goes_by() {
    let all = read_after(2_000);
    let looks = |most: usize| {
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= most);
        let done = compacted_while(&all, LADDER, 2_000, &cancel);
        (looked.load(Ordering::Relaxed), done.is_ok())
    };
    let (whole, ended) = looks(usize::MAX);
    assert!(ended && whole >= 2_000, "{whole} looks for 2,000 texts");
    let (looked, ended) = looks(1_000);
    assert!(!ended && looked <= 1_001, "{looked} looks");
}

#[test]
fn a_newest_result_is_cut_by_its_ends_once_the_time_for_a_choice_is_spent() {
    let all = read_after(10);
    let newest = |cancel: &Cancel| {
        let edits = compacted_while(&all, LADDER, 2_000, cancel).unwrap();
        match edits.last() {
            Some(Edit::Replace(new)) => text(&new.json),
            other => panic!("{other:?}"),
        }
    };
    let chosen = newest(&Cancel::default());
    assert!(
        chosen.contains("lines of this tool result removed"),
        "{chosen}"
    );
    let late = newest(&Cancel::default().with_budget(|| true));
    assert!(
        late.contains(" bytes of this tool result removed"),
        "{late}"
    );
    assert!(late.starts_with("line 0 says 0\n") && late.ends_with(&(1_999 * 7919).to_string()));
    // A budget that is spent in the middle of a choice.
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let spent = move || counter.fetch_add(1, Ordering::Relaxed) >= 8;
    let late = newest(&Cancel::default().with_budget(spent));
    assert!(
        late.contains(" bytes of this tool result removed"),
        "{late}"
    );
}
