//! Baler's own calls as chat completions: where they go, their requests, and what their answers
//! contain.

use serde::Deserialize;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::core::json::write_string;
use crate::core::wire::chat::Outline;
use crate::core::wire::own_call::{Ask, Manner, NoCompletion, OutputLimit, Parameter};

/// How the paths of chat completions end.
pub const SUFFIX: &str = "/chat/completions";

/// The folder of Azure's paths whose next segment names a model.
const DEPLOYMENTS: &str = "/deployments/";

/// The path of a call for a request to `request_path`: see `Dialect::own_path`.
pub(in crate::core::wire) fn own_path(request_path: &str) -> String {
    let deployment = request_path
        .split_once(DEPLOYMENTS)
        .and_then(|(base, rest)| Some((base, rest.split('/').next()?)))
        .filter(|(_, deployment)| !deployment.is_empty());
    match deployment {
        Some((base, deployment)) => format!("{base}{DEPLOYMENTS}{deployment}{SUFFIX}"),
        None => format!("/v1{SUFFIX}"),
    }
}

/// Fields of a call that are Baler's to set.
pub(in crate::core::wire) const OWN_FIELDS: [&str; 3] = ["model", "messages", "stream"];

fn limit_key(limit: OutputLimit) -> &'static str {
    match limit {
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
        OutputLimit::MaxTokens => "max_tokens",
    }
}

/// The body of a call.
pub(in crate::core::wire) fn completion_request(ask: &Ask<'_>) -> String {
    let manner = ask.manner;
    let message = |role: &str, content: &str| {
        Value::from(Map::from_iter([
            ("role".to_owned(), role.into()),
            ("content".to_owned(), content.into()),
        ]))
    };
    let mut body = Map::new();
    if let Some(model) = &manner.model {
        body.insert("model".to_owned(), model.as_str().into());
    }
    body.insert(
        "messages".to_owned(),
        Value::from(vec![
            message("system", ask.instructions),
            message("user", ask.text),
        ]),
    );
    body.insert(limit_key(manner.limit).to_owned(), manner.max_tokens.into());
    if let Some(temperature) = manner.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    body.insert("stream".to_owned(), false.into());
    body.extend(manner.parameters.clone());
    Value::from(body).to_string()
}

/// Fields of a client's request that its continuation does not have, or has with another value.
const REPLACED: [&str; 15] = [
    "messages",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "tool_choice",
    "function_call",
    "response_format",
    "logprobs",
    "top_logprobs",
    "prediction",
    "stop",
    "store",
    "modalities",
];

/// The body of a call that continues a client's request. The client's own fields follow the
/// messages unchanged, so that the upstream finds tools and messages in its prompt cache.
pub(in crate::core::wire) fn continued_request(
    outline: &Outline<'_>,
    messages: &[&str],
    text: &str,
    manner: &Manner,
) -> Option<String> {
    let fields = fields(outline.body)?;
    let mut body = String::from("{\"messages\":[");
    for message in messages {
        body.extend([message, ","]);
    }
    body.push_str("{\"role\":\"user\",\"content\":");
    write_string(text, &mut body);
    body.push_str("}]");
    let mut field = |key: &str, value: &str| {
        body.push(',');
        write_string(key, &mut body);
        body.extend([":", value]);
    };
    for (key, value) in &fields {
        if !REPLACED.contains(&key.as_str()) && !manner.parameters.contains_key(key) {
            field(key, value.get());
        }
    }
    // What follows is Baler's own to say, and no key may stand twice.
    let is_own = |key: &str| {
        matches!(key, "stream" | "tool_choice" | "function_call") || key == limit_key(manner.limit)
    };
    for (key, value) in &manner.parameters {
        if !is_own(key) {
            field(key, &value.to_string());
        }
    }
    if outline.fixed.tools.is_some() {
        field("tool_choice", "\"none\"");
    }
    if outline.fixed.functions.is_some() {
        field("function_call", "\"none\"");
    }
    field(limit_key(manner.limit), &manner.max_tokens.to_string());
    field("stream", "false");
    body.push('}');
    Some(body)
}

