//! The rows that the user's newest message describes rather than names: of the variants of a
//! product the silver one with blue glass, and the black one that it is to replace.

use super::line::{DigestLine, Part};
use super::weigh::STRIDE;
use super::weight::{Weighed, Weight};
use crate::core::strategy::maps::Map;
use crate::core::{Cancel, Cancelled};

/// The fewest words of the message that a row has: one alone is in many messages, unless hardly a
/// line has it.
const LEAST_WORDS: usize = 2;
/// The most lines with a word that alone describes a row.
const RARE_LINES: u32 = 3;
/// The part of what the best row of a table has of the message that others need to count as
/// described, too: it may describe what there is and what is wanted instead.
const NEAR: f32 = 0.8;

/// What a row has of the message.
struct Match {
    /// The head of its table.
    head: usize,
    words: usize,
    /// One of them is in hardly any other line.
    rare: bool,
    /// The weight of these words: of each by how few rows of the table have it.
    weight: f32,
}

/// Whether each line is a row that the user's newest message describes.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn find_described(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Vec<bool>, Cancelled> {
    let mut rows: Map<usize, u32> = Map::default();
    let mut with: Map<(usize, u32), u32> = Map::default();
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let Some(head) = head_of(line, weight) else {
            continue;
        };
        *rows.entry(head).or_default() += 1;
        for word in said_of(of, weight) {
            *with.entry((head, word)).or_default() += 1;
        }
    }
    let count = |count: Option<&u32>| count.map_or(1.0, |count| *count as f32);
    let mut best: Map<usize, f32> = Map::default();
    let mut matches = Vec::with_capacity(lines.len());
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let head = head_of(line, weight);
        matches.push(head.map(|head| {
            let all = count(rows.get(&head));
            let rarity = |word| (all / count(with.get(&(head, word)))).ln();
            let this = Match {
                head,
                words: said_of(of, weight).count(),
                rare: of
                    .words_at(&weight.words)
                    .any(|(_, word)| word.said_last && word.lines <= RARE_LINES),
                weight: said_of(of, weight).map(rarity).sum(),
            };
            let best = best.entry(head).or_default();
            *best = best.max(this.weight);
            this
        }));
    }
    let is_described = |row: Option<Match>| {
        row.is_some_and(|row| {
            let best = best.get(&row.head).copied().unwrap_or_default();
            best > 0.0 && (row.words >= LEAST_WORDS || row.rare) && row.weight >= NEAR * best
        })
    };
    Ok(matches.into_iter().map(is_described).collect())
}

/// The head of the table that a line is a row of.
fn head_of(line: &DigestLine, weight: &Weight) -> Option<usize> {
    let is_row = line.part == Part::Row && line.is_whole();
    weight.needs.filter(|_| is_row)
}

/// The words of a row that the user's newest message has.
fn said_of(of: &Weighed, row: &Weight) -> impl Iterator<Item = u32> {
    let words = of.words_at(&row.words);
    words.filter(|(_, word)| word.said_last).map(|(id, _)| id)
}
