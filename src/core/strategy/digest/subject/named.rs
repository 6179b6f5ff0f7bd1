//! Which lines tell of what a party named: of sixty payments the row of the one that the user
//! called failed, of the options that the model offered the one that was chosen.

use super::chosen::Items;
use super::described::{find_described, find_meant};
use super::programs::run_again;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::lists::is_numbered_or_bullet;
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weight::{Weighed, Weight, is_plain_row};
use crate::core::strategy::digest::weigh::weights::{line as lines_by, word as words_by};
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::strategy::maps::{Map, Set};
use crate::core::{Cancel, Cancelled};

/// An id tells rows from others where one in so many of a long table has it, and the rows of such a
/// table.
const FEW_OF: u32 = 3;
const LEAST_OF_MANY: u32 = 12;

/// Finds the lines about what a party named.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn find_named(
    lines: &[DigestLine],
    of: &mut Weighed,
    context: &Context,
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let items = Items::of(lines, of, context, cancel)?;
    for id in items.words_of_others() {
        if let Some(word) = of.words.get_mut(id as usize) {
            word.topic = 0.0;
        }
    }
    let rows = rows_with_words(lines, of, cancel)?;
    let mut factors = factors_of(lines, of, (&items, &rows), cancel)?;
    for call in run_again(lines, context, cancel)? {
        if let Some(factor) = factors.get_mut(call) {
            *factor = lines_by::CHOSEN;
        }
    }
    // An item of a list stands at the edge of its message where the user chose it by its words.
    let chosen = |at: usize| {
        let by_name = factors
            .get(at)
            .is_some_and(|factor| *factor >= lines_by::CHOSEN);
        let line = lines.get(at).filter(|line| line.part == Part::Assistant);
        line.is_some_and(|line| {
            let is_item = line.within.is_some() && is_numbered_or_bullet(&line.text);
            by_name || (is_item && line.standing == Standing::Edge)
        })
    };
    let meant = find_meant(lines, of, chosen, cancel)?;
    let named = factors.iter_mut().zip(&mut of.lines);
    for ((factor, weight), meant) in named.zip(meant) {
        weight.meant = meant;
        if weight.meant {
            *factor = factor.max(lines_by::NAMED);
        }
    }
    let picked = find_picked(lines, of, &rows, cancel)?;
    let described = find_described(lines, of, cancel)?;
    let told = lines
        .iter()
        .zip(factors)
        .zip(picked.into_iter().zip(described));
    for (weight, ((line, factor), (picked, described))) in of.lines.iter_mut().zip(told) {
        // What was not chosen is no finding any more.
        weight.finds &= factor > lines_by::NOT_CHOSEN;
        weight.finds |= line.part == Part::Assistant && factor >= lines_by::CHOSEN;
        weight.picked = picked;
        weight.described = described;
        weight.named = if described {
            factor.max(lines_by::CHOSEN)
        } else {
            factor
        };
    }
    Ok(())
}

/// The factor of each line by what a party named.
fn factors_of(
    lines: &[DigestLine],
    of: &Weighed,
    (items, rows): (&Items, &NamedRows),
    cancel: &Cancel,
) -> Result<Vec<f32>, Cancelled> {
    let lists = lists_that_are_named(lines, of, cancel)?;
    let mut factors: Vec<f32> = Vec::with_capacity(lines.len());
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        factors.push(match line.part {
            Part::Assistant => {
                // What is within an item is about that.
                let item = weight.needs.filter(|_| line.within.is_some());
                let of_item = item.and_then(|item| factors.get(item)).copied();
                items.factor(at).or(of_item).unwrap_or(1.0)
            }
            _ if is_plain_row(lines, line, weight) => {
                let names = said_of_row(of, weight);
                let has_own = rows.has_own_id(of, weight);
                let alone = names.filter(|(id, word)| {
                    rows.is_alone(*id) || (has_own && word.is_id && rows.tells(*id, weight))
                });
                let is_in_named = weight.needs.is_some_and(|head| lists.contains(&head));
                let of_list = if is_in_named { lines_by::NAMED } else { 1.0 };
                alone.map(|(_, word)| of_row(word)).fold(of_list, f32::max)
            }
            _ => match of.name_of(weight) {
                Some((_, word)) if word.said_by_user => lines_by::NAMED_BY_USER,
                Some((_, word)) if word.said => lines_by::NAMED,
                _ => 1.0,
            },
        });
    }
    Ok(factors)
}

