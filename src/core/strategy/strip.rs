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
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

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

/// A text part that says what was there.
fn stub(options: Strip, part: &str) -> Option<String> {
    let json = Json::parse(part)?;
    let what = match json.get("type") {
        Some(Json::String(kind)) if kind == "image_url" || kind == "input_image" || kind == "image" => options.images.then_some("image"),
        Some(Json::String(kind)) if kind == "input_audio" || kind == "audio" => options.audio.then_some("audio"),
        Some(Json::String(kind)) if kind == "file" || kind == "input_file" => options.files.then_some("file"),
        _ => None,
    }?;
    let mark = json.get("cache_control").map(|mark| format!(r#","cache_control":{mark}"#)).unwrap_or_default();
    Some(format!(r#"{{"type":"text","text":"[{what} removed to save context]"{mark}}}"#))
}
