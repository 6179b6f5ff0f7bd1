//! A borrowed view of a chat-completion request: the top-level fields that Baler reads, and the raw
//! JSON of each message.
//!
//! Never builds a tree of the body. A field that is not read here is carried as the client's bytes.
//! Must not know policies, tokens or edits.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::entry;
use crate::core::conversation::Entry;
use crate::core::json::{span_in, string};
use crate::core::wire::unreadable::Unreadable;

/// The first look at a chat-completion request: its top-level fields, and the place of each
/// message.
#[derive(Debug)]
pub struct Outline<'a> {
    /// The whole body.
    pub body: &'a str,
    /// `model`, when it is a string.
    pub model: Option<Cow<'a, str>>,
    /// The larger of `max_tokens` and `max_completion_tokens`, when they are whole numbers.
    pub max_output_tokens: Option<u64>,
    /// Raw JSON of `max_tokens` and `max_completion_tokens`, as far as they are there.
    pub output_limits: Vec<&'a str>,
    /// Parts of the prompt that no strategy touches.
    pub fixed: Fixed<'a>,
    /// Raw JSON of each message, in order: slices of `body`.
    pub messages: Vec<&'a str>,
}

/// Raw JSON of the parts of a prompt besides the messages.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the fields are the request's")]
pub struct Fixed<'a> {
    pub tools: Option<&'a str>,
    pub functions: Option<&'a str>,
    pub tool_choice: Option<&'a str>,
    pub function_call: Option<&'a str>,
    pub response_format: Option<&'a str>,
}

impl<'a> Fixed<'a> {
    /// All of it, in the order of the fields; empty where there is nothing.
    #[must_use]
    pub fn parts(&self) -> [&'a str; 5] {
        [
            self.tools,
            self.functions,
            self.tool_choice,
            self.function_call,
            self.response_format,
        ]
        .map(Option::unwrap_or_default)
    }
}

/// A chat-completion request with its messages viewed.
#[derive(Debug)]
pub struct Chat<'a> {
    /// The first look.
    pub outline: Outline<'a>,
    /// The messages, in order.
    pub messages: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct TopLevel<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    functions: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    max_completion_tokens: Option<&'a RawValue>,
}

impl<'a> Outline<'a> {
    /// Reads `body` (the request's bytes, undecoded). Linear in its length, whatever it holds.
    ///
    /// # Errors
    /// [`Unreadable`] when the body is not a chat request that can be compacted safely.
    pub fn parse(body: &'a [u8]) -> Result<Self, Unreadable> {
        let body = std::str::from_utf8(body).map_err(|_| Unreadable::NotJson)?;
        let top: TopLevel<'a> = serde_json::from_str(body)?;
        let messages: Vec<&'a str> = top
            .messages
            .ok_or(Unreadable::Unusual)?
            .into_iter()
            .map(RawValue::get)
            .collect();
        if messages.is_empty() {
            return Err(Unreadable::Unusual);
        }
        let number = |raw: Option<&RawValue>| raw.and_then(|raw| raw.get().parse::<u64>().ok());
        Ok(Outline {
            body,
            model: top.model.and_then(string),
            max_output_tokens: number(top.max_tokens).max(number(top.max_completion_tokens)),
            output_limits: [top.max_tokens, top.max_completion_tokens]
                .into_iter()
                .flatten()
                .map(RawValue::get)
                .collect(),
            fixed: Fixed {
                tools: top.tools.map(RawValue::get),
                functions: top.functions.map(RawValue::get),
                tool_choice: top.tool_choice.map(RawValue::get),
                function_call: top.function_call.map(RawValue::get),
                response_format: top.response_format.map(RawValue::get),
            },
            messages,
        })
    }

    /// The bytes from one message to another, both included; what stands between them as well.
    #[must_use]
    pub fn between(&self, first: &str, last: &str) -> &'a str {
        let (first, last) = (span_in(self.body, first), span_in(self.body, last));
        self.body.get(first.start..last.end).unwrap_or_default()
    }

    /// Views the messages.
    ///
    /// # Errors
    /// [`Unreadable`] when one of them is not a plain message.
    pub fn view(self) -> Result<Chat<'a>, Unreadable> {
        let messages = self
            .messages
            .iter()
            .map(|raw| entry(raw))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Chat {
            outline: self,
            messages,
        })
    }
}

impl<'a> Chat<'a> {
    /// Reads `body` and views its messages.
    ///
    /// # Errors
    /// [`Unreadable`] when the body is not a chat request that can be compacted safely.
    pub fn parse(body: &'a [u8]) -> Result<Self, Unreadable> {
        Outline::parse(body)?.view()
    }

    /// The place of `part`, a slice of this chat's body, in it (bytes).
    #[must_use]
    pub fn span(&self, part: &str) -> Range<usize> {
        span_in(self.outline.body, part)
    }
}

/// The `model` of a body, found without reading further than it. Only good for choosing a policy
/// before the body is viewed: it does not notice a body that is not JSON after that point, or names
/// its model twice.
#[must_use]
pub fn peek_model(body: &[u8]) -> Option<String> {
    use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

    struct Peek<'m>(&'m mut Option<String>);
    impl<'de> Visitor<'de> for Peek<'_> {
        type Value = ();
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            #[derive(Deserialize)]
            #[serde(field_identifier, rename_all = "snake_case")]
            enum Key {
                Model,
                #[serde(other)]
                Other,
            }
            while let Some(key) = map.next_key()? {
                match key {
                    Key::Model => {
                        *self.0 = Some(map.next_value()?);
                        return Ok(());
                    }
                    Key::Other => map.next_value::<IgnoredAny>().map(drop)?,
                }
            }
            Ok(())
        }
    }
    let mut model = None;
    // Stopping early leaves the object unfinished, which the deserializer reports: the answer is in
    // `model` by then.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Peek(&mut model));
    model
}
