//! `trim_results`: large results are truncated, sampled or outlined.

use baler::core::tokens::Encoding;
use serde_json::{Value, json};

use crate::invariants::Core;
use crate::support::{Baler, Upstream, message, messages_of, request, words};

use super::{calls, compacted, job, numbered, policy, result, results, trimmed};

#[test]
fn results_that_are_not_large_are_not_trimmed() {
    let small = numbered(150);
    assert!((2_000..4_000).contains(&small.len()));
    let pretty =
        serde_json::to_string_pretty(&json!({"rows": (0..40).collect::<Vec<_>>()})).unwrap();
    let all = job(&[
        ("read", "{}", &small),
        ("read", "{}", &pretty),
        ("read", "{}", ""),
    ]);
    for step in [
        r#""trim_results""#,
        "{ trim_results = { sample = {} } }",
        "{ trim_results = { outline = {} } }",
    ] {
        let outcome = Core::default().ask_with(&request(&all), &policy(step), true);
        assert_eq!(outcome.sent, request(&all), "{step}");
    }
}

#[test]
fn a_large_text_keeps_head_and_tail_and_tells_what_went() {
    let large: String = numbered(500).chars().take(9_000).collect();
    let head: String = large.chars().take(1_200).collect();
    let expected = format!(
        "{head}\n[… 7000 characters removed by trim_results …]\n{}",
        &large[8_200..]
    );
    assert_eq!(trimmed("", &[&large]), [expected]);
    let expected = format!(
        "{}\n[… 8970 characters removed by trim_results …]\n{}",
        &large[..20],
        &large[8_990..]
    );
    assert_eq!(
        trimmed("truncate = { size = 100, head = 20, tail = 10 }", &[&large]),
        [expected]
    );
    // One of the two may be nothing.
    let expected = format!(
        "{}\n[… 8980 characters removed by trim_results …]\n",
        &large[..20]
    );
    assert_eq!(
        trimmed("truncate = { size = 100, head = 20, tail = 0 }", &[&large]),
        [expected]
    );
    let expected = format!(
        "\n[… 8990 characters removed by trim_results …]\n{}",
        &large[8_990..]
    );
    assert_eq!(
        trimmed("truncate = { size = 100, head = 0, tail = 10 }", &[&large]),
        [expected]
    );
}

#[test]
fn the_size_from_which_on_a_text_is_large_is_exact() {
    let text = numbered(60);
    let size = text.len();
    assert_eq!(
        trimmed(
            &format!("truncate = {{ size = {size}, head = 20, tail = 10 }}"),
            &[&text]
        ),
        std::slice::from_ref(&text)
    );
    assert_ne!(
        trimmed(
            &format!("truncate = {{ size = {}, head = 20, tail = 10 }}", size - 1),
            &[&text]
        ),
        [text]
    );
}

#[test]
fn characters_of_many_bytes_are_counted_as_one_and_never_split() {
    let kanji: String = "漢字仮名交じり文".chars().cycle().take(900).collect();
    let emoji: String = "🦀é👍🏽ñ🇯🇵".chars().cycle().take(900).collect();
    for text in [kanji, emoji] {
        let chars: Vec<char> = text.chars().collect();
        let part = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
        for (head, tail) in [(20, 10), (21, 11), (22, 12), (23, 13)] {
            let after = trimmed(
                &format!("truncate = {{ size = 100, head = {head}, tail = {tail} }}"),
                &[&text],
            );
            let removed = 900 - head - tail;
            let expected = format!(
                "{}\n[… {removed} characters removed by trim_results …]\n{}",
                part(0, head),
                part(900 - tail, 900)
            );
            assert_eq!(after, [expected]);
            // By tokens the cut may be anywhere between two characters: what stays is a beginning
            // and an end.
            let after = &trimmed(
                &format!(
                    "truncate = {{ unit = \"tokens\", size = 100, head = {head}, tail = {tail} }}"
                ),
                &[&text],
            )[0];
            let (first, rest) = after.split_once("\n[… ").unwrap();
            let (removed, last) = rest
                .split_once(" characters removed by trim_results …]\n")
                .unwrap();
            assert!(
                text.starts_with(first)
                    && text.ends_with(last)
                    && !first.is_empty()
                    && !last.is_empty(),
                "{after}"
            );
            assert_eq!(
                first.chars().count() + last.chars().count() + removed.parse::<usize>().unwrap(),
                900
            );
        }
    }
    // Escaped surrogate pairs are one character as well, and stay pairs.
    let mut all = job(&[("read", "{}", "")]);
    all[3] = format!(
        r#"{{"role":"tool","tool_call_id":"call_0","content":"{}"}}"#,
        r"\ud83e\udd80".repeat(500)
    );
    let after = compacted(
        &all,
        "{ trim_results = { truncate = { size = 100, head = 3, tail = 2 } } }",
    );
    assert_eq!(
        results(&after.messages),
        ["🦀🦀🦀\n[… 495 characters removed by trim_results …]\n🦀🦀"]
    );
}

