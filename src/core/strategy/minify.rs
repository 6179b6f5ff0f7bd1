//! `minify`: tool results and arguments in fewer tokens and with nothing lost. JSON loses its white
//! space, lists of like objects become tables, and other text loses terminal noise; code and diffs
//! stay byte for byte.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use crate::core::conversation::Speaker;
use crate::core::edit::Draft;
use crate::core::json::Json;
use crate::core::text::{restorable, shortest};

/// JSON results lose their white space, lists of like objects become tables, and terminal noise
/// goes from other results.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Minify {
    /// Whether JSON is written shorter.
    pub json: bool,
    /// Whether terminal escapes and progress lines go, and repeated lines become a count. Code and
    /// diffs only lose escapes.
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
        Ok(apply(*self, run, draft)?.into())
    }
}

fn apply(options: Minify, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<u64, Stopped> {
    let messages = draft.conversation().messages;
    let mut replaced = 0;
    for exchange in run.scope.span(draft) {
        run.cancel.check_budget()?;
        for (id, _) in exchange.results(messages) {
            run.cancel.check_budget()?;
            let shorter = draft.map_texts(id, |text| shorter(options, text));
            replaced += u64::from(shorter);
        }
        if !options.json {
            continue;
        }
        for (at, entry) in (exchange.first..).zip(exchange.of(messages)) {
            if entry.speaker != Speaker::Tool {
                replaced += u64::from(draft.map_arguments(at, without_space));
            }
        }
    }
    Ok(replaced)
}

/// JSON without white space, when that is shorter.
fn without_space(arguments: &str) -> Option<String> {
    Json::parse(arguments)
        .map(|json| json.to_string())
        .filter(|shorter| shorter.len() < arguments.len())
}

/// The text in fewer bytes, when there is such a form.
pub(super) fn shorter(options: Minify, text: &str) -> Option<String> {
    let new = match shortest(text) {
        Some(json) if options.json => json,
        Some(_) => return None,
        None if options.text => match restorable(text) {
            Cow::Owned(new) => new,
            Cow::Borrowed(_) => return None,
        },
        None => return None,
    };
    // A result must not become empty: some servers refuse that.
    (new.len() < text.len() && !new.is_empty()).then_some(new)
}
