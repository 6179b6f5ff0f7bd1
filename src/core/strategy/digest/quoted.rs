//! Texts as they stood: what parties said, sentence by sentence, and the lines of arguments and
//! results.

use std::borrow::Cow;

use super::line::{DigestLine, Part, Standing, leading_number};
use super::lists::{OpenItems, announces, is_rule_of_table, is_table_row};
use super::mail::note_mail;
use super::outline::note_outline;
use super::printed::OpenTable;
use super::weigh::STRIDE;
use crate::core::strategy::maps::{Map, hash_of};
use crate::core::text::{
    ByteSet, is_of_conclusion, is_prose, limits_what_is_before, pieces, quiet_lines,
    tells_of_failure, without_escapes, without_noise,
};
use crate::core::{Cancel, Cancelled};

/// The longest line, roughly (bytes): longer ones are cut into pieces that stay or go on their own.
pub(super) const LINE_BYTES: usize = 240;
/// The longest sentence, roughly (bytes).
const SENTENCE_BYTES: usize = 600;
/// What ends by a semicolon is a sentence of its own from this length on (bytes).
const CLAUSE_BYTES: usize = 120;
/// A statement up to this length goes with the sentence that limits it (bytes).
const LIMITED_BYTES: usize = 240;
/// So many lines that differ in their numbers only are repetitive; and so many rows of a printed
/// table, where numbers are what there is to tell.
const LEAST_ALIKE: usize = 8;
const LEAST_ALIKE_ROWS: usize = 40;
/// The part of a text that repetitive lines make it a log.
const LOG: f32 = 0.4;
/// The part of a text that sentences make it prose.
const PROSE: f32 = 0.5;
/// The least length of a name in hexadecimal digits without a number (bytes).
const HEX_BYTES: usize = 5;
/// The bytes of names and numbers, and the letters of hexadecimal digits.
static OF_NAMES: ByteSet = ByteSet::of(b"_").and_alphanumeric().and(0x80, 0xff);
static HEX_LETTERS: ByteSet = ByteSet::of(b"").and(b'a', b'f');
/// Capital letters.
static CAPITALS: ByteSet = ByteSet::of(b"").and(b'A', b'Z');
/// Tags around what a model thinks in its text.
const THOUGHTS: [&str; 4] = ["<think>", "</think>", "<thinking>", "</thinking>"];
/// Levels of lines in logs: of failures, and of others. They stand near the beginning (bytes).
const FAILS: [&str; 6] = ["ERROR", "FATAL", "CRITICAL", "SEVERE", "PANIC", "EMERG"];
const FINE: [&str; 7] = [
    "INFO", "DEBUG", "TRACE", "NOTICE", "WARN", "WARNING", "VERBOSE",
];
const LEVEL_BYTES: usize = 64;
const LEAST_LEVEL: usize = 4;
/// So many lines tell whether a text has levels.
const LEVEL_LINES: usize = 16;
/// Sentences below a heading that say what a text comes to.
const CONCLUDES: usize = 2;
/// Lines of a text in a record of which one may say what it is about.
const OPENING_LINES: usize = 6;
/// Lines behind the report of a failure that explain it.
const EXPLAINS: usize = 5;
/// Lines above and below a failure that show what it came from and what came of it.
const BESIDE: usize = 2;
/// Blank lines in a row that are told as they are; more are told as so many.
pub(super) const MOST_BLANK: u8 = 2;

/// How the lines of a text are told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quote {
    pub part: Part,
    pub depth: u8,
    /// The number of the text's first line; `None` where its lines have no numbers.
    pub first: Option<u32>,
}

