//! `minify`: tool results and arguments say the same in fewer tokens. JSON loses its white space,
//! lists of like objects become tables, and what is no JSON loses terminal noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::edit::Draft;
use crate::core::edit::Replacement;
use crate::core::json::Json;
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::{Scope, is_result};
use crate::core::strategy::{Done, Stopped};
use crate::core::text::shortest;
use crate::core::text::without_noise;
use crate::core::wire::chat::Message;
use crate::core::wire::chat::{with_arguments, with_texts};

/// JSON results lose their white space, lists of like objects become tables, and terminal noise
/// goes from other results.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Minify {
    /// Whether JSON is written shorter.
    pub json: bool,
    /// Whether terminal escapes, progress lines, trailing blanks and repeated lines go.
    pub text: bool,
}

impl Default for Minify {
    fn default() -> Self {
        Minify {
            json: true,
            text: true,
        }
    }
}

impl Options for Minify {
    const NAME: &'static str = "minify";

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(*self, run.scope, draft).into())
    }
}

pub(super) fn apply(options: Minify, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let mut replaced = 0;
    for exchange in scope.span(draft) {
        for at in exchange.first..exchange.end {
            let Ok(message) = Message::parse(draft.raw(at)) else {
                continue;
            };
            let new = if is_result(draft.conversation().messages, at) {
                with_texts(&message, |text| shorter(options, text))
            } else if options.json {
                with_arguments(&message, |_, arguments| {
                    Json::parse(arguments)
                        .map(|json| json.to_string())
                        .filter(|shorter| shorter.len() < arguments.len())
                })
            } else {
                None
            };
            if let Some(new) =
                new.and_then(|json| Replacement::new(json, draft.conversation().encoding))
            {
                replaced += u64::from(draft.replace(at, new));
            }
        }
    }
    replaced
}

/// The text in fewer bytes, when there is such a form.
pub(super) fn shorter(options: Minify, text: &str) -> Option<String> {
    let new = match shortest(text) {
        Some(json) if options.json => json,
        Some(_) => return None,
        None if options.text => without_noise(text).into_owned(),
        None => return None,
    };
    // A result must not become empty: some servers refuse that.
    (new.len() < text.len() && !new.is_empty()).then_some(new)
}
