//! From edits to bytes: slices of the client's body plus the few new pieces, and the check that what comes out is a
//! valid chat.

use std::ops::Range;

use super::chat::{Chat, Message, Role, group};
use super::draft::last_user;
use super::plan::Edit;
use super::strategy::is_summary;

/// A run of the bytes to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the client's body.
    Client(Range<usize>),
    /// A new message.
    New(Box<str>),
    /// The comma between two messages that were not neighbours.
    Comma,
}

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

/// The body with `edits` (one per message) applied. Neighbouring runs of the client's bytes are one piece.
#[must_use]
pub fn render(chat: &Chat<'_>, edits: &[Edit]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let client = |pieces: &mut Vec<Piece>, range: Range<usize>| match pieces.last_mut() {
        Some(Piece::Client(last)) if last.end == range.start => last.end = range.end,
        _ => pieces.push(Piece::Client(range)),
    };
    let spans: Vec<Range<usize>> = chat.messages.iter().map(|message| chat.span(message.raw)).collect();
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return vec![Piece::Client(0..chat.outline.body.len())] };

    client(&mut pieces, 0..first.start);
    let mut previous: Option<usize> = None;
    for (at, (span, edit)) in spans.iter().zip(edits).enumerate() {
        if *edit == Edit::Drop {
            continue;
        }
        if let Some(previous) = previous {
            match spans.get(previous) {
                Some(before) if previous + 1 == at => client(&mut pieces, before.end..span.start),
                _ => pieces.push(Piece::Comma),
            }
        }
        if *edit == Edit::Keep {
            client(&mut pieces, span.clone());
        }
        for (nth, new) in edit.new_messages().iter().enumerate() {
            if nth > 0 {
                pieces.push(Piece::Comma);
            }
            pieces.push(Piece::New(new.json.clone()));
        }
        previous = Some(at);
    }
    client(&mut pieces, last.end..chat.outline.body.len());
    pieces
}

/// The bytes that `pieces` stand for.
#[must_use]
pub fn assemble(body: &str, pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Client(range) => body.get(range.clone()).unwrap_or_default(),
            Piece::New(json) => json,
            Piece::Comma => ",",
        })
        .collect()
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
    let new_messages = edits.iter().map(new_messages).collect::<Result<Vec<_>, _>>()?;
    let last_user = last_user(messages);
    let mut left: Vec<&Message<'_>> = Vec::with_capacity(messages.len());
    for (at, ((message, edit), new)) in messages.iter().zip(edits).zip(&new_messages).enumerate() {
        let fixed = message.role.is_instruction() || message.role == Role::Other || Some(at) == last_user;
        let wrong = new.iter().any(|new| match edit {
            // Whose message a summary is, the policy says.
            Edit::Stand(_) => {
                (new.role.is_instruction() && !is_summary(new)) || new.role == Role::Other || (new.content.is_none() && !new.is_call())
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
    edit.new_messages().iter().map(|new| Message::parse(&new.json).map_err(|_| Invalid::NotAChat)).collect()
}
