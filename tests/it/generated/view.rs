//! A chat as people see it: who speaks, and what. No field name of any API.

/// A conversation: exchanges, and the habits of the client that sends it.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub exchanges: Vec<Exchange>,
    pub frame: Frame,
}

/// What stays or goes as one: a message, or an assistant's message with calls and what they
/// returned.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub messages: Vec<Said>,
    /// The oldest form of a call that the API knows, where it knows several.
    pub legacy: bool,
}

/// One message.
#[derive(Debug, Clone)]
pub struct Said {
    pub speaker: Speaker,
    pub blocks: Vec<Block>,
    /// Fields that a compactor has no use for.
    pub extra: Extra,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    /// One that no API lists.
    Stranger,
}

#[derive(Debug, Clone)]
pub enum Block {
    Text(Text),
    Image,
    Audio,
    /// A kind of content that is not known yet.
    Later,
    Call(Call),
    /// What a call returned, and the id of that call.
    Result {
        id: String,
        blocks: Vec<Block>,
    },
}

/// A text, and how it is written down.
#[derive(Debug, Clone)]
pub struct Text {
    pub text: String,
    pub spelling: Spelling,
    /// Whether it stands in a list of parts, even alone.
    pub part: bool,
    /// Whether a mark for the prompt cache is on it.
    pub cached: bool,
}

/// Ways to write a string that mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    Plain,
    /// Everything but ASCII as escapes.
    Escaped,
    /// Slashes as escapes.
    Slashes,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub tool: String,
    /// A JSON object.
    pub arguments: String,
}

/// Fields beside the content.
#[derive(Debug, Clone)]
pub enum Extra {
    None,
    /// The same unknown field twice.
    Twice,
    /// A number that no type holds.
    HugeNumber,
    /// Lists within lists, so deep.
    Deep(usize),
    /// Fields that are there and say nothing.
    Nulls,
    Reasoning(String),
    Name,
}

/// What stands around the list of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    Plain,
    /// Blanks and line breaks, and fields that stand there twice.
    Spaced,
    /// Tool schemas, and a limit for the reply.
    Tools,
}

impl Text {
    pub fn plain(text: impl Into<String>) -> Self {
        Text {
            text: text.into(),
            spelling: Spelling::Plain,
            part: false,
            cached: false,
        }
    }
}

impl Call {
    pub fn new(id: impl Into<String>, tool: &str, arguments: &serde_json::Value) -> Self {
        Call {
            id: id.into(),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        }
    }
}

impl Said {
    pub fn new(speaker: Speaker, blocks: Vec<Block>) -> Self {
        Said {
            speaker,
            blocks,
            extra: Extra::None,
        }
    }
}

impl Exchange {
    pub fn of(said: Said) -> Self {
        Exchange {
            messages: vec![said],
            legacy: false,
        }
    }

    /// Whether the client asked for it: its first message came from the API.
    pub fn is_answer(&self) -> bool {
        self.messages
            .first()
            .is_some_and(|said| said.speaker == Speaker::Assistant)
    }
}

impl Conversation {
    /// Lengths in exchanges at which the client would have asked: before each answer, and at the
    /// end.
    pub fn request_points(&self) -> Vec<usize> {
        (1..self.exchanges.len())
            .filter(|at| self.exchanges[*at].is_answer())
            .chain([self.exchanges.len()])
            .collect()
    }
}
