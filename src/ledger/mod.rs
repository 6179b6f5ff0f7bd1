//! Where checkpoints, summaries, reported usage and what upstreams taught are kept. A cache, not
//! the truth: what is lost costs one more compaction at worst.
//!
//! ```text
//! measures   counts and fingerprints of messages; they never leave the process
//! memory     everything else, in this process: all there is, or the near cache of a store
//! lookup     what a request asks the store for
//! store      the store as requests see it: look-ups within a deadline, writes nobody waits for
//! breaker    whether the store is asked at all
//! redb       a store in a file
//! redis      a store on a server
//! entry      what a store keeps, and how it is written down
//! seal       keys of entries, and their sealing
//! secret     the secret that both are made with
//! operate    what operators do with a store
//! ```
//!
//! A request that this process served the predecessor of finds everything in memory. Any other
//! looks up all of its keys at once, in one round trip.

mod breaker;
mod entry;
mod lookup;
mod measures;
mod memory;
pub mod operate;
mod redb;
mod redis;
mod seal;
mod secret;
mod store;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config;
use crate::config::StoreUrl;
use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;
use crate::core::planner::{
    CheckpointKey, KnownCheckpoint, KnownUsage, ModelCalibration, UsageKey,
};
use crate::core::summary::Summary;
use crate::observe::Metrics;
use crate::observe::event::{LedgerLookedUp, StoreKind, StoreResult};

pub use lookup::{Lookup, Points};
pub use measures::{Measures, Owner};
pub use memory::{Bounds, Memory};
pub use seal::{Scope, Secrets};

use entry::{Entry, Kind};
use store::{Engine, NewEntry, Store, StoreFacts};

/// Time between two looks at what other replicas learned of a model.
const REFRESH: Duration = Duration::from_secs(15);
/// Time for writes that still wait when Baler ends.
const FLUSH: Duration = Duration::from_secs(2);

/// The memory of the process, and the store behind it where there is one.
#[derive(Debug)]
pub struct Ledger {
    memory: Arc<Memory>,
    store: Option<Store>,
    secrets: Arc<Secrets>,
    metrics: Arc<Metrics>,
}

impl Ledger {
    /// A ledger in memory, with keys of this process alone.
    #[must_use]
    pub fn in_memory(config: &config::Ledger, metrics: Arc<Metrics>) -> Self {
        let secrets = match &config.secret {
            Some(secret) => Secrets::new(secret.0.as_bytes()),
            None => Secrets::random(),
        };
        Ledger {
            memory: Arc::new(Memory::new(bounds(config), Arc::clone(&metrics))),
            store: None,
            secrets: Arc::new(secrets),
            metrics,
        }
    }

    /// The ledger of a configuration; its store is open, or being connected to.
    ///
    /// # Errors
    /// When the file of the store, or of its secret, cannot be opened, or the system has no thread
    /// to give.
    pub fn open(config: &config::Ledger, metrics: Arc<Metrics>) -> io::Result<Self> {
        let mut ledger = Self::in_memory(config, Arc::clone(&metrics));
        let (kind, engine) = match &config.store {
            StoreUrl::Memory => return Ok(ledger),
            StoreUrl::Redb(path) => {
                ledger.secrets = Arc::new(secret::of_file(config, path)?);
                let (path, max_bytes) = (path.clone(), config.max_bytes);
                let file = redb::File { path, max_bytes };
                (StoreKind::Redb, Engine::Redb(file))
            }
            StoreUrl::Redis(servers) => {
                let (servers, ca) = (servers.clone(), config.ca.clone());
                let servers = redis::Servers { servers, ca };
                (StoreKind::Redis, Engine::Redis(servers))
            }
        };
        let facts = StoreFacts {
            kind,
            lifetime: config.lifetime,
            timeout: config.timeout,
            metrics,
        };
        let (memory, secrets) = (Arc::clone(&ledger.memory), Arc::clone(&ledger.secrets));
        ledger.store = Some(Store::start(engine, &facts, memory, secrets)?);
        Ok(ledger)
    }

    /// The keys that follow from the ledger's secret.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Measures of messages. They never leave the process.
    #[must_use]
    pub fn measures(&self) -> &Measures {
        &self.memory.measures
    }

