//! The items of lists that answers choose, as lines that are told with them.

use std::ops::Range;

use super::choices::{answered_number, item_by_letter, item_by_words, item_of, numbers_in};
use super::ordinals::ORDINAL_CHARS;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::lists::{is_item, is_listed, is_numbered_or_bullet};
use crate::core::{Cancel, Cancelled};

/// Sentences at the end of an answer that are looked at for a choice, besides its first.
pub(super) const LAST_SENTENCES: usize = 3;
/// Short sentences behind the first that are looked at, too.
pub(super) const MOST_SENTENCES: usize = 8;
/// Items that one message answers by their numbers.
const MOST_ANSWERED: usize = 32;
/// So many of his newest messages may name a step of any plan before by its letter.
const NEWEST_ANSWERS: usize = 2;
/// Begin what is chosen where something else cannot be had, in small letters.
const OTHERWISE: [&str; 14] = [
    "alternatively",
    "altrimenti",
    "anders",
    "else",
    "if not",
    "otherwise",
    "senão",
    "si no",
    "sinon",
    "sonst",
    "wenn nicht",
    "否则",
    "不然",
    "иначе",
];

/// An answer may choose another item first: `The second, if Ann agrees. Otherwise the first.`
pub(super) fn note_other_choices(
    lines: &mut [DigestLine],
    answer: Range<usize>,
    (offered, chosen): (Range<usize>, Option<(usize, usize)>),
) {
    let is_second_best = |by: &usize| {
        let text = lines.get(*by).map(|line| line.text.to_lowercase());
        text.is_some_and(|text| OTHERWISE.iter().any(|begin| text.starts_with(begin)))
    };
    let Some(by) = chosen.map(|(by, _)| by).filter(is_second_best) else {
        return;
    };
    let others = answer.take(MOST_SENTENCES).filter(|at| *at != by);
    let is_short = |line: &&DigestLine| line.text.chars().count() <= ORDINAL_CHARS;
    let shown = lines.get(offered.clone()).unwrap_or_default();
    let others = others.filter_map(|at| {
        let line = lines.get(at).filter(is_short)?;
        item_of(shown, &line.text)
    });
    for item in others.collect::<Vec<usize>>() {
        if let Some(item) = lines.get_mut(offered.start + item) {
            item.standing = Standing::Edge;
        }
    }
}

/// Who thinks about options for some messages chooses by a letter, too.
pub(super) fn note_older_choice(
    lines: &mut [DigestLine],
    answer: Range<usize>,
    listed: Range<usize>,
) {
    let shown = lines.get(listed.clone()).unwrap_or_default();
    let place = |at: usize| item_by_letter(shown, &lines.get(at)?.text);
    let first = answer.start;
    let last = answer.skip(1).rev().take(LAST_SENTENCES);
    let mut looked_at = last.chain([first]);
    let chosen = looked_at.find_map(|at| Some((at, place(at)?)));
    if let Some((by, place)) = chosen
        && let Some(line) = lines.get_mut(by)
        && line.within.is_none()
    {
        line.within = Some(by - listed.start - place);
        if let Some(item) = lines.get_mut(listed.start + place) {
            item.standing = Standing::Edge;
        }
    }
}

