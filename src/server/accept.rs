//! Accepts connections within a bound. At the bound, a new connection takes the place of the one
//! that has been idle for longest: connections that say nothing must not keep others out.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::server::life::Life;

/// Pauses after the system failed to accept a connection, for lack of file descriptors for
/// instance: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Time between two log lines about such failures.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// Time between two connections that are asked to leave in favour of the same new one.
const EVICTION_PAUSE: Duration = Duration::from_millis(50);

/// A connection that may be served, in a form that any event loop can take.
type Admitted = (std::net::TcpStream, OwnedSemaphorePermit);

/// A listener with its bound.
pub(super) struct Door {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// The connections that were accepted; some have ended.
    accepted: Vec<Weak<Life>>,
    /// Length of the list at which those that ended are removed.
    prune_at: usize,
    failures: Failures,
}

/// Failures to accept, for the log and the pause.
#[derive(Default)]
struct Failures {
    pause: Duration,
    unreported: u64,
    reported_at: Option<Instant>,
}

impl Door {
    /// Accepts on `listener`, so many connections at a time.
    pub(super) fn new(listener: TcpListener, connections: usize) -> Self {
        Door {
            listener,
            permits: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))),
            accepted: Vec::new(),
            prune_at: 64,
            failures: Failures::default(),
        }
    }

    /// The next connection. Cancel safe but for a connection that waits for its place.
    pub(super) async fn next(&mut self) -> Admitted {
        loop {
            let accepted = self.listener.accept().await;
            let stream = accepted.and_then(|(stream, _)| prepared(stream));
            match stream {
                Ok(stream) => {
                    self.failures.pause = Duration::ZERO;
                    if let Some(permit) = self.place().await {
                        return (stream, permit);
                    }
                }
                Err(error) => {
                    self.failures.report(&error);
                    self.evict();
                    tokio::time::sleep(self.failures.next_pause()).await;
                }
            }
        }
    }

    /// Closes the listener; returns the connections that the system has accepted already and that
    /// there is a place for. They would be reset with the listener otherwise.
    pub(super) fn close(self) -> Vec<Admitted> {
        let mut waiting = Vec::new();
        if let Ok(listener) = self.listener.into_std() {
            while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned()
                && let Ok((stream, _)) = listener.accept()
            {
                if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                    waiting.push((stream, permit));
                }
            }
        }
        waiting
    }

    /// Remembers a connection that is being served, so that it can be asked to leave.
    pub(super) fn remember(&mut self, life: &Arc<Life>) {
        if self.accepted.len() >= self.prune_at {
            self.accepted.retain(|life| life.strong_count() > 0);
            self.prune_at = (self.accepted.len() * 2).max(64);
        }
        self.accepted.push(Arc::downgrade(life));
    }

    /// A place for one more connection, as soon as there is one.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.evict();
            let permit = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(EVICTION_PAUSE, permit).await {
                return permit.ok();
            }
        }
    }

    /// Asks the connection that has been idle for longest to leave.
    fn evict(&self) {
        let living = self.accepted.iter().filter_map(Weak::upgrade);
        let idle = living.filter_map(|life| Some((life.idle_since()?, life)));
        if let Some((_, life)) = idle.min_by_key(|(since, _)| *since) {
            life.evicted.notify_one();
        }
    }
}

impl Failures {
    /// Logs the failure, unless another one was logged a moment ago.
    fn report(&mut self, error: &io::Error) {
        self.unreported += 1;
        let is_due = self.reported_at.is_none_or(|at| at.elapsed() >= LOG_PAUSE);
        if is_due {
            warn!(%error, times = self.unreported, "cannot accept connections");
            (self.unreported, self.reported_at) = (0, Some(Instant::now()));
        }
    }

    fn next_pause(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause
    }
}

fn prepared(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.into_std()
}
