//! Edits: what becomes of each original message, and the checkpoint that freezes them.
//!
//! A checkpoint stores edits, not the conversation: the client sends the originals again each time.

use std::sync::Arc;

use super::chat::Message;
use super::digest::{Digest, canonical};
use super::tokens::{Encoding, count_message};

/// What becomes of one original message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Sent byte for byte.
    Keep,
    /// Not sent.
    Drop,
    /// Sent in another form.
    Replace(Arc<Replacement>),
    /// Not sent, and these new messages stand in its place: what became of it and of the dropped ones behind it.
    Stand(Arc<[Replacement]>),
}

impl Edit {
    /// The messages that this edit puts in the place of the original.
    #[must_use]
    pub fn new_messages(&self) -> &[Replacement] {
        match self {
            Edit::Keep | Edit::Drop => &[],
            Edit::Replace(new) => std::slice::from_ref(new),
            Edit::Stand(new) => new,
        }
    }
}

/// A message that is not the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Its JSON.
    pub json: Box<str>,
    /// Digest of its canonical content.
    pub digest: Digest,
    /// Its prompt tokens.
    pub tokens: u64,
}

impl Replacement {
    /// Measures `json`, which must be a message; `None` when it is not.
    #[must_use]
    pub fn new(json: String, encoding: Encoding) -> Option<Self> {
        let message = Message::parse(&json).ok()?;
        let (digest, tokens) = (canonical(&json), count_message(&message, encoding));
        Some(Replacement { json: json.into_boxed_str(), digest, tokens })
    }
}

/// One compaction, recorded for the exact prefix it was made from. The prefix is the key it is kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Per message of the prefix, instructions left out; what is missing at the end is [`Edit::Keep`].
    edits: Box<[Edit]>,
}

impl Checkpoint {
    /// Freezes `edits`, one per message of `messages`.
    #[must_use]
    pub fn freeze(messages: &[Message<'_>], edits: &[Edit]) -> Self {
        let mut kept: Vec<Edit> =
            messages.iter().zip(edits).filter(|(message, _)| !message.role.is_instruction()).map(|(_, edit)| edit.clone()).collect();
        let used = kept.iter().rposition(|edit| *edit != Edit::Keep).map_or(0, |last| last + 1);
        kept.truncate(used);
        Checkpoint { edits: kept.into_boxed_slice() }
    }

    /// Its edits for `messages`, a list that begins with the prefix it was made from: one per message.
    #[must_use]
    pub fn thaw(&self, messages: &[Message<'_>]) -> Vec<Edit> {
        let mut frozen = self.edits.iter();
        messages
            .iter()
            .map(|message| if message.role.is_instruction() { Edit::Keep } else { frozen.next().cloned().unwrap_or(Edit::Keep) })
            .collect()
    }

    /// Bytes it takes in memory, roughly.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let new = |edit: &Edit| edit.new_messages().iter().map(|new| new.json.len() + size_of::<Replacement>()).sum::<usize>();
        size_of::<Self>() + self.edits.iter().map(|edit| size_of::<Edit>() + new(edit)).sum::<usize>()
    }
}
