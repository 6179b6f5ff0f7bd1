//! Cache marks: where a client tells the API up to which place its prompt is worth caching. They
//! mean nothing to the model, move on from request to request, and APIs allow only a few of them.

use std::collections::BTreeMap;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::{present, span_in};

/// The key of a mark, in quotation marks.
const KEY: &str = r#""cache_control""#;

/// A mark and its place in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheMark<'a> {
    place: Place,
    /// The JSON of the mark.
    json: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A field of the message itself.
    Message,
    /// A field of a part, by its index among so many.
    Part { index: usize, of: usize },
    /// The last part.
    End,
}

impl CacheMark<'_> {
    /// The same mark for the end of another message.
    #[must_use]
    pub fn at_end(self) -> Self {
        CacheMark {
            place: Place::End,
            ..self
        }
    }
}

#[derive(Deserialize)]
struct Marked<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    cache_control: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

impl<'a> Marked<'a> {
    fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    fn parts(&self) -> Vec<&'a RawValue> {
        let content = self.content.map_or("", RawValue::get);
        let list = content.starts_with('[');
        let parts = list.then(|| serde_json::from_str(content).ok()).flatten();
        parts.unwrap_or_default()
    }
}

/// How often a text of JSON seems to name a mark, at most.
pub(in crate::core::wire) fn count_marks(json: &str) -> usize {
    memmem::find_iter(json.as_bytes(), KEY).count()
}

/// The marks of a message, in their order.
pub(in crate::core::wire) fn marks(raw: &str) -> Vec<CacheMark<'_>> {
    let read = || Marked::read(raw).filter(|_| count_marks(raw) > 0);
    let Some(message) = read() else {
        return Vec::new();
    };
    let parts = message.parts();
    let of = parts.len();
    let in_parts = parts.iter().enumerate().filter_map(|(index, part)| {
        let mark = Marked::read(part.get())?.cache_control?;
        Some((Place::Part { index, of }, mark))
    });
    let own = message.cache_control.map(|mark| (Place::Message, mark));
    in_parts
        .chain(own)
        .filter(|(_, mark)| mark.get() != "null")
        .map(|(place, mark)| CacheMark {
            place,
            json: mark.get(),
        })
        .collect()
}

/// The message without its marks, all else byte for byte.
pub(in crate::core::wire) fn without_marks(json: String) -> String {
    if count_marks(&json) == 0 {
        return json;
    }
    let Some(message) = Marked::read(&json) else {
        return json;
    };
    let parts = message.parts();
    let in_parts = parts
        .iter()
        .filter_map(|part| Marked::read(part.get())?.cache_control);
    let mut spans: Vec<_> = in_parts
        .chain(message.cache_control)
        .filter_map(|mark| member(&json, span_in(&json, mark.get())))
        .collect();
    spans.sort_by_key(|span| span.start);
    let mut left = String::with_capacity(json.len());
    let mut from = 0;
    for span in spans {
        left.push_str(json.get(from..span.start).unwrap_or_default());
        from = span.end;
    }
    left.push_str(json.get(from..).unwrap_or_default());
    left
}

/// The place of the member whose value is at `value`, with the comma that goes with it. `None` when
/// its key is spelled with escapes.
fn member(json: &str, value: std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
    let before = json.get(..value.start)?.trim_end();
    let before = before.strip_suffix(':')?.trim_end().strip_suffix(KEY)?;
    let trimmed = before.trim_end();
    if let Some(before) = trimmed.strip_suffix(',') {
        return Some(before.len()..value.end);
    }
    let after = json.get(value.end..)?;
    let rest = after.trim_start().strip_prefix(',').unwrap_or(after);
    Some(before.len()..json.len() - rest.trim_start().len())
}

/// A message, which has no marks, with these. A mark of a part goes to the same part where there
/// are as many of them, else to the last one. A message without content takes none.
pub(in crate::core::wire) fn with_marks(json: &str, marks: &[CacheMark<'_>]) -> Option<String> {
    let message = Marked::read(json)?;
    let parts = message.parts();
    let mut own = None;
    let mut by_part = BTreeMap::new();
    for mark in marks {
        match mark.place {
            Place::Message => own = Some(mark.json),
            Place::Part { index, of } if of == parts.len() => {
                by_part.insert(index, mark.json);
            }
            Place::Part { .. } | Place::End => {
                by_part.insert(parts.len().saturating_sub(1), mark.json);
            }
        }
    }
    let mut out = json.to_owned();
    if let Some(mark) = own {
        let end = out.trim_end().strip_suffix('}')?.len();
        out.insert_str(end, &format!(",{KEY}:{mark}"));
    }
    if parts.is_empty() {
        if let Some(mark) = by_part.into_values().next() {
            let text = message
                .content
                .filter(|content| content.get().starts_with('"'))?;
            let span = span_in(json, text.get());
            let part = format!(r#"[{{"type":"text","text":{},{KEY}:{mark}}}]"#, text.get());
            out.replace_range(span, &part);
        }
        return Some(out);
    }
    for (index, mark) in by_part.into_iter().rev() {
        let part = parts.get(index)?.get();
        part.strip_prefix('{')?.trim_start().strip_prefix('"')?;
        let end = span_in(json, part).end.checked_sub(1)?;
        out.insert_str(end, &format!(",{KEY}:{mark}"));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = concat!(
        r#"{"role":"tool", "content" : [{"type":"text","text":"a","cache_control":{"type":"x"}}, "#,
        r#"{"cache_control" : 7 , "type":"text","text":"\"cache_control\":1"}],"cache_control":8}"#
    );

    #[test]
    fn marks_are_found_taken_away_and_put_back() {
        let found = marks(PARTS);
        let json: Vec<&str> = found.iter().map(|mark| mark.json).collect();
        assert_eq!(json, [r#"{"type":"x"}"#, "7", "8"]);
        let plain = without_marks(PARTS.to_owned());
        assert_eq!(
            plain,
            concat!(
                r#"{"role":"tool", "content" : [{"type":"text","text":"a"}, "#,
                r#"{"type":"text","text":"\"cache_control\":1"}]}"#
            )
        );
        assert_eq!(marks(&plain), []);
        let again = with_marks(&plain, &found).unwrap();
        assert_eq!(marks(&again), found);
        assert_eq!(without_marks(again), plain);
    }

    #[test]
    fn a_text_becomes_a_part_that_can_carry_a_mark() {
        let plain = r#"{"role":"user","content":"a"}"#;
        let found = marks(PARTS);
        assert_eq!(
            with_marks(plain, &found[..2]).unwrap(),
            r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":7}]}"#,
            "the last of two"
        );
        assert_eq!(
            with_marks(plain, &found[2..]).unwrap(),
            r#"{"role":"user","content":"a","cache_control":8}"#
        );
        let end = [found[2].at_end()];
        assert_eq!(
            with_marks(plain, &end).unwrap(),
            r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":8}]}"#
        );
        assert_eq!(
            with_marks(r#"{"role":"assistant","content":null}"#, &end),
            None
        );
        assert_eq!(
            marks(r#"{"content":[{"cache_control":null}],"cache_control":null}"#),
            []
        );
    }
}
