//! The files that the newest messages name, of those that were read and not changed since, where
//! the model is not at work: they are changed next. `Last one: quote.ts`, `Now the bucket module`.

use std::ops::Range;

use super::definitions::{defined_in, names_in, parts_of_name, searched};
use super::regions::{Place, Region};
use crate::core::strategy::digest::calls::made::edited;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing, entry_from};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{file_paths, is_same_file, words_of};
use crate::core::{Cancel, Cancelled};

/// Files that are looked for.
const MOST_NAMED: usize = 3;
/// The newest messages in which they are named; and those in which they are by words alone.
const LAST_SAID: usize = 8;
const LAST_WORDS: usize = 2;
/// The newest files that were read, of which they are.
const MOST_READ: usize = 64;
/// The names of the newest messages that are looked for in files, and the places of them in one.
const MOST_NAMES: usize = 64;
const MOST_PLACES: usize = 4;
/// Files that the line of a call may name.
const MOST_FILES: usize = 8;
/// The fewest lines of a text that is read as a file.
const LEAST_LINES: usize = 3;
/// A word that the paths of more files have names none of them, and the shortest that does (bytes).
const MOST_OF_WORD: usize = 2;
const LEAST_WORD: usize = 4;

/// A file that was read: its path, the lines of its text, and how many of these are told there.
struct Read<'t> {
    path: &'t str,
    text: Range<usize>,
    lines: usize,
    /// A newer call changed it.
    is_changed: bool,
}

/// The texts of these files, those that the newest message names first.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn named_files(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<Vec<Region>, Cancelled> {
    // What the model is at stands in its newest calls.
    if context.is_at_work {
        return Ok(Vec::new());
    }
    let mut reads = reads_of(lines, cancel)?;
    // What stays beside the digest shows them itself.
    let shown: Vec<&str> = context
        .calls
        .iter()
        .filter_map(|call| only_file(call))
        .collect();
    reads.retain(|read| !shown.iter().any(|path| is_same_file(path, read.path)));
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    let besides = context.said.iter().map(|(_, text)| text.as_str());
    let besides: Vec<&str> = besides.take(LAST_SAID).map(searched).collect();
    let before = said_before(lines, LAST_SAID - besides.len());
    let mut found: Vec<Range<usize>> = Vec::new();
    let of_user = context.said_last.iter().map(|text| (searched(text), true));
    let of_all = besides.iter().chain(&before).map(|text| (*text, false));
    for (text, is_asked) in of_user.chain(of_all) {
        cancel.check_budget()?;
        // A plan names what comes next first. What was changed since is named as done, unless the
        // user asks for more.
        for path in file_paths(text) {
            let named = reads.iter().filter(|read| is_same_file(path, read.path));
            let open = named.filter(|read| is_asked || !read.is_changed);
            let longest = open
                .max_by_key(|read| read.lines)
                .map(|read| read.text.clone());
            found.extend(longest.filter(|text| !found.contains(text)));
        }
    }
    if found.is_empty() {
        let newest = besides.get(..besides.len().min(LAST_WORDS));
        found = named_by_words(&reads, newest.unwrap_or_default());
    }
    found.truncate(MOST_NAMED);
    let names = besides
        .iter()
        .chain(&before)
        .flat_map(|text| names_in(text));
    let names: Set<&str> = names.take(MOST_NAMES).collect();
    let region = |text: &Range<usize>| region_of(lines, text, &names);
    Ok(found.iter().map(region).collect())
}

