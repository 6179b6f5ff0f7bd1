//! What `dedupe` and `minify` lose: nothing. A reader that knows the notation restores every
//! result from what is sent.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use baler::core::text::shortest;

use super::{after_step, compacted, job, results};

/// Follows every reference: the results as they were before `dedupe`.
fn resolved(results: &[String]) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    for at in (0..results.len()).rev() {
        // `done` begins with the newest.
        let below = |count: usize| &done[done.len() - count];
        let text = &results[at];
        let restored = match text.strip_prefix("[the same as the result ") {
            Some(rest) => below(leading_number(rest)).clone(),
            None => {
                let lines = text.split('\n').map(|line| {
                    let Some((_, place)) = line
                        .strip_prefix("[… ")
                        .and_then(|rest| rest.split_once(" lines: the same as lines "))
                    else {
                        return line.to_owned();
                    };
                    let (range, rest) = place.split_once(" of the result ").unwrap();
                    let (first, last) = range.split_once('–').unwrap();
                    let (first, last): (usize, usize) =
                        (first.parse().unwrap(), last.parse().unwrap());
                    let source: Vec<&str> = below(leading_number(rest)).split('\n').collect();
                    source[first - 1..last].join("\n")
                });
                lines.collect::<Vec<_>>().join("\n")
            }
        };
        done.push(restored);
    }
    done.reverse();
    done
}

fn leading_number(text: &str) -> usize {
    let (number, _) = text.split_once(" below: ").unwrap();
    number.parse().unwrap()
}

/// What `minify` wrote of a JSON text, as JSON again.
fn decoded(text: &str) -> Value {
    if let Ok(json) = serde_json::from_str(text) {
        return json;
    }
    let mut lines = text.split('\n');
    if let Some(lists) = text.strip_prefix("[\n") {
        let mut lines = lists.strip_suffix(']').unwrap().split('\n');
        let mut found = Vec::new();
        while let Some(head) = lines.next() {
            found.push(table(head, &mut lines));
        }
        return Value::Array(found);
    }
    if text.starts_with('[') {
        let head = lines.next().unwrap();
        return table(head, &mut lines);
    }
    let mut members = Map::new();
    while let Some(line) = lines.next() {
        let (key, end) = json_at(line);
        let rest = &line[end..];
        let value = match rest.strip_prefix(':') {
            Some(value) => serde_json::from_str(value).unwrap(),
            None => table(rest.strip_prefix(' ').unwrap(), &mut lines),
        };
        members.insert(key.as_str().unwrap().to_owned(), value);
    }
    Value::Object(members)
}

/// The JSON value at the beginning of a text, and its length.
fn json_at(text: &str) -> (Value, usize) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next().unwrap().unwrap();
    (value, values.byte_offset())
}

/// A table with this head, whose rows follow.
fn table<'t>(head: &str, lines: &mut impl Iterator<Item = &'t str>) -> Value {
    let (rows, columns) = head.strip_prefix('[').unwrap().split_once(']').unwrap();
    let columns = columns.strip_suffix(':').unwrap();
    let (mut paths, mut at) = (Vec::new(), 0);
    heads(columns, &mut at, &[], &mut paths);
    assert_eq!(at, columns.len(), "all of {head} is read");
    let row = |line: &str| {
        let line = line.strip_prefix(' ').unwrap();
        let (mut object, mut at) = (Map::new(), 0);
        let mut first = true;
        for (path, constant) in &paths {
            let value = match constant {
                Some(value) => Some(value.clone()),
                None => {
                    if !first {
                        assert_eq!(&line[at..=at], ",");
                        at += 1;
                    }
                    first = false;
                    cell(line, &mut at)
                }
            };
            if let Some(value) = value {
                put(&mut object, path, value);
            }
        }
        assert_eq!(at, line.len(), "all of {line} is read");
        Value::Object(object)
    };
    let rows: usize = rows.parse().unwrap();
    Value::Array(lines.take(rows).map(row).collect::<Vec<_>>())
}

