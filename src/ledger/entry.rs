//! What a store keeps, and how it is written down.
//!
//! The written form has types of its own: those of the core may change, version 1 may not, but for
//! what it ends with where it has more to say. A later version gets types and a number of its own;
//! files of each earlier one are in `tests/corpus/ledger`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::core::conversation::Fingerprint;
use crate::core::edit::{Checkpoint, Edit, Replacement};
use crate::core::planner::Evidence;
use crate::core::summary::{Spent, Summary};
use crate::core::tokens::{Calibration, FactorStep};

/// The kinds of entries. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The edits of a compaction, by prefix.
    Checkpoint = 1,
    /// A summary, by prefix.
    Summary = 2,
    /// Reported usage, by the client's own list.
    Usage = 3,
    /// The window that a model's upstream taught.
    Window = 4,
    /// How a model's upstream counts.
    Calibration = 5,
    /// A model whose short bodies are looked at.
    Ungated = 6,
    /// What was reported for a conversation, by the client's own list.
    Evidence = 7,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Checkpoint,
        Kind::Summary,
        Kind::Usage,
        Kind::Window,
        Kind::Calibration,
        Kind::Ungated,
        Kind::Evidence,
    ];

    /// The kind with this number.
    pub(super) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether it tells of a model, and not of a conversation.
    pub(super) fn is_of_model(self) -> bool {
        matches!(self, Kind::Window | Kind::Calibration | Kind::Ungated)
    }

    /// Whether the first writer wins: all replicas send its bytes from then on.
    pub(super) fn first_wins(self) -> bool {
        matches!(self, Kind::Checkpoint | Kind::Summary)
    }
}

/// An entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    Checkpoint(Arc<Checkpoint>),
    Summary(Arc<Summary>),
    /// The digest of the list that was sent, and the prompt tokens that were reported for it.
    Usage(Fingerprint, u64),
    /// Tokens, and since when they are known, in seconds since the epoch; `None` takes an earlier
    /// window back.
    Window(Option<u64>, u64),
    Calibration(Calibration),
    Ungated,
    Evidence(Evidence),
}

impl Entry {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Entry::Checkpoint(_) => Kind::Checkpoint,
            Entry::Summary(_) => Kind::Summary,
            Entry::Usage(..) => Kind::Usage,
            Entry::Window(..) => Kind::Window,
            Entry::Calibration(_) => Kind::Calibration,
            Entry::Ungated => Kind::Ungated,
            Entry::Evidence(_) => Kind::Evidence,
        }
    }

    /// Bytes that it takes, about.
    pub(super) fn weight_bytes(&self) -> usize {
        const SMALL: usize = 256;
        SMALL
            + match self {
                Entry::Checkpoint(checkpoint) => checkpoint.weight_bytes(),
                Entry::Summary(summary) => summary.text.len(),
                _ => 0,
            }
    }

    /// Its written form.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Entry::Checkpoint(checkpoint) => {
                let edits: Vec<_> = checkpoint.edits().iter().map(WrittenEdit::of).collect();
                match unused_in(checkpoint.edits()) {
                    unused if unused.is_empty() => postcard::to_stdvec(&edits),
                    unused => postcard::to_stdvec(&(edits, unused)),
                }
            }
            Entry::Summary(summary) => postcard::to_stdvec(&WrittenSummary::of(summary)),
            Entry::Usage(list, tokens) => postcard::to_stdvec(&(list.0, tokens)),
            Entry::Window(tokens, since) => postcard::to_stdvec(&(tokens, since)),
            Entry::Calibration(calibration) => postcard::to_stdvec(calibration),
            Entry::Ungated => return Some(Vec::new()),
            Entry::Evidence(known) => {
                postcard::to_stdvec(&(known.reported, known.counted, known.step.number()))
            }
        }
        .ok()
    }

    /// The entry of a written form; `None` for bytes that are none.
    pub(super) fn decode(kind: Kind, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            Kind::Checkpoint => {
                let (edits, rest) = postcard::take_from_bytes::<Vec<WrittenEdit>>(bytes).ok()?;
                let mut edits: Vec<Edit> = edits.into_iter().map(WrittenEdit::edit).collect();
                if !rest.is_empty() {
                    give_unused(&mut edits, whole(rest)?)?;
                }
                Entry::Checkpoint(Arc::new(Checkpoint::from_edits(edits.into())))
            }
            Kind::Summary => {
                let summary: WrittenSummary = whole(bytes)?;
                Entry::Summary(Arc::new(summary.summary()))
            }
            Kind::Usage => {
                let (list, tokens) = whole(bytes)?;
                Entry::Usage(Fingerprint(list), tokens)
            }
            Kind::Window => {
                let (tokens, since) = whole(bytes)?;
                Entry::Window(tokens, since)
            }
            Kind::Calibration => Entry::Calibration(whole(bytes)?),
            Kind::Ungated if bytes.is_empty() => Entry::Ungated,
            Kind::Ungated => return None,
            Kind::Evidence => {
                let (reported, counted, step) = whole(bytes)?;
                let step = FactorStep::of_number(step)?;
                Entry::Evidence(Evidence {
                    reported,
                    counted,
                    step,
                })
            }
        })
    }
}

