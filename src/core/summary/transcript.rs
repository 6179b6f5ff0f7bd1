//! Exchanges as text that a model reads as data: who said what, what was called with what, what came out.
//!
//! Every line of a content stands indented, so that nothing in it can pass for a line of the transcript's own.

use std::fmt::Write as _;

use crate::core::conversation::{Exchange, Role};
use crate::core::json::Json;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Message;
use crate::core::wire::chat::media_kind;
use crate::core::wire::chat::text_of;

/// One exchange as text.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub text: String,
    pub tokens: u64,
    /// Index of its first message.
    pub first: usize,
}

/// The transcripts of exchanges; results and arguments show at most `limit` characters. Instructions are left out: they
/// stay where they are.
pub(super) fn parts(
    messages: &[Message<'_>],
    exchanges: &[Exchange],
    limit: usize,
    encoding: Encoding,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(exchanges.len());
    for exchange in exchanges {
        let mut text = String::new();
        for message in messages
            .get(exchange.first..exchange.end)
            .unwrap_or_default()
        {
            quote(message, messages.get(exchange.first), limit, &mut text);
        }
        if !text.is_empty() {
            let tokens = encoding.count(&text);
            parts.push(Part {
                text,
                tokens,
                first: exchange.first,
            });
        }
    }
    parts
}

fn quote(message: &Message<'_>, call: Option<&Message<'_>>, limit: usize, out: &mut String) {
    let said = said(message);
    match message.role {
        Role::System | Role::Developer => {}
        Role::Tool | Role::Function => {
            let calls = call.map(|call| call.calls.as_slice()).unwrap_or_default();
            let called = calls
                .iter()
                .find(|call| Some(&call.id) == message.answers.as_ref())
                .map(|call| call.name.as_ref());
            let name = called.or(message.name.as_deref()).unwrap_or("the call");
            entry(&format!("result of {name}"), &shortened(&said, limit), out);
        }
        role => {
            let who = match role {
                Role::User => "user",
                Role::Assistant => "assistant",
                _ => "other",
            };
            // Names are written by clients as well.
            let who = message.name.as_deref().map_or(who.to_owned(), |name| {
                format!("{who} {}", shortened(name, 64).replace('\n', " "))
            });
            if !said.trim().is_empty()
                || message.calls.is_empty() && message.function_call.is_none()
            {
                entry(&who, &said, out);
            }
            for call in &message.calls {
                let arguments = call.arguments.map(|raw| {
                    serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned())
                });
                entry(
                    &format!("call {}", call.name),
                    &shortened(arguments.as_deref().unwrap_or_default(), limit),
                    out,
                );
            }
            if let Some(raw) = message.function_call {
                entry("call", &shortened(raw, limit), out);
            }
        }
    }
}

fn entry(head: &str, text: &str, out: &mut String) {
    let text = text.trim_end();
    let _ = if text.contains('\n') {
        writeln!(out, "{head}:\n  {}", text.replace('\n', "\n  "))
    } else {
        writeln!(out, "{head}: {text}")
    };
}

/// What a message says, with a word for each part that is no text.
pub(super) fn said(message: &Message<'_>) -> String {
    let mut text = text_of(message).join("\n");
    if let Some(Json::List(parts)) = message
        .content
        .filter(|raw| raw.starts_with('['))
        .and_then(Json::parse)
    {
        for what in parts.iter().filter_map(media_kind) {
            let _ = write!(text, "{}[{what}]", if text.is_empty() { "" } else { " " });
        }
    }
    text
}

/// A text of at most about `limit` characters: two thirds of that from its beginning, the rest from its end.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    let total = text.chars().count();
    if total <= limit {
        return text.to_owned();
    }
    let (head, tail) = (limit - limit / 3, limit / 3);
    let at = |nth: usize| {
        text.char_indices()
            .nth(nth)
            .map_or(text.len(), |(at, _)| at)
    };
    let (beginning, end) = (
        text.get(..at(head)).unwrap_or(text),
        text.get(at(total - tail)..).unwrap_or_default(),
    );
    format!(
        "{beginning}\n[… {} characters left out …]\n{end}",
        total - head - tail
    )
}
