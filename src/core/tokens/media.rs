//! What images, audio and files cost: parts that have no text of their own. Of images only the header is read, and of
//! that only as much as tells their size.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::conversation::{as_float, scale};
use crate::core::json::string;
use crate::core::tokens::Encoding;

/// What a model takes an image for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Images {
    /// So much for any image, and so much for each tile of 512 pixels, once it fits in 2,048 pixels and its shorter side
    /// in 768.
    Tiles {
        /// For any image; all there is at `detail: low`.
        base: u64,
        /// For each tile.
        tile: u64,
    },
    /// Patches of 32 pixels, 1,536 at most, times a factor; a part of a token counts as one.
    Patches {
        /// The factor, in thousandths.
        per_mille: u64,
    },
    /// Width × height / 750, 1,600 at most: Anthropic's.
    Area,
    /// 258 for each square of 768 pixels: Google's.
    Squares,
}

/// An image whose size is not in the request: 1,024 × 1,024 pixels, 765 tokens of gpt-4o's.
const UNKNOWN_PIXELS: (u64, u64) = (1_024, 1_024);
/// Bytes at the beginning of an image that tell its size as a rule, and for those whose size stands behind other things.
const HEADER_BYTES: [usize; 2] = [96, 64 * 1_024];
/// No side of an image is longer; what says so is no image.
const LONGEST_SIDE: u64 = 100_000;
/// Patches that an image takes at most.
const MOST_PATCHES: u64 = 1_536;
/// Bytes of base64 for one second of audio: 24 kHz, 16-bit samples.
const AUDIO_BYTES_PER_SECOND: u64 = 64_000;
/// The same for compressed audio: 128 kbit/s.
const COMPRESSED_AUDIO_BYTES_PER_SECOND: u64 = 21_333;
/// A file that the request only names.
const NAMED_FILE_TOKENS: u64 = 1_000;
/// A part of another kind that is no text.
pub(in crate::core) const OTHER_TOKENS: u64 = 1_600;
/// Bytes of base64 for one token of a file that is no text: a page of a PDF is some 100 kB and 1,500 tokens.
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

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

