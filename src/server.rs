//! Accepts connections and drains them: what the data listener and the admin listener have in common.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{debug, warn};

use crate::proxy::Refusal;

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

/// Serves `handle` on `listener` until `stop` is cancelled, then stops accepting, lets running requests finish within
/// the drain timeout, and returns whether all did.
pub async fn serve<H, F, B>(listener: TcpListener, handle: H, bounds: Bounds, stop: CancellationToken) -> bool
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(bounds.header_timeout).preserve_header_case(true).auto_date_header(false);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(Duration::from_secs(60))
        .adaptive_window(true)
        .auto_date_header(false);
    let http = Arc::new(http);
    // A panic outside of guarded thinking costs its request a 500, not the connection.
    let service =
        TowerToHyperService::new(ServiceBuilder::new().layer(CatchPanicLayer::custom(after_panic)).service(tower::service_fn(handle)));
    let places = Arc::new(Semaphore::new(bounds.connections.min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();

    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = http.serve_connection(TokioIo::new(stream), service.clone()).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    tokio::time::timeout(bounds.drain_timeout, graceful.shutdown()).await.is_ok()
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

fn after_panic(_: Box<dyn std::any::Any + Send>) -> Response<http_body_util::Full<bytes::Bytes>> {
    Refusal::Internal.response()
}
