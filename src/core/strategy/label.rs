//! A call in few words: its name and its arguments, shortened.

use std::borrow::Cow;

use crate::core::conversation::Exchange;
use crate::core::json::Json;
use crate::core::wire::chat::Message;

/// How much of the arguments is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Members and items at each level.
    pub items: usize,
    /// Characters of a text.
    pub chars: usize,
}

/// For references to another message.
pub(super) const SHORT: Limits = Limits {
    items: 2,
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

/// `read(path=src/main.rs)`
pub(super) fn of_call(name: &str, arguments: Option<&str>, limits: Limits) -> String {
    let decoded = arguments
        .map(|raw| serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned));
    let arguments = match decoded.as_deref().map(|text| (text, Json::parse(text))) {
        Some((_, Some(Json::Object(members)))) => {
            let shown = members
                .iter()
                .take(limits.items)
                .map(|(key, value)| format!("{key}={}", of_value(value, limits)));
            let rest = (members.len() > limits.items).then(|| "…".to_owned());
            shown.chain(rest).collect::<Vec<_>>().join(", ")
        }
        Some((text, _)) => clipped(text, limits.chars),
        None => String::new(),
    };
    format!("{name}({arguments})")
}

/// The call whose result stands at `at`.
pub(super) fn of_result(messages: &[Message<'_>], exchange: &Exchange, at: usize) -> String {
    let (Some(call), Some(result)) = (messages.get(exchange.first), messages.get(at)) else {
        return String::new();
    };
    match call
        .calls
        .iter()
        .find(|call| Some(&call.id) == result.answers.as_ref())
    {
        Some(call) => of_call(&call.name, call.arguments, SHORT),
        None => super::scope::name_of_result(messages, exchange, at).unwrap_or_default(),
    }
}

fn of_value(value: &Json, limits: Limits) -> String {
    match value {
        Json::String(text) => clipped(text, limits.chars),
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
