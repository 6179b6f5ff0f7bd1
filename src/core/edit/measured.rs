//! A conversation with everything that planning knows of it.

use super::edits::{Edit, Replacement};
use super::synthetic::is_synthetic;
use crate::core::conversation::{Entry, Exchange, Fingerprint, Measure, Size, Speaker};
use crate::core::models::Family;
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;

/// A request as every step of planning sees it.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredConversation<'a> {
    /// The wire format of the messages.
    pub dialect: Dialect,
    /// The messages.
    pub messages: &'a [Entry<'a>],
    /// One measure per message.
    pub measures: &'a [Measure],
    /// The exchanges that the messages form.
    pub exchanges: &'a [Exchange],
    /// Prompt tokens besides the messages.
    pub fixed_tokens: u64,
    /// The way tokens are counted.
    pub encoding: Encoding,
    /// The demands of the model's family.
    pub family: Family,
}

impl<'a> MeasuredConversation<'a> {
    /// The size of the list that `edits` (one per message) leave.
    #[must_use]
    pub fn size_after(&self, edits: &[Edit]) -> Size {
        size_of_edited(self.measures, self.fixed_tokens, edits)
    }

    /// The same request when it was `length` messages long. `length` must be a boundary between
    /// exchanges.
    #[must_use]
    pub fn prefix(&self, length: usize) -> MeasuredConversation<'a> {
        let exchanges = self
            .exchanges
            .partition_point(|exchange| exchange.end <= length);
        MeasuredConversation {
            messages: self.messages.get(..length).unwrap_or(self.messages),
            measures: self.measures.get(..length).unwrap_or(self.measures),
            exchanges: self.exchanges.get(..exchanges).unwrap_or(self.exchanges),
            ..*self
        }
    }

    /// Prompt tokens of an exchange under `edits`.
    pub(super) fn tokens_in(&self, exchange: &Exchange, edits: &[Edit]) -> u64 {
        let range = exchange.first..exchange.end;
        self.measures
            .get(range.clone())
            .unwrap_or_default()
            .iter()
            .zip(edits.get(range).unwrap_or_default())
            .map(|(measure, edit)| tokens_of(measure, edit))
            .sum()
    }
}

/// Prompt tokens that decisions take for what is sent for an original message.
#[must_use]
pub fn tokens_of(measure: &Measure, edit: &Edit) -> u64 {
    match edit {
        Edit::Keep => measure.tokens,
        edit => edit.new_messages().iter().map(|new| new.tokens).sum(),
    }
}

/// Those of [`tokens_of`] that are not sent: a digest counts as all that it was given.
#[must_use]
pub fn unused_of(edit: &Edit) -> u64 {
    edit.new_messages().iter().map(|new| new.unused).sum()
}

/// The size of the messages that are sent for an original one, as decisions take it. New messages
/// are not turns: no user wrote them.
#[must_use]
pub fn size_of(measure: &Measure, edit: &Edit) -> Size {
    let original = Size::of(measure);
    match edit {
        Edit::Keep => original,
        edit => {
            let stays = u64::from(matches!(edit, Edit::Replace(_)));
            Size {
                tokens: tokens_of(measure, edit),
                messages: edit.new_messages().len() as u64,
                turns: original.turns * stays,
                tool_uses: original.tool_uses * stays,
            }
        }
    }
}

/// The same, as it is sent.
#[must_use]
pub fn sent_size_of(measure: &Measure, edit: &Edit) -> Size {
    let size = size_of(measure, edit);
    Size {
        tokens: size.tokens.saturating_sub(unused_of(edit)),
        ..size
    }
}

/// The size of the list that `edits` (one per measure) leave, as decisions take it, with
/// `fixed_tokens` besides the messages.
#[must_use]
pub fn size_of_edited(measures: &[Measure], fixed_tokens: u64, edits: &[Edit]) -> Size {
    let mut size = Size {
        tokens: fixed_tokens,
        ..Size::default()
    };
    for (measure, edit) in measures.iter().zip(edits) {
        size += size_of(measure, edit);
    }
    size
}

/// The same, as it is sent.
#[must_use]
pub fn sent_size_of_edited(measures: &[Measure], fixed_tokens: u64, edits: &[Edit]) -> Size {
    let size = size_of_edited(measures, fixed_tokens, edits);
    let unused: u64 = edits.iter().map(unused_of).sum();
    Size {
        tokens: size.tokens.saturating_sub(unused),
        ..size
    }
}

/// The last message that a user wrote. A message that Baler wrote in a user's name does not count,
/// unless there is no other: so it is the same message for as long as the user writes no new one.
#[must_use]
pub fn last_user(messages: &[Entry<'_>]) -> Option<usize> {
    let of_user = || {
        messages
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, entry)| entry.speaker == Speaker::User)
    };
    let written = of_user().find(|(_, entry)| !is_synthetic(entry));
    written.or_else(|| of_user().next()).map(|(at, _)| at)
}

/// Fingerprints of the messages that are sent for an original one.
pub fn fingerprints_of<'e>(
    measure: &'e Measure,
    edit: &'e Edit,
) -> impl Iterator<Item = &'e Fingerprint> {
    let kept = matches!(edit, Edit::Keep).then_some(&measure.fingerprint);
    kept.into_iter()
        .chain(edit.new_messages().iter().map(Replacement::fingerprint))
}
