//! Names in scripts that put no blanks between words: who asks `这家餐馆的营业时间是？` names the key
//! `营业时间`, and Korean puts endings to names.

use crate::core::strategy::maps::Map;

/// The characters of names that are looked for. Those of two are only taken in Korean: in Chinese
/// they are mostly what a whole kind of things is called, as `餐馆`.
const CHARS: std::ops::RangeInclusive<usize> = 2..=24;
/// The part of a text in which they are looked for: its end (bytes).
const SEARCHED_BYTES: usize = 16 * 1_024;

/// The lengths of known words, by the character that they begin with.
#[derive(Default)]
pub(super) struct Unspaced {
    /// Bit `n` stands for `n` characters.
    lengths: Map<char, u32>,
}

impl Unspaced {
    /// Notes a known word.
    pub(super) fn note(&mut self, word: &str) {
        let first = word.chars().next().filter(|c| is_unspaced(*c));
        if let Some(first) = first {
            let chars = word.chars().count();
            let is_long = chars > *CHARS.start() || is_hangul(first);
            if CHARS.contains(&chars) && is_long {
                *self.lengths.entry(first).or_default() |= 1 << chars;
            }
        }
    }

    /// Finds known words within a text, from the left, of those that begin at the same place the
    /// longest. `is_known` tells whether a part of the text is one.
    pub(super) fn find<'t>(&self, text: &'t str, mut is_known: impl FnMut(&'t str) -> bool) {
        if self.lengths.is_empty() {
            return;
        }
        let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
        let mut rest = text.get(from..).unwrap_or_default();
        let mut is_within = false;
        while let Some(first) = rest.chars().next() {
            let lengths = self.lengths.get(&first).copied().unwrap_or_default();
            // Korean has blanks before words.
            let is_inside = is_within && is_hangul(first);
            is_within = is_hangul(first);
            let found = if lengths == 0 || is_inside {
                None
            } else {
                longest(rest, lengths, &mut is_known)
            };
            let end = found.unwrap_or(first.len_utf8());
            rest = rest.get(end..).unwrap_or_default();
        }
    }
}

/// The bytes of the longest known word that a text begins with, of these lengths.
fn longest<'t>(
    text: &'t str,
    lengths: u32,
    is_known: &mut impl FnMut(&'t str) -> bool,
) -> Option<usize> {
    // Where each character of the text ends, as far as a word reaches.
    let mut ends = [0; 1 + *CHARS.end()];
    let mut chars = 0;
    for (end, (at, c)) in ends.iter_mut().skip(1).zip(text.char_indices()) {
        *end = at + c.len_utf8();
        chars += 1;
    }
    let fits = |chars: &usize| lengths & (1 << chars) != 0;
    (*CHARS.start()..=chars)
        .rev()
        .filter(fits)
        .find_map(|chars| {
            let end = *ends.get(chars)?;
            is_known(text.get(..end)?).then_some(end)
        })
}

/// Whether words of a character's script stand side by side without blanks, as in Chinese and
/// Japanese, or take endings, as in Korean.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

fn is_hangul(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(known: &[&str], text: &'t str) -> Vec<&'t str> {
        let mut unspaced = Unspaced::default();
        for word in known {
            unspaced.note(word);
        }
        let mut found = Vec::new();
        unspaced.find(text, |part| {
            let is_known = known.contains(&part);
            found.extend(is_known.then_some(part));
            is_known
        });
        found
    }

    #[test]
    fn known_words_are_found_within_a_sentence() {
        let known = ["营业时间", "时间表", "餐馆", "司马台长城"];
        assert_eq!(found(&known, "这家餐馆的营业时间是？"), ["营业时间"]);
        let known = ["서울", "ひまわり"];
        assert_eq!(found(&known, "서울에서 このひまわりは"), known);
        assert_eq!(found(&["대구"], "확대구간"), [""; 0]);
        // Other scripts have blanks, and short words are part of too many.
        assert_eq!(found(&["art", "是", "餐馆"], "party 餐馆是"), [""; 0]);
    }

    #[test]
    fn only_the_end_of_a_long_text_is_searched() {
        let text = format!("大餐馆{}时间表", "的".repeat(SEARCHED_BYTES));
        assert_eq!(found(&["大餐馆", "时间表"], &text), ["时间表"]);
    }
}
