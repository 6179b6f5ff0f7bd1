//! Messages rewritten by meaning, and new ones. Every byte that no change names is as it was.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::role_of;
use super::message::REASONING;
use crate::core::conversation::{Author, Entry, Media, Text};
use crate::core::json::{Json, span_in, write_string};
use crate::core::wire::change::Change;

/// The message with `changes`; `None` when nothing of it changes.
pub(in crate::core) fn rewrite(entry: &Entry<'_>, changes: Vec<Change<'_>>) -> Option<String> {
    let drops_reasoning = changes
        .iter()
        .any(|change| matches!(change, Change::DropReasoning));
    let mut slices: Vec<(&str, String)> = changes
        .into_iter()
        .filter_map(|change| match change {
            Change::Text(old, new) => changed(old, &new),
            Change::Result(old, new) => Some((old, json_string(&new))),
            Change::Media(old, new) => stubbed(old, &new),
            Change::DropReasoning => None,
        })
        .collect();
    slices.sort_by_key(|(old, _)| span_in(entry.raw, old).start);
    let spliced = spliced(entry.raw, slices);
    let without = if drops_reasoning {
        without_members(spliced.as_deref().unwrap_or(entry.raw), &REASONING)
    } else {
        None
    };
    without.or(spliced)
}

/// The JSON of a new message.
pub(in crate::core) fn synthetic(author: Author, text: &str) -> String {
    let content = json_string(text);
    format!(r#"{{"role":"{}","content":{content}}}"#, role_of(author))
}

/// The slice of a text and its new JSON; `None` when the slice does not spell a text.
fn changed<'a>(old: Text<'a>, new: &str) -> Option<(&'a str, String)> {
    old.decode().map(|_| (old.raw(), json_string(new)))
}

/// The slice of a part and a text part in its place.
fn stubbed<'a>(old: Media<'a>, text: &str) -> Option<(&'a str, String)> {
    let mark = Json::parse(old.raw)?
        .get("cache_control")
        .map(|mark| format!(r#","cache_control":{mark}"#))
        .unwrap_or_default();
    let text = json_string(text);
    Some((old.raw, format!(r#"{{"type":"text","text":{text}{mark}}}"#)))
}

fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    write_string(text, &mut json);
    json
}

/// `raw` with slices of it, given in their order, replaced. `None` when there are none.
fn spliced(raw: &str, changes: Vec<(&str, String)>) -> Option<String> {
    let mut json = String::with_capacity(raw.len());
    let mut from = None;
    for (old, new) in changes {
        let span = span_in(raw, old);
        json.push_str(raw.get(from.unwrap_or(0)..span.start)?);
        json.push_str(&new);
        from = Some(span.end);
    }
    json.push_str(raw.get(from?..)?);
    Some(json)
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

/// The object without the members of these names. `None` when it has none of them.
fn without_members(raw: &str, names: &[&str]) -> Option<String> {
    let Members(members) = serde_json::from_str(raw).ok()?;
    let all = members.len();
    let kept: Vec<String> = members
        .into_iter()
        .filter(|(name, _)| !names.contains(&name.as_str()))
        .map(|(name, value)| format!("{}:{}", json_string(&name), value.get()))
        .collect();
    (kept.len() < all).then(|| format!("{{{}}}", kept.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::chat::entry;

    #[test]
    fn every_byte_that_no_change_names_stays() {
        let raw = concat!(
            r#"{ "x" : 1.0, "role":"tool","tool_call_id":"c","content":[{"text":"a","#,
            r#""type":"text"}, {"type":"text","text":"b"}] }"#
        );
        let result = entry(raw).unwrap();
        let texts = result.result(0).unwrap().texts.clone();
        // In any order.
        let changes = vec![
            Change::Text(texts[1], "B\"".to_owned()),
            Change::Text(texts[0], "A".to_owned()),
        ];
        let expected = raw
            .replace(r#""a""#, r#""A""#)
            .replace(r#""b""#, r#""B\"""#);
        assert_eq!(rewrite(&result, changes), Some(expected));
        assert_eq!(rewrite(&result, Vec::new()), None);
    }

    #[test]
    fn a_result_becomes_a_text_and_a_stub_keeps_its_cache_mark() {
        let raw = concat!(
            r#"{"role":"tool","tool_call_id":"c","content":[{"type":"image","#,
            r#""cache_control":{"type": "ephemeral"}}]}"#
        );
        let result = entry(raw).unwrap();
        let content = result.result(0).unwrap().raw.unwrap();
        assert_eq!(
            rewrite(&result, vec![Change::Result(content, "gone".to_owned())]).unwrap(),
            r#"{"role":"tool","tool_call_id":"c","content":"gone"}"#
        );
        let image = result.media().next().unwrap();
        assert_eq!(
            rewrite(&result, vec![Change::Media(image, "[image]".to_owned())]).unwrap(),
            concat!(
                r#"{"role":"tool","tool_call_id":"c","content":[{"type":"text","#,
                r#""text":"[image]","cache_control":{"type":"ephemeral"}}]}"#
            )
        );
    }

    #[test]
    fn reasoning_goes_under_every_name() {
        let raw = r#"{"role":"assistant","thinking":"a","content":"b", "reasoning_details":null}"#;
        let answer = entry(raw).unwrap();
        assert_eq!(
            rewrite(&answer, vec![Change::DropReasoning]).unwrap(),
            r#"{"role":"assistant","content":"b"}"#
        );
        let plain = entry(r#"{"role":"assistant","content":"b"}"#).unwrap();
        assert_eq!(rewrite(&plain, vec![Change::DropReasoning]), None);
    }

    #[test]
    fn a_new_message_is_a_plain_text() {
        assert_eq!(
            synthetic(Author::User, "a\nb"),
            r#"{"role":"user","content":"a\nb"}"#
        );
    }
}
