//! The parts of a prompt besides the messages: tool and function schemas, the choice among them,
//! the response format.
//!
//! The numbers are those of OpenAI's cookbook, "How to count tokens with tiktoken". It does not
//! cover schemas nested in a parameter: those are counted by the same rule, and everything else in
//! a schema by its text, because a prompt that was counted too small is refused.

use super::outline::Fixed;
use crate::core::json::Json;
use crate::core::tokens::{Encoding, Vocabulary};

/// Around the first of a function's parameters.
const PARAMETERS: u64 = 3;
/// Around each parameter.
const PARAMETER: u64 = 3;
/// An enumeration takes less than its items add.
const ENUMERATION: u64 = 3;
/// Around each of its texts.
const ITEM: u64 = 3;
/// After the last function.
const END: u64 = 12;
/// A choice that names a function.
const NAMED_CHOICE: u64 = 4;
/// Around a response format.
const FORMAT: u64 = 8;
/// The text that the template of gpt-oss puts before the first message: its name, the date, its
/// channels. These are the only tokens of a text-only body that none of its bytes stand for.
pub const HARMONY_TOKENS: u64 = 75;

/// Tokens of all of it.
pub(super) fn fixed_tokens(fixed: &Fixed<'_>, encoding: Encoding) -> u64 {
    let list = |raw: Option<&str>| raw.map_or(0, |raw| functions(raw, encoding));
    let choice = |raw: Option<&str>| raw.map_or(0, |raw| choice(raw, encoding));
    list(fixed.tools)
        + list(fixed.functions)
        + choice(fixed.tool_choice)
        + choice(fixed.function_call)
        + fixed.response_format.map_or(0, |raw| format(raw, encoding))
}

fn functions(raw: &str, encoding: Encoding) -> u64 {
    let items = match Json::parse(raw) {
        Some(Json::List(items)) if !items.is_empty() => items,
        Some(Json::List(_)) => return 0,
        _ if raw == "null" => return 0,
        _ => return encoding.count(raw),
    };
    let each = match encoding.vocabulary {
        Vocabulary::O200k => 7,
        Vocabulary::Cl100k | Vocabulary::P50k | Vocabulary::R50k => 10,
    };
    let function = |item: &Json| match item
        .get("function")
        .or_else(|| item.get("name").map(|_| item))
    {
        Some(function) => each + self::function(function, encoding),
        // A tool of the maker's own: its spelling is the best guess.
        None => encoding.count(&item.to_string()),
    };
    items.iter().map(function).sum::<u64>() + END
}

fn function(function: &Json, encoding: Encoding) -> u64 {
    let line = format!(
        "{}:{}",
        text(function, "name"),
        sentence(text(function, "description"))
    );
    let parameters =
        |schema: &Json| encoding.count(text(schema, "description")) + inside(schema, encoding);
    encoding.count(&line) + function.get("parameters").map_or(0, parameters)
}

/// Tokens of the members of an object's schema.
fn object(schema: &Json, encoding: Encoding) -> u64 {
    let mut tokens = 0;
    for key in ["properties", "$defs", "definitions", "patternProperties"] {
        if let Some(Json::Object(members)) = schema.get(key)
            && !members.is_empty()
        {
            tokens += PARAMETERS
                + members
                    .iter()
                    .map(|(name, schema)| PARAMETER + member(name, schema, encoding))
                    .sum::<u64>();
        }
    }
    for key in [
        "items",
        "additionalProperties",
        "not",
        "anyOf",
        "oneOf",
        "allOf",
        "prefixItems",
    ] {
        tokens += match schema.get(key) {
            Some(Json::List(variants)) => variants
                .iter()
                .map(|schema| member("", schema, encoding))
                .sum(),
            Some(schema @ Json::Object(_)) => member("", schema, encoding),
            _ => 0,
        };
    }
    tokens
}

