//! `strip`: old images, audio and files become a text stub; old reasoning goes where the model
//! family allows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::Kind;
use crate::core::edit::Replacement;
use crate::core::edit::{Draft, last_user};
use crate::core::json::Json;
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::Scope;
use crate::core::strategy::{Done, Stopped};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::{AUDIO, IMAGE, media_kind};
use crate::core::wire::chat::{with_parts, without_members};

/// Fields that hold what a model thought.
const REASONING: [&str; 5] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
];

/// Old images, audio, files and reasoning go.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Strip {
    /// Whether images become a text stub.
    pub images: bool,
    /// Whether audio becomes a text stub.
    pub audio: bool,
    /// Whether files become a text stub.
    pub files: bool,
    /// Whether reasoning fields go, where the model family allows it.
    pub reasoning: bool,
}

impl Default for Strip {
    fn default() -> Self {
        Strip {
            images: true,
            audio: true,
            files: true,
            reasoning: true,
        }
    }
}

impl Options for Strip {
    const NAME: &'static str = "strip";

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(*self, run.scope, draft).into())
    }
}

pub(super) fn apply(options: Strip, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let messages = draft.conversation().messages;
    let last_user = last_user(messages).unwrap_or(0);
    let mut replaced = 0;
    for exchange in scope.span(draft) {
        for at in exchange.first..exchange.end {
            // What was thought in the current turn is still at work, and families that want it back want it with calls.
            let reasoning = options.reasoning
                && at < last_user
                && !(exchange.kind == Kind::Calls && draft.conversation().family.wants_reasoning);
            let Some(mut json) = Message::parse(draft.raw(at))
                .ok()
                .map(|message| message.raw.to_owned())
            else {
                continue;
            };
            let mut changed = false;
            if let Some(new) = Message::parse(&json)
                .ok()
                .and_then(|message| with_parts(&message, |part| stub(options, part)))
            {
                (json, changed) = (new, true);
            }
            if reasoning
                && let Some(new) = Message::parse(&json)
                    .ok()
                    .and_then(|message| without_members(&message, &REASONING))
            {
                (json, changed) = (new, true);
            }
            if changed && let Some(new) = Replacement::new(json, draft.conversation().encoding) {
                replaced += u64::from(draft.replace(at, new));
            }
        }
    }
    replaced
}

/// A text part that says what was there.
fn stub(options: Strip, part: &str) -> Option<String> {
    let json = Json::parse(part)?;
    let what = media_kind(&json)?;
    let goes = match what {
        IMAGE => options.images,
        AUDIO => options.audio,
        _ => options.files,
    };
    if !goes {
        return None;
    }
    let mark = json
        .get("cache_control")
        .map(|mark| format!(r#","cache_control":{mark}"#))
        .unwrap_or_default();
    Some(format!(
        r#"{{"type":"text","text":"[{what} removed to save context]"{mark}}}"#
    ))
}
