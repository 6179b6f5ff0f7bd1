//! Sets of bytes as tables, for what looks at every byte of a conversation.

/// A set of bytes: one look-up tells whether it has one.
pub(in crate::core) struct ByteSet([bool; 256]);

impl ByteSet {
    /// The set of these bytes.
    pub(in crate::core) const fn of(bytes: &[u8]) -> Self {
        let mut set = ByteSet([false; 256]);
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first() {
            set = set.and(*byte, *byte);
            rest = behind;
        }
        set
    }

    /// The set with the letters and digits of ASCII.
    #[must_use]
    pub(in crate::core) const fn and_alphanumeric(self) -> Self {
        self.and(b'0', b'9').and(b'A', b'Z').and(b'a', b'z')
    }

    /// The set with the bytes from `first` to `last`.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "there is a place for each byte")]
    pub(in crate::core) const fn and(mut self, first: u8, last: u8) -> Self {
        let mut byte = first;
        loop {
            self.0[byte as usize] = true;
            if byte >= last {
                return self;
            }
            byte += 1;
        }
    }

    /// Whether the set has a byte.
    pub(in crate::core) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// How many bytes at the beginning of `bytes` it has, or with `inside` false has not.
    pub(in crate::core) fn run(&self, bytes: &[u8], inside: bool) -> usize {
        let outside = |byte: &u8| self.has(*byte) != inside;
        bytes.iter().position(outside).unwrap_or(bytes.len())
    }
}

/// Bytes that are looked at together.
const LANES: usize = 32;

/// Whether any byte is `wanted`. Where that only compares, compilers make it look at many at once.
pub(in crate::core) fn any_byte(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> bool {
    let in_lane = |lane: &[u8; LANES]| lane.iter().fold(false, |any, byte| any | wanted(*byte));
    let (lanes, _) = bytes.as_chunks::<LANES>();
    if lanes.iter().any(in_lane) {
        return true;
    }
    // What is left is looked at as a lane, too: with bytes before it, or one of its own again.
    match (bytes.last_chunk::<LANES>(), bytes.first()) {
        (Some(end), _) => in_lane(end),
        (None, Some(first)) => {
            let mut lane = [*first; LANES];
            lane.iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
            in_lane(&lane)
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_stands() {
        for at in 0..100 {
            let mut bytes = [b'a'; 100];
            bytes[at] = b'b';
            assert!(any_byte(&bytes, |byte| byte == b'b'), "{at}");
        }
        assert!(!any_byte(&[b'a'; 100], |byte| byte == b'b') && !any_byte(&[], |_| true));
        for len in 1..70 {
            let mut bytes = vec![b'a'; len];
            assert!(!any_byte(&bytes, |byte| byte != b'a'), "{len}");
            bytes[len - 1] = b'b';
            assert!(any_byte(&bytes, |byte| byte == b'b'), "{len}");
        }
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let set = ByteSet::of(b"_\xff").and_alphanumeric();
        for byte in 0..=255_u8 {
            let put_in = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0xff);
            assert_eq!(set.has(byte), put_in, "{byte}");
        }
        assert_eq!((set.run(b"a_b c", true), set.run(b"  a", false)), (3, 2));
        assert_eq!((set.run(b"", true), set.run(b"abc", true)), (0, 3));
    }
}
