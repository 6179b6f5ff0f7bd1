//! The numbers of a message, as far as planning needs them.

use super::entry::{Entry, MediaKind, Speaker, Text};
use super::fingerprint::Fingerprint;

/// The measure of a message. It is costly to take and the same for the same bytes, so the shell
/// caches it by a hash of the raw message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The party that speaks.
    pub speaker: Speaker,
    /// The wire format's own word for the role.
    pub role: &'static str,
    /// Fingerprint of the canonical content.
    pub fingerprint: Fingerprint,
    /// Prompt tokens, overhead included.
    pub tokens: u64,
    /// Whether all of it is text that every upstream counts alike. Costs of images and other media
    /// differ widely, and some upstreams leave reasoning that is sent back out of the prompt.
    pub is_plain: bool,
    /// Its kind and its counts.
    pub shape: Shape,
}

/// What a message holds, as far as triggers ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its kind.
    pub kind: MessageKind,
    /// Calls of tools.
    pub calls: u32,
    /// Characters of its texts: its own, those of results, and the arguments of its calls.
    pub chars: u32,
}

impl Shape {
    /// The shape of a message.
    #[must_use]
    pub fn of(entry: &Entry<'_>) -> Self {
        let arguments = entry.calls().filter_map(|call| call.arguments);
        let chars: usize = entry.raw_texts().chain(arguments).map(Text::chars).sum();
        Shape {
            kind: MessageKind::of(entry),
            calls: u32::try_from(entry.calls().count()).unwrap_or(u32::MAX),
            chars: u32::try_from(chars).unwrap_or(u32::MAX),
        }
    }
}

/// The kind of a message: the first of these that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// It calls tools.
    Call,
    /// A tool answers.
    Result,
    /// It holds images, audio or files; the first of them says which.
    Media(MediaKind),
    /// It holds text.
    Text,
    /// It holds nothing, or something that this version does not know.
    Other,
}

impl MessageKind {
    fn of(entry: &Entry<'_>) -> Self {
        if entry.is_call() {
            MessageKind::Call
        } else if entry.speaker == Speaker::Tool {
            MessageKind::Result
        } else if let Some(media) = entry.media().next() {
            MessageKind::Media(media.kind)
        } else if entry.raw_texts().next().is_some() {
            MessageKind::Text
        } else {
            MessageKind::Other
        }
    }

    /// The word for it in expressions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MessageKind::Call => "call",
            MessageKind::Result => "result",
            MessageKind::Media(kind) => kind.as_str(),
            MessageKind::Text => "text",
            MessageKind::Other => "other",
        }
    }
}
