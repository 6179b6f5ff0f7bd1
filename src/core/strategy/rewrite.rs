//! A message with one part in another form; every other byte is as it was.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::chat::{Message, span_in};

/// The message with `text` as its content.
pub(super) fn with_content(message: &Message<'_>, text: &str) -> Option<String> {
    let span = span_in(message.raw, message.content?);
    let text = serde_json::to_string(text).ok()?;
    Some([message.raw.get(..span.start)?, &text, message.raw.get(span.end..)?].concat())
}

/// The message with the arguments of its calls as `change` wants them, given each call's name and decoded arguments.
/// `None` when it wants nothing changed.
pub(super) fn with_arguments(message: &Message<'_>, mut change: impl FnMut(&str, &str) -> Option<String>) -> Option<String> {
    #[derive(Deserialize)]
    struct Legacy<'a> {
        name: Option<String>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let mut all: Vec<(&str, &str)> = message.calls.iter().filter_map(|call| Some((call.name.as_ref(), call.arguments?))).collect();
    let legacy: Option<Legacy<'_>> = message.function_call.and_then(|raw| serde_json::from_str(raw).ok());
    if let Some(Legacy { name, arguments: Some(arguments) }) = &legacy {
        all.push((name.as_deref().unwrap_or_default(), arguments.get()));
    }
    let (mut json, mut from, mut changed) = (String::with_capacity(message.raw.len()), 0, false);
    all.sort_by_key(|(_, raw)| span_in(message.raw, raw).start);
    for (name, raw) in all {
        let Some(new) = serde_json::from_str::<String>(raw).ok().and_then(|decoded| change(name, &decoded)) else { continue };
        let span = span_in(message.raw, raw);
        json.push_str(message.raw.get(from..span.start)?);
        json.push_str(&serde_json::to_string(&new).ok()?);
        from = span.end;
        changed = true;
    }
    json.push_str(message.raw.get(from..)?);
    changed.then_some(json)
}

/// The message with the texts of its content (the string, or its text parts) as `change` wants them. `None` when it
/// wants nothing changed.
pub(super) fn with_texts(message: &Message<'_>, mut change: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let raw = message.content?;
    if !raw.starts_with('[') {
        return with_content(message, &change(&serde_json::from_str::<String>(raw).ok()?)?);
    }
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let parts: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    let (mut json, mut from, mut changed) = (String::with_capacity(message.raw.len()), 0, false);
    for part in parts {
        let Ok(Part { text: Some(text) }) = serde_json::from_str::<Part<'_>>(part.get()) else { continue };
        let Some(new) = serde_json::from_str::<String>(text.get()).ok().and_then(|text| change(&text)) else { continue };
        let span = span_in(message.raw, text.get());
        json.push_str(message.raw.get(from..span.start)?);
        json.push_str(&serde_json::to_string(&new).ok()?);
        from = span.end;
        changed = true;
    }
    json.push_str(message.raw.get(from..)?);
    changed.then_some(json)
}

/// The message with parts of its content as `change` wants them, given each part's JSON. `None` when it wants nothing
/// changed.
pub(super) fn with_parts(message: &Message<'_>, mut change: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let raw = message.content.filter(|raw| raw.starts_with('['))?;
    let parts: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    let (mut json, mut from, mut changed) = (String::with_capacity(message.raw.len()), 0, false);
    for part in parts {
        let Some(new) = change(part.get()) else { continue };
        let span = span_in(message.raw, part.get());
        json.push_str(message.raw.get(from..span.start)?);
        json.push_str(&new);
        from = span.end;
        changed = true;
    }
    json.push_str(message.raw.get(from..)?);
    changed.then_some(json)
}

/// The message without the members of these names. `None` when it has none of them.
pub(super) fn without_members(message: &Message<'_>, names: &[&str]) -> Option<String> {
    struct Members<'a>(Vec<(String, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Vec<(String, &'de RawValue)>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::new();
                    while let Some(member) = map.next_entry()? {
                        members.push(member);
                    }
                    Ok(members)
                }
            }
            deserializer.deserialize_map(Visitor).map(Members)
        }
    }
    let Members(members) = serde_json::from_str(message.raw).ok()?;
    let all = members.len();
    let kept: Vec<String> = members
        .into_iter()
        .filter(|(name, _)| !names.contains(&name.as_str()))
        .filter_map(|(name, value)| Some(format!("{}:{}", serde_json::to_string(&name).ok()?, value.get())))
        .collect();
    (kept.len() < all).then(|| format!("{{{}}}", kept.join(",")))
}
