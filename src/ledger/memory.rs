//! The ledger in memory: caches, each bounded, the least used entries leave first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter, Weighter};

use super::{Measures, Openings};
use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;
use crate::core::planner::{
    CheckpointKey, Evidence, KnownCheckpoint, KnownUsage, ModelCalibration, UsageKey,
};
use crate::core::summary::Summary;
use crate::core::tokens::Calibration;
use crate::observe::Metrics;
use crate::observe::event::{EvictionReason, LedgerEvicted, LedgerSize, StoreKind};

/// Bytes that one entry of reported usage takes, bookkeeping included.
const USAGE_BYTES: u64 = 128;
/// Bytes that the memory of a request point takes, bookkeeping included; of these there are about
/// as many as of reported usage.
const VISIT_BYTES: u64 = 1_024;
/// Bytes of bookkeeping around a checkpoint.
const ENTRY_BYTES: u64 = 128;

/// A value, and until when it is kept.
#[derive(Debug, Clone)]
struct Kept<V> {
    value: V,
    until: Instant,
    /// How often it took the place of another under its key.
    generation: u8,
}

#[derive(Debug, Clone)]
struct CheckpointWeight;

impl Weighter<Fingerprint, Kept<Arc<Checkpoint>>> for CheckpointWeight {
    fn weight(&self, _: &Fingerprint, kept: &Kept<Arc<Checkpoint>>) -> u64 {
        kept.value.weight_bytes() as u64 + ENTRY_BYTES
    }
}

#[derive(Debug, Clone)]
struct SummaryWeight;

impl Weighter<Fingerprint, Kept<Arc<Summary>>> for SummaryWeight {
    fn weight(&self, _: &Fingerprint, kept: &Kept<Arc<Summary>>) -> u64 {
        kept.value.text.len() as u64 + ENTRY_BYTES
    }
}

/// Counts the entries that leave for want of room.
#[derive(Debug, Clone)]
struct Evictions(Arc<Metrics>);

impl<K, V> Lifecycle<K, V> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _: K, _: V) {
        LedgerEvicted {
            store: StoreKind::Memory,
            reason: EvictionReason::Size,
            entries: 1,
        }
        .emit(&self.0);
    }
}

/// A cache whose evictions are counted.
type Counted<V, W> = Cache<Fingerprint, Kept<V>, W, DefaultHashBuilder, Evictions>;

/// A request point that this process served, and the checkpoint that was in force there.
#[derive(Debug, Clone, Copy)]
struct Visit {
    checkpoint: Option<Fingerprint>,
}

/// Checkpoints and summaries by prefix, reported usage by list, measures by raw message. Before a
/// store that is shared it is the near cache.
#[derive(Debug)]
pub struct Memory {
    checkpoints: Counted<Arc<Checkpoint>, CheckpointWeight>,
    summaries: Counted<Arc<Summary>, SummaryWeight>,
    usage: Counted<u64, UnitWeighter>,
    /// What was reported for conversations, by the client's own list.
    evidence: Counted<Evidence, UnitWeighter>,
    /// Measures by exact bytes. They never leave the process.
    pub measures: Measures,
    /// The openings of bodies. They never leave the process, either.
    pub openings: Openings,
    /// Models that have a checkpoint for a body so short that the gate would let it through.
    ungated: Cache<Fingerprint, ()>,
    /// When a list was last sent.
    sent: Cache<Fingerprint, Instant>,
    /// Request points that this process served: another replica knows nothing newer about the
    /// conversation up to there.
    visits: Cache<Fingerprint, Visit>,
    /// Summaries that another replica is making.
    awaited: Cache<Fingerprint, ()>,
    /// Models that the store was asked about, and when.
    asked: Cache<Fingerprint, Instant>,
    /// How upstreams count, by tenant, upstream and model.
    calibrations: Cache<Fingerprint, Calibration>,
    /// Windows that upstreams told when they refused a request, by tenant, upstream and model, and
    /// since when they are known.
    windows: Cache<Fingerprint, (u64, Instant)>,
    window_lifetime: Duration,
    lifetime: Duration,
    metrics: Arc<Metrics>,
}

