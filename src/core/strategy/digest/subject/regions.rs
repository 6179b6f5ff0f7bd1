//! Regions of files: what a call read or wrote around a line that the newest messages name, as a
//! trace or a compiler does. It is edited next, and lines of it alone are no use for that.

use std::cmp::Reverse;

use super::definitions::definitions;
use super::sections::{Section, named_sections};
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing, leading_number};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{FilePlace, file_name, file_paths, file_places, is_same_file};
use crate::core::{Cancel, Cancelled};

/// Lines of files that are looked at, and those that regions are made of.
const MOST_NAMED: usize = 256;
const MOST_PLACES: usize = 12;
/// The part of a text in which they are looked for: its end, which says most (bytes).
const SEARCHED_BYTES: usize = 32 * 1_024;
/// Files that the line of a call may name.
const MOST_FILES: usize = 8;
/// Lines beside one that tell whether it is shown elsewhere.
const BESIDE: usize = 3;
/// Lines below the first one of a definition around which more is taken, too.
const BELOW: usize = 8;
/// The beginnings of arguments that are a part of a file.
const PARTS: [&str; 6] = ["old", "new", "search", "replace", "diff", "patch"];

/// The lines of one file that are named.
pub(in super::super) type Region = Vec<Place>;

/// A line around which a region is.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Place {
    pub line: usize,
    /// What stands above it is wanted, too.
    pub above: bool,
    /// It is the heading of a section that ends before this line.
    pub end: Option<usize>,
}

/// The lines of files that the newest messages name, or else the results of calls that failed last:
/// by call, that with the most of them first; of as many, that which is named nearest to the end.
/// Sections of what was said that the user's newest message names come before them.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn named_regions(
    lines: &[DigestLine],
    weights: &[Weight],
    context: &Context,
    cancel: &Cancel,
) -> Result<Vec<Region>, Cancelled> {
    let recent = &context.recent;
    let entry = |at: usize| weights.get(at).map(|weight| weight.entry);
    let all = || lines.iter().enumerate();
    let to_mend = all().filter(|(_, line)| line.standing == Standing::ToMend);
    let to_mend: Set<usize> = to_mend.filter_map(|(at, _)| entry(at)).collect();
    let of_report = |(at, line): &(usize, &DigestLine)| {
        line.part == Part::Text && entry(*at).is_some_and(|entry| to_mend.contains(&entry))
    };
    let reports = all().rev().filter(of_report);
    let texts = recent.iter().chain(reports.map(|(_, line)| &line.text));
    let mut places: Vec<FilePlace<'_>> = Vec::new();
    for text in texts {
        if places.len() >= MOST_NAMED {
            break;
        }
        cancel.check_budget()?;
        let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
        let found: Vec<_> = file_places(text.get(from..).unwrap_or_default()).collect();
        places.extend(found.into_iter().rev());
    }
    places.truncate(MOST_NAMED);
    let mut found = Files::named_by(places);
    if !found.places.is_empty() {
        found.find(lines, weights, cancel)?;
    }
    let mut regions: Vec<(usize, Region)> = Vec::new();
    let definitions = definitions(lines, context, cancel)?;
    // What is defined stands below its first line.
    let defined = definitions.iter().flat_map(|at| {
        let below = Some(at + BELOW).filter(|below| entry(*below) == entry(*at));
        [Some(*at), below]
    });
    let place = |above| {
        move |line| Place {
            line,
            above,
            end: None,
        }
    };
    let named = found.lines().into_iter().map(place(true));
    for at in named.chain(defined.flatten().map(place(false))) {
        let call = weights.get(at.line).map_or(0, |weight| weight.entry);
        match regions.iter_mut().find(|(known, _)| *known == call) {
            Some((_, region)) => region.push(at),
            None => regions.push((call, vec![at])),
        }
    }
    regions.sort_by_key(|(_, region)| Reverse(region.len()));
    let regions = regions.into_iter().map(|(_, region)| region);
    Ok(section_regions(lines, context, cancel)?
        .chain(regions)
        .collect())
}

/// The sections of what was said that the user's newest message names.
fn section_regions(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<impl Iterator<Item = Region>, Cancelled> {
    let sections = named_sections(lines, context, cancel)?;
    Ok(sections.into_iter().map(region_of))
}

/// The region that a section is.
fn region_of(section: Section) -> Region {
    vec![Place {
        line: section.heading,
        above: false,
        end: Some(section.end),
    }]
}

/// The lines of files that are looked for.
struct Files<'t> {
    places: Vec<FilePlace<'t>>,
    /// Where each was read or written last.
    found: Vec<Option<usize>>,
    /// The places by the names of their files.
    by_name: Map<&'t str, Vec<usize>>,
}

impl<'t> Files<'t> {
    fn named_by(places: Vec<FilePlace<'t>>) -> Self {
        let mut by_name: Map<&str, Vec<usize>> = Map::default();
        for (nth, place) in places.iter().enumerate() {
            by_name.entry(file_name(place.path)).or_default().push(nth);
        }
        Files {
            found: vec![None; places.len()],
            places,
            by_name,
        }
    }

