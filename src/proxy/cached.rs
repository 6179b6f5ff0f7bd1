//! The tokens that the upstream last had in its prompt cache, by conversation: what a compaction
//! makes it read again. For metrics alone, so that losing an entry costs nothing.

use std::fmt;

use quick_cache::sync::Cache;

use crate::core::conversation::Fingerprint;
use crate::core::planner::CheckpointKey;

/// Conversations that are remembered.
const MAX_REMEMBERED: usize = 16_384;

/// Cached tokens by the key of the list that they were reported for.
pub(super) struct CachedPrompts(Cache<Fingerprint, u64>);

impl Default for CachedPrompts {
    fn default() -> Self {
        CachedPrompts(Cache::new(MAX_REMEMBERED))
    }
}

impl fmt::Debug for CachedPrompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedPrompts").field(&self.0.len()).finish()
    }
}

impl CachedPrompts {
    /// Keeps what the answer to a list reported.
    pub(super) fn keep(&self, prefix: Fingerprint, cached_tokens: u64) {
        self.0.insert(prefix, cached_tokens);
    }

    /// The tokens that were cached of the longest known beginning of a list with these keys.
    pub(super) fn of(&self, keys: &[CheckpointKey]) -> Option<u64> {
        keys.iter().rev().find_map(|key| self.0.get(&key.prefix))
    }
}
