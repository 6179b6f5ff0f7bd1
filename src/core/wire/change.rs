//! Changes to a message by meaning, for any wire format to carry out.

use crate::core::conversation::{Media, Text};

/// A change to one message. Every byte that it does not name stays as it is.
#[derive(Debug, Clone)]
pub enum Change<'a> {
    /// Another text in the place of this one, be it words, a text of a result, or the arguments of
    /// a call.
    Text(Text<'a>, String),
    /// A text in the place of all that a result holds, given the JSON of that. The result keeps its
    /// cache mark.
    Result(&'a str, String),
    /// A text in the place of an image, audio or a file, which keeps its cache mark.
    Media(Media<'a>, String),
    /// All reasoning goes.
    DropReasoning,
}
