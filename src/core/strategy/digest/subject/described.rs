//! The rows that the user's newest message describes rather than names: of the variants of a
//! product the silver one with blue glass, and the black one that it is to replace.

use std::collections::BTreeMap;

use super::piece::rows_of_pieces;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::weigh::weight::{Weighed, Weight};
use crate::core::strategy::digest::weigh::weights::word as words_by;
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{PATH, REFUSALS};
use crate::core::{Cancel, Cancelled};

/// The fewest words of the message that a row has: one alone is in many messages, unless hardly a
/// line has it.
const LEAST_WORDS: usize = 2;
/// The most lines with a word that alone describes a row.
const RARE_LINES: u32 = 3;
/// The same of one by which the message names a record, or a row of its table.
const FEW_LINES: u32 = 8;
/// The least score of the form of such a word where it does not stand in the first cell: a name has
/// a capital.
const LEAST_NAME: f32 = 1.0;
/// The most rows that are described by names alone.
const MOST_OF_NAME: usize = 8;
/// The part of what the best row of a table has of the message that others need to count as
/// described, too: it may describe what there is and what is wanted instead.
const NEAR: f32 = 0.8;

/// The fewest rows of a table of which a message means some, the most that one means, and the turns
/// before the message in which the table was shown.
const LEAST_ROWS: usize = 3;
const MOST_MEANT: usize = 2;
const TURNS_SHOWN: u32 = 2;
/// The newest tables with rows that pieces of the message are compared with.
const MOST_TABLES: usize = 64;
/// The most sentences and items of the model's in a turn that are compared with rows.
const MOST_SAID: usize = 32;
/// The fewest names, numbers and dates of a sentence that a row of a text has.
const LEAST_NAMES: usize = 2;
/// The part of the lines of a text with an id or a number that makes it a list of things.
const LISTS_THINGS: f32 = 0.5;
/// The longest sentence by which the model confirms a choice (bytes).
const CONFIRMS_BYTES: usize = 100;

/// What a row has of the message.
struct Match {
    at: usize,
    /// The head of its table.
    head: usize,
    words: usize,
    /// One of them is in hardly any other line.
    rare: bool,
    /// One of them names it, and no other row of its table.
    named: bool,
    /// The message names the record that has its table.
    of_named: bool,
    /// The weight of these words: of each by how few rows of the table have it.
    weight: f32,
}

/// What the tables of results have of the message.
#[derive(Default)]
struct Mentioned {
    /// By the head of a table: its rows, and those with a word of the message.
    rows: Map<usize, u32>,
    with: Map<(usize, u32), u32>,
    /// The entries with a record that the message names.
    named: Set<usize>,
}

impl Mentioned {
    fn of(lines: &[DigestLine], of: &Weighed, cancel: &Cancel) -> Result<Self, Cancelled> {
        let mut tables = Mentioned::default();
        for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            if let Some(head) = head_of(line, weight) {
                *tables.rows.entry(head).or_default() += 1;
                for word in said_of(of, weight) {
                    *tables.with.entry((head, word)).or_default() += 1;
                }
            } else if line.part == Part::Record
                && of.words_at(&weight.words).any(|(_, word)| names(word))
            {
                tables.named.insert(weight.entry);
            }
        }
        Ok(tables)
    }

    /// What a row has of the message, if a line is one.
    fn match_of(&self, at: usize, line: &DigestLine, of: &Weighed) -> Option<Match> {
        let weight = of.lines.get(at)?;
        let head = head_of(line, weight)?;
        let count = |count: Option<&u32>| count.map_or(1.0, |count| *count as f32);
        let all = count(self.rows.get(&head));
        let alone = |id: u32| self.with.get(&(head, id)) == Some(&1);
        let rarity = |word| (all / count(self.with.get(&(head, word)))).ln();
        let is_rare = |word: &Word| word.said_last && word.lines <= RARE_LINES;
        let first = of.words_at(&weight.name).filter(|(_, word)| names(word));
        let title = |word: &Word| names(word) && word.shape >= LEAST_NAME;
        let titles = of.words_at(&weight.words).filter(|(_, word)| title(word));
        Some(Match {
            at,
            head,
            words: said_of(of, weight).count(),
            rare: of.words_at(&weight.words).any(|(_, word)| is_rare(word)),
            named: all > 1.0 && first.chain(titles).any(|(id, _)| alone(id)),
            of_named: self.named.contains(&weight.entry),
            weight: said_of(of, weight).map(rarity).sum(),
        })
    }
}