/// Appends the sentences of what a party said. The first of a paragraph begins a line.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn sentences_of(
    text: &str,
    part: Part,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let text = without_noise(text);
    let mut lists = OpenItems::default();
    for (at, paragraph) in text.lines().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let mut joins = false;
        let inner = paragraph.trim_start();
        let indent = paragraph.len() - inner.len();
        if is_rule_of_table(inner) {
            continue;
        }
        let whole = Some(inner.trim_end()).filter(|line| is_table_row(line));
        let split = whole.is_none().then(|| sentences(inner.trim_end()));
        for sentence in whole.into_iter().chain(split.into_iter().flatten()) {
            for piece in pieces(sentence, SENTENCE_BYTES) {
                let piece = piece.trim();
                if piece.is_empty() || THOUGHTS.contains(&piece) {
                    continue;
                }
                let mut line = DigestLine::new(part, 1, piece);
                line.joins = joins;
                if joins {
                    lists.pass(piece);
                } else {
                    line.within = lists.read(indent, piece);
                }
                out.push(line);
                joins = true;
            }
        }
    }
    Ok(())
}

/// How far before a full stop a bracket or a quotation is looked for (bytes).
const OPEN_BYTES: usize = 120;

/// The sentences of a paragraph, each with the blanks behind it.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut chars = rest.char_indices().peekable();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            let after = at + c.len_utf8();
            let ends = match c {
                '.' => {
                    chars.peek().is_some_and(|(_, c)| c.is_whitespace())
                        && !is_within_sentence(
                            rest.get(..at).unwrap_or_default(),
                            rest.get(after..),
                        )
                }
                // Of two short clauses, the second is the one that decides.
                ';' | '；' if at < CLAUSE_BYTES => false,
                '!' | '?' | ';' => chars.peek().is_some_and(|(_, c)| c.is_whitespace()),
                '。' | '！' | '？' | '；' => {
                    chars.peek().is_some_and(|(_, c)| c.is_alphanumeric())
                }
                _ => false,
            };
            let ends = ends
                && (at >= LIMITED_BYTES
                    || !limits_what_is_before(rest.get(after..).unwrap_or_default()));
            // `1.` is the number of an item, no sentence.
            if ends && rest.get(..at).is_some_and(|before| before.len() > 3) {
                end = after;
                break;
            }
        }
        let (sentence, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        rest = behind;
        Some(sentence)
    })
}

/// Whether a full stop followed by a blank ends no sentence: what follows begins small or is a
/// number, as in `ca. 7 kW`, or it stands behind a title or a single letter, as in `Dr. J. Li`, or
/// behind the number of an item or a place, as in `- [ ] 2. Call him` and `2. OG`.
fn is_within_sentence(before: &str, after: Option<&str>) -> bool {
    const TITLES: [&str; 68] = [
        "av", "ave", "bd", "blvd", "str", "Dr", "Dra", "Mr", "Mrs", "Ms", "Prof", "Sr", "Sra",
        "Srta", "Mme", "Mlle", "Me", "Sig", "Dott", "Hr", "Fr", "Ing", "Lic", "Nr", "No", "St",
        "Ref", "ref", "réf", "Art", "art", "Fig", "fig", "Vol", "vol", "Tel", "cf", "vs", "np",
        "ul", "al", "godz", "nr", "poz", "tzn", "bât", "esc", "apt", "approx", "incl", "núm",
        "pág", "Pl", "Pza", "Avda", "Ctra", "Jl", "Tn", "Ny", "Bpk", "máx", "mín", "max", "min",
        "bijv", "mevr", "dhr", "resp",
    ];
    let next = after.and_then(|after| after.trim_start().chars().next());
    let goes_on = next.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit());
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next();
    let is_title = word.is_some_and(|word| {
        TITLES.contains(&word)
            || word.chars().count() == 1
            || (word.len() == 2 && word.bytes().all(|b| b.is_ascii_digit()))
    });
    goes_on || is_title || is_open(before)
}

/// Whether a bracket or a quotation that was opened shortly before is still open.
fn is_open(before: &str) -> bool {
    const PAIRS: [(char, char); 4] = [('(', ')'), ('«', '»'), ('„', '”'), ('“', '”')];
    let from = before.ceil_char_boundary(before.len().saturating_sub(OPEN_BYTES));
    let near = before.get(from..).unwrap_or_default();
    PAIRS.iter().any(|(open, close)| {
        let opened = near.rfind(*open);
        opened.is_some_and(|at| {
            let behind = near.get(at..).unwrap_or_default();
            // German closes with what opens elsewhere.
            let is_closed = behind.contains(*close) || (*open == '„' && behind.contains('“'));
            !is_closed
        })
    })
}

