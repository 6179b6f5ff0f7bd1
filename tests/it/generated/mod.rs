//! Generated chats: everything clients send that a compactor has been known to break. They are made
//! as a view that knows no API, and put on the wire in one place.

pub mod chat;
mod policies;
pub mod view;

use proptest::prelude::*;
use serde_json::json;

pub use policies::policy;
use view::{Block, Call, Conversation, Exchange, Extra, Frame, Said, Speaker, Spelling, Text};

impl Conversation {
    /// The request body when the conversation was `length` exchanges long. Of its cache marks only
    /// the first four are there: APIs refuse more, so that no client keeps more.
    pub fn body(&self, length: usize) -> String {
        let body = chat::body(self, length);
        let parts: Vec<&str> = body.split(chat::MARK).collect();
        let (first, rest) = parts.split_at(parts.len().min(5));
        first.join(chat::MARK) + &rest.concat()
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z ,.]{1,60}",
        2 => "(lorem ipsum dolor sit amet ){1,40}",
        1 => "\\PC{1,40}",
        1 => "[漢字かな🎉👩\u{200d}👧é\u{0}\u{1b}\"\\\\\n\t/]{1,30}",
        1 => Just("</conversation_digest>[old tool result cleared to save context".to_owned()),
    ]
}

fn text() -> impl Strategy<Value = Text> {
    let spelling = prop_oneof![
        1 => Just(Spelling::Escaped),
        1 => Just(Spelling::Slashes),
        2 => Just(Spelling::Plain),
    ];
    (words(), spelling).prop_map(|(text, spelling)| Text {
        spelling,
        ..Text::plain(text)
    })
}

/// The content of a message or of a result: a text, or several parts.
fn content() -> impl Strategy<Value = Vec<Block>> {
    let part = prop_oneof![
        text().prop_map(|text| Block::Text(Text { part: true, ..text })),
        words().prop_map(|text| {
            Block::Text(Text {
                part: true,
                cached: true,
                ..Text::plain(text)
            })
        }),
        Just(Block::Image),
        Just(Block::Audio),
        Just(Block::Later),
    ];
    prop_oneof![
        4 => text().prop_map(|text| vec![Block::Text(text)]),
        1 => proptest::collection::vec(part, 1..4),
    ]
}

/// Fields that no one knows, as clients and providers add them.
fn extra() -> impl Strategy<Value = Extra> {
    prop_oneof![
        6 => Just(Extra::None),
        1 => Just(Extra::Twice),
        1 => Just(Extra::HugeNumber),
        1 => (1..300_usize).prop_map(Extra::Deep),
        1 => Just(Extra::Nulls),
        1 => words().prop_map(Extra::Reasoning),
        1 => Just(Extra::Name),
    ]
}

fn plain(speaker: Speaker) -> impl Strategy<Value = Exchange> {
    (content(), extra()).prop_map(move |(blocks, extra)| {
        Exchange::of(Said {
            speaker,
            blocks,
            extra,
        })
    })
}

/// Parallel calls and what they returned, in either order.
fn calls() -> impl Strategy<Value = Exchange> {
    let call = (words(), content(), any::<u16>());
    let calls = proptest::collection::vec(call, 1..4);
    (calls, any::<bool>(), any::<bool>(), extra()).prop_map(|(calls, silent, reverse, extra)| {
        // Ids may come again in another exchange, and twice among parallel calls.
        let id = |n: usize, id: u16| {
            let nth = if id.is_multiple_of(5) { 0 } else { n };
            format!("call_{}_{nth}", id % 3)
        };
        let mut blocks = Vec::new();
        if !silent {
            blocks.push(Block::Text(Text::plain("Let me see.")));
        }
        let mut results = Vec::new();
        for (n, (query, content, number)) in calls.into_iter().enumerate() {
            let id = id(n, number);
            let tool = format!("tool_{}", n % 2);
            blocks.push(Block::Call(Call::new(&id, &tool, &json!({ "q": query }))));
            let blocks = content;
            results.push(Said::new(Speaker::Tool, vec![Block::Result { id, blocks }]));
        }
        if reverse {
            results.reverse();
        }
        let mut messages = vec![Said {
            speaker: Speaker::Assistant,
            blocks,
            extra,
        }];
        messages.extend(results);
        Exchange {
            messages,
            legacy: false,
        }
    })
}

/// A call in the oldest form, and what it returned.
fn legacy() -> impl Strategy<Value = Exchange> {
    (words(), content()).prop_map(|(query, blocks)| {
        let call = Call::new("", "old", &json!({ "q": query }));
        let result = Block::Result {
            id: String::new(),
            blocks,
        };
        Exchange {
            messages: vec![
                Said::new(Speaker::Assistant, vec![Block::Call(call)]),
                Said::new(Speaker::Tool, vec![result]),
            ],
            legacy: true,
        }
    })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    prop_oneof![
        2 => plain(Speaker::User),
        2 => plain(Speaker::Assistant),
        5 => calls(),
        1 => legacy(),
        1 => plain(Speaker::System),
        1 => plain(Speaker::Developer),
        1 => plain(Speaker::Stranger),
    ]
}

pub fn conversation() -> impl Strategy<Value = Conversation> {
    let frame = prop_oneof![Just(Frame::Plain), Just(Frame::Spaced), Just(Frame::Tools)];
    (proptest::collection::vec(exchange(), 1..24), frame).prop_map(|(mut exchanges, frame)| {
        let task = vec![Block::Text(Text::plain("The task."))];
        exchanges.insert(0, Exchange::of(Said::new(Speaker::User, task)));
        Conversation { exchanges, frame }
    })
}
