//! The client to the LLM API: where requests go, and the pools of connections that carry them.
//!
//! INVARIANT: the destination comes from the configuration alone. No header, field or query chooses a host.

pub mod discovery;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, Uri, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config;

/// What is sent upstream.
#[derive(Debug)]
pub enum Outgoing {
    /// The client's body as it arrives.
    Stream(Incoming),
    /// A body that was read: slices of it and new pieces, the next one last.
    Pieces(Vec<Bytes>),
}

impl Outgoing {
    /// A body made of these pieces, in order.
    #[must_use]
    pub fn pieces(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        Outgoing::Pieces(pieces)
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Outgoing::Stream(body) => Pin::new(body).poll_frame(cx),
            Outgoing::Pieces(rest) => Poll::Ready(rest.pop().map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Stream(body) => body.is_end_stream(),
            Outgoing::Pieces(rest) => rest.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Stream(body) => body.size_hint(),
            Outgoing::Pieces(rest) => {
                SizeHint::with_exact(rest.iter().map(|piece| piece.len() as u64).sum())
            }
        }
    }
}

type Pool = Client<HttpsConnector<HttpConnector>, Outgoing>;

/// Streams that one HTTP/2 connection carries before the next one is used; servers commonly allow 100.
const STREAMS_PER_CONNECTION: usize = 90;
/// HTTP/2 connections at most; what is more goes over HTTP/1.1.
const MAX_LANES: usize = 64;
/// Idle connections are closed after this, sooner than most servers do it.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// One HTTP/2 connection and how many requests are on it.
struct Http2Connection {
    pool: Pool,
    busy: Arc<AtomicUsize>,
}

/// Keeps a place on an HTTP/2 connection taken for as long as it lives.
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
    /// Empty unless HTTP/2 was asked for. hyper-util keeps a single HTTP/2 connection per client and origin, which caps
    /// concurrency at that connection's streams; hence a client for each.
    http2: Vec<Http2Connection>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("origin", &self.origin)
            .field("lanes", &self.http2.len())
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Prepares the pools; connects to nothing yet.
    ///
    /// # Errors
    /// When the file with further certificates cannot be read or holds none.
    pub fn new(config: &config::Upstream) -> io::Result<Self> {
        let tls = tls_config(config)?;
        let pool = |http2: bool| {
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_keepalive(Some(Duration::from_secs(60)));
            tcp.set_connect_timeout(Some(config.connect_timeout));
            let builder = HttpsConnectorBuilder::new()
                .with_tls_config(tls.clone())
                .https_or_http();
            let connector = if http2 {
                builder.enable_http2().wrap_connector(tcp)
            } else {
                builder.enable_http1().wrap_connector(tcp)
            };
            Client::builder(TokioExecutor::new())
                .pool_idle_timeout(POOL_IDLE_TIMEOUT)
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                .http1_preserve_header_case(true)
                .http1_max_buf_size(1 << 20)
                .http2_only(http2)
                .http2_adaptive_window(true)
                .build(connector)
        };
        let lanes = if config.http2 { MAX_LANES } else { 0 };
        Ok(Upstream {
            origin: config.origin.clone(),
            base_path: config.base_path.clone(),
            http1: pool(false),
            http2: (0..lanes)
                .map(|_| Http2Connection {
                    pool: pool(true),
                    busy: Arc::default(),
                })
                .collect(),
        })
    }

    /// Where a request for `target` (path and query as the client sent them) goes: the listener's `/v1` stands for the
    /// path of the upstream's URL, other paths go to its origin.
    ///
    /// # Errors
    /// When the two do not make a URI.
    pub fn uri(&self, target: &str) -> Result<Uri, hyper::http::Error> {
        let rest = target
            .strip_prefix("/v1")
            .filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        let builder = Uri::builder()
            .scheme(self.origin.scheme_str().unwrap_or("http"))
            .authority(self.origin.authority().map_or("", |a| a.as_str()));
        match (&self.base_path, rest) {
            (Some(base), Some(rest)) => builder.path_and_query(format!("{base}{rest}")).build(),
            _ => builder.path_and_query(target).build(),
        }
    }

    /// Posts JSON to a service of the operator's, whose address is from the configuration as well.
    ///
    /// # Errors
    /// When the address is none, no connection could be made, or it broke before the head of an answer came.
    pub async fn post(
        &self,
        url: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Outgoing::pieces(vec![body]))?;
        Ok(self.send_elsewhere(request).await?)
    }

    /// Sends a request whose whole address is from the configuration.
    ///
    /// # Errors
    /// When no connection could be made, or it broke before the head of an answer came.
    pub async fn send_elsewhere(
        &self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.http1.request(request).await
    }

    /// Sends a request whose URI is one of [`Upstream::uri`]. The place, if there is one, must be kept until the answer
    /// has passed.
    ///
    /// # Errors
    /// When no connection could be made, or it broke before the head of an answer came.
    pub async fn send(
        &self,
        mut request: Request<Outgoing>,
    ) -> Result<(Response<Incoming>, Option<ConnectionSlot>), ClientError> {
        for lane in &self.http2 {
            if lane.busy.fetch_add(1, Ordering::Relaxed) < STREAMS_PER_CONNECTION {
                let place = ConnectionSlot(lane.busy.clone());
                *request.version_mut() = Version::HTTP_2;
                return lane
                    .pool
                    .request(request)
                    .await
                    .map(|response| (response, Some(place)));
            }
            lane.busy.fetch_sub(1, Ordering::Relaxed);
        }
        *request.version_mut() = Version::HTTP_11;
        self.http1
            .request(request)
            .await
            .map(|response| (response, None))
    }
}

fn tls_config(config: &config::Upstream) -> io::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(file) = &config.ca_file {
        let invalid = |what: String| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("upstream.ca_file {}: {what}", file.display()),
            )
        };
        let certificates =
            CertificateDer::pem_file_iter(file).map_err(|error| invalid(error.to_string()))?;
        let (added, _) = roots.add_parsable_certificates(certificates.filter_map(Result::ok));
        if added == 0 {
            return Err(invalid("no certificate in it".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
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
