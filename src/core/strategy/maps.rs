//! Maps and sets with a fast hash. Its seed is fixed: the same list gives the same digest, and
//! takes the same time, in every process.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;

/// A map that is looked up; the order of a walk through it never matters.
pub(super) type Map<K, V> = HashMap<K, V, FixedState>;
/// A set that is looked up; the order of a walk through it never matters.
pub(super) type Set<K> = HashSet<K, FixedState>;

/// What tells a text from others, as far as strategies need to know: of two texts with the same
/// hash, one would be told.
pub(super) fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    FixedState::default().hash_one(value)
}
