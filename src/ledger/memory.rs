//! The ledger in memory: caches, each bounded, the least used entries leave first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Measures;
use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;
use crate::core::planner::{
    CheckpointKey, Evidence, KnownCheckpoint, KnownUsage, ModelCalibration, UsageKey,
};
use crate::core::summary::Summary;
use crate::core::tokens::Calibration;

/// Bytes that one entry of reported usage takes, bookkeeping included.
const USAGE_BYTES: u64 = 128;
/// Bytes of bookkeeping around a checkpoint.
const ENTRY_BYTES: u64 = 128;

#[derive(Debug, Clone)]
struct CheckpointWeight;

impl Weighter<Fingerprint, Arc<Checkpoint>> for CheckpointWeight {
    fn weight(&self, _: &Fingerprint, checkpoint: &Arc<Checkpoint>) -> u64 {
        checkpoint.weight_bytes() as u64 + ENTRY_BYTES
    }
}

#[derive(Debug, Clone)]
struct SummaryWeight;

impl Weighter<Fingerprint, Arc<Summary>> for SummaryWeight {
    fn weight(&self, _: &Fingerprint, summary: &Arc<Summary>) -> u64 {
        summary.text.len() as u64 + ENTRY_BYTES
    }
}

/// Checkpoints and summaries by prefix, reported usage by list, measures by raw message.
#[derive(Debug)]
pub struct Ledger {
    checkpoints: Cache<Fingerprint, Arc<Checkpoint>, CheckpointWeight>,
    summaries: Cache<Fingerprint, Arc<Summary>, SummaryWeight>,
    usage: Cache<Fingerprint, u64>,
    /// What was reported for conversations, by the client's own list.
    evidence: Cache<Fingerprint, Evidence>,
    /// Measures by exact bytes. They never leave the process.
    pub measures: Measures,
    /// Seeds of chains that have a checkpoint for a body so short that the gate would let it
    /// through.
    ungated: Cache<Fingerprint, ()>,
    /// When a list was last sent.
    sent: Cache<Fingerprint, Instant>,
    /// How upstreams count, by tenant, upstream and model.
    calibrations: Cache<Fingerprint, Calibration>,
    /// Windows that upstreams told when they refused a request, by tenant, upstream and model, and
    /// since when they are known.
    windows: Cache<Fingerprint, (u64, Instant)>,
    window_lifetime: Duration,
}

impl Ledger {
    /// A ledger of at most `bytes` for checkpoints and usage, and `messages` measures; learned
    /// windows are forgotten after `window_lifetime`.
    #[must_use]
    pub fn new(bytes: u64, messages: u64, window_lifetime: Duration) -> Self {
        let half = bytes / 2;
        // Summaries are few and short beside checkpoints, which hold them as well.
        let eighth = half / 4;
        let checkpoints = half - eighth;
        let items = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ledger {
            checkpoints: Cache::with_weighter(
                items(checkpoints / 4_096).max(64),
                checkpoints,
                CheckpointWeight,
            ),
            summaries: Cache::with_weighter(items(eighth / 4_096).max(64), eighth, SummaryWeight),
            usage: Cache::new(items(half / USAGE_BYTES / 2).max(64)),
            evidence: Cache::new(items(half / USAGE_BYTES / 2).max(64)),
            measures: Measures::new(items(messages)),
            ungated: Cache::new(1_024),
            sent: Cache::new(16_384),
            calibrations: Cache::new(16_384),
            windows: Cache::new(16_384),
            window_lifetime,
        }
    }

    /// Keeps a checkpoint.
    pub fn keep_checkpoint(&self, prefix: Fingerprint, checkpoint: Checkpoint) {
        self.checkpoints.insert(prefix, Arc::new(checkpoint));
    }

    /// The longest checkpoint that is kept under one of these keys, which are in the order of their
    /// length.
    #[must_use]
    pub fn longest_checkpoint(&self, keys: &[CheckpointKey]) -> Option<KnownCheckpoint> {
        keys.iter().rev().find_map(|key| {
            let checkpoint = self.checkpoints.get(&key.prefix)?;
            Some(KnownCheckpoint {
                messages: key.messages,
                checkpoint,
            })
        })
    }

    /// The summary of exactly this prefix.
    #[must_use]
    pub fn summary(&self, prefix: &Fingerprint) -> Option<Arc<Summary>> {
        self.summaries.get(prefix)
    }

