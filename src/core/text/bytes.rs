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

/// A set of bytes of several kinds, each with a bit of its own.
pub(in crate::core) struct ByteKinds([u8; 256]);

impl ByteKinds {
    /// The kind of those of which no other is known.
    const OTHER: u8 = 1;

    /// The set of these bytes.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each byte")]
    pub(in crate::core) const fn of(set: &ByteSet) -> Self {
        let mut kinds = ByteKinds([0; 256]);
        let mut byte = 0;
        while byte < set.0.len() {
            kinds.0[byte] = set.0[byte] as u8 * Self::OTHER;
            byte += 1;
        }
        kinds
    }

    /// The set with these bytes as a kind.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "there is a place for each byte")]
    pub(in crate::core) const fn with(mut self, set: &ByteSet, kind: u8) -> Self {
        let mut byte = 0;
        while byte < set.0.len() {
            if set.0[byte] {
                self.0[byte] = kind;
            }
            byte += 1;
        }
        self
    }

    fn kind_of(&self, byte: u8) -> u8 {
        self.0.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// How many bytes at the beginning of `bytes` it has, and the kinds of them.
    pub(in crate::core) fn run(&self, bytes: &[u8]) -> (usize, u8) {
        let mut kinds = 0;
        let end = bytes.iter().position(|byte| {
            let kind = self.kind_of(*byte);
            kinds |= kind;
            kind == 0
        });
        (end.unwrap_or(bytes.len()), kinds)
    }

    /// How many it has not.
    pub(in crate::core) fn gap(&self, bytes: &[u8]) -> usize {
        let inside = |byte: &u8| self.kind_of(*byte) != 0;
        bytes.iter().position(inside).unwrap_or(bytes.len())
    }
}

/// Bytes that are looked at together.
const LANES: usize = 32;

/// Whether any byte is `wanted`. Where that only compares, and never decides what to compare next,
/// compilers make it look at many at once.
pub(in crate::core) fn any_byte(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> bool {
    let in_lane = |lane: &[u8; LANES]| {
        let found = |any: u8, byte: &u8| any | u8::from(wanted(*byte));
        lane.iter().fold(0, found) != 0
    };
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

    #[test]
    fn kinds_are_those_of_the_bytes_of_a_run() {
        let digits = ByteSet::of(b"").and(b'0', b'9');
        let set = ByteKinds::of(&ByteSet::of(b"_").and_alphanumeric()).with(&digits, 2);
        assert_eq!(
            (set.run(b"ab c1"), set.run(b"a1"), set.run(b"12.")),
            ((2, 1), (2, 3), (2, 2))
        );
        assert_eq!(
            (set.run(b" "), set.gap(b"  a"), set.gap(b"  ")),
            ((0, 0), 2, 2)
        );
    }
}
