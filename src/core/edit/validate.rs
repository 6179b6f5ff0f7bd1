//! The check that edits leave a valid chat with everything that must stay.

use super::edits::Edit;
use super::measured::last_user;
use super::synthetic::is_summary;
use crate::core::conversation::{Content, Entry, Exchange, Kind, Speaker, group};
use crate::core::wire::Dialect;

/// The reason for which edits must not be sent. Either is a defect of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Calls and results do not match, or a replacement is not a message.
    #[error("the compacted list is not a valid chat")]
    NotAChat,
    /// A message changed its role, lost its content, or an instruction or the last user message was
    /// touched.
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
pub fn validate(dialect: Dialect, messages: &[Entry<'_>], edits: &[Edit]) -> Result<(), Invalid> {
    if edits.len() != messages.len() {
        return Err(Invalid::NotAChat);
    }
    // Only new messages need reading; those that are kept were viewed already.
    let new_messages = edits
        .iter()
        .map(|edit| new_messages(dialect, edit))
        .collect::<Result<Vec<_>, _>>()?;
    let last_user = last_user(messages);
    let mut left: Vec<&Entry<'_>> = Vec::with_capacity(messages.len());
    for (at, ((message, edit), new)) in messages.iter().zip(edits).zip(&new_messages).enumerate() {
        let fixed = matches!(message.speaker, Speaker::Instruction | Speaker::Other)
            || Some(at) == last_user;
        let wrong = new.iter().any(|new| match edit {
            Edit::Stand(_) => !may_stand(new),
            _ => !may_replace(new, message),
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
    // A call without a result is the client's: it stays, and none is added.
    let unanswered = |exchanges: Vec<Exchange>| -> Vec<usize> {
        let of_kind = exchanges.iter().filter(|e| e.kind == Kind::Unanswered);
        of_kind
            .map(|exchange| exchange.end - exchange.first)
            .collect()
    };
    let after = unanswered(group(&left).map_err(|_| Invalid::NotAChat)?);
    if !after.is_empty() {
        let before = group(messages).map_err(|_| Invalid::NotAChat)?;
        let touched = before
            .iter()
            .filter(|exchange| exchange.kind == Kind::Unanswered)
            .flat_map(|exchange| edits.get(exchange.first..exchange.end).unwrap_or_default())
            .any(|edit| *edit != Edit::Keep);
        if touched || unanswered(before) != after {
            return Err(Invalid::NotAChat);
        }
    }
    Ok(())
}

/// Whether a new message may stand for dropped ones. The policy chooses in whose name a summary is
/// written.
fn may_stand(new: &Entry<'_>) -> bool {
    let speaks = match new.speaker {
        Speaker::Instruction => is_summary(new),
        Speaker::Other => false,
        Speaker::User | Speaker::Assistant | Speaker::Tool => true,
    };
    speaks && (new.content != Content::Absent || new.is_call())
}

/// Whether a new message may take the place of `old`.
fn may_replace(new: &Entry<'_>, old: &Entry<'_>) -> bool {
    new.role == old.role && (new.content != Content::Absent || old.content == Content::Absent)
}

/// The messages that an edit puts in the place of another.
fn new_messages(dialect: Dialect, edit: &Edit) -> Result<Vec<Entry<'_>>, Invalid> {
    edit.new_messages()
        .iter()
        .map(|new| dialect.entry(&new.json).map_err(|_| Invalid::NotAChat))
        .collect()
}
