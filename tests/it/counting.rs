//! The counter against tiktoken-rs, the reference.

use std::panic::catch_unwind;

use baler::core::tokens::Encoding;
use proptest::prelude::*;

fn reference(encoding: Encoding, text: &str) -> u64 {
    let bpe = match encoding {
        Encoding::O200k => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100k => tiktoken_rs::cl100k_base_singleton(),
    };
    bpe.encode_ordinary(text).len() as u64
}

fn same(text: &str) {
    for encoding in [Encoding::O200k, Encoding::Cl100k] {
        assert_eq!(encoding.count(text), reference(encoding, text), "{encoding:?} of {text:?}");
    }
}

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,200}") {
        same(&text);
    }

    #[test]
    fn text_that_regular_expressions_disagree_about(text in "([ \\t\\n\\r\u{a0}\u{3000}]{0,3}('s|'LL|don't|[A-Z]{1,3}[a-z]{0,4}|[0-9]{1,5}|[!?/.{}\"-]{1,4}|漢字|é|🎉|\u{200d}|<\\|endoftext\\|>)){0,30}") {
        same(&text);
    }
}

#[test]
fn hostile_runs_are_counted_in_linear_time_and_without_a_panic() {
    for unit in [" ", "a", "!?", "QUJDREVGR0hJ", "漢字仮名", "👩\u{200d}👧🎉", "\n", "7", " \n\t", "\0", "<|endoftext|>"] {
        let text = unit.repeat(40_000 / unit.len());
        same(&text);
        let long = unit.repeat(1_600_000 / unit.len());
        assert!(catch_unwind(|| Encoding::O200k.count(&long)).is_ok(), "{unit:?}");
    }
}

#[test]
fn real_conversations_count_the_same() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces/coding-session.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        eprintln!("SKIPPED: coding-session.jsonl is not here; counts are compared on generated text only");
        return;
    };
    for piece in text.split("\\n") {
        same(piece);
    }
}