/// Bounds of the memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// For checkpoints and usage, bytes.
    pub bytes: u64,
    /// Measures of messages.
    pub messages: u64,
    /// Time that checkpoints, summaries and usage are kept.
    pub lifetime: Duration,
    /// Time that learned windows are kept.
    pub window_lifetime: Duration,
}

impl Memory {
    /// An empty memory within these bounds.
    #[must_use]
    pub fn new(bounds: Bounds, metrics: Arc<Metrics>) -> Self {
        let half = bounds.bytes / 2;
        // Summaries are few and short beside checkpoints, which hold them as well.
        let eighth = half / 4;
        let checkpoints = half - eighth;
        let items = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let usage = (half / USAGE_BYTES / 2).max(64);
        Memory {
            checkpoints: counted(checkpoints / 4_096, checkpoints, CheckpointWeight, &metrics),
            summaries: counted(eighth / 4_096, eighth, SummaryWeight, &metrics),
            usage: counted(usage, usage, UnitWeighter, &metrics),
            evidence: counted(usage, usage, UnitWeighter, &metrics),
            measures: Measures::new(items(bounds.messages)),
            openings: Openings::new(bounds.messages),
            ungated: Cache::new(16_384),
            sent: Cache::new(16_384),
            visits: Cache::new(items(half / VISIT_BYTES).max(64)),
            awaited: Cache::new(1_024),
            asked: Cache::new(16_384),
            calibrations: Cache::new(16_384),
            windows: Cache::new(16_384),
            window_lifetime: bounds.window_lifetime,
            lifetime: bounds.lifetime,
            metrics,
        }
    }

    fn kept<V>(&self, value: V, generation: u8) -> Kept<V> {
        let now = Instant::now();
        Kept {
            value,
            generation,
            until: now.checked_add(self.lifetime).unwrap_or(now),
        }
    }

    /// Tells how much is kept.
    fn measure(&self) {
        let small = self.usage.len() + self.evidence.len();
        let entries = self.checkpoints.len() + self.summaries.len() + small;
        LedgerSize {
            store: StoreKind::Memory,
            entries: entries as u64,
            bytes: self.bytes(),
        }
        .emit(&self.metrics);
    }

