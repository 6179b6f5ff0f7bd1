//! Words by which sentences and names of tools are told apart: a file of this folder for each kind,
//! by language. They are separated by white space; lines that begin with `#` are comments.

use std::collections::HashSet;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

/// Words, most of them in small letters.
type Words = LazyLock<HashSet<&'static str, FixedState>>;

macro_rules! words {
    ($($(#[$about:meta])* $name:ident: $file:literal;)*) => {$(
        $(#[$about])*
        pub(in crate::core) static $name: Words =
            Words::new(|| read(include_str!(concat!("lexicon/", $file))));
    )*};
}

words! {
    /// What ends by a full stop within a sentence, as it is written.
    ABBREVIATIONS: "abbreviations.txt";
    /// What demands, refuses or limits.
    DEMANDS: "demands.txt";
    /// What begins sentences that take back or replace what was said before.
    CORRECTIONS: "corrections.txt";
    /// What begins sentences that limit what was said before.
    LIMITS: "limits.txt";
    /// What begins sentences that stand for, or go on from, what was said before.
    REFERS_BACK: "refers_back.txt";
    /// What is in later sentences of a message that take back its first ones.
    RETRACTS: "retracts.txt";
    /// What is in clauses that take nothing.
    REFUSALS: "refusals.txt";
    /// Headings below which a text says what it comes to.
    CONCLUSIONS: "conclusions.txt";
    /// What is numbered in texts.
    PARTS: "parts.txt";
    /// All of sentences that only greet, thank or agree.
    POLITE: "polite.txt";
    /// By what somebody says what was decided, agreed or done, and what begins what he comes to.
    DECIDES: "decides.txt";
    SO: "so.txt";
    /// By what who answers suggests, offers, promises or decides something.
    PROPOSES: "proposes.txt";
    /// What says that one helps, looks or waits, and what such sentences have besides.
    SERVES: "serves.txt";
    BESIDES: "besides.txt";
    /// In names of tools that change something, that do unless they only look, and that only look.
    CHANGES: "changes.txt";
    MAY_CHANGE: "may_change.txt";
    LOOKS: "looks.txt";
    /// In answers that say that what was asked for was done, and what those that refuse it begin
    /// with.
    CONFIRMS: "confirms.txt";
    DECLINES: "declines.txt";
}

/// The names of months, a line for each.
pub(super) const MONTHS_BY_NUMBER: &str = include_str!("lexicon/months.txt");

fn read(text: &'static str) -> HashSet<&'static str, FixedState> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_all_files_are_in_small_letters() {
        for words in [
            &DEMANDS,
            &CORRECTIONS,
            &LIMITS,
            &RETRACTS,
            &REFERS_BACK,
            &CONCLUSIONS,
            &REFUSALS,
            &PARTS,
            &POLITE,
            &DECIDES,
            &SO,
            &PROPOSES,
            &SERVES,
            &BESIDES,
            &CHANGES,
            &MAY_CHANGE,
            &LOOKS,
            &CONFIRMS,
            &DECLINES,
        ] {
            assert!(!words.is_empty());
            for word in words.iter() {
                assert_eq!(*word, word.to_lowercase());
            }
        }
    }

    #[test]
    fn comments_are_no_words() {
        let words = read("# English\nnot\tno\n\n# German\nnicht");
        assert_eq!(words, HashSet::from_iter(["not", "no", "nicht"]));
    }
}
