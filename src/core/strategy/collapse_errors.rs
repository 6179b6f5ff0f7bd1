//! `collapse_errors`: a failed call shrinks to a line once the same tool has succeeded. The last
//! failure of a tool that did not succeed since stays in full.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::label::clipped;
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{BlockId, Entry, Exchange};
use crate::core::edit::Draft;
use crate::core::text::{failure_line, is_failure};

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
    let exchanges: Vec<Exchange> = draft.remaining().map(|(exchange, _)| exchange).collect();
    let overcome = overcome(draft.conversation().messages, &exchanges);
    let mut collapsed = 0;
    for (_, id) in scope.results(draft) {
        if !overcome.contains(&id) {
            continue;
        }
        let Some(text) = draft.text_of(id) else {
            continue;
        };
        if text.starts_with(MARK) {
            continue;
        }
        let line = format!("{MARK}{}]", clipped(failure_line(&text).trim(), LINE_CHARS));
        collapsed += u64::from(draft.set_text(id, &line));
    }
    Done {
        replaced: collapsed,
        details: vec![("errors_collapsed", collapsed)],
    }
}

/// The failed results of `exchanges` whose tool succeeded later.
pub(super) fn overcome(messages: &[Entry<'_>], exchanges: &[Exchange]) -> HashSet<BlockId> {
    let mut succeeded: HashSet<String> = HashSet::new();
    let mut overcome = HashSet::new();
    for exchange in exchanges.iter().rev() {
        // Parallel calls do not overcome each other.
        let mut now = Vec::new();
        for (id, result) in exchange.results(messages) {
            let Some(name) = exchange.tool_of(messages, result) else {
                continue;
            };
            let text = result.decoded().collect::<Vec<_>>().join("\n");
            if !is_failure(&text) {
                now.push(name);
            } else if succeeded.contains(&name) {
                overcome.insert(id);
            }
        }
        succeeded.extend(now);
    }
    overcome
}
