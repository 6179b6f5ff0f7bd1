//! Accepts connections, spreads them over workers, and drains them: what the data listener and the admin listener have
//! in common.
//!
//! A worker is one thread with an event loop and upstream connections of its own: a request never leaves its thread,
//! which costs a third less than passing it between the threads of a shared loop (`tests/load/compare`).

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{debug, warn};

use crate::core::wire::Dialect;
use crate::proxy::ProxyError;

/// Bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// Time to receive a request's headers.
    pub header_timeout: Duration,
    /// Time for running requests to finish once asked to stop.
    pub drain_timeout: Duration,
}

/// HTTP/2 streams that one client connection may have open.
const MAX_STREAMS: u32 = 256;
/// Pause after the system refused to accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Threads of each worker for thinking about long bodies and for name resolution.
const BLOCKING_THREADS: usize = 8;

/// An accepted connection, not yet registered with any event loop, and its place among those allowed.
struct Accepted {
    stream: std::net::TcpStream,
    place: Place,
}

/// Counts a connection against the bound and its worker for as long as it lives.
struct Place {
    _permit: OwnedSemaphorePermit,
    busy: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where connections are served.
#[derive(Debug)]
pub struct Worker {
    queue: mpsc::UnboundedSender<Accepted>,
    busy: Arc<AtomicUsize>,
    drained: oneshot::Receiver<bool>,
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}

impl Worker {
    /// A worker on the event loop that calls this.
    pub fn here<H, F, B>(handle: H, bounds: Bounds) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (worker, work) = Worker::parts(handle, bounds);
        tokio::spawn(work);
        worker
    }

    /// A worker on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread or event loop.
    pub fn thread<H, F, B>(name: &str, handle: H, bounds: Bounds) -> io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (worker, work) = Worker::parts(handle, bounds);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(work);
                // What the drain timeout cut off must not hold the thread.
                runtime.shutdown_background();
            })?;
        Ok(worker)
    }

    fn parts<H, F, B>(handle: H, bounds: Bounds) -> (Self, impl Future<Output = ()> + Send)
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Unbounded, but every entry holds a permit of the bounded semaphore below.
        let (queue, connections) = mpsc::unbounded_channel();
        let (done, drained) = oneshot::channel();
        let work = async move {
            let _ = done.send(work(connections, handle, bounds).await);
        };
        (
            Worker {
                queue,
                busy: Arc::default(),
                drained,
            },
            work,
        )
    }
}

/// Serves connections until the queue is closed, then lets running requests finish. Says whether all did in time.
async fn work<H, F, B>(
    mut connections: mpsc::UnboundedReceiver<Accepted>,
    handle: H,
    bounds: Bounds,
) -> bool
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header_timeout)
        .preserve_header_case(true)
        .auto_date_header(false);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(Duration::from_secs(60))
        .adaptive_window(true)
        .auto_date_header(false);
    // A panic outside of guarded thinking costs its request a 500, not the connection.
    let service = TowerToHyperService::new(
        ServiceBuilder::new()
            .layer(CatchPanicLayer::custom(after_panic))
            .service(tower::service_fn(handle)),
    );
    let graceful = GracefulShutdown::new();

    while let Some(Accepted { stream, place }) = connections.recv().await {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => {
                warn!(%error, "cannot serve a connection");
                continue;
            }
        };
        let connection = graceful.watch(
            http.serve_connection(TokioIo::new(stream), service.clone())
                .into_owned(),
        );
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "connection ended");
            }
            drop(place);
        });
    }
    tokio::time::timeout(bounds.drain_timeout, graceful.shutdown())
        .await
        .is_ok()
}

fn after_panic(_: Box<dyn std::any::Any + Send>) -> Response<http_body_util::Full<bytes::Bytes>> {
    ProxyError::Internal.response(Dialect::default())
}

/// Accepts on `listener` and hands each connection to the least busy worker, until `stop` is cancelled; then nothing is
/// accepted any more and the workers drain. Returns whether every running request was finished in time.
pub async fn serve(
    listener: TcpListener,
    workers: Vec<Worker>,
    connections: usize,
    stop: CancellationToken,
) -> bool {
    let permits = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                if let Some(worker) = workers
                    .iter()
                    .min_by_key(|worker| worker.busy.load(Ordering::Relaxed))
                {
                    worker.busy.fetch_add(1, Ordering::Relaxed);
                    let place = Place {
                        _permit: permit,
                        busy: Arc::clone(&worker.busy),
                    };
                    let _ = worker.queue.send(Accepted { stream, place });
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let mut all = true;
    let draining: Vec<_> = workers.into_iter().map(|worker| worker.drained).collect();
    for drained in draining {
        all &= drained.await.unwrap_or(false);
    }
    all
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream.into_std()?, permit))
}
