//! Where checkpoints, summaries, reported usage and what upstreams taught are kept. A cache, not
//! the truth: what is lost costs one more compaction at worst.
//!
//! ```text
//! measures   counts and fingerprints of messages; they never leave the process
//! openings   where the first messages of bodies stand, and their measures; as private
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
mod openings;
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
    CheckpointKey, Evidence, KnownCheckpoint, KnownUsage, ModelCalibration, UsageKey,
};
use crate::core::summary::Summary;
use crate::observe::Metrics;
use crate::observe::event::{LedgerLookedUp, StoreKind, StoreResult};

pub use lookup::{Lookup, Points};
pub use measures::{Measures, Owner};
pub use memory::{Bounds, Memory};
pub use openings::{Beginning, KnownOpening, Openings};
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

    /// Whether there is a store behind the memory.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.store.is_some()
    }

    /// Measures of messages. They never leave the process.
    #[must_use]
    pub fn measures(&self) -> &Measures {
        &self.memory.measures
    }

    /// What is known of the openings of bodies. It never leaves the process, either.
    #[must_use]
    pub fn openings(&self) -> &Openings {
        &self.memory.openings
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
    /// The entries of a conversation that the store may have and memory does not.
    #[must_use]
    pub fn missing(&self, points: &Points<'_>) -> Missing {
        let Some(asked) = &self.store else {
            return Missing::Nothing;
        };
        let lookup = points.missing_in(&self.memory);
        let result = match lookup {
            None => StoreResult::Hit,
            Some(_) => StoreResult::Miss,
        };
        let store = StoreKind::Memory;
        LedgerLookedUp { store, result }.emit(&self.metrics);
        match lookup {
            None => Missing::Nothing,
            Some(_) if asked.skips() => Missing::Unknown,
            Some(lookup) => Missing::Entries(lookup),
        }
    }

    /// Asks the store for entries, all at once; what it finds is in memory afterwards. Returns
    /// whether it answered.
    pub async fn fetch(&self, lookup: Lookup) -> bool {
        match &self.store {
            Some(store) => store.fetch(lookup.wanted).await,
            None => true,
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

    /// What was reported for the longest of these prefixes that has a report, and its length; they
    /// are in the order of their length.
    #[must_use]
    pub fn evidence(&self, prefixes: &[CheckpointKey]) -> Option<(usize, Evidence)> {
        self.memory.evidence(prefixes)
    }

    /// What is known of a model (digest of tenant, upstream and name) from the upstream's answers;
    /// the factor that is `expected` where there were none.
    #[must_use]
    pub fn learned(&self, model: &Fingerprint, expected: f64) -> ModelCalibration {
        self.memory.learned(model, expected)
    }
}

/// What memory does not know of a conversation.
#[derive(Debug)]
pub enum Missing {
    /// Nothing that another process could.
    Nothing,
    /// The store may know more, and cannot be asked now.
    Unknown,
    /// These entries, if they are in the store.
    Entries(Lookup),
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

    /// Keeps what was reported for a conversation; other replicas find it in its scope.
    pub fn keep_evidence(&self, scope: Option<Scope>, prefix: Fingerprint, evidence: Evidence) {
        self.memory.keep_evidence(prefix, evidence);
        if let Some(scope) = scope {
            self.write(scope, prefix, Entry::Evidence(evidence), 0);
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::config::Hidden;
    use crate::core::edit::{Edit, Replacement};
    use crate::core::summary::Spent;
    use crate::core::tokens::{Calibration, Encoding, FactorStep};
    use crate::core::wire::Dialect;

    /// A secret for files that are no secret.
    const SECRET: &str = "the secret of the files in tests/corpus/ledger";

    fn corpus() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/ledger")
    }

    fn scope() -> Scope {
        Scope {
            tenant: Fingerprint::of(b"tenant"),
            group: Fingerprint::of(b"conversation"),
        }
    }

    /// One entry of each kind, with everything that an entry of it can hold.
    fn entries() -> Vec<(Fingerprint, Entry)> {
        let new = |text: &str| {
            let json = format!(r#"{{"role":"user","content":"{text}"}}"#);
            Replacement::new(Dialect::ChatCompletions, json, Encoding::O200K).unwrap()
        };
        let edits = [
            Edit::Keep,
            Edit::Drop,
            Edit::Replace(Arc::new(new("one"))),
            Edit::Stand([new("two"), new("three")].into()),
        ];
        let summary = Summary {
            text: "A summary.".into(),
            tokens: 3,
            generation: 2,
            incremental: true,
            split: false,
            spent: Spent {
                calls: 1,
                prompt_tokens: 900,
                completion_tokens: 60,
                took: Duration::from_millis(1_234),
            },
        };
        let id = |name: &str| Fingerprint::of(name.as_bytes());
        let known = Calibration::default().learn(1_300, 1_000);
        vec![
            (
                id("checkpoint"),
                Entry::Checkpoint(Arc::new(Checkpoint::from_edits(edits.into()))),
            ),
            (id("summary"), Entry::Summary(Arc::new(summary))),
            (id("usage"), Entry::Usage(id("list"), 4_711)),
            (id("window"), Entry::Window(Some(8_192), 1_700_000_000)),
            (id("wrong window"), Entry::Window(None, 1_700_000_000)),
            (id("calibration"), Entry::Calibration(known)),
            (id("ungated"), Entry::Ungated),
            (
                id("evidence"),
                Entry::Evidence(Evidence {
                    reported: 4_711,
                    counted: 4_000,
                    step: FactorStep::nearest(1.15),
                }),
            ),
        ]
    }

    /// A checkpoint with a digest that was given more than it takes.
    fn with_room() -> (Fingerprint, Entry) {
        let json = r#"{"role":"user","content":"a digest"}"#.to_owned();
        let new = Replacement::new(Dialect::ChatCompletions, json, Encoding::O200K).unwrap();
        let edits = [Edit::Keep, Edit::Stand([new.in_room(300)].into())];
        let checkpoint = Checkpoint::from_edits(edits.into());
        let id = Fingerprint::of(b"checkpoint with room");
        (id, Entry::Checkpoint(Arc::new(checkpoint)))
    }

    /// Written forms of version 1, a line each: key and bytes in hexadecimal.
    #[test]
    fn entries_of_version_1_are_read_for_ever() {
        let secrets = Secrets::new(SECRET.as_bytes());
        let file = corpus().join("version-1.txt");
        let hex =
            |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        if std::env::var_os("BALER_WRITE_LEDGER").is_some() {
            let for_ever = Duration::from_hours(24 * 365 * 1_000);
            let entries = entries().into_iter().chain([with_room()]);
            let lines = entries.map(|(id, entry)| {
                let at = (&scope(), &id);
                let sealed = secrets.seal(at, &entry, 1, for_ever).unwrap();
                format!("{} {}\n", hex(&sealed.key.0), hex(&sealed.blob))
            });
            std::fs::create_dir_all(corpus()).unwrap();
            std::fs::write(&file, lines.collect::<String>()).unwrap();
        }
        let text = std::fs::read_to_string(file).unwrap();
        let bytes = |hex: &str| -> Vec<u8> {
            let (pairs, _) = hex.as_bytes().as_chunks::<2>();
            let byte = |pair: &[u8; 2]| {
                u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()
            };
            pairs.iter().map(byte).collect()
        };
        let mut known = entries();
        known.push(with_room());
        assert_eq!(text.lines().count(), known.len());
        for (line, (id, entry)) in text.lines().zip(known) {
            let (key, blob) = line.split_once(' ').unwrap();
            let found = secrets.key(&scope(), entry.kind(), &id);
            assert_eq!(bytes(key), found.0, "{entry:?}");
            let (opened, header) = secrets.open(&scope().tenant, &found, &bytes(blob)).unwrap();
            assert_eq!((opened, header.generation), (entry, 1));
        }
    }

    fn config(file: &Path) -> config::Ledger {
        let mut config = crate::config::load(&crate::config::Sources::default())
            .unwrap()
            .ledger;
        config.store = StoreUrl::Redb(file.to_owned());
        config.secret = Some(Hidden(SECRET.to_owned()));
        config.timeout = Duration::from_secs(20);
        config
    }

    fn metrics() -> Arc<Metrics> {
        Arc::new(Metrics::new().unwrap())
    }

    /// A whole file of version 1, as a process left it.
    #[tokio::test]
    async fn a_file_of_version_1_is_read_for_ever() {
        use flate2::Compression;
        use flate2::read::{GzDecoder, GzEncoder};
        use std::io::Read;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.redb");
        let stored = corpus().join("version-1.redb.gz");
        if std::env::var_os("BALER_WRITE_LEDGER").is_some() {
            let for_ever = config::Ledger {
                lifetime: Duration::from_hours(24 * 365 * 1_000),
                ..config(&file)
            };
            let ledger = Ledger::open(&for_ever, metrics()).unwrap();
            for (id, entry) in entries() {
                ledger.write(scope(), id, entry, 0);
            }
            ledger.flush().await;
            let bytes = std::fs::read(&file).unwrap();
            let mut packed = Vec::new();
            GzEncoder::new(bytes.as_slice(), Compression::best())
                .read_to_end(&mut packed)
                .unwrap();
            std::fs::write(&stored, packed).unwrap();
            std::fs::remove_file(&file).unwrap();
        }
        let mut bytes = Vec::new();
        GzDecoder::new(std::fs::read(stored).unwrap().as_slice())
            .read_to_end(&mut bytes)
            .unwrap();
        std::fs::write(&file, bytes).unwrap();
        let ledger = Ledger::open(&config(&file), metrics()).unwrap();
        let wanted = entries()
            .into_iter()
            .map(|(id, entry)| (scope(), (entry.kind(), id)));
        ledger
            .fetch(Lookup {
                wanted: wanted.collect(),
            })
            .await;
        for (id, entry) in entries() {
            let key = |messages| CheckpointKey {
                messages,
                prefix: id,
            };
            match entry {
                Entry::Checkpoint(checkpoint) => {
                    let known = ledger.longest_checkpoint(&[key(4)]).unwrap();
                    assert_eq!(known.checkpoint, checkpoint);
                }
                Entry::Summary(summary) => assert_eq!(ledger.summary(&id).unwrap(), summary),
                Entry::Usage(list, tokens) => {
                    let list = UsageKey {
                        messages: 4,
                        list,
                        counted: 1,
                    };
                    let known = ledger.known_usage(&[list], false);
                    assert_eq!(known.reported, Some((4, tokens)));
                }
                // It is older than windows live.
                Entry::Window(..) => assert_eq!(ledger.learned(&id, 1.0).window, None),
                Entry::Calibration(known) => {
                    assert_eq!(ledger.memory.calibration(&id), Some(known));
                }
                Entry::Ungated => assert!(!ledger.may_gate(&id)),
                Entry::Evidence(known) => {
                    assert_eq!(ledger.evidence(&[key(4)]), Some((4, known)));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_file_stays_within_its_bound_and_the_oldest_leave_first() {
        let (folder, metrics) = (tempfile::tempdir().unwrap(), metrics());
        let file = folder.path().join("ledger.redb");
        let max_bytes = 16 << 20;
        let bounded = config::Ledger {
            max_bytes,
            ..config(&file)
        };
        let ledger = Ledger::open(&bounded, Arc::clone(&metrics)).unwrap();
        let id = |n: u32| Fingerprint::of(&n.to_le_bytes());
        let long = std::env::var_os("BALER_LONG").is_some();
        let count: u32 = if long { 200_000 } else { 6_000 };
        let mut largest = 0;
        for n in 0..count {
            let text = format!("{n} {}", "x".repeat((n as usize * 7) % 9_000));
            let summary = Summary {
                text: text.into(),
                tokens: 1,
                generation: 1,
                incremental: false,
                split: false,
                spent: Spent::default(),
            };
            ledger.write(scope(), id(n), Entry::Summary(Arc::new(summary)), 0);
            if n % 500 == 0 {
                ledger.flush().await;
                largest = largest.max(std::fs::metadata(&file).unwrap().len());
            }
        }
        ledger.flush().await;
        println!("{count} summaries: the file took {largest} of {max_bytes} bytes at most");
        assert!(largest <= max_bytes);
        for (n, is_kept) in [(count - 1, true), (0, false)] {
            let wanted = vec![(scope(), (Kind::Summary, id(n)))];
            ledger.fetch(Lookup { wanted }).await;
            assert_eq!(ledger.summary(&id(n)).is_some(), is_kept, "{n}");
        }
    }
}
