//! `dedupe`: repeated results and blocks become references to the newest copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baler::core::Cancel;
use serde_json::json;

use crate::support::words;

use super::{calls, compacted, compacted_while, job, numbered, result, results, tokens};

#[test]
fn an_identical_older_result_becomes_a_reference_to_the_newest() {
    let same = words(1, 60);
    let all = job(&[
        ("read", r#"{"path":"src/main.rs"}"#, &same),
        ("read", r#"{"path":"src/other.rs"}"#, &words(2, 60)),
        ("cat", r#"{"file":"src/main.rs"}"#, &same),
        (
            "read",
            r#"{"path":"/home/ann/project/src/main.rs","lines":[1,2,3,4,5]}"#,
            &same,
        ),
    ]);
    let after = compacted(&all, r#""dedupe""#);
    let reference = |below: usize| {
        format!(
            "[the same as the result {below} below: read(path=/home/ann/project/src/main.rs, \
            lines=[1, 2, 3, … 5 in all])]"
        )
    };
    assert_eq!(
        results(&after.messages),
        [reference(3), words(2, 60), reference(1), same]
    );
    assert_eq!(
        (
            after.report("dedupe").replaced,
            after.report("dedupe").dropped
        ),
        (2, 0)
    );
    assert_eq!(
        compacted(&after.messages, r#""dedupe""#).messages,
        after.messages,
        "references, long as they are, refer to nothing else"
    );
}

#[test]
fn a_run_of_lines_that_stands_again_later_becomes_a_reference() {
    let shared = numbered(12);
    let older = format!("first of all\n{shared}\nand then");
    let newer = format!("something else\n{shared}");
    let all = job(&[
        ("run", r#"{"cmd":"ls"}"#, &older),
        ("run", r#"{"cmd":"ls -l"}"#, &newer),
    ]);
    let after = compacted(&all, r#""dedupe""#);
    assert_eq!(
        results(&after.messages),
        [
            "first of all\n\
            [… 12 lines: the same as lines 2–13 of the result 1 below: run(cmd=ls -l) …]\nand then",
            newer.as_str()
        ]
    );
    assert_eq!(
        compacted(&all, "{ dedupe = { blocks = false } }").messages,
        all,
        "unless runs are not compared"
    );
    let all = job(&[("run", "{}", &newer), ("run", "{}", &newer)]);
    let after = compacted(&all, "{ dedupe = { blocks = false } }");
    assert_eq!(
        results(&after.messages),
        ["[the same as the result 1 below: run()]", newer.as_str()],
        "whole results still are"
    );
}

#[test]
fn a_copy_in_the_newest_exchange_is_the_one_that_stays() {
    let same = words(1, 60);
    let mut all = job(&[("read", r#"{"path":"a"}"#, &same)]);
    all.extend([
        calls(&[("last", "read", r#"{"path":"a"}"#)]),
        result("last", &same),
    ]);
    let after = compacted(&all, r#""dedupe""#);
    assert_eq!(
        results(&after.messages),
        [
            "[the same as the result 1 below: read(path=a)]",
            same.as_str()
        ]
    );
}

#[test]
fn a_reference_ends_with_the_files_name_and_fits_one_result_only() {
    let path = "/home/ann/projects/of/the/year/packages/agent/source/core/strategy/dedupe.rs";
    let call = json!({"path": path, "offset": 640, "limit": 70}).to_string();
    let shared = numbered(30);
    let older = format!("before\n{shared}\nafter");
    let newer = |n: usize| format!("{}\n{shared}", words(n, 40));
    let all = job(&[
        ("read", &call, &older),
        ("read", &call, &words(5, 60)),
        ("read", &call, &newer(1)),
        ("read", &call, &newer(2)),
    ]);
    let after = results(&compacted(&all, r#""dedupe""#).messages);
    let path = "…/of/the/year/packages/agent/source/core/strategy/dedupe.rs";
    let label = &format!("read(limit=70, offset=640, path={path})");
    assert_eq!(
        after[0],
        format!(
            "before\n[… 30 lines: the same as lines 2–31 of the result 3 below: {label} …]\nafter"
        ),
        "four calls have this label, and one stands there"
    );
}

#[test]
fn what_stands_around_a_run_of_lines_keeps_its_line_ends() {
    let shared = numbered(12);
    let older = format!("first of all\r\nand more\r\n{shared}\nand then\r\n\n");
    let all = job(&[
        ("run", "{}", &older),
        ("run", "{}", &format!("something else\n{shared}\nthe end")),
    ]);
    let reference = "[… 12 lines: the same as lines 2–13 of the result 1 below: run() …]";
    assert_eq!(
        results(&compacted(&all, r#""dedupe""#).messages)[0],
        format!("first of all\r\nand more\r\n{reference}\nand then\r\n\n")
    );
}

#[test]
fn results_with_other_images_beside_the_same_text_are_no_copies() {
    let with = |id: &str, image: &str| {
        let parts = json!([{"type": "text", "text": words(1, 60)}, {"type": "image_url",
            "image_url": {"url": image}}]);
        json!({"role": "tool", "tool_call_id": id, "content": parts}).to_string()
    };
    let mut all = job(&[("look", "{}", ""), ("look", "{}", "")]);
    (all[3], all[5]) = (
        with("call_0", "https://example.com/1.png"),
        with("call_1", "https://example.com/2.png"),
    );
    assert_eq!(
        compacted(&all, "{ dedupe = { blocks = false } }").messages,
        all
    );
}

#[test]
fn short_or_different_results_are_no_copies() {
    let all = job(&[
        ("read", "{}", "ok"),
        ("read", "{}", "ok"),
        ("read", "{}", &words(1, 60)),
        ("read", "{}", &words(2, 60)),
    ]);
    assert_eq!(compacted(&all, r#""dedupe""#).messages, all);
}

#[test]
fn a_reference_is_short_however_long_the_arguments_of_the_call_are() {
    let call = json!({"k".repeat(5_000): "v", "list": vec!["x".repeat(50); 4]}).to_string();
    let same = words(1, 400);
    let all = job(&[("read", &call, &same), ("read", &call, &same)]);
    let after = results(&compacted(&all, r#""dedupe""#).messages);
    assert!(after[0].starts_with("[the same as the result 1 below: read("));
    assert!(after[0].chars().count() < 260, "{}", after[0]);
    let shared = format!("first\n{}", numbered(40));
    let all = job(&[("read", &call, &shared), ("read", &call, &numbered(40))]);
    let after = results(&compacted(&all, r#""dedupe""#).messages);
    assert!(after[0].starts_with("first\n[… 40 lines: the same as lines 1–40 of"));
    assert!(after[0].chars().count() < 320, "{}", after[0]);
}

#[test]
fn the_flag_is_looked_at_before_each_result() {
    let contents: Vec<String> = (0..400).map(|n| format!("result {n}")).collect();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    let looks = |most: usize| {
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= most);
        let done = compacted_while(&all, r#""dedupe""#, tokens(&all) / 4, &cancel);
        (looked.load(Ordering::Relaxed), done.is_ok())
    };
    let (whole, ended) = looks(usize::MAX);
    assert!(ended && whole >= 400, "{whole} looks for 400 results");
    let (looked, ended) = looks(200);
    assert!(!ended && looked <= 201, "{looked} looks");
}