/// Appends the lines of a text, without terminal noise, long ones in pieces.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn quoted_lines(
    text: &str,
    quote: Quote,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let plain = without_escapes(text);
    let from = out.len();
    let has_several = plain.trim_end().contains('\n');
    let mut number = quote.first.unwrap_or_default();
    let mut blank = 0_u8;
    let quiet: Vec<(Cow<'_, str>, usize)> = quiet_lines(&plain).collect();
    let mut table = OpenTable::default();
    for (at, (long, stands_for)) in quiet.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let first = number;
        number = number.saturating_add(u32::try_from(*stands_for).unwrap_or(u32::MAX));
        if long.trim().is_empty() || (has_several && is_only_numbered(long)) {
            blank = blank.saturating_add(u8::try_from(*stands_for).unwrap_or(u8::MAX));
            table.end();
            continue;
        }
        let head = table.read(long, out.len());
        let is_numbered = quote.first.is_some() && !shows_number(long);
        for (nth, piece) in pieces(long, LINE_BYTES).enumerate() {
            if nth.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let piece = piece.trim_end();
            if !piece.trim_start().is_empty() {
                let mut line = DigestLine::new(quote.part, quote.depth, piece);
                let above = std::mem::take(&mut blank).min(MOST_BLANK);
                line.blank_above = if out.len() > from { above } else { 0 };
                line.within = head.map(|head| out.len() - head);
                line.is_printed_row = quote.part == Part::Text && head.is_some();
                if is_numbered {
                    line.number = first;
                }
                out.push(line);
            }
        }
    }
    cancel.check_budget()?;
    if let Some(lines) = out.get_mut(from..) {
        mark_repetitive(lines);
        if quote.part == Part::Text {
            mark_prose(lines);
            note_mail(lines);
            note_outline(lines);
            mark_conclusions(lines);
        }
    }
    Ok(())
}

/// Marks the sentences of a text that is mostly sentences.
fn mark_prose(lines: &mut [DigestLine]) {
    let prose: Vec<bool> = lines.iter().map(|line| is_prose(&line.text)).collect();
    let (mut of_prose, mut all) = (0, 0);
    for (line, is_prose) in lines.iter().zip(&prose) {
        all += line.text.len();
        of_prose += if *is_prose { line.text.len() } else { 0 };
    }
    if (of_prose as f32) < PROSE * all as f32 {
        return;
    }
    for (line, is_prose) in lines.iter_mut().zip(prose) {
        if is_prose && line.standing == Standing::Usual {
            line.standing = Standing::Prose;
        }
    }
}

/// Marks what a text comes to: below a heading that announces it, or else what a text in a record
/// says first, below its title.
fn mark_conclusions(lines: &mut [DigestLine]) {
    let may = |line: &DigestLine| {
        matches!(line.standing, Standing::Usual | Standing::Prose) && is_prose(&line.text)
    };
    let (mut left, mut is_found) = (0, false);
    for line in lines.iter_mut() {
        if is_of_conclusion(&line.text) {
            (left, is_found) = (CONCLUDES, true);
        } else if left > 0 && announces(&line.text) {
            left = 0;
        } else if left > 0 && may(line) {
            line.standing = Standing::Conclusion;
            left -= 1;
        }
    }
    let is_in_record = lines.first().is_some_and(|line| line.depth > 1);
    let mut opening = lines.iter_mut().take(OPENING_LINES);
    if let Some(first) = opening.find(|line| is_in_record && !is_found && may(line)) {
        first.standing = Standing::Conclusion;
    }
}

