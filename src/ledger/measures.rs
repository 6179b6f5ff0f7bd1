//! Measures of messages by their exact bytes, so that only new messages are counted. Of this
//! process only: the key of the hash is secret and new in every process.

use highway::{HighwayHash, HighwayHasher, Key};
use quick_cache::sync::Cache;

use crate::core::conversation::Measure;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Outline;
use crate::core::wire::{Dialect, Unreadable};

/// Tool schemas and other fixed parts that are remembered.
const MAX_FIXED: usize = 1_024;

/// The hash of exact bytes. HighwayHash, because every byte of every request goes through it:
/// several times as fast as BLAKE3 on messages of common length.
type Bytes = [u64; 4];

/// A cache of measures, bounded by number.
#[derive(Debug)]
pub struct Measures {
    messages: Cache<(Bytes, Dialect, Encoding), Measure>,
    fixed: Cache<(Bytes, Dialect, Encoding), u64>,
    /// Secret, so that nobody can make two texts that collide.
    key: Key,
}

impl Measures {
    /// A cache for so many messages.
    #[must_use]
    pub fn new(messages: usize) -> Self {
        Measures {
            messages: Cache::new(messages),
            fixed: Cache::new(MAX_FIXED),
            key: Key([(); 4].map(|()| u64::from_le_bytes(crate::random::bytes()))),
        }
    }

    /// Prompt tokens beside the messages (tool schemas above all), counted only once for the same
    /// bytes.
    #[must_use]
    pub fn fixed_tokens(&self, dialect: Dialect, outline: &Outline<'_>, encoding: Encoding) -> u64 {
        if outline.fixed.parts().iter().all(|part| part.is_empty()) {
            return dialect.count_fixed(outline, encoding);
        }
        let mut hasher = HighwayHasher::new(self.key);
        for part in outline.fixed.parts() {
            hasher.append(&(part.len() as u64).to_le_bytes());
            hasher.append(part.as_bytes());
        }
        let key = (hasher.finalize256(), dialect, encoding);
        self.fixed.get(&key).unwrap_or_else(|| {
            let tokens = dialect.count_fixed(outline, encoding);
            self.fixed.insert(key, tokens);
            tokens
        })
    }

    /// The measure of a message, given its raw JSON; taken only once for the same bytes.
    ///
    /// # Errors
    /// [`Unreadable`] when it is not a plain message.
    pub fn measure(
        &self,
        dialect: Dialect,
        raw: &str,
        encoding: Encoding,
    ) -> Result<Measure, Unreadable> {
        let key = (
            HighwayHasher::new(self.key).hash256(raw.as_bytes()),
            dialect,
            encoding,
        );
        if let Some(measure) = self.messages.get(&key) {
            return Ok(measure);
        }
        let measure = dialect.measure(raw, encoding)?;
        self.messages.insert(key, measure);
        Ok(measure)
    }
}
