//! The neutral view of a message: its roles as speakers, its fields and parts as blocks.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{Message, legacy_call};
use crate::core::conversation::{
    Author, Block, Content, Entry, Media, MediaKind, Speaker, Text, ToolResult,
};
use crate::core::json::string;
use crate::core::wire::unreadable::Unreadable;

/// The view of one message. `raw` is its exact JSON.
///
/// # Errors
/// [`Unreadable::Unusual`] when it is not a plain message.
pub(in crate::core) fn entry(raw: &str) -> Result<Entry<'_>, Unreadable> {
    Message::parse(raw).map(|message| entry_of(raw, message))
}

/// The view of a message that was read.
pub(super) fn entry_of<'a>(raw: &'a str, message: Message<'a>) -> Entry<'a> {
    let (speaker, role) = speaker(message.role.as_deref());
    let mut parts = Parts::default();
    if let Some(content) = message.content {
        parts.read(content);
    }
    let mut blocks = match speaker {
        Speaker::Tool => Vec::with_capacity(1),
        _ => parts.blocks,
    };
    if speaker == Speaker::Tool {
        blocks.push(Block::Result(ToolResult {
            answers: message.answers,
            name: message.name.clone(),
            raw: message.content,
            texts: parts.texts,
            media: parts.media,
            parts: parts.count,
            legacy: role == FUNCTION,
        }));
    }
    blocks.extend(message.reasoning.into_iter().map(Block::Reasoning));
    blocks.extend(message.calls.into_iter().map(Block::Call));
    blocks.extend(message.function_call.map(legacy_call).map(Block::Call));
    Entry {
        raw,
        speaker,
        role,
        name: message.name,
        content: match message.content {
            None => Content::Absent,
            Some(r#""""# | "[]") => Content::Empty,
            Some(_) => Content::Present,
        },
        blocks,
    }
}

/// The role of a message that answers a legacy call.
const FUNCTION: &str = "function";

/// The party that a role stands for, and the role out of a closed set.
pub(super) fn speaker(role: Option<&str>) -> (Speaker, &'static str) {
    match role {
        Some("system") => (Speaker::Instruction, "system"),
        Some("developer") => (Speaker::Instruction, "developer"),
        Some("user") => (Speaker::User, "user"),
        Some("assistant") => (Speaker::Assistant, "assistant"),
        Some("tool") => (Speaker::Tool, "tool"),
        Some("function") => (Speaker::Tool, FUNCTION),
        _ => (Speaker::Other, "other"),
    }
}

/// The role of a message that Baler writes.
pub(in crate::core) fn role_of(author: Author) -> &'static str {
    match author {
        Author::User => "user",
        Author::Assistant => "assistant",
        Author::System => "system",
        Author::Developer => "developer",
    }
}

/// The parts of a message's content: as blocks, and by kind.
#[derive(Default)]
struct Parts<'a> {
    blocks: Vec<Block<'a>>,
    texts: Vec<Text<'a>>,
    media: Vec<Media<'a>>,
    count: usize,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<&'a RawValue>,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
}

/// `file` of a part, as far as its name.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
}

/// The name of a part's file: the part's own, or that of its `file`.
fn name_of<'a>(part: &Part<'a>) -> Option<Text<'a>> {
    let inner = || {
        serde_json::from_str::<File<'a>>(part.file?.get())
            .ok()?
            .filename
    };
    let name = part.filename.or_else(inner)?.get();
    name.starts_with('"').then(|| Text::new(name))
}

