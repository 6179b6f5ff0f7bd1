//! Decodes `content-encoding` piece by piece, for readers that watch an answer on the side. It must
//! not know what is read.
//!
//! Memory is bounded by the windows of the formats (32 KiB for gzip and deflate, 16 MiB for br, 8
//! MiB for zstd) and by the output of one piece of `STEP_BYTES`. The caller's limit on the output
//! bounds the time.

use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes of input that are decoded at a time.
const STEP_BYTES: usize = 1_024;
/// Size of the brotli decoder's output buffer, bytes.
const BROTLI_BYTES: usize = 8 * 1_024;
/// Largest window of zstd, bytes: the limit of RFC 9659 for `content-encoding`.
const ZSTD_WINDOW_BYTES: u64 = 8 << 20;
/// Largest block of zstd, bytes.
const ZSTD_BLOCK_BYTES: usize = 128 * 1_024;

/// Why decoding stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The bytes are not valid in the announced encoding.
    #[error("not in the encoding that it claims")]
    Broken,
    /// The output would exceed the limit.
    #[error("longer than the limit when decoded")]
    TooLong,
}

/// An incremental decoder of one `content-encoding`.
pub struct Decoder {
    format: Format,
    stopped: Option<Stopped>,
}

enum Format {
    Gzip(MultiGzDecoder<Sink>),
    /// `deflate` before its first byte. The standard asks for the zlib format, but some servers
    /// send bare deflate.
    Undecided(Sink),
    Zlib(ZlibDecoder<Sink>),
    Deflate(DeflateDecoder<Sink>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// The decoder for a value of `content-encoding`, for at most `limit` decoded bytes. `None` for
    /// unknown encodings, and for several encodings on top of each other.
    #[must_use]
    pub fn new(encoding: &str, limit: usize) -> Option<Self> {
        let sink = Sink {
            bytes: Vec::new(),
            left: limit,
            is_full: false,
        };
        let format = match encoding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Format::Gzip(MultiGzDecoder::new(sink)),
            "deflate" => Format::Undecided(sink),
            "br" => Format::Brotli(Box::new(Brotli::new(sink))),
            "zstd" => Format::Zstd(Box::new(Zstd::new(sink))),
            _ => return None,
        };
        Some(Decoder {
            format,
            stopped: None,
        })
    }

    /// Decodes the next bytes and passes the output on in pieces. The output of a zstd frame comes
    /// when its window is full or the frame ends; the output of other formats comes as early as
    /// possible.
    ///
    /// # Errors
    /// [`Stopped`]. Earlier output is valid, and no more will follow.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8])) -> Result<(), Stopped> {
        for piece in bytes.chunks(STEP_BYTES) {
            if let Some(stopped) = self.stopped {
                return Err(stopped);
            }
            let decoded = self.format.push(piece);
            let sink = self.format.sink();
            if !sink.bytes.is_empty() {
                out(&sink.bytes);
                sink.bytes.clear();
            }
            if sink.is_full {
                self.stopped = Some(Stopped::TooLong);
            } else if decoded.is_err() {
                self.stopped = Some(Stopped::Broken);
            }
        }
        self.stopped.map_or(Ok(()), Err)
    }
}

