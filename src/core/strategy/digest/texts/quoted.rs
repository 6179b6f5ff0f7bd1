//! Texts as they stood: what parties said, sentence by sentence, and the lines of arguments and
//! results.

use std::borrow::Cow;

use super::listed::note_listed;
use super::logs::mark_repetitive;
use super::mail::note_mail;
use super::numbers::Numbers;
use super::outline::note_outline;
use super::passed_on::passed_on;
use super::pasted::pasted_in;
use super::printed::OpenTable;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::lists::{OpenItems, announces, is_rule_of_table, is_table_row};
use crate::core::text::{
    is_broken_prose, is_of_conclusion, is_prose, pieces, quiet_lines, sentences, without_escapes,
    without_noise,
};
use crate::core::{Cancel, Cancelled};

/// The longest line, roughly (bytes): longer ones are cut into pieces that stay or go on their own.
pub(in super::super) const LINE_BYTES: usize = 240;
/// The longest sentence, roughly (bytes).
const SENTENCE_BYTES: usize = 600;
/// The part of a text that sentences make it prose.
const PROSE: f32 = 0.5;
/// The same of the lines that end sentences, where other lines are broken within these.
const ENDS_OF_PROSE: f32 = 0.1;
/// What begins and ends code in what was said.
const FENCES: [&str; 2] = ["```", "~~~"];
/// Tags around what a model thinks in its text.
const THOUGHTS: [&str; 4] = ["<think>", "</think>", "<thinking>", "</thinking>"];
/// Sentences below a heading that say what a text comes to.
const CONCLUDES: usize = 2;
/// Lines of a text in a record of which one may say what it is about.
const OPENING_LINES: usize = 6;
/// Blank lines in a row that are told as they are; more are told as so many.
pub(in super::super) const MOST_BLANK: u8 = 2;

/// How the lines of a text are told.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Quote {
    pub part: Part,
    pub depth: u8,
    /// The number of the text's first line; `None` where its lines have no numbers.
    pub first: Option<u32>,
}

/// Appends the sentences of what a party said. The first of a paragraph begins a line.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn sentences_of(
    text: &str,
    part: Part,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let text = without_noise(text);
    let is_user = part == Part::User;
    let pasted = if is_user {
        pasted_in(&text)
    } else {
        Vec::new()
    };
    let from = out.len();
    // The paragraph that each line is of.
    let mut of: Vec<usize> = Vec::new();
    let mut lists = OpenItems::default();
    let mut is_code = false;
    for (at, paragraph) in text.lines().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if FENCES
            .iter()
            .any(|fence| paragraph.trim_start().starts_with(fence))
        {
            is_code = !is_code;
            lists = OpenItems::default();
            continue;
        }
        // Drafts of texts stand between fences, too.
        if is_code && !is_prose(paragraph.trim()) {
            code_line(paragraph, part, out);
        } else {
            let is_pasted = pasted.get(at) == Some(&true);
            said_lines(paragraph, (part, is_pasted), &mut lists, out);
        }
        of.resize(out.len() - from, at);
    }
    if is_user && let Some(lines) = out.get_mut(from..) {
        note_passed_on(lines, &of, &passed_on(&text));
    }
    Ok(())
}

/// Appends the sentences of a paragraph.
fn said_lines(
    paragraph: &str,
    (part, is_pasted): (Part, bool),
    lists: &mut OpenItems,
    out: &mut Vec<DigestLine>,
) {
    let mut joins = false;
    let inner = paragraph.trim_start();
    let indent = paragraph.len() - inner.len();
    if is_rule_of_table(inner) {
        return;
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
            if is_pasted {
                line.standing = Standing::Pasted;
            }
            line.within = match joins {
                true => lists.read_next(piece),
                false => lists.read(indent, piece),
            };
            out.push(line);
            joins = true;
        }
    }
}

/// Notes what the lines that others wrote need, by their paragraphs: they are not told without the
/// sentence that announces them, nor that without the first one of its paragraph. An order in a
/// mail is not the user's, who asks whether it is a fraud.
fn note_passed_on(lines: &mut [DigestLine], of: &[usize], of_others: &[bool]) {
    let is_of_others = |at: usize| {
        let paragraph = of.get(at).and_then(|paragraph| of_others.get(*paragraph));
        paragraph == Some(&true)
    };
    let mut announces: Option<(usize, usize)> = None;
    for at in 0..lines.len() {
        let joins = lines.get(at).is_some_and(|line| line.joins);
        if !is_of_others(at) {
            let first = announces.map(|(first, _)| first).filter(|_| joins);
            announces = Some((first.unwrap_or(at), at));
            continue;
        }
        if let Some(line) = lines.get_mut(at) {
            line.within = announces.map(|(_, last)| at - last).or(line.within);
        }
        if let Some((first, last)) = announces.filter(|(first, last)| last > first)
            && let Some(line) = lines.get_mut(last)
        {
            line.within = Some(last - first);
        }
    }
}

/// Appends a line of code in what a party said. Its blanks tell what belongs together.
fn code_line(line: &str, part: Part, out: &mut Vec<DigestLine>) {
    let pieces = pieces(line.trim_end(), LINE_BYTES);
    let told = pieces.filter(|piece| !piece.trim().is_empty());
    out.extend(told.map(|piece| DigestLine {
        is_code: true,
        ..DigestLine::new(part, 1, piece)
    }));
}

