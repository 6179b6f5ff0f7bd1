//! Reads the usage that an answer reports, on the side, while the answer passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};

use crate::core::wire::decode::Decoder;
use crate::core::wire::sse::Lines;
use crate::core::wire::{Dialect, Usage, UsageReader};

/// The longest JSON answer that is kept to read its usage, bytes.
const MAX_JSON_BYTES: usize = 4 << 20;
/// Bytes of an encoded stream that are decoded to read its usage, at most.
const MAX_DECODED_BYTES: usize = 16 << 20;

/// Reads usage from an answer as it passes, without holding it up.
#[derive(Debug, Default)]
pub(super) struct UsageTap {
    reader: Reader,
    /// For an answer with a content encoding.
    decoder: Option<Decoder>,
    /// Usage that the answer's headers reported.
    pub reported_by_head: Option<Usage>,
}

#[derive(Debug, Default)]
enum Reader {
    /// Nothing to read.
    #[default]
    Off,
    /// An event stream: its last event that reports usage counts.
    Events(Lines, UsageReader),
    /// A JSON answer, kept until it is complete.
    Json(Dialect, Vec<u8>),
}

impl UsageTap {
    /// The tap for an answer with these headers, of which those named in `usage_headers` may report
    /// usage themselves.
    pub(super) fn for_answer(
        dialect: Dialect,
        headers: &HeaderMap,
        usage_headers: &[HeaderName],
    ) -> Self {
        let reported_by_head = usage_headers
            .iter()
            .filter_map(|name| headers.get(name))
            .find_map(|value| Usage::of_header(value.as_bytes()));
        let (reader, limit) = Reader::for_answer(dialect, headers);
        let decoder = if is_encoded(headers) {
            only_encoding(headers).and_then(|encoding| Decoder::new(encoding, limit))
        } else {
            None
        };
        let is_readable = decoder.is_some() || !is_encoded(headers);
        UsageTap {
            reader: if is_readable { reader } else { Reader::Off },
            decoder,
            reported_by_head,
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        let UsageTap {
            reader, decoder, ..
        } = self;
        let Some(decoder) = decoder.as_mut().filter(|_| !matches!(reader, Reader::Off)) else {
            return reader.read(bytes);
        };
        // INVARIANT: a defect of a decoder costs the usage, not the answer.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            decoder.push(bytes, &mut |decoded| reader.read(decoded))
        }));
        if !matches!(decoded, Ok(Ok(()))) {
            (*reader, self.decoder) = (Reader::Off, None);
        }
    }

    /// The usage of the answer: a report in the body counts more than one in the headers.
    pub(super) fn usage(&mut self) -> Option<Usage> {
        let in_body = std::mem::take(&mut self.reader).usage();
        in_body.or(self.reported_by_head)
    }
}

impl Reader {
    /// The reader for an answer with these headers, and the bytes that it may decode.
    fn for_answer(dialect: Dialect, headers: &HeaderMap) -> (Self, usize) {
        let kind = headers.get(CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if is_event_stream(headers) {
            let reader = Reader::Events(Lines::default(), dialect.usage_reader());
            (reader, MAX_DECODED_BYTES)
        } else if is_json {
            (Reader::Json(dialect, Vec::new()), MAX_JSON_BYTES)
        } else {
            (Reader::Off, 0)
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        match self {
            Reader::Off => {}
            Reader::Events(lines, reader) => lines.push(bytes, &mut |data| reader.event(data)),
            Reader::Json(_, seen) if seen.len() + bytes.len() > MAX_JSON_BYTES => {
                *self = Reader::Off;
            }
            Reader::Json(_, seen) => seen.extend_from_slice(bytes),
        }
    }

    fn usage(self) -> Option<Usage> {
        match self {
            Reader::Off => None,
            Reader::Events(mut lines, mut reader) => {
                lines.finish(&mut |data| reader.event(data));
                reader.usage()
            }
            Reader::Json(dialect, seen) => dialect.usage(&seen),
        }
    }
}

/// Whether an answer with these headers is an event stream.
#[must_use]
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The content encoding, when there is exactly one: several on top of each other are not read.
fn only_encoding(headers: &HeaderMap) -> Option<&str> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let first = encodings.next()?;
    if encodings.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

/// Whether a body with these headers has a content encoding.
#[must_use]
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|encoding| encoding != "identity")
}