    /// Waits until everything that was recorded is written, but not for ever.
    pub async fn flush(&self) {
        if let Some(store) = &self.store {
            store.flush(FLUSH).await;
        }
    }

    fn write(&self, scope: Scope, id: Fingerprint, entry: Entry, generation: u8) {
        if let Some(store) = &self.store {
            store.write(NewEntry {
                scope,
                id,
                entry,
                generation,
            });
        }
    }
}

/// Look-ups.
impl Ledger {
    /// The entries of a conversation that the store may have and memory does not; `None` when there
    /// is nothing to ask.
    #[must_use]
    pub fn missing(&self, points: &Points<'_>) -> Option<Lookup> {
        self.store.as_ref()?;
        let lookup = points.missing_in(&self.memory);
        let result = match lookup {
            None => StoreResult::Hit,
            Some(_) => StoreResult::Miss,
        };
        let store = StoreKind::Memory;
        LedgerLookedUp { store, result }.emit(&self.metrics);
        lookup
    }

    /// Asks the store for entries, all at once; what it finds is in memory afterwards.
    pub async fn fetch(&self, lookup: Lookup) {
        if let Some(store) = &self.store {
            store.fetch(lookup.wanted).await;
        }
    }

    /// Whether the store is to be asked what other replicas learned of a model, and whether short
    /// bodies for it are looked at. A request waits for that the first time only.
    #[must_use]
    pub fn refresh(&self, model: Scope) -> Refresh {
        if self.store.is_none() {
            return Refresh::NotDue;
        }
        let lookup = Lookup::of_model(model);
        match self.memory.is_due(model.group, REFRESH) {
            None => Refresh::NotDue,
            Some(false) => Refresh::Now(lookup),
            Some(true) => Refresh::Later(lookup),
        }
    }

    /// The longest checkpoint in memory under one of these keys, which are in the order of their
    /// length.
    #[must_use]
    pub fn longest_checkpoint(&self, keys: &[CheckpointKey]) -> Option<KnownCheckpoint> {
        self.memory.longest_checkpoint(keys)
    }

    /// The summary in memory of exactly this prefix.
    #[must_use]
    pub fn summary(&self, prefix: &Fingerprint) -> Option<Arc<Summary>> {
        self.memory.summary(prefix)
    }

    /// Whether the gate may let short bodies for this model through unseen.
    #[must_use]
    pub fn may_gate(&self, model: &Fingerprint) -> bool {
        self.memory.may_gate(model)
    }

    /// What memory knows of the usage of these lists, which are in the order of their length;
    /// `with_silence` also asks when the longest known one was last sent.
    #[must_use]
    pub fn known_usage(&self, keys: &[UsageKey], with_silence: bool) -> KnownUsage {
        self.memory.known_usage(keys, with_silence)
    }

    /// What is known of a model (digest of tenant, upstream and name) from the upstream's answers.
    #[must_use]
    pub fn learned(&self, model: &Fingerprint) -> ModelCalibration {
        self.memory.learned(model)
    }
}

/// When the store is asked about a model.
#[derive(Debug)]
pub enum Refresh {
    /// Not now.
    NotDue,
    /// Before the request goes on.
    Now(Lookup),
    /// Without anybody waiting.
    Later(Lookup),
}

/// Records.
impl Ledger {
    /// Keeps a checkpoint; the first one of a prefix stays, unless the new one builds on it.
    pub fn keep_checkpoint(
        &self,
        scope: Scope,
        prefix: Fingerprint,
        checkpoint: Checkpoint,
        builds_on_it: bool,
    ) {
        let checkpoint = Arc::new(checkpoint);
        let kept = Arc::clone(&checkpoint);
        let kept = self.memory.keep_checkpoint(prefix, kept, builds_on_it);
        if let Some(generation) = kept {
            self.write(scope, prefix, Entry::Checkpoint(checkpoint), generation);
        }
    }

    /// Remembers where a walk may begin, for this process alone.
    pub fn keep_resume_point(&self, prefix: Fingerprint, checkpoint: Checkpoint) {
        let checkpoint = Arc::new(checkpoint);
        self.memory.keep_checkpoint(prefix, checkpoint, true);
    }