/// Answers to several items of a list, each by its number, say nothing without these: `2: after
/// five minutes`, `now 3 and 4`.
pub(super) fn note_numbered(lines: &mut [DigestLine], answer: Range<usize>, listed: Range<usize>) {
    let shown = lines.get(listed.clone()).unwrap_or_default();
    let item = |number: u32| {
        let mark = number.to_string();
        let is_it =
            |line: &DigestLine| is_numbered_or_bullet(&line.text) && is_item(&line.text, &mark);
        shown.iter().rposition(is_it).map(|at| listed.start + at)
    };
    let first = answer.start;
    let numbered = |at: usize| Some((at, answered_number(&lines.get(at)?.text)?));
    let numbered = answer.filter_map(numbered).take(MOST_ANSWERED);
    let mut chains: Vec<Vec<usize>> = numbered
        .filter_map(|(at, number)| Some(vec![at, item(number)?]))
        .collect();
    if chains.is_empty()
        && let Some(line) = lines.get(first)
    {
        let items: Option<Vec<usize>> = numbers_in(&line.text).into_iter().map(item).collect();
        let items = items.filter(|items| items.len() > 1);
        chains.extend(items.map(|items| {
            std::iter::once(first)
                .chain(items.into_iter().rev())
                .collect()
        }));
    }
    for chain in chains {
        for pair in chain.windows(2) {
            let [at, needed] = pair else { continue };
            if let Some(line) = lines.get_mut(*at) {
                line.within = at.checked_sub(*needed).filter(|above| *above > 0);
            }
            if let Some(item) = lines.get_mut(*needed) {
                item.standing = Standing::Edge;
            }
        }
    }
}

/// Of a list that the model ended with, or asked about behind it, the item that the user chose, by
/// its place or by his words, stands for that list, and not the last one.
pub(super) fn tell_chosen(
    lines: &mut [DigestLine],
    (offered, answer): (Range<usize>, Range<usize>),
    by_place: Option<(usize, usize)>,
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let by_place = by_place.map(|(_, place)| place);
    let said = lines.get(offered.clone()).unwrap_or_default();
    let ends_with_item =
        |last: &DigestLine| last.standing == Standing::Edge && is_numbered_or_bullet(&last.text);
    let ends = said.last().is_some_and(ends_with_item);
    if !ends && by_place.is_some() {
        return Ok(());
    }
    let chosen = match by_place {
        None => item_by_words(said, lines.get(answer).unwrap_or_default(), ends, cancel)?,
        place => place,
    };
    let chosen = chosen.map(|item| offered.start + item);
    let is_item = |at: &usize| {
        let line = lines.get(*at);
        line.is_some_and(|line| is_numbered_or_bullet(&line.text))
    };
    let chosen = chosen.filter(is_item);
    // Alone, one that he may not have chosen would look like what was agreed.
    let last = offered.last().filter(|_| ends);
    let last = last.map(|at| (at, Standing::Usual));
    let chosen = chosen.map(|at| (at, Standing::Edge));
    for (at, standing) in last.into_iter().chain(chosen) {
        if let Some(line) = lines.get_mut(at) {
            line.standing = standing;
        }
    }
    Ok(())
}

/// The items of the model's lists that were chosen by their places, in lines and by what the user
/// said besides them.
pub(in super::super) fn items_by_place<'t>(
    lines: &[DigestLine],
    said: impl DoubleEndedIterator<Item = &'t str> + Clone,
) -> Vec<usize> {
    let of_line = |(at, line): (usize, &DigestLine)| {
        let item = at.checked_sub(line.within.filter(|_| line.part == Part::User)?)?;
        let is_it = |line: &DigestLine| line.part == Part::Assistant && is_listed(&line.text);
        lines.get(item).is_some_and(is_it).then_some(item)
    };
    let mut items: Vec<usize> = lines.iter().enumerate().filter_map(of_line).collect();
    let is_answered = |line: &DigestLine| line.standing == Standing::Answered;
    let newest = lines.iter().position(is_answered);
    let newest = newest.and_then(|at| Some((at, lines.get(at..)?)));
    if let Some((at, newest)) = newest {
        let end = newest.iter().position(|line| !is_answered(line));
        let offered = newest.get(..end.unwrap_or(newest.len()));
        let mut answers = said.clone().rev();
        let item = answers.find_map(|answer| item_of(offered.unwrap_or_default(), answer));
        items.extend(item.map(|item| at + item));
    }
    // `Write C now` is about the plan of many messages before.
    let older = |answer| item_by_letter(lines, answer);
    items.extend(said.rev().take(NEWEST_ANSWERS).find_map(older));
    items
}
