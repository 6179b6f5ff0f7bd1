//! Calls of a model on Baler's own account, in no wire format's words: what is asked, and what may
//! be wrong with the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call: instructions, one text of the user's, and how the model is to answer.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The model and its parameters.
    pub manner: &'a Manner,
    /// The system prompt.
    pub instructions: &'a str,
    /// The user's text.
    pub text: &'a str,
}

/// Which model is asked, and with which parameters.
#[derive(Debug, Clone)]
pub struct Manner {
    /// The model; none for upstreams that have only one.
    pub model: Option<String>,
    /// The parameter that limits the answer.
    pub limit: OutputLimit,
    /// The longest answer, tokens.
    pub max_tokens: u64,
    /// With a low temperature, answers keep closer to their source.
    pub temperature: Option<f64>,
    /// Further fields of the request, from the configuration.
    pub parameters: Map<String, Value>,
}

/// A parameter that limits an answer. Models differ in which of the two they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LimitField")]
pub enum OutputLimit {
    /// `max_completion_tokens`
    MaxCompletionTokens,
    /// `max_tokens`, for servers that do not know the newer name
    MaxTokens,
}

/// A parameter that not every model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// The temperature.
    Temperature,
    /// The parameter that limits the answer.
    Limit(OutputLimit),
}

/// Why an answer has no finished text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCompletion {
    /// It is not an answer of the API.
    #[error("the answer is not a completion")]
    NotACompletion,
    /// It ended at a limit.
    #[error("the answer was cut off")]
    CutOff,
    /// The model, or a filter, refused.
    #[error("the model refused")]
    Refused,
}
