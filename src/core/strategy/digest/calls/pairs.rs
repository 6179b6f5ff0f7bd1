//! Calls with their results, as messages have them.

use crate::core::conversation::{Call, Entry, Exchange, ToolResult};
use crate::core::strategy::maps::{Map, hash_of};

/// The calls of an exchange, each with its result.
pub(in super::super) fn made<'m, 'a>(
    messages: &'m [Entry<'a>],
    exchange: &Exchange,
) -> Vec<(&'m Call<'a>, Option<&'m ToolResult<'a>>)> {
    let results: Vec<_> = exchange
        .results(messages)
        .map(|(_, result)| result)
        .collect();
    let by_id: Map<&str, &ToolResult<'a>> = results
        .iter()
        .rev()
        .filter_map(|result| Some((result.answers.as_deref()?, *result)))
        .collect();
    let legacy = results.iter().find(|result| result.legacy).copied();
    let calls = messages
        .get(exchange.first)
        .into_iter()
        .flat_map(Entry::calls);
    let with_result = |call: &'m Call<'a>| match call.legacy {
        Some(_) => (call, legacy),
        None => (call, by_id.get(call.id.as_ref()).copied()),
    };
    calls.map(with_result).collect()
}

/// What tells a call as it was made, with its result, from others.
pub(in super::super) fn key_of(call: &Call<'_>, result: Option<&ToolResult<'_>>) -> u64 {
    let arguments = call.arguments.map(|text| text.raw());
    let answer = result.and_then(|result| match result.texts.as_slice() {
        [only] => Some(only.raw()),
        _ => result.raw,
    });
    hash_of(&(call.name.as_ref(), arguments, answer))
}
