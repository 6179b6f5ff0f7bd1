//! `collapse_errors`: a failed call that the same tool later did without failing shrinks to a line.
//! The last failure of a tool that did not succeed since stays in full.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::Exchange;
use crate::core::edit::Draft;
use crate::core::edit::Replacement;
use crate::core::strategy::label::clipped;
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::{Scope, is_result, name_of_result};
use crate::core::strategy::{Done, Stopped};
use crate::core::text::{failure_line, is_failure};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::text_of;
use crate::core::wire::chat::with_content;

/// Failed calls that the same tool later made without failing shrink to a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CollapseErrors {}

impl Options for CollapseErrors {
    const NAME: &'static str = "collapse_errors";
    const COUNTS: &'static [&'static str] = &["errors_collapsed"];

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(run.scope, draft))
    }
}

/// The beginning of a collapsed failure, which is not collapsed again.
const MARK: &str = "[failed, overcome later: ";
/// Characters shown of the failure.
const LINE_CHARS: usize = 160;

pub(super) fn apply(scope: &Scope, draft: &mut Draft<'_>) -> Done {
    let messages = draft.conversation().messages;
    let exchanges: Vec<Exchange> = draft.remaining().map(|(exchange, _)| exchange).collect();
    let overcome = overcome(messages, &exchanges);
    let mut collapsed = 0;
    for (_, at) in scope
        .results(draft)
        .into_iter()
        .filter(|(_, at)| overcome.contains(at))
    {
        let Ok(message) = Message::parse(draft.raw(at)) else {
            continue;
        };
        let text = text_of(&message).join("\n");
        if text.starts_with(MARK) {
            continue;
        }
        let line = format!("{MARK}{}]", clipped(failure_line(&text).trim(), LINE_CHARS));
        let new = with_content(&message, &line)
            .and_then(|json| Replacement::new(json, draft.conversation().encoding));
        if let Some(new) = new {
            collapsed += u64::from(draft.replace(at, new));
        }
    }
    Done {
        replaced: collapsed,
        details: vec![("errors_collapsed", collapsed)],
    }
}

/// The failed results of `exchanges` whose tool succeeded later.
pub(super) fn overcome(messages: &[Message<'_>], exchanges: &[Exchange]) -> HashSet<usize> {
    let (mut succeeded, mut overcome): (HashSet<String>, HashSet<usize>) =
        (HashSet::new(), HashSet::new());
    for exchange in exchanges.iter().rev() {
        let mut now = Vec::new();
        for at in (exchange.first..exchange.end).filter(|at| is_result(messages, *at)) {
            let (Some(name), Some(result)) =
                (name_of_result(messages, exchange, at), messages.get(at))
            else {
                continue;
            };
            if !is_failure(&text_of(result).join("\n")) {
                now.push(name);
            } else if succeeded.contains(&name) {
                overcome.insert(at);
            }
        }
        succeeded.extend(now);
    }
    overcome
}
