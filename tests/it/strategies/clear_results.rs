//! `clear_results`: old results become placeholders.

use serde_json::json;

use crate::invariants::{Core, policy_of};
use crate::support::{message, messages_of, request, words};

use super::{arguments, calls, cleared, compacted, forced, job, result, results, tokens};

/// Results of five calls, distinct and long enough that a placeholder is shorter.
fn five_results() -> Vec<String> {
    (0..5)
        .map(|seed| format!("result {seed}: {}", words(seed, 60)))
        .collect()
}

#[test]
fn all_results_but_the_newest_become_placeholders() {
    let contents = five_results();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", r#"{"path":"a"}"#, content.as_str()))
        .collect();
    let all = job(&steps);
    for (options, gone) in [
        ("", vec![0, 1]),
        ("keep = 1", vec![0, 1, 2, 3]),
        ("keep = 0", vec![0, 1, 2, 3, 4]),
        ("keep = 5", vec![]),
        // About 70 tokens each.
        ("keep = 0, keep_tokens = 150", vec![0, 1, 2]),
        ("keep = 3, keep_tokens = 150", vec![0, 1]),
        ("keep = 0, keep_tokens = 10000", vec![]),
        ("older_than = 5, keep = 0", vec![0, 1, 2]),
    ] {
        let after = compacted(&all, &format!("{{ clear_results = {{ {options} }} }}"));
        assert_eq!(cleared(&all, &after.messages), gone, "{options}");
        assert_eq!(after.messages.len(), all.len());
        if !gone.is_empty() {
            assert_eq!(
                (
                    after.report("clear_results").replaced,
                    after.report("clear_results").dropped
                ),
                (gone.len() as u64, 0)
            );
        }
        assert!(
            arguments(&after.messages)
                .iter()
                .all(|arguments| arguments == r#"{"path":"a"}"#),
            "{options}: calls stay as they were"
        );
    }
}

#[test]
fn results_are_cleared_oldest_first_and_no_more_than_the_target_needs() {
    let contents: Vec<String> = (0..5).map(|seed| words(seed, 200)).collect();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    let half = policy_of(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = { exchanges = 1 }\n\
        ladder = [{ clear_results = { keep = 0 } }]\n",
    );
    // Forced down to half: three of five; each saves less than a fifth.
    let after = forced(&all, &half);
    assert_eq!(cleared(&all, &after.messages), [0, 1, 2]);
    assert!(tokens(&after.messages) <= tokens(&all) / 2);
}

#[test]
fn tools_say_whose_results_may_be_cleared() {
    let contents = five_results();
    let names = ["read", "search", "read_file", "search", "read"];
    let steps: Vec<_> = names
        .iter()
        .zip(&contents)
        .map(|(name, content)| (*name, "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    for (options, gone) in [
        ("exclude_tools = [\"search\"]", vec![0, 2, 4]),
        ("tools = [\"search\"]", vec![1, 3]),
        ("tools = [\"read*\"]", vec![0, 2, 4]),
        (
            "tools = [\"read*\"], exclude_tools = [\"read_*\"]",
            vec![0, 4],
        ),
        ("tools = [\"other\"]", vec![]),
    ] {
        let after = compacted(
            &all,
            &format!("{{ clear_results = {{ keep = 0, {options} }} }}"),
        );
        assert_eq!(cleared(&all, &after.messages), gone, "{options}");
    }
}

#[test]
fn parallel_results_are_told_apart_by_the_call_they_answer() {
    let contents = five_results();
    let mut all = vec![message("user", "Look.")];
    all.push(calls(&[
        ("a", "read", r#"{"path":"a.txt"}"#),
        ("b", "search", r#"{"query":"b and more"}"#),
    ]));
    all.extend([
        result("b", &contents[0]),
        result("a", &contents[1]),
        message("user", "Go on."),
    ]);
    let after = compacted(
        &all,
        "{ clear_results = { keep = 0, tools = [\"search\"], clear_inputs = true } }",
    );
    assert_eq!(
        cleared(&all, &after.messages),
        [0],
        "the result that stands first is that of the second call"
    );
    assert_eq!(
        after.messages[1], all[1],
        "arguments stay while one of the results does"
    );
}

#[test]
fn cleared_inputs_are_empty_objects() {
    let contents = five_results();
    let long = json!({"path": "src/main.rs", "content": words(3, 40)}).to_string();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("write", long.as_str(), content.as_str()))
        .collect();
    let all = job(&steps);
    let after = compacted(
        &all,
        "{ clear_results = { keep = 2, clear_inputs = true } }",
    );
    assert_eq!(cleared(&all, &after.messages), [0, 1, 2]);
    assert_eq!(arguments(&after.messages), ["{}", "{}", "{}", &long, &long]);
    let empty = calls(&[("call_0", "write", "{}")]);
    assert_eq!(after.messages[2], empty, "nothing else of the call changes");
}

#[test]
fn inputs_of_calls_with_short_results_are_cleared_too() {
    let long = json!({"path": "src/main.rs", "content": words(3, 80)}).to_string();
    let all = job(&[
        ("write", &long, "ok"),
        ("write", &long, "ok"),
        ("write", &long, "ok"),
    ]);
    let after = compacted(
        &all,
        "{ clear_results = { keep = 1, clear_inputs = true } }",
    );
    assert_eq!(arguments(&after.messages), ["{}", "{}", &long]);
    assert_eq!(
        results(&after.messages),
        ["ok"; 3],
        "a placeholder would be longer"
    );
    assert_eq!(
        compacted(
            &after.messages,
            "{ clear_results = { keep = 1, clear_inputs = true } }"
        )
        .messages,
        after.messages
    );
    assert_eq!(
        compacted(&all, "{ clear_results = { keep = 1 } }").messages,
        all,
        "unless inputs are to be cleared"
    );
}

#[test]
fn clearing_that_would_save_too_little_clears_nothing() {
    let contents = five_results();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    let saves =
        tokens(&all) - tokens(&compacted(&all, "{ clear_results = { keep = 2 } }").messages);
    assert!(saves > 100);
    let with = |least: u64| {
        compacted(
            &all,
            &format!("{{ clear_results = {{ keep = 2, clear_at_least = {least} }} }}"),
        )
        .messages
    };
    assert_eq!(cleared(&all, &with(saves)), [0, 1, 2]);
    assert_eq!(with(saves + 1), all);
}

#[test]
fn calls_alone_are_no_reason_to_clear_newer_results() {
    let contents: Vec<String> = (0..8).map(|seed| words(seed, 60)).collect();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let all = job(&steps);
    let with = |all: &[String], least: u64| {
        let policy = policy_of(&format!(
            "[[policy]]\nwindow = 100000\nkeep = {{ tokens = 0, exchanges = 1 }}\n\
            trigger = {{ tool_uses = 8 }}\n\
            ladder = [{{ clear_results = {{ keep = 0, clear_at_least = {least} }} }}]\n"
        ));
        let sent = Core::default().ask(&request(all), &policy).sent;
        messages_of(sent.as_bytes())
    };
    let once = with(&all, 0);
    assert_eq!(cleared(&all, &once), [0, 1, 2]);
    let saves = tokens(&all) - tokens(&once);
    assert_eq!(with(&all, saves), once);
    assert_eq!(
        with(&all, saves + 1),
        all,
        "those beyond the target are not worth it"
    );
    assert_eq!(
        with(&once, saves),
        once,
        "sent again it is not cleared further"
    );
}

#[test]
fn a_placeholder_is_not_cleared_again() {
    let contents = five_results();
    let steps: Vec<_> = contents
        .iter()
        .map(|content| ("read", "{}", content.as_str()))
        .collect();
    let once = compacted(&job(&steps), "{ clear_results = { keep = 1 } }").messages;
    assert_eq!(
        compacted(&once, "{ clear_results = { keep = 1 } }").messages,
        once
    );
    let again = compacted(&once, "{ clear_results = { keep = 0 } }").messages;
    assert_eq!(cleared(&once, &again), [4], "only the one that was not");
}

#[test]
fn the_inputs_of_named_tools_go_with_their_results() {
    let long = format!(r#"{{"text":"{}"}}"#, words(3, 80));
    let content = words(1, 60);
    let all = job(&[("write_file", &long, &content), ("shell", &long, &content)]);
    let after = |inputs: &str| {
        let step = format!("{{ clear_results = {{ keep = 0, clear_inputs = {inputs} }} }}");
        arguments(&compacted(&all, &step).messages)
    };
    assert_eq!(after("false"), [long.as_str(), &long]);
    assert_eq!(after("true"), ["{}", "{}"]);
    assert_eq!(after(r#"["write_*"]"#), ["{}", &long]);
    assert_eq!(after("[]"), [long.as_str(), &long]);
}

#[test]
fn a_placeholder_keeps_the_name_of_the_file() {
    let content = words(1, 120);
    let all = job(&[
        ("read_file", r#"{"path":"src/<|im_end|>main.rs"}"#, &content),
        ("shell", r#"{"command":"ls"}"#, &content),
    ]);
    let step = "{ clear_results = { keep = 0, clear_inputs = true } }";
    let left = results(&compacted(&all, step).messages);
    assert!(
        left[0].ends_with("tokens: src/<\\|im_end|>main.rs]"),
        "{left:?}"
    );
    assert!(left[1].ends_with(" tokens]"), "{left:?}");
}

#[test]
fn a_placeholder_of_the_operators_is_recognised_when_it_comes_back() {
    let content = words(1, 120);
    let all = job(&[
        ("read_file", r#"{"path":"src/main.rs"}"#, &content),
        ("shell", "{}", &content),
    ]);
    let step = "{ clear_results = { keep = 0, text = \"[gone: {tool} {file}, {tokens}]\" } }";
    let once = compacted(&all, step).messages;
    let left = results(&once);
    assert!(
        left[0].starts_with("[gone: read_file src/main.rs, 1"),
        "{left:?}"
    );
    assert!(left[1].starts_with("[gone: shell , 1"), "{left:?}");
    assert_eq!(compacted(&once, step).messages, once);
    for (text, why) in [
        ("", "begin"),
        ("{tool} is gone", "begin"),
        ("gone {what}", "{what}"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let toml =
            format!("[[policy]]\nladder = [{{ clear_results = {{ text = \"{text}\" }} }}]\n");
        std::fs::write(file.path(), toml).unwrap();
        let sources = baler::config::Sources {
            file: Some(file.path().to_owned()),
            ..Default::default()
        };
        let problems = baler::config::load(&sources).expect_err(text).to_string();
        assert!(problems.contains(why), "{text}: {problems}");
    }
}
