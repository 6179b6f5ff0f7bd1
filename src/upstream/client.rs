//! Pools of connections to the upstream, and the addresses that requests go to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, Uri, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config;
use crate::upstream::RequestBody;

type Pool = Client<HttpsConnector<HttpConnector>, RequestBody>;

/// Streams that one HTTP/2 connection carries before the next one is used; servers commonly allow
/// 100.
const STREAMS_PER_CONNECTION: usize = 90;
/// HTTP/2 connections at most; further requests go over HTTP/1.1.
const MAX_HTTP2_CONNECTIONS: usize = 64;
/// Idle connections are closed after this time, sooner than most servers close them.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// One HTTP/2 connection.
struct Http2Connection {
    pool: Pool,
    /// Streams in use.
    streams: Arc<AtomicUsize>,
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
            http2: http2.collect(),
        })
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
        let builder = Uri::builder()
            .scheme(self.origin.scheme_str().unwrap_or("http"))
            .authority(self.origin.authority().map_or("", |a| a.as_str()));
        match (&self.base_path, rest) {
            (Some(base), Some(rest)) => builder.path_and_query(format!("{base}{rest}")).build(),
            _ => builder.path_and_query(target).build(),
        }
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
    /// kept until the answer has passed.
    ///
    /// # Errors
    /// When no connection could be made, or it broke before the head of an answer arrived.
    pub async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Option<ConnectionSlot>), ClientError> {
        for connection in &self.http2 {
            if connection.streams.fetch_add(1, Ordering::Relaxed) < STREAMS_PER_CONNECTION {
                let slot = ConnectionSlot(Arc::clone(&connection.streams));
                *request.version_mut() = Version::HTTP_2;
                let response = connection.pool.request(request).await?;
                return Ok((response, Some(slot)));
            }
            connection.streams.fetch_sub(1, Ordering::Relaxed);
        }
        *request.version_mut() = Version::HTTP_11;
        let response = self.http1.request(request).await?;
        Ok((response, None))
    }
}

fn pool(config: &config::Upstream, tls: &rustls::ClientConfig, http2: bool) -> Pool {
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
}

fn tls_config(config: &config::Upstream) -> io::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(file) = &config.ca_file {
        let invalid = |problem: String| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("upstream.ca_file {}: {problem}", file.display()),
            )
        };
        let certificates =
            CertificateDer::pem_file_iter(file).map_err(|error| invalid(error.to_string()))?;
        let (added, _) = roots.add_parsable_certificates(certificates.filter_map(Result::ok));
        if added == 0 {
            return Err(invalid("contains no certificate".to_owned()));
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
