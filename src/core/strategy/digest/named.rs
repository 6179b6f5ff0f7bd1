//! Which lines tell of what a party named: of sixty payments the row of the one that the user
//! called failed, of the options that the model offered the one that was chosen.

use std::ops::Range;

use super::line::{DigestLine, Part};
use super::weigh::{STRIDE, Weighed, Weight};
use super::weights::{line as lines_by, word as words_by};
use super::word::Word;
use crate::core::strategy::maps::Map;
use crate::core::{Cancel, Cancelled};

/// Finds the lines about what a party named.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn find_named(
    lines: &[DigestLine],
    of: &mut Weighed,
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let Weighed {
        lines: weights,
        words,
        mentions,
        ..
    } = of;
    let names = Names { words, mentions };
    let plain = |line: &DigestLine, weight: &Weight| {
        let opens = lines.get(weight.entry);
        line.part == Part::Row && opens.is_some_and(|opens| opens.part != Part::Head)
    };
    // What several rows have is not the name of one of them: a customer has many invoices.
    let mut rows: Map<u32, u32> = Map::default();
    for (at, (line, weight)) in lines.iter().zip(weights.iter()).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if plain(line, weight) {
            for (id, _) in names.said_of_row(weight) {
                *rows.entry(id).or_default() += 1;
            }
        }
    }
    for (at, line) in lines.iter().enumerate() {
        let Some(weight) = weights.get(at) else {
            break;
        };
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let factor = match line.part {
            Part::Assistant => {
                let item = weight.needs.filter(|_| line.within.is_some());
                let above = item.and_then(|item| weights.get(item));
                // What is within an item is about that.
                let is_named = names.word_of(weight).is_some_and(|word| word.said_by_user)
                    || above.is_some_and(Weight::is_named);
                if is_named { lines_by::CHOSEN } else { 1.0 }
            }
            _ if plain(line, weight) => {
                let names = names.said_of_row(weight);
                let alone = names.filter(|(id, _)| rows.get(id) == Some(&1));
                alone.map(|(_, word)| of_row(word)).fold(1.0, f32::max)
            }
            _ => names
                .word_of(weight)
                .filter(|word| word.said)
                .map_or(1.0, |_| lines_by::NAMED),
        };
        if let Some(weight) = weights.get_mut(at) {
            weight.named = factor;
        }
    }
    Ok(())
}

/// The factor of a row that a word names.
fn of_row(word: &Word) -> f32 {
    if word.topic > 0.0 {
        lines_by::CHOSEN
    } else {
        lines_by::NAMED
    }
}

/// Finds the words that name what lines tell of.
struct Names<'w> {
    words: &'w [Word],
    mentions: &'w [u32],
}

impl<'w> Names<'w> {
    fn words_at(&self, mentions: &Range<usize>) -> impl Iterator<Item = (u32, &'w Word)> {
        let ids = self.mentions.get(mentions.clone());
        let word = |id: &u32| Some((*id, self.words.get(*id as usize)?));
        ids.into_iter().flatten().filter_map(word)
    }

    /// Of `Hotel Alster` the word that tells it from other hotels.
    fn of(&self, weight: &Weight) -> Option<(u32, &'w Word)> {
        let names = self.words_at(&weight.name);
        names.max_by(|(_, a), (_, b)| {
            let by_form = a.shape.total_cmp(&b.shape);
            by_form.then(b.lines.cmp(&a.lines))
        })
    }

    fn word_of(&self, weight: &Weight) -> Option<&'w Word> {
        self.of(weight).map(|(_, word)| word)
    }

    /// The words of a row that may name it, of those that a party said: that of its first cell, and
    /// ids and numbers wherever they stand.
    fn said_of_row(&self, weight: &Weight) -> impl Iterator<Item = (u32, &'w Word)> {
        let first = self.of(weight);
        let tells = move |(id, word): &(u32, &Word)| {
            word.shape >= words_by::TELLING && first.is_none_or(|(first, _)| first != *id)
        };
        let rest = self.words_at(&weight.words).filter(tells);
        let all = first.into_iter().chain(rest);
        all.filter(|(_, word)| word.said)
    }
}
