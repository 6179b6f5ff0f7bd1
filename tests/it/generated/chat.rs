//! The view as JSON of chat completions. Another API needs another file like this one, and nothing
//! else.

use super::view::{
    Block, Call, Conversation, Exchange, Extra, Frame, Said, Speaker, Spelling, Text,
};

/// The request body when the conversation was `length` exchanges long.
pub fn body(conversation: &Conversation, length: usize) -> String {
    let messages: Vec<String> = conversation.exchanges[..length]
        .iter()
        .flat_map(messages)
        .collect();
    let (before, after, separator) = match conversation.frame {
        Frame::Plain => (r#"{"model":"m","messages":["#, "]}", ","),
        Frame::Spaced => (
            "{ \"messages\" : [\n  ",
            "\n ] , \"model\":\"m\", \"n\":1.50, \"z\":1, \"z\":{\"a\":1e400} }\n",
            " ,\n  ",
        ),
        Frame::Tools => (
            concat!(
                r#"{"tools":[{"type":"function","function":"#,
                r#"{"name":"tool_0","description":"d","parameters":{}}}],"#,
                r#""max_tokens":17,"messages":["#
            ),
            r#"],"model":"m","stream":true}"#,
            ", ",
        ),
    };
    format!("{before}{}{after}", messages.join(separator))
}

/// The messages of an exchange, each as its raw JSON.
pub fn messages(exchange: &Exchange) -> Vec<String> {
    let (mut raw, mut called) = (Vec::new(), "");
    for said in &exchange.messages {
        for block in &said.blocks {
            if let Block::Call(call) = block {
                called = &call.tool;
            }
        }
        raw.push(message(said, exchange.legacy.then_some(called)));
    }
    raw
}

/// One message; in the form of functions where `legacy` names the one that was called.
fn message(said: &Said, legacy: Option<&str>) -> String {
    let extra = extra(&said.extra);
    if let [Block::Result { id, blocks }] = &said.blocks[..] {
        let content = content(blocks);
        return match legacy {
            Some(name) => {
                format!(r#"{{"role":"function","name":"{name}","content":{content}{extra}}}"#)
            }
            None => {
                format!(r#"{{"tool_call_id":"{id}","role":"tool","content":{content}{extra}}}"#)
            }
        };
    }
    let role = match said.speaker {
        Speaker::System => "system",
        Speaker::Developer => "developer",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
        Speaker::Stranger => "critic",
    };
    let calls: Vec<&Call> = said
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Call(call) => Some(call),
            _ => None,
        })
        .collect();
    let content = content(&said.blocks);
    let calls = match (legacy, &calls[..]) {
        (_, []) => String::new(),
        (Some(_), [first, ..]) => format!(r#","function_call":{}"#, function(first)),
        (None, calls) => {
            let calls: Vec<String> = calls.iter().map(|made| call(made)).collect();
            format!(r#","tool_calls":[{}]"#, calls.join(","))
        }
    };
    format!(r#"{{"role":"{role}","content":{content}{calls}{extra}}}"#)
}

fn call(call: &Call) -> String {
    let (id, function) = (&call.id, function(call));
    format!(r#"{{"id":"{id}","type":"function","function":{function}}}"#)
}

fn function(call: &Call) -> String {
    let (name, arguments) = (&call.tool, quoted(&call.arguments));
    format!(r#"{{"name":"{name}","arguments":{arguments}}}"#)
}

/// Content as a string, as a list of parts, or `null` where there is none.
fn content(blocks: &[Block]) -> String {
    if let [Block::Text(text), rest @ ..] = blocks
        && !text.part
        && rest.iter().all(|block| matches!(block, Block::Call(_)))
    {
        return string(text);
    }
    let parts: Vec<String> = blocks.iter().filter_map(part).collect();
    if parts.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", parts.join(" , "))
    }
}

/// A mark for the prompt cache.
pub const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn part(block: &Block) -> Option<String> {
    let part = match block {
        Block::Text(text) => {
            let mark = if text.cached { MARK } else { "" };
            format!(r#"{{"type":"text","text":{}{mark}}}"#, string(text))
        }
        Block::Image => concat!(
            r#"{"type":"image_url","image_url":"#,
            r#"{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}"#
        )
        .to_owned(),
        Block::Audio => {
            r#"{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}"#.to_owned()
        }
        Block::Later => r#"{"type":"later_kind","x":[1,2]}"#.to_owned(),
        Block::Call(_) | Block::Result { .. } => return None,
    };
    Some(part)
}

fn string(text: &Text) -> String {
    let plain = quoted(&text.text);
    match text.spelling {
        Spelling::Plain => plain,
        Spelling::Slashes => plain.replace('/', "\\/"),
        Spelling::Escaped => plain.chars().map(escaped).collect(),
    }
}

fn escaped(c: char) -> String {
    if c.is_ascii() {
        return c.to_string();
    }
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn extra(extra: &Extra) -> String {
    match extra {
        Extra::None => String::new(),
        Extra::Twice => r#","x":1,"x":2"#.to_owned(),
        Extra::HugeNumber => r#","huge":123456789012345678901234567890.5e+300"#.to_owned(),
        Extra::Deep(depth) => format!(r#","deep":{}{}"#, "[".repeat(*depth), "]".repeat(*depth)),
        Extra::Nulls => r#","refusal":null,"annotations":[],"audio":null"#.to_owned(),
        Extra::Reasoning(text) => format!(r#","reasoning_content":{}"#, quoted(text)),
        Extra::Name => r#","name":"participant_1""#.to_owned(),
    }
}
