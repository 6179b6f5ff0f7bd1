//! The opening of a body: where its first messages stand. It is the same in every body that begins
//! with the same bytes, so that of a conversation that grows only the rest has to be read.

use std::ops::Range;

/// The first messages of a body that was outlined, as places in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The place of each message, bytes; at least one.
    messages: Box<[Range<u32>]>,
}

impl Opening {
    /// The messages at these places, in order, as far as a body of 4 GB may hold them; `None` where
    /// there are none.
    pub(super) fn of(places: impl Iterator<Item = Range<usize>>) -> Option<Self> {
        let place = |Range { start, end }| {
            let place = u32::try_from(start).ok()?..u32::try_from(end).ok()?;
            Some(place)
        };
        let messages: Box<[_]> = places.map_while(place).collect();
        (!messages.is_empty()).then_some(Opening { messages })
    }

    /// The number of its messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it holds no message, which none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes before its first message.
    #[must_use]
    pub fn start(&self) -> usize {
        self.messages
            .first()
            .map_or(0, |first| first.start as usize)
    }

    /// Bytes up to the end of its last message.
    #[must_use]
    pub fn end(&self) -> usize {
        self.messages.last().map_or(0, |last| last.end as usize)
    }

    /// Its messages, as slices of a body that begins with it; `None` for any other body.
    pub(super) fn messages_in<'a>(&self, body: &'a str) -> Option<Vec<&'a str>> {
        let places = self.messages.iter();
        let slices = places.map(|place| body.get(place.start as usize..place.end as usize));
        slices.collect()
    }
}

/// A body that begins with an opening, without the opening's messages: JSON like the body, and
/// short where the opening is long.
#[derive(Debug)]
pub(super) struct Abridged {
    /// The bytes before the messages that were left out, and the bytes behind them.
    pub json: Vec<u8>,
    /// The length of the former.
    head: usize,
    /// Bytes that were left out between the two.
    left_out: usize,
}

impl Abridged {
    /// `None` where that saves less than half of the body, or what follows the opening is neither
    /// another message nor the end of the list.
    pub(super) fn of(body: &[u8], opening: &Opening) -> Option<Self> {
        if opening.end() < body.len() / 2 {
            return None;
        }
        let head = body.get(..opening.start())?;
        let rest = without_space(body.get(opening.end()..)?);
        let tail = match rest.strip_prefix(b",") {
            Some(more) => (!without_space(more).starts_with(b"]")).then_some(more)?,
            None => rest.starts_with(b"]").then_some(rest)?,
        };
        Some(Abridged {
            json: [head, tail].concat(),
            head: head.len(),
            left_out: body.len() - head.len() - tail.len(),
        })
    }

    /// The place in the body of a slice of this JSON, which does not lie across the gap.
    pub(super) fn place(&self, part: &Range<usize>) -> Range<usize> {
        let moved = |at: usize| {
            if part.start < self.head {
                at
            } else {
                at + self.left_out
            }
        };
        moved(part.start)..moved(part.end)
    }
}

/// JSON without the white space that it begins with.
fn without_space(json: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let spaces = json.iter().take_while(|byte| is_space(byte)).count();
    json.get(spaces..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::chat::{Outline, peek_model};

    const MESSAGES: [&str; 3] = [
        r#"{"role":"system","content":"\u0041, ]"}"#,
        r#"{"role":"user","content":"日本 \"},{\" "}"#,
        r#"{"role":"assistant","content":"yes"}"#,
    ];

    fn assert_same(body: &str, opening: &Opening) {
        let by_opening = Outline::resume(body.as_bytes(), Some(opening));
        let afresh = Outline::parse(body.as_bytes());
        assert_eq!(format!("{by_opening:?}"), format!("{afresh:?}"), "{body}");
        assert_eq!(
            peek_model(body.as_bytes(), Some(opening)),
            peek_model(body.as_bytes(), None),
            "{body}"
        );
    }

    #[test]
    fn a_body_is_read_alike_with_an_opening_and_without() {
        let [first, second, third] = MESSAGES;
        for (head, between) in [
            (r#"{"messages":["#, ","),
            ("{\"model\": \"a\",\n \"messages\" : [ \n", " ,\n  "),
            (r#"{"max_tokens":7,"messages":["#, ", "),
        ] {
            let begun = [first, second, third].join(between);
            let body = format!("{head}{begun}]}}");
            let outline = Outline::parse(body.as_bytes()).unwrap();
            for within in [1 << 20, body.len() - 3, body.len() - 20] {
                let opening = outline.opening(within).unwrap();
                for rest in [
                    "]}",
                    " ]\n}",
                    "],\"model\":\"b\",\"tools\":[{}],\"max_completion_tokens\":9}",
                    r#","model":"b"}"#,
                    r#"],"messages":[]}"#,
                    r#",{"role":"user","content":"more"}],"model":"b"}"#,
                    r#" , {"role":"user","content":"more"} ] } "#,
                    ",]}",
                    ", ]}",
                    ",,]}",
                    r#"{"role":"user"}]}"#,
                    "}",
                    "",
                    "] trailing",
                    "\u{fffd}",
                    "\u{c}]}",
                    ",\u{c}]}",
                    r#",],"model":"b"}"#,
                ] {
                    let known = &body[..opening.end()];
                    assert_same(&format!("{known}{rest}"), &opening);
                }
            }
        }
    }

    #[test]
    fn what_is_short_beside_the_rest_is_read_with_it() {
        let [first, second, _] = MESSAGES;
        let body = format!(r#"{{"messages":[{first},{second}]}}"#);
        let outline = Outline::parse(body.as_bytes()).unwrap();
        let opening = outline.opening(60).unwrap();
        assert_eq!(opening.len(), 1);
        assert!(Abridged::of(body.as_bytes(), &opening).is_some());
        let longer = format!(r#"{{"messages":[{first},"{}"]}}"#, "x".repeat(80));
        assert!(Abridged::of(longer.as_bytes(), &opening).is_none());
        assert_same(&longer, &opening);
        assert_eq!(outline.opening(20), None);
    }
}
