//! Measures of messages by tenant and exact bytes, so that only new messages are counted. Of this
//! process only: the key of the hash is secret and new in every process.
//!
//! INVARIANT: tenants share no entry. The time that a request takes would tell one of them whether
//! another sent the same message before.

use highway::{HighwayHash, HighwayHasher, Key};
use quick_cache::sync::Cache;

use crate::core::conversation::{Fingerprint, Measure};
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
    pub fn fixed_tokens(
        &self,
        tenant: &Fingerprint,
        dialect: Dialect,
        outline: &Outline<'_>,
        encoding: Encoding,
    ) -> u64 {
        if outline.fixed.parts().iter().all(|part| part.is_empty()) {
            return dialect.count_fixed(outline, encoding);
        }
        let mut hasher = HighwayHasher::new(self.key_of(tenant));
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

    /// The key of a tenant's hashes. Fingerprints of tenants are keyed hashes themselves.
    fn key_of(&self, tenant: &Fingerprint) -> Key {
        let (words, _) = tenant.0.as_chunks::<8>();
        let mut key = self.key.0;
        for (word, own) in key.iter_mut().zip(words) {
            *word ^= u64::from_le_bytes(*own);
        }
        Key(key)
    }

    /// The measure of a message, given its raw JSON; taken only once for the same bytes.
    ///
    /// # Errors
    /// [`Unreadable`] when it is not a plain message.
    pub fn measure(
        &self,
        tenant: &Fingerprint,
        dialect: Dialect,
        raw: &str,
        encoding: Encoding,
    ) -> Result<Measure, Unreadable> {
        let key = (
            HighwayHasher::new(self.key_of(tenant)).hash256(raw.as_bytes()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_no_measure() {
        let measures = Measures::new(1_000);
        let (dialect, encoding) = (Dialect::ChatCompletions, Encoding::O200K);
        let raw = r#"{"role":"user","content":"a secret of one tenant"}"#;
        let body = r#"{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"}]}"#;
        let outline = dialect.outline(body.as_bytes()).unwrap();
        let tenants = [Fingerprint::of(b"one"), Fingerprint::of(b"other")];
        for (nth, tenant) in tenants.iter().enumerate() {
            for _ in 0..2 {
                measures.measure(tenant, dialect, raw, encoding).unwrap();
                let _ = measures.fixed_tokens(tenant, dialect, &outline, encoding);
                assert_eq!(measures.messages.len(), nth + 1);
                assert_eq!(measures.fixed.len(), nth + 1);
            }
        }
    }
}
