//! How many prompt tokens a message costs, by OpenAI's rules and encodings.
//!
//! Text is counted exactly; images, audio and files by the rules that vendors document.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::canonical::canonical;
use super::entry::{entry_of, speaker};
use super::message::Message;
use super::outline::Outline;
use super::schemas::HARMONY_TOKENS;
use super::{media, reasoning, schemas};
use crate::core::conversation::{Measure, Shape};
use crate::core::json::string;
use crate::core::tokens::Encoding;
use crate::core::wire::unreadable::Unreadable;

/// Tokens that the reply is primed with, once per request.
pub const PRIMER_TOKENS: u64 = 3;

/// Tokens around each message.
const MESSAGE_TOKENS: u64 = 3;
/// Tokens around a participant's name.
const NAME_TOKENS: u64 = 1;
/// Tokens around one call, its id left out: models do not read ids, templates that print them vary.
const CALL_TOKENS: u64 = 3;

/// Measures one message, given its exact JSON.
///
/// # Errors
/// [`Unreadable::Unusual`] when it is not a plain message.
pub(in crate::core) fn measure(raw: &str, encoding: Encoding) -> Result<Measure, Unreadable> {
    let message = Message::parse(raw)?;
    let (speaker, role) = speaker(message.role.as_deref());
    let (tokens, is_plain) = count(&message, encoding);
    Ok(Measure {
        speaker,
        role,
        fingerprint: canonical(raw),
        tokens,
        is_plain,
        shape: Shape::of(&entry_of(raw, message)),
    })
}

/// Prompt tokens of one message, overhead included, given its exact JSON.
///
/// # Errors
/// [`Unreadable::Unusual`] when it is not a plain message.
pub fn count_message(raw: &str, encoding: Encoding) -> Result<u64, Unreadable> {
    Message::parse(raw).map(|message| count(&message, encoding).0)
}

/// Prompt tokens of one message, and whether all of it is plain text.
fn count(message: &Message<'_>, encoding: Encoding) -> (u64, bool) {
    let mut tokens = MESSAGE_TOKENS + 1; // the role is one token in both encodings
    let (content, is_text) = message
        .content
        .map_or((0, true), |content| count_content(content, encoding));
    tokens += content;
    if let Some(name) = &message.name {
        tokens += NAME_TOKENS + encoding.count(name);
    }
    for call in &message.calls {
        tokens += CALL_TOKENS
            + encoding.count(&call.name)
            + call
                .arguments
                .map_or(0, |text| count_text(text.raw(), encoding));
    }
    tokens += message
        .function_call
        .map_or(0, |raw| CALL_TOKENS + encoding.count(raw));
    tokens += message.refusal.map_or(0, |raw| count_text(raw, encoding));
    let reasoning = reasoning::count_reasoning(&message.reasoning, encoding);
    (tokens + reasoning, is_text && reasoning == 0)
}

/// Prompt tokens that no message accounts for: the reply's primer, tool and function schemas, the
/// response format.
#[must_use]
pub fn count_fixed(chat: &Outline<'_>, encoding: Encoding) -> u64 {
    PRIMER_TOKENS
        + if encoding.harmony { HARMONY_TOKENS } else { 0 }
        + schemas::fixed_tokens(&chat.fixed, encoding)
}

/// Tokens of a JSON value that should be a string; tokens of its spelling when it is something
/// else.
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
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    video_url: Option<&'a RawValue>,
}

/// Tokens of a message's content, and whether all of it is plain text.
fn count_content(raw: &str, encoding: Encoding) -> (u64, bool) {
    if !raw.starts_with('[') {
        return (count_text(raw, encoding), raw.starts_with('"'));
    }
    let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(raw) else {
        return (encoding.count(raw), false);
    };
    let parts = parts.iter().map(|part| count_part(part.get(), encoding));
    parts.fold((0, true), |(tokens, is_text), (more, is_text_too)| {
        (tokens + more, is_text && is_text_too)
    })
}

fn count_part(raw: &str, encoding: Encoding) -> (u64, bool) {
    let tokens = match serde_json::from_str::<Part<'_>>(raw) {
        Ok(
            Part {
                text: Some(text), ..
            }
            | Part {
                refusal: Some(text),
                ..
            },
        ) => return (count_text(text.get(), encoding), true),
        Ok(Part {
            image_url: Some(image),
            ..
        }) => media::image_tokens(image, encoding),
        Ok(Part {
            input_audio: Some(audio),
            ..
        }) => media::audio_tokens(audio, encoding),
        Ok(Part {
            file: Some(file), ..
        }) => media::file_tokens(file, encoding),
        // Images and documents as Anthropic spells them, and videos: their bytes are not text.
        Ok(Part {
            video_url: Some(_), ..
        }) => media::OTHER_TOKENS,
        Ok(Part {
            source: Some(source),
            ..
        }) if source.get().contains("\"base64\"") => media::OTHER_TOKENS,
        // A part of another kind, or a bare string in the list: its spelling is the best guess.
        _ => encoding.count(raw),
    };
    (tokens, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::chat::outline::Chat;

    #[test]
    fn documented_example_of_counting_messages() {
        // The conversation of OpenAI's cookbook "How to count tokens with tiktoken": 129 tokens for
        // gpt-4, 124 for gpt-4o.
        let messages = [
            (
                r#""system""#,
                "You are a helpful, pattern-following assistant that translates corporate jargon \
                into plain English.",
            ),
            (
                r#""system","name":"example_user""#,
                "New synergies will help drive top-line growth.",
            ),
            (
                r#""system","name":"example_assistant""#,
                "Things working well together will increase revenue.",
            ),
            (
                r#""system","name":"example_user""#,
                "Let's circle back when we have more bandwidth to touch base on opportunities for \
                increased leverage.",
            ),
            (
                r#""system","name":"example_assistant""#,
                "Let's talk later when we're less busy about how to do better.",
            ),
            (
                r#""user""#,
                "This late pivot means we don't have time to boil the ocean for the client \
                deliverable.",
            ),
        ]
        .map(|(role, content)| format!(r#"{{"role":{role},"content":"{content}"}}"#));
        let body = format!(r#"{{"model":"x","messages":[{}]}}"#, messages.join(","));
        let chat = Chat::parse(body.as_bytes()).unwrap();
        for (encoding, expected) in [(Encoding::CL100K, 129), (Encoding::O200K, 124)] {
            let total = count_fixed(&chat.outline, encoding)
                + chat
                    .messages
                    .iter()
                    .map(|entry| count_message(entry.raw, encoding).unwrap())
                    .sum::<u64>();
            assert_eq!(total, expected, "{encoding:?}");
        }
    }
}
