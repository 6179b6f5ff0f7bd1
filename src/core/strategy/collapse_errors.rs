//! `collapse_errors`: a failed call shrinks to a line once the same tool has succeeded, or has
//! failed in the same way again. The last failure of a tool that did not succeed since stays in
//! full.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::label::clipped;
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::placeholder::Placeholder;
use super::report::Done;
use crate::core::conversation::{BlockId, Entry, Exchange};
use crate::core::edit::Draft;
use crate::core::text::Failures;
use crate::core::{Cancel, Cancelled};

/// Failed calls that the same tool later made without failing, or with the same failure again,
/// shrink to a line.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CollapseErrors {
    /// The line; `{error}` and `{tool}` in it stand for the line that names the cause, and the
    /// tool. When not given, a text that says what came of it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Placeholder>,
}

impl Options for CollapseErrors {
    const NAME: &'static str = "collapse_errors";
    const COUNTS: &'static [&'static str] = &["errors_collapsed"];

    fn check(&self, check: &mut OptionCheck<'_>) {
        if let Some(text) = &self.text {
            text.check("text", &["error", "tool"], check);
        }
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run, draft)?)
    }
}

/// What became of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The same tool succeeded later.
    Overcome,
    /// The same tool failed in the same way later, and did not succeed since.
    Repeated,
}

impl Fate {
    /// The beginning of a collapsed failure, which is not collapsed again.
    fn mark(self) -> &'static str {
        match self {
            Fate::Overcome => "[failed, overcome later: ",
            Fate::Repeated => "[failed, and again later: ",
        }
    }
}

/// Characters shown of the failure.
const LINE_CHARS: usize = 160;
/// Characters by which failures of one tool are compared.
const COMPARED_CHARS: usize = 300;

fn apply(
    options: &CollapseErrors,
    run: &Run<'_>,
    draft: &mut Draft<'_>,
) -> Result<Done, Cancelled> {
    let exchanges: Vec<Exchange> = draft.remaining().map(|(exchange, _)| exchange).collect();
    let messages = draft.conversation().messages;
    let is_line = |text: &str| options.text.as_ref().is_some_and(|own| own.is(text));
    let fates = fates(messages, &exchanges, (run.failures, &is_line), run.cancel)?;
    let mut collapsed = 0;
    for (exchange, id) in run.scope.results(draft) {
        run.cancel.check_budget()?;
        let (Some(fate), Some(text)) = (fates.get(&id), draft.text_of(id)) else {
            continue;
        };
        if is_collapsed(&text) || is_line(&text) {
            continue;
        }
        let result = messages
            .get(id.at())
            .and_then(|entry| entry.result(id.block));
        let tool = result.and_then(|result| exchange.tool_of(messages, result));
        let cause = run.failures.of(tool.as_deref()).line(&text);
        let cause = clipped(cause.trim(), LINE_CHARS);
        let line = match &options.text {
            Some(own) => own.filled(&[
                ("error", &cause),
                ("tool", tool.as_deref().unwrap_or_default()),
            ]),
            None => format!("{}{cause}]", fate.mark()),
        };
        collapsed += u64::from(draft.set_text(id, &line));
    }
    Ok(Done {
        replaced: collapsed,
        details: vec![("errors_collapsed", collapsed)],
    })
}

/// Whether a text is the line of a failure that was collapsed before.
fn is_collapsed(text: &str) -> bool {
    [Fate::Overcome, Fate::Repeated]
        .iter()
        .any(|fate| text.starts_with(fate.mark()))
}

/// The failed results of `exchanges` whose tool succeeded later.
pub(super) fn overcome(
    messages: &[Entry<'_>],
    exchanges: &[Exchange],
    failures: Failures<'_>,
    cancel: &Cancel,
) -> Result<HashSet<BlockId>, Cancelled> {
    let fates = fates(messages, exchanges, (failures, &|_| false), cancel)?;
    let overcome = fates
        .into_iter()
        .filter(|(_, fate)| *fate == Fate::Overcome)
        .map(|(id, _)| id);
    Ok(overcome.collect())
}

/// What became of the failed results of `exchanges`. The last failure of its kind without a later
/// success has no fate, nor has a text that `is_line` of a failure that was collapsed before.
fn fates(
    messages: &[Entry<'_>],
    exchanges: &[Exchange],
    (failures, is_line): (Failures<'_>, &dyn Fn(&str) -> bool),
    cancel: &Cancel,
) -> Result<HashMap<BlockId, Fate>, Cancelled> {
    let mut succeeded: HashSet<String> = HashSet::new();
    let mut failing: HashSet<(String, String)> = HashSet::new();
    let mut fates = HashMap::new();
    for exchange in exchanges.iter().rev() {
        cancel.check_budget()?;
        // Parallel calls do not overcome each other.
        let (mut now, mut failing_now) = (Vec::new(), Vec::new());
        for (id, result) in exchange.results(messages) {
            let Some(name) = exchange.tool_of(messages, result) else {
                continue;
            };
            let text = result.decoded().collect::<Vec<_>>().join("\n");
            if is_collapsed(&text) || is_line(&text) {
                continue;
            }
            let of_tool = failures.of(Some(&name));
            if !of_tool.are(&text) {
                now.push(name);
            } else if succeeded.contains(&name) {
                fates.insert(id, Fate::Overcome);
            } else {
                let failure = (name.clone(), likeness(&of_tool.line(&text)));
                if failing.contains(&failure) {
                    fates.insert(id, Fate::Repeated);
                } else {
                    failing_now.push(failure);
                }
            }
        }
        succeeded.extend(now);
        failing.extend(failing_now);
    }
    Ok(fates)
}

/// The line of a failure without what differs from one time to the next: numbers, such as those of
/// lines, processes and times.
fn likeness(line: &str) -> String {
    let letters = line.trim().chars().filter(|c| !c.is_ascii_digit());
    letters.take(COMPARED_CHARS).collect()
}
