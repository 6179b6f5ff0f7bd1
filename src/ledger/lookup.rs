//! What a request asks the store for: the entries of its conversation that this process cannot
//! know.

use crate::core::conversation::{Fingerprint, Measure, Speaker};
use crate::core::planner::{CheckpointKey, UsageKey};
use crate::ledger::Memory;
use crate::ledger::entry::Kind;
use crate::ledger::seal::Scope;
use crate::ledger::store::Wanted;

/// Request points whose checkpoint is asked for, the newest ones.
const MAX_POINTS: usize = 1_024;
/// Request points whose usage is asked for, the newest ones: an old report says little.
const MAX_USAGE: usize = 16;
/// Prefixes whose summary is asked for, the newest ones.
const MAX_SUMMARIES: usize = 1_024;

/// Entries to be asked for at once.
#[derive(Debug)]
pub struct Lookup {
    pub(super) wanted: Vec<(Scope, Wanted)>,
}

impl Lookup {
    /// What other replicas learned of a model.
    pub(super) fn of_model(model: Scope) -> Self {
        let kinds = [Kind::Window, Kind::Calibration, Kind::Ungated];
        let wanted = kinds.map(|kind| (model, (kind, model.group)));
        Lookup {
            wanted: wanted.to_vec(),
        }
    }
}

/// The keys of a conversation.
#[expect(missing_debug_implementations, reason = "holds a closure")]
#[derive(Clone, Copy)]
pub struct Points<'p> {
    /// Whose it is.
    pub scope: Scope,
    /// The model that it is for.
    pub model: Scope,
    /// The keys of its request points, shortest first.
    pub points: &'p [CheckpointKey],
    /// The keys of its checkpoints at the same points: one chain for each way to derive them that
    /// may be the right one.
    pub checkpoints: &'p dyn Fn() -> Vec<Vec<CheckpointKey>>,
    /// The keys of what was reported for it at the same points.
    pub reports: &'p [CheckpointKey],
    /// The keys of the usage of the client's own list at the same points.
    pub usage: &'p dyn Fn() -> Vec<UsageKey>,
    /// The keys of its summaries, by the number of messages, where its policy wants any.
    pub summaries: &'p [Fingerprint],
    /// Its messages.
    pub measures: &'p [Measure],
}

impl Points<'_> {
    /// The entries that a store may have and memory does not. A process that served the request
    /// before this one knows everything: nobody else can have served one in between.
    pub(super) fn missing_in(&self, memory: &Memory) -> Option<Lookup> {
        let known = memory.known_up_to(self.points);
        let is_settled = known > 0 && known + 1 >= self.points.len();
        let mut wanted: Vec<Wanted> = Vec::new();
        let awaited = |key: &Fingerprint| memory.is_awaited(key);
        if is_settled {
            let keys = self.ends().filter(awaited);
            wanted.extend(keys.map(|key| (Kind::Summary, key)));
        } else {
            let chains = (self.checkpoints)();
            let each = MAX_POINTS / chains.len().max(1);
            for chain in &chains {
                let newest = chain.iter().skip(known).rev().take(each);
                wanted.extend(newest.map(|key| (Kind::Checkpoint, key.prefix)));
            }
            let reports = self.reports.iter().skip(known).rev().take(MAX_USAGE);
            wanted.extend(reports.map(|key| (Kind::Evidence, key.prefix)));
            let usage = (self.usage)();
            let newest = usage.iter().skip(known).rev();
            wanted.extend(newest.take(MAX_USAGE).map(|key| (Kind::Usage, key.list)));
            let unknown = |key: &Fingerprint| memory.summary(key).is_none();
            let ends = self.ends().filter(unknown).take(MAX_SUMMARIES);
            wanted.extend(ends.map(|key| (Kind::Summary, key)));
        }
        if wanted.is_empty() {
            return None;
        }
        // What was learned meanwhile decides with the rest.
        let mut lookup = Lookup::of_model(self.model);
        let wanted = wanted.into_iter().map(|wanted| (self.scope, wanted));
        lookup.wanted.extend(wanted);
        Some(lookup)
    }

    /// The keys of prefixes that a summary may cover, longest first: those that end between
    /// exchanges.
    fn ends(&self) -> impl Iterator<Item = Fingerprint> + '_ {
        let keys = self.summaries.iter().zip(self.measures);
        let between = keys.filter(|(_, next)| next.speaker != Speaker::Tool);
        between.map(|(key, _)| *key).rev()
    }
}
