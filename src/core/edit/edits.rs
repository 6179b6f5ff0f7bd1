//! Edits: what becomes of each original message, and the checkpoint that freezes them.
//!
//! A checkpoint stores edits, not the conversation: the client sends the originals again each time.

use std::sync::Arc;

use crate::core::conversation::Fingerprint;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Message;
use crate::core::wire::chat::canonical;
use crate::core::wire::chat::count_message;

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
    pub digest: Fingerprint,
    /// Its prompt tokens.
    pub tokens: u64,
}

impl Replacement {
    /// Measures `json`, which must be a message; `None` when it is not.
    #[must_use]
    pub fn new(json: String, encoding: Encoding) -> Option<Self> {
        let message = Message::parse(&json).ok()?;
        let (digest, tokens) = (canonical(&json), count_message(&message, encoding));
        Some(Replacement {
            json: json.into_boxed_str(),
            digest,
            tokens,
        })
    }
}
