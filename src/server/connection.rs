//! One client connection, from its first byte to its end.
//!
//! Every phase has a deadline: the opening, that is the bytes that tell the HTTP version; a
//! request's head; the idle time between two requests; and writing. Once the listener drains, an
//! idle connection is kept for a moment, because its client may be sending a request already.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::server::Bounds;
use crate::server::body::{BodyError, SentBody};
use crate::server::io::ClientIo;
use crate::server::life::Life;
use crate::server::stream;
use crate::server::stream::Streams;

/// The bytes by which an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// HTTP/2 streams that one client connection may have open.
const MAX_STREAMS: u32 = 256;
/// Headers of a request, at most; more get a 431.
const MAX_HEADERS: usize = 512;
/// The longest head of a request, and what a connection buffers in each direction, bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that a client may send ahead on one HTTP/2 stream, and on all streams of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Time that an idle connection stays open for a request once the listener drains, at most.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// Time for an idle connection to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// The HTTP server of a listener, by version: the first bytes of a connection tell which it speaks.
pub(super) struct Http {
    one: auto::Builder<Streams>,
    two: Option<auto::Builder<Streams>>,
}

impl Http {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let mut http = auto::Builder::new(Streams {
            write_timeout: bounds.write_timeout,
        });
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(BUFFER_BYTES)
            .preserve_header_case(true)
            .auto_date_header(false);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(BUFFER_BYTES).unwrap_or(u32::MAX))
            .max_send_buf_size(BUFFER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(Duration::from_secs(60))
            .auto_date_header(false);
        // The version is known when a connection gets here: nobody looks for it again.
        Http {
            one: http.clone().http1_only(),
            two: (!bounds.http1_only).then(|| http.http2_only()),
        }
    }
}

/// One connection and what it is served with.
pub(super) struct Connection {
    pub http: Arc<Http>,
    pub bounds: Bounds,
    pub life: Arc<Life>,
    /// Cancelled once the listener accepts nothing more.
    pub draining: CancellationToken,
}

impl Connection {
    /// Serves the connection until it ends.
    pub(super) async fn serve<S, F, B>(self, mut stream: TcpStream, handle: S)
    where
        S: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let Some(opening) = self.open(&mut stream).await else {
            return;
        };
        let is_http2 = opening.is_http2 && self.http.two.is_some();
        let (timeout, life) = (self.bounds.write_timeout, Arc::clone(&self.life));
        let io = ClientIo::new(stream, opening.taken, timeout, life);
        self.drive(self.speak(io, handle, is_http2), is_http2).await;
    }

    /// HTTP on a connection.
    fn speak<S, F, B>(
        &self,
        io: ClientIo,
        handle: S,
        is_http2: bool,
    ) -> impl GracefulConnection<Error = BodyError> + Send + use<S, F, B>
    where
        S: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let (life, draining) = (Arc::clone(&self.life), self.draining.clone());
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let running = life.begin(!is_http2 && !request.body().is_end_stream());
            let draining = draining.clone();
            // In memory of its own, which a stream that goes on for minutes does not keep.
            let answer = Box::pin(handle(request));
            async move {
                let Ok(mut response) = answer.await;
                stream::given();
                if !is_http2 && draining.is_cancelled() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(response.map(|body| SentBody::new(body, running)))
            }
        });
        let Http { one, two } = &*self.http;
        let http = two.as_ref().filter(|_| is_http2).unwrap_or(one);
        http.serve_connection(TokioIo::new(io), service)
            .into_owned()
    }

    /// Looks at as many bytes as tell the HTTP version; `None` when they do not come.
    async fn open(&self, stream: &mut TcpStream) -> Option<Opening> {
        let draining = async {
            self.draining.cancelled().await;
            tokio::time::sleep(self.grace()).await;
        };
        tokio::select! {
            biased;
            opening = read_opening(stream) => opening,
            () = tokio::time::sleep(self.bounds.header_timeout) => None,
            () = self.life.evicted.notified() => None,
            () = draining => None,
        }
    }

    /// Drives a connection until it ends, or is idle for too long.
    async fn drive<C>(&self, serving: C, is_http2: bool)
    where
        C: GracefulConnection<Error = BodyError>,
    {
        let mut serving = pin!(serving);
        let mut look = pin!(tokio::time::sleep(self.bounds.header_timeout));
        let (mut patience, mut is_draining) = (self.bounds.header_timeout, false);
        let mut is_leaving = false;
        loop {
            tokio::select! {
                biased;
                ended = serving.as_mut() => {
                    if let Err(error) = ended {
                        debug!(%error, "connection ended");
                    }
                    return;
                }
                () = self.draining.cancelled(), if !is_draining => {
                    (patience, is_draining) = (self.grace(), true);
                    // HTTP/2 can tell which requests it will still answer.
                    if is_http2 {
                        serving.as_mut().graceful_shutdown();
                    }
                    look.as_mut().reset((Instant::now() + patience).into());
                }
                () = self.life.evicted.notified() => {
                    if self.life.idle_since().is_some() {
                        return;
                    }
                }
                () = look.as_mut() => {
                    let end = self.life.idle_since().map(|since| since + patience);
                    let now = Instant::now();
                    let next = match end {
                        Some(end) if end <= now && is_leaving => return,
                        Some(end) if end <= now => {
                            is_leaving = true;
                            self.life.sends_nothing();
                            serving.as_mut().graceful_shutdown();
                            now + GOODBYE
                        }
                        Some(end) => end,
                        // While requests run there is nothing to end.
                        None => now + patience,
                    };
                    look.as_mut().reset(next.into());
                }
            }
        }
    }

    /// Time that an idle connection stays open once the listener drains.
    fn grace(&self) -> Duration {
        DRAIN_GRACE.min(self.bounds.drain_timeout / 2)
    }
}

/// What the first bytes of a connection tell.
struct Opening {
    is_http2: bool,
    /// Bytes that are not in the socket any more.
    taken: Vec<u8>,
}

/// Looks at the first bytes until they are an HTTP/2 preface or cannot become one; `None` at the
/// end of the stream. They stay in the socket, where the parser reads them with what follows in one
/// buffer. Only a part of a preface is taken: it would be seen at once again.
async fn read_opening(stream: &mut TcpStream) -> Option<Opening> {
    let mut taken = Vec::new();
    loop {
        let wanted = PREFACE.get(taken.len()..)?;
        let mut seen = [0; PREFACE.len()];
        let bytes = stream.peek(seen.get_mut(..wanted.len())?).await.ok()?;
        let seen = seen.get(..bytes).filter(|seen| !seen.is_empty())?;
        let is_http2 = wanted.starts_with(seen);
        if !is_http2 || seen.len() == wanted.len() {
            return Some(Opening { is_http2, taken });
        }
        let part = (&mut taken).limit(seen.len());
        stream.read_buf(&mut { part }).await.ok()?;
    }
}
