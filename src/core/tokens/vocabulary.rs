//! How a model's prompt becomes tokens: its vocabulary, what images and audio cost, and what its template adds.
//! One table.
//!
//! The counter is the crate `tiktoken`, which gives the same numbers as tiktoken-rs (a test compares them), several times
//! faster and without its panic on very long runs of white space. Only OpenAI's vocabularies are linked; that crate carries
//! others under licences with conditions, so nothing here may name an encoding at run time.

use std::sync::OnceLock;

use tiktoken::CoreBpe;

use crate::core::models::plain;
use crate::core::tokens::media::Images;

/// A byte-pair vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// `o200k_base`: gpt-4o and later, and the yardstick for models of other makers. `o200k_harmony` of gpt-oss has the
    /// same merges.
    O200k,
    /// `cl100k_base`: gpt-4, gpt-3.5.
    Cl100k,
}

/// How a model's prompt becomes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// For text.
    pub vocabulary: Vocabulary,
    /// What images cost.
    pub images: Images,
    /// What a second of audio costs.
    pub audio_tokens_per_second: u64,
    /// Whether the template of gpt-oss is around it.
    pub harmony: bool,
}

/// Tokens for a second of audio: OpenAI's, and what is assumed of others.
const AUDIO: u64 = 10;
/// The same, by Google's documentation of Gemini.
const GEMINI_AUDIO: u64 = 32;

const fn tiles(vocabulary: Vocabulary, base: u64, tile: u64) -> Encoding {
    Encoding {
        vocabulary,
        images: Images::Tiles { base, tile },
        audio_tokens_per_second: AUDIO,
        harmony: false,
    }
}

const fn o200k(images: Images) -> Encoding {
    Encoding {
        vocabulary: Vocabulary::O200k,
        images,
        audio_tokens_per_second: AUDIO,
        harmony: false,
    }
}

const fn patches(per_mille: u64) -> Encoding {
    o200k(Images::Patches { per_mille })
}

/// Model name prefixes, in lower case; the longest that matches wins, [`Encoding::O200K`] when none does. Figures from
/// OpenAI's guide to images, and those of the other makers.
const ENCODINGS: [(&str, Encoding); 30] = [
    ("gpt-4", Encoding::CL100K),
    ("gpt-3.5", Encoding::CL100K),
    ("gpt-35", Encoding::CL100K),
    ("text-embedding", Encoding::CL100K),
    ("gpt-4o", Encoding::O200K),
    ("gpt-4o-mini", tiles(Vocabulary::O200k, 2_833, 5_667)),
    ("chatgpt-4o", Encoding::O200K),
    ("gpt-4.", Encoding::O200K),
    ("gpt-4.1-mini", patches(1_620)),
    ("gpt-4.1-nano", patches(2_460)),
    ("gpt-4.5", Encoding::O200K),
    // Azure's deployments are named without the point.
    ("gpt-41", Encoding::O200K),
    ("gpt-41-mini", patches(1_620)),
    ("gpt-41-nano", patches(2_460)),
    ("gpt-45", Encoding::O200K),
    ("gpt-5", tiles(Vocabulary::O200k, 70, 140)),
    ("gpt-5-chat", tiles(Vocabulary::O200k, 70, 140)),
    ("gpt-5-mini", patches(1_620)),
    ("gpt-5-nano", patches(2_460)),
    ("o1", tiles(Vocabulary::O200k, 75, 150)),
    ("o3", tiles(Vocabulary::O200k, 75, 150)),
    ("o4", tiles(Vocabulary::O200k, 75, 150)),
    ("o4-mini", patches(1_720)),
    ("computer-use", tiles(Vocabulary::O200k, 65, 129)),
    (
        "gpt-oss",
        Encoding {
            harmony: true,
            ..Encoding::O200K
        },
    ),
    ("claude", o200k(Images::Area)),
    (
        "gemini",
        Encoding {
            audio_tokens_per_second: GEMINI_AUDIO,
            ..o200k(Images::Squares)
        },
    ),
    ("gemma", o200k(Images::Squares)),
    ("text-davinci", Encoding::CL100K),
    ("babbage", Encoding::CL100K),
];

