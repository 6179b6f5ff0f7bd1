//! The work of a digest, and of the walk that makes them again, grows with what it reads, and stops
//! when nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baler::core::Cancel;
use baler::core::conversation::Fingerprint;
use baler::core::edit::Edit;
use baler::core::models::ModelFacts;
use baler::core::planner::{KnownUsage, LiveFacts, Plan, Planner, Seeds, Session};
use baler::core::policy::RequestFacts;
use baler::core::strategy::{ExternalInputs, Stopped};
use baler::core::tokens::Encoding;
use serde_json::{Map, Value};

use crate::invariants::{DIALECT, policy_of};
use crate::support::{message, request};

use super::{job, text, tokens};

/// Does `work` on a request with these messages that nothing is known of.
fn with_planner<T>(
    all: &[String],
    toml: &str,
    cancel: &Cancel,
    work: impl FnOnce(&Planner<'_>, &Session<'_>) -> T,
) -> T {
    let policy = policy_of(toml);
    let body = request(all);
    let outline = DIALECT.outline(body.as_bytes()).unwrap();
    let session = Session::open_afresh(DIALECT, outline, Encoding::O200K).unwrap();
    let (request, seed) = (RequestFacts::default(), Fingerprint::of(b"seed"));
    let seeds = Seeds {
        checkpoint: seed,
        usage: seed,
    };
    let model = ModelFacts::default();
    let window = policy.window_for(&model);
    let planner = Planner::new(&policy, (&model, window), &request, seeds, cancel);
    work(&planner, &session)
}

/// How often `work` on a request with these messages looked at its flag, and whether it came to its
/// end; the flag is set at look number `most`.
fn looks_of<T>(
    all: &[String],
    toml: &str,
    most: usize,
    work: impl FnOnce(&Planner<'_>, &Session<'_>) -> Result<T, Stopped>,
) -> (usize, bool) {
    let looked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&looked);
    let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= most);
    let ended = with_planner(all, toml, &cancel, work).is_ok();
    (looked.load(Ordering::Relaxed), ended)
}

/// Digests a chat down to a quarter.
fn looks(all: &[String], most: usize) -> (usize, bool) {
    let toml = "[[policy]]\nwindow = 100000000\nreserve = 0\nkeep = { exchanges = 1 }\n\
                ladder = [\"digest\"]\n";
    let target = tokens(all) / 4;
    looks_of(all, toml, most, |planner, session| {
        planner.compact_to(session, target, target, &ExternalInputs::default())
    })
}

/// A chat with `n` small messages of users.
fn small_talk(n: usize) -> Vec<String> {
    let say = |at: usize| message("user", &format!("item {at} is not mine"));
    (0..n).map(say).collect()
}

/// One call with `n` arguments, and a result with as many members, half of which repeat them.
fn wide_call(n: usize) -> Vec<String> {
    let members = |from: usize| -> String {
        let member = |at: usize| (format!("key_{at}"), Value::from(format!("v-{at}")));
        let all: Map<String, Value> = (from..from + n).map(member).collect();
        Value::Object(all).to_string()
    };
    let (asked, told) = (members(0), members(n / 2));
    job(&[
        ("set", &asked, &told),
        ("list", "{}", "done"),
        ("list", "{}", "done again"),
    ])
}

