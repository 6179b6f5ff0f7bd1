//! The store behind the memory of the process: an embedded database or a server. What requests see
//! of it is two queues, one of look-ups, which they wait for within a deadline, and one of writes,
//! which nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};

use crate::core::conversation::Fingerprint;
use crate::ledger::breaker::Breaker;
use crate::ledger::entry::{Entry, Kind};
use crate::ledger::seal::{Scope, Sealed, Secrets, StoreKey, Unusable};
use crate::ledger::{Memory, redb, redis};
use crate::observe::Metrics;
use crate::observe::event::{
    LedgerError, LedgerFailed, LedgerLookedUp, LedgerQueued, LedgerTimed, LedgerWritten, StoreKind,
    StoreOperation, StoreResult, WriteResult,
};

/// Look-ups that may wait for a store.
const MAX_ASKS: usize = 1_024;
/// Writes that may wait for a store, and the bytes that they may take.
const MAX_WRITES: usize = 8_192;
const MAX_QUEUED_BYTES: usize = 64 << 20;
/// The largest entry that is stored, bytes.
const MAX_ENTRY_BYTES: usize = 8 << 20;

/// An entry that is asked for.
pub(super) type Wanted = (Kind, Fingerprint);
/// Stored bytes, one for each key that was asked for.
pub(super) type Found = Vec<Option<Vec<u8>>>;

/// A question to a store.
#[derive(Debug)]
pub(super) enum Ask {
    /// The entries under these keys.
    Fetch(Vec<StoreKey>, oneshot::Sender<Result<Found, LedgerError>>),
    /// The right to make something for so long; granted to one replica at a time.
    Lease(
        StoreKey,
        Duration,
        oneshot::Sender<Result<bool, LedgerError>>,
    ),
    /// That right is given back.
    Release(StoreKey),
}

/// Something to be written.
#[derive(Debug)]
pub(super) enum Write {
    Entry(NewEntry),
    /// Everything before it is to be written now.
    Flush(oneshot::Sender<()>),
}

/// An entry to be written.
#[derive(Debug)]
pub(super) struct NewEntry {
    pub scope: Scope,
    pub id: Fingerprint,
    pub entry: Entry,
    pub generation: u8,
}

/// What an engine needs besides its own address: the way from entries to stored bytes and back.
#[derive(Debug, Clone)]
pub(super) struct Landing {
    pub memory: Arc<Memory>,
    pub secrets: Arc<Secrets>,
    pub breaker: Arc<Breaker>,
    pub store: StoreKind,
    pub lifetime: Duration,
    pub metrics: Arc<Metrics>,
    queued: Arc<AtomicUsize>,
}

/// The queues that an engine works off.
#[derive(Debug)]
pub(super) struct Queues {
    pub asks: mpsc::Receiver<Ask>,
    pub writes: mpsc::Receiver<Write>,
}

/// The store, as requests see it.
#[derive(Debug)]
pub(super) struct Store {
    asks: mpsc::Sender<Ask>,
    writes: mpsc::Sender<Write>,
    landing: Landing,
    timeout: Duration,
}

impl Landing {
    fn new(memory: Arc<Memory>, secrets: Arc<Secrets>, of: &StoreFacts) -> Self {
        Landing {
            memory,
            secrets,
            breaker: Arc::new(Breaker::new(of.kind, Arc::clone(&of.metrics))),
            store: of.kind,
            lifetime: of.lifetime,
            metrics: Arc::clone(&of.metrics),
            queued: Arc::default(),
        }
    }

    /// An entry left the queue, whatever becomes of it: its bytes are those of others now.
    pub(super) fn left_queue(&self, new: &NewEntry) {
        self.queued
            .fetch_sub(new.entry.weight_bytes(), Ordering::Relaxed);
    }