/// The value of exactly these bytes.
fn whole<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(value)
}

/// An edit, as version 1 writes it.
#[derive(Serialize, Deserialize)]
enum WrittenEdit {
    Keep,
    Drop,
    Replace(WrittenMessage),
    Stand(Vec<WrittenMessage>),
}

/// A message that is not the client's, as version 1 writes it.
#[derive(Serialize, Deserialize)]
struct WrittenMessage {
    json: String,
    fingerprint: [u8; 32],
    tokens: u64,
}

impl WrittenEdit {
    fn of(edit: &Edit) -> Self {
        match edit {
            Edit::Keep => WrittenEdit::Keep,
            Edit::Drop => WrittenEdit::Drop,
            Edit::Replace(new) => WrittenEdit::Replace(WrittenMessage::of(new)),
            Edit::Stand(new) => WrittenEdit::Stand(new.iter().map(WrittenMessage::of).collect()),
        }
    }

    fn edit(self) -> Edit {
        match self {
            WrittenEdit::Keep => Edit::Keep,
            WrittenEdit::Drop => Edit::Drop,
            WrittenEdit::Replace(new) => Edit::Replace(Arc::new(new.replacement())),
            WrittenEdit::Stand(new) => {
                Edit::Stand(new.into_iter().map(WrittenMessage::replacement).collect())
            }
        }
    }
}

impl WrittenMessage {
    fn of(new: &Replacement) -> Self {
        WrittenMessage {
            json: new.json.to_string(),
            fingerprint: new.fingerprint().0,
            tokens: new.own_tokens(),
        }
    }

    fn replacement(self) -> Replacement {
        Replacement::measured(self.json, self.tokens, Fingerprint(self.fingerprint))
    }
}

/// Tokens that digests were given and do not use, by the edit and the number of the message in it.
/// They follow the edits where there are any: checkpoints that were written before have none.
type Unused = Vec<(u32, u32, u64)>;

fn unused_in(edits: &[Edit]) -> Unused {
    let mut found = Vec::new();
    for (at, edit) in (0..).zip(edits) {
        let new = (0..).zip(edit.new_messages());
        let unused = new.filter(|(_, new)| new.unused > 0);
        found.extend(unused.map(|(nth, new)| (at, nth, new.unused)));
    }
    found
}

