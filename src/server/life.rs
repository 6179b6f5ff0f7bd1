//! The life of one client connection: which requests run on it, since when it is idle, and whether
//! all that was given to it has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// What the tasks of one connection know of each other.
#[derive(Debug)]
pub(super) struct Life {
    began: Instant,
    /// Requests whose answer has not ended.
    requests: AtomicUsize,
    /// Milliseconds after `began` at which the last answer ended.
    idle_since: AtomicU64,
    /// Whether the client may be sending what nobody will read.
    may_be_sending: AtomicBool,
    /// How often the socket had taken everything.
    flushes: AtomicU64,
    flushed: Arc<Notify>,
    /// Asks the connection to make room for another one, if it is idle.
    pub(super) evicted: Notify,
    /// Requests that run on all connections of the worker.
    running: Arc<AtomicUsize>,
}

impl Life {
    /// A connection that begins now.
    pub(super) fn new(running: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Life {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            may_be_sending: AtomicBool::new(true),
            flushes: AtomicU64::new(0),
            flushed: Arc::default(),
            evicted: Notify::new(),
            running,
        })
    }

    /// The moment since which no request runs; `None` while one does.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.requests.load(Ordering::Acquire) == 0;
        let since = Duration::from_millis(self.idle_since.load(Ordering::Acquire));
        is_idle.then_some(self.began + since)
    }

    /// Whether the client may be sending what nobody will read: a request that was answered before
    /// its body had ended, or what is no request.
    pub(super) fn may_be_sending(&self) -> bool {
        self.may_be_sending.load(Ordering::Acquire)
    }

    /// The client sends nothing: the connection is idle.
    pub(super) fn sends_nothing(&self) {
        self.may_be_sending.store(false, Ordering::Release);
    }

    /// Counts a request for as long as the returned value lives.
    pub(super) fn begin(self: &Arc<Self>, has_body: bool) -> Running {
        self.may_be_sending.store(has_body, Ordering::Release);
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.running.fetch_add(1, Ordering::AcqRel);
        Running(Arc::clone(self))
    }

    /// The socket took everything that it was given.
    pub(super) fn flushed(&self) {
        self.flushes.fetch_add(1, Ordering::AcqRel);
        self.flushed.notify_waiters();
    }

    /// How often the socket had taken everything.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// The next time that the socket has taken everything.
    pub(super) fn next_flush(&self) -> OwnedNotified {
        Arc::clone(&self.flushed).notified_owned()
    }
}

/// A request that runs.
#[derive(Debug)]
pub(super) struct Running(Arc<Life>);

impl Running {
    /// The connection that it came by.
    pub(super) fn connection(&self) -> &Life {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let life = &self.0;
        let now = u64::try_from(life.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        life.idle_since.store(now, Ordering::Release);
        life.requests.fetch_sub(1, Ordering::AcqRel);
        life.running.fetch_sub(1, Ordering::AcqRel);
    }
}
