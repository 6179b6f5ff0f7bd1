//! Words and their scores. The form of a word says how likely later calls need it: identifiers,
//! numbers, dates and paths score highest.

use super::bytes::ByteSet;

/// Longest word, in bytes. Longer runs are data, not names, except in scripts without blanks.
const LONGEST_WORD: usize = 80;
/// Longest word of such a script; longer runs are cut into pieces.
const LONGEST_PIECE: usize = 24;

/// The shortest word with a stem, and the longest stem (characters).
const LEAST_STEM: usize = 4;
const MOST_STEM: usize = 5;

/// The characters that words have.
static IN_WORDS: RunChars = RunChars::with(b"_./#@:-");
/// Characters that join the parts of names, paths, dates and numbers.
static JOINS: ByteSet = ByteSet::of(b"./#@:-");
/// Those of them that no word begins with.
static FIRST_JOINS: ByteSet = ByteSet::of(b":-#.");
/// Least score of a value that is informative on its own, unlike small numbers, times of day and
/// plain words.
pub(in crate::core) const INFORMATIVE: f32 = 0.75;

/// The words of a text: runs of letters and digits, with the characters that join them in names,
/// paths, dates and numbers.
pub(in crate::core) fn words_of(text: &str) -> Words<'_> {
    Words {
        rest: text,
        pieces: "",
    }
}

/// The words of a text, in their order.
#[derive(Debug, Clone)]
pub(in crate::core) struct Words<'t> {
    rest: &'t str,
    /// What is left of a run that is told in pieces.
    pieces: &'t str,
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            if !self.pieces.is_empty() {
                let end = self
                    .pieces
                    .floor_char_boundary(LONGEST_PIECE.min(self.pieces.len()));
                let (piece, behind) = self.pieces.split_at_checked(end)?;
                self.pieces = behind;
                return Some(piece);
            }
            let run = IN_WORDS.next(&mut self.rest)?;
            let word = trimmed(run);
            if word.len() > LONGEST_PIECE && !word.is_ascii() && word.chars().any(is_caseless) {
                self.pieces = word;
            } else if (2..=LONGEST_WORD).contains(&word.len()) {
                return Some(word);
            }
        }
    }
}

/// The characters that runs have: some of ASCII, and the letters and digits of other scripts.
pub(super) struct RunChars {
    inside: ByteSet,
    /// The first bytes of what may begin a run.
    begin: ByteSet,
}

impl RunChars {
    /// Those of ASCII are its letters and digits, and `joins`.
    pub(super) const fn with(joins: &[u8]) -> Self {
        RunChars {
            inside: ByteSet::of(joins).and_alphanumeric(),
            begin: ByteSet::of(joins).and_alphanumeric().and(0x80, 0xff),
        }
    }

    /// Whether the last character of a text is one of a run.
    pub(super) fn has_last_of(&self, text: &str) -> bool {
        text.chars().next_back().is_some_and(|c| self.has(c))
    }

    /// The same of the first one.
    pub(super) fn has_first_of(&self, text: &str) -> bool {
        text.chars().next().is_some_and(|c| self.has(c))
    }

    fn has(&self, c: char) -> bool {
        match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => self.inside.has(byte),
            _ => c.is_alphanumeric(),
        }
    }

    /// Takes the next run off a text, with what stands before it.
    #[inline]
    pub(super) fn next<'t>(&self, rest: &mut &'t str) -> Option<&'t str> {
        let text = *rest;
        let behind = |at: usize| text.as_bytes().get(at..).unwrap_or_default();
        let mut begin = 0;
        loop {
            begin += self.begin.run(behind(begin), false);
            if text.as_bytes().get(begin)?.is_ascii() {
                break;
            }
            match of_script(text, begin)? {
                (true, _) => break,
                (false, width) => begin += width,
            }
        }
        let mut end = begin;
        loop {
            end += self.inside.run(behind(end), true);
            if text.as_bytes().get(end).is_none_or(u8::is_ascii) {
                break;
            }
            match of_script(text, end) {
                Some((true, width)) => end += width,
                _ => break,
            }
        }
        *rest = text.get(end..).unwrap_or_default();
        text.get(begin..end)
    }
}

/// Whether the character at `at` is a letter or a digit, and its bytes; `None` at the end of the
/// text.
fn of_script(text: &str, at: usize) -> Option<(bool, usize)> {
    let c = text.get(at..)?.chars().next()?;
    Some((c.is_alphanumeric(), c.len_utf8()))
}

/// A run without the joins that it ends with, and those but slashes and `@` that it begins with.
fn trimmed(run: &str) -> &str {
    let bytes = run.as_bytes();
    let begins = bytes.first().is_some_and(|byte| !FIRST_JOINS.has(*byte));
    if begins && bytes.last().is_some_and(|byte| !JOINS.has(*byte)) {
        return run;
    }
    let last = bytes.iter().rposition(|byte| !JOINS.has(*byte));
    let first = bytes.iter().position(|byte| !FIRST_JOINS.has(*byte));
    let (Some(first), Some(last)) = (first, last) else {
        return "";
    };
    run.get(first..=last).unwrap_or_default()
}