/// The region of a file: around the first lines with what the newest messages name, and from its
/// first definition on, since what stands above that says little.
fn region_of(lines: &[DigestLine], text: &Range<usize>, names: &Set<&str>) -> Region {
    let mut named: Set<&str> = Set::default();
    let mut first = None;
    let mut found = Vec::new();
    for at in text.clone() {
        let Some(line) = lines.get(at) else { break };
        // The default of a variable is no definition.
        let defined = defined_in(&line.text).filter(|name| !name.starts_with(char::is_numeric));
        if defined.is_some() {
            first = first.or(Some(at));
        }
        let mut words = words_of(&line.text).flat_map(|word| word.split('.'));
        let name = words.find_map(|word| names.get(word));
        if name.is_some_and(|name| named.insert(name)) && found.len() < MOST_PLACES {
            found.push(at);
        }
    }
    let first = first.unwrap_or(text.start);
    let place = |line| Place {
        line,
        above: false,
        end: Some(text.end),
    };
    found.into_iter().chain([first]).map(place).collect()
}

/// The sentences of so many of the newest messages, the last one first, but for what the model said
/// beside calls.
fn said_before(lines: &[DigestLine], messages: usize) -> Vec<&str> {
    let is_said = |line: &&DigestLine| line.part.is_said() && line.standing != Standing::Aside;
    let mut left = messages;
    let within = |line: &&DigestLine| {
        let is_within = left > 0;
        left -= usize::from(is_within && line.depth == 0);
        is_within
    };
    let said = lines.iter().rev().filter(is_said).take_while(within);
    said.map(|line| searched(&line.text)).collect()
}

/// The only file that a call names.
fn only_file(call: &str) -> Option<&str> {
    let mut named = file_paths(call);
    let path = named.next()?;
    named.all(|other| is_same_file(path, other)).then_some(path)
}

/// The files that were read last.
fn reads_of<'t>(lines: &'t [DigestLine], cancel: &Cancel) -> Result<Vec<Read<'t>>, Cancelled> {
    let mut reads: Vec<Read<'_>> = Vec::new();
    let mut at = 0;
    while let Some(head) = lines.get(at) {
        cancel.check_budget()?;
        let entry = entry_from(lines, at);
        at = entry.end;
        if head.part != Part::Call || head.outcome.is_failure() {
            continue;
        }
        if head.changes || edited(&head.text).is_some() {
            for path in file_paths(&head.text).take(MOST_FILES) {
                let changed = reads
                    .iter_mut()
                    .filter(|read| is_same_file(path, read.path));
                changed.for_each(|read| read.is_changed = true);
            }
            continue;
        }
        let part = |at: &usize| lines.get(*at).map(|line| line.part);
        let first = entry.clone().find(|at| part(at) == Some(Part::Text));
        let Some((path, first)) = only_file(&head.text).zip(first) else {
            continue;
        };
        let is_told = |line: &&DigestLine| line.standing == Standing::Usual;
        let told = lines.get(first..entry.end).unwrap_or_default().iter();
        let told = told.filter(is_told).count();
        if told < LEAST_LINES {
            continue;
        }
        reads.push(Read {
            path,
            text: first..entry.end,
            lines: told,
            is_changed: false,
        });
        if reads.len() > MOST_READ {
            reads.remove(0);
        }
    }
    Ok(reads)
}

