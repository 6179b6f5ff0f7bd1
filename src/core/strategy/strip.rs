//! `strip`: old images, audio and files become a text stub; old reasoning goes where the model
//! family allows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::placeholder::Placeholder;
use super::report::Done;
use crate::core::conversation::{Kind, Media, MediaKind};
use crate::core::edit::{Draft, last_user};

/// Old images, audio, files and reasoning go.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
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
    /// The stub; `{kind}` and `{file}` in it stand for the word and the name of the part. When not
    /// given: `[{kind} removed to save context]`, with the name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Placeholder>,
}

impl Default for Strip {
    fn default() -> Self {
        Strip {
            images: true,
            audio: true,
            files: true,
            reasoning: true,
            text: None,
        }
    }
}

impl Options for Strip {
    const NAME: &'static str = "strip";
    const QUICK: bool = true;

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run, draft)?.into())
    }

    fn check(&self, check: &mut OptionCheck<'_>) {
        if let Some(text) = &self.text {
            text.check("text", &["kind", "file"], check);
        }
    }
}

fn apply(options: &Strip, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<u64, Stopped> {
    let last_user = last_user(draft.conversation().messages).unwrap_or(0);
    let wants_reasoning = draft.conversation().family.wants_reasoning;
    let mut replaced = 0;
    for exchange in run.scope.span(draft) {
        run.cancel.check()?;
        for at in exchange.first..exchange.end {
            // The model still uses its reasoning of the current turn; families that want reasoning
            // back want it with calls.
            let reasoning = options.reasoning
                && at < last_user
                && !(exchange.kind == Kind::Calls && wants_reasoning);
            replaced += u64::from(draft.strip(at, |media| stub(options, media), reasoning));
        }
    }
    Ok(replaced)
}

/// The text in the place of media that go.
fn stub(options: &Strip, media: Media<'_>) -> Option<String> {
    let goes = match media.kind {
        MediaKind::Image => options.images,
        MediaKind::Audio => options.audio,
        MediaKind::File => options.files,
    };
    let kind = media.kind.as_str();
    goes.then(|| {
        // `file: report.pdf`, or the kind alone.
        let words = media.words();
        let name = words.split_once(": ").map(|(_, name)| name);
        match (&options.text, name) {
            (Some(text), name) => {
                text.filled(&[("kind", kind), ("file", name.unwrap_or_default())])
            }
            (None, Some(name)) => format!("[{kind} removed to save context: {name}]"),
            (None, None) => format!("[{kind} removed to save context]"),
        }
    })
}
