//! One message: its raw span, and the few fields that pairing, counting and strategies need.

use crate::core::conversation::Role;
use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::string;
use crate::core::wire::chat::Unreadable;

/// One entry of `tool_calls`.
#[derive(Debug)]
pub struct Call<'a> {
    /// `id`, or its raw JSON when it is no plain string.
    pub id: Cow<'a, str>,
    /// `function.name`; empty when there is none.
    pub name: Cow<'a, str>,
    /// Raw JSON of `function.arguments`, quotes included.
    pub arguments: Option<&'a str>,
}

/// One message of the list, borrowed from the body.
#[derive(Debug)]
pub struct Message<'a> {
    /// The exact bytes of the message.
    pub raw: &'a str,
    /// Its role.
    pub role: Role,
    /// Raw JSON of `content`; `None` when absent or null.
    pub content: Option<&'a str>,
    /// The participant's `name`.
    pub name: Option<Cow<'a, str>>,
    /// `tool_calls`, in order.
    pub calls: Vec<Call<'a>>,
    /// `tool_call_id` of a result.
    pub answers: Option<Cow<'a, str>>,
    /// Raw JSON of a legacy `function_call`.
    pub function_call: Option<&'a str>,
    /// Raw JSON of `refusal`.
    pub refusal: Option<&'a str>,
    /// Raw JSON of the fields that hold what the model thought, as far as they are there: `reasoning_content` (DeepSeek, Qwen,
    /// vLLM and others), `reasoning` and `reasoning_details` (OpenRouter), `thinking` (Ollama), `thinking_blocks` (LiteLLM).
    pub reasoning: Vec<&'a str>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    role: &'a RawValue,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking_blocks: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallFields<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionFields<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Reads one message. `raw` is its exact JSON.
    ///
    /// # Errors
    /// [`Unreadable::Unusual`] when it is no object with a role, or says one of the fields above twice.
    pub fn parse(raw: &'a str) -> Result<Self, Unreadable> {
        let fields: Fields<'a> = serde_json::from_str(raw)?;
        let calls: Vec<CallFields<'a>> = match fields.tool_calls {
            Some(list) => serde_json::from_str(list.get())?,
            None => Vec::new(),
        };
        let reasoning = [
            fields.reasoning_content,
            fields.reasoning,
            fields.thinking,
            fields.reasoning_details,
            fields.thinking_blocks,
        ];
        Ok(Message {
            raw,
            role: role(fields.role),
            content: fields.content.map(RawValue::get),
            name: fields.name.map(text_or_raw),
            calls: calls
                .into_iter()
                .map(|fields| Call::from_fields(&fields))
                .collect::<Result<_, _>>()?,
            answers: fields.tool_call_id.map(text_or_raw),
            function_call: fields.function_call.map(RawValue::get),
            refusal: fields.refusal.map(RawValue::get),
            reasoning: reasoning.into_iter().flatten().map(RawValue::get).collect(),
        })
    }

    /// Whether the model asked for something that later messages answer.
    #[must_use]
    pub fn is_call(&self) -> bool {
        !self.calls.is_empty() || self.function_call.is_some()
    }
}

impl<'a> Call<'a> {
    fn from_fields(fields: &CallFields<'a>) -> Result<Self, Unreadable> {
        let function: Option<FunctionFields<'a>> = match fields.function {
            Some(function) => Some(serde_json::from_str(function.get())?),
            None => None,
        };
        let (name, arguments) = function.map_or((None, None), |f| (f.name, f.arguments));
        Ok(Call {
            id: fields.id.map_or(Cow::Borrowed(""), text_or_raw),
            name: name.map_or(Cow::Borrowed(""), text_or_raw),
            arguments: arguments.map(RawValue::get),
        })
    }
}

fn role(raw: &RawValue) -> Role {
    match string(raw).as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        Some("function") => Role::Function,
        _ => Role::Other,
    }
}

/// A string's text; the raw JSON of anything else, which still tells two ids apart.
fn text_or_raw(raw: &RawValue) -> Cow<'_, str> {
    string(raw).unwrap_or(Cow::Borrowed(raw.get()))
}
