//! The configuration as an operator writes it: every key, its default, and what it means. The JSON schema and the key
//! list are made from these types.

mod summarizer;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::step::STEPS;
pub use crate::config::step::{
    Amount, Artifact, ClearResults, Coalesce, CollapseErrors, Dedupe, Digest, Minify, Outline,
    Pick, Recent, Sample, Scope, SlidingWindow, Step, Strip, Summarize, SummaryRole, TokenBudget,
    Touch, TrimResults, Truncate, Unit, Webhook,
};
use crate::core::wire::Dialect;
pub use summarizer::{LimitField, Style, Summarizer};

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    /// Where applications connect.
    pub listen: Listen,
    /// Where probes and Prometheus connect.
    pub admin: Admin,
    /// The LLM API.
    pub upstream: Upstream,
    /// Which requests are inspected.
    pub route: Route,
    /// Where checkpoints and reported usage are kept.
    pub ledger: Ledger,
    /// The model that writes summaries, for `summarize` steps.
    pub summarizer: Summarizer,
    /// Bounds on everything.
    pub limits: Limits,
    /// What happens on SIGTERM and SIGINT.
    pub shutdown: Shutdown,
    /// Log lines, on standard error.
    pub log: Log,
    /// Policies; the first that matches a request applies. One for everything is built in behind them.
    pub policy: Vec<Policy>,
}

/// `[listen]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// IP address and port; port 0 takes a free one.
    pub address: String,
    /// Threads that serve requests; 0 for one per processor.
    pub workers: u64,
}

/// `[admin]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// IP address and port of `/livez`, `/readyz`, `/metrics` and `/version`.
    pub address: String,
}

/// `[upstream]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// What the SDK's base URL was. The listener's /v1 stands for its path; other paths go to its origin.
    pub url: String,
    /// PEM file with certificates to trust besides the public ones.
    pub ca_file: Option<String>,
    /// Speak HTTP/2, on as many connections as it takes for no request to wait for a stream.
    pub http2: bool,
    /// Ask it for its list of models (`/v1/models`) and believe what that says of context lengths, for policies with
    /// `window = "auto"`.
    pub discover_windows: bool,
    /// Time to connect, TLS included.
    pub connect_timeout: String,
    /// Time to the first byte of an answer, the model's thinking included.
    pub response_timeout: String,
    /// Time between two pieces of an answer.
    pub idle_timeout: String,
    /// Headers of answers that tell the prompt's tokens, for answers whose body does not.
    pub usage_headers: Vec<String>,
}

/// `[route]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// A POST to a path that ends so is a chat completion.
    pub chat_suffixes: Vec<String>,
}

/// `[ledger]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    /// The store: "memory".
    pub url: String,
    /// Memory for checkpoints and reported usage, bytes.
    pub memory_bytes: u64,
    /// Messages whose token count and digest are remembered.
    pub messages: u64,
    /// How long a window is believed that the upstream told when it refused a request as too long.
    pub window_lifetime: String,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections at a time.
    pub connections: u64,
    /// Requests at a time, answers still streaming included; more get a 503.
    pub in_flight: u64,
    /// The longest body that is inspected, bytes; longer chat requests get a 413. Other paths have no limit.
    pub body_bytes: u64,
    /// Bodies being inspected, bytes together; more get a 503.
    pub memory_bytes: u64,
    /// Time for the headers of a connection's next request to arrive, the wait for it included.
    pub header_timeout: String,
    /// Time to receive the body of a request that is inspected.
    pub body_timeout: String,
    /// Time for thinking about one request; after it the client's bytes are forwarded (or `on_error`).
    pub plan_timeout: String,
}

