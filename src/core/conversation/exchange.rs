//! Groups entries into exchanges, the smallest unit that may be cut, and refuses lists whose calls
//! and results do not match.

use std::borrow::Borrow;

use super::entry::{BlockId, Call, Entry, Speaker, ToolResult};

/// The kind of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One instruction.
    Instruction,
    /// One user message.
    User,
    /// One assistant message without calls.
    Assistant,
    /// An assistant message with calls, and all of its results.
    Calls,
    /// An assistant message with a call that has no result, and the results that it has. It stays
    /// as it is, wherever it stands.
    Unanswered,
    /// One message of a party that this version does not know.
    Other,
}

impl Kind {
    /// Whether such an exchange stays as it is, wherever it stands.
    #[must_use]
    pub fn is_fixed(self) -> bool {
        matches!(self, Kind::Instruction | Kind::Unanswered | Kind::Other)
    }
}

/// Messages `first..end` that stay or go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Index of its first message.
    pub first: usize,
    /// Index after its last message.
    pub end: usize,
    /// Its kind.
    pub kind: Kind,
}

impl Exchange {
    /// Its messages, out of all of the conversation's.
    #[must_use]
    pub fn of<'m, 'a>(&self, messages: &'m [Entry<'a>]) -> &'m [Entry<'a>] {
        messages.get(self.first..self.end).unwrap_or_default()
    }

    /// Its results, oldest first, each with its address.
    pub fn results<'m, 'a>(
        &self,
        messages: &'m [Entry<'a>],
    ) -> impl Iterator<Item = (BlockId, &'m ToolResult<'a>)> + use<'m, 'a> {
        let first = self.first;
        self.of(messages)
            .iter()
            .enumerate()
            .flat_map(move |(nth, entry)| {
                entry
                    .results()
                    .map(move |(block, result)| (BlockId::new(first + nth, block), result))
            })
    }

    /// The call that a result refers to by its id.
    #[must_use]
    pub fn call_of<'m, 'a>(
        &self,
        messages: &'m [Entry<'a>],
        result: &ToolResult<'_>,
    ) -> Option<&'m Call<'a>> {
        let id = result.answers.as_deref()?;
        messages
            .get(self.first)?
            .calls()
            .find(|call| call.legacy.is_none() && call.id == id)
    }

    /// The name of the tool that gave a result.
    #[must_use]
    pub fn tool_of(&self, messages: &[Entry<'_>], result: &ToolResult<'_>) -> Option<String> {
        let legacy = || {
            messages
                .get(self.first)?
                .calls()
                .find(|call| call.legacy.is_some() && !call.name.is_empty())
        };
        self.call_of(messages, result)
            .map(|call| call.name.to_string())
            .or_else(|| result.name.as_deref().map(str::to_owned))
            .or_else(|| legacy().map(|call| call.name.to_string()))
    }
}

/// The calls and results of a list do not match. Baler does not repair such a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tool calls and results of message {at} do not match")]
pub struct BrokenPairing {
    /// Index of the message where it shows.
    pub at: usize,
}

/// The exchanges of `messages`, in order, without gaps.
///
/// Ids are matched within one exchange only: weak clients use an id again in a later turn, or twice
/// among parallel calls.
///
/// # Errors
/// [`BrokenPairing`] when a result lacks its call.
pub fn group<'a>(messages: &[impl Borrow<Entry<'a>>]) -> Result<Vec<Exchange>, BrokenPairing> {
    let mut exchanges = Vec::with_capacity(messages.len());
    let mut rest = messages.iter().map(Borrow::borrow).enumerate().peekable();
    while let Some((first, entry)) = rest.next() {
        let mut kind = match entry.speaker {
            Speaker::Instruction => Kind::Instruction,
            Speaker::User => Kind::User,
            Speaker::Other => Kind::Other,
            Speaker::Tool => return Err(BrokenPairing { at: first }),
            Speaker::Assistant if entry.is_call() => Kind::Calls,
            Speaker::Assistant => Kind::Assistant,
        };
        let mut end = first + 1;
        if kind == Kind::Calls {
            let mut open = Open::of(entry);
            while !open.is_empty() {
                let result = rest.next_if(|(_, entry)| entry.speaker == Speaker::Tool);
                let Some((at, entry)) = result else {
                    kind = Kind::Unanswered;
                    break;
                };
                for (_, result) in entry.results() {
                    open.close(result).ok_or(BrokenPairing { at })?;
                }
                end = at + 1;
            }
        }
        exchanges.push(Exchange { first, end, kind });
    }
    Ok(exchanges)
}

/// Calls that have no result yet.
struct Open<'e> {
    ids: Vec<&'e str>,
    legacy: usize,
}

impl<'e> Open<'e> {
    fn of(entry: &'e Entry<'_>) -> Self {
        let mut open = Open {
            ids: Vec::new(),
            legacy: 0,
        };
        for call in entry.calls() {
            if call.legacy.is_some() {
                open.legacy += 1;
            } else {
                open.ids.push(&call.id);
            }
        }
        open
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.legacy == 0
    }

    /// Closes the call that a result answers; `None` when there is no such call.
    fn close(&mut self, result: &ToolResult<'_>) -> Option<()> {
        if result.legacy {
            self.legacy = self.legacy.checked_sub(1)?;
            return Some(());
        }
        let id = result.answers.as_deref()?;
        let found = self.ids.iter().position(|open| *open == id)?;
        self.ids.swap_remove(found);
        Some(())
    }
}
