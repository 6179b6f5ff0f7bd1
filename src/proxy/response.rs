//! The answer's body on its way to the client: every frame at once, unchanged, while a tap reads usage on the side. It
//! carries what must live as long as the answer does: the permit, the place on the connection, and the request's record.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use tokio::time::{Instant, Sleep};

use crate::core::wire::decode::Decoder;
use crate::core::wire::sse::Lines;
use crate::core::wire::{Dialect, Usage, UsageReader};
use crate::observe::StreamEnd;
use crate::proxy::exchange::Context as RequestContext;
use crate::proxy::peek::PeekedBody;
use crate::upstream::ConnectionSlot;

/// The longest JSON answer that is kept to read its usage, bytes.
const MAX_JSON_BYTES: usize = 4 << 20;
/// The most that is decoded of an encoded stream to read its usage, bytes.
const MAX_DECODED_BYTES: usize = 16 << 20;

/// Why an answer broke off.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The upstream's connection failed.
    #[error("the upstream's answer broke off")]
    Upstream(#[source] hyper::Error),
    /// Nothing came for `upstream.idle_timeout`.
    #[error("the upstream's answer stalled")]
    Stalled,
}

/// Reads usage from an answer as it passes; never holds it up.
#[derive(Debug, Default)]
pub struct UsageTap {
    reader: Reader,
    /// Where the answer is encoded.
    decoder: Option<Decoder>,
    /// Usage that the headers told.
    told: Option<Usage>,
}

#[derive(Debug, Default)]
enum Reader {
    /// Nothing to read.
    #[default]
    Off,
    /// An event stream: the last event that reports usage counts.
    Events(Lines, UsageReader),
    /// A JSON answer, kept until it is whole.
    Json(Dialect, Vec<u8>),
}

impl UsageTap {
    /// The tap for an answer with these headers, of which those named in `usage_headers` may tell usage themselves.
    #[must_use]
    pub fn for_answer(dialect: Dialect, headers: &HeaderMap, usage_headers: &[HeaderName]) -> Self {
        let told = usage_headers
            .iter()
            .filter_map(|name| headers.get(name))
            .find_map(|value| Usage::of_header(value.as_bytes()));
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let (reader, limit) = if is_event_stream(headers) {
            (
                Reader::Events(Lines::default(), dialect.usage_reader()),
                MAX_DECODED_BYTES,
            )
        } else if kind.starts_with("application/json") {
            (Reader::Json(dialect, Vec::new()), MAX_JSON_BYTES)
        } else {
            (Reader::Off, 0)
        };
        if !is_encoded(headers) {
            return UsageTap {
                reader,
                decoder: None,
                told,
            };
        }
        // Several encodings on top of each other are not read.
        let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
        let only = encodings
            .next()
            .filter(|_| encodings.next().is_none())
            .and_then(|encoding| encoding.to_str().ok());
        match only.and_then(|encoding| Decoder::new(encoding, limit)) {
            Some(decoder) => UsageTap {
                reader,
                decoder: Some(decoder),
                told,
            },
            None => UsageTap {
                reader: Reader::Off,
                decoder: None,
                told,
            },
        }
    }

    /// Usage that the headers told.
    #[must_use]
    pub fn told(&self) -> Option<Usage> {
        self.told
    }

    fn see(&mut self, bytes: &[u8]) {
        let UsageTap {
            reader, decoder, ..
        } = self;
        let Some(decoder) = decoder.as_mut().filter(|_| !matches!(reader, Reader::Off)) else {
            return reader.see(bytes);
        };
        // INVARIANT: a defect of a decoder costs what could have been learned, not the answer.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            decoder.push(bytes, &mut |decoded| reader.see(decoded))
        }));
        if !matches!(decoded, Ok(Ok(()))) {
            (*reader, self.decoder) = (Reader::Off, None);
        }
    }

    /// What was learned: what the body reports counts more than what the headers told.
    fn usage(&mut self) -> Option<Usage> {
        std::mem::take(&mut self.reader).usage().or(self.told)
    }
}

impl Reader {
    fn see(&mut self, bytes: &[u8]) {
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

/// Whether a body with these headers is encoded.
#[must_use]
pub(super) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|encoding| encoding != "identity")
}

/// An upstream's answer on its way.
#[derive(Debug)]
pub struct ResponseBody {
    body: PeekedBody,
    tap: UsageTap,
    /// Runs from the first time that there was nothing to pass on: most answers come in one piece.
    idle: Option<Pin<Box<Sleep>>>,
    idle_timeout: Duration,
    ending: Option<StreamEnd>,
    context: Option<Box<RequestContext>>,
    _place: Option<ConnectionSlot>,
}

impl ResponseBody {
    /// Takes over an answer's body; `context` is written down when it ends, whichever way.
    #[must_use]
    pub fn new(
        body: PeekedBody,
        tap: UsageTap,
        idle_timeout: Duration,
        place: Option<ConnectionSlot>,
        context: Box<RequestContext>,
    ) -> Self {
        // A body that is known to be empty is never polled.
        let ending = body.is_end_stream().then_some(StreamEnd::Complete);
        ResponseBody {
            body,
            tap,
            idle: None,
            idle_timeout,
            ending,
            context: Some(context),
            _place: place,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let timeout = this.idle_timeout;
                let idle = this
                    .idle
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                if idle.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.ending = Some(StreamEnd::UpstreamBroke);
                return Poll::Ready(Some(Err(Broken::Stalled)));
            }
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.tap.see(data);
                }
                if this.body.is_end_stream() {
                    this.ending = Some(StreamEnd::Complete);
                } else if let Some(idle) = &mut this.idle {
                    idle.as_mut().reset(Instant::now() + this.idle_timeout);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                this.ending = Some(StreamEnd::UpstreamBroke);
                Poll::Ready(Some(Err(Broken::Upstream(error))))
            }
            None => {
                this.ending = Some(StreamEnd::Complete);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let ending = self.ending.unwrap_or(StreamEnd::ClientLeft);
        // An answer that broke off teaches nothing.
        let usage = if ending == StreamEnd::Complete {
            self.tap.usage()
        } else {
            None
        };
        if let Some(mut context) = self.context.take() {
            context.end(ending, usage);
        }
    }
}