/// Finds the lines that differ from many others in their numbers only; where they make up much of a
/// text, also the reports of failures between them.
fn mark_repetitive(lines: &mut [DigestLine]) {
    if lines.len() < LEAST_ALIKE {
        return;
    }
    let mut buffer = Vec::new();
    let forms: Vec<u64> = lines
        .iter()
        .map(|line| form_of(&line.text, &mut buffer))
        .collect();
    let mut groups: Map<u64, (usize, usize, usize)> = Map::default();
    for (at, form) in forms.iter().enumerate() {
        let (count, _, last) = groups.entry(*form).or_insert((0, at, at));
        (*count, *last) = (*count + 1, at);
    }
    let group_of = |at: usize| forms.get(at).and_then(|form| groups.get(form));
    let is_repetitive = |(at, line): (usize, &DigestLine)| {
        let is_row = line.within.is_some();
        let least = if is_row {
            LEAST_ALIKE_ROWS
        } else {
            LEAST_ALIKE
        };
        group_of(at).is_some_and(|(count, ..)| *count >= least)
    };
    let repetitive: Vec<bool> = lines.iter().enumerate().map(is_repetitive).collect();
    let many = repetitive.iter().filter(|alike| **alike).count();
    let levels = levels_of(lines);
    let leveled = levels.iter().flatten().count();
    let is_log = many.max(leveled) as f32 >= LOG * lines.len() as f32;
    // What a log itself calls no failure is none.
    let quiet = repetitive.iter().zip(levels);
    let quiet: Vec<bool> = quiet
        .map(|(alike, level)| level.map_or(*alike, |fails| !fails))
        .collect();
    // The first and the last of each kind show what they are about.
    for (at, line) in lines.iter_mut().enumerate() {
        let ends = group_of(at).is_some_and(|(_, first, last)| *first == at || *last == at);
        if repetitive.get(at) == Some(&true) && !ends {
            line.standing = Standing::Alike;
        }
    }
    if !is_log {
        return;
    }
    mark_failures(lines, &quiet);
}

/// The levels of the lines of a log. Whether it has any, a few of its lines tell.
fn levels_of(lines: &[DigestLine]) -> Vec<Option<bool>> {
    let level = |line: &DigestLine| level_of(&line.text);
    let few = lines.iter().step_by((lines.len() / LEVEL_LINES).max(1));
    if few.filter_map(level).next().is_none() {
        return vec![None; lines.len()];
    }
    lines.iter().map(level).collect()
}

/// Whether the level of a line in a log, near its beginning, is that of a failure; `None` where it
/// has none.
fn level_of(line: &str) -> Option<bool> {
    let near = line.get(..line.floor_char_boundary(LEVEL_BYTES))?;
    let mut rest = near;
    loop {
        let (_, begun) = rest.split_at_checked(CAPITALS.run(rest.as_bytes(), false))?;
        let (word, behind) = begun.split_at_checked(CAPITALS.run(begun.as_bytes(), true))?;
        if word.is_empty() {
            return None;
        }
        rest = behind;
        if word.len() < LEAST_LEVEL || behind.starts_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        let fails = FAILS.contains(&word);
        if fails || FINE.contains(&word) {
            return Some(fails);
        }
    }
}

/// Marks the reports of failures among repetitive lines with what explains them. The lines beside
/// them tell more than others of their kind.
fn mark_failures(lines: &mut [DigestLine], repetitive: &[bool]) {
    let mut left = 0;
    for (at, line) in lines.iter_mut().enumerate() {
        if repetitive.get(at) == Some(&true) {
            left = 0;
            continue;
        }
        if tells_of_failure(&line.text) || level_of(&line.text) == Some(true) {
            left = EXPLAINS + 1;
        }
        if left > 0 {
            line.standing = Standing::Failure;
            left -= 1;
        }
    }
    for at in 0..lines.len() {
        let beside = at.saturating_sub(BESIDE)..(at + BESIDE + 1).min(lines.len());
        let near = lines.get(beside).into_iter().flatten();
        let is_near = near
            .into_iter()
            .any(|line| line.standing == Standing::Failure);
        if let Some(line) = lines
            .get_mut(at)
            .filter(|line| is_near && line.standing == Standing::Alike)
        {
            line.standing = Standing::Usual;
        }
    }
}

