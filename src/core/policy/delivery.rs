//! How the proxy applies a policy. Nothing in the core reads this: a plan does not depend on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::policy::Matcher;

/// The part of a policy that only the proxy reads.
#[derive(Debug)]
pub struct Delivery {
    /// The requests that the policy applies to.
    pub matcher: Matcher,
    /// Whether a request may choose the policy by header.
    pub selectable: bool,
    /// Whether plans are carried out.
    pub mode: Mode,
    /// The name of the summariser that the step `summarize` asks, where the policy names one.
    pub summarizer: Option<String>,
    /// Whether streams are asked for usage on the client's behalf.
    pub include_usage: bool,
    /// What happens to a request that does not fit after the ladder.
    pub on_unfit: OnUnfit,
    /// What happens when planning fails.
    pub on_error: OnError,
    /// Whether a request that the upstream refuses as too long is compacted and sent once more.
    pub rescue: bool,
    /// Whether a reply's limit is lowered where that alone makes a refused request fit.
    pub fit_output: bool,
    /// All keys of the policy but the ladder as JSON, defaults filled in, for `baler check
    /// --explain`.
    pub options: String,
}

/// What the proxy does with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Send the compacted request.
    Enforce,
    /// Plan, report, and forward the client's bytes.
    Observe,
    /// Forward the client's bytes without inspecting them.
    Off,
}

impl Mode {
    /// The word in configuration and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
            Mode::Off => "off",
        }
    }
}

/// What happens to a request that does not fit after the whole ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnfit {
    /// Send the request all the same; the upstream decides.
    Forward,
    /// Refuse the request with an error in OpenAI's shape.
    Reject,
}

/// What happens when Baler's own planning fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Send the client's bytes.
    Forward,
    /// Refuse the request with an error in OpenAI's shape.
    Reject,
}
