//! A message with one part in another form; every other byte is as it was.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cache_control;
use crate::core::json::span_in;
use crate::core::wire::chat::Message;

/// The message with `text` as its content. A `cache_control` mark on a part stays on the one part that is left.
pub(in crate::core) fn with_content(message: &Message<'_>, text: &str) -> Option<String> {
    let text = serde_json::to_string(text).ok()?;
    let content = match cache_control(message) {
        Some(mark) => format!(r#"[{{"type":"text","text":{text},"cache_control":{mark}}}]"#),
        None => text,
    };
    spliced(message.raw, [(message.content?, content)])
}

/// The message with the arguments of its calls as `change` wants them, given each call's name and decoded arguments.
/// `None` when it wants nothing changed.
pub(in crate::core) fn with_arguments(
    message: &Message<'_>,
    mut change: impl FnMut(&str, &str) -> Option<String>,
) -> Option<String> {
    #[derive(Deserialize)]
    struct Legacy<'a> {
        name: Option<String>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let mut all: Vec<(&str, &str)> = message
        .calls
        .iter()
        .filter_map(|call| Some((call.name.as_ref(), call.arguments?)))
        .collect();
    let legacy: Option<Legacy<'_>> = message
        .function_call
        .and_then(|raw| serde_json::from_str(raw).ok());
    if let Some(Legacy {
        name,
        arguments: Some(arguments),
    }) = &legacy
    {
        all.push((name.as_deref().unwrap_or_default(), arguments.get()));
    }
    all.sort_by_key(|(_, raw)| span_in(message.raw, raw).start);
    spliced(
        message.raw,
        all.into_iter()
            .filter_map(|(name, raw)| Some((raw, changed(raw, |decoded| change(name, decoded))?))),
    )
}

/// The message with the texts of its content (the string, or its text parts) as `change` wants them. `None` when it
/// wants nothing changed.
pub(in crate::core) fn with_texts(
    message: &Message<'_>,
    mut change: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let raw = message.content?;
    if !raw.starts_with('[') {
        return spliced(message.raw, [(raw, changed(raw, change)?)]);
    }
    with_parts(message, |part| {
        let text = serde_json::from_str::<Part<'_>>(part).ok()?.text?.get();
        spliced(part, [(text, changed(text, &mut change)?)])
    })
}

/// The message with parts of its content as `change` wants them, given each part's JSON. `None` when it wants nothing
/// changed.
pub(in crate::core) fn with_parts(
    message: &Message<'_>,
    mut change: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let parts: Vec<&RawValue> =
        serde_json::from_str(message.content.filter(|raw| raw.starts_with('['))?).ok()?;
    spliced(
        message.raw,
        parts
            .into_iter()
            .filter_map(|part| Some((part.get(), change(part.get())?))),
    )
}

/// The JSON of what `change` makes of the text that `raw` spells.
fn changed(raw: &str, change: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    serde_json::to_string(&change(&serde_json::from_str::<String>(raw).ok()?)?).ok()
}

/// `raw` with slices of it, given in their order, replaced. `None` when there are none.
fn spliced<'a>(
    raw: &'a str,
    changes: impl IntoIterator<Item = (&'a str, String)>,
) -> Option<String> {
    let (mut json, mut from) = (String::with_capacity(raw.len()), None);
    for (old, new) in changes {
        let span = span_in(raw, old);
        json.push_str(raw.get(from.unwrap_or(0)..span.start)?);
        json.push_str(&new);
        from = Some(span.end);
    }
    json.push_str(raw.get(from?..)?);
    Some(json)
}

/// The message without the members of these names. `None` when it has none of them.
pub(in crate::core) fn without_members(message: &Message<'_>, names: &[&str]) -> Option<String> {
    struct Members<'a>(Vec<(String, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Vec<(String, &'de RawValue)>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Self::Value, A::Error> {
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
        .filter_map(|(name, value)| {
            Some(format!(
                "{}:{}",
                serde_json::to_string(&name).ok()?,
                value.get()
            ))
        })
        .collect();
    (kept.len() < all).then(|| format!("{{{}}}", kept.join(",")))
}
