//! The byte-pair vocabularies, and which of two counters counts with each of them.
//!
//! - The crate `tiktoken` counts with `o200k_base` and `cl100k_base`, which nearly all requests
//!   need. It returns the same numbers as tiktoken-rs (a test compares them), several times faster
//!   and without its panic on very long runs of white space. It also carries other makers'
//!   vocabularies under licences with conditions. Its lookups by name would link them all, so
//!   nothing here may name one of its encodings at run time.
//! - The crate `tiktoken-rs`, OpenAI's reference ported, counts with `p50k_base` and `r50k_base`,
//!   for which the other crate has no fast path. It also resolves model names (see
//!   [`Encoding::for_model`]). Its lookups by name link all vocabularies as text, so here too only
//!   the two that are needed are named.
//!
//! A vocabulary is loaded when the first text is counted with it, or by [`Vocabulary::load`].
//!
//! What tiktoken-rs costs, measured on x86-64 in the release profile: 2.2 MB of binary (20.7 MB
//! without it, 22.9 MB with it, the text of two vocabularies most of that) and no idle memory (66.5
//! MB of anonymous memory with and without it).
//!
//! [`Encoding::for_model`]: crate::core::tokens::Encoding::for_model

use std::sync::OnceLock;

use tiktoken_rs::tokenizer::Tokenizer;

use super::runs::{BLOCK, Part, parts};

/// So many blocks of long words in one text are counted. A token has a byte at least: of what is
/// behind them that is never too low.
const COUNTED_BLOCKS: usize = 16;

/// A byte-pair vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// `o200k_base`: gpt-4o and later, and the yardstick for models of other makers.
    /// `o200k_harmony` of gpt-oss has the same merges.
    O200k,
    /// `cl100k_base`: gpt-4, gpt-3.5.
    Cl100k,
    /// `p50k_base`: text-davinci-002 and -003, the first code models.
    P50k,
    /// `r50k_base`: GPT-3 and GPT-2.
    R50k,
}

type Fast = tiktoken::CoreBpe;
type Reference = &'static tiktoken_rs::CoreBPE;

static O200K: OnceLock<Fast> = OnceLock::new();
static CL100K: OnceLock<Fast> = OnceLock::new();
static P50K: OnceLock<Reference> = OnceLock::new();
static R50K: OnceLock<Reference> = OnceLock::new();

/// A loaded vocabulary.
enum Counter {
    Fast(&'static Fast),
    Reference(Reference),
}

impl Vocabulary {
    /// The vocabulary of a tokenizer of OpenAI's.
    pub(super) fn of_tokenizer(tokenizer: Tokenizer) -> Self {
        match tokenizer {
            Tokenizer::O200kHarmony | Tokenizer::O200kBase => Vocabulary::O200k,
            Tokenizer::Cl100kBase => Vocabulary::Cl100k,
            // The edit models have further special tokens, which no text of a client's contains.
            Tokenizer::P50kBase | Tokenizer::P50kEdit => Vocabulary::P50k,
            Tokenizer::R50kBase | Tokenizer::Gpt2 => Vocabulary::R50k,
        }
    }

    /// Loads the vocabulary unless it is loaded. The first time takes some 100 ms and 50 MB.
    pub fn load(self) {
        self.counter();
    }