/// Whether each line is the row that the user picked: of the cards that he can pay with the one
/// whose last digits he said. It is wanted next, for an id in it that no text which stays has.
fn find_picked(
    lines: &[DigestLine],
    of: &Weighed,
    rows: &NamedRows,
    cancel: &Cancel,
) -> Result<Vec<bool>, Cancelled> {
    let mut picked = Vec::with_capacity(lines.len());
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let is_of_now = !line.standing.is_old() && !line.of_argument;
        let tells = |word: &Word| word.shape >= words_by::TELLING;
        let is_told =
            |(id, word): (u32, &Word)| word.said_lately && tells(word) && rows.is_alone(id);
        let is_new = |(_, word): (u32, &Word)| word.is_id && !word.covered;
        picked.push(
            is_of_now
                && is_plain_row(lines, line, weight)
                && said_of_row(of, weight).any(is_told)
                && of.words_at(&weight.words).any(is_new),
        );
    }
    Ok(picked)
}

/// How many rows have each word.
#[derive(Default)]
struct NamedRows {
    /// All rows with a word that a party said.
    said: Map<u32, u32>,
    /// The rows of a table, by its head, with an id; and all of them.
    with_id: Map<(usize, u32), u32>,
    of_table: Map<usize, u32>,
}

impl NamedRows {
    /// Whether only one row has a word. What several have is not the name of one of them: a
    /// customer has many invoices.
    fn is_alone(&self, id: u32) -> bool {
        self.said.get(&id) == Some(&1)
    }

    /// Whether a row has an id that no other of its table has.
    fn has_own_id(&self, of: &Weighed, row: &Weight) -> bool {
        let mut words = of.words_at(&row.words);
        words.any(|(id, word)| word.is_id && self.rows_with(id, row) == 1)
    }

    /// Whether few rows of a long table have the id of something else: they belong to that.
    fn tells(&self, id: u32, row: &Weight) -> bool {
        let all = row.needs.and_then(|head| self.of_table.get(&head));
        let all = all.copied().unwrap_or_default();
        let rows = self.rows_with(id, row);
        all >= LEAST_OF_MANY && rows > 1 && rows * FEW_OF <= all
    }

    /// The rows of a row's table with an id.
    fn rows_with(&self, id: u32, row: &Weight) -> u32 {
        let rows = row.needs.and_then(|head| self.with_id.get(&(head, id)));
        rows.copied().unwrap_or_default()
    }
}

/// Counts the rows with each word that a party said, and with each id.
fn rows_with_words(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<NamedRows, Cancelled> {
    let mut rows = NamedRows::default();
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if !is_plain_row(lines, line, weight) {
            continue;
        }
        for (id, _) in said_of_row(of, weight) {
            *rows.said.entry(id).or_default() += 1;
        }
        if let Some(head) = weight.needs {
            *rows.of_table.entry(head).or_default() += 1;
            for (id, _) in of.words_at(&weight.words).filter(|(_, word)| word.is_id) {
                *rows.with_id.entry((head, id)).or_default() += 1;
            }
        }
    }
    Ok(rows)
}

/// The heads of lists inside of an item whose title has a word that a party said, and that no other
/// such title has.
fn lists_that_are_named(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Set<usize>, Cancelled> {
    let mut said: Map<u32, Option<usize>> = Map::default();
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if line.part == Part::Head && line.is_whole() {
            for (id, _) in of.words_at(&weight.name).filter(|(_, word)| word.said) {
                said.entry(id)
                    .and_modify(|one| *one = None)
                    .or_insert(Some(at));
            }
        }
    }
    Ok(said.into_values().flatten().collect())
}

/// The factor of a row that a word names.
fn of_row(word: &Word) -> f32 {
    if word.topic > 0.0 {
        lines_by::CHOSEN
    } else {
        lines_by::NAMED
    }
}

/// The words of a row that may name it, of those that a party said: that of its first cell, and
/// ids and numbers wherever they stand.
fn said_of_row<'w>(of: &'w Weighed, row: &Weight) -> impl Iterator<Item = (u32, &'w Word)> {
    let first = of.name_of(row);
    let tells = move |(id, word): &(u32, &Word)| {
        word.shape >= words_by::TELLING && first.is_none_or(|(first, _)| first != *id)
    };
    let rest = of.words_at(&row.words).filter(tells);
    let all = first.into_iter().chain(rest);
    all.filter(|(_, word)| word.said)
}