/// `[shutdown]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// Time for running requests and streams to finish.
    pub timeout: String,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// "text" or "json".
    pub format: LogFormat,
    /// "error", "warn", "info", "debug" or "trace", or a filter such as "info,baler=debug".
    pub level: String,
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// `[[policy]]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Its name: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Model names it is for; `*` and `?` are wild. Other model names than these are `other` in metrics.
    pub models: Vec<String>,
    /// Request paths it is for; empty for all.
    pub paths: Vec<String>,
    /// Header values it is for; all must match.
    pub headers: std::collections::BTreeMap<String, String>,
    /// "enforce", "observe" (decide and report, forward the original) or "off".
    pub mode: Mode,
    /// Context length, tokens, or "auto": what the upstream says (`upstream.discover_windows`), else the table of known
    /// models, else `default_window`.
    pub window: Window,
    /// Context length of unknown models under `window = "auto"`, tokens.
    pub default_window: u64,
    /// Tokens kept free for the reply; at most a quarter of the window.
    pub reserve: u64,
    /// When to act: any of these. A table given here replaces the default one. Over window − reserve it acts anyway.
    pub trigger: Trigger,
    /// A lower trigger for conversations whose prompt cache is cold; none when not given.
    pub idle_trigger: Option<IdleTrigger>,
    /// Down to where.
    pub target: Amount,
    /// What a compaction must save at least while the request still fits.
    pub min_gain: Amount,
    /// Whether a compaction must also pay, while the request still fits, for what it makes the upstream read anew.
    pub break_even: bool,
    /// Prices of cached prompt tokens; the model table's when not given.
    pub prices: Option<Prices>,
    /// "auto" (what the model's family wants), "free", or "alternate" (user and assistant take turns).
    pub roles: Roles,
    /// The newest part that stays as it is, at most a third of what the head leaves of the target. A table given here replaces the default one.
    pub keep: Keep,
    /// What stays elsewhere.
    pub pin: Pin,
    /// Strategies, least lossy first: names, or tables with options.
    pub ladder: Vec<Step>,
    /// Whether streams whose client did not ask for usage are asked for it, and the extra chunk is taken out again.
    pub include_usage: bool,
    /// "forward" or "reject": what becomes of a request that cannot be made to fit.
    pub on_unfit: Choice,
    /// "forward" (the client's bytes) or "reject": what happens when thinking fails.
    pub on_error: Choice,
    /// Whether a request that the upstream refuses as too long is compacted and sent once more.
    pub rescue: bool,
    /// Whether `max_tokens` (`max_completion_tokens`) is lowered where that alone makes a refused request fit.
    pub fit_output: bool,
    /// Whether a request may choose it with `x-baler-policy`.
    pub selectable: bool,
}

/// `policy.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Act.
    Enforce,
    /// Report only.
    Observe,
    /// Nothing.
    Off,
}

/// `on_unfit`, `on_error`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Send it all the same.
    Forward,
    /// Refuse it.
    Reject,
}

/// `policy.window`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Window {
    /// "auto"
    Auto(Auto),
    /// Tokens.
    Tokens(u64),
}

/// The word "auto".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// "auto"
    Auto,
}

/// `policy.trigger`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    /// Share of window − reserve.
    pub ratio: Option<f64>,
    /// Prompt tokens.
    pub tokens: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
    /// User messages.
    pub turns: Option<u64>,
    /// A CEL expression over `total_tokens`, `budget`, `window`, `occupancy` (doubles), `messages` (each `seq`, `role`,
    /// `tokens`), `model` and `headers`.
    pub when: Option<String>,
}

/// `policy.idle_trigger`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdleTrigger {
    /// Time without a request after which the provider's prompt cache is cold.
    pub after: String,
    /// Share of window − reserve.
    pub ratio: f64,
}

/// `policy.prices`: as multiples of the price of an uncached prompt token.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Of a token read from the prompt cache.
    pub cache_read: f64,
    /// Of a token written to it.
    pub cache_write: f64,
}

/// `policy.roles`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    /// What the model's family wants, as far as known.
    Auto,
    /// Any order.
    Free,
    /// User and assistant take turns.
    Alternate,
}

/// `policy.keep`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Tokens.
    pub tokens: u64,
    /// Turns.
    pub turns: u64,
    /// Exchanges.
    pub exchanges: u64,
}

