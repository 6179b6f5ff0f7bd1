//! Token costs of parts that are not text: images, audio and files. The prices are
//! `tokens::media`'s.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::string;
use crate::core::tokens::Encoding;
use crate::core::tokens::media;
use crate::core::tokens::media::Audio;

pub(super) use crate::core::tokens::media::OTHER_TOKENS;

/// Tokens of an `image_url`.
pub(super) fn image_tokens(image: &RawValue, encoding: Encoding) -> u64 {
    #[derive(Deserialize)]
    struct Image<'a> {
        #[serde(borrow)]
        url: Option<&'a RawValue>,
        #[serde(borrow)]
        detail: Option<&'a RawValue>,
    }
    let Ok(Image { url, detail }) = serde_json::from_str::<Image<'_>>(image.get()) else {
        return media::image_tokens(None, false, encoding);
    };
    let low = detail.is_some_and(|detail| detail.get() == r#""low""#);
    media::image_tokens(url.and_then(string).as_deref(), low, encoding)
}

/// Tokens of an `input_audio`.
pub(super) fn audio_tokens(audio: &RawValue, encoding: Encoding) -> u64 {
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        data: Option<&'a RawValue>,
        #[serde(borrow)]
        format: Option<&'a RawValue>,
    }
    let Ok(Input { data, format }) = serde_json::from_str::<Input<'_>>(audio.get()) else {
        return 1;
    };
    let bytes = data.map_or(0, |data| data.get().len() as u64);
    let is_plain = format.is_none_or(|format| matches!(format.get(), r#""wav""# | r#""pcm16""#));
    if is_plain {
        let data = data.and_then(string);
        media::audio_tokens(bytes, Audio::Plain(data.as_deref()), encoding)
    } else {
        media::audio_tokens(bytes, Audio::Compressed, encoding)
    }
}

/// Tokens of a `file`.
pub(super) fn file_tokens(file: &RawValue, encoding: Encoding) -> u64 {
    #[derive(Deserialize)]
    struct File<'a> {
        #[serde(borrow)]
        file_data: Option<&'a RawValue>,
    }
    let data = serde_json::from_str::<File<'_>>(file.get())
        .ok()
        .and_then(|file| file.file_data)
        .and_then(string);
    media::file_tokens(data.as_deref(), encoding)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

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
    fn images_cost_as_documented() {
        for (model, width, height, detail, tokens) in [
            // OpenAI's guide: 765 for 1024², 1,105 for 2048 × 4096, 85 at low detail whatever the
            // size.
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
    fn an_image_of_unknown_size_is_taken_for_a_common_one() {
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
        // A side that no image has is not believed.
        assert_eq!(
            of("gpt-4o", &format!(r#"{{"url":"{}"}}"#, png(u32::MAX, 1))),
            765
        );
    }

    #[test]
    fn audio_costs_ten_tokens_a_second_and_more_where_documented() {
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