/// `None` where no message is in such a place, or it was given more than can be.
fn give_unused(edits: &mut [Edit], unused: Unused) -> Option<()> {
    for (at, nth, tokens) in unused {
        let edit = edits.get_mut(usize::try_from(at).ok()?)?;
        let Edit::Stand(new) = edit else { return None };
        let digest = Arc::make_mut(new).get_mut(usize::try_from(nth).ok()?)?;
        let room = digest.own_tokens().checked_add(tokens)?;
        *digest = digest.clone().in_room(room);
    }
    Some(())
}

/// A summary, as version 1 writes it.
#[derive(Serialize, Deserialize)]
struct WrittenSummary {
    text: String,
    tokens: u64,
    generation: u32,
    incremental: bool,
    split: bool,
    /// Calls, their prompt tokens, the tokens of their answers, milliseconds.
    spent: (u64, u64, u64, u64),
}

impl WrittenSummary {
    fn of(summary: &Summary) -> Self {
        let Spent {
            calls,
            prompt_tokens,
            completion_tokens,
            took,
        } = summary.spent;
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        WrittenSummary {
            text: summary.text.to_string(),
            tokens: summary.tokens,
            generation: summary.generation,
            incremental: summary.incremental,
            split: summary.split,
            spent: (calls, prompt_tokens, completion_tokens, milliseconds),
        }
    }

    fn summary(self) -> Summary {
        let (calls, prompt_tokens, completion_tokens, milliseconds) = self.spent;
        Summary {
            text: self.text.into_boxed_str(),
            tokens: self.tokens,
            generation: self.generation,
            incremental: self.incremental,
            split: self.split,
            spent: Spent {
                calls,
                prompt_tokens,
                completion_tokens,
                took: Duration::from_millis(milliseconds),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// One entry of each kind.
    fn entries() -> Vec<Entry> {
        let json = r#"{"short":true}"#.to_owned();
        let replacement = Replacement::measured(json, 3, Fingerprint::of(b"short"));
        let stand = Edit::Stand(vec![replacement.clone()].into());
        let digest = replacement.clone().in_room(5);
        let in_room = Edit::Stand(vec![replacement.clone(), digest].into());
        let replace = Edit::Replace(Arc::new(replacement));
        let edits = vec![Edit::Keep, Edit::Drop, replace, stand];
        let with_room = edits.iter().cloned().chain([in_room]).collect();
        let evidence = Evidence {
            reported: 1_200,
            counted: 1_000,
            step: FactorStep::default(),
        };
        vec![
            Entry::Checkpoint(Arc::new(Checkpoint::from_edits(edits.into()))),
            Entry::Checkpoint(Arc::new(Checkpoint::from_edits(with_room))),
            Entry::Usage(Fingerprint::of(b"list"), 1_234),
            Entry::Window(Some(8_192), 7),
            Entry::Window(None, 7),
            Entry::Calibration(Calibration::default()),
            Entry::Ungated,
            Entry::Evidence(evidence),
        ]
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for entry in entries() {
            let written = entry.encode().unwrap();
            let read = Entry::decode(entry.kind(), &written).unwrap();
            // Fingerprints, too, which equality leaves out.
            assert_eq!(read.encode().unwrap(), written);
            assert_eq!(read, entry);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_that_can_be_written_again_or_none(
            seed in any::<Index>(),
            kind in any::<Index>(),
            flips in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6),
            tail in proptest::collection::vec(any::<u8>(), 0..40),
            cut in any::<Index>(),
        ) {
            let entries = entries();
            let entry = seed.get(&entries);
            let mut bytes = entry.encode().unwrap();
            for (at, byte) in flips {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= byte;
                }
            }
            bytes.extend(tail);
            bytes.truncate(cut.index(bytes.len() + 1));
            for kind in [entry.kind(), *kind.get(&Kind::ALL)] {
                if let Some(read) = Entry::decode(kind, &bytes) {
                    let written = read.encode().unwrap();
                    prop_assert!(Entry::decode(kind, &written).is_some());
                    prop_assert!(read.weight_bytes() < 100_000);
                }
            }
        }
    }
}