#[test]
fn tokens_can_be_the_unit() {
    let count = |text: &str| Encoding::O200K.count(text);
    let (small, large) = (words(1, 90), words(2, 600));
    assert!(small.len() > 400, "by characters both are large");
    let after = trimmed(
        "truncate = { unit = \"tokens\", size = 100, head = 40, tail = 20 }",
        &[&small, &large],
    );
    assert_eq!(after[0], small);
    let (head, rest) = after[1].split_once("\n[… ").unwrap();
    let (_, tail) = rest.split_once("…]\n").unwrap();
    assert!(large.starts_with(head) && large.ends_with(tail));
    assert!(
        (34..=46).contains(&count(head)),
        "{} tokens at the beginning",
        count(head)
    );
    assert!(
        (16..=24).contains(&count(tail)),
        "{} tokens at the end",
        count(tail)
    );
}

#[test]
fn a_json_list_that_is_cut_stays_json() {
    let rows: Vec<Value> = (0..100)
        .map(|id| json!({"id": id, "name": format!("item {id}")}))
        .collect();
    for (head, tail) in [(120, 80), (200, 0), (0, 200), (100, 100)] {
        let options = format!("truncate = {{ size = 300, head = {head}, tail = {tail} }}");
        let after = &trimmed(&options, &[&json!(rows).to_string()])[0];
        let Value::Array(kept) = serde_json::from_str(after).unwrap() else {
            panic!("{after}")
        };
        let at = kept.iter().position(Value::is_string).unwrap();
        let (first, last) = (&kept[..at], &kept[at + 1..]);
        let left = first.len() + last.len();
        assert_eq!(
            kept[at],
            json!(format!(
                "… {} of 100 items removed by trim_results",
                100 - left
            ))
        );
        assert_eq!(
            (first, last),
            (&rows[..at], &rows[100 - last.len()..]),
            "the first and the last as they were"
        );
        assert_eq!((first.is_empty(), last.is_empty()), (head == 0, tail == 0));
        let size = json!(first).to_string().len() + json!(last).to_string().len();
        assert!(
            (150..=220).contains(&size),
            "head and tail together are 200 characters: {size}"
        );
    }
}

#[test]
fn a_json_object_that_is_cut_stays_json() {
    let member = |n: usize| (format!("key_{n:03}"), json!(format!("value {n}")));
    let object = Value::Object((0..100).map(member).collect());
    let after = &trimmed(
        "truncate = { size = 300, head = 120, tail = 80 }",
        &[&object.to_string()],
    )[0];
    let Value::Object(mut kept) = serde_json::from_str(after).unwrap() else {
        panic!("{after}")
    };
    let mark = kept.remove("__truncated__").unwrap();
    assert_eq!(
        mark,
        json!(format!(
            "{} of 100 members removed by trim_results",
            100 - kept.len()
        ))
    );
    assert!(
        (8..=12).contains(&kept.len()),
        "as many as go into 200 characters: {}",
        kept.len()
    );
    let first = kept
        .keys()
        .take_while(|key| key.starts_with("key_00"))
        .count();
    let expected = (0..first)
        .chain(100 - (kept.len() - first)..100)
        .map(member)
        .collect();
    assert_eq!(
        Value::Object(kept),
        Value::Object(expected),
        "the first and the last members as they were"
    );
    assert!(first >= 4);
}

