//! Cache marks of clients, where the part that carried one is replaced.

use serde_json::{Value, json};

use crate::support::words;

use super::{compacted, job, numbered, placeholder, result};

#[test]
fn a_cache_mark_survives_where_a_placeholder_takes_the_place_of_parts() {
    let parts = |id: &str, text: &str| {
        let marked = json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral",
            "ttl": "1h"}});
        let parts = json!([{"type": "text", "text": words(9, 30),
            "cache_control": {"type": "ephemeral"}}, marked]);
        json!({"role": "tool", "tool_call_id": id, "content": parts}).to_string()
    };
    let one_part = |id: &str, text: &str| {
        let part = json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
        json!({"role": "tool", "tool_call_id": id, "content": part}).to_string()
    };
    let mut all = job(&[
        ("read", "{}", ""),
        ("read", "{}", ""),
        ("read", "{}", "fine"),
    ]);
    all[3] = parts("call_0", &format!("{} ValueError: bad", numbered(20)));
    all[5] = one_part("call_1", &format!("Error: it broke\n{}", numbered(20)));
    let after = compacted(&all, "{ clear_results = { keep = 1 } }").messages;
    let content = |raw: &str| serde_json::from_str::<Value>(raw).unwrap()["content"].clone();
    assert_eq!(
        content(&after[3]),
        json!([{"type": "text", "text": placeholder(&all[3]),
            "cache_control": {"type": "ephemeral", "ttl": "1h"}}]),
        "the last of two"
    );
    assert_eq!(
        content(&after[5]),
        json!([{"type": "text", "text": placeholder(&all[5]),
            "cache_control": {"type": "ephemeral"}}])
    );
    assert_eq!(
        compacted(&after, "{ clear_results = { keep = 1 } }").messages,
        after,
        "nor is it cleared again"
    );

    let after = compacted(&all, r#""collapse_errors""#).messages;
    let line = "[failed, overcome later: Error: it broke]";
    assert_eq!(
        content(&after[5]),
        json!([{"type": "text", "text": line, "cache_control": {"type": "ephemeral"}}])
    );
    assert_eq!(compacted(&after, r#""collapse_errors""#).messages, after);

    let same = words(1, 60);
    all[3] = one_part("call_0", &same);
    all[5] = result("call_1", &same);
    let after = compacted(&all, r#""dedupe""#).messages;
    let reference = "[the same as the result 1 below: read()]";
    assert_eq!(
        content(&after[3]),
        json!([{"type": "text", "text": reference, "cache_control": {"type": "ephemeral"}}])
    );
    assert_eq!(compacted(&after, r#""dedupe""#).messages, after);
}
