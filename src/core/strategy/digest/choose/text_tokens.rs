//! Tokens of lines: those that are chosen are counted again as often as a digest is filled.

use std::cell::RefCell;

use crate::core::strategy::maps::Map;
use crate::core::tokens::Encoding;

/// Once there are so many texts, or bytes of them, all are forgotten. Longer ones are not kept.
const MOST_TEXTS: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;
const LONGEST_TEXT: usize = 8 << 10;

/// The tokens of texts, each counted once.
#[derive(Debug)]
pub(in crate::core::strategy) struct TextTokens {
    encoding: Encoding,
    counted: RefCell<Counted>,
}

/// By the text itself: whether a list fits is told by these.
#[derive(Debug, Default)]
struct Counted {
    of_texts: Map<Box<str>, u64>,
    bytes: usize,
}

impl TextTokens {
    /// Nothing is counted yet.
    pub(in crate::core::strategy) fn new(encoding: Encoding) -> Self {
        TextTokens {
            encoding,
            counted: RefCell::default(),
        }
    }

    /// Tokens of a text.
    pub(in super::super) fn of(&self, text: &str) -> u64 {
        let counted = &mut *self.counted.borrow_mut();
        if let Some(tokens) = counted.of_texts.get(text) {
            return *tokens;
        }
        let tokens = self.encoding.count(text);
        if text.len() > LONGEST_TEXT {
            return tokens;
        }
        if counted.of_texts.len() >= MOST_TEXTS || counted.bytes + text.len() > MOST_BYTES {
            *counted = Counted::default();
        }
        counted.bytes += text.len();
        counted.of_texts.insert(text.into(), tokens);
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_texts_are_not_all_kept() {
        let tokens = TextTokens::new(Encoding::O200K);
        for text in ["a line", "another", "a line"] {
            assert_eq!(tokens.of(text), Encoding::O200K.count(text));
        }
        assert_eq!(tokens.counted.borrow().of_texts.len(), 2);
        for n in 0..MOST_TEXTS + 8 {
            tokens.of(&n.to_string());
        }
        assert_eq!(tokens.counted.borrow().of_texts.len(), 10);
        let long = |n: usize| format!("{n} {}", "x".repeat(LONGEST_TEXT - 10));
        for n in 0..MOST_BYTES / LONGEST_TEXT + 5 {
            tokens.of(&long(n));
        }
        assert!(tokens.counted.borrow().bytes <= MOST_BYTES);
        tokens.of(&"y".repeat(LONGEST_TEXT + 1));
        assert!(tokens.counted.borrow().bytes <= MOST_BYTES);
    }
}
