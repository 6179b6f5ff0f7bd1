//! Words and their scores. The form of a word says how likely later calls need it: identifiers,
//! numbers, dates and paths score highest.

/// Longest word, in bytes. Longer runs are data, not names, except in scripts without blanks.
const LONGEST_WORD: usize = 80;
/// Longest word of such a script; longer runs are cut into pieces.
const LONGEST_PIECE: usize = 24;

/// Least score of a value that is informative on its own, unlike small numbers, times of day and
/// plain words.
pub(in crate::core) const INFORMATIVE: f32 = 0.75;

/// The words of a text: runs of letters and digits, with the characters that join them in names,
/// paths, dates and numbers.
pub(in crate::core) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    const JOINS: [char; 6] = ['.', '/', '#', '@', ':', '-'];
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || JOINS.contains(&c)))
        .map(|word| {
            word.trim_end_matches(JOINS)
                .trim_start_matches([':', '-', '#', '.'])
        })
        .filter(|word| word.len() >= 2)
        .flat_map(|word| {
            let limit = if word.len() > LONGEST_PIECE && word.chars().any(is_caseless) {
                LONGEST_PIECE
            } else if word.len() > LONGEST_WORD {
                0
            } else {
                LONGEST_WORD
            };
            chunks(word, limit)
        })
}

/// The word in pieces of at most `limit` bytes; none for a limit of 0.
fn chunks(word: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = if limit == 0 { "" } else { word };
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(limit.min(rest.len()));
        let (piece, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether a character is a letter of a script without capitals, whose names cannot begin with one.
fn is_caseless(c: char) -> bool {
    c.is_alphabetic() && !c.is_lowercase() && !c.is_uppercase()
}

/// The parts of a path or dotted name that begin or end at a separator: all of its tails, then all
/// of its heads.
pub(in crate::core) fn parts_of(word: &str) -> impl Iterator<Item = &str> {
    let behind = word
        .match_indices(['/', '.'])
        .filter_map(|(at, cut)| word.get(at + cut.len()..));
    let before = word
        .match_indices(['/', '.'])
        .filter_map(|(at, _)| word.get(..at));
    behind.chain(before).filter(|part| part.len() >= 2)
}

/// The score of a word by its form.
pub(in crate::core) fn shape(word: &str) -> f32 {
    let (mut digits, mut lower, mut upper, mut joins, mut hump) = (0, 0, 0, 0, false);
    let mut before = ' ';
    for c in word.chars() {
        match c {
            '0'..='9' => digits += 1,
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
    match () {
        () if is_time(word) => 0.5,
        () if is_path(word) && letters >= 3 => 3.5,
        () if digits > 0 && letters > 0 => 3.0,
        () if digits > 0 && joins > 0 => 3.0,
        () if digits >= 3 => 2.0,
        () if digits > 0 => 0.5,
        () if joins > 0 => 2.5,
        () if hump => 2.5,
        () if upper > 0 => 1.0,
        () if letters >= 5 => 0.25,
        () => 0.1,
    }
}

/// Whether a word is a time of day, without a date.
fn is_time(word: &str) -> bool {
    word.len() >= 4
        && word.contains(':')
        && word.matches('-').count() < 2
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || b":.-+TZ".contains(&b))
}

/// Whether a word looks like the path of a file or folder. Neither `and/or` nor the `/p` of a
/// closing tag does.
fn is_path(word: &str) -> bool {
    let slashes = word.bytes().filter(|b| *b == b'/').count();
    slashes >= 2 || (slashes == 1 && !word.starts_with('/') && word.contains('.'))
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
    fn a_path_is_worth_more_than_what_only_has_a_slash() {
        for path in ["src/main.rs", "/etc/hosts", "a/b/c"] {
            assert!(is_path(path) && shape(path) >= shape("and/or"), "{path}");
        }
        assert!(
            !is_path("/output") && !is_path("and/or") && shape("and/or") < shape("src/main.rs")
        );
    }
}
