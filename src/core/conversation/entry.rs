//! A message as planning sees it, whatever its wire format: the speaker, and blocks of text, calls,
//! results and media.
//!
//! An entry borrows from the JSON of its message. Texts stay as they are spelled until they are
//! asked for, so that the view of a long conversation costs little more than finding its parts.

use std::borrow::Cow;

use crate::core::json::{decoded_lossy, string_chars};
use crate::core::text::harmless;

/// One message of a conversation.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The exact bytes of the message.
    pub raw: &'a str,
    /// The party that speaks.
    pub speaker: Speaker,
    /// The wire format's own word for the role, out of a closed set.
    pub role: &'static str,
    /// The participant's name.
    pub name: Option<Cow<'a, str>>,
    /// Whether the message has content besides its calls and its reasoning.
    pub content: Content,
    /// Its parts, in the order of the message.
    pub blocks: Vec<Block<'a>>,
}

/// The party that speaks in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The operator: always kept, and left out of the checkpoints' chain.
    Instruction,
    /// The application's user.
    User,
    /// The model.
    Assistant,
    /// A tool that answers a call.
    Tool,
    /// A party that this version does not know: kept in its place.
    Other,
}

impl Speaker {
    /// Whether the entry instructs the model.
    #[must_use]
    pub fn is_instruction(self) -> bool {
        self == Speaker::Instruction
    }
}

/// A party in whose name Baler writes messages of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the parties")]
pub enum Author {
    User,
    Assistant,
    System,
    Developer,
}

/// Whether a message has content besides its calls and its reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The wire has none.
    Absent,
    /// The wire has an empty text or an empty list.
    Empty,
    /// There is some.
    Present,
}

/// A part of an entry.
#[derive(Debug, Clone)]
pub enum Block<'a> {
    /// Words of the speaker.
    Text(Text<'a>),
    /// The model asks for a tool.
    Call(Call<'a>),
    /// A tool answers.
    Result(ToolResult<'a>),
    /// An image, audio or a file.
    Media(Media<'a>),
    /// Reasoning of the model that the client sends back, as it is spelled.
    Reasoning(&'a str),
    /// A part of another kind, with the name of the kind where the wire gives one.
    Other(Option<Cow<'a, str>>),
}

/// The address of a block: wire formats exist in which one message holds several results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// Index of the entry in its conversation.
    pub entry: u32,
    /// Index of the block in the entry.
    pub block: u16,
}

impl BlockId {
    /// The block `block` of entry `entry`. No conversation comes near the limits of either number.
    #[must_use]
    pub fn new(entry: usize, block: usize) -> Self {
        BlockId {
            entry: u32::try_from(entry).unwrap_or(u32::MAX),
            block: u16::try_from(block).unwrap_or(u16::MAX),
        }
    }

    /// Index of the entry in its conversation.
    #[must_use]
    pub fn at(self) -> usize {
        usize::try_from(self.entry).unwrap_or(usize::MAX)
    }
}

/// A text inside an entry: a slice of the message's JSON that is decoded on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// The text that `raw` spells in JSON.
    #[must_use]
    pub fn new(raw: &'a str) -> Self {
        Text(raw)
    }

    /// The JSON of the text.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.0
    }

    /// The text, with U+FFFD for half of a surrogate pair; `None` when the JSON is not a string.
    #[must_use]
    pub fn decode(self) -> Option<Cow<'a, str>> {
        decoded_lossy(self.0)
    }

    /// The text, or the JSON itself where that is not a string.
    #[must_use]
    pub fn decode_or_raw(self) -> Cow<'a, str> {
        self.decode().unwrap_or(Cow::Borrowed(self.0))
    }

    /// The beginning of the text, of about so many bytes of its JSON; `None` when that is not a
    /// string.
    #[must_use]
    pub fn opening(self, bytes: usize) -> Option<Cow<'a, str>> {
        let head = self.0.get(..self.0.floor_char_boundary(bytes))?;
        if head.len() == self.0.len() {
            return self.decode();
        }
        // An escape may be cut: it has six bytes at most, twelve with the other half of its pair.
        let whole = match head.rfind('\\') {
            Some(at) if head.len() - at < 12 => {
                head.get(..at).map(|head| head.trim_end_matches('\\'))
            }
            _ => Some(head),
        };
        decoded_lossy(&format!("{}\"", whole?)).map(|text| Cow::Owned(text.into_owned()))
    }

    /// Characters of the text; of the JSON itself where that is not a string.
    #[must_use]
    pub fn chars(self) -> usize {
        string_chars(self.0).unwrap_or_else(|| self.0.chars().count())
    }
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The id that its result refers to; its JSON when it is not a string, empty for a legacy call.
    pub id: Cow<'a, str>,
    /// The tool's name; empty when there is none.
    pub name: Cow<'a, str>,
    /// The arguments, which are JSON in a text as a rule.
    pub arguments: Option<Text<'a>>,
    /// The JSON of the whole call, where it has the form that wire formats had before calls had
    /// ids.
    pub legacy: Option<&'a str>,
}

