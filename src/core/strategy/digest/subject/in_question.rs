//! The records that are talked about last: those that the user's newest message names, or else what
//! the model proposed before it, but for those to which it was done since. What is done next is
//! done to the first of them, with what is in all of its lines.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::weigh::weight::{Weighed, Weight, is_row_of_records};
use crate::core::strategy::maps::Set;
use crate::core::{Cancel, Cancelled};

/// The most records that are in question: who lists many talks about none of them.
const MOST_RECORDS: usize = 4;

/// Rows of numbers and dates alone that are a series, which tells little of what is done next.
const SERIES: usize = 7;

/// Notes the rows of the records in question. Returns how many these are.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_in_question(
    lines: &[DigestLine],
    of: &mut Weighed,
    cancel: &Cancel,
) -> Result<usize, Cancelled> {
    let ids = ids_in_question(lines, of, cancel)?;
    if ids.is_empty() {
        return Ok(0);
    }
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let weight = of.lines.get(at);
        let Some(weight) = weight.filter(|weight| is_row_of_records(lines, line, weight)) else {
            continue;
        };
        let place = of
            .words_at(&weight.name)
            .find_map(|(id, _)| ids.iter().position(|other| *other == id));
        if matches!(line.standing, Standing::Usual | Standing::Own)
            && let Some(weight) = of.lines.get_mut(at)
        {
            weight.in_question = place;
        }
    }
    let is_bare = |(line, weight): &(&DigestLine, &Weight)| {
        weight.in_question.is_some()
            && line.part == Part::Row
            && !line.text.contains(|c: char| c.is_alphabetic())
    };
    let rows = lines.iter().zip(&of.lines);
    let bare: Vec<bool> = rows.map(|row| is_bare(&row)).collect();
    let mut weights = of.lines.iter_mut();
    for run in bare.chunk_by(|one, next| one == next) {
        let is_series = run.first() == Some(&true) && run.len() >= SERIES;
        for weight in weights.by_ref().take(run.len()).filter(|_| is_series) {
            weight.in_question = None;
        }
    }
    Ok(ids.len())
}

/// The ids of these records, as they were named.
fn ids_in_question(
    lines: &[DigestLine],
    of: &Weighed,
    cancel: &Cancel,
) -> Result<Vec<u32>, Cancelled> {
    let (mut known, mut done) = (Set::default(), Set::default());
    for (at, (line, weight)) in lines.iter().zip(&of.lines).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if is_row_of_records(lines, line, weight) {
            known.extend(of.words_at(&weight.name).map(|(id, _)| id));
        } else if line.changes && line.user_below {
            done.extend(of.words_at(&weight.words).map(|(id, _)| id));
        }
    }
    let is_open = |id: &u32| {
        let word = of.words.get(*id as usize);
        known.contains(id) && !done.contains(id) && word.is_some_and(|word| !word.called_last)
    };
    let named = of.named_last.iter().map(|ids| {
        let open = ids.iter().copied().filter(is_open);
        open.collect::<Vec<u32>>()
    });
    let named = named.into_iter().find(|ids| !ids.is_empty());
    Ok(named
        .filter(|ids| ids.len() <= MOST_RECORDS)
        .unwrap_or_default())
}
