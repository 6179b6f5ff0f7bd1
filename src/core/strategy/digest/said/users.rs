//! Which user speaks: the number of his message, and his name where there are several.

use crate::core::conversation::{Entry, Speaker};
use crate::core::edit::{Tag, is_synthetic};
use crate::core::strategy::digest::body::read_back::last_turn;
use crate::core::strategy::digest::calls::in_text::is_of_user;
use crate::core::strategy::digest::line::{DigestLine, Part};

/// The longest name of a user (bytes).
const LONGEST_NAME: usize = 40;

/// Whether users of several names speak: each has a card of his own.
pub(in super::super) fn has_names(messages: &[Entry<'_>]) -> bool {
    let users = messages
        .iter()
        .filter(|entry| entry.speaker == Speaker::User);
    let mut names = users.filter_map(|entry| entry.name.as_deref());
    let first = names.next();
    names.any(|name| Some(name) != first)
}

/// Puts the name of the user who wrote a message before its first line.
pub(in super::super) fn note_name(entry: Option<&Entry<'_>>, first: &mut DigestLine) {
    let Some(name) = entry.and_then(|entry| entry.name.as_deref()) else {
        return;
    };
    let name = name.get(..name.floor_char_boundary(LONGEST_NAME));
    let said = format!("{}: {}", name.unwrap_or_default(), first.text);
    first.text = DigestLine::new(Part::User, 0, &said).text;
}

/// The number of the user's message at or before each message. A digest that came back from a
/// client says how many it stands for.
pub(in super::super) fn turns_of(messages: &[Entry<'_>]) -> Vec<u32> {
    let mut turn: u32 = 0;
    let numbered = messages.iter().enumerate().map(|(at, entry)| {
        if entry.speaker == Speaker::User && is_of_user(messages, at) {
            if !is_synthetic(entry) {
                turn = turn.saturating_add(1);
            } else if let Some(body) = Tag::Digest.body_of(entry) {
                turn = turn.max(last_turn(&body));
            }
        }
        turn
    });
    numbered.collect()
}
