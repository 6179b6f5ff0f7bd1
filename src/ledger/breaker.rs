//! Keeps requests from waiting for a store that does not answer: one failure opens it. A probe of
//! the store's own closes it again; a store without one is asked by a request now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::observe::Metrics;
use crate::observe::event::{LedgerBreaker, StoreKind};

/// Whether a store is asked.
#[derive(Debug)]
pub(super) struct Breaker {
    store: StoreKind,
    is_open: AtomicBool,
    /// When a request may try, for a store without a probe of its own.
    next_try: Option<Mutex<Instant>>,
    metrics: Arc<Metrics>,
}

/// Time between two requests that try.
const PAUSE: Duration = Duration::from_secs(1);

impl Breaker {
    pub(super) fn new(store: StoreKind, metrics: Arc<Metrics>) -> Self {
        let has_probe = store == StoreKind::Redis;
        Breaker {
            store,
            is_open: AtomicBool::new(false),
            next_try: (!has_probe).then(|| Mutex::new(Instant::now())),
            metrics,
        }
    }

    /// Whether no request may ask the store now.
    pub(super) fn blocks(&self) -> bool {
        let is_due = |next_try: &Mutex<Instant>| {
            *next_try.lock().unwrap_or_else(PoisonError::into_inner) <= Instant::now()
        };
        self.is_open() && !self.next_try.as_ref().is_some_and(is_due)
    }

    /// Whether a request asks the store: it is closed, or this request is the one that tries.
    pub(super) fn lets_through(&self) -> bool {
        if !self.is_open() {
            return true;
        }
        let Some(next_try) = &self.next_try else {
            return false;
        };
        let mut next_try = next_try.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let tries = *next_try <= now;
        if tries {
            *next_try = now + PAUSE;
        }
        tries
    }

    /// Whether requests go on without the store.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The store failed, or did not answer in time.
    pub(super) fn open(&self) {
        if let Some(next_try) = &self.next_try {
            *next_try.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PAUSE;
        }
        self.turn(true);
    }

    /// The store answers.
    pub(super) fn close(&self) {
        self.turn(false);
    }

    fn turn(&self, open: bool) {
        if self.is_open.swap(open, Ordering::Relaxed) != open {
            let store = self.store;
            LedgerBreaker { store, open }.emit(&self.metrics);
        }
    }
}