    /// Takes note that this process served the request with this prefix, with this checkpoint in
    /// force.
    pub fn visit(&self, prefix: Fingerprint, checkpoint: Option<Fingerprint>) {
        if self.store.is_some() {
            self.memory.visit(prefix, checkpoint);
        }
    }

    /// Keeps a summary.
    pub fn keep_summary(&self, scope: Scope, prefix: Fingerprint, summary: Summary) {
        let summary = Arc::new(summary);
        self.memory.keep_summary(prefix, Arc::clone(&summary));
        self.write(scope, prefix, Entry::Summary(summary), 0);
    }

    /// Has short bodies for this model looked at from now on.
    pub fn never_gate(&self, model: Scope) {
        if self.memory.may_gate(&model.group) {
            self.memory.never_gate(model.group);
            self.write(model, model.group, Entry::Ungated, 0);
        }
    }

    /// Takes note that a list is sent now.
    pub fn sent(&self, list: Fingerprint) {
        self.memory.sent(list);
    }

    /// Keeps the prompt tokens that the upstream reported for a list. `slot` is where other
    /// replicas find them: whose they are, and the digest of the client's own list.
    pub fn keep_usage(
        &self,
        slot: Option<(Scope, Fingerprint)>,
        list: Fingerprint,
        prompt_tokens: u64,
    ) {
        self.memory.keep_usage(list, prompt_tokens);
        if let Some((scope, own)) = slot {
            self.write(scope, own, Entry::Usage(list, prompt_tokens), 0);
        }
    }

    /// Learns from a prompt that was `counted` and for which the upstream `reported` so many
    /// tokens. Says the factor.
    pub fn calibrate(&self, model: Scope, reported: u64, counted: u64) -> f64 {
        let before = self.memory.calibration(&model.group);
        let factor = self.memory.calibrate(model.group, reported, counted);
        let after = self.memory.calibration(&model.group);
        if let Some(known) = after.filter(|_| after != before) {
            self.write(model, model.group, Entry::Calibration(known), 0);
        }
        factor
    }

    /// A prompt of so many tokens was served: a window that is narrower cannot be right.
    pub fn served(&self, model: Scope, prompt_tokens: u64) {
        if self.memory.served(&model.group, prompt_tokens) {
            let gone = Entry::Window(None, seal::now());
            self.write(model, model.group, gone, 0);
        }
    }

    /// Keeps a window that an upstream told when it refused a request; of two that it told, the
    /// narrower.
    pub fn keep_window(&self, model: Scope, window: u64) {
        if self.memory.keep_window(model.group, window) {
            let known = Entry::Window(Some(window), seal::now());
            self.write(model, model.group, known, 0);
        }
    }
}

/// Summaries that one replica makes for all.
impl Ledger {
    /// Whether this process may make a summary now: no other replica is making it. Where nobody can
    /// tell, it may.
    pub async fn lease_summary(
        &self,
        scope: Scope,
        prefix: Fingerprint,
        lifetime: Duration,
    ) -> bool {
        let Some(store) = &self.store else {
            return true;
        };
        let key = self.secrets.key(&scope, Kind::Summary, &prefix);
        store.lease(key, lifetime).await.unwrap_or(true)
    }

    /// Another replica may make the summary, if it is not there.
    pub fn release_summary(&self, scope: Scope, prefix: Fingerprint) {
        if let Some(store) = &self.store {
            store.release(self.secrets.key(&scope, Kind::Summary, &prefix));
        }
    }

    /// Waits for a summary that another replica is making, at most until `end`. Returns whether it
    /// is there.
    pub async fn await_summary(&self, scope: Scope, prefix: Fingerprint, end: Instant) -> bool {
        const LOOK: Duration = Duration::from_millis(250);
        self.memory.await_summary(prefix);
        loop {
            let lookup = Lookup {
                wanted: vec![(scope, (Kind::Summary, prefix))],
            };
            self.fetch(lookup).await;
            if self.memory.summary(&prefix).is_some() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn bounds(config: &config::Ledger) -> Bounds {
    Bounds {
        bytes: config.memory_bytes,
        messages: config.messages,
        lifetime: config.lifetime,
        window_lifetime: config.window_lifetime,
    }
}
