//! The parts of what was said that the user's newest message names by their headings: `the final
//! text of clause 6`, `every dietary need` for `Dietary record:`. They are what he asks for, as
//! wholes.

use std::cmp::Reverse;

use crate::core::strategy::digest::line::{DigestLine, STRIDE};
use crate::core::strategy::digest::lists::{is_heading, is_label};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::digest::weigh::weights::line as lines_by;
use crate::core::strategy::maps::{Map, Set, hash_of};
use crate::core::text::{PARTS, Stem, stem_of, words_of};
use crate::core::{Cancel, Cancelled};

/// Sections that are looked for.
const MOST_SECTIONS: usize = 3;
/// Words of the newest message, and of a heading, that are looked at.
const MOST_WORDS: usize = 240;
const MOST_OF_HEADING: usize = 24;
/// A word that so many headings have names none of them.
const MOST_HEADINGS: usize = 4;
/// The most bytes of a number.
const MOST_DIGITS: usize = 4;

/// A section: its heading, and the line behind its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Section {
    pub heading: usize,
    pub end: usize,
}

/// The sections that the user's newest message names, the most wanted first: of several with like
/// headings, as of versions of a clause, the newest.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn named_sections(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<Vec<Section>, Cancelled> {
    let words = context.said_last.iter().flat_map(|text| words_of(text));
    let mut asked: Set<u64> = words.take(MOST_WORDS).filter_map(key_of).collect();
    asked.extend(context.said_last.iter().flat_map(|text| numbered(text)));
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut headings: Vec<(usize, Vec<u64>)> = Vec::new();
    let mut counts: Map<u64, usize> = Map::default();
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if !line.part.is_said() || line.is_code || line.joins || !is_label(&line.text) {
            continue;
        }
        let words = words_of(&line.text).take(MOST_OF_HEADING);
        let mut keys: Vec<u64> = words.filter_map(key_of).collect();
        keys.extend(numbered(&line.text));
        keys.retain(|key| asked.contains(key));
        keys.sort_unstable();
        keys.dedup();
        if !keys.is_empty() {
            headings.push((at, keys));
        }
    }
    // Versions of one text have the same heading but for its numbers.
    let mut known: Set<String> = Set::default();
    headings.reverse();
    headings.retain(|(at, _)| {
        let text = lines.get(*at).map_or("", |line| &line.text);
        known.insert(text.chars().filter(|c| c.is_alphabetic()).collect())
    });
    for key in headings.iter().flat_map(|(_, keys)| keys) {
        *counts.entry(*key).or_default() += 1;
    }
    let told = |keys: &[u64]| {
        let rare = keys
            .iter()
            .filter(|key| counts.get(*key) <= Some(&MOST_HEADINGS));
        rare.count()
    };
    headings.retain(|(_, keys)| told(keys) > 0);
    // The newest of those that have as many words stays the first.
    headings.sort_by_key(|(_, keys)| Reverse(told(keys)));
    let sections = headings.into_iter().map(|(heading, _)| Section {
        heading,
        end: end_of(lines, heading),
    });
    let has_lines = |section: &Section| section.end > section.heading + 1;
    Ok(sections.filter(has_lines).take(MOST_SECTIONS).collect())
}

/// Raises the weights of sentences about parts that the user's newest message names by their
/// numbers.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn weigh_numbered(
    lines: &[DigestLine],
    weights: &mut [Weight],
    context: &Context,
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let asked = context.said_last.iter().flat_map(|text| numbered(text));
    let asked: Set<u64> = asked.collect();
    if asked.is_empty() {
        return Ok(());
    }
    for (at, (line, weight)) in lines.iter().zip(weights).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let is_about = || numbered(&line.text).iter().any(|key| asked.contains(key));
        if line.part.is_said() && !line.is_code && is_about() {
            weight.named = weight.named.max(lines_by::NAMED);
        }
    }
    Ok(())
}

