//! `[summarizer]` as an operator writes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[summarizer]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Summarizer {
    /// Base URL of another OpenAI-compatible API; the upstream itself, with the request's own credentials, when not given.
    pub url: Option<String>,
    /// The model; the request's when not given.
    pub model: Option<String>,
    /// File with the API key.
    pub api_key_file: Option<String>,
    /// Environment variable with the API key.
    pub api_key_env: Option<String>,
    /// Further headers.
    pub headers: std::collections::BTreeMap<String, String>,
    /// "transcript": the messages as quoted data, in a conversation of their own. "suffix": the client's own list and behind
    /// it the instruction, which the upstream's prompt cache makes cheap; only without `url` and `model`.
    pub style: Style,
    /// File with instructions for the summariser that replace the built-in ones (`config/summarize.md`).
    pub prompt_file: Option<String>,
    /// The field that limits an answer: "max_completion_tokens" or "max_tokens".
    pub limit_field: LimitField,
    /// Sampling temperature; negative to leave it to the model. Not sent to models that are known to refuse it.
    pub temperature: f64,
    /// Further fields of the request, such as `{ reasoning_effort = "low" }`.
    pub parameters: std::collections::BTreeMap<String, serde_json::Value>,
    /// Context length of the summariser, tokens; by its model when not given.
    pub window: Option<u64>,
    /// Time for one call.
    pub timeout: String,
    /// The longest wait before the one retry after 429, 5xx and timeouts, `retry-after` included; one that asks for more is
    /// not retried.
    pub retry_after_at_most: String,
    /// How long a conversation whose summary failed is left alone.
    pub failure_lifetime: String,
    /// Failures in a row after which nobody is asked for a while.
    pub breaker_failures: u32,
    /// For how long.
    pub breaker_pause: String,
    /// Summaries being made at a time.
    pub concurrency: u64,
    /// Of these, for one tenant.
    pub concurrency_per_tenant: u64,
    /// Calls a minute at most.
    pub max_calls_per_minute: u64,
    /// Tokens that summaries may cost, as a share of a tenant's prompt tokens that were forwarded, and one window
    /// beyond that.
    pub max_share: f64,
    /// The longest answer, bytes.
    pub max_bytes: u64,
}

/// `summarizer.style`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Quoted.
    Transcript,
    /// The client's own list, continued.
    Suffix,
}

/// `summarizer.limit_field`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitField {
    /// The newer one.
    MaxCompletionTokens,
    /// The older one.
    MaxTokens,
}

impl Default for Summarizer {
    fn default() -> Self {
        Summarizer {
            url: None,
            model: None,
            api_key_file: None,
            api_key_env: None,
            headers: std::collections::BTreeMap::new(),
            style: Style::Transcript,
            prompt_file: None,
            limit_field: LimitField::MaxCompletionTokens,
            temperature: 0.0,
            parameters: std::collections::BTreeMap::new(),
            window: None,
            timeout: "60s".to_owned(),
            retry_after_at_most: "20s".to_owned(),
            failure_lifetime: "1m".to_owned(),
            breaker_failures: 3,
            breaker_pause: "1m".to_owned(),
            concurrency: 8,
            concurrency_per_tenant: 2,
            max_calls_per_minute: 60,
            max_share: 0.5,
            max_bytes: 1 << 20,
        }
    }
}