/// The hash of a line with every number, and every name that has one, as `#`: lines that differ
/// only in these have the same form. Lines without any are told by their text.
fn form_of(line: &str, buffer: &mut Vec<u8>) -> u64 {
    buffer.clear();
    let bytes = line.as_bytes();
    let rest = |from: usize| bytes.get(from..).unwrap_or_default();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let end = at + OF_NAMES.run(rest(at), true);
        let name = bytes.get(at..end).unwrap_or_default();
        // Random names in hexadecimal digits may happen to have letters only.
        let is_hex = || name.len() >= HEX_BYTES && HEX_LETTERS.run(name, true) == name.len();
        if name.iter().any(u8::is_ascii_digit) || is_hex() {
            buffer.extend_from_slice(bytes.get(copied..at).unwrap_or_default());
            buffer.push(b'#');
            copied = end;
        }
        at = end + OF_NAMES.run(rest(end), false);
    }
    if copied == 0 {
        return hash_of(bytes);
    }
    buffer.extend_from_slice(rest(copied));
    hash_of(buffer.as_slice())
}

/// Whether a line begins with a number that a listing or a search gave it.
fn shows_number(line: &str) -> bool {
    let (number, behind) = leading_number(line);
    !number.is_empty() && behind.starts_with(['\t', ':', '|', '-'])
}