    /// Looks for them, newest call first.
    fn find(
        &mut self,
        lines: &[DigestLine],
        weights: &[Weight],
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let mut end = lines.len();
        while end > 0 {
            cancel.check_budget()?;
            let begin = weights.get(end - 1).map_or(0, |weight| weight.entry);
            let begin = begin.min(end - 1);
            if let Some((head, below)) = lines.get(begin..end).and_then(<[_]>::split_first)
                && head.part == Part::Call
            {
                let wanted = self.wanted_of(&head.text);
                if !wanted.is_empty() {
                    self.find_below(&wanted, head, (begin + 1, below), cancel)?;
                }
            }
            end = begin;
        }
        Ok(())
    }

    /// The places in the files that the line of a call names which were not found yet.
    fn wanted_of(&self, call: &str) -> Vec<usize> {
        let of_file = |path: &str| {
            let named = self.by_name.get(file_name(path)).into_iter().flatten();
            let is_it = |nth: &&usize| {
                let place = self.places.get(**nth);
                place.is_some_and(|place| is_same_file(place.path, path))
                    && self.found.get(**nth) == Some(&None)
            };
            named.filter(is_it).copied().collect::<Vec<_>>()
        };
        let mut wanted: Vec<usize> = file_paths(call)
            .take(MOST_FILES)
            .flat_map(of_file)
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Looks for the `wanted` places in the lines of a call, of which the first is number `from`.
    fn find_below(
        &mut self,
        wanted: &[usize],
        call: &DigestLine,
        (from, below): (usize, &[DigestLine]),
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let mut by_line: Map<u32, Vec<usize>> = Map::default();
        for nth in wanted {
            if let Some(place) = self.places.get(*nth) {
                by_line.entry(place.line).or_default().push(*nth);
            }
        }
        let (reads, writes) = (reads_all(&call.text), writes_all(call, below));
        for (at, line) in below.iter().enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let number = match line.part {
                Part::Text if line.number == 0 => listed_number(&line.text),
                Part::Text if reads => Some(line.number),
                Part::Argument if writes => Some(line.number),
                _ => None,
            };
            let named = number.and_then(|number| by_line.get(&number));
            if named.is_none() || is_shown_elsewhere(below, at) {
                continue;
            }
            for nth in named.into_iter().flatten() {
                if let Some(found @ None) = self.found.get_mut(*nth) {
                    *found = Some(from + at);
                }
            }
        }
        Ok(())
    }

    /// The lines that were found, those that are wanted most first.
    fn lines(&self) -> Vec<usize> {
        let mut lines = Vec::new();
        for at in self.found.iter().flatten() {
            if lines.len() < MOST_PLACES && !lines.contains(at) {
                lines.push(*at);
            }
        }
        lines
    }
}

/// The number that a listing gave a line of a file. A clock time has none.
fn listed_number(text: &str) -> Option<u32> {
    let (number, behind) = leading_number(text);
    let is_listed = match behind.strip_prefix(':') {
        Some(behind) => !behind.starts_with(|c: char| c.is_ascii_digit()),
        None => behind.starts_with(['\t', '|', '-']),
    };
    number.parse().ok().filter(|_| is_listed)
}

/// Whether a call asks for a whole file and nothing else: `read(path=a.py)`,
/// `run(command=cat a.py)`.
fn reads_all(call: &str) -> bool {
    let asked = call
        .split_once('(')
        .and_then(|(_, asked)| asked.rsplit_once(')'))
        .map(|(asked, _)| asked.split_once('=').map_or(asked, |(_, value)| value));
    let asked = asked.map(|asked| {
        asked
            .strip_prefix("cat ")
            .unwrap_or(asked)
            .trim_matches('"')
    });
    asked.is_some_and(|asked| file_paths(asked).next() == Some(asked))
}

/// Whether a call has the whole text of a file among its arguments, rather than a part of it.
fn writes_all(call: &DigestLine, below: &[DigestLine]) -> bool {
    let has_parts = below.iter().filter(|line| line.of_argument).count() > 1;
    let mut keys = call.text.split(['(', ' ']);
    let is_part = |key: &str| key.contains('=') && PARTS.iter().any(|part| key.starts_with(part));
    !has_parts && !keys.any(is_part)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_files_and_listed_lines_are_known() {
        for call in [
            "read_file(path=src/a.py)",
            "run(command=cat src/a.py)",
            "read(\"a b.py\")",
            "read(a.py)",
        ] {
            assert_eq!(reads_all(call), !call.contains("a b"), "{call}");
        }
        for call in [
            "run(command=python src/a.py)",
            "read_file(path=src/a.py, start=7)",
            "edit(path=src/a.py, old=x)",
            "list()",
        ] {
            assert!(!reads_all(call), "{call}");
        }
        for (line, number) in [
            ("    72\tx = 1", Some(72)),
            ("72:x = 1", Some(72)),
            ("72|x", Some(72)),
            ("12:30:45 started", None),
            ("7 apples", None),
            ("x", None),
        ] {
            assert_eq!(listed_number(line), number, "{line}");
        }
    }
}
