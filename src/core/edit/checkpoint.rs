//! A checkpoint: the edits of one compaction, frozen. It stores edits, not the conversation: the
//! client sends the originals again each time.

use super::edits::{Edit, Replacement};
use crate::core::conversation::Measure;

/// One compaction, recorded for the exact prefix it was made from. The prefix is its key in the
/// ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// One per message of the prefix, instructions left out; those that are missing at the end are
    /// [`Edit::Keep`].
    edits: Box<[Edit]>,
    /// Messages of the prefix behind the compaction, instructions left out: none, where the prefix
    /// ends with the request that was compacted.
    since: usize,
}

impl Checkpoint {
    /// Freezes `edits`, one per message of the prefix, whose measures these are. The last
    /// compaction was made when the list had `compacted_at` messages.
    #[must_use]
    pub fn freeze(measures: &[Measure], edits: &[Edit], compacted_at: usize) -> Self {
        let behind = measures.iter().take(edits.len()).skip(compacted_at);
        let mut kept: Vec<Edit> = measures
            .iter()
            .zip(edits)
            .filter(|(measure, _)| !measure.speaker.is_instruction())
            .map(|(_, edit)| edit.clone())
            .collect();
        let used = kept
            .iter()
            .rposition(|edit| *edit != Edit::Keep)
            .map_or(0, |last| last + 1);
        kept.truncate(used);
        Checkpoint {
            edits: kept.into_boxed_slice(),
            since: behind.filter(|m| !m.speaker.is_instruction()).count(),
        }
    }

    /// Messages of the prefix behind the compaction, instructions left out.
    #[must_use]
    pub fn messages_since(&self) -> usize {
        self.since
    }

    /// The checkpoint of a compaction at the end of its prefix, with these edits as
    /// [`Checkpoint::edits`] gave them.
    #[must_use]
    pub fn from_edits(edits: Box<[Edit]>) -> Self {
        Checkpoint { edits, since: 0 }
    }

    /// One edit per message of the prefix, instructions left out; those that are missing at the end
    /// are [`Edit::Keep`].
    #[must_use]
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Its edits, one per measure, for a list that begins with the prefix it was made from.
    #[must_use]
    pub fn thaw(&self, measures: &[Measure]) -> Vec<Edit> {
        let mut frozen = self.edits.iter();
        measures
            .iter()
            .map(|measure| {
                if measure.speaker.is_instruction() {
                    Edit::Keep
                } else {
                    frozen.next().cloned().unwrap_or(Edit::Keep)
                }
            })
            .collect()
    }

    /// Bytes that it takes in memory, roughly.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let new = |edit: &Edit| {
            edit.new_messages()
                .iter()
                .map(|new| new.json.len() + size_of::<Replacement>())
                .sum::<usize>()
        };
        size_of::<Self>()
            + self
                .edits
                .iter()
                .map(|edit| size_of::<Edit>() + new(edit))
                .sum::<usize>()
    }
}
