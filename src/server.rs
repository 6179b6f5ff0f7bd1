//! Accepts connections, spreads them over workers, and drains them: common to the data listener and
//! the admin listener.
//!
//! A worker is one thread with an event loop of its own: a request never leaves its thread, which
//! costs a third less than passing it between the threads of a shared loop (`tests/load/compare`).

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::ServiceBuilder;
use tower_http::catch_panic::{CatchPanicLayer, ResponseForPanic};
use tracing::{debug, warn};

/// Bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Time to receive a request's headers.
    pub header_timeout: Duration,
    /// Time for running requests to finish once asked to stop.
    pub drain_timeout: Duration,
}

/// HTTP/2 streams that one client connection may have open.
const MAX_STREAMS: u32 = 256;
/// Pause after the system failed to accept a connection, for lack of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Threads of each worker for blocking work: planning long bodies, and name resolution.
const BLOCKING_THREADS: usize = 8;

/// Makes the answer to a request whose handler panicked.
pub type AfterPanic = fn() -> Response<Full<bytes::Bytes>>;

/// Answers for a handler that panicked.
#[derive(Debug, Clone, Copy)]
struct Panicked(AfterPanic);

impl ResponseForPanic for Panicked {
    type ResponseBody = Full<bytes::Bytes>;

    fn response_for_panic(&mut self, _: Box<dyn Any + Send>) -> Response<Full<bytes::Bytes>> {
        (self.0)()
    }
}

/// An accepted connection, not yet registered with any event loop.
struct Accepted {
    stream: std::net::TcpStream,
    slot: Slot,
}

/// Counts a connection against the bound and its worker for as long as it lives.
struct Slot {
    _permit: OwnedSemaphorePermit,
    busy: Arc<AtomicUsize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves connections.
#[derive(Debug)]
pub struct Worker {
    queue: mpsc::UnboundedSender<Accepted>,
    /// Connections that it serves.
    busy: Arc<AtomicUsize>,
    /// Signals its end, and whether every running request was finished in time.
    drained: oneshot::Receiver<bool>,
    /// The task of a worker without a thread of its own; it ends with the worker.
    _task: Option<AbortOnDropHandle<()>>,
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stream.fmt(f)
    }
}

impl Worker {
    /// A worker on the caller's event loop.
    pub fn here<H, F, B>(handle: H, after_panic: AfterPanic, bounds: Bounds) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut worker, work) = Worker::parts(handle, after_panic, bounds);
        worker._task = Some(AbortOnDropHandle::new(tokio::spawn(work)));
        worker
    }

    /// A worker on a thread of its own.
    ///
    /// # Errors
    /// When the system has no thread or event loop to give.
    pub fn thread<H, F, B>(
        name: &str,
        handle: H,
        after_panic: AfterPanic,
        bounds: Bounds,
    ) -> io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (worker, work) = Worker::parts(handle, after_panic, bounds);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(work);
                // Requests that the drain timeout cut off must not hold the thread.
                runtime.shutdown_background();
            })?;
        Ok(worker)
    }

    /// Closes the queue, so that the worker drains.
    fn close(self) -> Closed {
        Closed {
            drained: self.drained,
            _task: self._task,
        }
    }

    fn parts<H, F, B>(
        handle: H,
        after_panic: AfterPanic,
        bounds: Bounds,
    ) -> (Self, impl Future<Output = ()> + Send)
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
            let _ = done.send(work(connections, handle, after_panic, bounds).await);
        };
        let worker = Worker {
            queue,
            busy: Arc::default(),
            drained,
            _task: None,
        };
        (worker, work)
    }
}

/// A worker that gets no more connections.
struct Closed {
    drained: oneshot::Receiver<bool>,
    _task: Option<AbortOnDropHandle<()>>,
}

/// Serves connections until the queue is closed, then lets running requests finish. Returns whether
/// all did in time.
async fn work<H, F, B>(
    mut connections: mpsc::UnboundedReceiver<Accepted>,
    handle: H,
    after_panic: AfterPanic,
    bounds: Bounds,
) -> bool
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let http = http(bounds);
    // A panic of a handler costs its request a 500, not the connection.
    let service = TowerToHyperService::new(
        ServiceBuilder::new()
            .layer(CatchPanicLayer::custom(Panicked(after_panic)))
            .service(tower::service_fn(handle)),
    );
    let graceful = GracefulShutdown::new();
    let tasks = TaskTracker::new();

    while let Some(Accepted { stream, slot }) = connections.recv().await {
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
        tasks.spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "connection ended");
            }
            drop(slot);
        });
    }
    tasks.close();
    let drained = async {
        graceful.shutdown().await;
        tasks.wait().await;
    };
    tokio::time::timeout(bounds.drain_timeout, drained)
        .await
        .is_ok()
}

fn http(bounds: Bounds) -> auto::Builder<TokioExecutor> {
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
    http
}

/// Accepts on `listener` and hands each connection to the least busy worker, until `stop` is
/// cancelled. Then it accepts nothing more and the workers drain. Returns whether every running
/// request was finished in time.
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
                    let slot = Slot {
                        _permit: permit,
                        busy: Arc::clone(&worker.busy),
                    };
                    let _ = worker.queue.send(Accepted { stream, slot });
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let mut all_drained = true;
    // Every queue is closed before the first worker is waited for.
    let draining = workers.into_iter().map(Worker::close);
    let draining: Vec<_> = draining.collect();
    for worker in draining {
        all_drained &= worker.drained.await.unwrap_or(false);
    }
    all_drained
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