/// Whether a character is a letter of a script without capitals, whose names cannot begin with one.
fn is_caseless(c: char) -> bool {
    c.is_alphabetic() && !c.is_lowercase() && !c.is_uppercase()
}

/// The parts of a path or dotted name that begin or end at a separator: all of its tails, then all
/// of its heads.
pub(in crate::core) fn parts_of(word: &str) -> impl Iterator<Item = &str> {
    let cuts = || {
        let bytes = word.bytes().enumerate();
        bytes.filter_map(|(at, byte)| matches!(byte, b'/' | b'.').then_some(at))
    };
    let behind = cuts().filter_map(|at| word.get(at + 1..));
    let before = cuts().filter_map(|at| word.get(..at));
    behind.chain(before).filter(|part| part.len() >= 2)
}

/// From so many digits on, a fraction has the error of its computation: `0.30000000000000004`.
const COMPUTED_DIGITS: usize = 15;

/// The least score of the form of ids, dates and numbers.
pub(in crate::core) const TELLING: f32 = 2.0;
/// The score of a path or an address.
pub(in crate::core) const PATH: f32 = 3.5;

/// The score of a word by its form.
pub(in crate::core) fn shape(word: &str) -> f32 {
    let (mut digits, mut lower, mut upper, mut joins, mut hump) = (0, 0, 0, 0, false);
    let mut before = ' ';
    for c in word.chars() {
        match c {
            '0'..='9' => digits += 1,
            'a'..='z' => lower += 1,
            c if c.is_uppercase() => {
                upper += 1;
                hump |= before.is_lowercase();
            }
            c if is_caseless(c) => upper += 1,
            c if c.is_alphabetic() => lower += 1,
            _ => joins += 1,
        }
        before = c;
    }
    let letters = lower + upper;
    if digits >= COMPUTED_DIGITS && letters == 0 && joins == 1 && word.contains('.') {
        0.1
    } else if digits > 0 && letters <= 2 && is_time(word) {
        0.5
    } else if joins > 0 && letters >= 3 && is_path(word) {
        PATH
    } else if digits > 0 && (letters > 0 || joins > 0) {
        3.0
    } else if digits >= 3 {
        2.0
    } else if digits > 0 {
        0.5
    } else if joins > 0 || hump {
        2.5
    } else if upper > 0 {
        1.0
    } else if letters >= 5 {
        0.25
    } else {
        0.1
    }
}

/// Whether a word is a time of day, without a date.
fn is_time(word: &str) -> bool {
    word.len() >= 4
        && word.contains(':')
        && word.matches('-').count() < 2
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b'-' | b'+' | b'T' | b'Z'))
}

/// Whether a word looks like the path of a file or folder. Neither `and/or` nor the `/p` of a
/// closing tag does.
fn is_path(word: &str) -> bool {
    let slashes = word.bytes().filter(|b| *b == b'/').count();
    slashes >= 2 || (slashes == 1 && !word.starts_with('/') && word.contains('.'))
}

/// The beginning of a word, in small letters; `\0` where it is shorter.
pub(in crate::core) type Stem = [char; MOST_STEM];

/// The beginning of a longer word: `toallas` and `Toalla` have the same.
pub(in crate::core) fn stem_of(word: &str) -> Option<Stem> {
    let mut stem = ['\0'; MOST_STEM];
    let small = |c: char| match c.to_lowercase().next() {
        Some(small) if !c.is_ascii() => small,
        _ => c.to_ascii_lowercase(),
    };
    stem.iter_mut()
        .zip(word.chars().map(small))
        .for_each(|(at, c)| *at = c);
    stem.get(LEAST_STEM - 1)
        .is_some_and(|last| *last != '\0')
        .then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_names() {
        let words: Vec<&str> =
            words_of("def __init__(self, a_): # see lib/x.py:12, O-17.").collect();
        assert_eq!(
            words,
            [
                "def",
                "__init__",
                "self",
                "a_",
                "see",
                "lib/x.py:12",
                "O-17"
            ]
        );
    }

    #[test]
    fn a_computed_fraction_tells_nothing() {
        for (told, computed) in [
            ("0.66", "0.6799999999999999"),
            ("46.85", "0.30000000000000004"),
        ] {
            assert!(shape(told) > 2.0 && shape(computed) < 0.25);
        }
        assert!(shape("1234567890123456789") > 1.0, "an id");
    }

    #[test]
    fn a_path_is_worth_more_than_what_only_has_a_slash() {
        for path in ["src/main.rs", "/etc/hosts", "a/b/c"] {
            assert!(is_path(path) && shape(path) >= shape("and/or"), "{path}");
        }
        assert!(
            !is_path("/output") && !is_path("and/or") && shape("and/or") < shape("src/main.rs")
        );
    }

    #[test]
    fn words_have_stems() {
        assert_eq!(stem_of("toallas"), stem_of("Toalla"));
        assert_ne!(stem_of("toallas"), stem_of("tomate"));
        assert_eq!(stem_of("all"), None);
    }
}
