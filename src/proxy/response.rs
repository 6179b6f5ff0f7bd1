//! The answer on its way to the client: every frame at once, unchanged, while a tap reads usage on
//! the side.
//!
//! INVARIANT: the body owns everything that must live as long as the answer does: the permit, the
//! slot on the connection, and the request's record, which is written when the body ends or is
//! dropped.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use hyper::{HeaderMap, Response};
use tokio::time::{Instant, Sleep};

use crate::core::wire::decode::Decoder;
use crate::core::wire::sse::Lines;
use crate::core::wire::{Dialect, Usage, UsageReader};
use crate::observe::event::{RequestRefused, StreamEnd, UsageIncluded};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Exchange;
use crate::proxy::peek::PeekedBody;
use crate::proxy::send::UpstreamResponse;
use crate::proxy::usage_filter::ClientBody;
use crate::proxy::{Body, headers};
use crate::upstream::ConnectionSlot;

/// The longest JSON answer that is kept to read its usage, bytes.
const MAX_JSON_BYTES: usize = 4 << 20;
/// Bytes of an encoded stream that are decoded to read its usage, at most.
const MAX_DECODED_BYTES: usize = 16 << 20;

impl Exchange {
    /// The upstream's answer for the client. The request's record is written when its body ends.
    pub(super) fn respond(mut self, answer: UpstreamResponse) -> Response<Body> {
        let UpstreamResponse { response, slot } = answer;
        let (mut parts, body) = response.into_parts();
        headers::strip_hop_by_hop(&mut parts.headers);
        parts.version = hyper::Version::default();
        self.status = parts.status.as_u16();
        let is_success = parts.status.is_success();
        let dialect = self.dialect.unwrap_or_default();
        let tap = if is_success && self.is_estimated() {
            let usage_headers = &self.snapshot.config.upstream.usage_headers;
            UsageTap::for_answer(dialect, &parts.headers, usage_headers)
        } else {
            UsageTap::default()
        };
        self.reported_by_head = tap.reported_by_head;
        let is_plain_stream = is_event_stream(&parts.headers) && !is_encoded(&parts.headers);
        let filters = self.usage_included && is_success && is_plain_stream;
        if filters {
            parts.headers.remove(CONTENT_LENGTH);
        }
        if self.usage_included {
            UsageIncluded.emit(&self.proxy.shared.metrics);
        }
        self.set_headers(&mut parts.headers);
        let body = ResponseBody::new(body, tap, slot, Box::new(self));
        let body = ClientBody::new(body, filters.then(|| dialect.usage_filter()));
        Response::from_parts(parts, Either::Left(body))
    }

    /// Whether the size of the sent prompt is known: only then does an answer teach anything.
    fn is_estimated(&self) -> bool {
        let decision = self.decision.as_ref();
        decision.is_some_and(|decision| decision.estimate.is_some())
    }

    /// An answer with an error of Baler's own.
    pub(super) fn refuse(mut self, error: ProxyError) -> Response<Body> {
        let mut response = error.response(self.dialect.unwrap_or_default());
        RequestRefused { error }.emit(&self.proxy.shared.metrics);
        self.status = response.status().as_u16();
        self.set_headers(response.headers_mut());
        self.end(StreamEnd::Complete, None);
        response.map(Either::Right)
    }
}

/// Why an answer broke off.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The upstream's connection failed.
    #[error("the upstream's answer broke off")]
    Upstream(#[source] hyper::Error),
    /// Nothing arrived for `upstream.idle_timeout`.
    #[error("the upstream's answer stalled")]
    Stalled,
}

/// Reads usage from an answer as it passes, without holding it up.
#[derive(Debug, Default)]
struct UsageTap {
    reader: Reader,
    /// For an answer with a content encoding.
    decoder: Option<Decoder>,
    /// Usage that the answer's headers reported.
    reported_by_head: Option<Usage>,
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
    fn for_answer(dialect: Dialect, headers: &HeaderMap, usage_headers: &[HeaderName]) -> Self {
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

    fn read(&mut self, bytes: &[u8]) {
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
    fn usage(&mut self) -> Option<Usage> {
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

/// The body of an upstream's answer on its way.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: PeekedBody,
    tap: UsageTap,
    /// Runs from the first time that there was nothing to pass on: most answers arrive in one
    /// piece.
    idle: Option<Pin<Box<Sleep>>>,
    idle_timeout: Duration,
    ending: Option<StreamEnd>,
    exchange: Option<Box<Exchange>>,
    _slot: Option<ConnectionSlot>,
}

impl ResponseBody {
    fn new(
        body: PeekedBody,
        tap: UsageTap,
        slot: Option<ConnectionSlot>,
        exchange: Box<Exchange>,
    ) -> Self {
        // A body that is known to be empty is never polled.
        let ending = body.is_end_stream().then_some(StreamEnd::Complete);
        ResponseBody {
            body,
            tap,
            idle: None,
            idle_timeout: exchange.snapshot.config.upstream.idle_timeout,
            ending,
            exchange: Some(exchange),
            _slot: slot,
        }
    }
}

impl HttpBody for ResponseBody {
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
                    this.tap.read(data);
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
        if let Some(mut exchange) = self.exchange.take() {
            exchange.end(ending, usage);
        }
    }
}
