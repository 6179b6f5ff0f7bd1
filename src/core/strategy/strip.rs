//! `strip`: old images, audio and files become a text stub; old reasoning goes where the model family allows it.

use super::rewrite::{with_parts, without_members};
use super::scope::Scope;
use crate::core::chat::{Kind, Message};
use crate::core::draft::{Draft, last_user};
use crate::core::json::Json;
use crate::core::plan::Replacement;

/// Its name.
pub(super) const NAME: &str = "strip";

/// Fields that hold what a model thought.
const REASONING: [&str; 5] = ["reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"];

const IMAGE: &str = "image";
const AUDIO: &str = "audio";
const FILE: &str = "file";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct Strip {
    /// Images go.
    pub images: bool,
    /// Audio goes.
    pub audio: bool,
    /// Files go.
    pub files: bool,
    /// Reasoning goes where it may.
    pub reasoning: bool,
}

pub(super) fn apply(options: Strip, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let messages = draft.subject().messages;
    let last_user = last_user(messages).unwrap_or(0);
    let mut replaced = 0;
    for exchange in scope.span(draft) {
        for at in exchange.first..exchange.end {
            // What was thought in the current turn is still at work, and families that want it back want it with calls.
            let reasoning =
                options.reasoning && at < last_user && !(exchange.kind == Kind::Calls && draft.subject().family.wants_reasoning);
            let Some(mut json) = Message::parse(draft.raw(at)).ok().map(|message| message.raw.to_owned()) else { continue };
            let mut changed = false;
            if let Some(new) = Message::parse(&json).ok().and_then(|message| with_parts(&message, |part| stub(options, part))) {
                (json, changed) = (new, true);
            }
            if reasoning && let Some(new) = Message::parse(&json).ok().and_then(|message| without_members(&message, &REASONING)) {
                (json, changed) = (new, true);
            }
            if changed && let Some(new) = Replacement::new(json, draft.subject().encoding) {
                replaced += u64::from(draft.replace(at, new));
            }
        }
    }
    replaced
}

/// What a part of a message's content is that is no text.
pub(in crate::core) fn medium(part: &Json) -> Option<&'static str> {
    let Some(Json::String(kind)) = part.get("type") else { return None };
    Some(match kind.as_str() {
        "image_url" | "input_image" | "image" => IMAGE,
        "input_audio" | "audio" => AUDIO,
        "file" | "input_file" => FILE,
        _ => return None,
    })
}

/// A text part that says what was there.
fn stub(options: Strip, part: &str) -> Option<String> {
    let json = Json::parse(part)?;
    let what = medium(&json)?;
    let goes = match what {
        IMAGE => options.images,
        AUDIO => options.audio,
        _ => options.files,
    };
    if !goes {
        return None;
    }
    let mark = json.get("cache_control").map(|mark| format!(r#","cache_control":{mark}"#)).unwrap_or_default();
    Some(format!(r#"{{"type":"text","text":"[{what} removed to save context]"{mark}}}"#))
}