/// Tokens of `name:type:description`, of the values it may have, and of the schemas inside it.
fn member(name: &str, schema: &Json, encoding: Encoding) -> u64 {
    let Json::Object(_) = schema else {
        return encoding.count(name);
    };
    let kind = match schema.get("type") {
        Some(Json::String(kind)) => kind.clone(),
        Some(Json::List(kinds)) => kinds
            .iter()
            .map(|kind| {
                if let Json::String(kind) = kind {
                    kind
                } else {
                    ""
                }
            })
            .collect::<Vec<_>>()
            .join("|"),
        _ => String::new(),
    };
    let line = match (name, kind.as_str()) {
        ("", "") => text(schema, "description").to_owned(),
        _ => format!("{name}:{kind}:{}", sentence(text(schema, "description"))),
    };
    encoding.count(&line) + inside(schema, encoding)
}

/// Tokens of a schema besides its type and description.
fn inside(schema: &Json, encoding: Encoding) -> u64 {
    let Json::Object(members) = schema else {
        return 0;
    };
    let mut tokens = object(schema, encoding);
    for (key, value) in members {
        tokens += match (key.as_str(), value) {
            ("enum", Json::List(items)) => enumeration(items, encoding),
            // Names a dialect, to validators alone.
            ("type" | "description" | "required" | "enum" | "$schema", _) => 0,
            ("properties" | "$defs" | "definitions" | "patternProperties", Json::Object(_)) => 0,
            (
                "items"
                | "additionalProperties"
                | "not"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "prefixItems",
                Json::Object(_) | Json::List(_),
            ) => 0,
            // Limits, patterns, defaults and so on.
            (_, Json::Bool(_)) => 0,
            (_, value) => encoding.count(&value.to_string()),
        };
    }
    tokens
}

/// A description without the point at its end.
fn sentence(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}

/// Tokens of the items of an enumeration and of the marks around them, of which there are never
/// less than none.
fn enumeration(items: &[Json], encoding: Encoding) -> u64 {
    let (mut tokens, mut around) = (0, 0_u64);
    for item in items {
        match item {
            Json::String(text) => {
                around += ITEM;
                tokens += encoding.count(text);
            }
            // At most as many as it has bytes, the comma after it included.
            other => {
                around += 1;
                tokens += encoding.count(&other.to_string());
            }
        }
    }
    tokens + around.saturating_sub(ENUMERATION)
}

