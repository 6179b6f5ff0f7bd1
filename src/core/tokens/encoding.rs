//! How a model's prompt becomes tokens: its vocabulary, what images and audio cost, and whether
//! gpt-oss's template is around it.
//!
//! tiktoken-rs names the vocabulary of OpenAI's models. The tables here have the models that it
//! does not know, and what media cost.

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use crate::core::models::plain;
use crate::core::tokens::Vocabulary;

/// How a model prices images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Images {
    /// A base for any image, and a price for each tile of 512 pixels, after it was shrunk to 2,048
    /// pixels with a shorter side of 768.
    Tiles {
        /// For any image; all there is at `detail: low`.
        base: u64,
        /// For each tile.
        tile: u64,
    },
    /// Patches of 32 pixels, 1,536 at most, times a factor; a part of a token counts as one.
    Patches {
        /// The factor, in thousandths.
        per_mille: u64,
    },
    /// Width × height / 750, 1,600 at most: Anthropic's.
    Area,
    /// 258 for each square of 768 pixels: Google's.
    Squares,
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

/// Model name prefixes, in lower case, of models that tiktoken-rs does not know; the longest that
/// matches wins. Names that match none are counted with [`Vocabulary::O200k`].
const VOCABULARIES: [(&str, Vocabulary); 10] = [
    ("gpt-4", Vocabulary::Cl100k),
    ("gpt-3.5", Vocabulary::Cl100k),
    ("gpt-35", Vocabulary::Cl100k),
    ("text-embedding", Vocabulary::Cl100k),
    ("text-davinci", Vocabulary::Cl100k),
    ("babbage", Vocabulary::Cl100k),
    ("gpt-4o", Vocabulary::O200k),
    ("gpt-4.", Vocabulary::O200k),
    // Azure's deployments are named without the point.
    ("gpt-41", Vocabulary::O200k),
    ("gpt-45", Vocabulary::O200k),
];

/// The prefix of models with the template of gpt-oss; tiktoken-rs does not know Ollama's spelling
/// (`gpt-oss:20b`).
const HARMONY: &str = "gpt-oss";

/// What images cost, by model name prefix in lower case; the longest that matches wins. Figures
/// from OpenAI's guide to images, and those of the other makers.
const IMAGES: [(&str, Images); 17] = [
    ("gpt-4o-mini", tiles(2_833, 5_667)),
    ("gpt-4.1-mini", patches(1_620)),
    ("gpt-4.1-nano", patches(2_460)),
    ("gpt-41-mini", patches(1_620)),
    ("gpt-41-nano", patches(2_460)),
    ("gpt-5", tiles(70, 140)),
    ("gpt-5-mini", patches(1_620)),
    ("gpt-5-nano", patches(2_460)),
    ("o1", tiles(75, 150)),
    ("o3", tiles(75, 150)),
    ("o4", tiles(75, 150)),
    ("o4-mini", patches(1_720)),
    ("computer-use", tiles(65, 129)),
    ("claude", Images::Area),
    ("gemini", Images::Squares),
    ("gemma", Images::Squares),
    ("", tiles(85, 170)),
];

const fn tiles(base: u64, tile: u64) -> Images {
    Images::Tiles { base, tile }
}

const fn patches(per_mille: u64) -> Images {
    Images::Patches { per_mille }
}

const fn plain_text(vocabulary: Vocabulary) -> Encoding {
    Encoding {
        vocabulary,
        images: tiles(85, 170),
        audio_tokens_per_second: AUDIO,
        harmony: false,
    }
}

impl Encoding {
    /// `o200k_base`, images by gpt-4o's tiles: what is assumed of unknown models.
    pub const O200K: Encoding = plain_text(Vocabulary::O200k);
    /// `cl100k_base`, images by gpt-4's tiles.
    pub const CL100K: Encoding = plain_text(Vocabulary::Cl100k);

    /// The encoding of a model, by its name: a maker's path and the mark of a fine-tuned model
    /// (`ft:`) left out.
    #[must_use]
    pub fn for_model(model: &str) -> Self {
        let name = plain(model);
        let tokenizer = get_tokenizer(&name);
        let name = name.strip_prefix("ft:").unwrap_or(&name);
        let vocabulary = tokenizer
            .map(Vocabulary::of_tokenizer)
            .or_else(|| longest_prefix(&VOCABULARIES, name))
            .unwrap_or(Vocabulary::O200k);
        Encoding {
            vocabulary,
            images: longest_prefix(&IMAGES, name).unwrap_or(Self::O200K.images),
            audio_tokens_per_second: if name.starts_with("gemini") {
                GEMINI_AUDIO
            } else {
                AUDIO
            },
            harmony: tokenizer == Some(Tokenizer::O200kHarmony) || name.starts_with(HARMONY),
        }
    }