#[test]
fn members_that_are_small_stay_and_only_large_ones_are_shortened() {
    let prose = numbered(300);
    let rows: Vec<Value> = (0..400)
        .map(|n| json!({"id": n, "name": format!("row {n}")}))
        .collect();
    let first_and_last = |list: &Value| {
        let list = list.as_array().unwrap();
        assert_eq!((&list[0], list.last().unwrap()), (&rows[0], &rows[399]));
        assert!(
            list.iter().any(|item| item
                .as_str()
                .is_some_and(|mark| mark.contains("of 400 items removed by trim_results"))),
            "{list:?}"
        );
        assert!(list.len() > 20, "{}", list.len());
    };
    let cut = |value: Value| -> Value {
        let after = &trimmed("", &[&value.to_string()])[0];
        assert!(
            (1_500..=2_100).contains(&after.chars().count()),
            "{}",
            after.len()
        );
        serde_json::from_str(after).unwrap()
    };
    let after = cut(json!({"a_path": "src/main.rs", "content": prose}));
    assert_eq!(after["a_path"], "src/main.rs");
    let content = after["content"].as_str().unwrap();
    assert!(
        content.starts_with(&prose[..900]) && content.ends_with(&prose[prose.len() - 500..]),
        "{content}"
    );

    let after = cut(json!({"a": 1, "rows": rows, "z": "end"}));
    assert_eq!((&after["a"], &after["z"]), (&json!(1), &json!("end")));
    first_and_last(&after["rows"]);
    let after = cut(json!({"data": {"a_total": 400, "rows": rows}, "next": null}));
    assert_eq!(
        (&after["data"]["a_total"], &after["next"]),
        (&json!(400), &json!(null))
    );
    first_and_last(&after["data"]["rows"]);

    // Two large ones share the room; a list of one large item is cut inside of it.
    let after = cut(json!({"err": prose, "id": 7, "out": prose}));
    assert_eq!(after["id"], 7);
    for name in ["err", "out"] {
        let text = after[name].as_str().unwrap();
        assert!(
            text.starts_with(&prose[..400]) && text.ends_with(&prose[prose.len() - 300..]),
            "{text}"
        );
    }
    first_and_last(&cut(json!([{"id": 1, "rows": rows}]))[0]["rows"]);
}

#[test]
fn json_that_was_cut_is_no_larger_than_the_size_marks_included() {
    let object = |n: usize| {
        json!({"id": n, "note": format!("quote \" and\nline \u{1}{n}"),
        "tags": ["a", n, null, true]})
    };
    let wide = Value::Object((0..900).map(|n| (format!("key {n}"), object(n))).collect());
    let deep = (0..60).fold(
        json!(numbered(300)),
        |inner, n| json!({"level": n, "inner": inner, "list": [n, n]}),
    );
    let values = [
        json!((0..3_000).collect::<Vec<_>>()),
        json!((0..300).map(object).collect::<Vec<_>>()),
        json!(
            (0..40)
                .map(|n| json!({"page": n, "rows": (0..90).collect::<Vec<_>>()}))
                .collect::<Vec<_>>()
        ),
        json!({"log": "\n\"\\\u{1}\t".repeat(2_000), "code": 3}),
        wide,
        deep,
    ];
    let mut cut = 0;
    for (size, head, tail) in [
        (4_000_u64, 2_400, 1_600),
        (4_000, 4_000, 0),
        (2_000, 0, 2_000),
        (600, 300, 300),
        (250, 150, 100),
    ] {
        for value in &values {
            for unit in ["chars", "tokens"] {
                let options = format!(
                    "truncate = {{ unit = \"{unit}\", size = {size}, head = {head}, tail = {tail} \
                    }}"
                );
                let text = value.to_string();
                let count = |text: &str| {
                    if unit == "chars" {
                        text.chars().count() as u64
                    } else {
                        Encoding::O200K.count(text)
                    }
                };
                if count(&text) <= size {
                    continue;
                }
                let after = &trimmed(&options, &[&text])[0];
                serde_json::from_str::<Value>(after).unwrap();
                assert!(
                    (size / 8..=size).contains(&count(after)),
                    "{} {unit} of {size}: {after}",
                    count(after)
                );
                cut += 1;
            }
        }
    }
    assert!(cut > 40, "{cut}");
}

#[test]
fn long_texts_and_lists_inside_json_are_cut_where_they_stand() {
    let prose = numbered(200);
    let after = &trimmed("", &[&json!({"content": prose}).to_string()])[0];
    let Value::Object(object) = serde_json::from_str(after).unwrap() else {
        panic!("{after}")
    };
    let content = object["content"].as_str().unwrap();
    assert!(
        content.starts_with(&prose[..1_000]) && content.ends_with(&prose[prose.len() - 600..]),
        "{content}"
    );
    assert!(content.contains("characters removed by trim_results"));
    assert!((1_900..2_200).contains(&after.len()), "{}", after.len());
}