    /// An entry as it is stored.
    pub(super) fn seal(&self, new: &NewEntry) -> Option<Sealed> {
        let at = (&new.scope, &new.id);
        self.secrets
            .seal(at, &new.entry, new.generation, self.lifetime)
    }

    /// Puts stored bytes into memory. Returns whether they were an entry.
    pub(super) fn land(&self, scope: &Scope, (kind, id): Wanted, blob: &[u8]) -> bool {
        let key = self.secrets.key(scope, kind, &id);
        let (entry, header) = match self.secrets.open(&scope.tenant, &key, blob) {
            Ok(opened) => opened,
            Err(unusable) => {
                let kind = match unusable {
                    Unusable::Expired => return false,
                    Unusable::Version => LedgerError::Version,
                    Unusable::Sealed => LedgerError::Unsealable,
                };
                self.failed(kind);
                return false;
            }
        };
        let memory = &self.memory;
        match entry {
            Entry::Checkpoint(checkpoint) => {
                memory.put_checkpoint(id, checkpoint, header.generation);
            }
            Entry::Summary(summary) => memory.keep_summary(id, summary),
            Entry::Usage(list, tokens) => memory.keep_usage(list, tokens),
            Entry::Window(window, since) => {
                let since = UNIX_EPOCH.checked_add(Duration::from_secs(since));
                let age = since.and_then(|since| since.elapsed().ok());
                memory.adopt_window(id, window, age.unwrap_or_default());
            }
            Entry::Calibration(calibration) => memory.adopt_calibration(id, calibration),
            Entry::Ungated => memory.never_gate(id),
            Entry::Evidence(evidence) => memory.keep_evidence(id, evidence),
        }
        true
    }

    pub(super) fn failed(&self, kind: LedgerError) {
        LedgerFailed { kind }.emit(&self.metrics);
    }

    pub(super) fn written(&self, result: WriteResult, entries: u64) {
        LedgerWritten { result, entries }.emit(&self.metrics);
    }

    pub(super) fn timed(&self, operation: StoreOperation, began: Instant) {
        let took = began.elapsed();
        LedgerTimed { operation, took }.emit(&self.metrics);
    }
}

/// What a store is, and what it must know of the configuration.
#[derive(Debug, Clone)]
pub(super) struct StoreFacts {
    pub kind: StoreKind,
    pub lifetime: Duration,
    pub timeout: Duration,
    pub metrics: Arc<Metrics>,
}

/// The kind of engine that works a store's queues off.
pub(super) enum Engine {
    Redb(redb::File),
    Redis(redis::Servers),
}

impl Store {
    /// Starts an engine on threads of its own.
    ///
    /// # Errors
    /// When the file cannot be opened, or the system has no thread to give.
    pub(super) fn start(
        engine: Engine,
        facts: &StoreFacts,
        memory: Arc<Memory>,
        secrets: Arc<Secrets>,
    ) -> std::io::Result<Self> {
        let (ask, asks) = mpsc::channel(MAX_ASKS);
        let (write, writes) = mpsc::channel(MAX_WRITES);
        let landing = Landing::new(memory, secrets, facts);
        let queues = Queues { asks, writes };
        match engine {
            Engine::Redb(file) => redb::start(file, landing.clone(), queues)?,
            Engine::Redis(servers) => redis::start(servers, landing.clone(), queues)?,
        }
        Ok(Store {
            asks: ask,
            writes: write,
            landing,
            timeout: facts.timeout,
        })
    }

