//! Groups messages into exchanges, the smallest unit that may be cut, and refuses lists whose calls and results do not
//! match.

use std::borrow::Borrow;

use crate::core::conversation::Role;
use crate::core::wire::chat::Message;

/// What an exchange is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One system or developer message.
    Instruction,
    /// One user message.
    User,
    /// One assistant message without calls.
    Assistant,
    /// An assistant message with calls (or a legacy function call) and all of its results.
    Calls,
    /// One message with a role this version does not know.
    Other,
}

/// Messages `first..end` that stay or go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Index of its first message.
    pub first: usize,
    /// Index behind its last message.
    pub end: usize,
    /// What it is made of.
    pub kind: Kind,
}

/// The calls and results of a list do not match; it is not ours to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tool calls and results of message {at} do not match")]
pub struct BrokenPairing {
    /// Index of the message where it shows.
    pub at: usize,
}

/// The exchanges of `messages`, in order, without gaps.
///
/// Ids are matched within one exchange only: weak clients use an id again in a later turn, or twice among parallel calls.
///
/// # Errors
/// [`BrokenPairing`] when a call lacks a result before the next message of another role, or a result lacks its call.
pub fn group<'a>(messages: &[impl Borrow<Message<'a>>]) -> Result<Vec<Exchange>, BrokenPairing> {
    let mut exchanges = Vec::with_capacity(messages.len());
    let mut rest = messages.iter().map(Borrow::borrow).enumerate();
    while let Some((first, message)) = rest.next() {
        let kind = match message.role {
            Role::System | Role::Developer => Kind::Instruction,
            Role::User => Kind::User,
            Role::Other => Kind::Other,
            Role::Tool | Role::Function => return Err(BrokenPairing { at: first }),
            Role::Assistant if message.is_call() => Kind::Calls,
            Role::Assistant => Kind::Assistant,
        };
        let mut end = first + 1;
        if kind == Kind::Calls {
            let mut open: Vec<&str> = message.calls.iter().map(|call| call.id.as_ref()).collect();
            let mut open_functions = usize::from(message.function_call.is_some());
            while open.len() + open_functions > 0 {
                let broken = BrokenPairing { at: first };
                let (at, result) = rest.next().ok_or(broken)?;
                match result.role {
                    Role::Tool => {
                        let id = result.answers.as_deref().ok_or(BrokenPairing { at })?;
                        let found = open
                            .iter()
                            .position(|open| *open == id)
                            .ok_or(BrokenPairing { at })?;
                        open.swap_remove(found);
                    }
                    Role::Function if open_functions > 0 => open_functions -= 1,
                    _ => return Err(broken),
                }
                end = at + 1;
            }
        }
        exchanges.push(Exchange { first, end, kind });
    }
    Ok(exchanges)
}
