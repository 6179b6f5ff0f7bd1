//! Calls with their results, as messages have them, and how often each was made.

use super::changes::is_step;
use crate::core::conversation::{Call, Entry, Exchange, ToolResult};
use crate::core::strategy::maps::{Map, Set, hash_of};

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

/// How often calls were made with the same result. Looked up again, a thing is told once. What
/// changes something is told once only where nothing else was changed in between: after `deploy`,
/// `rollback` and `deploy`, two deploys in a row would be another story.
#[derive(Debug, Default)]
pub(in super::super) struct Repeats {
    looked_up: Map<u64, u32>,
    /// How often each change was made in a row, oldest first.
    rows: Map<u64, Vec<u32>>,
    /// The change that was made last, while they are counted; then the one that was read last.
    last: Option<u64>,
    told: Set<u64>,
}

impl Repeats {
    /// Counts a call, in the order in which they were made.
    pub(in super::super) fn count(&mut self, call: &Call<'_>, key: u64) {
        if !is_step(call) {
            *self.looked_up.entry(key).or_default() += 1;
            return;
        }
        let rows = self.rows.entry(key).or_default();
        match rows.last_mut().filter(|_| self.last == Some(key)) {
            Some(times) => *times += 1,
            None => rows.push(1),
        }
        self.last = Some(key);
    }

    /// All calls are counted: they are read next, newest first.
    pub(in super::super) fn read_back(&mut self) {
        self.last = None;
    }

    /// How often the next call was made, of those that are read newest first; `None` where that was
    /// told.
    pub(in super::super) fn times(&mut self, call: &Call<'_>, key: u64) -> Option<u32> {
        if !is_step(call) {
            let is_new = self.told.insert(key);
            return is_new.then(|| self.looked_up.get(&key).copied().unwrap_or(1));
        }
        if self.last.replace(key) == Some(key) {
            return None;
        }
        Some(self.rows.get_mut(&key).and_then(Vec::pop).unwrap_or(1))
    }
}