    /// Looks entries up and puts what is found into memory. Takes no longer than the deadline.
    /// Returns whether the store answered.
    pub(super) async fn fetch(&self, wanted: Vec<(Scope, Wanted)>) -> bool {
        let landing = &self.landing;
        let keys: Vec<_> = wanted
            .iter()
            .map(|(scope, (kind, id))| landing.secrets.key(scope, *kind, id))
            .collect();
        let is_all_of_a_model = wanted.iter().all(|(_, (kind, _))| kind.is_of_model());
        let began = Instant::now();
        let result = match self.ask(|reply| Ask::Fetch(keys, reply)).await {
            Ok(found) => {
                landing.timed(StoreOperation::Fetch, began);
                let found = wanted.into_iter().zip(found);
                let found = found.filter_map(|(wanted, blob)| Some((wanted, blob?)));
                let landed: Vec<Kind> = found
                    .filter(|((scope, wanted), blob)| landing.land(scope, *wanted, blob))
                    .map(|((_, (kind, _)), _)| kind)
                    .collect();
                // What is known of a model says nothing about the conversation.
                if landed
                    .iter()
                    .any(|kind| is_all_of_a_model || !kind.is_of_model())
                {
                    StoreResult::Hit
                } else {
                    StoreResult::Miss
                }
            }
            Err(None) => StoreResult::Skipped,
            Err(Some(LedgerError::Timeout)) => StoreResult::Timeout,
            Err(Some(_)) => StoreResult::Error,
        };
        self.looked_up(result);
        matches!(result, StoreResult::Hit | StoreResult::Miss)
    }

    /// Whether no request may ask now; one that would have asked is counted.
    pub(super) fn skips(&self) -> bool {
        let skips = self.landing.breaker.blocks();
        if skips {
            self.looked_up(StoreResult::Skipped);
        }
        skips
    }

    fn looked_up(&self, result: StoreResult) {
        let store = self.landing.store;
        LedgerLookedUp { store, result }.emit(&self.landing.metrics);
    }

    /// The right to make something for so long. `None` when the store cannot say: the caller then
    /// goes on as if it were alone.
    pub(super) async fn lease(&self, key: StoreKey, lifetime: Duration) -> Option<bool> {
        self.ask(|reply| Ask::Lease(key, lifetime, reply))
            .await
            .ok()
    }

    /// Gives that right back.
    pub(super) fn release(&self, key: StoreKey) {
        // A lease that is not released ends by itself.
        let _ = self.asks.try_send(Ask::Release(key));
    }

    /// Asks the store. A failure opens the breaker; with an open one nothing is asked, and the
    /// error is `None`.
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<Result<T, LedgerError>>) -> Ask,
    ) -> Result<T, Option<LedgerError>> {
        let breaker = &self.landing.breaker;
        if !breaker.lets_through() {
            return Err(None);
        }
        let (reply, answer) = oneshot::channel();
        if self.asks.try_send(question(reply)).is_err() {
            return Err(None);
        }
        let answered = tokio::time::timeout(self.timeout, answer).await;
        let failed = match answered {
            Ok(Ok(Ok(found))) => {
                breaker.close();
                return Ok(found);
            }
            Ok(Ok(Err(kind))) => kind,
            Ok(Err(_)) => LedgerError::Unreachable,
            Err(_) => LedgerError::Timeout,
        };
        self.landing.failed(failed);
        breaker.open();
        Err(Some(failed))
    }

    /// Has an entry written, as soon as the store is ready for it.
    pub(super) fn write(&self, new: NewEntry) {
        let weight = new.entry.weight_bytes();
        let queued = &self.landing.queued;
        LedgerQueued.emit(&self.landing.metrics);
        let before = queued.fetch_add(weight, Ordering::Relaxed);
        let fits = weight <= MAX_ENTRY_BYTES && before + weight <= MAX_QUEUED_BYTES;
        if !fits || self.writes.try_send(Write::Entry(new)).is_err() {
            queued.fetch_sub(weight, Ordering::Relaxed);
            self.landing.written(WriteResult::Dropped, 1);
        }
    }

    /// Waits until everything that waits is written, but not for ever.
    pub(super) async fn flush(&self, longest: Duration) {
        let (reply, done) = oneshot::channel();
        let flushed = async {
            if self.writes.send(Write::Flush(reply)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = tokio::time::timeout(longest, flushed).await;
    }
}
