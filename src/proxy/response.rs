//! The answer on its way to the client: every frame at once, unchanged, while a tap reads usage on
//! the side.
//!
//! INVARIANT: the body owns everything that must live as long as the answer does: the permit, the
//! slot on the connection, and the request's record, which is written when the body ends or is
//! dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::CONTENT_LENGTH;
use tokio::time::{Instant, Sleep};

use crate::observe::event::{RequestRefused, StreamEnd, UsageIncluded};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Exchange;
use crate::proxy::peek::PeekedBody;
use crate::proxy::send::UpstreamResponse;
use crate::proxy::usage_filter::ClientBody;
use crate::proxy::usage_tap::{UsageTap, is_encoded, is_event_stream};
use crate::proxy::{Body, headers};
use crate::upstream::ConnectionSlot;

impl Exchange {
    /// The upstream's answer for the client. The request's record is written when its body ends.
    pub(super) fn respond(mut self, answer: UpstreamResponse) -> Response<Body> {
        let UpstreamResponse { response, slot } = answer;
        let (mut parts, body) = response.into_parts();
        headers::strip_answer(&mut parts.headers);
        headers::strip_own(&mut parts.headers);
        parts.version = hyper::Version::default();
        self.status = parts.status.as_u16();
        let is_success = parts.status.is_success();
        let dialect = self.dialect.unwrap_or_default();
        self.upstream_request_id = headers::upstream_request_id(&parts.headers);
        self.stream = is_event_stream(&parts.headers);
        // What an answer teaches depends on an estimate; what it reports is counted all the same.
        let tap = if is_success && self.dialect.is_some() {
            let usage_headers = &self.snapshot.config.upstream.usage_headers;
            UsageTap::for_answer(dialect, &parts.headers, usage_headers)
        } else {
            UsageTap::default()
        };
        self.reported_by_head = tap.reported_by_head;
        let is_plain_stream = self.stream && !is_encoded(&parts.headers);
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

    /// An answer with an error of Baler's own.
    pub(super) fn refuse(mut self, error: ProxyError) -> Response<Body> {
        let mut response = error.response(self.dialect.unwrap_or_default());
        RequestRefused { error }.emit(&self.proxy.shared.metrics);
        self.status = response.status().as_u16();
        if !self.snapshot.config.response_headers {
            headers::strip_own(response.headers_mut());
        }
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
                    if let Some(exchange) = &mut this.exchange {
                        exchange.chunk_came();
                    }
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
