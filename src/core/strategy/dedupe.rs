//! `dedupe`: a tool result that occurs again later, and a run of lines that does, become a
//! reference to the newest copy.
//!
//! A reference says where the copy stands: how many results below, of which call, and which lines
//! of it. The count alone makes it unique; the call tells a reader what it is. What lies between a
//! reference and its copy is newer than the reference, so that it is condensed later or together
//! with it, and the count stays right.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::label::{self, OfCalls};
use super::maps::{Map, Set, hash_of};
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{BlockId, Entry, Exchange};
use crate::core::edit::{Draft, Edit};
use crate::core::json::Json;
use crate::core::text::split_lines;
use crate::core::{Cancel, Cancelled};

/// Lines that must agree before a run of them is looked at.
const WINDOW: usize = 4;
/// The beginning of a reference to a whole result.
const REFERENCE: &str = "[the same as the result ";
/// The beginning of a reference to lines, before their number.
const RUN: &str = "[… ";
/// The words between the number of lines and their place.
const RUN_OF: &str = " lines: the same as lines ";
/// A run shorter than this is not worth its reference (bytes), nor is one shorter than that.
const LEAST_BYTES: usize = 160;

/// Repeated results and blocks become a reference to their newest copy.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dedupe {
    /// Whether runs of lines are compared too, not only whole results.
    pub blocks: bool,
}

impl Default for Dedupe {
    fn default() -> Self {
        Dedupe { blocks: true }
    }
}

impl Options for Dedupe {
    const NAME: &'static str = "dedupe";

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(*self, run.scope, draft, run.cancel)?.into())
    }
}

/// Where a line of a copy stands: the source and the line.
type Place = (usize, usize);

/// A text that references may point to.
struct Source {
    text: String,
    /// Where its lines are.
    lines: Vec<Range<usize>>,
    /// The number of each line in the result as the tool gave it, from 1.
    numbers: Vec<usize>,
    result: (Exchange, BlockId),
    /// Position of the result among all that are there.
    position: usize,
}

/// The calls that results answer, in few words. Most are never referred to.
struct Labels<'m> {
    messages: &'m [Entry<'m>],
    known: RefCell<OfCalls<String>>,
}

impl Labels<'_> {
    fn of(&self, source: &Source) -> String {
        let (exchange, id) = &source.result;
        let entry = self.messages.get(id.at());
        let result = entry.and_then(|entry| entry.result(id.block));
        let known = &mut self.known.borrow_mut();
        let label = result.map(|result| label::of_result(self.messages, exchange, result, known));
        label.unwrap_or_default()
    }
}

impl Source {
    /// Its lines from one of them on.
    fn lines_from(&self, first: usize) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().skip(first);
        lines.map_while(|line| self.text.get(line.clone()))
    }

    /// A reference to some of its lines from the result at `position`.
    fn reference_to(
        &self,
        lines: Range<usize>,
        position: usize,
        labels: &Labels<'_>,
    ) -> Option<String> {
        let length = lines.len();
        let first = self.numbers.get(lines.start)?;
        let last = self.numbers.get(lines.end.checked_sub(1)?)?;
        let below = self.position.checked_sub(position)?;
        Some(format!(
            "{RUN}{length}{RUN_OF}{first}–{last} of the result {below} below: {} …]",
            labels.of(self)
        ))
    }
}

/// The texts that were seen, newest first.
struct Seen<'m> {
    labels: Labels<'m>,
    sources: Vec<Source>,
    /// Whole results of one text.
    whole: Map<String, usize>,
    /// The places where runs of `WINDOW` lines begin, by their hash; a run that is found is
    /// compared line by line.
    runs: Map<u64, Place>,
}

/// A hash for each run of `WINDOW` lines, in order.
fn hashes<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<u64> {
    let each: Vec<u64> = lines.map(hash_of).collect();
    each.windows(WINDOW).map(hash_of).collect()
}