/// Appends the lines of a text, without terminal noise, long ones in pieces.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn quoted_lines(
    text: &str,
    quote: Quote,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let plain = without_escapes(text);
    let from = out.len();
    let has_several = plain.trim_end().contains('\n');
    let mut numbers = Numbers::from(quote.first);
    let mut blank = 0_u8;
    let quiet: Vec<(Cow<'_, str>, usize)> = quiet_lines(&plain).collect();
    out.reserve(quiet.len());
    let mut table = OpenTable::default();
    for (at, (long, stands_for)) in quiet.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let number = numbers.of(long, *stands_for);
        if long.is_empty() || (has_several && is_only_numbered(long)) {
            blank = blank.saturating_add(u8::try_from(*stands_for).unwrap_or(u8::MAX));
            table.end();
            continue;
        }
        let head = table.read(long, out.len());
        if quote.part == Part::Text && table.is_at_rule() {
            continue;
        }
        let mut goes_on = false;
        let from_section = (long.len() > LINE_BYTES && opens_section(long)).then_some(out.len());
        for (nth, piece) in pieces(long, LINE_BYTES).enumerate() {
            if nth.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let piece = piece.trim_end();
            if !piece.trim_start().is_empty() {
                let mut line = DigestLine::new(quote.part, quote.depth, piece);
                let above = std::mem::take(&mut blank).min(MOST_BLANK);
                line.blank_above = if out.len() > from { above } else { 0 };
                let section = from_section.filter(|first| *first < out.len());
                let above = head.or(section).map(|above| out.len() - above);
                line.within = above.or(goes_on.then_some(1));
                line.is_printed_row = quote.part == Part::Text && head.is_some();
                goes_on = ends_open(piece, long);
                line.number = number;
                out.push(line);
            }
        }
    }
    cancel.check_budget()?;
    if let Some(lines) = out.get_mut(from..) {
        mark(lines, quote.part);
    }
    Ok(())
}

/// Marks the lines of a text by what they are among the others, and notes what each is said of.
fn mark(lines: &mut [DigestLine], part: Part) {
    mark_repetitive(lines);
    if part == Part::Text {
        mark_prose(lines);
        note_mail(lines);
        note_outline(lines);
        note_listed(lines);
        mark_conclusions(lines);
    }
}

/// Whether a paragraph is a numbered section: `3.3 Sihwa. The wall is older.` What is said in it is
/// of that.
fn opens_section(paragraph: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let title = paragraph.trim_start_matches(is_number);
    title.len() < paragraph.len()
        && title
            .strip_prefix(' ')
            .is_some_and(|title| title.starts_with(char::is_uppercase))
}

/// Whether a piece of a long line begins a sentence and ends within it: what follows may say the
/// contrary alone.
fn ends_open(piece: &str, line: &str) -> bool {
    let begins = piece.trim_start().starts_with(|c: char| !c.is_lowercase());
    let ends = piece.ends_with(|c: char| c.is_alphanumeric() || c == ',');
    begins && ends && piece.len() < line.len() && is_prose(line.trim_end())
}

/// Marks the sentences of a text that is mostly sentences.
fn mark_prose(lines: &mut [DigestLine]) {
    let mut prose: Vec<bool> = lines.iter().map(|line| is_prose(&line.text)).collect();
    let bytes = |prose: &[bool]| -> usize {
        let of_prose = lines.iter().zip(prose).filter(|(_, is_prose)| **is_prose);
        of_prose.map(|(line, _)| line.text.len()).sum()
    };
    let all: usize = lines.iter().map(|line| line.text.len()).sum();
    let is_mostly = |prose: &[bool], part: f32| bytes(prose) as f32 >= part * all as f32;
    if !is_mostly(&prose, ENDS_OF_PROSE) {
        return;
    }
    for (at, is_prose) in prose.iter_mut().enumerate() {
        *is_prose = *is_prose || goes_on(lines, at);
    }
    if !is_mostly(&prose, PROSE) {
        return;
    }
    for (line, is_prose) in lines.iter_mut().zip(prose) {
        if is_prose && line.standing == Standing::Usual {
            line.standing = Standing::Prose;
        }
    }
}

/// Whether a line of a text is a part of a sentence that goes on in the next line.
fn goes_on(lines: &[DigestLine], at: usize) -> bool {
    let begins = |line: &DigestLine| {
        line.text
            .starts_with(|c: char| c.is_alphabetic() || c == '(')
    };
    let is_next = |next: &DigestLine| next.blank_above == 0 && begins(next);
    let line = lines
        .get(at)
        .filter(|line| !line.is_printed_row && begins(line));
    let is_followed = || lines.get(at + 1).is_some_and(is_next);
    line.is_some_and(|line| is_followed() && is_broken_prose(&line.text))
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

/// Whether a line is blank but for the number that a listing gave it.
fn is_only_numbered(line: &str) -> bool {
    let of_number = |b: u8| b.is_ascii_digit() || b == b':' || b == b'-' || b == b'|';
    line.starts_with([' ', '\t']) && line.trim().bytes().all(of_number)
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
}
