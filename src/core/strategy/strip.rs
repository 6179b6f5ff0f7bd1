//! `strip`: old images, audio and files become a text stub; old reasoning goes where the model
//! family allows it.

use super::scope::Scope;
use crate::core::conversation::{Kind, MediaKind};
use crate::core::edit::{Draft, last_user};

/// Its name.
pub(super) const NAME: &str = "strip";

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