/// The line behind the section below a heading: the next heading of its rank, or the end of the
/// message.
fn end_of(lines: &[DigestLine], heading: usize) -> usize {
    let of = |at: usize| lines.get(at);
    let begins = of(heading).map(|line| (line.part, is_heading(&line.text)));
    let is_below = |at: &usize| {
        of(*at).is_some_and(|line| {
            let ends = is_label(&line.text) && !line.joins && line.within.is_none();
            let is_same = begins.is_some_and(|(part, is_heading_too)| {
                line.part == part && !(ends && (!is_heading_too || is_heading(&line.text)))
            });
            line.depth > 0 && is_same
        })
    };
    let below = heading + 1..lines.len();
    heading + 1 + below.take_while(is_below).count()
}

/// What stands for a longer word.
fn key_of(word: &str) -> Option<u64> {
    let stem: Stem = stem_of(word)?;
    // Short words name nothing.
    let is_long = stem.last() != Some(&'\0');
    is_long.then(|| hash_of(&stem))
}

/// What stands for each part that a text names by its number: `§ 6`, `clause 6`.
fn numbered(text: &str) -> Vec<u64> {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '§';
    let mut found = Vec::new();
    let mut before = String::new();
    for word in text.split_whitespace() {
        let word = word.trim_matches(is_mark);
        let (sign, number) = match word.strip_prefix('§') {
            Some(number) if !number.is_empty() => ("§", number),
            _ => (before.as_str(), word),
        };
        let is_number =
            number.len() <= MOST_DIGITS && number.starts_with(|c: char| c.is_ascii_digit());
        if is_number && PARTS.contains(sign) {
            found.push(hash_of(&(sign, number)));
        }
        before = if word.len() <= MOST_OF_HEADING {
            word.to_lowercase()
        } else {
            String::new()
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::line::Part;
    use crate::core::strategy::digest::texts::quoted::sentences_of;

    fn said(texts: &[&str]) -> Vec<DigestLine> {
        let mut lines = Vec::new();
        for text in texts {
            let from = lines.len();
            sentences_of(text, Part::Assistant, &Cancel::default(), &mut lines).unwrap();
            lines[from].depth = 0;
        }
        lines
    }

    fn named(texts: &[&str], newest: &str) -> Vec<String> {
        let lines = said(texts);
        let context = Context {
            said_last: vec![newest.to_owned()],
            ..Context::default()
        };
        let sections = named_sections(&lines, &context, &Cancel::default()).unwrap();
        let text = |section: Section| {
            let told = lines[section.heading..section.end].iter();
            told.map(|line| line.text.as_str())
                .collect::<Vec<_>>()
                .join("|")
        };
        sections.into_iter().map(text).collect()
    }

    #[test]
    fn of_the_versions_of_a_clause_the_newest_is_named() {
        let texts = [
            "> **§ 6 Haftung (v1)**\n> (1) Bis 1 Mio.\n\nPasst das?",
            "> **§ 7 Laufzeit (v1)**\n> (1) Drei Jahre.",
            "> **§ 6 Haftung (v2)**\n> (1) Bis 2 Mio.\n> (2) Mehr nicht.",
        ];
        let expected = ["> **§ 6 Haftung (v2)**|> (1) Bis 2 Mio.|> (2) Mehr nicht."];
        assert_eq!(named(&texts, "Bitte den Wortlaut von § 6."), expected);
        assert!(named(&texts, "Danke, das ist alles.").is_empty());
    }

    #[test]
    fn a_list_is_named_by_a_word_of_its_heading() {
        let texts = ["Dietary record:\n- Oisín: nuts\n- Priya: vegan\n\nRooms:\n- Gus: Padley"];
        let expected = ["Dietary record:|- Oisín: nuts|- Priya: vegan"];
        assert_eq!(named(&texts, "Tell them every dietary need."), expected);
    }

    #[test]
    fn parts_are_named_by_their_numbers() {
        let same = |one: &str, other: &str| numbered(one) == numbered(other);
        assert!(same("see Clause 6.", "clause 6") && same("§6", "(§ 6)"));
        assert!(!same("clause 6", "clause 7") && numbered("at 6 pm").is_empty());
    }
}
