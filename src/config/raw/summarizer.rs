//! `[summarizer]`, or several `[[summarizer]]`, as an operator writes them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::core::wire::own_call::OutputLimit;

/// One table `[summarizer]`, or several `[[summarizer]]`, which policies choose from by name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Summarizers {
    /// `[summarizer]`: that of all policies.
    One(Box<Summarizer>),
    /// `[[summarizer]]`
    Several(Vec<Summarizer>),
}

impl Summarizers {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Summarizer] {
        match self {
            Summarizers::One(one) => std::slice::from_ref(one),
            Summarizers::Several(several) => several,
        }
    }

    /// The key path of one of them, by its place in the list.
    #[must_use]
    pub fn key(&self, at: usize) -> String {
        match self {
            Summarizers::One(_) => "summarizer".to_owned(),
            Summarizers::Several(_) => format!("summarizer.{at}"),
        }
    }
}

impl Default for Summarizers {
    fn default() -> Self {
        Summarizers::One(Box::default())
    }
}

impl<'de> Deserialize<'de> for Summarizers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SummarizersVisitor)
    }
}

/// Reads either form. An untagged enum would lose the place of a problem.
struct SummarizersVisitor;

impl<'de> Visitor<'de> for SummarizersVisitor {
    type Value = Summarizers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of keys, or several [[summarizer]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Summarizers, A::Error> {
        let one = Summarizer::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Summarizers::One(Box::new(one)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Summarizers, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Summarizers::Several)
    }
}

/// The name of a summariser that is not given one, and of the one that policies use which name
/// none.
pub const DEFAULT_SUMMARIZER: &str = "default";

/// `[summarizer]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Summarizer {
    /// The name by which policies choose it: lower-case letters, digits, `-` and `_`. Policies that
    /// name none use the only one, or the one called "default".
    pub name: String,
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
            name: DEFAULT_SUMMARIZER.to_owned(),
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
