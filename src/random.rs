//! Random bytes, for request ids and for the key of the tenants' fingerprints.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Random bytes from the system. Where the system has none, which no supported platform lacks, they
/// come from the address space's layout and the clock.
#[must_use]
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        use std::hash::{BuildHasher, RandomState};
        for chunk in bytes.chunks_mut(8) {
            let word = RandomState::new()
                .hash_one(std::time::Instant::now())
                .to_le_bytes();
            chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
        }
    }
    bytes
}

/// A unique id: 128 bits in hexadecimal. A random start is counted up, so that an id needs no
/// system call.
#[must_use]
pub(crate) fn id() -> String {
    static START: OnceLock<(u64, AtomicU64)> = OnceLock::new();
    let (process, next) = START.get_or_init(|| {
        (
            u64::from_le_bytes(bytes()),
            AtomicU64::new(u64::from_le_bytes(bytes())),
        )
    });
    format!(
        "{process:016x}{:016x}",
        next.fetch_add(1, Ordering::Relaxed)
    )
}