/// `n` results, each with a key that no other has.
fn unlike_records(n: usize) -> Vec<String> {
    let results: Vec<String> = (0..n)
        .map(|at| format!(r#"{{"id":"one","state_{at}":"open","total_{at}":{at}}}"#))
        .collect();
    let steps: Vec<_> = results
        .iter()
        .map(|result| ("get", "{}", result.as_str()))
        .collect();
    job(&steps)
}

/// One call with a result.
fn one_result(result: &str) -> Vec<String> {
    job(&[
        ("get", "{}", result),
        ("list", "{}", "done"),
        ("list", "{}", "done again"),
    ])
}

/// A result of `n` lines.
fn long_text(n: usize) -> Vec<String> {
    let lines: Vec<String> = (0..n).map(|at| format!("line {at} of it")).collect();
    one_result(&lines.join("\n"))
}

/// A result that is a list of `n` objects, of which no two are alike.
fn long_list(n: usize) -> Vec<String> {
    let item = |at: usize| format!(r#"{{"key_{at}":{{"in_{at}":[{at},"v"]}}}}"#);
    let items: Vec<String> = (0..n).map(item).collect();
    one_result(&format!("[{}]", items.join(",")))
}

#[test]
fn four_times_as_much_to_read_is_about_four_times_the_work() {
    type Make = fn(usize) -> Vec<String>;
    let kinds: [(Make, usize); 5] = [
        (long_text, 4_000),
        (long_list, 4_000),
        (small_talk, 2_000),
        (wide_call, 2_000),
        (unlike_records, 500),
    ];
    for (kind, (make, n)) in kinds.into_iter().enumerate() {
        let (once, ended) = looks(&make(n), usize::MAX);
        let (more, also_ended) = looks(&make(4 * n), usize::MAX);
        assert!(ended && also_ended, "kind {kind}");
        assert!(once > 4, "kind {kind}: the flag is looked at: {once}");
        assert!(more <= 6 * once, "kind {kind}: {once} looks became {more}");
    }
}

/// The requests that a long conversation once was are gone through in a walk: below an instruction
/// that is over the window by itself, each of them is over it.
#[test]
fn four_times_as_many_turns_over_the_window_are_about_four_times_the_work() {
    let over = |turns: usize| {
        let mut all = vec![message("system", &"rule ".repeat(8_000))];
        all.extend((0..turns).flat_map(|at| {
            let answer = format!("answer {at} is long enough to go");
            [
                message("user", &format!("question {at}?")),
                message("assistant", &answer),
            ]
        }));
        all.push(message("user", "and now?"));
        let toml = "[[policy]]\nwindow = 4000\nreserve = 0\n";
        looks_of(&all, toml, usize::MAX, |planner, session| {
            planner.derive(session, None, &ExternalInputs::default())
        })
    };
    let ((once, ended), (more, also_ended)) = (over(100), over(400));
    assert!(ended && also_ended);
    assert!(more <= 6 * once, "{once} looks became {more}");
}

/// The plan for a request with these messages that nothing is known of.
fn planned(all: &[String], toml: &str, cancel: &Cancel) -> Plan {
    with_planner(all, toml, cancel, |planner, session| {
        let external = ExternalInputs::default();
        let derived = planner.derive(session, None, &external).unwrap();
        let keys = derived.usage_keys(planner, session);
        let known = KnownUsage::default();
        let facts = LiveFacts::default();
        let plan = planner.decide(session, derived, (&keys, &known), &external, facts);
        plan.unwrap()
    })
}

/// Of the digests that a conversation would have had, only the last one is written.
#[test]
fn a_walk_over_many_compactions_writes_one_digest() {
    let lit = |at: usize| format!("lamp {at} was lit by keeper {} at {}\n", at * 7, at * 13);
    let result = |at: usize| (0..8).map(|line| lit(at * 8 + line)).collect::<String>();
    let results: Vec<String> = (0..240).map(result).collect();
    let steps: Vec<_> = results
        .iter()
        .map(|result| ("look", "{}", result.as_str()))
        .collect();
    let all = job(&steps);
    let toml = "[[policy]]\nwindow = 4000\nreserve = 0\n";
    let looks = |most: usize| {
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let spent = move || counter.fetch_add(1, Ordering::Relaxed) >= most;
        let plan = planned(&all, toml, &Cancel::default().with_budget(spent));
        (plan, looked.load(Ordering::Relaxed))
    };
    let digests = |plan: &Plan| -> Vec<String> {
        let new = plan.edits.iter().flat_map(Edit::new_messages);
        let digests = new.filter(|new| new.json.contains("<conversation_digest>"));
        digests.map(|new| new.json.to_string()).collect()
    };
    let (undisturbed, whole) = looks(usize::MAX);
    assert!(undisturbed.fits);
    let [digest] = &digests(&undisturbed)[..] else {
        panic!("one digest");
    };
    assert!(digest.contains("look"), "{digest}");

    // Whenever the time is spent, the list fits, and no place of a digest is left empty.
    let mut shortcuts = 0;
    for most in (0..whole).step_by(whole / 40) {
        let (plan, _) = looks(most);
        assert!(plan.fits, "after {most} of {whole}");
        let compaction = plan.compaction.as_ref().unwrap();
        shortcuts += usize::from(compaction.reports.iter().any(|report| report.shortcut));
        for digest in digests(&plan) {
            assert!(digest.contains("look"), "after {most} of {whole}: {digest}");
        }
    }
    assert!(shortcuts > 20, "{shortcuts} of 40 came too late");
}

/// Once its time is spent, the walk decides for the request alone.
#[test]
fn a_late_walk_compacts_once() {
    let mut all = vec![message("system", &"rule ".repeat(8_000))];
    for at in 0..200 {
        all.push(message("user", &format!("question {at}?")));
        all.push(message("assistant", &format!("answer {at} is long enough")));
    }
    all.push(message("user", "and now?"));
    let toml = "[[policy]]\nwindow = 8300\nreserve = 0\nladder = [\"token_budget\"]\n";
    let made = |cancel: &Cancel| planned(&all, toml, cancel);
    let looked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&looked);
    let late = Cancel::at_deadline(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    });
    let late = made(&late.with_budget(|| true));
    let looks_late = looked.load(Ordering::Relaxed);
    assert!(late.fits && late.compaction.is_some());
    assert!(looks_late < 250, "{looks_late} looks");
    assert!(made(&Cancel::default()).fits);
}

/// One line of a result, or one argument, of digits or blanks only.
fn one_long_line(of: char) -> impl Fn(usize) -> Vec<String> {
    move |n| one_result(&format!("{}end", of.to_string().repeat(n)))
}

#[test]
fn a_line_four_times_as_long_is_about_four_times_the_work() {
    for of in ['7', ' ', 'x'] {
        let make = one_long_line(of);
        let (once, ended) = looks(&make(400_000), usize::MAX);
        let (more, also_ended) = looks(&make(1_600_000), usize::MAX);
        assert!(ended && also_ended, "{of:?}");
        assert!(more <= 6 * once, "{of:?}: {once} looks became {more}");
    }
    // It stops within the line.
    let (whole, _) = looks(&one_long_line('7')(1_600_000), usize::MAX);
    let (looked, ended) = looks(&one_long_line('7')(1_600_000), whole / 2);
    assert!(!ended && looked <= whole / 2 + 1, "{looked} of {whole}");
}

/// A name that each of many rows gets, and a value within many others: of bytes times rows, and of
/// bytes times levels, neither could be had.
#[test]
fn long_names_and_deep_values_take_what_their_size_allows() {
    let name = "n".repeat(400_000);
    let rows = vec!["[1,2]"; 100_000].join(",");
    let named = format!(r#"{{"fields":["{name}","b"],"rows":[{rows}]}}"#);
    let items = vec![r#"{"x":1}"#; 50_000].join(",");
    let record =
        |at: usize| format!(r#"{{"{name}_id":"W-{at}","a":1,"b":2,"c":3,"items":[{items}]}}"#);
    let deep = (0..120).fold(vec!["7"; 100_000].join(","), |inner, at| {
        let others = r#""s":{"a":1,"b":2},"t":{"a":3,"b":4}"#;
        format!(r#"{{{others},"k{at}":{{"n":{at},"in":[{inner}]}}}}"#)
    });
    for result in [named, record(1), deep] {
        let (_, ended) = looks(&one_result(&result), usize::MAX);
        assert!(ended, "{}", &result[..40]);
    }
    let two = job(&[
        ("get", r#"{"n":1}"#, &record(1)),
        ("get", r#"{"n":2}"#, &record(2)),
        ("list", "{}", "done"),
        ("list", "{}", "done again"),
    ]);
    assert!(looks(&two, usize::MAX).1);
}

#[test]
fn a_digest_stops_within_a_long_result() {
    for all in [long_text(40_000), long_list(40_000)] {
        let (whole, _) = looks(&all, usize::MAX);
        assert!(whole > 600, "the flag is looked at: {whole}");
        let (looked, ended) = looks(&all, 20);
        assert!(!ended && looked <= 21, "{looked} looks of {whole}");
    }
}

#[test]
fn a_digest_stops_when_nobody_waits_for_it() {
    let all = small_talk(2_000);
    let (whole, _) = looks(&all, usize::MAX);
    let (looked, ended) = looks(&all, whole / 2);
    assert!(!ended, "it ends without a result");
    assert!(looked <= whole / 2 + 1, "{looked} looks of {whole}");
}

#[test]
fn a_call_with_many_arguments_keeps_its_name_and_they_are_told_below_it() {
    let after = super::forced(
        &wide_call(200),
        &policy_of(
            "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = { exchanges = 1 }\n\
            trigger = { ratio = 0.9 }\ntarget = { tokens = 2000 }\nladder = [\"digest\"]\n",
        ),
    );
    let digest = text(&after.messages[2]);
    let call = digest
        .split('\n')
        .find(|line| line.starts_with("→ set(key_0=v-0"))
        .unwrap_or_else(|| panic!("{digest}"));
    assert!(call.len() < 4_000 && call.contains("…"), "{call}");
    assert!(digest.contains("|key_"), "{digest}");
}
