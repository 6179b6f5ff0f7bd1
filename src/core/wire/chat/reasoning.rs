//! Reasoning that a client sends back: fields of an assistant message that hold the same text in
//! several forms.
//!
//! One provider's answer holds its reasoning under up to three names, as one text and again in
//! pieces (OpenRouter's `reasoning` and `reasoning_details`, LiteLLM's `reasoning_content` and
//! `thinking_blocks`), and clients send all of it back. The prompt holds it once.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::string;
use crate::core::tokens::Encoding;

/// Bytes of base64 for one token of reasoning that only its maker can read: four of them are three
/// bytes, and a token is some four bytes of text. The maker puts the text into the prompt, not the
/// cipher, which would count several times as much.
const SEALED_BYTES_PER_TOKEN: u64 = 5;

/// The reasoning in one field.
#[derive(Default)]
struct Reasoning<'a> {
    /// The texts of all its pieces: two fields may cut the same text into different pieces.
    text: Cow<'a, str>,
    /// Bytes that are encrypted.
    sealed_bytes: u64,
}

/// One piece of `reasoning_details` or `thinking_blocks`. A `signature` proves the origin of the
/// text next to it, and is not part of the prompt, nor are ids and formats.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Tokens of the fields of one message, given as raw JSON; a text that is in two of them counts
/// once. Linear in their length.
pub(super) fn count_reasoning(fields: &[&str], encoding: Encoding) -> u64 {
    let all: Vec<Reasoning<'_>> = fields.iter().map(|raw| Reasoning::read(raw)).collect();
    let mut texts: Vec<&str> = Vec::new();
    for reasoning in &all {
        if !texts
            .iter()
            .any(|earlier| is_same(earlier, &reasoning.text))
        {
            texts.push(&reasoning.text);
        }
    }
    // Two fields that hold something encrypted hold the same thing: no provider has two.
    let sealed = all
        .iter()
        .map(|reasoning| reasoning.sealed_bytes)
        .max()
        .unwrap_or(0);
    texts
        .into_iter()
        .map(|text| encoding.count(text))
        .sum::<u64>()
        + sealed / SEALED_BYTES_PER_TOKEN
}

/// Whether two texts are the same but for white space, which is lost or added where pieces are put
/// together.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |text| str::split_whitespace(text).flat_map(str::bytes);
    letters(one).eq(letters(other))
}

impl<'a> Reasoning<'a> {
    fn read(raw: &'a str) -> Self {
        match serde_json::from_str::<Vec<&RawValue>>(raw) {
            Ok(pieces) => {
                let mut reasoning = Reasoning::default();
                pieces
                    .into_iter()
                    .for_each(|piece| reasoning.add(piece.get()));
                reasoning
            }
            Err(_) => Reasoning {
                text: text_of(raw),
                sealed_bytes: 0,
            },
        }
    }

    fn add(&mut self, raw: &'a str) {
        let Some(Ok(piece)) = raw
            .starts_with('{')
            .then(|| serde_json::from_str::<Piece<'_>>(raw))
        else {
            // Not a piece of a known form: its spelling is the best guess.
            return self.text += text_of(raw);
        };
        for text in [piece.text, piece.summary, piece.thinking]
            .into_iter()
            .flatten()
        {
            self.text += text_of(text.get());
        }
        self.sealed_bytes += piece.data.map_or(0, |data| data.get().len() as u64);
    }
}

/// The text of a JSON string; the spelling of anything else.
fn text_of(raw: &str) -> Cow<'_, str> {
    serde_json::from_str::<&RawValue>(raw)
        .ok()
        .and_then(string)
        .unwrap_or(Cow::Borrowed(raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::chat::count::count_message;

    const THOUGHT: &str = "First I look at the file, then I count its lines.\n\n\
        There are \"seven\" of them, so the answer is 7.";

    /// What these fields add to a message.
    fn added(fields: &str) -> u64 {
        let count = |fields: &str| {
            let raw = format!(r#"{{"role":"assistant","content":"7"{fields}}}"#);
            count_message(&raw, Encoding::O200K).unwrap()
        };
        count(fields) - count("")
    }

    fn json(text: &str) -> String {
        serde_json::to_string(text).unwrap()
    }

    #[test]
    fn what_is_thought_counts_as_its_text_wherever_it_stands() {
        let (thought, tokens) = (json(THOUGHT), Encoding::O200K.count(THOUGHT));
        for fields in [
            format!(r#","reasoning_content":{thought}"#),
            format!(r#","reasoning":{thought},"reasoning_details":null"#),
            format!(r#","thinking":{thought}"#),
            format!(
                r#","reasoning_details":[{{"type":"reasoning.text",
                "text":{thought},"signature":"c2lnbmVk","id":null,"index":0}}]"#
            ),
            format!(
                r#","reasoning_details":[{{"type":"reasoning.summary",
                "summary":{thought},"format":"openai-responses-v1"}}]"#
            ),
            format!(
                r#","thinking_blocks":[{{"type":"thinking","thinking":{thought},
                    "signature":"{}"}}]"#,
                "QUJD".repeat(200)
            ),
        ] {
            assert_eq!(added(&fields), tokens, "{fields}");
        }
    }

    #[test]
    fn what_is_said_under_several_names_counts_once() {
        let (thought, tokens) = (json(THOUGHT), Encoding::O200K.count(THOUGHT));
        let (first, second) = THOUGHT.split_once("\n\n").unwrap();
        let (first, second) = (json(first), json(second));
        for fields in [
            format!(r#","reasoning":{thought},"reasoning_content":{thought}"#),
            format!(
                r#","reasoning":{thought},
                "reasoning_details":[{{"type":"reasoning.text",
                "text":{thought}}}]"#
            ),
            format!(
                r#","reasoning_content":{thought},
                "thinking_blocks":[{{"thinking":{first}}},
                {{"thinking":{second}}}]"#
            ),
            format!(
                r#","reasoning":{thought},"reasoning_details":[{{"text":{first}}},
                {{"text":{second},"signature":"x"}},{{"signature":"y"}}]"#
            ),
        ] {
            assert_eq!(added(&fields), tokens, "{fields}");
        }
        // Another text is another text.
        let more = format!(
            r#","reasoning":{thought},
            "reasoning_details":[{{"type":"reasoning.summary",
            "summary":"It is seven."}}]"#
        );
        assert_eq!(added(&more), tokens + Encoding::O200K.count("It is seven."));
    }

    #[test]
    fn what_only_its_maker_can_read_counts_as_the_text_it_may_be() {
        let data = "QUJD".repeat(1_000);
        for fields in [
            format!(
                r#","reasoning_details":[{{"type":"reasoning.encrypted",
                "data":"{data}","id":"rs_1"}}]"#
            ),
            format!(r#","thinking_blocks":[{{"type":"redacted_thinking","data":"{data}"}}]"#),
        ] {
            let tokens = added(&fields);
            assert!(
                (700..900).contains(&tokens),
                "3,000 bytes of text are some 750 tokens: {tokens}"
            );
        }
    }

    #[test]
    fn a_hundred_thousand_pieces_count_as_the_text_that_they_repeat() {
        let pieces = r#"{"type":"reasoning.text","text":"so "},"#.repeat(100_000);
        let pieces = pieces.trim_end_matches(',');
        // With work for every pair of pieces, this test would not end.
        let said = "so ".repeat(100_000);
        let tokens = added(&format!(
            r#","reasoning":"{said}","reasoning_details":[{pieces}]"#
        ));
        assert_eq!(tokens, Encoding::O200K.count(&said));
    }
}
