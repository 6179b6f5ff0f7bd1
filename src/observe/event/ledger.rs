//! The ledger: look-ups, writes, failures, and how much it holds.

use std::path::Path;
use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tracing::{info, warn};

use crate::observe::Metrics;
use crate::observe::event::gauge_value;
use crate::observe::label::{Label, labels};
use crate::observe::registry::{LabelDescription, Registered, Registrar, Series};

labels! {
    /// The kinds of stores.
    pub enum StoreKind {
        /// The memory of the process.
        Memory = "memory",
        /// An embedded database.
        Redb = "redb",
        /// A server that speaks the protocol of Redis.
        Redis = "redis",
    }
}

labels! {
    /// What a look-up came to.
    pub enum StoreResult {
        /// Something was found; in memory: nothing else had to be asked.
        Hit = "hit",
        /// Nothing was found; in memory: the store may know more.
        Miss = "miss",
        /// The store failed.
        Error = "error",
        /// The store did not answer in time.
        Timeout = "timeout",
        /// The store was not asked, because it failed before.
        Skipped = "skipped",
    }
}

labels! {
    /// What became of a write.
    pub enum WriteResult {
        /// It was written.
        Written = "written",
        /// Another replica was first: its entry is used.
        Lost = "lost",
        /// The queue was full, or the entry too large.
        Dropped = "dropped",
        /// The store failed.
        Failed = "failed",
    }
}

labels! {
    /// What went wrong with a store.
    pub enum LedgerError {
        /// No connection, or the file cannot be opened.
        Unreachable = "unreachable",
        /// No answer in time.
        Timeout = "timeout",
        /// The server refused a command.
        Refused = "refused",
        /// Reading or writing failed.
        Io = "io",
        /// The file is damaged.
        Corrupt = "corrupt",
        /// An entry is sealed by another secret or tenant, or damaged.
        Unsealable = "unsealable",
        /// An entry is of another version.
        Version = "version",
    }
}

labels! {
    /// Why an entry left.
    pub enum EvictionReason {
        /// There was no room.
        Size = "size",
        /// Its lifetime was over.
        Lifetime = "lifetime",
    }
}

labels! {
    /// What a store is asked to do.
    pub enum StoreOperation {
        /// To look entries up.
        Fetch = "fetch",
        /// To write entries.
        Write = "write",
    }
}

const SECONDS_BUCKETS: [f64; 12] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.25, 1.0,
];

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct LedgerMetrics {
    lookups: Series<(StoreKind, StoreResult), IntCounter>,
    seconds: Series<StoreOperation, Histogram>,
    writes: Series<WriteResult, IntCounter>,
    errors: Series<LedgerError, IntCounter>,
    waiting: IntGauge,
    breaker: IntGauge,
    entries: Series<StoreKind, IntGauge>,
    bytes: Series<StoreKind, IntGauge>,
    evictions: Series<(StoreKind, EvictionReason), IntCounter>,
}

impl LedgerMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let store = || LabelDescription::of::<StoreKind>("store");
        Ok(LedgerMetrics {
            lookups: by_store(&registrar.counters(
                "baler_ledger_lookups_total",
                "Requests that looked entries up, by store and result.",
                vec![store(), LabelDescription::of::<StoreResult>("result")],
            )?),
            seconds: registrar.histogram_by(
                "baler_ledger_seconds",
                "Time that the store took, by operation.",
                "operation",
                &SECONDS_BUCKETS,
            )?,
            writes: registrar.counter_by(
                "baler_ledger_writes_total",
                "Entries for the store, by what became of them.",
                "result",
            )?,
            errors: registrar.counter_by(
                "baler_ledger_errors_total",
                "Failures of the store, by kind.",
                "kind",
            )?,
            waiting: registrar.gauge(
                "baler_ledger_writes_waiting",
                "Entries that wait to be written to the store.",
            )?,
            breaker: registrar.gauge(
                "baler_ledger_breaker_open",
                "Whether the store is not asked because it failed.",
            )?,
            entries: of_stores(&registrar.gauges(
                "baler_ledger_entries",
                "Entries that a store holds.",
                vec![store()],
            )?),
            bytes: of_stores(&registrar.gauges(
                "baler_ledger_bytes",
                "Bytes that a store takes.",
                vec![store()],
            )?),
            evictions: by_store(&registrar.counters(
                "baler_ledger_evictions_total",
                "Entries that left a store, by reason.",
                vec![store(), LabelDescription::of::<EvictionReason>("reason")],
            )?),
        })
    }
}

