//! Measures of messages by tenant and exact bytes, so that only new messages are counted. Of this
//! process only: the key of the hash is secret and new in every process.
//!
//! INVARIANT: tenants share no entry. The time that a request takes would tell one of them whether
//! another sent the same message before.

use highway::{HighwayHash, HighwayHasher, Key};
use quick_cache::sync::Cache;

use crate::core::Cancel;
use crate::core::conversation::{Fingerprint, Measure};
use crate::core::planner::NotPlanned;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Outline;
use crate::core::wire::{Dialect, Unreadable};

/// Tool schemas and other fixed parts that are remembered.
const MAX_FIXED: usize = 1_024;

/// Whose measures, and of what.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'o> {
    /// Fingerprint of the credentials.
    pub tenant: &'o Fingerprint,
    /// The wire format.
    pub dialect: Dialect,
    /// How tokens are counted.
    pub encoding: Encoding,
}

/// The hash of exact bytes. HighwayHash, because every byte of every request goes through it:
/// several times as fast as BLAKE3 on messages of common length.
pub(super) type Digest = [u64; 4];

/// The key of hashes of exact bytes: new in every process, and secret, so that nobody can make two
/// texts that collide.
#[derive(Debug)]
pub(super) struct SecretKey(Key);

impl SecretKey {
    pub(super) fn random() -> Self {
        let part = || u64::from_le_bytes(crate::random::bytes());
        SecretKey(Key([(); 4].map(|()| part())))
    }

    /// The key of a tenant's hashes. Fingerprints of tenants are keyed hashes themselves.
    pub(super) fn of(&self, tenant: &Fingerprint) -> Key {
        let (words, _) = tenant.0.as_chunks::<8>();
        let mut key = self.0.0;
        for (word, own) in key.iter_mut().zip(words) {
            *word ^= u64::from_le_bytes(*own);
        }
        Key(key)
    }
}

/// A cache of measures, bounded by number.
#[derive(Debug)]
pub struct Measures {
    messages: Cache<(Digest, Dialect, Encoding), Measure>,
    fixed: Cache<(Digest, Dialect, Encoding), u64>,
    key: SecretKey,
}

impl Measures {
    /// A cache for so many messages.
    #[must_use]
    pub fn new(messages: usize) -> Self {
        Measures {
            messages: Cache::new(messages),
            fixed: Cache::new(MAX_FIXED),
            key: SecretKey::random(),
        }
    }

    /// Prompt tokens beside the messages (tool schemas above all), counted only once for the same
    /// bytes.
    #[must_use]
    pub fn fixed_tokens(&self, owner: Owner<'_>, outline: &Outline<'_>) -> u64 {
        let count = || owner.dialect.count_fixed(outline, owner.encoding);
        if outline.fixed.parts().iter().all(|part| part.is_empty()) {
            return count();
        }
        let mut hasher = HighwayHasher::new(self.key.of(owner.tenant));
        for part in outline.fixed.parts() {
            hasher.append(&(part.len() as u64).to_le_bytes());
            hasher.append(part.as_bytes());
        }
        let key = (hasher.finalize256(), owner.dialect, owner.encoding);
        self.fixed.get(&key).unwrap_or_else(|| {
            let tokens = count();
            self.fixed.insert(key, tokens);
            tokens
        })
    }

    /// The measures of all messages of a request, of which the `first` are known; each is taken
    /// only once for the same bytes.
    ///
    /// # Errors
    /// [`NotPlanned`]: one of them is not a plain message, or nobody waits any more.
    pub fn measure_all(
        &self,
        owner: Owner<'_>,
        outline: &Outline<'_>,
        first: &[Measure],
        cancel: &Cancel,
    ) -> Result<Vec<Measure>, NotPlanned> {
        let mut measures = Vec::with_capacity(outline.messages.len());
        measures.extend_from_slice(first);
        for raw in outline.messages.iter().skip(first.len()) {
            cancel.check()?;
            measures.push(self.measure(owner, raw)?);
        }
        Ok(measures)
    }

    /// The measure of a message, given its raw JSON; taken only once for the same bytes.
    ///
    /// # Errors
    /// [`Unreadable`] when it is not a plain message.
    pub fn measure(&self, owner: Owner<'_>, raw: &str) -> Result<Measure, Unreadable> {
        let key = self.key(owner, raw);
        if let Some(measure) = self.messages.get(&key) {
            return Ok(measure);
        }
        let measure = owner.dialect.measure(raw, owner.encoding)?;
        self.messages.insert(key, measure);
        Ok(measure)
    }

    fn key(&self, owner: Owner<'_>, bytes: &str) -> (Digest, Dialect, Encoding) {
        let hash = HighwayHasher::new(self.key.of(owner.tenant)).hash256(bytes.as_bytes());
        (hash, owner.dialect, owner.encoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_no_measure() {
        let measures = Measures::new(1_000);
        let (dialect, encoding) = (Dialect::ChatCompletions, Encoding::O200K);
        let body = r#"{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"}]}"#;
        let outline = dialect.outline(body.as_bytes()).unwrap();
        let tenants = [Fingerprint::of(b"one"), Fingerprint::of(b"other")];
        for (nth, tenant) in tenants.iter().enumerate() {
            let owner = Owner {
                tenant,
                dialect,
                encoding,
            };
            for _ in 0..2 {
                let cancel = Cancel::default();
                measures.measure_all(owner, &outline, &[], &cancel).unwrap();
                let _ = measures.fixed_tokens(owner, &outline);
                assert_eq!(measures.messages.len(), nth + 1);
                assert_eq!(measures.fixed.len(), nth + 1);
            }
        }
    }
}
