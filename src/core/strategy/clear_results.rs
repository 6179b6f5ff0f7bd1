//! `clear_results`: the oldest tool results become a placeholder until the target is met.

use globset::GlobSet;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::chat::{Exchange, Message, Role, span_in};
use crate::core::draft::{Draft, Goal, Standing, text_of};
use crate::core::plan::Replacement;

/// Its name.
pub(super) const NAME: &str = "clear_results";

/// Every placeholder begins so; a result that does is never cleared again.
const MARK: &str = "[old tool result cleared to save context";

/// Options.
#[derive(Debug, Clone)]
pub struct ClearResults {
    /// The newest results that stay, wherever they stand.
    pub keep: usize,
    /// Tools whose results are never cleared.
    pub exclude_tools: Option<GlobSet>,
    /// Whether the arguments of calls whose results are cleared become `{}`.
    pub clear_inputs: bool,
    /// Tokens that clearing must save, or nothing is cleared.
    pub clear_at_least: u64,
}

/// One change to one message, and what it saves.
struct Clearing {
    at: usize,
    new: Replacement,
    saves: u64,
}

pub(super) fn apply(options: &ClearResults, draft: &mut Draft<'_>, goal: Goal) -> u64 {
    let over = draft.size().tokens.saturating_sub(goal.target);
    if over == 0 {
        // The ladder runs because of a count, which clearing does not bring down.
        return 0;
    }
    let (mut clearings, mut saved) = (Vec::new(), 0);
    for (exchange, at) in candidates(options, draft) {
        if saved >= over.max(options.clear_at_least) {
            break;
        }
        if let Some(clearing) = clear(draft, at) {
            saved += clearing.saves;
            clearings.push(clearing);
            if options.clear_inputs
                && let Some(clearing) = empty_arguments(options, draft, &exchange, at)
            {
                saved += clearing.saves;
                clearings.push(clearing);
            }
        }
    }
    if saved < options.clear_at_least {
        return 0;
    }
    clearings.into_iter().map(|clearing| u64::from(draft.replace(clearing.at, clearing.new))).sum()
}

/// The results that may be cleared, oldest first, each with its exchange.
fn candidates(options: &ClearResults, draft: &Draft<'_>) -> Vec<(Exchange, usize)> {
    let messages = draft.subject().messages;
    let is_result = |at: &usize| messages.get(*at).is_some_and(|m| matches!(m.role, Role::Tool | Role::Function));
    let mut results: Vec<(Exchange, Standing, usize)> = Vec::new();
    for (exchange, standing) in draft.remaining() {
        results.extend((exchange.first..exchange.end).filter(is_result).map(|at| (exchange, standing, at)));
    }
    results.truncate(results.len().saturating_sub(options.keep));
    results.retain(|(exchange, standing, at)| *standing == Standing::Span && !is_excluded(options, messages, exchange, *at));
    results.into_iter().map(|(exchange, _, at)| (exchange, at)).collect()
}

fn is_excluded(options: &ClearResults, messages: &[Message<'_>], exchange: &Exchange, at: usize) -> bool {
    let Some(globs) = &options.exclude_tools else { return false };
    let (Some(call), Some(result)) = (messages.get(exchange.first), messages.get(at)) else { return true };
    let called = call.calls.iter().filter(|call| Some(&call.id) == result.answers.as_ref()).map(|call| call.name.as_ref());
    called.chain(result.name.as_deref()).any(|name| globs.is_match(name))
}

fn clear(draft: &Draft<'_>, at: usize) -> Option<Clearing> {
    let raw = draft.raw(at);
    let message = Message::parse(raw).ok()?;
    if text_of(&message).first().is_some_and(|text| text.starts_with(MARK)) {
        return None;
    }
    let placeholder = format!("{MARK}, {} tokens]", draft.tokens_at(at));
    let json = with_content(&message, &placeholder)?;
    saving(draft, at, json)
}

/// The message with `text` as its content; every other byte is as it was.
pub(super) fn with_content(message: &Message<'_>, text: &str) -> Option<String> {
    let span = span_in(message.raw, message.content?);
    let text = serde_json::to_string(text).ok()?;
    Some([message.raw.get(..span.start)?, &text, message.raw.get(span.end..)?].concat())
}

fn saving(draft: &Draft<'_>, at: usize, json: String) -> Option<Clearing> {
    let new = Replacement::new(json, draft.subject().encoding)?;
    let saves = draft.tokens_at(at).checked_sub(new.tokens).filter(|saves| *saves > 0)?;
    Some(Clearing { at, new, saves })
}

/// Empties all arguments of an exchange's calls once its last clearable result is being cleared.
fn empty_arguments(options: &ClearResults, draft: &Draft<'_>, exchange: &Exchange, cleared: usize) -> Option<Clearing> {
    let messages = draft.subject().messages;
    if options.exclude_tools.is_some() && (exchange.first + 1..exchange.end).any(|at| is_excluded(options, messages, exchange, at)) {
        return None;
    }
    if cleared + 1 != exchange.end {
        return None;
    }
    let raw = draft.raw(exchange.first);
    let message = Message::parse(raw).ok()?;
    let mut spans: Vec<_> = message.calls.iter().filter_map(|call| call.arguments).map(|arguments| span_in(raw, arguments)).collect();
    if let Some(function_call) = message.function_call {
        #[derive(Deserialize)]
        struct Legacy<'a> {
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
        }
        let legacy: Legacy<'_> = serde_json::from_str(function_call).ok()?;
        spans.extend(legacy.arguments.map(|arguments| span_in(raw, arguments.get())));
    }
    let (mut json, mut from) = (String::with_capacity(raw.len()), 0);
    for span in spans {
        json.push_str(raw.get(from..span.start)?);
        json.push_str(r#""{}""#);
        from = span.end;
    }
    json.push_str(raw.get(from..)?);
    saving(draft, exchange.first, json)
}
