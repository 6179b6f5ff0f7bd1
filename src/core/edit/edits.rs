//! Edits: the fate of each original message.

use std::sync::Arc;

use crate::core::conversation::Fingerprint;
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;

/// The fate of one original message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Sent byte for byte.
    Keep,
    /// Not sent.
    Drop,
    /// Sent in another form.
    Replace(Arc<Replacement>),
    /// Not sent, and these new messages take its place: they stand for it and for the dropped ones
    /// after it.
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
    /// Its JSON, without cache marks: those are decided for each request.
    pub json: Box<str>,
    /// Fingerprint of its canonical content.
    pub fingerprint: Fingerprint,
    /// Its prompt tokens.
    pub tokens: u64,
}

impl Replacement {
    /// Measures `json`, which must be a message of `dialect`; `None` when it is not.
    #[must_use]
    pub fn new(dialect: Dialect, json: String, encoding: Encoding) -> Option<Self> {
        let json = dialect.without_marks(json);
        let measure = dialect.measure(&json, encoding).ok()?;
        Some(Replacement {
            json: json.into_boxed_str(),
            fingerprint: measure.fingerprint,
            tokens: measure.tokens,
        })
    }

    /// A message of `dialect` whose tokens were counted before.
    #[must_use]
    pub fn counted(dialect: Dialect, json: String, tokens: u64) -> Self {
        Replacement {
            fingerprint: dialect.fingerprint(&json),
            json: json.into_boxed_str(),
            tokens,
        }
    }
}
