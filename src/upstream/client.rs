//! Pools of connections to the upstream, and the addresses that requests go to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use hyper::http::Extensions;
use hyper::{Method, Request, Response, Uri, Version};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::config;
use crate::upstream::body::RequestBody;
use crate::upstream::connect::{Connector, Uses};
use crate::upstream::trust::tls_config;

type Pool = Client<Connector, RequestBody>;

/// Streams that one HTTP/2 connection carries before the next one is used; servers commonly allow
/// 100.
const STREAMS_PER_CONNECTION: usize = 90;
/// HTTP/2 connections at most; further requests go over HTTP/1.1.
const MAX_HTTP2_CONNECTIONS: usize = 64;
/// Idle connections are closed after this time, sooner than most servers close them.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Headers of an answer, at most.
const MAX_HEADERS: usize = 512;
/// The longest head of an answer, and what a connection buffers in each direction, bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that an upstream may send ahead on one HTTP/2 stream while its client does not read, and
/// on all streams of a connection: enough that streams which stall do not hold up the others.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// One HTTP/2 connection.
struct Http2Connection {
    pool: Pool,
    /// Streams in use.
    streams: Arc<AtomicUsize>,
}

/// Pools that keep no connection.
struct Unpooled {
    http1: Pool,
    http2: Pool,
}

/// A stream on an HTTP/2 connection, taken for as long as this value lives.
#[derive(Debug)]
pub struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The upstream, ready to be sent to.
pub struct Upstream {
    origin: Uri,
    base_path: Option<String>,
    http1: Pool,
    /// Make a new connection for each request.
    unpooled: Unpooled,
    /// Empty unless HTTP/2 is configured. hyper-util keeps a single HTTP/2 connection per client
    /// and origin, which caps concurrency at that connection's streams; hence one client per
    /// connection.
    http2: Vec<Http2Connection>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("origin", &self.origin)
            .field("http2_connections", &self.http2.len())
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Prepares the pools without connecting.
    ///
    /// # Errors
    /// When `upstream.ca_file` cannot be read or contains no certificate.
    pub fn new(config: &config::Upstream) -> io::Result<Self> {
        let tls = tls_config(config)?;
        let connections = if config.http2 {
            MAX_HTTP2_CONNECTIONS
        } else {
            0
        };
        let http2 = (0..connections).map(|_| Http2Connection {
            pool: pool(config, &tls, true),
            streams: Arc::default(),
        });
        Ok(Upstream {
            origin: config.origin.clone(),
            base_path: config.base_path.clone(),
            http1: pool(config, &tls, false),
            unpooled: Unpooled {
                http1: pool_of(config, &tls, false, 0),
                http2: pool_of(config, &tls, true, 0),
            },
            http2: http2.collect(),
        })
    }

    /// Its host and port, as configured.
    #[must_use]
    pub fn host(&self) -> &str {
        self.origin.authority().map_or("", |host| host.as_str())
    }

    /// The address for `target` (path and query as the client sent them): the listener's `/v1`
    /// stands for the path of the upstream's URL, other paths go to its origin.
    ///
    /// # Errors
    /// When origin and target do not form a URI.
    pub fn uri(&self, target: &str) -> Result<Uri, hyper::http::Error> {
        let rest = target
            .strip_prefix("/v1")
            .filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(match (&self.base_path, rest) {
            (Some(base), Some(rest)) => format!("{base}{rest}").try_into()?,
            _ => target.try_into()?,
        });
        Ok(Uri::from_parts(parts)?)
    }

    /// Posts JSON to a service of the operator; its address comes from the configuration as well.
    ///
    /// # Errors
    /// When `url` is not an address, no connection could be made, or it broke before the head of an
    /// answer arrived.
    pub async fn post(
        &self,
        url: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(RequestBody::pieces(vec![body]))?;
        Ok(self.send_elsewhere(request).await?)
    }

    /// Sends a request whose whole address comes from the configuration.
    ///
    /// # Errors
    /// When no connection could be made, or it broke before the head of an answer arrived.
    pub async fn send_elsewhere(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.http1.request(request).await
    }