type Column = (Vec<String>, Option<Value>);

/// The columns of `{a,b{c,d=1}}`, each with its path.
fn heads(text: &str, at: &mut usize, above: &[String], found: &mut Vec<Column>) {
    loop {
        // Past `{` or `,`.
        *at += 1;
        let start = *at;
        *at += text[start..].find([',', '{', '}', '=']).unwrap();
        let mut path = above.to_vec();
        path.push(text[start..*at].to_owned());
        match &text[*at..=*at] {
            "{" => heads(text, at, &path, found),
            "=" => {
                *at += 1;
                let value = cell(text, at).unwrap();
                found.push((path, Some(value)));
            }
            _ => found.push((path, None)),
        }
        if &text[*at..=*at] == "}" {
            *at += 1;
            return;
        }
    }
}

/// The cell at a place; `None` where the row lacks the column.
fn cell(text: &str, at: &mut usize) -> Option<Value> {
    let rest = &text[*at..];
    if rest.starts_with(['"', '{', '[']) {
        let (value, length) = json_at(rest);
        *at += length;
        return Some(value);
    }
    let length = rest.find([',', '}']).unwrap_or(rest.len());
    *at += length;
    match &rest[..length] {
        "" => None,
        bare => Some(serde_json::from_str(bare).unwrap_or_else(|_| json!(bare))),
    }
}

fn put(object: &mut Map<String, Value>, path: &[String], value: Value) {
    let (first, rest) = path.split_first().unwrap();
    if rest.is_empty() {
        object.insert(first.clone(), value);
        return;
    }
    let inner = object.entry(first).or_insert_with(|| json!({}));
    put(inner.as_object_mut().unwrap(), rest, value);
}

/// Values that are easily mistaken for others.
fn values() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        "null",
        "true",
        "7",
        "-",
        "1e5",
        "0x1",
        "a, b",
        " lead",
        "trail ",
        "x\ny",
        "}",
        "[",
        "a=b",
        "\"quoted\"",
        "back\\slash",
        "日本語",
        "Grand Hotel",
        "[2]{a}:",
        "c:d",
        "\u{2028}",
    ]);
    let leaf = prop_oneof![
        texts.prop_map(|text| json!(text)),
        any::<i32>().prop_map(|n| json!(n)),
        (0..9999).prop_map(|n| json!(f64::from(n) / 4.0)),
        any::<bool>().prop_map(|b| json!(b)),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            objects(inner),
        ]
    })
}

fn objects(values: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec!["id", "a", "b", "two words", "x=y", "k.v", "é", ""]);
    prop::collection::vec((keys, values), 0..5).prop_map(|members| {
        let members = members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Value::Object(members.collect())
    })
}

