//! A call in few words: its name and its arguments, shortened.

use crate::core::conversation::{Entry, Exchange, Text, ToolResult};
use crate::core::json::Json;
use crate::core::text::harmless;

/// The part of the arguments that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Members and items at each level.
    pub items: usize,
    /// Characters of a text.
    pub chars: usize,
}

/// For references to another message.
pub(super) const SHORT: Limits = Limits {
    items: 3,
    chars: 60,
};

/// The first `chars` characters of a text on one line, with … where more follows.
pub(super) fn clipped(text: &str, chars: usize) -> String {
    let mut line: String = text
        .chars()
        .take(chars)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(chars).is_some() {
        line.push('…');
    }
    line
}

/// A text like [`clipped`]; of a path the last `chars` characters, because its end has the file's
/// name.
fn clipped_value(text: &str, chars: usize) -> String {
    let is_path =
        text.contains(['/', '\\']) && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let long_by = text.chars().count().saturating_sub(chars);
    if !is_path || long_by == 0 {
        return clipped(text, chars);
    }
    let from = text.char_indices().nth(long_by).map_or(0, |(at, _)| at);
    let end = text.get(from..).unwrap_or_default();
    // Whole names where there are any.
    let from = end.find(['/', '\\']).filter(|at| at + 1 < end.len());
    format!("…{}", end.get(from.unwrap_or(0)..).unwrap_or_default())
}

/// Characters shown of a file's name.
const FILE_CHARS: usize = 120;

/// The name of a file inside a stub: its end, where it is long.
pub(super) fn file_name(path: &str) -> String {
    harmless(&clipped_value(path, FILE_CHARS)).into_owned()
}

/// `read(path=src/main.rs)`
pub(super) fn of_call(name: &str, arguments: Option<Text<'_>>, limits: Limits) -> String {
    let text = arguments.map(Text::decode_or_raw).unwrap_or_default();
    let arguments = match Json::parse(&text) {
        Some(Json::Object(members)) => {
            let shown = members
                .iter()
                .take(limits.items)
                .map(|(key, value)| format!("{key}={}", of_value(value, limits)));
            let rest = (members.len() > limits.items).then(|| "…".to_owned());
            shown.chain(rest).collect::<Vec<_>>().join(", ")
        }
        _ => clipped(&text, limits.chars),
    };
    format!("{name}({arguments})")
}

/// The call that a result answers.
pub(super) fn of_result(
    messages: &[Entry<'_>],
    exchange: &Exchange,
    result: &ToolResult<'_>,
) -> String {
    match exchange.call_of(messages, result) {
        Some(call) => of_call(&call.name, call.arguments, SHORT),
        None => exchange.tool_of(messages, result).unwrap_or_default(),
    }
}

fn of_value(value: &Json, limits: Limits) -> String {
    match value {
        Json::String(text) => clipped_value(text, limits.chars),
        Json::List(items) => {
            let shown = items
                .iter()
                .take(limits.items)
                .map(|item| of_value(item, limits));
            let rest = (items.len() > limits.items).then(|| format!("… {} in all", items.len()));
            format!("[{}]", shown.chain(rest).collect::<Vec<_>>().join(", "))
        }
        Json::Object(members) => {
            let shown = members
                .iter()
                .take(limits.items)
                .map(|(key, value)| format!("{key}: {}", of_value(value, limits)));
            let rest = (members.len() > limits.items).then(|| "…".to_owned());
            format!("{{{}}}", shown.chain(rest).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}
