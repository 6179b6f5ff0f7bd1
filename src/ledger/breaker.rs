//! Keeps requests from waiting for a store that does not answer: one failure opens it, and only a
//! probe of Baler's own closes it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::observe::Metrics;
use crate::observe::event::{LedgerBreaker, StoreKind};

/// Whether a store is asked.
#[derive(Debug)]
pub(super) struct Breaker {
    store: StoreKind,
    is_open: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Breaker {
    pub(super) fn new(store: StoreKind, metrics: Arc<Metrics>) -> Self {
        Breaker {
            store,
            is_open: AtomicBool::new(false),
            metrics,
        }
    }

    /// Whether requests go on without the store.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// The store failed, or did not answer in time.
    pub(super) fn open(&self) {
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
