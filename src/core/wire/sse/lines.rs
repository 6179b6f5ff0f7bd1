//! Reads the data lines of an event stream. At most one line is kept. A longer line is skipped, and
//! reading goes on after it.

/// Longest line that is read, bytes.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// An incremental reader of the `data` lines of an event stream.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// The current line is too long: skip to its end.
    skipping: bool,
}

impl Lines {
    /// Takes the next bytes of the stream, and calls `data` with the payload of every `data` line
    /// that they complete. A line ends with `\n`, `\r\n` or `\r`. Comments and other fields are
    /// ignored.
    pub fn push(&mut self, mut bytes: &[u8], data: &mut impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            if self.line.is_empty() && !self.skipping {
                payload(line, data);
            } else {
                self.keep(line);
                self.finish(data);
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
    }

    /// Handles the rest after the last line end as a line, because some servers do not end the last
    /// one.
    pub fn finish(&mut self, data: &mut impl FnMut(&[u8])) {
        if !self.skipping {
            payload(&self.line, data);
        }
        self.line.clear();
        self.skipping = false;
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skipping || self.line.len() + bytes.len() > MAX_LINE_BYTES {
            self.skipping = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}

fn payload(line: &[u8], data: &mut impl FnMut(&[u8])) {
    if let Some(payload) = line.strip_prefix(b"data:") {
        data(payload.strip_prefix(b" ").unwrap_or(payload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] =
        b": hello\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:{\"b\":2}\n\ndata: [DONE]\rdata: end";

    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        let mut data = |payload: &[u8]| seen.push(String::from_utf8_lossy(payload).into_owned());
        for chunk in chunks {
            lines.push(chunk, &mut data);
        }
        lines.finish(&mut data);
        seen
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(
            mut cuts in proptest::collection::vec(0..STREAM.len(), 0..9),
        ) {
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&STREAM[from..cut]);
                from = cut;
            }
            chunks.push(&STREAM[from..]);
            prop_assert_eq!(read(&chunks), ["{\"a\":1}", "{\"b\":2}", "[DONE]", "end"]);
        }
    }

    #[test]
    fn an_endless_line_is_skipped_and_forgotten() {
        let mut lines = Lines::default();
        let mut seen = 0;
        for _ in 0..100 {
            lines.push(&[b'x'; 64 * 1024], &mut |_| seen += 1);
            assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES);
        }
        lines.push(b"\ndata: 1\n", &mut |_| seen += 1);
        assert_eq!(seen, 1);
    }
}
