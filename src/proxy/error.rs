//! The errors that Baler itself answers with, in OpenAI's shape, and the one place that maps causes
//! to statuses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use crate::core::wire::{Dialect, Fault};
use crate::observe::event::ConnectPhase;
use crate::proxy::routing::NoPolicy;

/// Why a request was not served by the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// No token of `listen.auth_tokens_file`.
    #[error("Baler asks for a bearer token, and the request has none that it knows")]
    Unauthorized,
    /// All permits are taken.
    #[error("Baler is at its limit of concurrent requests; try again soon")]
    Overloaded,
    /// The bodies being inspected take all the memory they may.
    #[error("Baler is at its limit of memory for request bodies; try again soon")]
    OutOfMemory,
    /// The body of a chat request exceeds the limit.
    #[error("the request body is longer than limits.body_bytes")]
    BodyTooLarge,
    /// The body did not arrive in time.
    #[error("the request body did not arrive within limits.body_timeout")]
    BodyTimeout,
    /// The client broke off, or its body was cut short.
    #[error("the request body ended early")]
    BodyBroken,
    /// A CONNECT, or a target that does not form a URI.
    #[error("Baler is not a forward proxy: the request target must be a path")]
    BadTarget,
    /// An HTTP/1.1 request without a host, or with several.
    #[error("the request must have one Host header")]
    BadHost,
    /// A transfer coding other than `chunked`.
    #[error("the request has a transfer coding that Baler does not know; only chunked is")]
    UnsupportedCoding,
    /// No connection to the upstream, for what failed in this phase.
    #[error("the upstream cannot be reached: {}", unreachable(*.0))]
    Unreachable(ConnectPhase),
    /// The connection broke before an answer arrived.
    #[error("the upstream closed the connection without an answer")]
    UpstreamBroke,
    /// An answer that is not valid HTTP, or cannot be passed on as what it is.
    #[error("the upstream's answer is not valid HTTP")]
    UpstreamInvalid,
    /// No answer in time.
    #[error("the upstream did not answer within upstream.response_timeout")]
    UpstreamTimeout,
    /// `on_unfit = "reject"`.
    #[error(
        "the conversation cannot be made to fit the model's context window, and the \
         policy rejects such requests"
    )]
    Unfit,
    /// `on_error = "reject"`.
    #[error("Baler failed to plan the request, and the policy rejects such requests")]
    PlanningFailed,
    /// No policy matches: a defect.
    #[error("no policy of Baler's matches the request")]
    NoPolicy,
    /// Another defect.
    #[error("Baler met an internal error")]
    Internal,
}

/// What a client is told of a failure to connect. The log has the cause.
fn unreachable(phase: ConnectPhase) -> &'static str {
    match phase {
        ConnectPhase::Dns => "its name does not resolve",
        ConnectPhase::Connect => "it accepts no connection",
        ConnectPhase::Tls => "TLS could not be agreed on",
        ConnectPhase::Timeout => "no connection within upstream.connect_timeout",
    }
}

impl From<NoPolicy> for ProxyError {
    fn from(NoPolicy: NoPolicy) -> Self {
        ProxyError::NoPolicy
    }
}

impl ProxyError {
    /// Every error.
    pub const ALL: [ProxyError; 20] = [
        ProxyError::Unauthorized,
        ProxyError::Overloaded,
        ProxyError::OutOfMemory,
        ProxyError::BodyTooLarge,
        ProxyError::BodyTimeout,
        ProxyError::BodyBroken,
        ProxyError::BadTarget,
        ProxyError::BadHost,
        ProxyError::UnsupportedCoding,
        ProxyError::Unreachable(ConnectPhase::Dns),
        ProxyError::Unreachable(ConnectPhase::Connect),
        ProxyError::Unreachable(ConnectPhase::Tls),
        ProxyError::Unreachable(ConnectPhase::Timeout),
        ProxyError::UpstreamBroke,
        ProxyError::UpstreamInvalid,
        ProxyError::UpstreamTimeout,
        ProxyError::Unfit,
        ProxyError::PlanningFailed,
        ProxyError::NoPolicy,
        ProxyError::Internal,
    ];

    /// Its static kind: `error.code`, the header `x-baler-error`, and the metric label.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            ProxyError::Unauthorized => "unauthorized",
            ProxyError::Overloaded => "overloaded",
            ProxyError::OutOfMemory => "out_of_memory",
            ProxyError::BodyTooLarge => "body_too_large",
            ProxyError::BodyTimeout => "body_timeout",
            ProxyError::BodyBroken => "body_broken",
            ProxyError::BadTarget => "bad_target",
            ProxyError::BadHost => "bad_host",
            ProxyError::UnsupportedCoding => "unsupported_coding",
            ProxyError::Unreachable(ConnectPhase::Dns) => "upstream_unreachable_dns",
            ProxyError::Unreachable(ConnectPhase::Connect) => "upstream_unreachable_connect",
            ProxyError::Unreachable(ConnectPhase::Tls) => "upstream_unreachable_tls",
            ProxyError::Unreachable(ConnectPhase::Timeout) => "upstream_unreachable_timeout",
            ProxyError::UpstreamBroke => "upstream_broke",
            ProxyError::UpstreamInvalid => "upstream_invalid",
            ProxyError::UpstreamTimeout => "upstream_timeout",
            ProxyError::Unfit => "context_unfit",
            ProxyError::PlanningFailed => "planning_failed",
            ProxyError::NoPolicy => "no_policy",
            ProxyError::Internal => "internal",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            ProxyError::Unauthorized => StatusCode::UNAUTHORIZED,
            ProxyError::Overloaded | ProxyError::OutOfMemory => StatusCode::SERVICE_UNAVAILABLE,
            ProxyError::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProxyError::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            ProxyError::BodyBroken
            | ProxyError::BadTarget
            | ProxyError::BadHost
            | ProxyError::Unfit
            | ProxyError::PlanningFailed => StatusCode::BAD_REQUEST,
            ProxyError::UnsupportedCoding => StatusCode::NOT_IMPLEMENTED,
            ProxyError::Unreachable(_)
            | ProxyError::UpstreamBroke
            | ProxyError::UpstreamInvalid => StatusCode::BAD_GATEWAY,
            ProxyError::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            ProxyError::NoPolicy | ProxyError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer to the client.
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
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self == ProxyError::UnsupportedCoding {
            // Where the request ends is not known for certain.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