    /// Bytes that checkpoints, summaries and usage take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let usage = (self.usage.len() + self.evidence.len()) as u64 * USAGE_BYTES;
        self.checkpoints.weight() + self.summaries.weight() + usage
    }

    /// Keeps a checkpoint; the first one of a prefix stays, unless the new one builds on it.
    /// Returns its generation, or `None` when it is not kept.
    pub fn keep_checkpoint(
        &self,
        prefix: Fingerprint,
        checkpoint: Arc<Checkpoint>,
        builds_on_it: bool,
    ) -> Option<u8> {
        let generation = match live(&self.checkpoints, &prefix) {
            None => 0,
            Some(known) if builds_on_it => known.generation.saturating_add(1),
            Some(_) => return None,
        };
        self.put_checkpoint(prefix, checkpoint, generation);
        Some(generation)
    }

    /// Keeps the checkpoint that all replicas use, whatever was kept before.
    pub(super) fn put_checkpoint(
        &self,
        prefix: Fingerprint,
        checkpoint: Arc<Checkpoint>,
        generation: u8,
    ) {
        let kept = self.kept(checkpoint, generation);
        self.checkpoints.insert(prefix, kept);
        self.measure();
    }

    /// The longest checkpoint that is kept under one of these keys, which are in the order of their
    /// length.
    #[must_use]
    pub fn longest_checkpoint(&self, keys: &[CheckpointKey]) -> Option<KnownCheckpoint> {
        keys.iter().rev().find_map(|key| {
            Some(KnownCheckpoint {
                messages: key.messages,
                checkpoint: live(&self.checkpoints, &key.prefix)?.value,
            })
        })
    }

    /// Takes note that this process served the request with this prefix, with this checkpoint in
    /// force.
    pub(super) fn visit(&self, prefix: Fingerprint, checkpoint: Option<Fingerprint>) {
        self.visits.insert(prefix, Visit { checkpoint });
    }

    /// The number of these keys, shortest first, up to which this process knows all that there is
    /// to know: it served the last of them, and still has the checkpoint that was in force.
    pub(super) fn known_up_to(&self, keys: &[CheckpointKey]) -> usize {
        let is_known = |key: &CheckpointKey| {
            self.visits.get(&key.prefix).is_some_and(|visit| {
                visit
                    .checkpoint
                    .is_none_or(|prefix| live(&self.checkpoints, &prefix).is_some())
            })
        };
        keys.iter().rposition(is_known).map_or(0, |at| at + 1)
    }

    /// The summary of exactly this prefix.
    #[must_use]
    pub fn summary(&self, prefix: &Fingerprint) -> Option<Arc<Summary>> {
        live(&self.summaries, prefix).map(|kept| kept.value)
    }

    /// Keeps a summary.
    pub fn keep_summary(&self, prefix: Fingerprint, summary: Arc<Summary>) {
        self.awaited.remove(&prefix);
        self.summaries.insert(prefix, self.kept(summary, 0));
        self.measure();
    }

    /// Takes note that another replica is making a summary.
    pub(super) fn await_summary(&self, prefix: Fingerprint) {
        self.awaited.insert(prefix, ());
    }

    /// Whether another replica is, or was, making a summary that is not known here.
    pub(super) fn is_awaited(&self, prefix: &Fingerprint) -> bool {
        self.awaited.get(prefix).is_some()
    }

    /// Whether the store is to be asked about a model now: when it never was, and now and then.
    /// Returns whether it was asked before.
    pub(super) fn is_due(&self, model: Fingerprint, every: Duration) -> Option<bool> {
        let asked = self.asked.get(&model);
        if asked.is_some_and(|then| then.elapsed() < every) {
            return None;
        }
        self.asked.insert(model, Instant::now());
        Some(asked.is_some())
    }

    /// Whether the gate may let short bodies for this model through unseen.
    #[must_use]
    pub fn may_gate(&self, model: &Fingerprint) -> bool {
        self.ungated.get(model).is_none()
    }

    /// From now on every body for this model is looked at.
    pub fn never_gate(&self, model: Fingerprint) {
        self.ungated.insert(model, ());
    }

    /// Takes note that a list is sent now.
    pub fn sent(&self, list: Fingerprint) {
        self.sent.insert(list, Instant::now());
    }

    /// What is known of the usage of these lists, which are in the order of their length;
    /// `with_silence` also asks when the longest known one was last sent.
    #[must_use]
    pub fn known_usage(&self, keys: &[UsageKey], with_silence: bool) -> KnownUsage {
        let newest = || keys.iter().rev();
        let reported =
            newest().find_map(|key| Some((key.messages, live(&self.usage, &key.list)?.value)));
        let sent = newest()
            .filter(|_| with_silence)
            .find_map(|key| self.sent.get(&key.list));
        KnownUsage {
            reported,
            silence: sent.map(|then| then.elapsed()),
        }
    }

    /// Keeps the prompt tokens that the upstream reported for a list.
    pub fn keep_usage(&self, list: Fingerprint, prompt_tokens: u64) {
        self.usage.insert(list, self.kept(prompt_tokens, 0));
        self.measure();
    }

    /// What was reported for the longest of these prefixes that has a report, and its length; they
    /// are in the order of their length.
    #[must_use]
    pub fn evidence(&self, prefixes: &[CheckpointKey]) -> Option<(usize, Evidence)> {
        let mut newest = prefixes.iter().rev();
        newest.find_map(|key| Some((key.messages, live(&self.evidence, &key.prefix)?.value)))
    }

    /// Keeps what was reported for a conversation.
    pub fn keep_evidence(&self, prefix: Fingerprint, evidence: Evidence) {
        self.evidence.insert(prefix, self.kept(evidence, 0));
    }

    /// What is known of a model (digest of tenant, upstream and name) from the upstream's answers;
    /// the factor that is `expected` where there were none.
    #[must_use]
    pub fn learned(&self, model: &Fingerprint, expected: f64) -> ModelCalibration {
        let calibration = self.calibrations.get(model);
        ModelCalibration {
            window: self.window(model),
            factor: calibration.map_or(expected, Calibration::factor),
        }
    }

    /// The window that the upstream told of a model.
    fn window(&self, model: &Fingerprint) -> Option<u64> {
        let (window, since) = self.windows.get(model)?;
        (since.elapsed() < self.window_lifetime).then_some(window)
    }

    /// Learns from a prompt that was `counted` and for which the upstream `reported` so many
    /// tokens. Says the factor.
    pub fn calibrate(&self, model: Fingerprint, reported: u64, counted: u64) -> f64 {
        // Two answers at a time may lose one lesson of the two.
        let known = self
            .calibrations
            .get(&model)
            .unwrap_or_default()
            .learn(reported, counted);
        self.calibrations.insert(model, known);
        known.factor()
    }

    /// A prompt of so many tokens was served: a window that is narrower cannot be right. Returns
    /// whether one was forgotten.
    pub fn served(&self, model: &Fingerprint, prompt_tokens: u64) -> bool {
        let is_wrong = self
            .windows
            .get(model)
            .is_some_and(|(window, _)| prompt_tokens > window);
        if is_wrong {
            self.windows.remove(model);
        }
        is_wrong
    }

    /// Keeps a window that an upstream told when it refused a request; of two that it told, the
    /// narrower. Returns whether it was kept.
    pub fn keep_window(&self, model: Fingerprint, window: u64) -> bool {
        let known = self.window(&model).filter(|known| *known < window);
        if known.is_none() {
            self.windows.insert(model, (window, Instant::now()));
        }
        known.is_none()
    }

    /// What another replica learned of a model's window, so long ago; `None` when it was found to
    /// be wrong.
    pub(super) fn adopt_window(&self, model: Fingerprint, window: Option<u64>, age: Duration) {
        let since = Instant::now().checked_sub(age);
        match (window, since) {
            (Some(window), Some(since)) => {
                self.windows.insert(model, (window, since));
            }
            (None, Some(_)) => drop(self.windows.remove(&model)),
            (_, None) => {}
        }
    }

    /// How a model's upstream counts, as far as known here.
    pub(super) fn calibration(&self, model: &Fingerprint) -> Option<Calibration> {
        self.calibrations.get(model)
    }

    /// What another replica learned of how a model's upstream counts, unless more was learned here
    /// meanwhile.
    pub(super) fn adopt_calibration(&self, model: Fingerprint, calibration: Calibration) {
        let known = self.calibrations.get(&model);
        if known.is_none_or(|known| known.weight() < calibration.weight()) {
            self.calibrations.insert(model, calibration);
        }
    }
}

