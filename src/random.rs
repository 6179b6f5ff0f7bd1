//! Random bytes, for request ids and for the key of the tenants' fingerprints.

use std::cell::RefCell;

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

/// A unique id: 128 random bits in hexadecimal. No id tells of another one.
#[must_use]
pub(crate) fn id() -> String {
    thread_local! {
        /// Random bytes in stock, so that most ids need no system call.
        static STOCK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    STOCK.with_borrow_mut(|stock| {
        if stock.is_empty() {
            stock.extend_from_slice(&bytes::<STOCK_BYTES>());
        }
        let rest = stock.len().saturating_sub(ID_BYTES);
        let halves = stock.drain(rest..).flat_map(|byte| [byte >> 4, byte & 0xf]);
        halves.map(digit).collect()
    })
}

/// The hexadecimal digit of a number below 16.
fn digit(number: u8) -> char {
    char::from_digit(number.into(), 16).unwrap_or_default()
}

/// Bytes of an id.
const ID_BYTES: usize = 16;
/// Bytes that are asked of the system at a time.
const STOCK_BYTES: usize = 64 * ID_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_count_up() {
        let ids: Vec<u128> = (0..200)
            .map(|_| u128::from_str_radix(&id(), 16).unwrap())
            .collect();
        assert!(ids.iter().all(|id| *id != 0));
        let near = |pair: &[u128]| pair[0].abs_diff(pair[1]) < 1 << 64;
        assert!(!ids.windows(2).any(near));
        assert!(ids.windows(2).any(|pair| pair[0] > pair[1]));
    }
}