    /// Keeps a summary.
    pub fn keep_summary(&self, prefix: Fingerprint, summary: Summary) {
        self.summaries.insert(prefix, Arc::new(summary));
    }

    /// Whether the gate may let short bodies of this chain through unseen.
    #[must_use]
    pub fn may_gate(&self, seed: &Fingerprint) -> bool {
        self.ungated.get(seed).is_none()
    }

    /// From now on every body of this chain is looked at.
    pub fn never_gate(&self, seed: Fingerprint) {
        self.ungated.insert(seed, ());
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
        let reported = newest().find_map(|key| Some((key.messages, self.usage.get(&key.list)?)));
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
        self.usage.insert(list, prompt_tokens);
    }

    /// What was reported for the longest of these prefixes that has a report, and its length; they
    /// are in the order of their length.
    #[must_use]
    pub fn evidence(&self, prefixes: &[CheckpointKey]) -> Option<(usize, Evidence)> {
        let mut newest = prefixes.iter().rev();
        newest.find_map(|key| Some((key.messages, self.evidence.get(&key.prefix)?)))
    }

    /// Keeps what was reported for a conversation.
    pub fn keep_evidence(&self, prefix: Fingerprint, evidence: Evidence) {
        self.evidence.insert(prefix, evidence);
    }

    /// What is known of a model (digest of tenant, upstream and name) from the upstream's answers.
    #[must_use]
    pub fn learned(&self, model: &Fingerprint) -> ModelCalibration {
        let window = self
            .windows
            .get(model)
            .filter(|(_, since)| since.elapsed() < self.window_lifetime)
            .map(|(window, _)| window);
        ModelCalibration {
            window,
            factor: self.calibrations.get(model).unwrap_or_default().factor(),
        }
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

    /// A prompt of so many tokens was served: a window that is narrower cannot be right.
    pub fn served(&self, model: &Fingerprint, prompt_tokens: u64) {
        if self
            .windows
            .get(model)
            .is_some_and(|(window, _)| prompt_tokens > window)
        {
            self.windows.remove(model);
        }
    }

    /// Keeps a window that an upstream told when it refused a request; of two that it told, the
    /// narrower.
    pub fn keep_window(&self, model: Fingerprint, window: u64) {
        let known = self.learned(&model).window.filter(|known| *known < window);
        if known.is_none() {
            self.windows.insert(model, (window, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::edit::{Edit, Replacement};
    use crate::core::tokens::Encoding;
    use crate::core::wire::Dialect;

    #[test]
    fn checkpoints_never_take_more_than_their_half() {
        let ledger = Ledger::new(1 << 20, 1_000, Duration::from_secs(1));
        let text = "x".repeat(10_000);
        let raw = format!(r#"{{"role":"user","content":"{text}"}}"#);
        for n in 0..1_000_u32 {
            let dialect = Dialect::ChatCompletions;
            let measures = [dialect.measure(&raw, Encoding::O200K).unwrap()];
            let new = Replacement::new(dialect, raw.clone(), Encoding::O200K).unwrap();
            ledger.keep_checkpoint(
                Fingerprint::of(&n.to_le_bytes()),
                Checkpoint::freeze(&measures, &[Edit::Replace(Arc::new(new))], 1),
            );
            assert!(ledger.checkpoints.weight() <= 1 << 19);
        }
        assert!(ledger.checkpoints.len() > 10, "and it does keep some");
    }

    #[test]
    fn learned_windows_only_narrow_and_do_not_live_for_ever() {
        let ledger = Ledger::new(1 << 20, 1_000, Duration::from_secs(60));
        let (model, other) = (Fingerprint::of(b"model"), Fingerprint::of(b"other"));
        ledger.keep_window(model, 8_000);
        ledger.keep_window(model, 16_000);
        assert_eq!(ledger.learned(&model).window, Some(8_000));
        ledger.keep_window(model, 4_000);
        assert_eq!(ledger.learned(&model).window, Some(4_000));
        assert_eq!(ledger.learned(&other).window, None);
        // A prompt that was served proves it wrong.
        ledger.served(&model, 4_000);
        assert_eq!(ledger.learned(&model).window, Some(4_000));
        ledger.served(&model, 4_001);
        assert_eq!(ledger.learned(&model).window, None);

        let forgetful = Ledger::new(1 << 20, 1_000, Duration::ZERO);
        forgetful.keep_window(model, 8_000);
        assert_eq!(forgetful.learned(&model).window, None);
    }
}
