//! Reads the beginning of an upstream's answer before the client gets any of it: only as much, and only for as long, as
//! it takes to see whether the upstream refused the request as too long.

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

/// What is read ahead of an answer, at most (bytes).
const LIMIT: usize = 64 * 1_024;
/// How long an error's body may take to come before the client gets what is there.
const ERROR_PATIENCE: Duration = Duration::from_secs(2);
/// The same for an answer that seems fine: upstreams refuse at once, before they read the prompt, so that an answer that
/// takes longer is no refusal.
const PATIENCE: Duration = Duration::from_millis(250);

/// An answer's body: what was read ahead, then what is still to come.
#[derive(Debug)]
pub struct PeekedBody {
    ahead: VecDeque<Frame<Bytes>>,
    /// The upstream broke off while it was read ahead.
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

/// How much of an answer is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// An error, or a short answer: all of it.
    Whole,
    /// A stream: its first event.
    FirstEvent,
}

/// Reads ahead as far as that may tell of an overflow.
pub(super) async fn look(
    dialect: Dialect,
    response: Response<Incoming>,
) -> (Response<PeekedBody>, Option<Overflow>) {
    let (parts, body) = response.into_parts();
    let mut body = PeekedBody::from(body);
    let look = match worth(&parts.status, &parts.headers, body.size_hint().upper()) {
        Some(look) => look,
        None => return (Response::from_parts(parts, body), None),
    };
    let patience = if parts.status.is_success() {
        PATIENCE
    } else {
        ERROR_PATIENCE
    };
    let mut seen = Seen {
        decoder: encoding(&parts.headers).and_then(|encoding| Decoder::new(encoding, LIMIT)),
        ..Seen::default()
    };
    // Whatever ends the reading, what was read stays in `body`.
    let _ = tokio::time::timeout(patience, body.read_ahead(look, &mut seen)).await;
    let found = match look {
        Look::Whole => dialect.overflow(parts.status.as_u16(), &seen.text.bytes),
        Look::FirstEvent => seen
            .text
            .event
            .as_deref()
            .and_then(|data| dialect.overflow_event(data)),
    };
    (Response::from_parts(parts, body), found)
}

fn worth(status: &StatusCode, headers: &HeaderMap, length: Option<u64>) -> Option<Look> {
    let is = |kind: &str| {
        headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with(kind))
    };
    if encoding(headers).is_some_and(|encoding| Decoder::new(encoding, LIMIT).is_none()) {
        return None;
    }
    if status.is_client_error() || status.is_server_error() {
        return Some(Look::Whole);
    }
    match () {
        () if *status != StatusCode::OK => None,
        () if is("text/event-stream") => Some(Look::FirstEvent),
        () if is("application/json") && length.is_some_and(|length| length <= LIMIT as u64) => {
            Some(Look::Whole)
        }
        () => None,
    }
}

/// How a body is encoded, if it is.
fn encoding(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(CONTENT_ENCODING)
        .and_then(|encoding| encoding.to_str().ok())
        .filter(|encoding| *encoding != "identity")
}

/// What was read ahead.
#[derive(Default)]
struct Seen {
    decoder: Option<Decoder>,
    /// As it came, bytes.
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
    async fn read_ahead(&mut self, look: Look, seen: &mut Seen) {
        while let Some(frame) = self.rest.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    self.broke = Some(error);
                    return;
                }
            };
            if let Some(data) = frame.data_ref() {
                seen.take(data, look);
            }
            self.ahead.push_back(frame);
            if seen.text.event.is_some() || seen.length >= LIMIT || self.rest.is_end_stream() {
                return;
            }
        }
    }
}

impl Seen {
    fn take(&mut self, data: &[u8], look: Look) {
        self.length += data.len();
        let text = &mut self.text;
        match &mut self.decoder {
            // What cannot be decoded tells nothing.
            Some(decoder) => drop(decoder.push(data, &mut |decoded| text.take(decoded, look))),
            None => text.take(data, look),
        }
    }
}

impl Text {
    fn take(&mut self, data: &[u8], look: Look) {
        match look {
            Look::Whole => self
                .bytes
                .extend_from_slice(data.get(..data.len().min(LIMIT)).unwrap_or_default()),
            Look::FirstEvent => {
                let event = &mut self.event;
                self.lines.push(data, &mut |data| {
                    event.get_or_insert_with(|| data.to_vec());
                });
            }
        }
    }
}
