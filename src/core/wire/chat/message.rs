//! One message as it is on the wire: the few fields that pairing, counting and strategies need, as
//! raw JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::conversation::{Call, Text};
use crate::core::json::{is_longer_than, string};
use crate::core::wire::unreadable::Unreadable;

/// One message of the list, borrowed from the body.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// `role`, decoded.
    pub role: Option<Cow<'a, str>>,
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
    /// Raw JSON of the fields in [`REASONING`], as far as they are there.
    pub reasoning: Vec<&'a str>,
}

/// The fields that hold the reasoning of a model: `reasoning_content` (DeepSeek, Qwen, vLLM and
/// others), `reasoning` and `reasoning_details` (OpenRouter), `thinking` (Ollama),
/// `thinking_blocks` (LiteLLM).
pub(super) const REASONING: [&str; 5] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
];

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

/// The most calls of one message that is read: many times what any model makes at once.
const MOST_CALLS: usize = 1_000;
/// The most parts of one message's content that is read.
const MOST_PARTS: usize = 10_000;

impl<'a> Message<'a> {
    /// Reads one message. `raw` is its exact JSON.
    ///
    /// # Errors
    /// [`Unreadable::Unusual`] when it is not an object with a role, has one of the fields above
    /// twice, or more calls or parts than are read: views take many times their bytes.
    pub(super) fn parse(raw: &'a str) -> Result<Self, Unreadable> {
        let fields: Fields<'a> = serde_json::from_str(raw)?;
        let bounded = |list: Option<&RawValue>, most| {
            let list = list.map(RawValue::get).filter(|raw| raw.starts_with('['));
            !list.is_some_and(|raw| is_longer_than(raw, most))
        };
        if !bounded(fields.tool_calls, MOST_CALLS) || !bounded(fields.content, MOST_PARTS) {
            return Err(Unreadable::Unusual);
        }
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
            role: string(fields.role),
            content: fields.content.map(RawValue::get),
            name: fields.name.map(text_or_raw),
            calls: calls.iter().map(call).collect::<Result<_, _>>()?,
            answers: fields.tool_call_id.map(text_or_raw),
            function_call: fields.function_call.map(RawValue::get),
            refusal: fields.refusal.map(RawValue::get),
            reasoning: reasoning.into_iter().flatten().map(RawValue::get).collect(),
        })
    }
}

/// One entry of `tool_calls`.
fn call<'a>(fields: &CallFields<'a>) -> Result<Call<'a>, Unreadable> {
    let function: Option<FunctionFields<'a>> = match fields.function {
        Some(function) => Some(serde_json::from_str(function.get())?),
        None => None,
    };
    let (name, arguments) = function.map_or((None, None), |f| (f.name, f.arguments));
    Ok(Call {
        id: fields.id.map_or(Cow::Borrowed(""), text_or_raw),
        name: name.map_or(Cow::Borrowed(""), text_or_raw),
        arguments: arguments.map(|raw| Text::new(raw.get())),
        legacy: None,
    })
}

/// A legacy `function_call`, given its JSON. One that is not as documented has neither name nor
/// arguments.
pub(super) fn legacy_call(raw: &str) -> Call<'_> {
    let function: Option<FunctionFields<'_>> = serde_json::from_str(raw).ok();
    let (name, arguments) = function.map_or((None, None), |f| (f.name, f.arguments));
    Call {
        id: Cow::Borrowed(""),
        name: name.and_then(string).unwrap_or(Cow::Borrowed("")),
        arguments: arguments.map(|raw| Text::new(raw.get())),
        legacy: Some(raw),
    }
}

/// A string's text; the raw JSON of anything else, which still tells two ids apart.
fn text_or_raw(raw: &RawValue) -> Cow<'_, str> {
    string(raw).unwrap_or(Cow::Borrowed(raw.get()))
}