impl Format {
    fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Format::Undecided(sink) = self {
            let sink = std::mem::take(sink);
            // The lower half of the first byte of zlib is the method, 8.
            *self = match piece.first() {
                Some(first) if first & 0x0f == 8 => Format::Zlib(ZlibDecoder::new(sink)),
                _ => Format::Deflate(DeflateDecoder::new(sink)),
            };
        }
        match self {
            Format::Undecided(_) => Ok(()),
            Format::Gzip(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Format::Zlib(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Format::Deflate(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
            Format::Brotli(decoder) => decoder.push(piece),
            Format::Zstd(decoder) => decoder.push(piece),
        }
    }

    fn sink(&mut self) -> &mut Sink {
        match self {
            Format::Undecided(sink) => sink,
            Format::Gzip(decoder) => decoder.get_mut(),
            Format::Zlib(decoder) => decoder.get_mut(),
            Format::Deflate(decoder) => decoder.get_mut(),
            Format::Brotli(decoder) => &mut decoder.sink,
            Format::Zstd(decoder) => &mut decoder.sink,
        }
    }
}

/// Collects decoded bytes up to the limit.
#[derive(Default)]
struct Sink {
    bytes: Vec<u8>,
    left: usize,
    is_full: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.get(..self.left).unwrap_or(bytes);
        self.bytes.extend_from_slice(taken);
        self.left -= taken.len();
        self.is_full |= taken.len() < bytes.len();
        if self.is_full {
            Err(io::ErrorKind::QuotaExceeded.into())
        } else {
            Ok(bytes.len())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    buffer: Box<[u8]>,
    sink: Sink,
}

impl Brotli {
    fn new(sink: Sink) -> Self {
        // Strict mode refuses the large windows that are not in the standard.
        let state = BrotliState::new_strict(
            StandardAlloc::default(),
            StandardAlloc::default(),
            StandardAlloc::default(),
        );
        Brotli {
            state,
            buffer: vec![0; BROTLI_BYTES].into_boxed_slice(),
            sink,
        }
    }

    fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        let (mut unread, mut read, mut total) = (piece.len(), 0, 0);
        loop {
            let (mut free, mut written) = (self.buffer.len(), 0);
            let result = BrotliDecompressStream(
                &mut unread,
                &mut read,
                piece,
                &mut free,
                &mut written,
                &mut self.buffer,
                &mut total,
                &mut self.state,
            );
            self.sink
                .write_all(self.buffer.get(..written).unwrap_or_default())?;
            match result {
                BrotliResult::NeedsMoreOutput => {}
                // Output that found no room in the buffer is still in the decoder.
                BrotliResult::NeedsMoreInput if free == 0 => {}
                BrotliResult::NeedsMoreInput => return Ok(()),
                BrotliResult::ResultSuccess if unread == 0 => return Ok(()),
                BrotliResult::ResultSuccess | BrotliResult::ResultFailure => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    }
}

/// Feeds the zstd decoder one complete header or block at a time. It cannot resume within one, and
/// many small ones together can produce any amount of output.
struct Zstd {
    decoder: FrameDecoder,
    /// Bytes of an incomplete header or block.
    input: Vec<u8>,
    /// Set within a frame: whether the frame ends with a checksum.
    frame: Option<bool>,
    sink: Sink,
}

/// Position of the descriptor in a frame's header, after the magic number. The descriptor
/// determines the header's length.
const ZSTD_DESCRIPTOR_AT: usize = 4;

impl Zstd {
    fn new(sink: Sink) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW_BYTES);
        Zstd {
            decoder,
            input: Vec::new(),
            frame: None,
            sink,
        }
    }

    fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(piece);
        let mut rest = input.as_slice();
        while let Some(used) = self.step(rest)? {
            rest = rest.get(used..).unwrap_or_default();
        }
        self.input = rest.to_vec();
        Ok(())
    }

    /// Decodes the header or block at the beginning of `input` and returns its length. `None` while
    /// it is incomplete.
    fn step(&mut self, input: &[u8]) -> io::Result<Option<usize>> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let Some(checksum) = self.frame else {
            let Some(descriptor) = input.get(ZSTD_DESCRIPTOR_AT) else {
                return Ok(None);
            };
            let single_segment = descriptor & 0x20 != 0;
            let dictionary = [0, 1, 2, 4]
                .get(usize::from(descriptor & 3))
                .copied()
                .unwrap_or(0);
            let size = [usize::from(single_segment), 2, 4, 8]
                .get(usize::from(descriptor >> 6))
                .copied()
                .unwrap_or(0);
            let length = ZSTD_DESCRIPTOR_AT + 1 + usize::from(!single_segment) + dictionary + size;
            let Some(mut header) = input.get(..length) else {
                return Ok(None);
            };
            self.decoder.init(&mut header).map_err(|_| broken())?;
            self.frame = Some(descriptor & 4 != 0);
            return Ok(Some(length));
        };
        let Some([a, b, c]) = input.first_chunk() else {
            return Ok(None);
        };
        let header = u32::from_le_bytes([*a, *b, *c, 0]);
        let (is_last, is_run, size) = (
            header & 1 == 1,
            (header >> 1) & 3 == 1,
            usize::try_from(header >> 3).map_err(|_| broken())?,
        );
        if size > ZSTD_BLOCK_BYTES {
            return Err(broken());
        }
        let length = 3 + if is_run { 1 } else { size } + if is_last && checksum { 4 } else { 0 };
        let Some(mut block) = input.get(..length) else {
            return Ok(None);
        };
        let finished = self
            .decoder
            .decode_blocks(&mut block, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|_| broken())?;
        self.decoder.collect_to_writer(&mut self.sink)?;
        if finished {
            self.frame = None;
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// `{"usage":{"prompt_tokens":77},"x":"` and 400 times `brotli `, then `"}`; encoded by the
    /// reference encoder.
    const BROTLI: &[u8] = &[
        0x1b, 0x14, 0x0b, 0xf8, 0x1d, 0x07, 0x76, 0x2c, 0xb3, 0x4e, 0x30, 0x0e, 0xa7, 0x87, 0xa5,
        0x8b, 0xbe, 0xb1, 0x75, 0x65, 0x9b, 0x5f, 0x79, 0x8a, 0x08, 0x43, 0x49, 0x89, 0xdc, 0x84,
        0x0e, 0x38, 0xe4, 0x04, 0xf4, 0x7b, 0x84, 0x49, 0xe4, 0x56, 0x13, 0xc0, 0xc0, 0x24, 0xb8,
        0xc8, 0x29, 0x68, 0x67, 0x85, 0xe7, 0xf0, 0xb0, 0x8d, 0x3f, 0x59, 0x6e, 0x54, 0x00, 0x80,
        0x54, 0x8c, 0x29, 0xa0, 0x07,
    ];

    /// The same, with a checksum and of unknown length.
    const ZSTD: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x10, 0xad, 0x01, 0x00, 0xc4, 0x02, 0x7b, 0x22, 0x75, 0x73,
        0x61, 0x67, 0x65, 0x22, 0x3a, 0x7b, 0x22, 0x70, 0x72, 0x6f, 0x6d, 0x70, 0x74, 0x5f, 0x74,
        0x6f, 0x6b, 0x65, 0x6e, 0x73, 0x22, 0x3a, 0x37, 0x37, 0x7d, 0x2c, 0x22, 0x78, 0x22, 0x3a,
        0x22, 0x62, 0x72, 0x6f, 0x74, 0x6c, 0x69, 0x20, 0x22, 0x7d, 0x01, 0x00, 0x32, 0x97, 0xfc,
        0x52, 0x06, 0xf1, 0xbb, 0x5d, 0x8d,
    ];

    fn text() -> Vec<u8> {
        format!(
            "{{\"usage\":{{\"prompt_tokens\":77}},\"x\":\"{}\"}}",
            "brotli ".repeat(400)
        )
        .into_bytes()
    }

    fn encoded(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let level = Compression::default();
        let (mut gzip, mut zlib, mut deflate) = (
            GzEncoder::new(Vec::new(), level),
            ZlibEncoder::new(Vec::new(), level),
            DeflateEncoder::new(Vec::new(), level),
        );
        for encoder in [&mut gzip as &mut dyn Write, &mut zlib, &mut deflate] {
            encoder.write_all(text).unwrap();
        }
        let zstd = compress_to_vec(text, CompressionLevel::Fastest);
        vec![
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", deflate.finish().unwrap()),
            ("zstd", zstd),
        ]
    }

    fn decode(encoding: &str, pieces: &[&[u8]], limit: usize) -> (Vec<u8>, Result<(), Stopped>) {
        let (mut decoder, mut out) = (Decoder::new(encoding, limit).unwrap(), Vec::new());
        let result = pieces.iter().try_for_each(|piece| {
            decoder.push(piece, &mut |decoded| out.extend_from_slice(decoded))
        });
        (out, result)
    }

    proptest! {
        #[test]
        fn decodes_however_the_bytes_are_cut(
            text in "[a-d]{0,5000}|\\PC{0,300}",
            size in 1..700_usize,
        ) {
            for (encoding, bytes) in encoded(text.as_bytes()) {
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                let expected = (text.clone().into_bytes(), Ok(()));
                prop_assert_eq!(decode(encoding, &pieces, 1 << 20), expected, "{}", encoding);
            }
            for (encoding, bytes) in [("br", BROTLI), ("zstd", ZSTD)] {
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                let expected = (self::text(), Ok(()));
                prop_assert_eq!(decode(encoding, &pieces, 1 << 20), expected, "{}", encoding);
            }
        }

        #[test]
        fn hostile_bytes_do_no_harm(
            noise in proptest::collection::vec(any::<u8>(), 1..2_000),
            at in 0..400_usize,
            flip in 1..=255_u8,
        ) {
            let mut all = encoded(&text());
            all.push(("br", BROTLI.to_vec()));
            for (encoding, mut bytes) in all {
                let (out, _) = decode(encoding, &[&noise], 1 << 20);
                prop_assert!(out.len() <= 1 << 20);
                let at = at % bytes.len();
                bytes[at] ^= flip;
                let (out, _) = decode(encoding, &[&bytes, &noise], 1 << 20);
                prop_assert!(out.len() <= 1 << 20);
            }
        }
    }

    #[test]
    fn what_was_flushed_is_decoded_at_once() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let (mut decoder, mut out) = (Decoder::new("gzip", 1 << 20).unwrap(), Vec::new());
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            gzip.write_all(event.as_bytes()).unwrap();
            gzip.flush().unwrap();
            decoder
                .push(&std::mem::take(gzip.get_mut()), &mut |decoded| {
                    out.extend_from_slice(decoded)
                })
                .unwrap();
            assert!(out.ends_with(event.as_bytes()), "{event:?}");
        }
    }

    #[test]
    fn what_was_flushed_is_decoded_at_once_when_it_is_larger_than_the_buffer() {
        // 1,000 events, flushed, without the end of the stream.
        let event = b"data: {\"choices\":[]}\n\n";
        let flushed = include_bytes!("../../../tests/fuzz-seeds/encoded/brotli-flushed");
        let (out, result) = decode("br", &[flushed], 1 << 20);
        assert_eq!((out, result), (event.repeat(1_000), Ok(())));
    }

    #[test]
    fn a_bomb_is_left_alone_at_the_limit() {
        let zeros = vec![0; 64 << 20];
        let mut bombs = encoded(&zeros);
        // A zstd frame whose blocks say "131,072 times this byte" in four bytes each.
        let mut runs = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
        (0..10_000).for_each(|_| runs.extend_from_slice(&[0x02, 0x00, 0x10, 0x00]));
        bombs.push(("zstd", runs));
        for (encoding, bytes) in bombs {
            let (out, result) = decode(encoding, &[&bytes], 1 << 20);
            assert_eq!(
                (out.len(), result),
                (1 << 20, Err(Stopped::TooLong)),
                "{encoding}"
            );
            assert!(bytes.len() < 1 << 20, "{encoding}: it is one");
        }
        let (out, result) = decode("br", &[BROTLI], 1_000);
        assert_eq!(
            (out.as_slice(), result),
            (&text()[..1_000], Err(Stopped::TooLong))
        );
    }

    #[test]
    fn a_stopped_decoder_stays_stopped() {
        for encoding in ["gzip", "deflate", "br", "zstd"] {
            let mut decoder = Decoder::new(encoding, 1_000).unwrap();
            let noise = [0xff; 64];
            assert_eq!(
                decoder.push(&noise, &mut |_| ()),
                Err(Stopped::Broken),
                "{encoding}"
            );
            assert_eq!(
                decoder.push(&noise, &mut |_| panic!("nothing comes")),
                Err(Stopped::Broken)
            );
        }
    }

    #[test]
    fn other_encodings_are_not_known() {
        for encoding in ["", "identity", "compress", "gzip, br", "*"] {
            assert!(Decoder::new(encoding, 1).is_none(), "{encoding}");
        }
        assert!(Decoder::new(" GZip", 1).is_some());
    }
}
