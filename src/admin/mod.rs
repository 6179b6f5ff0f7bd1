//! Probes and metrics, on a port of their own so that no load on the data path delays them. Read-only.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::observe::Metrics;

/// Whether requests may be sent here: loaded and not draining. The upstream's health is no part of it, or its outage
/// would take every pod out of service.
#[derive(Debug, Default)]
pub struct Readiness(AtomicBool);

impl Readiness {
    /// Says so.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether it was said.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answers one admin request.
///
/// # Errors
/// Never.
pub async fn handle(
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez") => {
            (StatusCode::OK, TEXT, Bytes::from_static(b"ok\n"))
        }
        (&Method::GET | &Method::HEAD, "/readyz") if readiness.is_ready() => {
            (StatusCode::OK, TEXT, Bytes::from_static(b"ok\n"))
        }
        (&Method::GET | &Method::HEAD, "/readyz") => (
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            Bytes::from_static(b"not ready\n"),
        ),
        (&Method::GET | &Method::HEAD, "/metrics") => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            Bytes::from(metrics.render()),
        ),
        (&Method::GET | &Method::HEAD, "/version") => {
            (StatusCode::OK, "application/json", Bytes::from(version()))
        }
        (&Method::GET | &Method::HEAD, _) => (
            StatusCode::NOT_FOUND,
            TEXT,
            Bytes::from_static(b"not found; there is /livez, /readyz, /metrics and /version\n"),
        ),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            Bytes::from_static(b"read-only\n"),
        ),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

fn version() -> String {
    format!(
        "{}\n",
        serde_json::json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") })
    )
}