impl<'a> Parts<'a> {
    fn read(&mut self, content: &'a str) {
        let list: Option<Vec<&'a RawValue>> = content
            .starts_with('[')
            .then(|| serde_json::from_str(content).ok())
            .flatten();
        let Some(list) = list else {
            self.count = 1;
            if content.starts_with('"') {
                self.add_text(content);
            } else {
                self.blocks.push(Block::Other(None));
            }
            return;
        };
        self.count = list.len();
        for part in list {
            match serde_json::from_str::<Part<'a>>(part.get()) {
                Ok(fields) => self.add(part.get(), &fields),
                Err(_) => self.blocks.push(Block::Other(None)),
            }
        }
    }

    /// A part may hold a text whatever its kind: then it is that text, and a part of its kind as
    /// well.
    fn add(&mut self, raw: &'a str, part: &Part<'a>) {
        let text = part.text.filter(|text| text.get().starts_with('"'));
        if let Some(text) = text {
            self.add_text(text.get());
        }
        match part.kind.and_then(string).as_deref() {
            Some("image_url" | "input_image" | "image") => {
                self.add_media(raw, MediaKind::Image, None);
            }
            Some("input_audio" | "audio") => self.add_media(raw, MediaKind::Audio, None),
            Some("file" | "input_file") => self.add_media(raw, MediaKind::File, name_of(part)),
            Some("text") => {}
            Some(kind) => {
                let kind = kind
                    .trim_start_matches("input_")
                    .trim_end_matches("_url")
                    .to_owned();
                self.blocks.push(Block::Other(Some(Cow::Owned(kind))));
            }
            None if text.is_none() => self.blocks.push(Block::Other(None)),
            None => {}
        }
    }

    fn add_text(&mut self, raw: &'a str) {
        self.blocks.push(Block::Text(Text::new(raw)));
        self.texts.push(Text::new(raw));
    }

    fn add_media(&mut self, raw: &'a str, kind: MediaKind, name: Option<Text<'a>>) {
        let media = Media { kind, name, raw };
        self.blocks.push(Block::Media(media));
        self.media.push(media);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_blocks_in_their_order() {
        let raw = r#"{"role":"user","name":"ann","content":[
            {"type":"text","text":"a\n","cache_control":{"type":"ephemeral"}},
            {"type":"image_url","image_url":{"url":"x"}},
            {"type":"input_video","input_video":{}},
            "bare"]}"#;
        let entry = entry(raw).unwrap();
        assert_eq!((entry.speaker, entry.role), (Speaker::User, "user"));
        assert_eq!(entry.texts(), ["a\n"]);
        let kinds: Vec<_> = entry.media().map(|media| media.kind).collect();
        assert_eq!(kinds, [MediaKind::Image]);
        assert!(matches!(&entry.blocks[2], Block::Other(Some(kind)) if kind == "video"));
        assert!(matches!(&entry.blocks[3], Block::Other(None)));
    }

    #[test]
    fn results_and_calls_find_each_other_and_legacy_ones_do() {
        let call = entry(
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f",
            "arguments":"{\"a\":1}"}}],
            "function_call":{"name":"g","arguments":"{}"},"reasoning":"Hm."}"#,
        )
        .unwrap();
        let calls: Vec<_> = call.calls().collect();
        assert_eq!(calls[0].arguments.unwrap().decode().unwrap(), r#"{"a":1}"#);
        assert_eq!(
            (calls[1].name.as_ref(), calls[1].legacy.is_some()),
            ("g", true)
        );
        assert_eq!(call.content, Content::Absent);

        let result = entry(r#"{"role":"tool","tool_call_id":"c1","content":"done"}"#).unwrap();
        let (block, result) = result.results().next().unwrap();
        assert_eq!((block, result.answers.as_deref()), (0, Some("c1")));
        assert_eq!(result.decoded().collect::<Vec<_>>(), ["done"]);
        assert!(!result.legacy);
        let legacy = entry(r#"{"role":"function","name":"g","content":"[]"}"#).unwrap();
        assert!(legacy.result(0).unwrap().legacy);
    }

    #[test]
    fn what_is_unusual_is_kept_apart() {
        for (raw, content) in [
            (r#"{"role":"robot","content":""}"#, Content::Empty),
            (r#"{"role":7,"content":[]}"#, Content::Empty),
            (r#"{"role":"robot","content":7}"#, Content::Present),
            (r#"{"role":"robot"}"#, Content::Absent),
        ] {
            let entry = entry(raw).unwrap();
            assert_eq!((entry.role, entry.content), ("other", content), "{raw}");
        }
        assert!(entry(r#"{"content":"no role"}"#).is_err());
    }
}