    /// Whether counting can begin at once.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        match self {
            Vocabulary::O200k => O200K.get().is_some(),
            Vocabulary::Cl100k => CL100K.get().is_some(),
            Vocabulary::P50k => P50K.get().is_some(),
            Vocabulary::R50k => R50K.get().is_some(),
        }
    }

    fn counter(self) -> Counter {
        use Counter::{Fast, Reference};
        match self {
            Vocabulary::O200k => Fast(O200K.get_or_init(tiktoken::encoding::o200k_base)),
            Vocabulary::Cl100k => Fast(CL100K.get_or_init(tiktoken::encoding::cl100k_base)),
            Vocabulary::P50k => Reference(P50K.get_or_init(tiktoken_rs::p50k_base_singleton)),
            Vocabulary::R50k => Reference(R50K.get_or_init(tiktoken_rs::r50k_base_singleton)),
        }
    }

    /// Tokens of `text`, at most its bytes, in a time that is linear in them. Special tokens inside
    /// it count as the text they are. Of words of more than 11 kB, parts are counted, and from 16
    /// parts on that differ, their bytes.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        if text.len() < 2 * BLOCK {
            return self.count_words(text);
        }
        let (mut last, mut counted) = (("", 0), 0);
        let of_part = |part| match part {
            Part::Text(words) => self.count_words(words),
            Part::Run(block) if block == last.0 => last.1,
            Part::Run(block) if counted == COUNTED_BLOCKS => block.len() as u64,
            Part::Run(block) => {
                counted += 1;
                last = (block, self.count_words(block));
                last.1
            }
        };
        parts(text).map(of_part).sum()
    }

    fn count_words(self, text: &str) -> u64 {
        match self.counter() {
            Counter::Fast(bpe) => bpe.count(text) as u64,
            Counter::Reference(bpe) => pieces(text)
                .map(|piece| bpe.count_ordinary(piece) as u64)
                .sum(),
        }
    }
}

/// The longest text that tiktoken-rs is given at once, bytes. Its regular expressions panic on a
/// run of white space of about a million characters.
const PIECE_BYTES: usize = 64 * 1_024;

/// A text in pieces of at most [`PIECE_BYTES`].
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, left) = rest.split_at_checked(cut(rest))?;
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Where the first piece of a text ends: before the last run of white space that begins in the
/// piece, where the regular expressions split as well, so that the count stays exact. A run of
/// white space or of letters that is longer than a piece is cut, which may add a token for each
/// cut.
fn cut(text: &str) -> usize {
    if text.len() <= PIECE_BYTES {
        return text.len();
    }
    let end = text.floor_char_boundary(PIECE_BYTES);
    let head = text.get(..end).unwrap_or(text);
    let before_last_word = head.trim_end_matches(|c: char| !c.is_whitespace());
    match before_last_word.trim_end().len() {
        0 => end,
        boundary => boundary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_before_white_space() {
        let words = "some words\n\n of  a text ".repeat(10_000);
        let parts: Vec<&str> = pieces(&words).collect();
        assert_eq!(parts.concat(), words);
        assert!(parts.len() > words.len() / PIECE_BYTES);
        for part in parts.iter().skip(1) {
            assert!(part.len() <= PIECE_BYTES && part.starts_with(char::is_whitespace));
        }
        for ends in parts.iter().rev().skip(1) {
            assert!(!ends.ends_with(char::is_whitespace));
        }
        assert_eq!(pieces("").count(), 0);
        assert_eq!(pieces("short").collect::<Vec<_>>(), ["short"]);
    }

    #[test]
    fn a_long_word_counts_about_as_its_parts_and_never_too_low() {
        let o200k = Vocabulary::O200k;
        for unit in ["a", "/", " ", "漢", "abc"] {
            let word = |bytes: usize| unit.repeat(bytes / unit.len());
            let part = o200k.count_words(&word(BLOCK)) as f64;
            let whole = o200k.count(&word(100 * BLOCK)) as f64;
            assert!(
                (part * 98.0..part * 102.0).contains(&whole),
                "{unit:?}: {part}, {whole}"
            );
        }
        // Parts that differ: their bytes, from a number of them on.
        let mut seed = 7_u32;
        let letters: String = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (seed >> 24) as u8 % 26)
        })
        .take(300_000)
        .collect();
        let (found, truth) = (o200k.count(&letters), o200k.count_words(&letters));
        assert!(
            (truth..=letters.len() as u64).contains(&found),
            "{found}, {truth}"
        );
    }

    #[test]
    fn a_run_without_a_boundary_is_cut_all_the_same() {
        for unit in [" ", "漢", "a", "\n\u{3000}"] {
            let run = unit.repeat(300_000 / unit.len());
            let parts: Vec<&str> = pieces(&run).collect();
            assert_eq!(parts.concat(), run);
            assert!(parts.iter().all(|part| part.len() <= PIECE_BYTES));
            assert!(parts.len() <= 6, "{unit:?}: {}", parts.len());
        }
    }
}