/// Lists whose objects mostly have the same keys.
fn rows() -> impl Strategy<Value = Value> {
    let row = (values(), values(), prop::option::weighted(0.8, values()));
    prop::collection::vec(row, 2..7).prop_map(|rows| {
        let rows = rows.into_iter().map(|(id, at, more)| {
            let mut row = json!({"id": id, "at": {"x": at, "kind": "same"}});
            if let Some(more) = more {
                row["more"] = more;
            }
            row
        });
        Value::Array(rows.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn json_is_restored_from_its_shortest_form(
        list in rows(),
        other in values(),
        form in 0..4,
        key in prop::sample::select(vec!["rows", "with \"quotes\"", "a:b", ""]),
    ) {
        let json = match form {
            0 => list,
            1 => json!({key: list, "other": other, "again": list}),
            2 => json!([list, list]),
            _ => json!([list, other]),
        };
        let short = shortest(&json.to_string()).unwrap();
        prop_assert_eq!(decoded(&short), json, "{}", short);
    }

    /// Results that share runs of lines, whole and in part, in chains.
    #[test]
    fn results_are_restored_from_their_references(
        parts in prop::collection::vec(prop::collection::vec(0..4_usize, 1..5), 2..9),
    ) {
        let block = |n: usize| -> Vec<String> {
            let own = "text of its own ".repeat(4);
            (0..5)
                .map(|line| format!("block {n} line {line} holds {own}"))
                .collect()
        };
        let texts: Vec<String> = parts
            .iter()
            .enumerate()
            .map(|(at, blocks)| {
                let mut lines = vec![format!("result {}", at / 2)];
                lines.extend(blocks.iter().flat_map(|n| block(*n)));
                lines.join("\n")
            })
            .collect();
        let steps: Vec<_> = texts.iter().map(|text| ("read", "{}", text.as_str())).collect();
        let after = results(&compacted(&job(&steps), r#""dedupe""#).messages);
        prop_assert_eq!(resolved(&after), texts, "{:#?}", after);
    }
}

#[test]
fn tables_of_a_realistic_result_are_restored() {
    let orders: Vec<Value> = (0..20)
        .map(|n| {
            json!({"id": format!("#W{n}"), "status": "open", "paid": n % 3 == 0, "total": 12.5,
            "address": {"street": format!("{n} Oak Lane, App. {n}"), "zip": "00123"},
            "items": [{"sku": "1", "n": n}, {"sku": "2", "n": 1}]})
        })
        .collect();
    let listing = json!({"page": 1, "orders": orders, "next": null});
    let pretty = serde_json::to_string_pretty(&listing).unwrap();
    let after = &after_step(r#""minify""#, &[&pretty])[0];
    let head = "[20]{address{street,zip=00123},id,items,paid,status=open,total=12.5}:";
    assert!(after.contains(head), "{after}");
    assert_eq!(decoded(after), listing);
}

#[test]
fn code_diffs_and_configuration_stay_byte_for_byte() {
    let exact = [
        // Two blank lines between functions, blanks at the end, tabs, CRLF, a form feed.
        "import os\n\n\ndef first():\n    return 1  \n\n\ndef second():\n    pass\n    pass\n\n\n",
        "package main\r\n\r\n\r\nfunc main() {\r\n\tprintln(1)\r\n}\r\n",
        "static int a;\n\u{c}\nstatic int b;\n}\n}\n}\n",
        "all: build\n\t@echo ok  \n\t@echo ok  \n\t@echo ok  \n\n\nclean:\n\trm -rf out\n",
        "diff --git a/x.py b/x.py\n@@ -1,6 +1,6 @@\n \n \n \n-old = 1   \n+new = 1\n context\n",
        "services:\n  web:\n    image: a\n    image: a\n    image: a\n\n\n  db:\n    image: b\n",
        "# Title\n\n\nSome prose.  \nMore prose.\n\n```py\nx = 1\n\n\ny = 2\n```\n",
        "     1\tfn main() {\n     2\t\n     3\t\n     4\t}\n",
        "one line\n\n\nanother, after two blank ones   \n",
    ];
    assert_eq!(after_step(r#""minify""#, &exact), exact);
    // Colours go, and nothing else does.
    let coloured = exact[4].replace("-old", "\u{1b}[31m-old");
    assert_eq!(after_step(r#""minify""#, &[&coloured]), [exact[4]]);
}

#[test]
fn counted_lines_are_restored() {
    let log = format!(
        "start\n{}\n\n\ndone",
        ["waiting for the lock"; 9].join("\n")
    );
    let after = &after_step(r#""minify""#, &[&log])[0];
    assert_eq!(after, "start\nwaiting for the lock (×9)\n\n\ndone");
    let lines = after.split('\n').map(|line| match line.rsplit_once(" (×") {
        Some((line, times)) => {
            let times: usize = times.strip_suffix(')').unwrap().parse().unwrap();
            vec![line; times].join("\n")
        }
        None => line.to_owned(),
    });
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), log);
    // A line that ends like a count cannot be told from one: nothing is counted then.
    let odd = format!("tick (×2)\n{log}");
    assert_eq!(after_step(r#""minify""#, &[&odd]), [odd.as_str()]);
}
