//! The errors that Baler itself answers with, in the shape of the client's dialect, and the one place that maps causes to
//! statuses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use crate::core::wire::{Dialect, Fault};

/// Why a request was not served by the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// All permits are taken.
    #[error("Baler is serving as many requests as it may; try again soon")]
    Overloaded,
    /// The bodies being inspected take all the memory they may.
    #[error("Baler is inspecting as many bytes as it may; try again soon")]
    OutOfMemory,
    /// A chat request over the limit.
    #[error("the request body is longer than limits.body_bytes")]
    BodyTooLarge,
    /// The body did not arrive in time.
    #[error("the request body did not arrive within limits.body_timeout")]
    BodyTimeout,
    /// The client broke off, or its body was cut short.
    #[error("the request body ended early")]
    BodyBroken,
    /// A CONNECT, or a target that makes no URI.
    #[error("Baler is no forward proxy: the request target must be a path")]
    BadTarget,
    /// No connection to the upstream.
    #[error("the upstream cannot be reached")]
    UpstreamUnreachable,
    /// The connection broke before an answer came.
    #[error("the upstream closed the connection without an answer")]
    UpstreamBroke,
    /// No answer in time.
    #[error("the upstream did not answer within upstream.response_timeout")]
    UpstreamTimeout,
    /// `on_unfit = "reject"`.
    #[error(
        "the conversation cannot be made to fit the model's context window, and the policy refuses such requests"
    )]
    Unfit,
    /// `on_error = "reject"`.
    #[error("Baler failed to think about the request, and the policy refuses such requests")]
    PlanningFailed,
    /// A defect.
    #[error("Baler met an internal error")]
    Internal,
}

impl ProxyError {
    /// Its static kind: `error.code`, the header `x-baler-error`, and the metric label.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            ProxyError::Overloaded => "overloaded",
            ProxyError::OutOfMemory => "out_of_memory",
            ProxyError::BodyTooLarge => "body_too_large",
            ProxyError::BodyTimeout => "body_timeout",
            ProxyError::BodyBroken => "body_broken",
            ProxyError::BadTarget => "bad_target",
            ProxyError::UpstreamUnreachable => "upstream_unreachable",
            ProxyError::UpstreamBroke => "upstream_broke",
            ProxyError::UpstreamTimeout => "upstream_timeout",
            ProxyError::Unfit => "context_unfit",
            ProxyError::PlanningFailed => "planning_failed",
            ProxyError::Internal => "internal",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            ProxyError::Overloaded | ProxyError::OutOfMemory => StatusCode::SERVICE_UNAVAILABLE,
            ProxyError::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProxyError::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            ProxyError::BodyBroken
            | ProxyError::BadTarget
            | ProxyError::Unfit
            | ProxyError::PlanningFailed => StatusCode::BAD_REQUEST,
            ProxyError::UpstreamUnreachable | ProxyError::UpstreamBroke => StatusCode::BAD_GATEWAY,
            ProxyError::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            ProxyError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer.
    #[must_use]
    pub fn response(self, dialect: Dialect) -> Response<Full<Bytes>> {
        let status = self.status();
        let fault = if status.is_client_error() {
            Fault::Request
        } else {
            Fault::Service
        };
        let body = dialect.error_body(fault, self.kind(), &self.to_string());
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("x-baler-error", HeaderValue::from_static(self.kind()));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
