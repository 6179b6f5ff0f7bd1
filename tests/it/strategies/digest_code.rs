//! What a digest keeps for those who edit files and read measurements.

use serde_json::json;

use crate::invariants::policy_of;
use crate::support::{message, words};

use super::{forced, job, tagged, tokens};

fn digest_in(target: u64, all: &[String]) -> String {
    let policy = policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ));
    tagged(&forced(all, &policy).messages, "conversation_digest")
}

/// Lines of code, each different.
fn code(from: usize, to: usize) -> Vec<String> {
    (from..to)
        .map(|n| format!("    step_{n}(left, {})", words(n, 3)))
        .collect()
}

#[test]
fn what_stands_around_a_line_that_a_trace_names_stays() {
    let lines = code(1, 200);
    let listed: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| format!("{:>6}\t{line}", at + 1))
        .collect();
    let (plain, listed) = (lines.join("\n"), listed.join("\n"));
    let filler: String = (0..60).map(|n| format!("{}\n", words(n, 8))).collect();
    // With the numbers of a listing, as a whole file, and as the model wrote it.
    let written = json!({"path": "src/plan.py", "content": plain}).to_string();
    let ways = [
        ("read_file", r#"{"path":"src/plan.py"}"#, listed.as_str()),
        ("run", r#"{"command":"cat src/plan.py"}"#, plain.as_str()),
        ("write_file", written.as_str(), "ok"),
    ];
    for (tool, asked, found) in ways {
        for trace in [
            "  File \"/repo/src/plan.py\", line 140, in step\nValueError: bad",
            "src/plan.py:140:5: error: bad",
            "./src/plan.py(140,5): error E1: bad",
        ] {
            let mut all = job(&[
                (tool, asked, found),
                ("run", r#"{"command":"make"}"#, &filler),
                ("read_file", r#"{"path":"README"}"#, &filler),
                ("run", r#"{"command":"make test"}"#, trace),
            ]);
            // The trace is what the model answers next.
            all.pop();
            let digest = digest_in(tokens(&all) / 4, &all);
            let around = |from: usize, to: usize| {
                lines[from - 1..to]
                    .iter()
                    .all(|line| digest.contains(line.as_str()))
            };
            assert!(around(138, 141), "{tool}, {trace}: {digest}");
        }
    }
}

#[test]
fn series_of_measurements_take_a_line_each_with_their_label() {
    let series = |pod: usize| {
        let point = |at: usize| {
            let value = 400.0 + ((at * 37 + pod * 11) % 90) as f64 + 0.25;
            json!([1_731_679_200 + at * 300, value.to_string()])
        };
        let values: Vec<_> = (0..40).map(point).collect();
        json!({"metric": {"pod": format!("api-{pod}")}, "values": values})
    };
    let result: Vec<_> = (0..6).map(series).collect();
    let found = json!({"status": "success", "data": {"result": result}}).to_string();
    let all = job(&[
        ("query", r#"{"query":"memory"}"#, &found),
        ("read", "{}", &words(3, 600)),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) / 4, &all);
    assert!(digest.contains("[6]{metric{pod},values}:"), "{digest}");
    let first = "api-0,40 points from 1731679200=400.25 to 1731690900=403.25; \
                 least 400.25; most 489.25";
    assert!(digest.contains(first), "{digest}");
    assert!(digest.contains("api-5,40 points from"), "{digest}");
}

#[test]
fn of_what_is_to_be_done_the_newest_state_stays() {
    let list = |done: usize| -> String {
        let item = |n: usize| {
            let tick = if n <= done { "x" } else { " " };
            format!("- [{tick}] {n}. mend the {}\n", words(n * 13, 3))
        };
        format!("My plan:\n{}", (1..7).map(item).collect::<String>())
    };
    let say = |text: &str| message("assistant", text);
    let filler = |n: usize| message("assistant", &words(n, 250));
    let all = [
        message("user", "Mend all of it."),
        say(&list(0)),
        filler(1),
        message("user", "Go on."),
        say(&list(4)),
        filler(2),
        message("user", "And now?"),
        filler(3),
        message("user", "Go on."),
    ];
    let digest = digest_in(tokens(&all) / 3, &all);
    for n in 1..7 {
        let tick = if n <= 4 { "x" } else { " " };
        let item = |tick: &str| format!("- [{tick}] {n}. mend the ");
        assert!(digest.contains(&item(tick)), "{n}: {digest}");
        assert_eq!(
            digest.matches(&format!("] {n}. mend")).count(),
            1,
            "{digest}"
        );
    }
}

#[test]
fn a_statement_stays_with_the_sentence_that_limits_it() {
    let pairs = [
        (
            "Room 12 is free from Monday on.",
            "However, its heating is off.",
        ),
        ("Der Zug um 9:14 hält in Fulda.", "Aber nur am Samstag."),
        ("票价是 240 元。", "但是不能退票。"),
    ];
    let mut all = vec![message("user", "Find out all about it.")];
    for (at, (statement, limit)) in pairs.into_iter().enumerate() {
        let (before, behind) = (words(at * 7, 60), words(at * 7 + 3, 60));
        let blank = if statement.is_ascii() || limit.is_ascii() || at == 1 {
            " "
        } else {
            ""
        };
        all.extend([
            message(
                "assistant",
                &format!("I looked. {before}. {statement}{blank}{limit} {behind}. That is all."),
            ),
            message("user", &format!("And place {at}?")),
        ]);
    }
    all.extend([
        message("assistant", &words(5, 80)),
        message("user", "Go on."),
    ]);
    let mut shown = 0;
    for room in 2..12 {
        let digest = digest_in(tokens(&all) * room / 14, &all);
        for (statement, limit) in pairs {
            assert_eq!(
                digest.contains(statement),
                digest.contains(limit),
                "{statement}: {digest}"
            );
            shown += usize::from(digest.contains(statement));
        }
    }
    assert!(shown > 3, "{shown}");
}

#[test]
fn a_list_of_what_is_to_be_done_that_a_newer_call_replaces_goes() {
    let plan = |done: usize| {
        let step = |n: usize| {
            let status = if n < done { "completed" } else { "pending" };
            json!({"step": format!("step {n}: {}", words(n * 7, 4)), "status": status})
        };
        json!({"plan": (0..6).map(step).collect::<Vec<_>>()}).to_string()
    };
    let (first, second, filler) = (plan(0), plan(5), words(3, 500));
    let all = job(&[
        ("update_plan", &first, "ok"),
        ("read", r#"{"path":"a"}"#, &filler),
        ("update_plan", &second, "ok"),
        ("read", r#"{"path":"b"}"#, &filler),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) / 2, &all);
    assert_eq!(digest.matches("step 5: ").count(), 1, "{digest}");
    let (_, newest) = digest.split_once("completed").unwrap();
    assert!(newest.contains("pending"), "{digest}");
}

#[test]
fn arguments_say_what_they_are_and_patches_which_file() {
    let body = code(1, 30).join("\n");
    let patch = format!("*** Begin Patch\n*** Update File: src/a.py\n@@\n{body}\n*** End Patch");
    let patch = json!({"patch": patch}).to_string();
    let written = json!({"path": "src/b.py", "content": body}).to_string();
    let command = format!("grep -rn {} src", words(1, 30).replace(' ', ","));
    let asked = json!({"command": command}).to_string();
    let filler = words(3, 300);
    let all = job(&[
        ("apply_patch", &patch, "ok"),
        ("write_file", &written, "ok"),
        ("run", &asked, "none"),
        ("read", "{}", &filler),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) * 4 / 5, &all);
    assert!(
        digest.contains("→ apply_patch(patch=*** Update File: src/a.py…"),
        "{digest}"
    );
    assert!(digest.contains("\n with content:\n  "), "{digest}");
    assert!(
        digest.contains(&format!("→ run(command={command})")),
        "{digest}"
    );
}

#[test]
fn what_a_command_did_in_sum_stays() {
    let noise = |n: usize| format!("module.net_{n}: Refreshing state... [id=r-{n:04x}]");
    let mut lines: Vec<String> = (0..120).map(noise).collect();
    lines.push("Plan: 2 to add, 1 to change, 1 to destroy.".to_owned());
    lines.extend((0..12).map(|n| format!("Note {n}: {}", words(n, 9))));
    let all = job(&[
        ("run", r#"{"command":"terraform plan"}"#, &lines.join("\n")),
        ("read", "{}", &words(3, 500)),
        ("list", "{}", "done"),
    ]);
    let digest = digest_in(tokens(&all) / 6, &all);
    assert!(
        digest.contains("|Plan: 2 to add, 1 to change, 1 to destroy."),
        "{digest}"
    );
}

#[test]
fn the_finding_in_the_middle_of_an_answer_stays() {
    let finding = "The run e81b6640 with a rate of 0.03 needs 27.9 ms, which is below the 40 ms.";
    let filler =
        |n: usize| -> String { (0..6).map(|m| format!("{}. ", words(n + m, 9))).collect() };
    let answer = format!(
        "I looked at it. {}{finding} {}I hope it helps.",
        filler(1),
        filler(8)
    );
    let mut all = vec![message("user", "Which one?"), message("assistant", &answer)];
    for n in 0..8 {
        all.extend([
            message("user", &format!("And number {n}?")),
            message("assistant", &words(n * 31, 120)),
        ]);
    }
    all.push(message("user", "Go on."));
    let digest = digest_in(tokens(&all) / 3, &all);
    assert!(digest.contains(finding), "{digest}");
}
