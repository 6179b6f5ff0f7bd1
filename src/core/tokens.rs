//! How many prompt tokens a message costs, by OpenAI's rules and encodings.
//!
//! Text is counted exactly. What is no text (images, audio, files) has a flat cost per part. The counter is the crate
//! `tiktoken`, which gives the same numbers as tiktoken-rs (a test compares them), several times faster and without its
//! panic on very long runs of white space. Only the two OpenAI vocabularies below are linked; that crate carries others
//! under licences with conditions, so nothing here may name an encoding at run time.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;
use tiktoken::CoreBpe;

use super::chat::{Message, Outline, Role, string};
use super::digest::{Digest, canonical};

/// A byte-pair encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `o200k_base`: gpt-4o and later, and the yardstick for models of other makers.
    O200k,
    /// `cl100k_base`: gpt-4, gpt-3.5.
    Cl100k,
}

/// Model name prefixes and their encoding; the longest that matches wins, `o200k_base` when none does.
const ENCODINGS: [(&str, Encoding); 6] = [
    ("gpt-4", Encoding::Cl100k),
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.", Encoding::O200k),
    ("gpt-3.5", Encoding::Cl100k),
    ("gpt-35", Encoding::Cl100k),
    ("text-embedding", Encoding::Cl100k),
];

impl Encoding {
    /// The encoding of a model, by its name.
    #[must_use]
    pub fn for_model(model: &str) -> Self {
        ENCODINGS
            .iter()
            .filter(|(prefix, _)| model.starts_with(prefix))
            .max_by_key(|(prefix, _)| prefix.len())
            .map_or(Encoding::O200k, |(_, encoding)| *encoding)
    }

    /// Loads the vocabulary unless it is loaded. Takes some 100 ms and 50 MB the first time.
    pub fn load(self) {
        self.vocabulary();
    }

    /// Whether counting can begin at once.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        self.cell().get().is_some()
    }

    fn cell(self) -> &'static OnceLock<CoreBpe> {
        static O200K: OnceLock<CoreBpe> = OnceLock::new();
        static CL100K: OnceLock<CoreBpe> = OnceLock::new();
        match self {
            Encoding::O200k => &O200K,
            Encoding::Cl100k => &CL100K,
        }
    }

    fn vocabulary(self) -> &'static CoreBpe {
        self.cell().get_or_init(match self {
            Encoding::O200k => tiktoken::encoding::o200k_base,
            Encoding::Cl100k => tiktoken::encoding::cl100k_base,
        })
    }

    /// Tokens of `text`; special tokens inside it count as the text they are.
    #[must_use]
    pub fn count(self, text: &str) -> u64 {
        self.vocabulary().count(text) as u64
    }
}

/// What thinking needs to know of a message beyond its view: costly to find out, the same for the same bytes, so the
/// shell keeps it by the digest of the raw message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Who speaks.
    pub role: Role,
    /// Digest of the canonical content.
    pub digest: Digest,
    /// Prompt tokens, overhead included.
    pub tokens: u64,
}

impl Measure {
    /// Measures one message.
    #[must_use]
    pub fn of(message: &Message<'_>, encoding: Encoding) -> Self {
        Measure { role: message.role, digest: canonical(message.raw), tokens: count_message(message, encoding) }
    }
}

/// Tokens that the reply is primed with, once per request.
pub const PRIMER_TOKENS: u64 = 3;

/// Tokens around each message.
const MESSAGE_TOKENS: u64 = 3;
/// Tokens around a participant's name.
const NAME_TOKENS: u64 = 1;
/// Tokens around one call, its id left out: models do not read ids, templates that print them vary.
const CALL_TOKENS: u64 = 3;
/// An image at `detail: low`.
const IMAGE_LOW_TOKENS: u64 = 85;
/// An image at another detail: 1024 × 1024 pixels by the tile rule.
const IMAGE_TOKENS: u64 = 765;
/// Audio: ten tokens a second of 24 kHz, 16-bit samples in base64.
const AUDIO_BYTES_PER_TOKEN: u64 = 6_400;
/// A file whose text is not in the request.
const FILE_TOKENS: u64 = 1_000;

