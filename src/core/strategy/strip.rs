//! `strip`: old images, audio and files become a text stub; old reasoning goes where the model
//! family allows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{Kind, MediaKind};
use crate::core::edit::{Draft, last_user};

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
    const QUICK: bool = true;

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(*self, run.scope, draft).into())
    }
}

pub(super) fn apply(options: Strip, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let last_user = last_user(draft.conversation().messages).unwrap_or(0);
    let wants_reasoning = draft.conversation().family.wants_reasoning;
    let mut replaced = 0;
    for exchange in scope.span(draft) {
        for at in exchange.first..exchange.end {
            // The model still uses its reasoning of the current turn; families that want reasoning
            // back want it with calls.
            let reasoning = options.reasoning
                && at < last_user
                && !(exchange.kind == Kind::Calls && wants_reasoning);
            replaced += u64::from(draft.strip(at, |kind| stub(options, kind), reasoning));
        }
    }
    replaced
}

/// The text in the place of media that go.
fn stub(options: Strip, kind: MediaKind) -> Option<String> {
    let goes = match kind {
        MediaKind::Image => options.images,
        MediaKind::Audio => options.audio,
        MediaKind::File => options.files,
    };
    goes.then(|| format!("[{} removed to save context]", kind.as_str()))
}
