//! `minify`: tool results and arguments in fewer tokens and with nothing lost. JSON loses its white
//! space, lists of like objects become tables, and other text loses terminal noise.

use super::scope::Scope;
use crate::core::conversation::Speaker;
use crate::core::edit::Draft;
use crate::core::json::Json;
use crate::core::text::{shortest, without_noise};

/// Its name.
pub(super) const NAME: &str = "minify";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct Minify {
    /// Write JSON shorter.
    pub json: bool,
    /// Remove terminal noise.
    pub text: bool,
}

pub(super) fn apply(options: Minify, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let messages = draft.conversation().messages;
    let mut replaced = 0;
    for exchange in scope.span(draft) {
        for (id, _) in exchange.results(messages) {
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
    replaced
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
        None if options.text => without_noise(text).into_owned(),
        None => return None,
    };
    // A result must not become empty: some servers refuse that.
    (new.len() < text.len() && !new.is_empty()).then_some(new)
}
