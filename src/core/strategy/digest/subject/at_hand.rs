//! What the model is at since the user's newest message: the rest of a list that it goes through,
//! and of what it searched for the rows of things that were known before. The next calls take their
//! values from there.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE};
use crate::core::strategy::digest::weigh::weight::{Weighed, Weight, is_plain_row};
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::words_of;
use crate::core::{Cancel, Cancelled};

/// Notes the lines of what the model is at.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_at_hand(
    lines: &[DigestLine],
    of: &mut Weighed,
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let may = |line: &DigestLine| match line.part {
        Part::Record | Part::Member => lists_ids(&line.text),
        part => line.user_below && part != Part::Assistant,
    };
    if !lines.iter().any(may) {
        return Ok(());
    }
    let ids = Ids::of(lines, of, cancel)?;
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let Some(weight) = of.lines.get(at) else {
            break;
        };
        let is_of_now = !line.standing.is_old() && !line.of_argument;
        let at_hand = is_of_now
            && match line.part {
                Part::Record | Part::Member => ids.goes_through(line, of, weight),
                _ if !line.user_below => false,
                _ if is_plain_row(lines, line, weight) => ids.is_of_known(of, weight),
                _ => false,
            };
        if let Some(weight) = of.lines.get_mut(at).filter(|_| at_hand) {
            weight.at_hand = true;
        }
    }
    Ok(())
}

/// The ids with letters, by where they stand.
#[derive(Default)]
struct Ids {
    /// Besides rows of results: in records, calls and what was said.
    known: Set<u32>,
    /// In calls since the user's newest message, of those in the digest.
    called: Set<u32>,
    /// The rows of a table with an id, by its head.
    rows: Map<(usize, u32), u32>,
}

impl Ids {
    fn of(lines: &[DigestLine], of: &Weighed, cancel: &Cancel) -> Result<Self, Cancelled> {
        let mut ids = Ids::default();
        for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let own = of.words_at(&weight.words).filter(|(_, word)| word.is_id);
            let own = own.map(|(id, _)| id);
            if is_plain_row(lines, line, weight) {
                for id in own {
                    let head = weight.needs.unwrap_or_default();
                    *ids.rows.entry((head, id)).or_default() += 1;
                }
            } else if line.part != Part::Head {
                let own: Vec<u32> = own.collect();
                if line.is_of_call() && line.user_below {
                    ids.called.extend(&own);
                }
                ids.known.extend(own);
            }
        }
        Ok(ids)
    }

    /// Whether a line of a record has a list of ids of which some were taken by the newest calls,
    /// and others by none.
    fn goes_through(&self, line: &DigestLine, of: &Weighed, weight: &Weight) -> bool {
        if !lists_ids(&line.text) {
            return false;
        }
        let own = || of.words_at(&weight.words).filter(|(_, word)| word.is_id);
        let newly = |(id, word): (u32, &Word)| word.called_last || self.called.contains(&id);
        own().any(newly) && own().any(|(_, word)| word.calls == 0)
    }

    /// Whether a row of a result has an id that was known before, and that no other row of it has.
    fn is_of_known(&self, of: &Weighed, row: &Weight) -> bool {
        let head = row.needs.unwrap_or_default();
        of.words_at(&row.words)
            .any(|(id, _)| self.known.contains(&id) && self.rows.get(&(head, id)) == Some(&1))
    }
}

/// Whether a line has a list of two values or more, each a single word: `orders: [W11, W12]`.
fn lists_ids(line: &str) -> bool {
    let lists = line.split(": [").skip(1);
    let lists = lists.filter_map(|list| list.split_once(']'));
    let mut items = lists.map(|(list, _)| list.split(", "));
    items.any(|mut items| {
        let is_one = |item: &str| !item.contains(' ') && words_of(item).nth(1).is_none();
        items.clone().count() > 1 && items.all(is_one)
    })
}