/// Whether a line is blank but for the number that a listing gave it.
fn is_only_numbered(line: &str) -> bool {
    let number = line.trim();
    line.starts_with([' ', '\t'])
        && number
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b':' || b == b'-' || b == b'|')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Vec<DigestLine> {
        let quote = Quote {
            part: Part::Text,
            depth: 1,
            first: Some(1),
        };
        let mut lines = Vec::new();
        quoted_lines(text, quote, &Cancel::default(), &mut lines).unwrap();
        lines
    }

    #[test]
    fn sentences_are_prose_in_pages_and_not_in_code() {
        let page = "A module has little lead in its layer.\n\nIt is not known how it dissolves.\n";
        let code = concat!(
            "fn lead(module: &Module) -> f64 {\n",
            "    // It is not known how much of it dissolves.\n",
            "    module.layers.iter().map(|layer| layer.mass).sum()\n}\n"
        );
        let prose = |text| {
            let lines = quoted(text).into_iter();
            lines
                .filter(|line| line.standing == Standing::Prose)
                .count()
        };
        assert_eq!((prose(page), prose(code)), (2, 0));
    }

    #[test]
    fn what_a_log_calls_a_failure_is_one_however_few_lines_are_alike() {
        let paths = ["GET /cart", "POST /pay", "GET /health"];
        let line = |n: usize| format!("03:00:{n:02} INFO http {} 200 {n}ms", paths[n % 3]);
        let mut log: Vec<String> = (0..12).map(line).collect();
        log.push("03:01:02 ERROR client: too many open connections (max=40)".to_owned());
        log.push("03:01:03 FATAL health: pool exhausted, exiting".to_owned());
        let lines = quoted(&log.join("\n"));
        let failures = lines
            .iter()
            .filter(|line| line.standing == Standing::Failure);
        assert_eq!(failures.count(), 2);
    }

    #[test]
    fn what_a_text_comes_to_is_marked() {
        let text = "# Report\n\n## Summary\nThe time to live of all keys fell to 15 minutes.\n\n\
            ## Details\n- before: 24h\nThe author of the change is on leave until Monday.\n";
        let standings = |depth| {
            let quote = Quote {
                part: Part::Text,
                depth,
                first: Some(1),
            };
            let mut lines = Vec::new();
            quoted_lines(text, quote, &Cancel::default(), &mut lines).unwrap();
            let is_it = |line: &DigestLine| line.standing == Standing::Conclusion;
            lines.iter().map(is_it).collect::<Vec<_>>()
        };
        let of_summary = [false, false, true, false, false, false];
        assert_eq!(standings(1), of_summary);
        assert_eq!(standings(2), of_summary);
        // Without such a heading, a text in a record says first what it is about.
        let mail = "New number: 26NO (the old one of last week is not valid any longer).\nRegards";
        let quote = |depth| Quote {
            part: Part::Text,
            depth,
            first: None,
        };
        let first = |depth| {
            let mut lines = Vec::new();
            quoted_lines(mail, quote(depth), &Cancel::default(), &mut lines).unwrap();
            lines[0].standing == Standing::Conclusion
        };
        assert_eq!((first(1), first(2)), (false, true));
    }

    #[test]
    fn rows_of_a_short_table_are_not_repetitive() {
        let table = |rows: u32| {
            let row = |n| format!("| {} | {} |\n", 1_900 + n, n * 37_111 % 9_973);
            let rows: String = (0..rows).map(row).collect();
            quoted(&format!("| year | units |\n|---|---|\n{rows}")).into_iter()
        };
        let alike = |line: &DigestLine| line.standing == Standing::Alike;
        assert_eq!(table(30).filter(alike).count(), 0);
        assert_eq!(table(60).filter(alike).count(), 58);
    }

    #[test]
    fn lines_have_the_numbers_of_the_text_that_they_are_from() {
        let text = "import os\n\n\n\ndef f():\n    pass\n.\n.\n.\n\n12: x\nend\n";
        let lines = quoted(text);
        let told: Vec<(&str, u8, u32)> = lines
            .iter()
            .map(|line| (line.text.as_str(), line.blank_above, line.number))
            .collect();
        let expected = [
            ("import os", 0, 1),
            ("def f():", 2, 5),
            ("    pass", 0, 6),
            (". (×3)", 0, 7),
            ("12: x", 1, 0),
            ("end", 0, 12),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_paragraph_is_told_by_its_sentences() {
        let all: Vec<&str> = sentences("1. Go. Do not stop! 不要海鲜。好的").collect();
        assert_eq!(all, ["1. Go.", " Do not stop!", " 不要海鲜。", "好的"]);
    }

    #[test]
    fn short_clauses_stay_together() {
        let short = "No sailing came back for the 15th; the 16th has one at 8:00.";
        assert_eq!(sentences(short).collect::<Vec<_>>(), [short]);
        let long = format!("{}; it is late.", "x".repeat(CLAUSE_BYTES));
        assert_eq!(sentences(&long).count(), 2);
        assert_eq!(sentences("不要海鲜；也不要牛肉。").count(), 1);
    }

    #[test]
    fn a_full_stop_within_a_sentence_does_not_end_it() {
        let text = "Sole pump, ca. 46.900 € or approx. half. Ask Dr. Li and J. Roe. Then go.";
        let all: Vec<&str> = sentences(text).collect();
        assert_eq!(
            all,
            [
                "Sole pump, ca. 46.900 € or approx. half.",
                " Ask Dr. Li and J. Roe.",
                " Then go."
            ]
        );
    }

    #[test]
    fn repetitive_lines_are_told_from_the_failure_between_them() {
        let mut text: Vec<String> = (0..20)
            .map(|n| format!("10:{n} GET /orders/{} 200 {n}ms", n * 17))
            .collect();
        text.insert(
            9,
            "ERROR failed to reserve stock\n  at Stock.java".to_owned(),
        );
        let lines = quoted(&text.join("\n"));
        let standing = |at: usize| lines[at].standing;
        assert_eq!(
            (standing(0), standing(21)),
            (Standing::Usual, Standing::Usual)
        );
        assert_eq!(
            (standing(3), standing(15)),
            (Standing::Alike, Standing::Alike)
        );
        // Those beside the failure tell what it came from and what came of it.
        let beside = [6, 7, 8, 11, 12, 13].map(standing);
        let usual = Standing::Usual;
        let alike = Standing::Alike;
        assert_eq!(beside, [alike, usual, usual, usual, usual, alike]);
        assert_eq!(
            (standing(9), standing(10)),
            (Standing::Failure, Standing::Failure)
        );
    }
}