/// Tokens of an `image_url`.
pub(in crate::core) fn image_tokens(image: &RawValue, encoding: Encoding) -> u64 {
    let Ok(Image { url, detail }) = serde_json::from_str::<Image<'_>>(image.get()) else {
        return encoding.images.tokens(false, UNKNOWN_PIXELS);
    };
    let low = detail.is_some_and(|detail| detail.get() == r#""low""#);
    let size = url.and_then(string).and_then(|url| pixels(&url));
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

/// The first `bytes` of what is encoded, as far as they can be read.
fn decoded(base64: &str, bytes: usize) -> Vec<u8> {
    let head = base64.as_bytes();
    let head = head
        .get(..head.len().min(bytes.div_ceil(3) * 4))
        .unwrap_or_default();
    let whole = head.get(..head.len() - head.len() % 4).unwrap_or_default();
    STANDARD.decode(whole).unwrap_or_default()
}

/// Tokens of an `input_audio`.
pub(in crate::core) fn audio_tokens(audio: &RawValue, encoding: Encoding) -> u64 {
    #[derive(Deserialize)]
    struct Audio<'a> {
        #[serde(borrow)]
        data: Option<&'a RawValue>,
        #[serde(borrow)]
        format: Option<&'a RawValue>,
    }
    let Ok(Audio { data, format }) = serde_json::from_str::<Audio<'_>>(audio.get()) else {
        return 1;
    };
    let length = data.map_or(0, |data| data.get().len() as u64);
    let plain = format.is_none_or(|format| matches!(format.get(), r#""wav""# | r#""pcm16""#));
    let bytes_per_second = if plain {
        rate(data).unwrap_or(AUDIO_BYTES_PER_SECOND)
    } else {
        COMPRESSED_AUDIO_BYTES_PER_SECOND
    };
    1 + length * encoding.audio_tokens_per_second / bytes_per_second
}

/// Bytes of base64 for a second, by the header of a WAV file.
fn rate(data: Option<&RawValue>) -> Option<u64> {
    let head = decoded(&string(data?)?, 32);
    let bytes_per_second = head.get(28..32).filter(|_| head.starts_with(b"RIFF"))?;
    let bytes = u64::from(u32::from_le_bytes(bytes_per_second.try_into().ok()?));
    (1_000..10_000_000).contains(&bytes).then(|| bytes * 4 / 3)
}

/// Tokens of a `file`.
pub(in crate::core) fn file_tokens(file: &RawValue, encoding: Encoding) -> u64 {
    #[derive(Deserialize)]
    struct File<'a> {
        #[serde(borrow)]
        file_data: Option<&'a RawValue>,
    }
    let data = serde_json::from_str::<File<'_>>(file.get())
        .ok()
        .and_then(|file| file.file_data);
    let Some(data) = data.and_then(string) else {
        return NAMED_FILE_TOKENS;
    };
    let is_text = data.starts_with("data:text/") || data.starts_with("data:application/json");
    match base64_of(&data) {
        Some(base64) if is_text => {
            encoding.count(&String::from_utf8_lossy(&decoded(base64, usize::MAX / 4)))
        }
        Some(base64) => NAMED_FILE_TOKENS.max(base64.len() as u64 / FILE_BYTES_PER_TOKEN),
        None => encoding.count(&data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(model: &str, json: &str) -> u64 {
        image_tokens(
            serde_json::from_str(json).unwrap(),
            Encoding::for_model(model),
        )
    }

    /// A PNG of these pixels, as far as its header.
    fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
        format!("data:image/png;base64,{}", STANDARD.encode(bytes))
    }

    #[test]
    fn images_cost_what_their_makers_say() {
        for (model, width, height, detail, tokens) in [
            // OpenAI's guide: 765 for 1024², 1,105 for 2048 × 4096, 85 at low detail whatever the size.
            ("gpt-4o", 1_024, 1_024, "high", 765),
            ("gpt-4o", 2_048, 4_096, "high", 1_105),
            ("gpt-4o", 4_096, 8_192, "low", 85),
            ("gpt-4o", 512, 512, "auto", 255),
            ("gpt-4.1", 2_049, 513, "auto", 1_445),
            ("gpt-4o-mini", 1_024, 1_024, "high", 25_501),
            ("gpt-5", 1_024, 1_024, "high", 630),
            ("o1", 1_024, 1_024, "high", 675),
            // 1,024 and 1,452 patches, by the same guide.
            ("gpt-4.1-mini", 1_024, 1_024, "high", 1_659),
            ("gpt-4.1-mini", 1_800, 2_400, "high", 2_353),
            ("o4-mini", 1_800, 2_400, "auto", 2_498),
            ("gpt-4.1-nano", 32, 32, "auto", 3),
            ("claude-sonnet-4", 1_000, 1_000, "auto", 1_333),
            ("claude-sonnet-4", 8_000, 8_000, "auto", 1_600),
            ("gemini-2.5-pro", 300, 300, "auto", 258),
            ("gemini-2.5-pro", 1_536, 768, "auto", 516),
        ] {
            let json = format!(r#"{{"url":"{}","detail":"{detail}"}}"#, png(width, height));
            assert_eq!(
                of(model, &json),
                tokens,
                "{model} {width} x {height} {detail}"
            );
        }
    }

    #[test]
    fn what_says_no_size_is_taken_for_a_common_one() {
        for json in [
            r#"{"url":"https://example.org/a.png"}"#,
            r#"{"url":"data:image/png;base64,AAAA"}"#,
            r#"{"url":"data:image/png;base64,!!!"}"#,
            r#"{"url":7}"#,
            "{}",
            "[]",
            r#""https://example.org/a.png""#,
        ] {
            assert_eq!(of("gpt-4o", json), 765, "{json}");
        }
        // What claims a side that no image has is not believed.
        assert_eq!(
            of("gpt-4o", &format!(r#"{{"url":"{}"}}"#, png(u32::MAX, 1))),
            765
        );
    }

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

    #[test]
    fn audio_costs_ten_tokens_a_second_and_more_where_its_maker_says_so() {
        let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        wav.extend(8_000_u32.to_le_bytes());
        wav.extend(16_000_u32.to_le_bytes());
        wav.resize(16_000 * 3, 0);
        let json = format!(r#"{{"data":"{}","format":"wav"}}"#, STANDARD.encode(wav));
        let of = |model: &str, json: &str| {
            audio_tokens(
                serde_json::from_str(json).unwrap(),
                Encoding::for_model(model),
            )
        };
        assert!((30..=32).contains(&of("gpt-4o-audio-preview", &json)));
        assert!((96..=98).contains(&of("google/gemini-2.5-flash", &json)));
        // A minute of 128 kbit/s: 1,920 tokens by Google's documentation.
        let minute = format!(
            r#"{{"data":"{}","format":"mp3"}}"#,
            STANDARD.encode(vec![0xff; 16_000 * 60])
        );
        assert!((600..=602).contains(&of("gpt-4o-audio-preview", &minute)));
        assert!(
            (1_920..=1_922).contains(&of("gemini-2.5-pro", &minute)),
            "{}",
            of("gemini-2.5-pro", &minute)
        );
    }
}
