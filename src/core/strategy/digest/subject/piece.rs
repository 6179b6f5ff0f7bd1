//! The rows of a table that a message describes piece by piece: `the kettle in glass for gas
//! instead of the steel one for induction`. All rows have words of such a message; each piece of it
//! has those of one row, and none of another's.

use crate::core::strategy::digest::weigh::weight::Weighed;
use crate::core::strategy::maps::{Map, Set};
use crate::core::{Cancel, Cancelled};

/// The most words of a message and rows of a table that are compared, and the most pieces of a
/// message.
const MOST_WORDS: usize = 128;
const MOST_ROWS: usize = 400;
const MOST_PIECES: usize = 4;
/// The fewest words of a piece that a row has: one alone is in many messages.
const LEAST_WORDS: usize = 2;
/// What a row loses by each word of other rows that the message does not have.
const OF_OTHERS: f32 = 0.1;
/// The part of what the first piece has of its row that others need.
const NEAR: f32 = 0.5;

/// A word of the message: what it is worth by how few rows have it, and whether a row was found for
/// the piece that it stands in.
struct Said {
    word: u32,
    rarity: f32,
    is_told: bool,
}

/// What a row has of a message: from the first word of the piece to the last.
#[derive(Clone, Copy)]
struct Piece {
    row: usize,
    rarity: f32,
    begin: usize,
    end: usize,
}

/// The rows of a table that a message of these words describes, in the order of what they have of
/// it.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn rows_of_pieces(
    rows: &[usize],
    message: &[u32],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Vec<usize>, Cancelled> {
    let mut found = Vec::new();
    if rows.len() > MOST_ROWS {
        return Ok(found);
    }
    let mut with: Map<u32, usize> = Map::default();
    let words_of = |at: &usize| {
        let words = of.lines.get(*at).map(|weight| of.words_at(&weight.words));
        words.into_iter().flatten().map(|(id, _)| id)
    };
    for word in rows.iter().flat_map(words_of) {
        *with.entry(word).or_default() += 1;
    }
    let told = message.iter().filter_map(|word| {
        let with = with.get(word).filter(|with| **with < rows.len())?;
        Some(Said {
            word: *word,
            rarity: (rows.len() as f32 / *with as f32).ln(),
            is_told: false,
        })
    });
    let mut said: Vec<Said> = told.take(MOST_WORDS).collect();
    let of_message: Set<u32> = message.iter().copied().collect();
    // Of rows that have the same of the message, the one that has least else of what others have.
    let is_other = |word: &u32| !of_message.contains(word) && with.get(word) > Some(&1);
    let own = |at: &usize| {
        let others = words_of(at).filter(is_other).count();
        let own = words_of(at).filter(|word| of_message.contains(word));
        (*at, own.collect(), others as f32 * OF_OTHERS)
    };
    let own: Vec<(usize, Set<u32>, f32)> = rows.iter().map(own).collect();
    let mut least = 0.0;
    while found.len() < MOST_PIECES {
        let mut best: Option<Piece> = None;
        for (row, words, others) in &own {
            cancel.check_budget()?;
            let mut piece = piece_of(*row, words, &said);
            if let Some(piece) = &mut piece {
                piece.rarity -= others;
            }
            let is_better = |piece: &Piece| best.is_none_or(|best| piece.rarity > best.rarity);
            best = piece.filter(is_better).or(best);
        }
        let Some(best) = best.filter(|best| best.rarity >= least) else {
            break;
        };
        least = NEAR * best.rarity.max(least / NEAR);
        found.push(best.row);
        for said in said.get_mut(best.begin..best.end).into_iter().flatten() {
            said.is_told = true;
        }
    }
    Ok(found)
}

/// The piece of a message that has most of a row, and least of what only others have.
fn piece_of(row: usize, words: &Set<u32>, said: &[Said]) -> Option<Piece> {
    let mut best: Option<Piece> = None;
    let mut begin = 0;
    let mut rarity = 0.0;
    let mut own: Vec<u32> = Vec::new();
    for (at, said) in said.iter().enumerate() {
        if !words.contains(&said.word) {
            rarity -= said.rarity;
        } else if !own.contains(&said.word) {
            own.push(said.word);
            rarity += said.rarity;
        }
        if said.is_told || rarity <= 0.0 {
            (begin, rarity) = (at + 1, 0.0);
            own.clear();
        } else if own.len() >= LEAST_WORDS && best.is_none_or(|best| rarity > best.rarity) {
            let end = at + 1;
            best = Some(Piece {
                row,
                rarity,
                begin,
                end,
            });
        }
    }
    best
}
