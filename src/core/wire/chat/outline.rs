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
use super::opening::{Abridged, Opening};
use crate::core::conversation::Entry;
use crate::core::json::{decoded, span_in};
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
        Self::resume(body, None)
    }

    /// The same for a body that begins with the bytes of an opening, whose messages are not
    /// searched for again.
    ///
    /// # Errors
    /// As for [`Outline::parse`].
    pub fn resume(body: &'a [u8], opening: Option<&Opening>) -> Result<Self, Unreadable> {
        let body = simdutf8::basic::from_utf8(body).map_err(|_| Unreadable::NotJson)?;
        if let Some(outline) = opening.and_then(|opening| Self::of_rest(body, opening)) {
            return Ok(outline);
        }
        let top: TopLevel<'a> = serde_json::from_str(body)?;
        Self::of_fields(body, &top, Vec::new(), |part| part)
    }

    /// Reads what follows an opening; `None` where the whole body must be read to say what it is.
    fn of_rest(body: &'a str, opening: &Opening) -> Option<Self> {
        let abridged = Abridged::of(body.as_bytes(), opening)?;
        let json = std::str::from_utf8(&abridged.json).ok()?;
        let top: TopLevel<'_> = serde_json::from_str(json).ok()?;
        let place = |part: &str| {
            let place = abridged.place(&span_in(json, part));
            body.get(place).unwrap_or_default()
        };
        Self::of_fields(body, &top, opening.messages_in(body)?, place).ok()
    }

    /// The outline of a body with these fields: the `first` messages are followed by those of
    /// `top`, and `place` finds their slices in the body.
    fn of_fields<'t>(
        body: &'a str,
        top: &TopLevel<'t>,
        first: Vec<&'a str>,
        place: impl Fn(&'t str) -> &'a str,
    ) -> Result<Self, Unreadable> {
        let raw = |field: Option<&'t RawValue>| field.map(|raw| place(raw.get()));
        let number = |field: Option<&RawValue>| field.and_then(|raw| raw.get().parse::<u64>().ok());
        let mut messages = first;
        let new = top.messages.as_ref().ok_or(Unreadable::Unusual)?;
        messages.extend(new.iter().map(|message| place(message.get())));
        if messages.is_empty() {
            return Err(Unreadable::Unusual);
        }
        let limits = [top.max_tokens, top.max_completion_tokens];
        Ok(Outline {
            body,
            model: raw(top.model).and_then(decoded),
            max_output_tokens: number(top.max_tokens).max(number(top.max_completion_tokens)),
            output_limits: limits.into_iter().filter_map(raw).collect(),
            fixed: Fixed {
                tools: raw(top.tools),
                functions: raw(top.functions),
                tool_choice: raw(top.tool_choice),
                function_call: raw(top.function_call),
                response_format: raw(top.response_format),
            },
            messages,
        })
    }

    /// The messages that lie within so many bytes of the body; `None` where no message does.
    #[must_use]
    pub fn opening(&self, within: usize) -> Option<Opening> {
        let places = self.messages.iter().map(|raw| span_in(self.body, raw));
        Opening::of(places.take_while(|place| place.end <= within))
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
/// its model twice. The messages of an opening that it begins with are not read.
#[must_use]
pub fn peek_model(body: &[u8], opening: Option<&Opening>) -> Option<String> {
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
    let abridged = opening.and_then(|opening| Abridged::of(body, opening));
    let json = abridged.as_ref().map_or(body, |abridged| &abridged.json);
    let mut model = None;
    // Stopping early leaves the object unfinished, which the deserializer reports: the answer is in
    // `model` by then.
    let _ = serde_json::Deserializer::from_slice(json).deserialize_map(Peek(&mut model));
    model
}
