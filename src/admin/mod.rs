//! Probes and metrics, on a port of their own, so that load on the data path does not delay them.
//! Read-only.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

use crate::observe::Metrics;

/// Whether requests may be sent here: loaded and not draining. The upstream's health has no part in
/// it, or its outage would take every pod out of service.
#[derive(Debug, Default)]
pub struct Readiness(AtomicBool);

impl Readiness {
    /// Sets it.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A request for `/readyz`, as another process sends it.
pub(crate) const ASK_READY: &[u8] =
    b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// The address to connect to: one that stands for all of the machine's own is reached by loopback.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Answers one admin request. A listener that `is_local`, on loopback, tells more than a probe to
/// those alone who call it by an address or as localhost: a page in a browser may have a name of
/// its own resolve to loopback, and would read the answer.
///
/// # Errors
/// Never.
pub async fn handle(
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    is_local: bool,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    const OK: &[u8] = b"ok\n";
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, body) = match request.uri().path() {
        _ if !is_read => text(StatusCode::METHOD_NOT_ALLOWED, b"read-only\n"),
        "/livez" => text(StatusCode::OK, OK),
        "/readyz" if readiness.is_ready() => text(StatusCode::OK, OK),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, b"not ready\n"),
        _ if is_local && !names_this_host(&request) => text(
            StatusCode::MISDIRECTED_REQUEST,
            b"this port is on loopback: call it by its address, or as localhost\n",
        ),
        "/metrics" => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            Bytes::from(metrics.render()),
        ),
        "/version" => (StatusCode::OK, "application/json", Bytes::from(version())),
        _ => text(
            StatusCode::NOT_FOUND,
            b"not found; there is /livez, /readyz, /metrics and /version\n",
        ),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// Whether a request is for an address or for localhost, or does not say.
fn names_this_host(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(HOST);
    let Some(host) = host.map(HeaderValue::as_bytes) else {
        return true;
    };
    let Ok(host) = Authority::try_from(host) else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// A plain answer: status, content type, body.
fn text(status: StatusCode, body: &'static [u8]) -> (StatusCode, &'static str, Bytes) {
    const TEXT: &str = "text/plain; charset=utf-8";
    (status, TEXT, Bytes::from_static(body))
}

fn version() -> String {
    format!(
        "{}\n",
        serde_json::json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") })
    )
}
