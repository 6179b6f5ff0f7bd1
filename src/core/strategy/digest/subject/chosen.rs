//! Which items of the model's lists the user chose: by the name of one, by an id or a number that
//! no other has, or by its place, as in `the second option`.

use std::collections::BTreeSet;

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE};
use crate::core::strategy::digest::lists::{is_label, is_listed};
use crate::core::strategy::digest::said::choices::items_described;
use crate::core::strategy::digest::said::items::items_by_place;
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weight::{Weighed, most_telling};
use crate::core::strategy::digest::weigh::weights::{line as lines_by, word as words_by};
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::strategy::maps::Map;
use crate::core::{Cancel, Cancelled};

/// The most lines of an item that is chosen by a word of one of them: a part with more is no
/// option.
const OPTION_LINES: u32 = 16;
/// The most items within each other.
const MOST_WITHIN: usize = 6;

/// A list of the model's: the line that opens its entry, the line that it is below, and whether it
/// is one of labels, so that what introduces other items is none of them.
type List = (usize, Option<usize>, bool);

/// The items of the model's lists that were chosen, and those beside them that were not.
pub(super) struct Items {
    chosen: BTreeSet<usize>,
    /// Where one was chosen by its place. What is chosen by a word may be one of several things
    /// that are wanted.
    others: BTreeSet<usize>,
    /// The items of each list with a word, and the last of them.
    words: Map<(List, u32), (u32, usize)>,
}

impl Items {
    pub(super) fn of(
        lines: &[DigestLine],
        of: &Weighed,
        context: &Context,
        cancel: &Cancel,
    ) -> Result<Self, Cancelled> {
        let mut lists = Lists {
            lines,
            of,
            items: Map::default(),
            words: Map::default(),
            sizes: Map::default(),
        };
        lists.read(cancel)?;
        let mut chosen = lists.chosen_by_words(cancel)?;
        let said = context.said.iter().filter(|(is_user, _)| *is_user);
        let by_place = items_by_place(lines, said.map(|(_, text)| text.as_str()));
        chosen.extend(&by_place);
        chosen.extend(items_described(lines, &context.said_last, cancel)?);
        let decided: BTreeSet<List> = by_place.iter().map(|item| lists.list_of(*item)).collect();
        let is_other = |at: &usize| {
            decided.contains(&lists.list_of(*at)) && lists.is_item(*at) && !chosen.contains(at)
        };
        let others = lists.sizes.keys().copied().filter(is_other).collect();
        Ok(Items {
            others,
            chosen,
            words: lists.words,
        })
    }

    /// The factor of what a chosen item says, or one beside it.
    pub(super) fn factor(&self, at: usize) -> Option<f32> {
        if self.chosen.contains(&at) {
            Some(lines_by::CHOSEN)
        } else {
            self.others.contains(&at).then_some(lines_by::NOT_CHOSEN)
        }
    }

    /// The words that only items have beside which another was chosen: they are the topic no
    /// longer.
    pub(super) fn words_of_others(&self) -> impl Iterator<Item = u32> {
        let of_other =
            |(_, (items, item)): &(_, &(u32, usize))| *items == 1 && self.others.contains(item);
        let words = self.words.iter().filter(of_other);
        words.map(|((_, word), _)| *word)
    }
}

/// The lists in what the model said.
struct Lists<'t> {
    lines: &'t [DigestLine],
    of: &'t Weighed,
    /// How many items a list has, and the last of them.
    items: Map<List, (u32, usize)>,
    /// The same of those that have a word.
    words: Map<(List, u32), (u32, usize)>,
    /// How many lines an item has, with those that are within it.
    sizes: Map<usize, u32>,
}

impl Lists<'_> {
    fn read(&mut self, cancel: &Cancel) -> Result<(), Cancelled> {
        let of = self.of;
        for (at, own) in of.lines.iter().enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            for item in around(self.lines, of, at) {
                let list = self.list_of(item);
                *self.sizes.entry(item).or_default() += 1;
                count(self.items.entry(list).or_default(), item);
                for (id, _) in of.words_at(&own.words) {
                    count(self.words.entry((list, id)).or_default(), item);
                }
            }
        }
        Ok(())
    }

    /// The items that the user named, or of which he said a word that no other of their list has.
    fn chosen_by_words(&self, cancel: &Cancel) -> Result<BTreeSet<usize>, Cancelled> {
        let mut chosen = BTreeSet::new();
        for (at, own) in self.of.lines.iter().enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            // Few lines have a word of the user's.
            if !self
                .of
                .words_at(&own.words)
                .any(|(_, word)| word.said_by_user)
            {
                continue;
            }
            for item in around(self.lines, self.of, at) {
                let list = self.list_of(item);
                let is_alone = |(id, _): &(u32, &Word)| self.is_alone(list, *id);
                let name = self.of.words_at(&own.name);
                let name = name.filter(|word| !self.is_item(at) || is_alone(word));
                let name = most_telling(name).filter(|_| item == at);
                let mut words = self.of.words_at(&own.words).filter(is_alone);
                let tells = |word: &Word| word.shape >= words_by::TELLING && word.said_by_user;
                if name.is_some_and(|(_, word)| word.said_by_user)
                    || self.is_option(item) && words.any(|(_, word)| tells(word))
                {
                    chosen.insert(item);
                }
            }
        }
        Ok(chosen)
    }

    fn list_of(&self, item: usize) -> List {
        let entry = self.of.lines.get(item).map_or(item, |weight| weight.entry);
        let is_head = self
            .lines
            .get(item)
            .is_some_and(|line| is_label(&line.text));
        (entry, above(self.lines, self.of, item), is_head)
    }

    /// Whether a line is an item, or the head of one, rather than a sentence.
    fn is_item(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|line| is_listed(&line.text))
    }

    fn is_option(&self, item: usize) -> bool {
        let size = self.sizes.get(&item);
        self.is_item(item) && size.is_some_and(|size| *size <= OPTION_LINES)
    }

    /// Whether a list has several items, of which one has a word.
    fn is_alone(&self, list: List, word: u32) -> bool {
        let is_list = self.items.get(&list).is_some_and(|(items, _)| *items > 1);
        let with_it = self.words.get(&(list, word));
        is_list && with_it.is_some_and(|(items, _)| *items == 1)
    }
}

/// A line of the model's and the items that it is within, innermost first.
fn around<'t>(
    lines: &'t [DigestLine],
    of: &'t Weighed,
    at: usize,
) -> impl Iterator<Item = usize> + 't {
    let line = lines.get(at).filter(|line| line.part == Part::Assistant);
    let next = move |at: &usize| above(lines, of, *at);
    std::iter::successors(line.map(|_| at), next).take(MOST_WITHIN)
}

/// The item that a line is within.
fn above(lines: &[DigestLine], of: &Weighed, at: usize) -> Option<usize> {
    lines.get(at)?.within?;
    of.lines.get(at)?.needs
}

/// Counts an item, once for all of its lines, which follow each other.
fn count((items, last): &mut (u32, usize), item: usize) {
    if *items == 0 || *last != item {
        (*items, *last) = (*items + 1, item);
    }
}