fn counted<V: Clone, W: Weighter<Fingerprint, Kept<V>> + Clone>(
    entries: u64,
    weight: u64,
    weighter: W,
    metrics: &Arc<Metrics>,
) -> Counted<V, W> {
    let entries = usize::try_from(entries).unwrap_or(usize::MAX).max(64);
    let evictions = Evictions(Arc::clone(metrics));
    Cache::with(
        entries,
        weight,
        weighter,
        DefaultHashBuilder::default(),
        evictions,
    )
}

/// A value whose lifetime is not over.
fn live<V: Clone, W: Weighter<Fingerprint, Kept<V>> + Clone>(
    cache: &Counted<V, W>,
    key: &Fingerprint,
) -> Option<Kept<V>> {
    let kept = cache.get(key)?;
    if kept.until > Instant::now() {
        return Some(kept);
    }
    cache.remove(key);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(lifetime: Duration, window_lifetime: Duration) -> Memory {
        let bounds = Bounds {
            bytes: 1 << 20,
            messages: 1_000,
            lifetime,
            window_lifetime,
        };
        Memory::new(bounds, Arc::new(Metrics::new().unwrap()))
    }

    const LONG: Duration = Duration::from_secs(60);

    use crate::core::edit::{Edit, Replacement};
    use crate::core::tokens::Encoding;
    use crate::core::wire::Dialect;

    #[test]
    fn checkpoints_never_take_more_than_their_half() {
        let ledger = memory(LONG, LONG);
        let text = "x".repeat(10_000);
        let raw = format!(r#"{{"role":"user","content":"{text}"}}"#);
        for n in 0..1_000_u32 {
            let dialect = Dialect::ChatCompletions;
            let measures = [dialect.measure(&raw, Encoding::O200K).unwrap()];
            let new = Replacement::new(dialect, raw.clone(), Encoding::O200K).unwrap();
            ledger.keep_checkpoint(
                Fingerprint::of(&n.to_le_bytes()),
                Arc::new(Checkpoint::freeze(
                    &measures,
                    &[Edit::Replace(Arc::new(new))],
                    1,
                )),
                false,
            );
            assert!(ledger.checkpoints.weight() <= 1 << 19);
        }
        assert!(ledger.checkpoints.len() > 10, "and it does keep some");
    }

    #[test]
    fn learned_windows_only_narrow_and_do_not_live_for_ever() {
        let ledger = memory(LONG, LONG);
        let (model, other) = (Fingerprint::of(b"model"), Fingerprint::of(b"other"));
        ledger.keep_window(model, 8_000);
        ledger.keep_window(model, 16_000);
        assert_eq!(ledger.window(&model), Some(8_000));
        ledger.keep_window(model, 4_000);
        assert_eq!(ledger.window(&model), Some(4_000));
        assert_eq!(ledger.window(&other), None);
        // A prompt that was served proves it wrong.
        ledger.served(&model, 4_000);
        assert_eq!(ledger.window(&model), Some(4_000));
        ledger.served(&model, 4_001);
        assert_eq!(ledger.window(&model), None);

        let forgetful = memory(LONG, Duration::ZERO);
        forgetful.keep_window(model, 8_000);
        assert_eq!(forgetful.window(&model), None);
    }

    #[test]
    fn the_first_checkpoint_of_a_prefix_stays_unless_another_builds_on_it() {
        let memory = memory(LONG, LONG);
        let prefix = Fingerprint::of(b"prefix");
        let keys = [CheckpointKey {
            messages: 2,
            prefix,
        }];
        let checkpoint = |edits: Vec<Edit>| Arc::new(Checkpoint::from_edits(edits.into()));
        let (first, second) = (
            checkpoint(vec![Edit::Drop]),
            checkpoint(vec![Edit::Keep, Edit::Drop]),
        );
        let known = || memory.longest_checkpoint(&keys).unwrap().checkpoint;
        assert_eq!(
            memory.keep_checkpoint(prefix, Arc::clone(&first), false),
            Some(0)
        );
        assert_eq!(
            memory.keep_checkpoint(prefix, Arc::clone(&second), false),
            None
        );
        assert_eq!(known(), first);
        assert_eq!(
            memory.keep_checkpoint(prefix, Arc::clone(&second), true),
            Some(1)
        );
        assert_eq!(known(), second);
    }

    #[test]
    fn nothing_outlives_its_lifetime() {
        let memory = memory(Duration::ZERO, LONG);
        let prefix = Fingerprint::of(b"prefix");
        let keys = [CheckpointKey {
            messages: 1,
            prefix,
        }];
        memory.put_checkpoint(prefix, Arc::new(Checkpoint::from_edits(Box::default())), 0);
        memory.keep_usage(prefix, 7);
        assert!(memory.longest_checkpoint(&keys).is_none());
        let list = UsageKey {
            messages: 1,
            list: prefix,
            counted: 1,
        };
        assert_eq!(memory.known_usage(&[list], false).reported, None);
        assert_eq!(memory.checkpoints.len() + memory.usage.len(), 0);
    }

    #[test]
    fn a_request_point_is_known_as_long_as_its_checkpoint_is() {
        let memory = memory(LONG, LONG);
        let prefixes: Vec<_> = (0..4_u8).map(|n| Fingerprint::of(&[n])).collect();
        let keys: Vec<_> = prefixes
            .iter()
            .enumerate()
            .map(|(at, prefix)| CheckpointKey {
                messages: at + 1,
                prefix: *prefix,
            })
            .collect();
        assert_eq!(memory.known_up_to(&keys), 0);
        memory.visit(prefixes[1], None);
        assert_eq!(memory.known_up_to(&keys), 2);
        memory.visit(prefixes[2], Some(prefixes[1]));
        assert_eq!(memory.known_up_to(&keys), 2, "its checkpoint is gone");
        memory.put_checkpoint(
            prefixes[1],
            Arc::new(Checkpoint::from_edits(Box::default())),
            0,
        );
        assert_eq!(memory.known_up_to(&keys), 3);
    }
}