pub(super) fn apply(
    options: Dedupe,
    scope: &Scope,
    draft: &mut Draft<'_>,
    cancel: &Cancel,
) -> Result<u64, Cancelled> {
    let messages = draft.conversation().messages;
    let editable: Set<BlockId> = scope.results(draft).into_iter().map(|(_, id)| id).collect();
    let mut results = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    // Of an exchange that others stand for nothing is to be seen, and nothing to be counted.
    results.retain(|(_, id)| matches!(draft.edit(id.at()), Edit::Keep | Edit::Replace(_)));
    let (mut seen, mut replaced) = (Seen::of(messages), 0);
    for (position, (exchange, id)) in results.into_iter().enumerate().rev() {
        cancel.check_budget()?;
        let read = Texts::of(draft, id);
        let Some(texts) = read else { continue };
        if editable.contains(&id) {
            if let Some(reference) = seen.reference(&texts, position)
                && draft.set_text(id, &reference)
            {
                replaced += 1;
                continue;
            }
            let shorter =
                options.blocks && draft.map_texts(id, |text| seen.without_runs(text, position));
            replaced += u64::from(shorter);
        }
        // Copies are looked for in what stood there before: lines that are a reference now lead on.
        seen.add(texts, (exchange, id), position);
    }
    Ok(replaced)
}

/// The texts of a result as they are now.
struct Texts {
    texts: Vec<String>,
    /// Whether there is nothing besides them.
    is_whole: bool,
    /// Whether an earlier compaction edited them.
    is_edited: bool,
}

impl Texts {
    fn of(draft: &Draft<'_>, id: BlockId) -> Option<Self> {
        let entry = draft.entry(id.at())?;
        let result = entry.result(id.block)?;
        let texts: Vec<String> = result.decoded().map(|text| text.into_owned()).collect();
        Some(Texts {
            is_whole: result.parts <= 1 && texts.len() == 1,
            is_edited: *draft.edit(id.at()) != Edit::Keep,
            texts,
        })
    }
}

