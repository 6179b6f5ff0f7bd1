//! Edits: the fate of each original message.

use std::sync::{Arc, OnceLock};

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
#[derive(Debug, Clone)]
pub struct Replacement {
    /// Its JSON, without cache marks: those are decided for each request.
    pub json: Box<str>,
    /// Prompt tokens that decisions take it for: its own, and those that it was given and does not
    /// use.
    pub tokens: u64,
    /// Those of `tokens` that it does not use.
    pub unused: u64,
    /// Its place and its tokens are decided, and its text is still to be written.
    is_unwritten: bool,
    identity: Identity,
}

/// Where the fingerprint of a message is from. Most are edited again or condensed before anybody
/// asks for it.
#[derive(Debug, Clone)]
enum Identity {
    Known(Fingerprint),
    Of(Dialect, OnceLock<Fingerprint>),
}

/// The fingerprint follows from the JSON.
impl PartialEq for Replacement {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
            && self.tokens == other.tokens
            && self.unused == other.unused
            && self.is_unwritten == other.is_unwritten
    }
}

impl Eq for Replacement {}

impl Replacement {
    /// Measures `json`, which must be a message of `dialect`; `None` when it is not.
    #[must_use]
    pub fn new(dialect: Dialect, json: String, encoding: Encoding) -> Option<Self> {
        let json = dialect.without_marks(json);
        let tokens = dialect.count(&json, encoding).ok()?;
        Some(Self::counted(dialect, json, tokens))
    }

    /// A message of `dialect` whose tokens were counted before.
    #[must_use]
    pub fn counted(dialect: Dialect, json: String, tokens: u64) -> Self {
        Replacement {
            json: json.into_boxed_str(),
            tokens,
            unused: 0,
            is_unwritten: false,
            identity: Identity::Of(dialect, OnceLock::new()),
        }
    }

    /// A message that was measured before.
    #[must_use]
    pub fn measured(json: String, tokens: u64, fingerprint: Fingerprint) -> Self {
        Replacement {
            json: json.into_boxed_str(),
            tokens,
            unused: 0,
            is_unwritten: false,
            identity: Identity::Known(fingerprint),
        }
    }

    /// The same where decisions take it for `room` tokens, which are not less than its own.
    #[must_use]
    pub fn in_room(self, room: u64) -> Self {
        let own = self.own_tokens();
        let tokens = room.max(own);
        Replacement {
            tokens,
            unused: tokens - own,
            ..self
        }
    }

    /// The same where only the place and the tokens are decided, and its text is still to be
    /// written.
    #[must_use]
    pub fn unwritten(self) -> Self {
        Replacement {
            is_unwritten: true,
            ..self
        }
    }

    /// Whether its text is still to be written.
    #[must_use]
    pub fn is_unwritten(&self) -> bool {
        self.is_unwritten
    }

    /// Whether decisions take it for more than it is, or it is still to be written.
    #[must_use]
    pub fn is_in_room(&self) -> bool {
        self.unused > 0 || self.is_unwritten
    }

    /// Prompt tokens that are sent.
    #[must_use]
    pub fn own_tokens(&self) -> u64 {
        self.tokens.saturating_sub(self.unused)
    }

    /// Fingerprint of its canonical content.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        match &self.identity {
            Identity::Known(fingerprint) => fingerprint,
            Identity::Of(dialect, known) => known.get_or_init(|| dialect.fingerprint(&self.json)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_json_or_the_one_that_is_known() {
        let dialect = Dialect::ChatCompletions;
        let json = r#"{"role":"user","content":"x"}"#;
        let new = Replacement::new(dialect, json.to_owned(), Encoding::O200K).unwrap();
        assert_eq!(*new.fingerprint(), dialect.fingerprint(json));
        let known = Fingerprint::of(b"known");
        let measured = Replacement::measured(json.to_owned(), new.tokens, known);
        assert_eq!(*measured.fingerprint(), known);
        assert_eq!(measured, new);
        let fewer = Replacement::counted(dialect, json.to_owned(), 1);
        assert_ne!(fewer, new);
    }
}
