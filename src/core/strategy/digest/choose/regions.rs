//! Regions of files: what a call read or wrote around a line that the newest messages name, as a
//! trace or a compiler does. It is edited next, and lines of it alone are no use for that.

use std::cmp::Reverse;

use super::{Choice, LEAST_LEFT};
use crate::core::conversation::scale;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::weigh::Weight;
use crate::core::strategy::digest::weights::share;
use crate::core::text::{FilePlace, file_places, names_file};
use crate::core::{Cancel, Cancelled};

/// Lines of files that are looked for.
const MOST_PLACES: usize = 12;
/// The part of a text in which they are looked for: its end, which says most (bytes).
const SEARCHED_BYTES: usize = 32 * 1_024;
/// Lines of a region before and after the one that is named.
const REACH: usize = 12;
/// Lines beside one that tell whether it is shown elsewhere.
const BESIDE: usize = 3;

/// The lines of one file that are named, the last named first.
pub(super) type Region = Vec<usize>;

/// The lines of files that the newest messages name, or else reports of failures: by file, that
/// with the most of them first, else that which is named last.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn named_regions(
    lines: &[DigestLine],
    weights: &[Weight],
    recent: &[String],
    cancel: &Cancel,
) -> Result<Vec<Region>, Cancelled> {
    let reports = lines.iter().rev().filter(|line| {
        matches!(line.standing, Standing::ToMend | Standing::Failure) && line.part.is_quoted()
    });
    let texts = recent.iter().chain(reports.map(|line| &line.text));
    let mut places: Vec<FilePlace<'_>> = Vec::new();
    for text in texts {
        if places.len() >= MOST_PLACES {
            break;
        }
        cancel.check_budget()?;
        let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
        let found: Vec<_> = file_places(text.get(from..).unwrap_or_default()).collect();
        for place in found.into_iter().rev() {
            if places.len() < MOST_PLACES && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    let mut regions: Vec<(usize, Region)> = Vec::new();
    for place in places {
        cancel.check_budget()?;
        let Some(at) = line_of(place, lines, weights) else {
            continue;
        };
        let call = weights.get(at).map_or(0, |weight| weight.entry);
        if is_shown_elsewhere(lines, at) {
            continue;
        }
        match regions.iter_mut().find(|(known, _)| *known == call) {
            Some((_, region)) => region.push(at),
            None => regions.push((call, vec![at])),
        }
    }
    regions.sort_by_key(|(_, region)| Reverse(region.len()));
    Ok(regions.into_iter().map(|(_, region)| region).collect())
}

/// The line of a file where it was read or written last.
fn line_of(place: FilePlace<'_>, lines: &[DigestLine], weights: &[Weight]) -> Option<usize> {
    let calls = lines.iter().enumerate().rev();
    let calls = calls.filter(|(_, line)| line.part == Part::Call);
    let mut of_file = calls.filter(|(_, call)| names_file(&call.text, place.path));
    of_file.find_map(|(call, head)| {
        let of_call = |at: &usize| weights.get(*at).is_some_and(|weight| weight.entry == call);
        let mut own = (call + 1..lines.len()).take_while(of_call);
        own.find(|at| {
            let line = lines.get(*at).filter(|line| line.part.is_quoted());
            line.is_some_and(|line| number_in_file(line, head) == Some(place.line))
        })
    })
}

/// The number of a line in its file: that which a listing gave it, else its place in a text that is
/// the whole file.
fn number_in_file(line: &DigestLine, call: &DigestLine) -> Option<u32> {
    if line.number == 0 {
        let text = line.text.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        return text.get(..digits)?.parse().ok();
    }
    // A number in the call may say where the result begins.
    let mut words = call.text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_whole = line.part == Part::Argument
        || !words.any(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    is_whole.then_some(line.number)
}

/// Whether most lines around one are shown elsewhere.
fn is_shown_elsewhere(lines: &[DigestLine], at: usize) -> bool {
    let around = at.saturating_sub(BESIDE)..(at + BESIDE + 1).min(lines.len());
    let around = lines.get(around).unwrap_or_default();
    let shown = around
        .iter()
        .filter(|line| line.standing == Standing::Repeated);
    shown.count() * 2 > around.len()
}

impl Choice<'_> {
    /// Takes the regions around the lines that are named. Returns the tokens that are left.
    pub(super) fn take_regions(&mut self, budget: u64) -> Result<u64, Cancelled> {
        let mut left = budget;
        let regions = std::mem::take(&mut self.regions);
        for (nth, region) in regions.iter().enumerate() {
            self.cancel.check_budget()?;
            if left < LEAST_LEFT {
                break;
            }
            // The last one may have all that is left.
            let is_last = nth + 1 == regions.len();
            let room = if is_last {
                left
            } else {
                scale(left, share::REGION)
            };
            left -= self.take_region(region, room);
        }
        self.regions = regions;
        Ok(left)
    }

    /// Takes lines on both sides of those that are named, line after line, as far as there is room.
    /// Returns the tokens that they take.
    fn take_region(&mut self, region: &Region, room: u64) -> u64 {
        let mut spent = 0;
        let sides = region.iter().flat_map(|at| [(*at, true), (*at, false)]);
        let mut ends: Vec<(Option<usize>, bool, usize)> = sides
            .map(|(at, is_below)| {
                let end = if is_below {
                    Some(at)
                } else {
                    at.checked_sub(1)
                };
                (end, is_below, at)
            })
            .collect();
        for _ in 0..=REACH {
            for (end, is_below, named) in &mut ends {
                let Some(line) = end.filter(|line| self.is_in_region(*line, *named)) else {
                    *end = None;
                    continue;
                };
                let chain: Vec<usize> = self.chain(line).collect();
                let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
                if spent + tokens > room {
                    *end = None;
                    continue;
                }
                spent += tokens;
                chain.into_iter().for_each(|at| self.take(at));
                *end = if *is_below {
                    Some(line + 1)
                } else {
                    line.checked_sub(1)
                };
            }
        }
        spent
    }

    /// Whether a line is of the same text as another.
    fn is_in_region(&self, line: usize, other: usize) -> bool {
        let text = |at: usize| {
            let line = self.lines.get(at).filter(|line| line.part.is_quoted())?;
            Some((line.part, self.of.lines.get(at)?.entry))
        };
        text(line).is_some_and(|of| text(other) == Some(of))
    }
}
