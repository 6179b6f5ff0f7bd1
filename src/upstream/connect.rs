//! Connects to the upstream: name, TCP and TLS within one deadline. A failure knows its phase.
//!
//! Names are resolved on threads of their own, so that resolution waits for nothing else that
//! blocks.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tower::Service;

use crate::observe::event::ConnectPhase;

/// Names that are resolved at a time; each takes a thread while it lasts.
const RESOLUTIONS: usize = 8;
/// Interval of TCP's own probes on idle connections.
const KEEPALIVE: Duration = Duration::from_secs(60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to the upstream ({})", phase.as_str())]
pub struct ConnectError {
    /// What failed.
    pub phase: ConnectPhase,
    /// What was being done when the time was over, for [`ConnectPhase::Timeout`].
    pub during: Option<ConnectPhase>,
    source: Option<BoxError>,
}

impl ConnectError {
    /// The failure to connect among the causes of an error.
    #[must_use]
    pub fn in_causes_of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Self> {
        causes(error).find_map(|cause| cause.downcast_ref::<Self>())
    }

    /// The words of the system or of TLS for the failure. They know nothing of a request.
    #[must_use]
    pub fn cause(&self) -> String {
        let source = self.source.as_deref();
        let deepest = source.and_then(|source| causes(source).last());
        deepest.map_or_else(
            || "upstream.connect_timeout was over".to_owned(),
            ToString::to_string,
        )
    }
}

/// An error and what caused it. An I/O error stands for the error in it.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        }
    })
}

/// How many answers came by a connection; shared by its clones.
#[derive(Debug, Clone, Default)]
pub(super) struct Uses(Arc<AtomicUsize>);

impl Uses {
    /// Counts an answer.
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there was one.
    pub(super) fn is_reused(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// The phase that connecting is in.
#[derive(Debug, Clone, Default)]
struct Progress(Arc<AtomicU8>);

impl Progress {
    fn enter(&self, phase: ConnectPhase) {
        let at = ConnectPhase::ALL.iter().position(|known| *known == phase);
        let at = at.and_then(|at| u8::try_from(at).ok()).unwrap_or_default();
        self.0.store(at, Ordering::Relaxed);
    }

    fn phase(&self) -> ConnectPhase {
        let at = usize::from(self.0.load(Ordering::Relaxed));
        *ConnectPhase::ALL.get(at).unwrap_or(&ConnectPhase::Dns)
    }
}

/// Makes connections.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tls: Arc<rustls::ClientConfig>,
    timeout: Duration,
    resolutions: Arc<Semaphore>,
}

impl Connector {
    /// A connector that takes `timeout` at most.
    pub(super) fn new(tls: rustls::ClientConfig, timeout: Duration) -> Self {
        Connector {
            tls: Arc::new(tls),
            timeout,
            resolutions: Arc::new(Semaphore::new(RESOLUTIONS)),
        }
    }

    fn connect(&self, uri: Uri, progress: &Progress) -> Boxed<TlsOrTcp, BoxError> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver {
            resolutions: Arc::clone(&self.resolutions),
            progress: progress.clone(),
        });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        // Of several addresses, each gets its share of the time.
        tcp.set_connect_timeout(Some(self.timeout));
        let tcp = Tcp {
            connector: tcp,
            progress: progress.clone(),
        };
        HttpsConnector::from((tcp, Arc::clone(&self.tls))).call(uri)
    }
}

impl Service<Uri> for Connector {
    type Response = UpstreamIo;
    type Error = ConnectError;
    type Future = Boxed<UpstreamIo, ConnectError>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let progress = Progress::default();
        let connecting = tokio::time::timeout(self.timeout, self.connect(uri, &progress));
        Box::pin(async move {
            match connecting.await {
                Ok(Ok(io)) => Ok(UpstreamIo {
                    io,
                    uses: Uses::default(),
                }),
                Ok(Err(error)) => Err(failed(progress.phase(), error)),
                Err(_) => Err(ConnectError {
                    phase: ConnectPhase::Timeout,
                    during: Some(progress.phase()),
                    source: None,
                }),
            }
        })
    }
}

/// A failure in this phase; the time of TCP may be over before that of all phases.
fn failed(phase: ConnectPhase, source: BoxError) -> ConnectError {
    let timed_out = causes(&*source)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::TimedOut);
    ConnectError {
        phase: if timed_out {
            ConnectPhase::Timeout
        } else {
            phase
        },
        during: timed_out.then_some(phase),
        source: Some(source),
    }
}

/// TCP, and the note that TLS comes next.
#[derive(Clone)]
struct Tcp {
    connector: HttpConnector<Resolver>,
    progress: Progress,
}

impl Service<Uri> for Tcp {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Boxed<TokioIo<TcpStream>, BoxError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // An address is not resolved.
        let host = uri.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        if host.parse::<std::net::IpAddr>().is_ok() {
            self.progress.enter(ConnectPhase::Connect);
        }
        let connecting = self.connector.call(uri);
        let progress = self.progress.clone();
        Box::pin(async move {
            let stream = connecting.await?;
            progress.enter(ConnectPhase::Tls);
            Ok(stream)
        })
    }
}

/// Resolves names as the system does, each on a thread of its own.
#[derive(Debug, Clone)]
struct Resolver {
    resolutions: Arc<Semaphore>,
    progress: Progress,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Boxed<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolutions = Arc::clone(&self.resolutions);
        let progress = self.progress.clone();
        Box::pin(async move {
            let permit = resolutions.acquire_owned().await;
            let permit = permit.map_err(io::Error::other)?;
            let (found, addresses) = oneshot::channel();
            std::thread::Builder::new()
                .name("resolve".to_owned())
                .spawn(move || {
                    let _ = found.send((name.as_str(), 0).to_socket_addrs());
                    drop(permit);
                })?;
            let addresses = addresses.await.map_err(io::Error::other)??;
            progress.enter(ConnectPhase::Connect);
            Ok(addresses)
        })
    }
}

type TlsOrTcp = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to the upstream.
pub(super) struct UpstreamIo {
    io: TlsOrTcp,
    uses: Uses,
}

impl Connection for UpstreamIo {
    fn connected(&self) -> Connected {
        self.io.connected().extra(self.uses.clone())
    }
}

impl Read for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
