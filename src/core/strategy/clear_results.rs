//! `clear_results`: the oldest tool results become a placeholder until the target is met.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::Exchange;
use crate::core::edit::Replacement;
use crate::core::edit::{Draft, Target};
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::{Scope, is_result};
use crate::core::strategy::{Done, Stopped};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::text_of;
use crate::core::wire::chat::{with_arguments, with_content};

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
    goal: Target,
) -> u64 {
    let over = draft.size().tokens.saturating_sub(goal.target);
    if over == 0 {
        // The ladder runs because of a count, which clearing does not bring down.
        return 0;
    }
    let (mut clearings, mut saved) = (Vec::new(), 0);
    for (exchange, at) in candidates(options, scope, draft) {
        if saved >= over.max(options.clear_at_least) {
            break;
        }
        // A result may be shorter than its placeholder, as that of a file that was written; the input of its call is not.
        let input = if options.clear_inputs {
            empty_arguments(scope, draft, &exchange, at)
        } else {
            None
        };
        for clearing in clear(draft, at).into_iter().chain(input) {
            saved += clearing.saves;
            clearings.push(clearing);
        }
    }
    if saved < options.clear_at_least {
        return 0;
    }
    clearings
        .into_iter()
        .map(|clearing| u64::from(draft.replace(clearing.at, clearing.new)))
        .sum()
}

/// The results that may be cleared, oldest first, each with its exchange.
fn candidates(options: &ClearResults, scope: &Scope, draft: &Draft<'_>) -> Vec<(Exchange, usize)> {
    let messages = draft.conversation().messages;
    let mut results: Vec<usize> = Vec::new();
    for (exchange, _) in draft.remaining() {
        results.extend((exchange.first..exchange.end).filter(|at| is_result(messages, *at)));
    }
    let mut tokens = 0;
    let newest = results.iter().rev().enumerate().take_while(|(nth, at)| {
        tokens += draft.tokens_at(**at);
        *nth < options.keep || tokens <= options.keep_tokens
    });
    let stay = newest.count();
    results.truncate(results.len() - stay);
    let end = results.last().map_or(0, |last| last + 1);
    scope
        .results(draft)
        .into_iter()
        .filter(|(_, at)| *at < end)
        .collect()
}

fn clear(draft: &Draft<'_>, at: usize) -> Option<Clearing> {
    let raw = draft.raw(at);
    let message = Message::parse(raw).ok()?;
    if text_of(&message)
        .first()
        .is_some_and(|text| text.starts_with(MARK))
    {
        return None;
    }
    let placeholder = format!("{MARK}, {} tokens]", draft.tokens_at(at));
    let json = with_content(&message, &placeholder)?;
    saving(draft, at, json)
}

fn saving(draft: &Draft<'_>, at: usize, json: String) -> Option<Clearing> {
    let new = Replacement::new(json, draft.conversation().encoding)?;
    let saves = draft
        .tokens_at(at)
        .checked_sub(new.tokens)
        .filter(|saves| *saves > 0)?;
    Some(Clearing { at, new, saves })
}

/// Empties all arguments of an exchange's calls once the last of its results, all of which may be cleared, has its turn.
fn empty_arguments(
    scope: &Scope,
    draft: &Draft<'_>,
    exchange: &Exchange,
    cleared: usize,
) -> Option<Clearing> {
    if !(exchange.first + 1..exchange.end).all(|at| scope.covers(draft, exchange, at)) {
        return None;
    }
    if cleared + 1 != exchange.end {
        return None;
    }
    let raw = draft.raw(exchange.first);
    let message = Message::parse(raw).ok()?;
    let json = with_arguments(&message, |_, _| Some("{}".to_owned()))?;
    saving(draft, exchange.first, json)
}