/// Whether a word of the message may name a record or a row: few lines have it. A path is not told
/// by the word that it begins with.
fn names(word: &Word) -> bool {
    word.said_last && word.lines <= FEW_LINES && word.shape < PATH
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
    let tables = Mentioned::of(lines, of, cancel)?;
    let mut best: Map<usize, f32> = Map::default();
    let mut matches = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let this = tables.match_of(at, line, of);
        if let Some(this) = &this {
            let best = best.entry(this.head).or_default();
            *best = best.max(this.weight);
        }
        matches.push(this);
    }
    // Of a message that describes several, each piece has one; all of it has words of most rows.
    let by_piece = rows_by_piece(&matches, of, cancel)?;
    let is_near = |row: &Match| match by_piece.get(&row.head) {
        Some(rows) => rows.contains(&row.at),
        None => {
            let best = best.get(&row.head).copied().unwrap_or_default();
            best > 0.0 && row.weight >= NEAR * best
        }
    };
    let by_words = |row: &Match| (row.words >= LEAST_WORDS || row.rare) && is_near(row);
    // Of the luggage that he names the red ones.
    let by_name = |row: &Match| row.named || (row.of_named && row.words > 0 && is_near(row));
    let of_name = matches
        .iter()
        .flatten()
        .filter(|row| by_name(row) && !by_words(row));
    // A task that names many things asks for none of their rows.
    let are_few = of_name.count() <= MOST_OF_NAME;
    let is_described = |row: &Match| by_words(row) || (are_few && by_name(row));
    let described = matches.iter();
    Ok(described
        .map(|row| row.as_ref().is_some_and(is_described))
        .collect())
}

/// The rows that pieces of the message describe, by the head of their table; none of a table of
/// which only one piece does.
fn rows_by_piece(
    matches: &[Option<Match>],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Map<usize, Vec<usize>>, Cancelled> {
    let mut tables: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for row in matches.iter().flatten() {
        tables.entry(row.head).or_default().push(row.at);
    }
    let mut found = Map::default();
    let tables = tables.into_iter().rev();
    let tables = tables.filter(|(_, rows)| rows.len() >= LEAST_ROWS);
    for (head, rows) in tables.take(MOST_TABLES) {
        let rows = rows_of_pieces(&rows, &of.said_last, of, cancel)?;
        if rows.len() > 1 {
            found.insert(head, rows);
        }
    }
    Ok(found)
}

/// Whether each line is a row that one of the user's older messages describes, or what the model
/// said to it in short, or the item of its list that he chose, as `chosen` says by lines: of the
/// tables that were shown shortly before, or that it asked for. What he chose is acted on later.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn find_meant(
    lines: &[DigestLine],
    of: &Weighed,
    chosen: impl Fn(usize) -> bool,
    cancel: &Cancel,
) -> Result<Vec<bool>, Cancelled> {
    let mut tables: BTreeMap<u32, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    // By the turn and, of what the model said, the line.
    let mut said: BTreeMap<(u32, Option<usize>), Set<u32>> = BTreeMap::new();
    // Each is compared with all rows of some turns.
    let mut of_turn: Map<u32, usize> = Map::default();
    let lists = lists_in_texts(lines, of, cancel)?;
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if let Some(list) = head_of(line, weight).or_else(|| list_of(line, weight, &lists)) {
            let shown = tables.entry(line.turn).or_default();
            shown.entry(list).or_default().push(at);
        } else if wishes(line) || confirms(line) || chosen(at) {
            let of_model = (line.part == Part::Assistant).then_some(at);
            if of_model.is_some() {
                let before = of_turn.entry(line.turn).or_default();
                *before += 1;
                if *before > MOST_SAID {
                    continue;
                }
            }
            let words = said.entry((line.turn, of_model)).or_default();
            words.extend(of.said_at(at));
        }
    }
    if let Some(last) = lines.last() {
        for (nth, words) in of.said_besides.iter().enumerate() {
            said.insert(
                (last.turn, Some(lines.len() + nth)),
                words.iter().copied().collect(),
            );
        }
    }
    let mut meant = vec![false; lines.len()];
    for ((turn, at), words) in said {
        let shown = tables.range(turn.saturating_sub(TURNS_SHOWN)..=turn);
        for (list, rows) in shown.flat_map(|(_, tables)| tables) {
            cancel.check_budget()?;
            // Of what stands beside the digest, and in texts, chance words are no reason.
            let least = match at {
                _ if lists.contains(list) => LEAST_NAMES,
                Some(at) if at >= lines.len() => LEAST_NAMES,
                _ => 0,
            };
            for row in meant_of(rows, &words, of, least) {
                if let Some(meant) = meant.get_mut(row) {
                    *meant = true;
                }
            }
        }
    }
    Ok(meant)
}