/// The counters of every store, by a further label.
fn by_store<L: Label>(counters: &IntCounterVec) -> Series<(StoreKind, L), IntCounter> {
    let stores = StoreKind::all().into_iter();
    let keys = stores.flat_map(|store| L::all().into_iter().map(move |label| (store, label)));
    Series::new(keys, |(store, label)| {
        counters.with_label_values(&[store.as_str(), label.as_str()])
    })
}

/// The gauges of every store.
fn of_stores(gauges: &IntGaugeVec) -> Series<StoreKind, IntGauge> {
    Series::new(StoreKind::all(), |store| {
        gauges.with_label_values(&[store.as_str()])
    })
}

/// A request looked entries up.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerLookedUp {
    pub store: StoreKind,
    pub result: StoreResult,
}

impl LedgerLookedUp {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.lookups.inc((self.store, self.result));
    }
}

/// A store did something.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerTimed {
    pub operation: StoreOperation,
    pub took: Duration,
}

impl LedgerTimed {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let seconds = self.took.as_secs_f64();
        metrics.ledger.seconds.observe(self.operation, seconds);
    }
}

/// An entry waits to be written. Until the store has it, or never will, it counts as waiting.
#[derive(Debug)]
pub struct LedgerQueued;

impl LedgerQueued {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.waiting.inc();
    }
}

/// Entries were to be written.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerWritten {
    pub result: WriteResult,
    pub entries: u64,
}

impl LedgerWritten {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.writes.inc_by(self.result, self.entries);
        metrics.ledger.waiting.sub(gauge_value(self.entries));
    }
}

/// A store failed.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerFailed {
    pub kind: LedgerError,
}

impl LedgerFailed {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.errors.inc(self.kind);
    }
}

/// A store is not asked any more, or again.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerBreaker {
    pub store: StoreKind,
    pub open: bool,
}

impl LedgerBreaker {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.breaker.set(i64::from(self.open));
        let store = self.store.as_str();
        if self.open {
            warn!(
                store,
                "the ledger's store does not answer: requests go on with local memory"
            );
        } else {
            info!(store, "the ledger's store answers");
        }
    }
}

/// A store holds so much.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerSize {
    pub store: StoreKind,
    pub entries: u64,
    pub bytes: u64,
}

impl LedgerSize {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let ledger = &metrics.ledger;
        let of_store = |gauges: &Series<StoreKind, IntGauge>, value: u64| {
            if let Some(gauge) = gauges.of(self.store) {
                gauge.set(gauge_value(value));
            }
        };
        of_store(&ledger.entries, self.entries);
        of_store(&ledger.bytes, self.bytes);
    }
}

/// Entries left a store.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct LedgerEvicted {
    pub store: StoreKind,
    pub reason: EvictionReason,
    pub entries: u64,
}

impl LedgerEvicted {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let evictions = &metrics.ledger.evictions;
        evictions.inc_by((self.store, self.reason), self.entries);
    }
}

/// The file of a store cannot be read, and a fresh one is begun.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct LedgerSetAside<'a> {
    pub file: &'a Path,
    pub aside: &'a Path,
}

impl LedgerSetAside<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.ledger.errors.inc(LedgerError::Corrupt);
        warn!(
            file = %self.file.display(),
            set_aside = %self.aside.display(),
            "the ledger's file cannot be read: it was set aside, and a fresh one is begun"
        );
    }
}

/// No connection to the store's server could be made.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct LedgerUnreachable<'a> {
    pub category: &'a str,
    pub code: Option<&'a str>,
}

impl LedgerUnreachable<'_> {
    /// Writes it down.
    pub fn emit(self) {
        warn!(
            reason = self.category,
            code = self.code,
            "cannot connect to the ledger's store; trying again"
        );
    }
}
