//! JSON with the lengths of its values as they will be written.

use crate::core::json::Json;

/// A JSON value and the characters that it takes when written. Each character is counted once.
pub(super) struct Weighed<'j> {
    pub value: &'j Json,
    pub chars: u64,
    /// The values inside it, in order.
    pub inner: Vec<Weighed<'j>>,
}

impl<'j> Weighed<'j> {
    pub(super) fn of(value: &'j Json) -> Self {
        let inner: Vec<Weighed<'j>> = match value {
            Json::List(items) => items.iter().map(Weighed::of).collect(),
            Json::Object(members) => members
                .iter()
                .map(|(_, value)| Weighed::of(value))
                .collect(),
            _ => Vec::new(),
        };
        let values: u64 = inner.iter().map(|inner| inner.chars).sum();
        let between = (inner.len() as u64).saturating_sub(1);
        let chars = match value {
            Json::Null | Json::Bool(true) => 4,
            Json::Bool(false) => 5,
            Json::Number(spelling) => spelling.chars().count() as u64,
            Json::String(text) => written(text),
            Json::List(_) => 2 + values + between,
            Json::Object(members) => {
                2 + values + between + members.iter().map(|(key, _)| written(key) + 1).sum::<u64>()
            }
        };
        Weighed {
            value,
            chars,
            inner,
        }
    }
}

/// Characters of a text as a JSON string.
pub(super) fn written(text: &str) -> u64 {
    2 + text.chars().map(width).sum::<u64>()
}

/// Characters of one character inside a JSON string.
pub(super) fn width(c: char) -> u64 {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}
