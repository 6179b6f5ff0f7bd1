//! Token costs of images, audio and files: parts that have no text of their own. Of an image only
//! the part of its header that holds its size is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::core::conversation::{as_float, scale};
use crate::core::tokens::encoding::{Encoding, Images};

/// An image whose size is not in the request: 1,024 × 1,024 pixels, 765 tokens of gpt-4o's.
const UNKNOWN_PIXELS: (u64, u64) = (1_024, 1_024);
/// Bytes at the beginning of an image that usually hold its size, and for images whose size follows
/// other data.
const HEADER_BYTES: [usize; 2] = [96, 64 * 1_024];
/// The longest side of an image that is believed, pixels.
const LONGEST_SIDE: u64 = 100_000;
/// Patches that an image takes at most.
const MOST_PATCHES: u64 = 1_536;
/// Bytes of base64 for one second of audio: 24 kHz, 16-bit samples.
const AUDIO_BYTES_PER_SECOND: u64 = 64_000;
/// The same for compressed audio: 128 kbit/s.
const COMPRESSED_AUDIO_BYTES_PER_SECOND: u64 = 21_333;
/// A file that the request only names.
const NAMED_FILE_TOKENS: u64 = 1_000;
/// A part of another kind that is not text.
pub(in crate::core) const OTHER_TOKENS: u64 = 1_600;
/// Bytes of base64 for one token of a file that is not text: a page of a PDF is some 100 kB and
/// 1,500 tokens.
const FILE_BYTES_PER_TOKEN: u64 = 85;

impl Images {
    fn tokens(self, low: bool, (width, height): (u64, u64)) -> u64 {
        match self {
            Images::Tiles { base, .. } if low => base,
            Images::Tiles { base, tile } => {
                let (width, height) = shrunk((width, height), width.max(height), 2_048);
                let (width, height) = shrunk((width, height), width.min(height), 768);
                base + tile * width.div_ceil(512) * height.div_ceil(512)
            }
            Images::Patches { per_mille } => {
                let size = if low {
                    shrunk((width, height), width.max(height), 512)
                } else {
                    (width, height)
                };
                (patches(size) * per_mille).div_ceil(1_000)
            }
            Images::Area => (width.saturating_mul(height) / 750).clamp(1, 1_600),
            Images::Squares if width <= 384 && height <= 384 => 258,
            Images::Squares => 258 * (width.div_ceil(768) * height.div_ceil(768)).min(256),
        }
    }
}

/// An image made smaller until `side` of it, which is one of the two, is no more than `limit`.
fn shrunk((width, height): (u64, u64), side: u64, limit: u64) -> (u64, u64) {
    if side <= limit {
        return (width, height);
    }
    let factor = as_float(limit) / as_float(side);
    // To the nearest pixel, as OpenAI bills: 2,049 × 513 takes eight tiles.
    let fitted = |length: u64| scale(1, (as_float(length) * factor).round()).max(1);
    (fitted(width), fitted(height))
}

/// Patches of 32 pixels; an image of more than 1,536 is made smaller until whole patches fit.
fn patches((width, height): (u64, u64)) -> u64 {
    let all = width.div_ceil(32) * height.div_ceil(32);
    if all <= MOST_PATCHES {
        return all;
    }
    let (w, h) = (as_float(width), as_float(height));
    let fit = (32.0 * 32.0 * as_float(MOST_PATCHES) / (w * h)).sqrt();
    let whole = |side: f64| (side * fit / 32.0).floor().max(1.0) / (side * fit / 32.0);
    let fit = fit * whole(w).min(whole(h));
    let count = |side: f64| scale(1, (side * fit / 32.0 - 1e-6).ceil().max(1.0));
    (count(w) * count(h)).min(MOST_PATCHES)
}

/// Tokens of an image at `url`, whose size is known only if that is a data URL; `low` asks for
/// little detail.
pub(in crate::core) fn image_tokens(url: Option<&str>, low: bool, encoding: Encoding) -> u64 {
    let size = url.and_then(pixels);
    encoding.images.tokens(low, size.unwrap_or(UNKNOWN_PIXELS))
}

