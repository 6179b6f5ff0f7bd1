//! What a line of a text is like: a sentence or not, and whether it stands for itself.

use super::speech::words;

/// The fewest plain words of a sentence in a page or a mail, and the fewest letters where words are
/// not told apart by blanks.
const PROSE_WORDS: usize = 6;
const PROSE_LETTERS: usize = 12;

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

/// Whether a sentence begins with a word that stands for what was said before it.
#[must_use]
pub fn refers_back(sentence: &str) -> bool {
    const WORDS: [&str; 26] = [
        "he", "she", "that", "this", "these", "those", "they", "both", "it", "das", "dies",
        "diese", "dieser", "beide", "cela", "ça", "ceci", "cette", "ces", "eso", "esto", "esa",
        "isso", "isto", "это", "эти",
    ];
    let first = words(sentence).next();
    first.is_some_and(|first| {
        first.len() <= LONGEST_WORD && WORDS.contains(&first.to_lowercase().as_str())
    })
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
        ] {
            assert!(refers_back(needs), "{needs}");
        }
        for other in ["Thatcher won.", "The order is paid.", "", "…"] {
            assert!(!refers_back(other), "{other}");
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