/// The texts of results that list things line by line, by the lines that open their entries.
fn lists_in_texts(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Set<usize>, Cancelled> {
    // Lines of a text, and those with an id or a number.
    let mut texts: Map<usize, (usize, usize)> = Map::default();
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if line.part == Part::Text {
            let (all, told) = texts.entry(weight.entry).or_default();
            *all += 1;
            *told += usize::from(has_id(of, weight));
        }
    }
    let is_list = |(_, (all, told)): &(usize, (usize, usize))| {
        *told >= LEAST_ROWS && *told as f32 >= LISTS_THINGS * *all as f32
    };
    Ok(texts
        .into_iter()
        .filter(is_list)
        .map(|(entry, _)| entry)
        .collect())
}

/// Whether a line has an id, or a number that tells as much.
fn has_id(of: &Weighed, weight: &Weight) -> bool {
    let mut words = of.words_at(&weight.words);
    words.any(|(_, word)| word.is_id || word.shape >= words_by::TELLING)
}

/// The text that a line lists a thing of.
fn list_of(line: &DigestLine, weight: &Weight, lists: &Set<usize>) -> Option<usize> {
    let is_row = line.part == Part::Text && line.is_whole() && lists.contains(&weight.entry);
    is_row.then_some(weight.entry)
}

/// Whether a line is a sentence of the user's that does not begin with what he does not want: `Not
/// Bram, he is on leave.`
fn wishes(line: &DigestLine) -> bool {
    let first = line.text.split_whitespace().next().unwrap_or_default();
    line.part == Part::User && !REFUSALS.contains(first.to_lowercase().as_str())
}

/// Whether a line is a short sentence that the model begins its answer with.
fn confirms(line: &DigestLine) -> bool {
    line.part == Part::Assistant
        && line.depth == 0
        && line.standing == Standing::Edge
        && line.text.len() <= CONFIRMS_BYTES
}

/// The one or two rows of a table that have most of what a message says, with the `least` of names,
/// numbers and dates; none where it says as much of others.
fn meant_of(rows: &[usize], words: &Set<u32>, of: &Weighed, least: usize) -> Vec<usize> {
    if rows.len() < LEAST_ROWS {
        return Vec::new();
    }
    let shared = |at: usize| -> Vec<(u32, &Word)> {
        let own = of.lines.get(at).map(|weight| of.words_at(&weight.words));
        let own = own.into_iter().flatten();
        own.filter(|(id, _)| words.contains(id)).collect()
    };
    let shared = rows.iter().map(|at| (*at, shared(*at)));
    let shared: Vec<_> = shared.filter(|(_, words)| !words.is_empty()).collect();
    let mut with: Map<u32, u32> = Map::default();
    for (id, _) in shared.iter().flat_map(|(_, words)| words) {
        *with.entry(*id).or_default() += 1;
    }
    let all = rows.len() as f32;
    let count = |id: u32| with.get(&id).copied().unwrap_or(1);
    let of_row = |(at, words): &(usize, Vec<(u32, &Word)>)| {
        let rarity = words.iter().map(|(id, _)| (all / count(*id) as f32).ln());
        let weight: f32 = rarity.sum();
        let alone = |(id, word): &(u32, &Word)| count(*id) == 1 && word.lines <= RARE_LINES;
        let names = words.iter().filter(|(_, word)| word.shape >= LEAST_NAME);
        let tells = words.len() >= LEAST_WORDS || words.iter().any(alone);
        let tells = tells && names.count() >= least;
        (*at, weight, tells)
    };
    let matches: Vec<(usize, f32, bool)> = shared.iter().map(of_row).collect();
    let best = matches
        .iter()
        .map(|(_, weight, _)| *weight)
        .fold(0.0, f32::max);
    let near = matches.into_iter();
    let near: Vec<(usize, bool)> = near
        .filter(|(_, weight, _)| best > 0.0 && *weight >= NEAR * best)
        .map(|(at, _, tells)| (at, tells))
        .collect();
    let is_told = near.len() <= MOST_MEANT;
    let told = near.into_iter().filter(|(_, tells)| is_told && *tells);
    told.map(|(at, _)| at).collect()
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
