//! The full form of a digest: older exchanges as short lines, before anything is left out.
//!
//! ```text
//! user: words of the user
//!  a further line of them
//! assistant: words of the model
//! → get_order(id=O-17)
//!  status: shipped
//!  items: [2]{sku,count}:
//!   A-1,3
//!   B-9,1
//! → shell(cat > a.py <<'EOF'…)
//!   import os
//! ```
//!
//! A line that begins without a blank opens an entry; a line with one blank belongs to the entry;
//! one with more belongs to the last line with one blank that ends with a colon, or to the entry.
//! So a digest can be read back and extended.

use super::line::{DigestLine, for_each_line};
use super::result::{Known, answered, inline};
use crate::core::conversation::{Block, Entry, Exchange, Kind, Text};
use crate::core::json::Json;
use crate::core::text::pieces;

/// An argument up to this length is in the call's own line (bytes).
const ARGUMENT_BYTES: usize = 160;

/// Begins the line above an argument that has lines of its own.
const ARGUMENT: &str = "with ";

/// Appends the lines of one exchange.
pub(super) fn lines_of(
    messages: &[Entry<'_>],
    exchange: &Exchange,
    known: &mut Option<Known>,
    out: &mut Vec<DigestLine>,
) {
    let Some(first) = messages.get(exchange.first) else {
        return;
    };
    match exchange.kind {
        Kind::User => words("user:", first, out),
        Kind::Assistant | Kind::Calls => words("assistant:", first, out),
        Kind::Instruction | Kind::Other => {}
    }
    let results: Vec<_> = exchange
        .results(messages)
        .map(|(_, result)| result)
        .collect();
    for call in first.calls() {
        let is_legacy = call.legacy.is_some();
        let arguments = if is_legacy {
            call.arguments.and_then(Text::decode)
        } else {
            call.arguments.map(Text::decode_or_raw)
        };
        let arguments = arguments.as_deref();
        called(&call.name, arguments, out);
        if is_legacy {
            results
                .iter()
                .filter(|result| result.legacy)
                .for_each(|result| answered(result, arguments, known, out));
            continue;
        }
        if let (Some(known), Some(arguments)) = (known.as_mut(), arguments) {
            known.note(arguments);
        }
        let id = Some(call.id.as_ref());
        let mut answers = results
            .iter()
            .filter(|result| result.answers.as_deref() == id);
        if let Some(result) = answers.next() {
            answered(result, arguments, known, out);
        }
    }
}

/// Appends the words of a party, the first of them on a line with `head`.
fn words(head: &str, entry: &Entry<'_>, out: &mut Vec<DigestLine>) {
    let mut head = Some(head);
    let mut line = |text: &str| match head.take() {
        Some(head) => DigestLine::push(out, format!("{head} {}", text.trim_start()), true, false),
        None => DigestLine::push(out, format!(" {text}"), true, false),
    };
    for text in entry.texts() {
        for_each_line(&text, &mut line);
    }
    for block in &entry.blocks {
        match block {
            Block::Media(media) => line(&format!("[{}]", media.kind.as_str())),
            Block::Other(Some(kind)) => line(&format!("[{kind}]")),
            _ => {}
        }
    }
}

/// Appends the line of a call, and those of its long arguments.
fn called(name: &str, arguments: Option<&str>, out: &mut Vec<DigestLine>) {
    let mut head = format!("→ {name}(");
    // Long texts: the parts of them that are not in the head line yet.
    let mut rest: Vec<(&str, &str)> = Vec::new();
    let json = arguments.and_then(Json::parse);
    if let Some(Json::Object(members)) = &json {
        named_arguments(members, &mut head, &mut rest);
    } else {
        let (first, after) = opening(arguments.unwrap_or_default());
        head.push_str(first);
        if !after.is_empty() {
            rest.push(("", after));
        }
    }
    head.push(')');
    DigestLine::push(out, head, true, false);
    let alone = rest.len() == 1;
    for (key, text) in rest {
        if !alone {
            DigestLine::push(out, format!(" {ARGUMENT}{key}:"), true, true);
        }
        for_each_line(text, &mut |line| {
            DigestLine::push(out, format!("  {line}"), true, true)
        });
    }
}

/// Appends arguments to the head line of their call, and the parts of long texts that have no place
/// there to `rest`.
fn named_arguments<'j>(
    members: &'j [(String, Json)],
    head: &mut String,
    rest: &mut Vec<(&'j str, &'j str)>,
) {
    // A command or a question that is the only argument needs no key.
    let phrase = matches!(
        members,
        [(_, Json::String(text))] if text.contains(char::is_whitespace)
    );
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            head.push_str(", ");
        }
        if !phrase {
            head.push_str(key);
            head.push('=');
        }
        match value {
            Json::String(text) if phrase || text.len() > ARGUMENT_BYTES || text.contains('\n') => {
                let (first, after) = opening(text);
                head.push_str(first);
                if !after.is_empty() {
                    head.push('…');
                    rest.push((key, after));
                }
            }
            value => {
                let mut cell = String::new();
                inline(value, &mut cell);
                head.push_str(&cell);
            }
        }
    }
}

/// The beginning of a text, for its call's own line, and the rest.
fn opening(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    if line.len() <= ARGUMENT_BYTES {
        return (line.trim_end(), rest);
    }
    let first = pieces(line, ARGUMENT_BYTES).next().unwrap_or_default();
    (
        first.trim_end(),
        text.get(first.len()..).unwrap_or_default(),
    )
}