    /// Sends a request whose URI is one of [`Upstream::uri`]. The slot, if there is one, must be
    /// kept until the answer has passed. A request that the upstream did not work on is sent once
    /// more, on a new connection: one that is safe to repeat, where a kept connection broke before
    /// anything was answered, because the upstream closed what it thought idle; and any that the
    /// upstream refused by the means of HTTP/2.
    ///
    /// # Errors
    /// When no connection could be made, or it broke before the head of an answer arrived.
    pub async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Option<ConnectionSlot>), ClientError> {
        let stream = self.http2_stream();
        *request.version_mut() = match stream {
            Some(_) => Version::HTTP_2,
            None => Version::HTTP_11,
        };
        let second = SecondTry::of(&request);
        let (sent, slot) = match stream {
            Some((pool, slot)) => (pool.request(request).await, Some(slot)),
            None => {
                if is_unannounced(request.body()) {
                    // For GET and HEAD, a body of unknown length would be taken for none.
                    let chunked = HeaderValue::from_static("chunked");
                    request.headers_mut().insert(TRANSFER_ENCODING, chunked);
                }
                (self.http1.request(request).await, None)
            }
        };
        match (sent, second) {
            (Err(error), Some(second)) if second.may_follow(&error) => {
                drop(slot);
                let pool = match second.request.version() {
                    Version::HTTP_2 => &self.unpooled.http2,
                    _ => &self.unpooled.http1,
                };
                Ok((pool.request(second.request).await?, None))
            }
            (Ok(response), _) => {
                if let Some(uses) = response.extensions().get::<Uses>() {
                    uses.count();
                }
                Ok((response, slot))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// A connection of HTTP/2 that carries another stream, and the stream; `None` where the
    /// upstream is spoken to by HTTP/1.1, or all connections are full.
    fn http2_stream(&self) -> Option<(&Pool, ConnectionSlot)> {
        self.http2.iter().find_map(|connection| {
            let streams = connection.streams.fetch_add(1, Ordering::Relaxed);
            let slot = ConnectionSlot(Arc::clone(&connection.streams));
            (streams < STREAMS_PER_CONNECTION).then_some((&connection.pool, slot))
        })
    }
}

/// A request kept for a second try.
struct SecondTry {
    request: Request<RequestBody>,
    /// Whether it may be sent twice: it asks to read, and has no body.
    is_repeatable: bool,
}

impl SecondTry {
    /// A copy of a request that can be copied, and for which a second try may be due.
    fn of(request: &Request<RequestBody>) -> Option<Self> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_repeatable = is_read && request.body().is_end_stream();
        let RequestBody::Pieces(pieces) = request.body() else {
            return is_repeatable.then(|| SecondTry::with(request, RequestBody::empty(), true));
        };
        let is_refusable = request.version() == Version::HTTP_2;
        (is_repeatable || is_refusable)
            .then(|| SecondTry::with(request, RequestBody::Pieces(pieces.clone()), is_repeatable))
    }

    fn with(request: &Request<RequestBody>, body: RequestBody, is_repeatable: bool) -> Self {
        let mut copy = Request::new(body);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.headers_mut() = request.headers().clone();
        *copy.version_mut() = request.version();
        SecondTry {
            request: copy,
            is_repeatable,
        }
    }

    /// Whether the copy may be sent where the original ended with this error.
    fn may_follow(&self, error: &ClientError) -> bool {
        is_refused(error) || (self.is_repeatable && is_stale(error))
    }
}

/// Whether a body has bytes, and nobody knows how many.
fn is_unannounced(body: &RequestBody) -> bool {
    !body.is_end_stream() && body.size_hint().exact().is_none()
}

/// Whether the upstream said that it did not work on the request: it refused the stream, or closed
/// the connection and named an earlier stream as the last one that it looked at (RFC 9113, 8.7).
fn is_refused(error: &ClientError) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_refused_stream =
                error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
            return error.is_remote() && (is_refused_stream || error.is_go_away());
        }
        cause = error.source();
    }
    false
}

/// Whether a connection that had served requests before ended instead of answering this one.
fn is_stale(error: &ClientError) -> bool {
    let mut about = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut about);
    }
    let is_reused = about.get::<Uses>().is_some_and(Uses::is_reused);
    let cause = std::error::Error::source(error);
    let cause = cause.and_then(|cause| cause.downcast_ref::<hyper::Error>());
    let is_broken = cause.is_some_and(|cause| !cause.is_parse() && !cause.is_user());
    is_reused && is_broken
}

fn pool(config: &config::Upstream, tls: &rustls::ClientConfig, http2: bool) -> Pool {
    pool_of(config, tls, http2, usize::MAX)
}

/// A pool that keeps so many idle connections.
fn pool_of(
    config: &config::Upstream,
    tls: &rustls::ClientConfig,
    http2: bool,
    idle: usize,
) -> Pool {
    let mut tls = tls.clone();
    if http2 {
        tls.alpn_protocols = vec![b"h2".to_vec()];
    }
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http1_preserve_header_case(true)
        .http1_max_buf_size(BUFFER_BYTES)
        .http1_max_headers(MAX_HEADERS)
        .http2_only(http2)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_send_buf_size(BUFFER_BYTES)
        .http2_max_header_list_size(u32::try_from(BUFFER_BYTES).unwrap_or(u32::MAX))
        .build(Connector::new(tls, config.connect_timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(url: &str) -> Upstream {
        let sources = config::Sources {
            flags: vec![("upstream.url", url.to_owned())],
            ..config::Sources::default()
        };
        Upstream::new(&config::load(&sources).unwrap().upstream).unwrap()
    }

    #[test]
    fn v1_stands_for_the_path_of_the_url() {
        for (url, target, expected) in [
            (
                "https://api.openai.com/v1",
                "/v1/chat/completions",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                "https://api.openai.com/v1/",
                "/v1/models?x=%20y",
                "https://api.openai.com/v1/models?x=%20y",
            ),
            (
                "http://h:8/openai/v1",
                "/v1/chat/completions",
                "http://h:8/openai/v1/chat/completions",
            ),
            ("http://h/base", "/v1", "http://h/base"),
            ("http://h/base", "/v1?a=b", "http://h/base?a=b"),
            ("http://h/base", "/v10/x", "http://h/v10/x"),
            (
                "http://h/base",
                "/openai/deployments/d/chat/completions?api-version=1",
                "http://h/openai/deployments/d/chat/completions?api-version=1",
            ),
            (
                "http://h:8000",
                "/v1/chat/completions",
                "http://h:8000/v1/chat/completions",
            ),
            (
                "http://h:8000/",
                "/chat/completions",
                "http://h:8000/chat/completions",
            ),
        ] {
            assert_eq!(
                upstream(url).uri(target).unwrap().to_string(),
                expected,
                "{url} {target}"
            );
        }
    }
}