#[test]
fn what_cannot_be_sampled_or_outlined_shorter_is_truncated() {
    let prose = numbered(300);
    let rows: Vec<usize> = (0..3_000).collect();
    let keys = Value::Object(
        (0..20)
            .map(|n| (format!("{n}{}", "k".repeat(400)), json!(n)))
            .collect(),
    );
    for options in ["sample = {}", "outline = {}", "outline = {}, sample = {}"] {
        for value in [
            json!({"id": 1, "content": prose}),
            json!([{"id": 1, "rows": rows}]),
            json!([[rows]]),
            keys.clone(),
        ] {
            let after = &trimmed(options, &[&value.to_string()])[0];
            assert!(after.chars().count() <= 4_000, "{options}: {}", after.len());
            assert!(
                after.contains("removed by trim_results"),
                "{options}: {after}"
            );
            serde_json::from_str::<Value>(after).unwrap();
        }
    }
    let after: Value = serde_json::from_str(
        &trimmed(
            "sample = {}",
            &[&json!({"id": 1, "content": prose}).to_string()],
        )[0],
    )
    .unwrap();
    assert!(
        after["id"] == 1
            && after["content"]
                .as_str()
                .unwrap()
                .starts_with(&prose[..900]),
        "{after}"
    );
}

#[test]
fn an_outline_tells_type_number_keys_and_a_sample() {
    let rows: Vec<Value> = (0..100)
        .map(|id| json!({"id": id, "name": format!("item {id}")}))
        .collect();
    let row = |id: usize| {
        json!({"type": "object", "count": 2, "keys": ["id", "name"],
        "sample": {"id": id, "name": format!("item {id}")}})
    };
    let list = json!({"type": "list", "count": 100, "sample": [row(0), row(1)]});
    let options =
        "truncate = { size = 500, head = 100, tail = 100 }, outline = { items = 2, chars = 1000 }";

    let after = &trimmed(options, &[&json!(rows).to_string()])[0];
    let mut expected = list.clone();
    expected["__truncated__"] = json!("details removed by trim_results");
    assert_eq!(
        serde_json::from_str::<Value>(after).unwrap(),
        expected,
        "a list"
    );

    let object = json!({"status": "ok", "rows": rows, "total": 100});
    let after = &trimmed(options, &[&object.to_string()])[0];
    let told: Value = serde_json::from_str(after).unwrap();
    assert_eq!(
        (&told["type"], &told["count"]),
        (&json!("object"), &json!(3))
    );
    let mut keys: Vec<&str> = told["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, ["rows", "status", "total"]);
    assert_eq!(told["sample"]["rows"], list, "and inside an object");
}

#[test]
fn an_outline_that_is_too_long_goes_without_its_sample() {
    let rows: Vec<Value> = (0..100)
        .map(|id| json!({"id": id, "name": format!("item {id}")}))
        .collect();
    let after = trimmed(
        "truncate = { size = 500, head = 0, tail = 0 }, outline = { chars = 50 }",
        &[&json!(rows).to_string()],
    );
    let expected = json!({"type": "list", "count": 100, "sample_removed": true,
        "__truncated__": "details removed by trim_results"});
    assert_eq!(serde_json::from_str::<Value>(&after[0]).unwrap(), expected);
}

#[test]
fn a_sample_keeps_the_first_the_last_or_spread_items_and_tells_how_many_there_were() {
    let rows: Vec<Value> = (0..101)
        .map(|id| json!({"id": id, "text": words(id, 10)}))
        .collect();
    for (pick, ids) in [
        ("first", [0, 1, 2, 3, 4]),
        ("last", [96, 97, 98, 99, 100]),
        ("spread", [0, 25, 50, 75, 100]),
    ] {
        let options = format!("sample = {{ items = 5, pick = \"{pick}\" }}");
        let items: Vec<&Value> = ids.iter().map(|id| &rows[*id]).collect();
        let expected = json!({"items": items, "total_count": 101, "sampled": pick,
            "__truncated__": "96 items removed by trim_results"});
        let after = trimmed(
            &options,
            &[
                &json!(rows).to_string(),
                &json!({"page": 1, "rows": rows}).to_string(),
            ],
        );
        assert_eq!(serde_json::from_str::<Value>(&after[0]).unwrap(), expected);
        assert_eq!(
            serde_json::from_str::<Value>(&after[1]).unwrap(),
            json!({"page": 1, "rows": expected}),
            "a list in an object"
        );
    }
}

#[test]
fn an_outline_shows_the_items_that_the_sample_picks() {
    let rows: Vec<Value> = (0..500).map(|id| json!([id, id * 10])).collect();
    let options = "outline = { items = 3, depth = 1 }, sample = { items = 2, pick = \"last\" }";
    let flat: Vec<usize> = (0..2_000).collect();
    let after = trimmed(
        options,
        &[&json!(flat).to_string(), &json!(rows).to_string()],
    );
    let mark = "details removed by trim_results";
    let expected =
        json!({"type": "list", "count": 2000, "sample": [1998, 1999], "__truncated__": mark});
    assert_eq!(serde_json::from_str::<Value>(&after[0]).unwrap(), expected);
    let expected = json!({"type": "list", "count": 500, "sample": ["list of 2", "list of 2"],
        "__truncated__": mark});
    assert_eq!(serde_json::from_str::<Value>(&after[1]).unwrap(), expected);
}

#[test]
fn sample_and_outline_leave_small_results_alone_until_told_otherwise() {
    let large = json!((0..2_000).collect::<Vec<_>>()).to_string();
    let small = json!((1_000..1_200).collect::<Vec<_>>()).to_string();
    let tiny = r#"{"a":1}"#;
    for option in ["outline = {}", "sample = { items = 2 }"] {
        let after = trimmed(option, &[&small, &large, tiny]);
        assert_eq!(after[0], small, "{option}: small in the same batch");
        assert!(
            after[1].len() < 200 && after[1].contains("2000"),
            "{option}: {}",
            after[1]
        );
        assert_eq!(after[2], tiny);

        let after = trimmed(
            &format!("skip_small = false, {option}"),
            &[&small, &large, tiny],
        );
        assert!(
            after[0].len() < 200 && after[0].contains("200"),
            "{option}: {}",
            after[0]
        );
        assert!(after[1].len() < 200 && after[1].contains("2000"));
        assert_eq!(after[2], tiny, "{option}: it would only have become longer");
    }
}

#[test]
fn texts_that_are_small_stay_whole_with_skip_small_off() {
    let small = numbered(50);
    assert_eq!(
        trimmed("skip_small = false", &[&small]),
        std::slice::from_ref(&small)
    );
}

#[test]
fn results_that_are_errors_are_cut_around_what_failed() {
    let log = format!(
        "{}\nsrc/a.rs:7: error[E0308]: mismatched types\n{}\nFAILED tests/b.py::test_c\n{}\n\
         exit code: 1\n{}",
        numbered(150),
        numbered(150),
        numbered(150),
        numbered(5)
    );
    let rows: Vec<usize> = (0..2_000).collect();
    let cause = format!("no such order: {}", words(3, 150));
    let object =
        json!({"request": "r", "rows": rows, "error": {"message": cause}, "n": 1}).to_string();
    let small = format!("Error: it broke\n{}", numbered(100));
    for options in ["", "outline = {}", "sample = {}", "skip_small = false"] {
        let after = trimmed(options, &[&log, &object, &small]);
        assert!(after[0].len() < 2_400, "{options}: {}", after[0].len());
        for line in [
            "mismatched types",
            "FAILED tests/b.py::test_c",
            "line 0 says 0\n",
        ] {
            assert!(after[0].contains(line), "{options}: {line} in {}", after[0]);
        }
        assert!(after[0].contains("characters removed by trim_results …]"));
        assert!(
            after[0].ends_with("line 4 says 31676"),
            "{options}: {}",
            after[0]
        );
        let left: Value = serde_json::from_str(&after[1]).unwrap();
        assert_eq!(left["error"]["message"], cause, "{options}");
        assert!(after[1].chars().count() <= 4_000, "{options}");
        assert_eq!(after[2], small, "{options}: what is not large stays");
        // A cut is not cut again.
        let again = trimmed(options, &[&after[0], &after[1], &small]);
        assert_eq!(again, after, "{options}");
    }
}

#[test]
fn every_part_can_be_off() {
    let large = numbered(400);
    let list = json!({"rows": (0..3_000).collect::<Vec<_>>()}).to_string();
    for options in [
        "truncate = false, sample = {}",
        "truncate = false, sample = true",
    ] {
        let after = trimmed(options, &[&large, &list]);
        assert_eq!(after[0], large, "{options}: texts are not cut");
        assert!(
            after[1].contains("\"total_count\":3000"),
            "{options}: {}",
            after[1]
        );
    }
    let plain = trimmed("outline = false, sample = false", &[&large, &list]);
    assert_eq!(plain, trimmed("", &[&large, &list]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "[[policy]]\nladder = [{ trim_results = { truncate = false } }]\n",
    )
    .unwrap();
    let sources = baler::config::Sources {
        file: Some(file.path().to_owned()),
        ..Default::default()
    };
    let problems = baler::config::load(&sources).expect_err("it does nothing");
    assert!(problems.to_string().contains("all off"), "{problems}");
}

#[test]
fn the_newest_results_are_trimmed_only_if_asked() {
    let large = numbered(400);
    let mut all = job(&[
        ("read", r#"{"n":1}"#, &large),
        ("read", r#"{"n":2}"#, &large),
    ]);
    // The newest exchange is a result.
    all.pop();
    for (options, cut) in [("", [true, false]), ("newest = true", [true, true])] {
        let after = compacted(&all, &format!("{{ trim_results = {{ {options} }} }}"));
        let left = results(&after.messages);
        for (text, cut) in left.iter().zip(cut) {
            assert_eq!(text.contains("removed by trim_results"), cut, "{options}");
        }
        if cut[1] {
            assert_eq!(left[0], left[1], "alike wherever it stands");
        }
    }
}

#[test]
fn cuts_are_marked_in_the_operators_words() {
    let (large, rows) = (numbered(400), (0..3_000).collect::<Vec<_>>());
    let list = json!({ "rows": rows, "name": words(1, 900) }).to_string();
    let log = format!("{}\nFAILED tests/b.py::test_c\n{}", large, numbered(200));
    let own = "text = \"left out by the proxy\"";
    for options in ["", "outline = {}", "sample = {}"] {
        let usual = trimmed(options, &[&large, &list, &log]);
        let all = trimmed(
            &format!(
                "{options}{}{own}",
                [", ", ""][usize::from(options.is_empty())]
            ),
            &[&large, &list, &log],
        );
        for (own, usual) in all.iter().zip(&usual) {
            assert!(own.contains("left out by the proxy"), "{own}");
            assert!(!own.contains("removed by trim_results"), "{own}");
            assert!(own.chars().count().abs_diff(usual.chars().count()) < 100);
        }
        // They are recognised when they come back.
        let contents: Vec<&str> = all.iter().map(String::as_str).collect();
        let step = format!("skip_small = false, {own}");
        assert_eq!(trimmed(&step, &contents), all, "{options}");
    }
    let tiny = format!(
        "truncate = {{ size = 300, head = 100, tail = 50 }}, text = \"{}\"",
        words(4, 8)
    );
    let cut = trimmed(&tiny, &[&json!(rows).to_string()]);
    assert!(cut[0].chars().count() <= 300, "{}", cut[0]);
}

/// What a Baler with this policy sends and says for each turn of an agent's run whose every third
/// result is large.
async fn run_of(policy: &str, headers: &str, from: usize) -> Vec<(Vec<String>, String)> {
    let (address, log) = Upstream::agreeable().await;
    let baler = Baler::start(policy, address).await;
    let mut all = vec![
        message("system", "You are an agent."),
        message("user", "Look."),
    ];
    let mut seen = Vec::new();
    for turn in 0..9 {
        if turn >= from {
            let answer = baler.chat_with(&request(&all), headers).await;
            let sent = log.lock().unwrap().last().unwrap().1.clone();
            seen.push((
                messages_of(&sent),
                answer.header("x-baler-action").to_owned(),
            ));
        }
        let id = format!("c{turn}");
        let lines = if turn % 3 == 1 { 400 } else { 20 };
        all.extend([
            calls(&[(&id, "read", "{}")]),
            result(&id, &format!("{turn}\n{}", numbered(lines))),
        ]);
    }
    seen
}

#[tokio::test]
async fn results_are_trimmed_as_they_arrive_and_stay_so() {
    let policy = "[[policy]]\nwindow = 200000\nladder = [{ trim_results = { newest = true } }]\n";
    let seen = run_of(policy, "", 0).await;
    let actions: Vec<&str> = seen.iter().map(|(_, action)| action.as_str()).collect();
    let made = "compacted; strategies=\"trim_results\"";
    let passed = "none; reason=gate";
    let expected = [
        passed, passed, made, "replayed", "replayed", made, "replayed", "replayed", made,
    ];
    assert_eq!(actions, expected);
    // The model never sees more of a result than the first time, and no other one changes.
    for pair in seen.windows(2) {
        let [(before, _), (after, _)] = pair else {
            unreachable!()
        };
        assert_eq!(after[..before.len()], before[..]);
    }
    let last = &seen.last().unwrap().0;
    for (at, text) in results(last).iter().enumerate() {
        assert_eq!(
            text.contains("removed by trim_results"),
            at % 3 == 1,
            "{at}: {text}"
        );
    }
    // Another process comes to the same bytes, whenever it joins.
    assert_eq!(run_of(policy, "", 8).await[0].0, *last);
    // Without the option nothing is due, nor when only observed.
    let unasked = policy.replace("newest = true", "newest = false");
    let observed = "x-baler-mode: observe\r\n";
    for (policy, headers) in [(unasked.as_str(), ""), (policy, observed)] {
        for (sent, action) in run_of(policy, headers, 0).await {
            assert!(
                !sent.concat().contains("removed by trim_results"),
                "{action}"
            );
        }
    }
}

#[test]
fn with_neither_head_nor_tail_nothing_stays_but_the_mark() {
    let prose = numbered(400);
    let numbers: Vec<usize> = (0..2_000).collect();
    let all = [
        prose.clone(),
        json!(numbers).to_string(),
        json!({"id": 1, "rows": numbers}).to_string(),
    ];
    let contents: Vec<&str> = all.iter().map(String::as_str).collect();
    let none = "truncate = { size = 1000, head = 0, tail = 0 }";
    let after = trimmed(none, &contents);
    let marks = [
        format!("[… {} characters removed by trim_results …]", prose.len()),
        json!(["… 2000 of 2000 items removed by trim_results"]).to_string(),
        json!({"__truncated__": "2 of 2 members removed by trim_results"}).to_string(),
    ];
    assert_eq!(after, marks);
    // What a sample makes small enough needs no cut.
    let after = trimmed(&format!("{none}, sample = {{ items = 1 }}"), &contents);
    let told: Value = serde_json::from_str(&after[1]).unwrap();
    assert_eq!(
        (&told["items"], &told["total_count"]),
        (&json!([0]), &json!(2000))
    );
}

#[test]
fn of_content_in_parts_each_text_is_trimmed_and_the_rest_stays() {
    let large = numbered(300);
    let part = |text: &str| {
        format!(
            r#"{{"type": "text", "text": {}, "cache_control": {{"type": "ephemeral"}}}}"#,
            json!(text)
        )
    };
    let raw = |text: &str| {
        format!(
            r#"{{"role": "tool", "tool_call_id": "call_0", "content": [{}, {}]}}"#,
            part("short"),
            part(text)
        )
    };
    let mut all = job(&[("read", "{}", "")]);
    all[3] = raw(&large);
    let after = compacted(
        &all,
        "{ trim_results = { truncate = { size = 100, head = 20, tail = 10 } } }",
    );
    let cut = format!(
        "{}\n[… {} characters removed by trim_results …]\n{}",
        &large[..20],
        large.len() - 30,
        &large[large.len() - 10..]
    );
    let value = |raw: &str| serde_json::from_str::<serde_json::Value>(raw).unwrap();
    assert_eq!(value(&after.messages[3]), value(&raw(&cut)));
    assert_eq!(after.report("trim_results").replaced, 1);
}

#[test]
fn what_was_trimmed_is_not_trimmed_again() {
    let list = json!((0..3_000).collect::<Vec<_>>()).to_string();
    let all = job(&[
        ("read", "{}", &numbered(400)),
        ("list", "{}", &list),
        (
            "list",
            "{}",
            &json!({"rows": (0..900).map(|n| json!({"n": n})).collect::<Vec<_>>()}).to_string(),
        ),
    ]);
    for options in ["", "outline = {}", "sample = {}"] {
        let step = format!("{{ trim_results = {{ {options} }} }}");
        let once = compacted(&all, &step).messages;
        assert!(
            results(&once)[..2].iter().all(|text| text.len() < 4_000),
            "{options}"
        );
        assert_eq!(compacted(&once, &step).messages, once, "{options}");
    }
}