/// The answer of a tool to a call.
#[derive(Debug, Clone)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub answers: Option<Cow<'a, str>>,
    /// The tool's name, where the result repeats it.
    pub name: Option<Cow<'a, str>>,
    /// The JSON of all that the result holds.
    pub raw: Option<&'a str>,
    /// Its texts, in order.
    pub texts: Vec<Text<'a>>,
    /// Its images, audio and files, in order.
    pub media: Vec<Media<'a>>,
    /// Parts that it has on the wire; 1 for a plain text.
    pub parts: usize,
    /// Whether it answers a legacy call, which has no id.
    pub legacy: bool,
}

impl<'a> ToolResult<'a> {
    /// Its texts, decoded.
    pub fn decoded(&self) -> impl Iterator<Item = Cow<'a, str>> + '_ {
        self.texts.iter().filter_map(|text| text.decode())
    }
}

/// A part of an entry that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media<'a> {
    /// Its kind.
    pub kind: MediaKind,
    /// The name of its file, where the wire gives one.
    pub name: Option<Text<'a>>,
    /// Its JSON.
    pub raw: &'a str,
}

/// Characters of a file's name that are shown.
const NAME_CHARS: usize = 120;

impl Media<'_> {
    /// A word for it in texts that models read, with the name of its file: `file: report.pdf`.
    #[must_use]
    pub fn words(self) -> String {
        let name = self.name.and_then(Text::decode).unwrap_or_default();
        let name: String = harmless(name.trim()).chars().take(NAME_CHARS).collect();
        match name.as_str() {
            "" => self.kind.as_str().to_owned(),
            name => format!("{}: {name}", self.kind.as_str()),
        }
    }
}

/// Kinds of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MediaKind {
    Image,
    Audio,
    File,
}

impl MediaKind {
    /// The word for it in texts that models read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MediaKind::Image => "image",
            MediaKind::Audio => "audio",
            MediaKind::File => "file",
        }
    }
}

impl<'a> Entry<'a> {
    /// All texts of the entry, those of results included, decoded.
    #[must_use]
    pub fn texts(&self) -> Vec<Cow<'a, str>> {
        self.raw_texts().filter_map(Text::decode).collect()
    }

    /// The same as they are spelled.
    pub(in crate::core) fn raw_texts(&self) -> impl Iterator<Item = Text<'a>> + '_ {
        self.blocks
            .iter()
            .flat_map(|block| match block {
                Block::Text(text) => std::slice::from_ref(text),
                Block::Result(result) => result.texts.as_slice(),
                _ => &[],
            })
            .copied()
    }

    /// All images, audio and files of the entry, those of results included.
    pub fn media(&self) -> impl Iterator<Item = Media<'a>> + '_ {
        self.blocks
            .iter()
            .flat_map(|block| match block {
                Block::Media(media) => std::slice::from_ref(media),
                Block::Result(result) => result.media.as_slice(),
                _ => &[],
            })
            .copied()
    }

    /// The calls of the entry.
    pub fn calls(&self) -> impl Iterator<Item = &Call<'a>> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Whether the entry asks for something that later entries answer.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.calls().next().is_some()
    }

    /// The results in the entry, each with the index of its block.
    pub fn results(&self) -> impl Iterator<Item = (usize, &ToolResult<'a>)> {
        self.blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| match block {
                Block::Result(result) => Some((at, result)),
                _ => None,
            })
    }

    /// The result in a block of the entry.
    #[must_use]
    pub fn result(&self, block: u16) -> Option<&ToolResult<'a>> {
        match self.blocks.get(usize::from(block)) {
            Some(Block::Result(result)) => Some(result),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_cuts_no_escape() {
        let raw = r#""ab\\\\c\n\u00e9 the rest of it""#;
        let whole = Text::new(raw).decode().unwrap();
        for bytes in 1..=raw.len() + 9 {
            let opening = Text::new(raw).opening(bytes).unwrap();
            assert!(whole.starts_with(opening.as_ref()), "{bytes}: {opening}");
            assert!(
                opening.len() + 16 >= bytes.min(whole.len()),
                "{bytes}: {opening}"
            );
        }
        assert_eq!(Text::new(raw).opening(raw.len()), Some(whole));
        assert_eq!(Text::new("17").opening(9), None);
    }
}
