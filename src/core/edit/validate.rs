//! The check that edits leave a valid chat with everything that must stay.

use super::{Edit, is_summary, last_user};
use crate::core::conversation::{Role, group};
use crate::core::wire::chat::Message;

/// Why edits must not be sent. Either is a defect of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Calls and results do not match, or a replacement is no message.
    #[error("the compacted list is not a valid chat")]
    NotAChat,
    /// A message changed its role, lost its content, or an instruction or the last user message was touched.
    #[error("the compacted list changed what must stay")]
    Changed,
}

impl Invalid {
    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Invalid::NotAChat => "invalid_chat",
            Invalid::Changed => "invalid_change",
        }
    }
}

/// Checks that `edits` leave a valid chat with everything that must stay.
///
/// # Errors
/// [`Invalid`]: the edits must not be used.
pub fn validate(messages: &[Message<'_>], edits: &[Edit]) -> Result<(), Invalid> {
    if edits.len() != messages.len() {
        return Err(Invalid::NotAChat);
    }
    // Only what is new needs reading; what is kept was viewed already.
    let new_messages = edits
        .iter()
        .map(new_messages)
        .collect::<Result<Vec<_>, _>>()?;
    let last_user = last_user(messages);
    let mut left: Vec<&Message<'_>> = Vec::with_capacity(messages.len());
    for (at, ((message, edit), new)) in messages.iter().zip(edits).zip(&new_messages).enumerate() {
        let fixed =
            message.role.is_instruction() || message.role == Role::Other || Some(at) == last_user;
        let wrong = new.iter().any(|new| match edit {
            // Whose message a summary is, the policy says.
            Edit::Stand(_) => {
                (new.role.is_instruction() && !is_summary(new))
                    || new.role == Role::Other
                    || (new.content.is_none() && !new.is_call())
            }
            _ => new.role != message.role || (new.content.is_none() && message.content.is_some()),
        });
        if wrong || (fixed && *edit != Edit::Keep) {
            return Err(Invalid::Changed);
        }
        match edit {
            Edit::Keep => left.push(message),
            _ => left.extend(new),
        }
    }
    if left.is_empty() {
        return Err(Invalid::NotAChat);
    }
    group(&left).map(drop).map_err(|_| Invalid::NotAChat)
}

/// The messages that an edit puts in the place of another.
fn new_messages(edit: &Edit) -> Result<Vec<Message<'_>>, Invalid> {
    edit.new_messages()
        .iter()
        .map(|new| Message::parse(&new.json).map_err(|_| Invalid::NotAChat))
        .collect()
}