/// The files whose paths have most of the words of some texts that few other paths have.
fn named_by_words(reads: &[Read<'_>], texts: &[&str]) -> Vec<Range<usize>> {
    let said: Set<String> = texts
        .iter()
        .flat_map(|text| words_of(text))
        .flat_map(parts_of_name)
        .filter_map(|word| key_of(&word))
        .collect();
    let parts = |path: &str| -> Set<String> {
        let parts = path.split(|c: char| !c.is_alphanumeric());
        let parts = parts
            .flat_map(parts_of_name)
            .filter_map(|word| key_of(&word));
        parts.filter(|part| said.contains(part)).collect()
    };
    let reads: Vec<&Read<'_>> = reads.iter().filter(|read| !read.is_changed).collect();
    let of_reads: Vec<Set<String>> = reads.iter().map(|read| parts(read.path)).collect();
    let mut counts: Map<&str, usize> = Map::default();
    for part in of_reads.iter().flatten() {
        *counts.entry(part).or_default() += 1;
    }
    let few = MOST_OF_WORD.min(reads.len() / 2);
    let told = |parts: &Set<String>| {
        let rare = parts
            .iter()
            .filter(|part| counts.get(part.as_str()) <= Some(&few));
        rare.count()
    };
    let scores: Vec<usize> = of_reads.iter().map(told).collect();
    let most = scores.iter().copied().max().unwrap_or_default();
    let best = reads.iter().zip(&scores).rev();
    let best = best.filter(|(_, score)| most > 0 && **score == most);
    best.map(|(read, _)| read.text.clone()).collect()
}

/// What stands for a word that may name a file: itself, in small letters, without the `s` of many.
fn key_of(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let one = word.strip_suffix('s').unwrap_or(&word);
    (one.len() >= LEAST_WORD).then(|| one.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a call and of its result.
    fn call(head: &str, text: &[&str]) -> Vec<DigestLine> {
        let head = DigestLine::new(Part::Call, 0, head);
        let text = text.iter();
        let text = text.map(|line| DigestLine::new(Part::Text, 1, line));
        std::iter::once(head).chain(text).collect()
    }

    /// The first lines of the files that are named where the model and then the user said so.
    fn named(lines: &[DigestLine], model: &str, user: &str) -> Vec<String> {
        let said = [(true, user), (false, model)];
        let context = Context {
            said: said
                .map(|(is_user, text)| (is_user, text.to_owned()))
                .into(),
            said_last: vec![user.to_owned()],
            ..Context::default()
        };
        let found = named_files(lines, &context, &Cancel::default()).unwrap();
        let first = |region: Region| lines[region[0].line].text.clone();
        found.into_iter().map(first).collect()
    }

    fn lines() -> Vec<DigestLine> {
        let quote = ["import { a } from \"./a\";", "", "const DAYS = 30;", "}"];
        let invoice = ["// invoices", "const NET = 1;", "}"];
        let bucket = ["variable \"rules\" {", "  default = []", "}"];
        let queue = ["variable \"delay\" {", "  default = 0", "}"];
        let mut changed = call("edit(path=src/invoice.ts, old=1, new=2)", &["ok"]);
        changed[0].changes = true;
        let reads = [
            call("read(path=src/quote.ts)", &quote),
            call("read(path=src/invoice.ts)", &invoice),
            call("read(path=modules/s3-bucket/variables.tf)", &bucket),
            call("read(path=modules/sqs-queue/variables.tf)", &queue),
            changed,
        ];
        reads.into_iter().flatten().collect()
    }

    #[test]
    fn a_file_that_is_named_is_wanted_from_its_first_definition() {
        let lines = lines();
        let quote = ["const DAYS = 30;"];
        assert_eq!(named(&lines, "Last file: quote.ts.", "Go on."), quote);
        assert_eq!(named(&lines, "What now?", "Now src/quote.ts"), quote);
        // It was changed since, and nothing is named by a word.
        let none: [&str; 0] = [];
        assert_eq!(named(&lines, "I changed invoice.ts.", "Thanks."), none);
    }

    #[test]
    fn a_file_is_named_by_a_word_of_its_path_that_few_have() {
        let lines = lines();
        let bucket = ["variable \"rules\" {"];
        assert_eq!(named(&lines, "Now the bucket module.", "ok"), bucket);
        let queue = ["variable \"delay\" {"];
        assert_eq!(named(&lines, "Done.", "Queues first"), queue);
    }

    #[test]
    fn what_stays_is_wanted_from_nowhere_else() {
        let context = Context {
            said_last: vec!["Now quote.ts".to_owned()],
            calls: vec![r#"{"path":"src/quote.ts"}"#.to_owned()],
            ..Context::default()
        };
        let found = named_files(&lines(), &context, &Cancel::default()).unwrap();
        assert!(found.is_empty());
    }
}