    /// Loads the vocabulary unless it is loaded: see [`Vocabulary::load`].
    pub fn load(self) {
        self.vocabulary.load();
    }

    /// Whether counting can begin at once.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        self.vocabulary.is_loaded()
    }

    /// Tokens of `text`: see [`Vocabulary::count`].
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        self.vocabulary.count(text)
    }
}

fn longest_prefix<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .filter(|(prefix, _)| name.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn o200k(images: Images) -> Encoding {
        Encoding {
            images,
            ..Encoding::O200K
        }
    }

    #[test]
    fn a_name_tells_the_encoding() {
        let gpt_5 = o200k(tiles(70, 140));
        let reasoner = o200k(tiles(75, 150));
        let mini = o200k(tiles(2_833, 5_667));
        let gemini = Encoding {
            audio_tokens_per_second: 32,
            ..o200k(Images::Squares)
        };
        for (model, encoding) in [
            ("gpt-4", Encoding::CL100K),
            ("gpt-4-turbo-2024-04-09", Encoding::CL100K),
            ("gpt-4v", Encoding::CL100K),
            ("gpt-3.5-turbo", Encoding::CL100K),
            ("gpt-35-turbo-16k", Encoding::CL100K),
            ("gpt-35-mine", Encoding::CL100K),
            ("openai/gpt-4", Encoding::CL100K),
            ("azure/gpt-35-turbo", Encoding::CL100K),
            ("ft:gpt-3.5-turbo:org::id", Encoding::CL100K),
            ("GPT-4o", Encoding::O200K),
            ("gpt-4o-2024-08-06", Encoding::O200K),
            ("chatgpt-4o-latest", Encoding::O200K),
            ("gpt-4.1", Encoding::O200K),
            ("gpt-41-mini", o200k(patches(1_620))),
            ("gpt-4.5-preview", Encoding::O200K),
            ("gpt-4o-mini-2024-07-18", mini),
            ("ft:gpt-4o-mini:org::id", mini),
            ("gpt-4.1-mini", o200k(patches(1_620))),
            ("gpt-4.1-nano", o200k(patches(2_460))),
            ("gpt-5", gpt_5),
            ("gpt-5.2", gpt_5),
            ("gpt-5-chat-latest", gpt_5),
            ("gpt-5-mini", o200k(patches(1_620))),
            ("o1-preview", reasoner),
            ("o3-mini", reasoner),
            ("o4-mini", o200k(patches(1_720))),
            ("anthropic/claude-sonnet-4", o200k(Images::Area)),
            ("gemini-2.5-pro", gemini),
            ("gemma-3-27b", o200k(Images::Squares)),
            ("smollm2", Encoding::O200K),
            ("", Encoding::O200K),
        ] {
            assert_eq!(Encoding::for_model(model), encoding, "{model}");
        }
        for harmony in ["openai/gpt-oss-120b", "gpt-oss:20b"] {
            assert!(Encoding::for_model(harmony).harmony, "{harmony}");
        }
    }

    #[test]
    fn models_before_chat_have_vocabularies_of_their_own() {
        for (model, vocabulary) in [
            ("text-davinci-003", Vocabulary::P50k),
            ("code-davinci-002", Vocabulary::P50k),
            ("text-davinci-edit-001", Vocabulary::P50k),
            ("text-davinci-001", Vocabulary::R50k),
            ("davinci", Vocabulary::R50k),
            ("ft:curie:org::id", Vocabulary::R50k),
            ("gpt2", Vocabulary::R50k),
            ("openai-community/gpt2", Vocabulary::R50k),
            ("davinci-002", Vocabulary::Cl100k),
            ("babbage-002", Vocabulary::Cl100k),
            ("text-embedding-3-large", Vocabulary::Cl100k),
        ] {
            assert_eq!(Encoding::for_model(model).vocabulary, vocabulary, "{model}");
        }
    }

    #[test]
    fn a_name_of_a_megabyte_names_an_encoding() {
        for unit in ["x", "ft:", "a.", "/", "gpt-4o-"] {
            let _ = Encoding::for_model(&unit.repeat((1 << 20) / unit.len()));
        }
    }
}
