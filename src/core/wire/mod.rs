//! The wire formats: the only room that spells the JSON of an API.

mod change;
pub mod chat;
pub mod decode;
mod dialect;
mod fault;
pub(in crate::core) mod in_text;
pub(in crate::core) mod mcp;
pub mod model_list;
pub mod overflow;
pub mod own_call;
pub mod sse;
mod unreadable;
mod usage;

use crate::core::conversation::{Author, Entry, Fingerprint, Measure, Shape};
use crate::core::tokens::Encoding;

pub use change::Change;
pub use chat::CacheMark;
pub use fault::Fault;
pub use unreadable::Unreadable;
pub(in crate::core) use usage::is_plausible;
pub use usage::{Usage, UsageReader};

/// A wire format. A closed set: each verb is a `match` that leads to the folder of one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// OpenAI's chat completions, and all that is compatible with them.
    #[default]
    ChatCompletions,
}

/// The request, read and rewritten.
impl Dialect {
    /// Finds the parts of a request's body. Linear in its length, whatever it holds.
    ///
    /// # Errors
    /// [`Unreadable`] when the body is not a request that can be compacted safely.
    pub fn outline(self, body: &[u8]) -> Result<chat::Outline<'_>, Unreadable> {
        match self {
            Dialect::ChatCompletions => chat::Outline::parse(body),
        }
    }

    /// The same for a body that begins with the bytes of an opening, whose messages are not
    /// searched for again.
    ///
    /// # Errors
    /// As for [`Dialect::outline`].
    pub fn resume<'b>(
        self,
        body: &'b [u8],
        opening: Option<&chat::Opening>,
    ) -> Result<chat::Outline<'b>, Unreadable> {
        match self {
            Dialect::ChatCompletions => chat::Outline::resume(body, opening),
        }
    }

    /// The view of one message, given its exact JSON.
    ///
    /// # Errors
    /// [`Unreadable::Unusual`] when it is not a plain message.
    pub fn entry(self, raw: &str) -> Result<Entry<'_>, Unreadable> {
        match self {
            Dialect::ChatCompletions => chat::entry(raw),
        }
    }

    /// Measures one message, given its exact JSON.
    ///
    /// # Errors
    /// As for [`Dialect::entry`].
    pub fn measure(self, raw: &str, encoding: Encoding) -> Result<Measure, Unreadable> {
        match self {
            Dialect::ChatCompletions => chat::measure(raw, encoding),
        }
    }

    /// Prompt tokens of one message, given its exact JSON.
    ///
    /// # Errors
    /// As for [`Dialect::entry`].
    pub fn count(self, raw: &str, encoding: Encoding) -> Result<u64, Unreadable> {
        match self {
            Dialect::ChatCompletions => chat::count_message(raw, encoding),
        }
    }

    /// Prompt tokens that no message accounts for.
    #[must_use]
    pub fn count_fixed(self, outline: &chat::Outline<'_>, encoding: Encoding) -> u64 {
        match self {
            Dialect::ChatCompletions => chat::count_fixed(outline, encoding),
        }
    }

    /// The fingerprint of what a message means, whatever its spelling: key order, nulls and
    /// volatile annotations aside.
    #[must_use]
    pub fn fingerprint(self, raw: &str) -> Fingerprint {
        match self {
            Dialect::ChatCompletions => chat::canonical(raw),
        }
    }

    /// The JSON of a message with `changes`, all else byte for byte; `None` when nothing of it
    /// changes.
    #[must_use]
    pub fn rewrite(self, entry: &Entry<'_>, changes: Vec<Change<'_>>) -> Option<String> {
        match self {
            Dialect::ChatCompletions => chat::rewrite(entry, changes),
        }
    }

    /// The kind and the counts of a message; `None` when it is not a plain one.
    #[must_use]
    pub fn shape(self, raw: &str) -> Option<Shape> {
        self.entry(raw).ok().map(|entry| Shape::of(&entry))
    }

    /// The cache marks of a message.
    #[must_use]
    pub fn cache_marks(self, raw: &str) -> Vec<CacheMark<'_>> {
        match self {
            Dialect::ChatCompletions => chat::marks(raw),
        }
    }

    /// The number of cache marks in a piece of JSON, at most.
    #[must_use]
    pub fn count_marks(self, json: &str) -> usize {
        match self {
            Dialect::ChatCompletions => chat::count_marks(json),
        }
    }

    /// A message without its cache marks.
    #[must_use]
    pub fn without_marks(self, json: String) -> String {
        match self {
            Dialect::ChatCompletions => chat::without_marks(json),
        }
    }

    /// A message, which has no cache marks, with these; `None` when it can carry none.
    #[must_use]
    pub fn with_marks(self, json: &str, marks: &[CacheMark<'_>]) -> Option<String> {
        match self {
            Dialect::ChatCompletions => chat::with_marks(json, marks),
        }
    }

    /// The JSON of a new message.
    #[must_use]
    pub fn synthetic(self, author: Author, text: &str) -> String {
        match self {
            Dialect::ChatCompletions => chat::synthetic(author, text),
        }
    }

    /// The word of the wire format for the role of an author.
    #[must_use]
    pub fn role_of(self, author: Author) -> &'static str {
        match self {
            Dialect::ChatCompletions => chat::role_of(author),
        }
    }
}