fn choice(raw: &str, encoding: Encoding) -> u64 {
    match Json::parse(raw) {
        Some(choice) => {
            let name = choice
                .get("function")
                .map_or_else(|| text(&choice, "name"), |function| text(function, "name"));
            NAMED_CHOICE + encoding.count(name)
        }
        None => u64::from(raw == r#""none""#),
    }
}

fn format(raw: &str, encoding: Encoding) -> u64 {
    // Nested deeper than can be read: counted as it is spelled.
    let Some(format) = Json::parse(raw) else {
        return if raw.starts_with('{') {
            encoding.count(raw)
        } else {
            0
        };
    };
    let Some(named) = format.get("json_schema") else {
        return 0;
    };
    let schema = named
        .get("schema")
        .map_or_else(String::new, Json::to_string);
    FORMAT
        + encoding.count(text(named, "name"))
        + encoding.count(text(named, "description"))
        + encoding.count(&schema)
}

fn text<'j>(of: &'j Json, key: &str) -> &'j str {
    match of.get(key) {
        Some(Json::String(text)) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::chat::{Chat, count_fixed, count_message};

    fn prompt(body: &str, encoding: Encoding) -> u64 {
        let chat = Chat::parse(body.as_bytes()).unwrap();
        count_fixed(&chat.outline, encoding)
            + chat
                .messages
                .iter()
                .map(|message| count_message(message.raw, encoding).unwrap())
                .sum::<u64>()
    }

    const WEATHER: &str = r#"{"type":"function","function":{"name":"get_current_weather",
    "description":"Get the current weather in a given location",
        "parameters":{"type":"object","properties":{
            "location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
            "unit":{"type":"string",
                "description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},
        "required":["location"]}}}"#;

    const SYSTEM: &str =
        "You are a helpful assistant that can answer to questions about the weather.";

    fn asked(more: &str) -> String {
        format!(
            r#"{{"messages":[{{"role":"system","content":"{SYSTEM}"}},
            {{"role":"user","content":"What's the weather like in San Francisco?"}}]{more}}}"#
        )
    }

    #[test]
    fn documented_example_of_counting_tools() {
        // OpenAI's cookbook: 105 tokens for gpt-3.5-turbo and gpt-4, 101 for gpt-4o and
        // gpt-4o-mini.
        let body = asked(&format!(r#","tools":[{WEATHER}]"#));
        for (model, tokens) in [
            ("gpt-3.5-turbo", 105),
            ("gpt-4", 105),
            ("gpt-4o", 101),
            ("gpt-4o-mini", 101),
        ] {
            assert_eq!(prompt(&body, Encoding::for_model(model)), tokens, "{model}");
        }
    }

    #[test]
    fn choices_and_legacy_functions_count() {
        let encoding = Encoding::O200K;
        let plain = prompt(&asked(&format!(r#","tools":[{WEATHER}]"#)), encoding);
        let with = |choice: &str| {
            prompt(
                &asked(&format!(r#","tools":[{WEATHER}],"tool_choice":{choice}"#)),
                encoding,
            ) - plain
        };
        assert_eq!(with(r#""auto""#), 0);
        assert_eq!(with(r#""none""#), 1);
        assert_eq!(
            with(r#"{"type":"function","function":{"name":"get_current_weather"}}"#),
            4 + encoding.count("get_current_weather")
        );
        let legacy = WEATHER.trim_start_matches(r#"{"type":"function","function":"#);
        let legacy = legacy.strip_suffix('}').unwrap();
        assert_eq!(
            prompt(&asked(&format!(r#","functions":[{legacy}]"#)), encoding),
            plain
        );
    }

    #[test]
    fn what_is_nested_in_a_schema_is_counted() {
        let encoding = Encoding::O200K;
        let tool = |inner: &str| {
            let schema = format!(r#"{{"type":"object","properties":{{"a":{inner}}}}}"#);
            prompt(
                &asked(&format!(
                    r#","tools":[{{"type":"function","function":{{"name":"f",
                    "parameters":{schema}}}}}]"#
                )),
                encoding,
            )
        };
        let long =
            "a description that is long enough to be noticed when it is left out of the count";
        let bare = tool(r#"{"type":"object"}"#);
        for inner in [
            format!(
                r#"{{"type":"object","properties":{{"b":{{"type":"string",
                "description":"{long}"}}}}}}"#
            ),
            format!(
                r#"{{"type":"array","items":{{"type":"object",
                "properties":{{"b":{{"description":"{long}"}}}}}}}}"#
            ),
            format!(
                r#"{{"anyOf":[{{"type":"null"}},{{"type":"string","description":"{long}"}}]}}"#
            ),
            format!(r#"{{"type":"object","$defs":{{"b":{{"description":"{long}"}}}}}}"#),
            format!(r#"{{"type":"string","default":"{long}"}}"#),
            format!(r#"{{"type":"string","enum":["{long}"]}}"#),
        ] {
            assert!(tool(&inner) >= bare + encoding.count(long) - 3, "{inner}");
        }
    }

    #[test]
    fn a_response_format_costs_its_schema() {
        let encoding = Encoding::O200K;
        let schema =
            r#"{"type":"object","properties":{"city":{"type":"string","description":"The city"}}}"#;
        let format = format!(
            r#","response_format":{{"type":"json_schema",
            "json_schema":{{"name":"place","schema":{schema}}}}}"#
        );
        assert!(
            prompt(&asked(&format), encoding)
                >= prompt(&asked(""), encoding) + encoding.count(schema)
        );
        assert_eq!(
            prompt(&asked(r#","response_format":{"type":"text"}"#), encoding),
            prompt(&asked(""), encoding)
        );
    }
}
