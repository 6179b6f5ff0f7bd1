//! Cuts what was said into sentences, and long lines into pieces.

use super::lexicon::ABBREVIATIONS;
use super::speech::limits_what_is_before;

/// What ends by a semicolon is a sentence of its own from this length on (bytes).
const CLAUSE_BYTES: usize = 240;
/// A statement up to this length goes with the sentence that limits it (bytes).
const LIMITED_BYTES: usize = 240;
/// How far before a full stop a bracket or a quotation is looked for (bytes).
const OPEN_BYTES: usize = 120;
/// What stands before and behind code.
const CODE: u8 = b'`';
/// The longest word that is an abbreviation before another one (characters).
const ABBREVIATION: usize = 5;

/// The sentences of a paragraph, each with the blanks behind it.
pub(in crate::core) fn sentences(text: &str) -> impl Iterator<Item = &str> {
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
            let ends = ends && !goes_on(rest, at, after);
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

/// Whether what stands behind the end of a sentence belongs to it: what limits it, or a remark in
/// brackets, which may take it back; or the end stands within code, as in `a ?? b`.
fn goes_on(text: &str, at: usize, after: usize) -> bool {
    let (before, behind) = text.split_at_checked(after).unwrap_or((text, ""));
    let next = behind.trim_start();
    let remarks = || next.starts_with('(') || limits_what_is_before(behind);
    (at < LIMITED_BYTES && remarks()) || is_in_code(before, behind)
}

/// Whether the code that was opened last before an end goes on behind it.
fn is_in_code(before: &str, behind: &str) -> bool {
    let opened = memchr::memchr_iter(CODE, before.as_bytes()).count();
    let near = behind.get(..behind.floor_char_boundary(OPEN_BYTES));
    !opened.is_multiple_of(2) && near.is_some_and(|near| near.bytes().any(|b| b == CODE))
}

/// Whether a full stop followed by a blank ends no sentence: what follows begins small or is a
/// number, as in `ca. 7 kW`, or it stands behind a title or a single letter, as in `Dr. J. Li`, or
/// behind the number of an item or a place, as in `- [ ] 2. Call him` and `2. OG`.
fn is_within_sentence(before: &str, after: Option<&str>) -> bool {
    let next = after.and_then(|after| after.trim_start().chars().next());
    let goes_on = next.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit());
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next();
    let is_title = word.is_some_and(|word| {
        ABBREVIATIONS.contains(word)
            || word.chars().count() == 1
            || (word.len() == 2 && word.bytes().all(|b| b.is_ascii_digit()))
    });
    goes_on || is_title || is_open(before) || is_one_of_two(word, after)
}

/// Whether a word with a full stop, and the one behind it, are abbreviations that a sentence goes
/// on after: `print Phil. Trans. ends at v. 80`.
fn is_one_of_two(word: Option<&str>, after: Option<&str>) -> bool {
    let is_short = |word: &str| (2..=ABBREVIATION).contains(&word.chars().count());
    let next = after.and_then(|after| after.trim_start().split_once(". "));
    word.is_some_and(is_short)
        && next.is_some_and(|(next, behind)| {
            is_short(next)
                && next.chars().all(char::is_alphabetic)
                && behind.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit())
        })
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

/// Cuts a text into pieces of at most about `limit` bytes: after a sentence if possible, otherwise
/// between words, and between characters as a last resort. The pieces concatenate to the text.
pub fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, behind) = rest
            .split_at_checked(cut_at(rest, limit))
            .unwrap_or((rest, ""));
        rest = behind;
        Some(piece)
    })
}

fn cut_at(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let window = text
        .get(..text.floor_char_boundary(limit.max(4)))
        .unwrap_or(text);
    let least = window.len() / 3;
    let after =
        |found: Option<usize>, width: usize| found.map(|at| at + width).filter(|at| *at > least);
    let ends = [". ", "! ", "? ", "; ", "。"];
    // In `20. May`, the number ends no sentence.
    let ends_one = |at: &usize| {
        let before = window
            .get(..*at)
            .and_then(|before| before.chars().next_back());
        before.is_none_or(|c| !c.is_ascii_digit())
    };
    let last_of = |end: &str| {
        let mut found = window.rmatch_indices(end).map(|(at, _)| at).take(2);
        found.find(|at| !end.starts_with('.') || ends_one(at))
    };
    let sentence = ends
        .iter()
        .filter_map(|end| after(last_of(end), end.len()))
        .max();
    sentence
        .or_else(|| after(window.rfind(", "), 2))
        .or_else(|| {
            after(window.rfind(char::is_whitespace), 1).map(|at| window.ceil_char_boundary(at))
        })
        .or_else(|| after(window.rfind([',', '/', '|', ';', '&']), 1))
        .unwrap_or(window.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_no_sentence() {
        let text = "Come to us at last. Register by 20. May or later, but not in June";
        assert_eq!(pieces(text, 40).next(), Some("Come to us at last. "));
    }

    #[test]
    fn pieces_lose_nothing() {
        for text in [
            "One. Two two. Three three three.",
            "漢字かな漢字かな漢字かな",
            "",
            "word ".repeat(40).as_str(),
            &"x".repeat(100),
        ] {
            let all: Vec<&str> = pieces(text, 16).collect();
            assert_eq!(all.concat(), *text);
            assert!(all.iter().all(|piece| piece.len() <= 18), "{all:?}");
        }
    }

    #[test]
    fn a_paragraph_is_told_by_its_sentences() {
        let all: Vec<&str> = sentences("1. Go. Do not stop! 不要海鲜。好的").collect();
        assert_eq!(all, ["1. Go.", " Do not stop!", " 不要海鲜。", "好的"]);
    }

    #[test]
    fn remarks_code_and_abbreviations_end_no_sentence() {
        let remark = "Is 380 V needed there? (no, my mistake, 220)";
        assert_eq!(sentences(remark).collect::<Vec<_>>(), [remark]);
        let code = "Take `own ?? label.own`, never a literal.";
        assert_eq!(sentences(code).collect::<Vec<_>>(), [code]);
        let short = "In print Phil. Trans. ends at v. 800. Then go.";
        let all: Vec<&str> = sentences(short).collect();
        assert_eq!(all, ["In print Phil. Trans. ends at v. 800.", " Then go."]);
        let plain = "I will call him. Then go. The end is near.";
        assert_eq!(sentences(plain).count(), 3);
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
}