/// `policy.pin`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pin {
    /// The first user message.
    pub first_user: bool,
    /// Exchanges that call a tool so named; `*` and `?` are wild.
    pub tools: Vec<String>,
    /// Messages whose text matches this regular expression.
    pub text: Option<String>,
}

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: "127.0.0.1:4141".to_owned(),
            workers: 0,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            address: "127.0.0.1:4142".to_owned(),
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Upstream {
            url: "https://api.openai.com/v1".to_owned(),
            ca_file: None,
            http2: false,
            discover_windows: false,
            connect_timeout: "10s".to_owned(),
            response_timeout: "10m".to_owned(),
            idle_timeout: "10m".to_owned(),
            usage_headers: [
                "x-prompt-tokens",
                "fireworks-prompt-tokens",
                "x-amzn-bedrock-input-token-count",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }
}

impl Default for Route {
    fn default() -> Self {
        Route {
            chat_suffixes: vec![Dialect::ChatCompletions.suffix().to_owned()],
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            url: "memory".to_owned(),
            memory_bytes: 64 << 20,
            messages: 200_000,
            window_lifetime: "6h".to_owned(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            in_flight: 2_048,
            body_bytes: 32 << 20,
            memory_bytes: 512 << 20,
            header_timeout: "2m".to_owned(),
            body_timeout: "2m".to_owned(),
            plan_timeout: "500ms".to_owned(),
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            timeout: "25s".to_owned(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log {
            format: LogFormat::Text,
            level: "info".to_owned(),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            name: "default".to_owned(),
            models: vec!["*".to_owned()],
            paths: Vec::new(),
            headers: std::collections::BTreeMap::new(),
            mode: Mode::Enforce,
            window: Window::Auto(Auto::Auto),
            default_window: 128_000,
            reserve: 16_384,
            trigger: Trigger {
                ratio: Some(0.8),
                ..Trigger::default()
            },
            idle_trigger: None,
            target: Amount {
                ratio: Some(0.5),
                tokens: None,
            },
            min_gain: Amount {
                ratio: Some(0.1),
                tokens: None,
            },
            break_even: true,
            prices: None,
            roles: Roles::Auto,
            keep: Keep {
                tokens: 20_000,
                turns: 1,
                exchanges: 0,
            },
            pin: Pin::default(),
            ladder: ["dedupe", "minify", "digest", "token_budget"]
                .into_iter()
                .filter_map(Step::named)
                .collect(),
            include_usage: false,
            on_unfit: Choice::Forward,
            on_error: Choice::Forward,
            rescue: true,
            fit_output: false,
            selectable: false,
        }
    }
}

impl Default for IdleTrigger {
    fn default() -> Self {
        IdleTrigger {
            after: "10m".to_owned(),
            ratio: 0.5,
        }
    }
}

impl Default for Prices {
    fn default() -> Self {
        Prices {
            cache_read: 0.1,
            cache_write: 1.0,
        }
    }
}

impl Default for Pin {
    fn default() -> Self {
        Pin {
            first_user: true,
            tools: Vec::new(),
            text: None,
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WindowVisitor;
        impl Visitor<'_> for WindowVisitor {
            type Value = Window;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of tokens, or \"auto\"")
            }

            fn visit_u64<E>(self, tokens: u64) -> Result<Window, E> {
                Ok(Window::Tokens(tokens))
            }

            fn visit_i64<E: de::Error>(self, tokens: i64) -> Result<Window, E> {
                u64::try_from(tokens)
                    .map(Window::Tokens)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(tokens), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Window, E> {
                if text == "auto" {
                    Ok(Window::Auto(Auto::Auto))
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
        }
        deserializer.deserialize_any(WindowVisitor)
    }
}

/// Every key path outside lists, dotted.
#[must_use]
pub fn key_paths() -> Vec<String> {
    let Ok(serde_json::Value::Object(sections)) = serde_json::to_value(Raw::default()) else {
        return Vec::new();
    };
    sections
        .into_iter()
        .filter_map(|(section, keys)| {
            Some(
                keys.as_object()?
                    .keys()
                    .map(|key| format!("{section}.{key}"))
                    .collect::<Vec<_>>(),
            )
        })
        .flatten()
        .collect()
}

/// The JSON schema of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Raw).to_value();
    // A step may also be a bare name.
    if let Some(step) = schema.pointer_mut("/$defs/Step") {
        let table = std::mem::take(step);
        *step = serde_json::json!({ "anyOf": [{ "type": "string", "enum": STEPS }, table] });
    }
    schema
}