impl<'m> Seen<'m> {
    /// Nothing yet, of these messages.
    fn of(messages: &'m [Entry<'m>]) -> Self {
        Seen {
            labels: Labels {
                messages,
                known: RefCell::default(),
            },
            sources: Vec::new(),
            whole: Map::default(),
            runs: Map::default(),
        }
    }

    fn add(&mut self, texts: Texts, result: (Exchange, BlockId), position: usize) {
        let mut number = 1;
        for text in texts.texts {
            // A reference is not a copy of anything.
            if text.starts_with(REFERENCE) {
                number += 1;
                continue;
            }
            let index = self.sources.len();
            let (mut lines, mut numbers, mut begin) = (Vec::new(), Vec::new(), 0);
            for line in split_lines(&text) {
                lines.push(begin..begin + line.len());
                begin += line.len() + 1;
                numbers.push(number);
                number += if texts.is_edited { lines_in(line) } else { 1 };
            }
            if has_lines(&text) {
                for (line, hash) in hashes(split_lines(&text)).into_iter().enumerate() {
                    self.runs.entry(hash).or_insert((index, line));
                }
            }
            if texts.is_whole {
                self.whole.entry(text.clone()).or_insert(index);
            }
            self.sources.push(Source {
                text,
                lines,
                numbers,
                result,
                position,
            });
        }
    }

    /// A reference to a newer copy of a whole result. One of several parts has none: they may
    /// differ where the text does not.
    fn reference(&self, result: &Texts, position: usize) -> Option<String> {
        let text = result.texts.first().filter(|_| result.is_whole)?;
        // A count of results below means another one when it is read elsewhere.
        if text.len() < LEAST_BYTES / 2 || text.lines().any(is_reference) {
            return None;
        }
        let newer = self.sources.get(*self.whole.get(text)?)?;
        let below = newer.position.checked_sub(position)?;
        let label = self.labels.of(newer);
        Some(format!("{REFERENCE}{below} below: {label}]"))
    }

    fn without_runs(&self, text: &str, position: usize) -> Option<String> {
        if !has_lines(text) {
            return None;
        }
        // Line ends are part of the lines, so that every line without a copy stays byte for byte.
        let lines: Vec<&str> = split_lines(text).collect();
        let hashes = hashes(lines.iter().copied());
        let (mut out, mut at, mut found): (Vec<Cow<'_, str>>, usize, bool) = (Vec::new(), 0, false);
        let mut refused: Option<Refused> = None;
        while let Some(line) = lines.get(at) {
            let place = hashes.get(at).and_then(|hash| self.runs.get(hash)).copied();
            let place = place.filter(|place| refused.is_none_or(|run| !run.includes(at, *place)));
            let below = lines.get(at..).unwrap_or_default();
            let run = place.map(|place| (place, self.run(place, below, position)));
            match run {
                Some((_, (length, Some(reference)))) => {
                    out.push(reference.into());
                    at += length;
                    found = true;
                    continue;
                }
                Some((copy, (length, None))) => {
                    let first = at;
                    refused = Some(Refused {
                        first,
                        length,
                        copy,
                    });
                }
                None => {}
            }
            out.push((*line).into());
            at += 1;
        }
        found.then(|| out.join("\n"))
    }

    /// The number of `lines` that stand at `place` too, and a reference to them, where there are
    /// enough.
    fn run(&self, place: Place, lines: &[&str], position: usize) -> (usize, Option<String>) {
        let (index, start) = place;
        let Some(newer) = self.sources.get(index) else {
            return (0, None);
        };
        let copies = newer.lines_from(start).zip(lines);
        let length = copies
            .take_while(|(a, b)| a == *b && !is_reference(a))
            .count();
        let bytes: usize = lines.iter().take(length).map(|line| line.len() + 1).sum();
        if length < WINDOW || bytes < LEAST_BYTES {
            return (length, None);
        }
        let reference = newer.reference_to(start..start + length, position, &self.labels);
        (
            length,
            reference.filter(|reference| reference.len() < bytes),
        )
    }
}

/// A run of lines that is not worth its reference. No end of it is: that has fewer bytes, and a
/// reference of about the same length.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// Its first line.
    first: usize,
    length: usize,
    /// The copy of its first line.
    copy: Place,
}

impl Refused {
    /// Whether line `at` is one of its lines, and `place` the copy of that.
    fn includes(self, at: usize, place: Place) -> bool {
        let (source, start) = self.copy;
        at.checked_sub(self.first)
            .is_some_and(|nth| nth < self.length && place == (source, start + nth))
    }
}

/// Whether runs of lines of a text are compared. JSON is not: `minify` writes it anew, with other
/// lines or none.
fn has_lines(text: &str) -> bool {
    text.contains('\n') && Json::parse(text).is_none()
}

/// The lines that a line stands for: more than one where it is a reference or has a count.
fn lines_in(line: &str) -> usize {
    let number = |text: &str| text.parse().ok();
    let referred = line
        .strip_prefix(RUN)
        .and_then(|rest| rest.split_once(RUN_OF));
    let counted = || line.strip_suffix(')')?.rsplit_once(" (×");
    let found = match referred {
        Some((lines, _)) => number(lines),
        None => counted().and_then(|(_, times)| number(times)),
    };
    found.unwrap_or(1)
}

/// Whether a line refers to others.
fn is_reference(line: &str) -> bool {
    line.starts_with(REFERENCE) || (line.starts_with(RUN) && line.contains(RUN_OF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_refused_run_are_not_compared_again_with_the_same_copy() {
        let refused = Refused {
            first: 10,
            length: 5,
            copy: (2, 40),
        };
        assert!((0..5).all(|nth| refused.includes(10 + nth, (2, 40 + nth))));
        for (at, place) in [(9, (2, 39)), (15, (2, 45)), (11, (2, 40)), (11, (3, 41))] {
            assert!(!refused.includes(at, place), "{at} {place:?}");
        }
    }
}
