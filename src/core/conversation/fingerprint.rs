//! Fingerprints of messages and of prefixes of a list.
//!
//! The fingerprint of a message is that of its canonical content: key order, nulls and volatile
//! annotations aside, and a text is the same whether it is sent as a string or as a single text
//! part. That of a prefix is a chain over its messages.

use std::fmt;
use std::hash::{Hash, Hasher};

use highway::{HighwayHash, HighwayHasher, Key};

/// Bytes of parts that are hashed together.
const SHORT: usize = 512;
/// Bytes of a part's length.
const LENGTH: usize = 8;

/// 256 bits of a hash: BLAKE3, or HighwayHash under a secret key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Hash for Fingerprint {
    /// A part of it is as good a hash as a hash of the whole.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [part, ..] = self.words();
        state.write_u64(part);
    }
}

impl fmt::Debug for Fingerprint {
    /// A few digits are enough to tell two fingerprints apart in the output of a test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

impl Fingerprint {
    fn words(&self) -> [u64; 4] {
        let (words, _) = self.0.as_chunks::<8>();
        let mut all = [0; 4];
        for (part, word) in all.iter_mut().zip(words) {
            *part = u64::from_le_bytes(*word);
        }
        all
    }

    /// The fingerprint of these exact bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Fingerprint(*blake3::hash(bytes).as_bytes())
    }

    /// The fingerprint of several parts. The length of each part enters it, so that moving a
    /// boundary changes the result.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        each_piece(parts, |piece| {
            hasher.update(piece);
        });
        Fingerprint(*hasher.finalize().as_bytes())
    }

    /// The same by HighwayHash, as for [`PrefixHash`], under a key that must be a secret.
    #[must_use]
    pub fn of_parts_under(key: &Fingerprint, parts: &[&[u8]]) -> Self {
        let mut hash = PrefixHash::new(key);
        each_piece(parts, |piece| hash.0.append(piece));
        hash.digest()
    }
}

/// Calls `hash` with several parts in turn, each with its length. Short ones come in one piece:
/// taking each up costs as much as hashing it.
fn each_piece(parts: &[&[u8]], mut hash: impl FnMut(&[u8])) {
    let mut short: Vec<u8> = Vec::with_capacity(SHORT);
    for part in parts {
        if short.len() + LENGTH + part.len() > SHORT {
            hash(&short);
            short.clear();
        }
        short.extend_from_slice(&(part.len() as u64).to_le_bytes());
        if part.len() > SHORT {
            hash(&short);
            hash(part);
            short.clear();
        } else {
            short.extend_from_slice(part);
        }
    }
    hash(&short);
}

/// A chain over the messages of a list, with the fingerprint of every prefix on the way.
///
/// HighwayHash with the seed as its key: it is twice as fast here as BLAKE3, and every new
/// message is in three chains. Its strength is that of a keyed hash, so the seed must be a
/// secret.
#[derive(Debug, Clone)]
pub struct PrefixHash(HighwayHasher);

impl PrefixHash {
    /// A chain that starts from `seed`, which must not be known outside.
    #[must_use]
    pub fn new(seed: &Fingerprint) -> Self {
        PrefixHash(HighwayHasher::new(Key(seed.words())))
    }

    /// One more message.
    pub fn push(&mut self, message: &Fingerprint) {
        self.0.append(&message.0);
    }

    /// The fingerprint of the list so far.
    #[must_use]
    pub fn digest(&self) -> Fingerprint {
        let mut digest = [0; 32];
        let (words, _) = digest.as_chunks_mut::<8>();
        for (word, part) in words.iter_mut().zip(self.0.clone().finalize256()) {
            *word = part.to_le_bytes();
        }
        Fingerprint(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_hashed_with_their_lengths_however_long_they_are() {
        let bytes = vec![7; 3 * SHORT];
        let lengths = [
            0,
            1,
            40,
            SHORT - LENGTH,
            SHORT - 1,
            SHORT,
            SHORT + 1,
            2 * SHORT,
        ];
        for first in lengths {
            for second in lengths {
                let parts = [first, second, 3].map(|length| bytes.get(..length).unwrap());
                let framed = parts.map(|part| [&(part.len() as u64).to_le_bytes(), part].concat());
                let framed = framed.concat();
                assert_eq!(Fingerprint::of_parts(&parts), Fingerprint::of(&framed));
                let mut keys = [b"one", b"two"].map(|key| Fingerprint::of(key));
                for key in &mut keys {
                    let mut hash = PrefixHash::new(key);
                    hash.0.append(&framed);
                    *key = Fingerprint::of_parts_under(key, &parts);
                    assert_eq!(*key, hash.digest());
                }
                assert_ne!(keys[0], keys[1]);
            }
        }
    }
}
