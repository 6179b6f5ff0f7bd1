//! Reads the beginning of an upstream's answer before the client gets any of it: only as much, and
//! only for as long, as it takes to find out whether the upstream refused the request as too long.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::{Response, StatusCode};

use crate::core::wire::Dialect;
use crate::core::wire::decode::Decoder;
use crate::core::wire::overflow::Overflow;
use crate::core::wire::sse::Lines;
use crate::proxy::send::UpstreamResponse;

/// Bytes of an answer that are read ahead, at most.
const LIMIT: usize = 64 * 1_024;
/// Time for an error's body to arrive before the client gets what is there.
const ERROR_PATIENCE: Duration = Duration::from_secs(2);
/// The same for an answer that seems fine. Upstreams refuse at once, before they read the prompt,
/// so that an answer that takes longer is not a refusal.
const PATIENCE: Duration = Duration::from_millis(250);

/// An answer's body: the frames that were read ahead, then the rest.
#[derive(Debug)]
pub(super) struct PeekedBody {
    ahead: VecDeque<Frame<Bytes>>,
    /// The error with which the upstream broke off while it was read ahead.
    broke: Option<hyper::Error>,
    rest: Incoming,
}

impl From<Incoming> for PeekedBody {
    fn from(rest: Incoming) -> Self {
        PeekedBody {
            ahead: VecDeque::new(),
            broke: None,
            rest,
        }
    }
}

impl Body for PeekedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(frame) = self.ahead.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = self.broke.take() {
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.broke.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let ahead: u64 = self
            .ahead
            .iter()
            .filter_map(Frame::data_ref)
            .map(|data| data.len() as u64)
            .sum();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }
}

/// The part of an answer that may report an overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// An error, or a short answer: all of it.
    Whole,
    /// A stream: its first event.
    FirstEvent,
}

/// Reads ahead as far as the answer may report an overflow.
pub(super) async fn peek(
    dialect: Dialect,
    answer: UpstreamResponse<Incoming>,
) -> (UpstreamResponse, Option<Overflow>) {
    let UpstreamResponse { response, slot } = answer;
    let (parts, body) = response.into_parts();
    let mut body = PeekedBody::from(body);
    let length = body.size_hint().upper();
    let overflow = match extent(parts.status, &parts.headers, length) {
        Some(extent) => {
            body.find_overflow(dialect, parts.status, &parts.headers, extent)
                .await
        }
        None => None,
    };
    let response = Response::from_parts(parts, body);
    (UpstreamResponse { response, slot }, overflow)
}

fn extent(status: StatusCode, headers: &HeaderMap, length: Option<u64>) -> Option<Extent> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let is = |expected: &str| kind.is_some_and(|kind| kind.starts_with(expected.as_bytes()));
    if encoding(headers).is_some_and(|encoding| Decoder::new(encoding, LIMIT).is_none()) {
        return None;
    }
    let is_short = length.is_some_and(|length| length <= LIMIT as u64);
    if status.is_client_error() || status.is_server_error() {
        Some(Extent::Whole)
    } else if status == StatusCode::OK && is("text/event-stream") {
        Some(Extent::FirstEvent)
    } else if status == StatusCode::OK && is("application/json") && is_short {
        Some(Extent::Whole)
    } else {
        None
    }
}

/// The content encoding of a body, if it has one.
fn encoding(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CONTENT_ENCODING)
        .and_then(|encoding| encoding.to_str().ok())
        .filter(|encoding| *encoding != "identity")
}

/// The beginning of an answer, as far as it was read ahead.
#[derive(Default)]
struct Seen {
    decoder: Option<Decoder>,
    /// Bytes as they arrived.
    length: usize,
    /// Decoded.
    text: Text,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    lines: Lines,
    event: Option<Vec<u8>>,
}

impl PeekedBody {
    /// The overflow that this part of the answer reports, as far as it arrives in time.
    async fn find_overflow(
        &mut self,
        dialect: Dialect,
        status: StatusCode,
        headers: &HeaderMap,
        extent: Extent,
    ) -> Option<Overflow> {
        let patience = if status.is_success() {
            PATIENCE
        } else {
            ERROR_PATIENCE
        };
        let mut seen = Seen {
            decoder: encoding(headers).and_then(|encoding| Decoder::new(encoding, LIMIT)),
            ..Seen::default()
        };
        // However the reading ends, the frames that were read stay in this body.
        let _ = tokio::time::timeout(patience, self.read_ahead(extent, &mut seen)).await;
        match extent {
            Extent::Whole => dialect.overflow(status.as_u16(), &seen.text.bytes),
            Extent::FirstEvent => seen
                .text
                .event
                .as_deref()
                .and_then(|event| dialect.overflow_event(event)),
        }
    }

    async fn read_ahead(&mut self, extent: Extent, seen: &mut Seen) {
        while let Some(frame) = self.rest.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    self.broke = Some(error);
                    return;
                }
            };
            if let Some(data) = frame.data_ref() {
                seen.take(data, extent);
            }
            self.ahead.push_back(frame);
            if seen.text.event.is_some() || seen.length >= LIMIT || self.rest.is_end_stream() {
                return;
            }
        }
    }
}

impl Seen {
    fn take(&mut self, data: &[u8], extent: Extent) {
        self.length += data.len();
        let text = &mut self.text;
        match &mut self.decoder {
            // A part that cannot be decoded reports nothing.
            Some(decoder) => drop(decoder.push(data, &mut |decoded| text.take(decoded, extent))),
            None => text.take(data, extent),
        }
    }
}

impl Text {
    fn take(&mut self, data: &[u8], extent: Extent) {
        match extent {
            Extent::Whole => self
                .bytes
                .extend_from_slice(data.get(..data.len().min(LIMIT)).unwrap_or_default()),
            Extent::FirstEvent => {
                let event = &mut self.event;
                self.lines.push(data, &mut |data| {
                    event.get_or_insert_with(|| data.to_vec());
                });
            }
        }
    }
}