/// The fields of an object, in their order.
fn fields(body: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Fields;
    impl<'de> Visitor<'de> for Fields {
        type Value = Vec<(String, &'de RawValue)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(field) = map.next_entry()? {
                fields.push(field);
            }
            Ok(fields)
        }
    }
    serde_json::Deserializer::from_str(body)
        .deserialize_map(Fields)
        .ok()
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    finish_reason: Option<String>,
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Value>,
    refusal: Option<Value>,
}

/// The text of an answer; empty where it has none.
pub(in crate::core::wire) fn completion(body: &[u8]) -> Result<String, NoCompletion> {
    let completion: Completion =
        serde_json::from_slice(body).map_err(|_| NoCompletion::NotACompletion)?;
    let Choice {
        finish_reason,
        message,
    } = completion
        .choices
        .into_iter()
        .next()
        .ok_or(NoCompletion::NotACompletion)?;
    if message
        .refusal
        .is_some_and(|refusal| refusal != Value::Null && refusal != "")
    {
        return Err(NoCompletion::Refused);
    }
    match finish_reason.as_deref() {
        Some("length" | "max_tokens" | "model_length") => return Err(NoCompletion::CutOff),
        Some("content_filter" | "refusal" | "safety") => return Err(NoCompletion::Refused),
        _ => {}
    }
    Ok(match message.content {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect(),
        _ => String::new(),
    })
}

/// The parameter that an error complains about.
pub(in crate::core::wire) fn refused_parameter(body: &[u8]) -> Option<Parameter> {
    let text = std::str::from_utf8(body).ok()?;
    let limit = |limit| (limit_key(limit), Parameter::Limit(limit));
    // The first one counts: OpenAI names the right parameter after the wrong one.
    [
        ("temperature", Parameter::Temperature),
        limit(OutputLimit::MaxCompletionTokens),
        limit(OutputLimit::MaxTokens),
    ]
    .into_iter()
    .filter_map(|(name, parameter)| Some((text.find(name)?, parameter)))
    .min_by_key(|(at, _)| *at)
    .map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_calls_go_to_a_path_of_their_own() {
        for (request, own) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/messages", "/v1/chat/completions"),
            ("/api/v3/some/suffix", "/v1/chat/completions"),
            ("/deployments/", "/v1/chat/completions"),
            (
                "/openai/deployments/gpt-4o/chat/completions",
                "/openai/deployments/gpt-4o/chat/completions",
            ),
            (
                "/openai/deployments/gpt-4o/extensions/chat/completions",
                "/openai/deployments/gpt-4o/chat/completions",
            ),
        ] {
            assert_eq!(own_path(request), own, "{request}");
        }
    }

    #[test]
    fn only_a_finished_text_is_a_completion() {
        let read = |choice: &str| completion(format!(r#"{{"choices":[{choice}]}}"#).as_bytes());
        for (choice, expected) in [
            (r#"{"message":{"content":"a"}}"#, Ok("a".to_owned())),
            (
                r#"{"message":{"content":[{"type":"text","text":"a"},{"text":"b"},{"x":1}]}}"#,
                Ok("ab".to_owned()),
            ),
            (r#"{"message":{"content":null}}"#, Ok(String::new())),
            (
                r#"{"message":{"content":"a"},"finish_reason":"length"}"#,
                Err(NoCompletion::CutOff),
            ),
            (
                r#"{"message":{"content":"a"},"finish_reason":"content_filter"}"#,
                Err(NoCompletion::Refused),
            ),
            (
                r#"{"message":{"content":"a","refusal":"no"}}"#,
                Err(NoCompletion::Refused),
            ),
            ("", Err(NoCompletion::NotACompletion)),
            ("7", Err(NoCompletion::NotACompletion)),
        ] {
            assert_eq!(read(choice), expected, "{choice}");
        }
        assert_eq!(completion(b"<html>"), Err(NoCompletion::NotACompletion));
    }

    #[test]
    fn an_error_names_the_parameter_that_it_refuses() {
        let openai = concat!(
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with "#,
            r#"this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}"#,
        )
        .as_bytes();
        assert_eq!(
            refused_parameter(openai),
            Some(Parameter::Limit(OutputLimit::MaxTokens))
        );
        assert_eq!(
            refused_parameter(br#"{"error":"Unsupported value: 'temperature'"}"#),
            Some(Parameter::Temperature)
        );
        assert_eq!(refused_parameter(br#"{"error":"no such model"}"#), None);
    }
}
