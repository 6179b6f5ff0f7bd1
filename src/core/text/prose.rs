//! What a line of a text is like: a sentence or not, and whether it stands for itself.

use super::lexicon::{CONCLUSIONS, REFERS_BACK};
use super::speech::words;

/// The fewest plain words of a sentence in a page or a mail, and the fewest letters where words are
/// not told apart by blanks.
const PROSE_WORDS: usize = 6;
const PROSE_LETTERS: usize = 12;
/// The shortest and the longest line that is broken before the next word (bytes).
const BROKEN_BYTES: usize = 56;
const MOST_BROKEN: usize = 132;

/// No heading of a conclusion is longer (bytes).
const LONGEST_HEADING: usize = 48;

/// No word that refers back is longer (bytes).
const LONGEST_WORD: usize = 32;

/// Whether a line of a text is a sentence, as in pages and mails: neither code nor of a log or a
/// table.
#[must_use]
pub fn is_prose(line: &str) -> bool {
    match line.chars().next_back() {
        Some('。' | '！' | '？') => {
            line.chars().filter(|c| c.is_alphabetic()).count() >= PROSE_LETTERS
        }
        Some('.' | '!' | '?' | '"') => has_plain_words(line),
        _ => false,
    }
}

/// Whether a line is a part of a sentence that goes on in the next one, as in letters of which the
/// lines are broken.
#[must_use]
pub fn is_broken_prose(line: &str) -> bool {
    let ends = line.ends_with(|c: char| c.is_alphanumeric() || c == ',');
    ends && (BROKEN_BYTES..=MOST_BROKEN).contains(&line.len()) && has_plain_words(line)
}

/// Whether most words of a line are plain, and there are several.
fn has_plain_words(line: &str) -> bool {
    let is_plain = |word: &str| {
        let word = word.trim_end_matches([',', '.']);
        word.chars().all(char::is_alphabetic)
    };
    let (mut plain, mut other) = (0, 0);
    for word in line.split_whitespace() {
        *(if is_plain(word) {
            &mut plain
        } else {
            &mut other
        }) += 1;
    }
    plain >= PROSE_WORDS && plain > other
}

/// Whether a heading announces what a text comes to: `## Summary`, `**Root cause:**`.
#[must_use]
pub fn is_of_conclusion(heading: &str) -> bool {
    let has_mark = heading.starts_with(['#', '*']) || heading.ends_with([':', '：']);
    if heading.len() > LONGEST_HEADING || !has_mark {
        return false;
    }
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_' | ':' | '.' | '：');
    let plain = heading
        .trim_matches(is_mark)
        .to_lowercase()
        .replace(' ', "_");
    CONCLUSIONS.contains(plain.as_str())
}

/// Whether a sentence begins with a word that stands for, or goes on from, what was said before:
/// `That replaces it.`, `The rest is paid.`, `Without it …`
#[must_use]
pub fn refers_back(sentence: &str) -> bool {
    let is_it = |word: &str| {
        word.len() <= LONGEST_WORD && REFERS_BACK.contains(word.to_lowercase().as_str())
    };
    let mut words = words(sentence);
    let first = words.next();
    let begins = |beginnings: &[&str]| {
        first.is_some_and(|first| {
            beginnings
                .iter()
                .any(|word| first.eq_ignore_ascii_case(word))
        })
    };
    first.is_some_and(is_it)
        || (begins(&["the", "all", "with", "without", "for", "of"])
            && words.next().is_some_and(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_may_need_the_one_before() {
        for needs in [
            "That replaces it.",
            "They need an order.",
            "Das kostet 20 Euro.",
            "The rest is paid.",
            "Without it boats would have less.",
        ] {
            assert!(refers_back(needs), "{needs}");
        }
        for other in [
            "Thatcher won.",
            "The order is paid.",
            "Without a card it fails.",
            "",
            "…",
        ] {
            assert!(!refers_back(other), "{other}");
        }
    }

    #[test]
    fn conclusions_stand_below_their_headings() {
        for heading in ["## Summary", "**Root cause:**", "Fazit:", "### 结论"] {
            assert!(is_of_conclusion(heading), "{heading}");
        }
        for other in ["## Details", "Summary of 2024", "The result is 7.", ""] {
            assert!(!is_of_conclusion(other), "{other}");
        }
    }

    #[test]
    fn prose_is_told_from_code_logs_and_tables() {
        for prose in [
            "Please do not quote this figure before June.",
            "Zwei Bitten habe ich noch, und beide sind wichtig.",
            "这些组件在多哈的温度下会更快老化，请不要引用。",
        ] {
            assert!(is_prose(prose), "{prose}");
        }
        for other in [
            "Done.",
            "let x = y.map(|z| z + 1).sum::<u32>(); // ok.",
            "2026-05-01T10:00:00Z INFO worker=3 took=5ms id=77 ok.",
            "ev-201,2026-05-19T14:00,2026-05-19T15:30,Zahnarzt,true",
            "a title with more than six plain words",
        ] {
            assert!(!is_prose(other), "{other}");
        }
    }
}
