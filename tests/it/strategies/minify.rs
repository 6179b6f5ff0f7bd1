//! `minify`: JSON without white space, and tables.

use serde_json::{Value, json};

use super::{after_step, arguments, compacted, job, results};

#[test]
fn json_loses_its_white_space_and_nothing_else() {
    let pretty = "{\n    \"id\": \"O-17\",\n    \"price\": 12.50,\n    \"note\": \"two  \
        blanks\",\n    \"tags\": [\n        \"a\",\n        \"b\"\n    ]\n}";
    let after = compacted(&job(&[("get", "{}", pretty)]), r#""minify""#);
    assert_eq!(
        results(&after.messages),
        [r#"{"id":"O-17","price":12.50,"note":"two  blanks","tags":["a","b"]}"#]
    );
    assert_eq!(after.report("minify").replaced, 1);
    assert_eq!(
        after_step("{ minify = { json = false } }", &[pretty]),
        [pretty],
        "unless JSON is to be left alone"
    );
}

#[test]
fn a_list_of_like_objects_becomes_a_table_with_all_its_values() {
    let rows: Vec<Value> = (0..6)
        .map(|n| {
            json!({"id": format!("U-{n}"), "age": 20 + n, "city": format!("Town, {n}"),
            "flag": null})
        })
        .collect();
    let after = &after_step(r#""minify""#, &[&json!(rows).to_string()])[0];
    let mut lines = after.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("[6]{") && head.ends_with("}:"), "{head}");
    for key in ["id", "age", "city", "flag=null"] {
        assert!(head.contains(key), "{head} names {key}");
    }
    for n in 0..6 {
        let line = lines.next().unwrap();
        for value in [
            format!("U-{n}"),
            format!("{}", 20 + n),
            format!("\"Town, {n}\""),
        ] {
            assert!(line.contains(&value), "{line} has {value}");
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn terminal_noise_goes_from_what_is_no_json() {
    let noisy = "\u{1b}[1m\u{1b}[32mBuilding\u{1b}[0m app   \n 10%\r 55%\r100% done\r\n\
        retrying the connection\nretrying the connection\nretrying the connection\n\
        retrying the connection\nready";
    let clean = "Building app\n100% done\nretrying the connection (×4)\nready";
    assert_eq!(after_step(r#""minify""#, &[noisy]), [clean]);
    assert_eq!(
        after_step("{ minify = { text = false } }", &[noisy]),
        [noisy],
        "unless text is to be left alone"
    );
    let plain = "no noise\n\n  indented as it was\n{ not json";
    assert_eq!(after_step(r#""minify""#, &[plain]), [plain]);
}

#[test]
fn arguments_stay_json_when_they_are_minified() {
    let pretty = "{\n  \"path\": \"a b.txt\",\n  \"range\": [1, 2],\n  \"text\": \"x\\n  y\",\n  \
        \"rows\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]\n}";
    let broken = "{ \"path\": ";
    let all = job(&[("read", pretty, "ok"), ("read", broken, "ok")]);
    let after = compacted(&all, r#""minify""#);
    let short =
        r#"{"path":"a b.txt","range":[1,2],"text":"x\n  y","rows":[{"a":1},{"a":2},{"a":3}]}"#;
    assert_eq!(
        arguments(&after.messages),
        [short, broken],
        "objects stay objects, never tables; what is no JSON stays"
    );
    assert_eq!(
        compacted(&all, "{ minify = { json = false } }").messages,
        all
    );
}