/// Width and height of an image in a data URL.
fn pixels(url: &str) -> Option<(u64, u64)> {
    let base64 = base64_of(url)?;
    let size = HEADER_BYTES
        .iter()
        .find_map(|bytes| imagesize::blob_size(&decoded(base64, *bytes)).ok())?;
    let side = |length: usize| {
        u64::try_from(length)
            .ok()
            .filter(|length| (1..=LONGEST_SIDE).contains(length))
    };
    Some((side(size.width)?, side(size.height)?))
}

fn base64_of(url: &str) -> Option<&str> {
    url.get(..5)
        .filter(|scheme| scheme.eq_ignore_ascii_case("data:"))?;
    Some(url.split_once(";base64,")?.1)
}

/// The first `bytes` of the decoded data, as far as they can be read.
fn decoded(base64: &str, bytes: usize) -> Vec<u8> {
    let head = base64.as_bytes();
    let head = head
        .get(..head.len().min(bytes.div_ceil(3) * 4))
        .unwrap_or_default();
    let whole = head.get(..head.len() - head.len() % 4).unwrap_or_default();
    STANDARD.decode(whole).unwrap_or_default()
}

/// How audio is encoded.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) enum Audio<'a> {
    /// Samples, with the base64 of a WAV file where there is one.
    Plain(Option<&'a str>),
    /// Anything else.
    Compressed,
}

/// Tokens of audio of so many bytes of base64.
pub(in crate::core) fn audio_tokens(bytes: u64, audio: Audio<'_>, encoding: Encoding) -> u64 {
    let bytes_per_second = match audio {
        Audio::Plain(data) => data.and_then(rate).unwrap_or(AUDIO_BYTES_PER_SECOND),
        Audio::Compressed => COMPRESSED_AUDIO_BYTES_PER_SECOND,
    };
    1 + bytes * encoding.audio_tokens_per_second / bytes_per_second
}

/// Bytes of base64 for a second, by the header of a WAV file.
fn rate(data: &str) -> Option<u64> {
    let head = decoded(data, 32);
    let bytes_per_second = head.get(28..32).filter(|_| head.starts_with(b"RIFF"))?;
    let bytes = u64::from(u32::from_le_bytes(bytes_per_second.try_into().ok()?));
    (1_000..10_000_000).contains(&bytes).then(|| bytes * 4 / 3)
}

/// Tokens of a file with this content: a data URL, or text. `None` for one that the request only
/// names.
pub(in crate::core) fn file_tokens(data: Option<&str>, encoding: Encoding) -> u64 {
    let Some(data) = data else {
        return NAMED_FILE_TOKENS;
    };
    let is_text = data.starts_with("data:text/") || data.starts_with("data:application/json");
    match base64_of(data) {
        Some(base64) if is_text => {
            encoding.count(&String::from_utf8_lossy(&decoded(base64, usize::MAX / 4)))
        }
        Some(base64) => NAMED_FILE_TOKENS.max(base64.len() as u64 / FILE_BYTES_PER_TOKEN),
        None => encoding.count(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_formats_tell_their_size() {
        let gif = [
            b"GIF89a".as_slice(),
            &640_u16.to_le_bytes(),
            &480_u16.to_le_bytes(),
            &[0; 3],
        ]
        .concat();
        let mut jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        jpeg.extend(b"\xff\xe1\x20\0".iter().chain(&[0; 0x2000 - 2]));
        jpeg.extend(b"\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03\x01\x22\0\x02\x11\x01\x03\x11\x01");
        let mut webp = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
        webp.extend([0x7f, 0x02, 0, 0xdf, 0x01, 0, 0, 0, 0, 0]);
        for (kind, bytes) in [("gif", gif), ("jpeg", jpeg), ("webp", webp)] {
            assert_eq!(
                pixels(&format!(
                    "data:image/{kind};base64,{}",
                    STANDARD.encode(bytes)
                )),
                Some((640, 480)),
                "{kind}"
            );
        }
    }
}
