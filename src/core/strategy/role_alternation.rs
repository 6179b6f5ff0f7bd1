//! For model families whose templates insist on alternating roles: where a compaction puts two
//! messages of one side next to each other, or an answer first, a short filler message goes in
//! between. Head and tail stay byte for byte.

use std::ops::Range;

use crate::core::conversation::{Author, Speaker};
use crate::core::edit::{Draft, Edit, FILLER, Replacement};

/// Takes earlier fillers away; the rest of the list decides anew where any are needed.
pub(super) fn remove_fillers(draft: &mut Draft<'_>) {
    let dialect = draft.conversation().dialect;
    let fillers = [Author::Assistant, Author::User].map(|author| dialect.synthetic(author, FILLER));
    let is_filler = |new: &Replacement| fillers.iter().any(|filler| **filler == *new.json);
    for at in 0..draft.conversation().messages.len() {
        let Edit::Stand(new) = draft.edit(at) else {
            continue;
        };
        if new.iter().any(is_filler) {
            let left = new.iter().filter(|new| !is_filler(new)).cloned().collect();
            draft.stand(at, left);
        }
    }
}

/// Puts fillers where removed messages leave two of one side next to each other.
pub(super) fn insert_fillers(draft: &mut Draft<'_>) {
    let mut before: Option<(usize, Speaker)> = None;
    for at in 0..draft.conversation().messages.len() {
        let entries = draft.entries(at);
        let speakers = entries.first().zip(entries.last());
        let Some((first, last)) = speakers.map(|(first, last)| (first.speaker, last.speaker))
        else {
            continue;
        };
        drop(entries);
        if first.is_instruction() {
            continue;
        }
        if let Some(author) = between(before.map(|(_, speaker)| speaker), first) {
            let from = before.map_or(0, |(at, _)| at + 1);
            insert(draft, from, at, author);
        }
        before = Some((at, last));
    }
}

/// The author of the filler that two neighbours need between them.
fn between(before: Option<Speaker>, after: Speaker) -> Option<Author> {
    match (before, after) {
        (None | Some(Speaker::Assistant), Speaker::Assistant) => Some(Author::User),
        (Some(Speaker::User | Speaker::Tool), Speaker::User) => Some(Author::Assistant),
        _ => None,
    }
}

/// Puts a filler before the messages at `at`: in their own place when they are synthetic, else in
/// the place of a removed message. Where the removed messages are no larger than the filler, they
/// come back instead. Neighbours that the client put there itself stay as they are.
fn insert(draft: &mut Draft<'_>, from: usize, at: usize, author: Author) {
    let Some(new) = draft.written(author, FILLER) else {
        return;
    };
    if let Edit::Stand(own) = draft.edit(at) {
        let all = std::iter::once(new).chain(own.iter().cloned()).collect();
        draft.stand(at, all);
    } else if let Some(Edit::Stand(own)) = from.checked_sub(1).map(|before| draft.edit(before)) {
        let all = own.iter().cloned().chain([new]).collect();
        draft.stand(from - 1, all);
    } else {
        fill(draft, from..at, author, new);
    }
}

/// Puts a filler in the place of the first removed message of a range. Where the removed messages
/// are no larger than the filler, or one of them serves as well, they come back instead.
fn fill(draft: &mut Draft<'_>, range: Range<usize>, author: Author, filler: Replacement) {
    let is_gone = |gone: &usize| *draft.edit(*gone) == Edit::Drop;
    let gone: Vec<usize> = range.filter(is_gone).collect();
    let Some(first) = gone.first() else {
        return;
    };
    let measures = draft.conversation().measures;
    let tokens = |at: &usize| measures.get(*at).map_or(0, |measure| measure.tokens);
    let serves = |at: &&usize| {
        let entry = draft.conversation().messages.get(**at);
        let same = entry.is_some_and(|entry| match author {
            Author::Assistant => entry.speaker == Speaker::Assistant && !entry.is_call(),
            _ => entry.speaker == Speaker::User,
        });
        same && tokens(at) <= filler.tokens
    };
    if gone.iter().map(tokens).sum::<u64>() <= filler.tokens {
        gone.iter().for_each(|at| draft.restore(*at));
    } else if let Some(at) = gone.iter().find(serves) {
        draft.restore(*at);
    } else {
        draft.stand(*first, vec![filler]);
    }
}