impl Encoding {
    /// `o200k_base`, images by gpt-4o's tiles: what is assumed of models that nobody knows.
    pub const O200K: Encoding = tiles(Vocabulary::O200k, 85, 170);
    /// `cl100k_base`, images by gpt-4's tiles.
    pub const CL100K: Encoding = tiles(Vocabulary::Cl100k, 85, 170);

    /// The encoding of a model, by its name: a maker's path and the mark of a fine-tuned model (`ft:`) left out.
    #[must_use]
    pub fn for_model(model: &str) -> Self {
        let name = plain(model);
        let name = name.strip_prefix("ft:").unwrap_or(&name);
        let known = ENCODINGS
            .iter()
            .filter(|(prefix, _)| name.starts_with(prefix))
            .max_by_key(|(prefix, _)| prefix.len());
        known.map_or(Encoding::O200K, |(_, encoding)| *encoding)
    }

    /// Loads the vocabulary unless it is loaded. Takes some 100 ms and 50 MB the first time.
    pub fn load(self) {
        self.bpe();
    }

    /// Whether counting can begin at once.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        self.cell().get().is_some()
    }

    fn cell(self) -> &'static OnceLock<CoreBpe> {
        static O200K: OnceLock<CoreBpe> = OnceLock::new();
        static CL100K: OnceLock<CoreBpe> = OnceLock::new();
        match self.vocabulary {
            Vocabulary::O200k => &O200K,
            Vocabulary::Cl100k => &CL100K,
        }
    }

    fn bpe(self) -> &'static CoreBpe {
        self.cell().get_or_init(match self.vocabulary {
            Vocabulary::O200k => tiktoken::encoding::o200k_base,
            Vocabulary::Cl100k => tiktoken::encoding::cl100k_base,
        })
    }

    /// Tokens of `text`, at most its bytes, in a time that is linear in them; special tokens inside it count as the text
    /// they are.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        self.bpe().count(text) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_names_the_encoding() {
        let gpt_5 = tiles(Vocabulary::O200k, 70, 140);
        let reasoner = tiles(Vocabulary::O200k, 75, 150);
        let mini = tiles(Vocabulary::O200k, 2_833, 5_667);
        for (model, encoding) in [
            ("gpt-4", Encoding::CL100K),
            ("gpt-4-turbo-2024-04-09", Encoding::CL100K),
            ("gpt-3.5-turbo", Encoding::CL100K),
            ("gpt-35-turbo-16k", Encoding::CL100K),
            ("openai/gpt-4", Encoding::CL100K),
            ("azure/gpt-35-turbo", Encoding::CL100K),
            ("ft:gpt-3.5-turbo:org::id", Encoding::CL100K),
            ("GPT-4o", Encoding::O200K),
            ("gpt-4o-2024-08-06", Encoding::O200K),
            ("chatgpt-4o-latest", Encoding::O200K),
            ("gpt-4.1", Encoding::O200K),
            ("gpt-41-mini", patches(1_620)),
            ("gpt-4.5-preview", Encoding::O200K),
            ("gpt-4o-mini-2024-07-18", mini),
            ("ft:gpt-4o-mini:org::id", mini),
            ("gpt-4.1-mini", patches(1_620)),
            ("gpt-4.1-nano", patches(2_460)),
            ("gpt-5", gpt_5),
            ("gpt-5.2", gpt_5),
            ("gpt-5-mini", patches(1_620)),
            ("o1-preview", reasoner),
            ("o3-mini", reasoner),
            ("o4-mini", patches(1_720)),
            ("anthropic/claude-sonnet-4", o200k(Images::Area)),
            (
                "gemini-2.5-pro",
                Encoding {
                    audio_tokens_per_second: 32,
                    ..o200k(Images::Squares)
                },
            ),
            ("gemma-3-27b", o200k(Images::Squares)),
            ("smollm2", Encoding::O200K),
            ("", Encoding::O200K),
        ] {
            assert_eq!(Encoding::for_model(model), encoding, "{model}");
        }
        assert!(Encoding::for_model("openai/gpt-oss-120b").harmony);
    }
}
