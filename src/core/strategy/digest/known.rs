//! What was found out about the texts of lines: those that a digest shows are those that the next
//! compaction begins with, and one walk over a conversation may make many.

use std::cell::RefCell;
use std::hash::Hash;

use crate::core::strategy::maps::{Map, hash_of};
use crate::core::tokens::Encoding;

/// Once there are so many texts, or bytes of them, all are forgotten. Longer ones are not kept.
const MOST_TEXTS: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;
const LONGEST_TEXT: usize = 8 << 10;

/// What is known of the lines of one conversation. It changes nothing of what is found out, only
/// whether that must be found out again.
#[derive(Debug)]
pub struct KnownLines {
    encoding: Encoding,
    tokens: RefCell<Counts>,
    /// By the hashes of text and kind. Of two with the same one, the choice of lines would be a
    /// worse one.
    forms: RefCell<Map<u64, Form>>,
}

/// Tokens by the text itself: whether a list fits is told by these.
#[derive(Debug, Default)]
struct Counts {
    of_texts: Map<Box<str>, u64>,
    bytes: usize,
}

/// What the form of a text makes of a line of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    /// Added to the score of its words.
    pub own: f32,
    /// The worth of a token as a part of a sentence.
    pub said: f32,
    pub factor: f32,
}

impl KnownLines {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        KnownLines {
            encoding,
            tokens: RefCell::default(),
            forms: RefCell::default(),
        }
    }

    /// Tokens of a text.
    pub(super) fn tokens(&self, text: &str) -> u64 {
        let known = &mut *self.tokens.borrow_mut();
        if let Some(tokens) = known.of_texts.get(text) {
            return *tokens;
        }
        let tokens = self.encoding.count(text);
        if text.len() > LONGEST_TEXT {
            return tokens;
        }
        if known.of_texts.len() >= MOST_TEXTS || known.bytes + text.len() > MOST_BYTES {
            *known = Counts::default();
        }
        known.bytes += text.len();
        known.of_texts.insert(text.into(), tokens);
        tokens
    }

    /// What the form of a text makes of lines of a `kind`.
    pub(super) fn form(&self, text: &str, kind: impl Hash, find: impl FnOnce() -> Form) -> Form {
        let mut known = self.forms.borrow_mut();
        let key = hash_of(&(text, kind));
        if known.len() >= MOST_TEXTS && !known.contains_key(&key) {
            known.clear();
        }
        *known.entry(key).or_insert_with(find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(own: f32) -> Form {
        Form {
            own,
            said: 0.0,
            factor: 1.0,
        }
    }

    #[test]
    fn what_was_found_is_not_looked_for_again() {
        let known = KnownLines::new(Encoding::O200K);
        assert_eq!(known.form("a line", 1, || form(2.0)).own, 2.0);
        let again = known.form("a line", 1, || panic!("it is known"));
        assert_eq!(again.own, 2.0);
        assert_eq!(known.form("a line", 2, || form(3.0)).own, 3.0, "a kind");
        assert_eq!(known.form("another", 1, || form(4.0)).own, 4.0);
        for text in ["a line", "another", "a line"] {
            assert_eq!(known.tokens(text), Encoding::O200K.count(text));
        }
        assert_eq!(known.tokens.borrow().of_texts.len(), 2);
    }

    #[test]
    fn many_texts_are_not_all_kept() {
        let known = KnownLines::new(Encoding::O200K);
        for kind in 0..u32::try_from(MOST_TEXTS).unwrap() + 10 {
            let own = f32::from(u16::try_from(kind % 7).unwrap());
            assert_eq!(known.form("a line", kind, || form(own)).own, own);
            known.tokens(&kind.to_string());
        }
        assert_eq!(known.forms.borrow().len(), 10);
        assert_eq!(known.tokens.borrow().of_texts.len(), 10);
        let long = |n: usize| format!("{n} {}", "x".repeat(LONGEST_TEXT - 10));
        for n in 0..MOST_BYTES / LONGEST_TEXT + 5 {
            known.tokens(&long(n));
        }
        assert!(known.tokens.borrow().bytes <= MOST_BYTES);
        known.tokens(&"y".repeat(LONGEST_TEXT + 1));
        assert!(known.tokens.borrow().bytes <= MOST_BYTES);
    }
}
