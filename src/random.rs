//! Random bytes, for ids and for the key that tenants' fingerprints are made with.

/// Bytes from the system; from the address space's layout and the clock where the system has none, which no supported
/// platform lacks.
#[must_use]
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        use std::hash::{BuildHasher, RandomState};
        for chunk in bytes.chunks_mut(8) {
            let word = RandomState::new().hash_one(std::time::Instant::now()).to_le_bytes();
            chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
        }
    }
    bytes
}

/// 128 random bits in hexadecimal.
#[must_use]
pub(crate) fn id() -> String {
    format!("{:032x}", u128::from_le_bytes(bytes()))
}
