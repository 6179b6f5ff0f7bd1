//! What the content of a message says: its texts, its media, its cache mark.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Message;
use crate::core::json::{Json, string};

pub(in crate::core) const IMAGE: &str = "image";

pub(in crate::core) const AUDIO: &str = "audio";

pub(in crate::core) const FILE: &str = "file";

/// The texts of a message's content: the string, or its text parts.
#[must_use]
pub fn text_of<'a>(message: &Message<'a>) -> Vec<std::borrow::Cow<'a, str>> {
    use serde_json::value::RawValue;
    #[derive(serde::Deserialize)]
    struct Part<'p> {
        #[serde(borrow)]
        text: Option<&'p RawValue>,
    }
    let Some(raw) = message.content else {
        return Vec::new();
    };
    if raw.starts_with('[') {
        let parts: Vec<&'a RawValue> = serde_json::from_str(raw).unwrap_or_default();
        parts
            .into_iter()
            .filter_map(|part| {
                serde_json::from_str::<Part<'a>>(part.get())
                    .ok()?
                    .text
                    .and_then(string)
            })
            .collect()
    } else {
        serde_json::from_str::<&'a RawValue>(raw)
            .ok()
            .and_then(string)
            .into_iter()
            .collect()
    }
}

/// What a part of a message's content is that is no text.
pub(in crate::core) fn media_kind(part: &Json) -> Option<&'static str> {
    let Some(Json::String(kind)) = part.get("type") else {
        return None;
    };
    Some(match kind.as_str() {
        "image_url" | "input_image" | "image" => IMAGE,
        "input_audio" | "audio" => AUDIO,
        "file" | "input_file" => FILE,
        _ => return None,
    })
}

/// The last `cache_control` mark in the parts of a message.
pub(in crate::core) fn cache_control<'a>(message: &Message<'a>) -> Option<&'a str> {
    #[derive(Deserialize)]
    struct Part<'p> {
        #[serde(borrow)]
        cache_control: Option<&'p RawValue>,
    }
    let parts = message
        .content
        .filter(|raw| raw.starts_with('[') && raw.contains("cache_control"))?;
    let parts: Vec<Part<'a>> = serde_json::from_str(parts).ok()?;
    parts
        .iter()
        .rev()
        .find_map(|part| part.cache_control.map(RawValue::get))
}
