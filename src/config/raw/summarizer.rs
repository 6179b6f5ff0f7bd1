//! `[summarizer]` as an operator writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::wire::own_call::OutputLimit;

/// `[summarizer]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Summarizer {
    /// Base URL of another OpenAI-compatible API; when not given the upstream itself, with the
    /// request's own credentials.
    pub url: Option<String>,
    /// The model; the request's when not given.
    pub model: Option<String>,
    /// File with the API key.
    pub api_key_file: Option<String>,
    /// Environment variable with the API key.
    pub api_key_env: Option<String>,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
    /// "transcript": the messages as quoted data, in a conversation of their own. "suffix": the
    /// client's own list and the instruction after it, which the upstream's prompt cache makes
    /// cheap; only without `url` and `model`.
    pub style: Style,
    /// File with instructions for the summariser that replace the built-in ones
    /// (`config/summarize.md`).
    pub prompt_file: Option<String>,
    /// The field that limits an answer: "max_completion_tokens" or "max_tokens".
    pub limit_field: OutputLimit,
    /// Sampling temperature; negative to leave it to the model. Not sent to models that are known
    /// to refuse it.
    pub temperature: f64,
    /// Further fields of the request, such as `{ reasoning_effort = "low" }`.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Context length of the summariser, tokens; by its model when not given.
    pub window: Option<u64>,
    /// Time for one call.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// The longest wait before the one retry after 429, 5xx and timeouts, `retry-after` included. A
    /// call whose `retry-after` is longer is not retried.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub retry_after_at_most: Duration,
    /// Time without a new attempt after the summary of a conversation failed.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub failure_lifetime: Duration,
    /// Failures in a row after which no calls are made for a while.
    pub breaker_failures: u32,
    /// The length of that while.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub breaker_pause: Duration,
    /// Summaries being made at a time.
    pub concurrency: usize,
    /// Summaries being made at a time for one tenant.
    pub concurrency_per_tenant: usize,
    /// Calls a minute at most.
    pub max_calls_per_minute: usize,
    /// Calls a minute for one tenant at most.
    pub max_calls_per_minute_per_tenant: usize,
    /// Tokens that summaries may cost, as a share of a tenant's prompt tokens that were forwarded;
    /// one window more is free.
    pub max_share: f64,
    /// The longest answer, bytes.
    pub max_bytes: usize,
}

/// `summarizer.style`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// The messages as quoted data.
    Transcript,
    /// The client's own list, continued.
    Suffix,
}

impl Default for Summarizer {
    fn default() -> Self {
        Summarizer {
            url: None,
            model: None,
            api_key_file: None,
            api_key_env: None,
            headers: BTreeMap::new(),
            style: Style::Transcript,
            prompt_file: None,
            limit_field: OutputLimit::MaxCompletionTokens,
            temperature: 0.0,
            parameters: BTreeMap::new(),
            window: None,
            timeout: Duration::from_secs(60),
            retry_after_at_most: Duration::from_secs(20),
            failure_lifetime: Duration::from_mins(1),
            breaker_failures: 3,
            breaker_pause: Duration::from_mins(1),
            concurrency: 8,
            concurrency_per_tenant: 2,
            max_calls_per_minute: 60,
            max_calls_per_minute_per_tenant: 30,
            max_share: 0.5,
            max_bytes: 1 << 20,
        }
    }
}
