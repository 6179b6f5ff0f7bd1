//! Sentences of the model's that say nothing, or something else, without another one of the same
//! message.

use super::ordinals::{Place, begins_with_place};
use crate::core::strategy::digest::line::{DigestLine, Standing};
use crate::core::strategy::digest::lists::is_numbered_or_bullet;
use crate::core::text::supposes;

/// End sentences that say nothing without what follows.
const LEAVE_OPEN: [char; 4] = [':', '?', '：', '？'];

/// Notes what the sentences of a message need; `ends` is the standing of its first and its last.
pub(in super::super) fn note_needs(lines: &mut [DigestLine], ends: Standing) {
    note_places(lines);
    note_conditions(lines);
    if ends == Standing::Aside {
        mark_open(lines);
    }
}

/// Marks what the model asks itself beside a call, or announces: it tells that in what follows.
fn mark_open(lines: &mut [DigestLine]) {
    let before_last = lines.len().saturating_sub(1);
    for line in lines.iter_mut().take(before_last) {
        let is_told = !matches!(line.standing, Standing::Repeated | Standing::Alike);
        if is_told && line.text.ends_with(LEAVE_OPEN) {
            line.standing = Standing::Alike;
        }
    }
}

/// Notes which item of the list above it a sentence of the model's begins with: `The first can't go
/// out as it stands` says nothing, or something else, without it.
fn note_places(lines: &mut [DigestLine]) {
    let mut items: Vec<usize> = Vec::new();
    let mut is_open = false;
    for at in 0..lines.len() {
        let Some(line) = lines.get_mut(at) else {
            return;
        };
        let of = line.within.and_then(|above| at.checked_sub(above));
        if !line.joins && is_numbered_or_bullet(&line.text) {
            if !std::mem::replace(&mut is_open, true) {
                items.clear();
            }
            // What is within an item is none of them.
            if of.is_none_or(|of| !items.contains(&of)) {
                items.push(at);
            }
            continue;
        }
        if of.is_some() {
            continue;
        }
        is_open = false;
        if items.is_empty() {
            continue;
        }
        let item = match begins_with_place(&line.text) {
            Some(Place::Nth(nth)) => items.get((nth as usize).saturating_sub(1)),
            Some(Place::Last) => items.last(),
            None => None,
        };
        line.within = item.map(|item| at - item);
    }
}

/// Notes under which condition a sentence of the model's is said: of `If it is empty: the child
/// fails. The name is lost.` the second says something else without the first.
fn note_conditions(lines: &mut [DigestLine]) {
    // The condition that is open, and whether it ended its line.
    let mut open: Option<(usize, bool)> = None;
    for at in 0..lines.len() {
        let Some(line) = lines.get_mut(at) else {
            return;
        };
        if supposes(&line.text) {
            open = Some((at, line.text.ends_with([':', '：'])));
            continue;
        }
        open = open.filter(|(_, ends)| line.joins || *ends);
        if let Some((condition, ends)) = &mut open {
            line.within.get_or_insert(at - *condition);
            *ends = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Cancel;
    use crate::core::strategy::digest::line::Part;
    use crate::core::strategy::digest::texts::quoted::sentences_of;

    /// The sentence that each sentence needs.
    fn needed(text: &str) -> Vec<(String, Option<String>)> {
        let mut lines = Vec::new();
        sentences_of(text, Part::Assistant, &Cancel::default(), &mut lines).unwrap();
        note_needs(&mut lines, Standing::Edge);
        let needed = |at: usize| Some(lines[at - lines[at].within?].text.clone());
        let all = 0..lines.len();
        all.map(|at| (lines[at].text.clone(), needed(at))).collect()
    }

    fn needs(text: &str, said: &str) -> Option<String> {
        let all = needed(text);
        let found = all.into_iter().find(|(line, _)| line.contains(said));
        found.unwrap().1
    }

    #[test]
    fn what_is_named_by_its_place_comes_with_its_item() {
        let text = "Three are open:\n- HT-20881: oak, due on Friday\n  - 0.6 m3 are missing\n\
            - HT-20944: two doors\n- HT-20950: stairs\n\nThe first can't go out as it stands.\n\
            The last one is paid. Shall I go on?";
        let first = needs(text, "can't go out");
        assert!(first.unwrap().contains("HT-20881"));
        assert!(needs(text, "is paid").unwrap().contains("HT-20950"));
        assert_eq!(needs(text, "Shall I"), None);
        assert_eq!(needs("It is slow.\nThe first run took 9 s.", "9 s"), None);
    }

    #[test]
    fn what_is_so_under_a_condition_comes_with_it() {
        let text = "If run with a zipfile: there is a spec. The name is `__main__`.\n\
            If the parent is empty:\nIt is a folder. It has no name.\nI go on.";
        let of_zipfile = needs(text, "The name is").unwrap();
        assert!(of_zipfile.contains("zipfile"), "{of_zipfile}");
        for said in ["a folder", "no name"] {
            assert_eq!(
                needs(text, said).as_deref(),
                Some("If the parent is empty:")
            );
        }
        assert_eq!(needs(text, "I go on"), None);
        assert_eq!(
            needs("If you like, I book it. The price is 9.", "price"),
            None
        );
    }
}
