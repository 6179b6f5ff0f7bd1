//! Digests that a walk counts and does not write: most often, a later compaction puts another one
//! in their place. Their size is all that decisions need of them.

use super::attempt::Attempt;
use super::plan::{Compaction, Deferred};
use crate::core::edit::{Edit, Replacement};
use crate::core::policy::Reason;

/// The digest of a list that is only counted so far: what it takes to write it.
pub(super) struct Unwritten {
    /// Length of the list at the compaction that made it.
    pub point: usize,
    /// The reason for that compaction.
    pub reason: Reason,
    /// The edits of these messages before that compaction.
    pub before: Vec<Edit>,
    /// Where the walk was before its first such digest.
    pub start: Start,
}

/// What a walk had come to.
pub(super) struct Start {
    /// The edits of all messages.
    pub edits: Vec<Edit>,
    pub compaction: Option<Compaction>,
    pub made_at: Option<usize>,
    pub attempt: Option<Attempt>,
    pub deferred: Option<Deferred>,
    pub retry_at: u64,
}

/// Puts the digest of `written`, the outcome of the same compaction, in the place of the one that
/// `edits` only count. Reports whether it is there.
pub(super) fn write(edits: &mut [Edit], written: &[Edit]) -> bool {
    let Some((at, nth)) = place_in(edits) else {
        return false;
    };
    let (Some(edit), Some(written)) = (edits.get_mut(at), written.get(at)) else {
        return false;
    };
    let mut new = edit.new_messages().to_vec();
    // Fillers beside it are much smaller.
    let is_it =
        |new: &&Replacement, old: &Replacement| new.tokens == old.tokens && !new.is_unwritten();
    let Some((old, digest)) = new.get_mut(nth).and_then(|old| {
        let mut written = written.new_messages().iter();
        let digest = written.find(|new| is_it(new, old))?;
        Some((old, digest))
    }) else {
        return false;
    };
    old.clone_from(digest);
    *edit = Edit::Stand(new.into());
    true
}

/// The place of a digest that is only counted: the message, and its number among those that stand
/// there.
pub(super) fn place_in(edits: &[Edit]) -> Option<(usize, usize)> {
    edits.iter().enumerate().find_map(|(at, edit)| {
        let mut new = edit.new_messages().iter();
        Some((at, new.position(Replacement::is_unwritten)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::Dialect;

    fn message(text: &str, tokens: u64) -> Replacement {
        let json = format!(r#"{{"role":"user","content":"{text}"}}"#);
        Replacement::counted(Dialect::ChatCompletions, json, tokens)
    }

    fn stand(new: &[&Replacement]) -> Edit {
        Edit::Stand(new.iter().map(|new| (*new).clone()).collect())
    }

    #[test]
    fn a_digest_takes_the_place_that_was_kept_for_it_and_no_other() {
        let (filler, kept) = (message("…", 8), message("", 300).unwritten());
        let digest = message("a digest", 290).in_room(300);
        let list = [Edit::Keep, stand(&[&filler, &kept]), Edit::Drop];

        let mut edits = list.clone();
        let written = [Edit::Keep, stand(&[&digest, &filler]), Edit::Drop];
        assert!(write(&mut edits, &written));
        assert_eq!(edits[1], stand(&[&filler, &digest]));
        assert!(
            !write(&mut edits, &written),
            "nothing is to be written any more"
        );

        for other in [
            stand(&[&filler]),
            stand(&[&digest.clone().in_room(301)]),
            stand(&[&kept]),
            Edit::Drop,
        ] {
            let mut edits = list.clone();
            assert!(!write(&mut edits, &[Edit::Keep, other, Edit::Drop]));
            assert_eq!(edits, list);
        }
    }
}
