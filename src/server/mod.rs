//! Accepts connections, spreads them over workers, and drains them: common to the data listener and
//! the admin listener.
//!
//! A worker is one thread with an event loop of its own: a request never leaves its thread, which
//! costs a third less than passing it between the threads of a shared loop (`tests/load/compare`).

mod accept;
mod body;
mod connection;
mod io;
mod life;
mod stream;

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::catch_panic::{CatchPanicLayer, ResponseForPanic};
use tracing::warn;

use accept::Door;
use body::BodyError;
use connection::{Connection, Http};
use life::Life;

/// Bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at a time; further ones wait to be accepted.
    pub connections: usize,
    /// Time to receive a request's headers, the wait for that request included.
    pub header_timeout: Duration,
    /// Time in which a client that does not read must take something.
    pub write_timeout: Duration,
    /// Time for running requests to finish once asked to stop.
    pub drain_timeout: Duration,
    /// Whether HTTP/2 is refused.
    pub http1_only: bool,
}

/// Threads of each worker for blocking work: compressed bodies, lists of models, the parts of
/// summaries, and name resolution. Planning has a pool of its own.
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
    life: Arc<Life>,
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
    /// Requests that it serves.
    running: Arc<AtomicUsize>,
    /// Signals its end, and how many requests were cut off.
    drained: oneshot::Receiver<usize>,
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
        B: Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
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
    ) -> std::io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
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
        B: Body<Data = bytes::Bytes> + Unpin + Send + 'static,
        B::Error: Into<BodyError>,
    {
        // Unbounded, but every entry holds a permit of the bounded semaphore below.
        let (queue, connections) = mpsc::unbounded_channel();
        let (done, drained) = oneshot::channel();
        let running = Arc::new(AtomicUsize::new(0));
        let served = Arc::clone(&running);
        let work = async move {
            work(connections, handle, after_panic, bounds).await;
            let _ = done.send(served.load(Ordering::Acquire));
        };
        let worker = Worker {
            queue,
            busy: Arc::default(),
            running,
            drained,
            _task: None,
        };
        (worker, work)
    }
}

/// A worker that gets no more connections.
struct Closed {
    drained: oneshot::Receiver<usize>,
    _task: Option<AbortOnDropHandle<()>>,
}

/// Serves connections until the queue is closed, then lets running requests finish in time.
async fn work<H, F, B>(
    mut connections: mpsc::UnboundedReceiver<Accepted>,
    handle: H,
    after_panic: AfterPanic,
    bounds: Bounds,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes> + Unpin + Send + 'static,
    B::Error: Into<BodyError>,
{
    let http = Arc::new(Http::new(&bounds));
    // A panic of a handler costs its request a 500, not the connection.
    let service = ServiceBuilder::new()
        .layer(CatchPanicLayer::custom(Panicked(after_panic)))
        .service(tower::service_fn(handle));
    let draining = CancellationToken::new();
    let tasks = TaskTracker::new();

    while let Some(Accepted { stream, slot, life }) = connections.recv().await {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => {
                warn!(%error, "cannot serve a connection");
                continue;
            }
        };
        let connection = Connection {
            http: Arc::clone(&http),
            bounds,
            life,
            draining: draining.clone(),
        };
        let service = service.clone();
        tasks.spawn(async move {
            let handle = move |request| service.clone().oneshot(request);
            connection.serve(stream, handle).await;
            drop(slot);
        });
    }
    tasks.close();
    draining.cancel();
    let _ = tokio::time::timeout(bounds.drain_timeout, tasks.wait()).await;
}

/// Accepts on `listener` and hands each connection to the least busy worker, until `stop` is
/// cancelled. Then it accepts nothing more and the workers drain. Returns the number of requests
/// that were not finished in time.
pub async fn serve(
    listener: TcpListener,
    workers: Vec<Worker>,
    connections: usize,
    stop: CancellationToken,
) -> usize {
    let mut door = Door::new(listener, connections);
    let hand_over = |stream, permit| -> Option<Arc<Life>> {
        let worker = workers
            .iter()
            .min_by_key(|worker| worker.busy.load(Ordering::Relaxed))?;
        worker.busy.fetch_add(1, Ordering::Relaxed);
        let slot = Slot {
            _permit: permit,
            busy: Arc::clone(&worker.busy),
        };
        let life = Life::new(Arc::clone(&worker.running));
        let accepted = Accepted {
            stream,
            slot,
            life: Arc::clone(&life),
        };
        worker.queue.send(accepted).ok()?;
        Some(life)
    };
    loop {
        let (stream, permit) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = door.next() => accepted,
        };
        if let Some(life) = hand_over(stream, permit) {
            door.remember(&life);
        }
    }
    for (stream, permit) in door.close() {
        hand_over(stream, permit);
    }
    // Every queue is closed before the first worker is waited for.
    let draining: Vec<Closed> = workers.into_iter().map(Worker::close).collect();
    let mut cut = 0;
    for worker in draining {
        cut += worker.drained.await.unwrap_or(0);
    }
    cut
}
