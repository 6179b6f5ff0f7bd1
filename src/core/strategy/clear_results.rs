//! `clear_results`: the oldest tool results become a placeholder until the target is met.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{BlockId, Exchange};
use crate::core::edit::{Draft, Replacement, Target};

/// Every placeholder begins so; a result that does is never cleared again.
const MARK: &str = "[old tool result cleared to save context";

/// Old tool results become a placeholder.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClearResults {
    /// The newest results that stay, wherever they stand.
    pub keep: usize,
    /// The newest results up to this many tokens stay too.
    pub keep_tokens: u64,
    /// Whether the arguments of calls whose results may be cleared become `{}`.
    pub clear_inputs: bool,
    /// Tokens that clearing must save, or nothing is cleared.
    pub clear_at_least: u64,
}

impl Default for ClearResults {
    fn default() -> Self {
        ClearResults {
            keep: 3,
            keep_tokens: 0,
            clear_inputs: false,
            clear_at_least: 0,
        }
    }
}

impl Options for ClearResults {
    const NAME: &'static str = "clear_results";
    const QUICK: bool = true;

    fn keeps_its_own(&self) -> bool {
        true
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run.scope, draft, run.target).into())
    }
}

/// One change to one message, and what it saves.
struct Clearing {
    at: usize,
    new: Replacement,
    saves: u64,
}

pub(super) fn apply(
    options: &ClearResults,
    scope: &Scope,
    draft: &mut Draft<'_>,
    target: Target,
) -> u64 {
    let over = draft.size().tokens.saturating_sub(target.target);
    // Clearing does not bring down the number of messages or of turns. Of calls, those whose results
    // stay in full are as few afterwards as the target asks for.
    let most_uses = target.tool_uses.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let surplus = uses_beyond(draft, most_uses);
    if over == 0 && surplus.is_none() {
        return 0;
    }
    let (mut clearings, mut saved) = (Vec::new(), 0);
    for (exchange, id) in candidates(options, scope, draft) {
        let is_surplus = surplus.is_some_and(|last| id <= last);
        if !is_surplus && saved >= over.max(options.clear_at_least) {
            break;
        }
        // A result may be shorter than its placeholder, such as that of a file that was written;
        // the input of its call is not.
        let input = if options.clear_inputs {
            empty_arguments(scope, draft, &exchange, id)
        } else {
            None
        };
        for clearing in clear(draft, id).into_iter().chain(input) {
            saved += clearing.saves;
            clearings.push(clearing);
        }
    }
    if saved < options.clear_at_least {
        return 0;
    }
    clearings
        .into_iter()
        .map(|clearing| u64::from(draft.replace(clearing.at, Some(clearing.new))))
        .sum()
}

/// The last result behind which so many more stand; `None` where there are no more.
fn uses_beyond(draft: &Draft<'_>, uses: usize) -> Option<BlockId> {
    let all = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    all.iter().rev().nth(uses).map(|(_, id)| *id)
}

/// The results that may be cleared, oldest first, each with its exchange.
fn candidates(
    options: &ClearResults,
    scope: &Scope,
    draft: &Draft<'_>,
) -> Vec<(Exchange, BlockId)> {
    let all = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    let mut tokens = 0;
    let newest = all.iter().rev().enumerate().take_while(|(nth, (_, id))| {
        tokens += draft.tokens_at(id.at());
        *nth < options.keep || tokens <= options.keep_tokens
    });
    let stay = newest.count();
    let Some((_, last)) = all.iter().rev().nth(stay) else {
        return Vec::new();
    };
    let mut candidates = scope.results(draft);
    candidates.retain(|(_, id)| id <= last);
    candidates
}

fn clear(draft: &Draft<'_>, id: BlockId) -> Option<Clearing> {
    let entry = draft.entry(id.at())?;
    let first = entry.result(id.block)?.decoded().next();
    if first.is_some_and(|text| text.starts_with(MARK)) {
        return None;
    }
    let placeholder = format!("{MARK}, {} tokens]", draft.tokens_at(id.at()));
    saving(draft, id.at(), draft.with_text(id, &placeholder)?)
}

fn saving(draft: &Draft<'_>, at: usize, new: Replacement) -> Option<Clearing> {
    let saves = draft
        .tokens_at(at)
        .checked_sub(new.tokens)
        .filter(|saves| *saves > 0)?;
    Some(Clearing { at, new, saves })
}

/// Empties all arguments of an exchange's calls when the last of its results is cleared, if all of
/// them may be.
fn empty_arguments(
    scope: &Scope,
    draft: &Draft<'_>,
    exchange: &Exchange,
    cleared: BlockId,
) -> Option<Clearing> {
    let results = draft.results([*exchange]);
    let (_, last) = results.last()?;
    let all_cleared = results
        .iter()
        .all(|(_, id)| scope.covers(draft, exchange, *id));
    if *last != cleared || !all_cleared {
        return None;
    }
    let new = draft.with_arguments(exchange.first, |_| Some("{}".to_owned()))?;
    saving(draft, exchange.first, new)
}