/// Prompt tokens of one message, overhead included.
#[must_use]
pub fn count_message(message: &Message<'_>, encoding: Encoding) -> u64 {
    let mut tokens = MESSAGE_TOKENS + 1; // the role is one token in both encodings
    tokens += message.content.map_or(0, |content| count_content(content, encoding));
    if let Some(name) = &message.name {
        tokens += NAME_TOKENS + encoding.count(name);
    }
    for call in &message.calls {
        tokens += CALL_TOKENS + encoding.count(&call.name) + call.arguments.map_or(0, |raw| count_text(raw, encoding));
    }
    tokens += message.function_call.map_or(0, |raw| CALL_TOKENS + encoding.count(raw));
    tokens + message.extra_text.iter().map(|raw| count_text(raw, encoding)).sum::<u64>()
}

/// Prompt tokens that no message accounts for: the reply's primer, tool and function schemas, the response format.
#[must_use]
pub fn count_fixed(chat: &Outline<'_>, encoding: Encoding) -> u64 {
    PRIMER_TOKENS + chat.fixed_parts.iter().map(|part| encoding.count(part)).sum::<u64>()
}

/// Tokens of a JSON value that should be a string; of its spelling when it is something else.
fn count_text(raw: &str, encoding: Encoding) -> u64 {
    match serde_json::from_str::<&RawValue>(raw).ok().and_then(string) {
        Some(text) => encoding.count(&text),
        None => encoding.count(raw),
    }
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    input_audio: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<&'a RawValue>,
}

fn count_content(raw: &str, encoding: Encoding) -> u64 {
    if !raw.starts_with('[') {
        return count_text(raw, encoding);
    }
    let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(raw) else { return encoding.count(raw) };
    parts.iter().map(|part| count_part(part.get(), encoding)).sum()
}

fn count_part(raw: &str, encoding: Encoding) -> u64 {
    match serde_json::from_str::<Part<'_>>(raw) {
        Ok(Part { text: Some(text), .. } | Part { refusal: Some(text), .. }) => count_text(text.get(), encoding),
        Ok(Part { image_url: Some(image), .. }) => image_tokens(image),
        Ok(Part { input_audio: Some(audio), .. }) => 1 + audio.get().len() as u64 / AUDIO_BYTES_PER_TOKEN,
        Ok(Part { file: Some(_), .. }) => FILE_TOKENS,
        // A part of another kind, or a bare string in the list: what it spells is the best guess.
        _ => encoding.count(raw),
    }
}

fn image_tokens(image: &RawValue) -> u64 {
    #[derive(Deserialize)]
    struct Image<'a> {
        #[serde(borrow)]
        detail: Option<&'a RawValue>,
    }
    match serde_json::from_str::<Image<'_>>(image.get()) {
        Ok(Image { detail: Some(detail) }) if detail.get() == r#""low""# => IMAGE_LOW_TOKENS,
        _ => IMAGE_TOKENS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::chat::Chat;

    #[test]
    fn the_longest_prefix_names_the_encoding() {
        for (model, encoding) in [
            ("gpt-4-turbo", Encoding::Cl100k),
            ("gpt-4o-mini", Encoding::O200k),
            ("gpt-4.1", Encoding::O200k),
            ("gpt-3.5-turbo", Encoding::Cl100k),
            ("gpt-5", Encoding::O200k),
            ("smollm2", Encoding::O200k),
        ] {
            assert_eq!(Encoding::for_model(model), encoding, "{model}");
        }
    }

    #[test]
    fn documented_example_of_counting_messages() {
        // The conversation of OpenAI's cookbook "How to count tokens with tiktoken": 129 tokens for gpt-4, 124 for gpt-4o.
        let body = r#"{"model":"x","messages":[
            {"role":"system","content":"You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
            {"role":"system","name":"example_user","content":"New synergies will help drive top-line growth."},
            {"role":"system","name":"example_assistant","content":"Things working well together will increase revenue."},
            {"role":"system","name":"example_user","content":"Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
            {"role":"system","name":"example_assistant","content":"Let's talk later when we're less busy about how to do better."},
            {"role":"user","content":"This late pivot means we don't have time to boil the ocean for the client deliverable."}]}"#;
        let chat = Chat::parse(body.as_bytes()).unwrap();
        for (encoding, expected) in [(Encoding::Cl100k, 129), (Encoding::O200k, 124)] {
            let total = count_fixed(&chat.outline, encoding) + chat.messages.iter().map(|m| count_message(m, encoding)).sum::<u64>();
            assert_eq!(total, expected, "{encoding:?}");
        }
    }
}
