//! The configuration as an operator writes it: every key, its default, and its meaning. The JSON
//! schema and the list of keys are made from these types. Doc comments become the schema's
//! descriptions.

mod policy;
mod summarizer;
mod tenant;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::wire::Dialect;
pub use policy::{DEFAULT_KEEP, DEFAULT_RESERVE, Policy, Trigger};
pub use summarizer::{DEFAULT_SUMMARIZER, Style, Summarizer, Summarizers};
pub use tenant::Tenant;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    /// The listener for applications.
    pub listen: Listen,
    /// The listener for probes and Prometheus.
    pub admin: Admin,
    /// The LLM API.
    pub upstream: Upstream,
    /// The requests that are inspected.
    pub route: Route,
    /// How callers are told apart.
    pub tenant: Tenant,
    /// The store for checkpoints and reported usage.
    pub ledger: Ledger,
    /// The model that writes summaries, for `summarize` steps; or several, `[[summarizer]]`, from
    /// which policies choose by name.
    pub summarizer: Summarizers,
    /// Bounds on everything.
    pub limits: Limits,
    /// The behaviour on SIGTERM and SIGINT.
    pub shutdown: Shutdown,
    /// Log lines, on standard error.
    pub log: Log,
    /// Policies; the first that matches a request applies. A last one for all requests is built in.
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
    /// File with the bearer tokens of clients that may use Baler, one a line. Without it everyone
    /// may who reaches the address.
    pub auth_tokens_file: Option<String>,
    /// Whether answers carry `server-timing` with the time that Baler took.
    pub server_timing: ServerTiming,
    /// Whether answers carry Baler's own headers: `x-baler-action` and the like, and
    /// `server-timing`.
    pub response_headers: bool,
}

/// `listen.server_timing`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerTiming {
    /// To the microsecond.
    Exact,
    /// Rounded up to the millisecond.
    Rounded,
    /// No such header.
    Off,
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
    /// The base URL that the SDK had before. The listener's /v1 stands for its path; other paths go
    /// to its origin.
    pub url: String,
    /// PEM file with certificates to trust besides the public ones.
    pub ca_file: Option<String>,
    /// Whether HTTP/2 is used, on as many connections as it takes for no request to wait for a
    /// stream.
    pub http2: bool,
    /// Whether the upstream's list of models (`/v1/models`) is fetched for the context lengths in
    /// it, for policies with `window = "auto"`.
    pub discover_windows: bool,
    /// Time to connect, name resolution and TLS included.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub connect_timeout: Duration,
    /// Time to the first byte of an answer, the model's thinking included.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub response_timeout: Duration,
    /// Time between two pieces of an answer.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub idle_timeout: Duration,
    /// Response headers that report the prompt's tokens, for answers whose body does not.
    pub usage_headers: Vec<String>,
}

/// `[route]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// A POST to a path with one of these endings is a chat completion.
    pub chat_suffixes: Vec<String>,
    /// Whether bodies with a content encoding (gzip, deflate, br, zstd) are decoded to be
    /// inspected. They are sent decoded only if something of them changed.
    pub decode_bodies: bool,
}

/// `[ledger]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    /// The store: "memory", "redb:///path/to/file", "redis://host", "rediss://host" (TLS),
    /// "redis+sentinel://host,host/service" or "redis+cluster://host,host".
    pub url: String,
    /// Memory for checkpoints and reported usage, bytes.
    pub memory_bytes: u64,
    /// The most that the file of a redb store takes, bytes.
    pub max_bytes: u64,
    /// Messages whose token count and fingerprint are cached.
    pub messages: u64,
    /// Lifetime of a window that the upstream reported when it refused a request as too long.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub window_lifetime: Duration,
    /// Lifetime of every entry, in every store.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub lifetime: Duration,
    /// The longest that a request waits for a store.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// File with the secret that keys and sealing are made with, the same for all replicas; or the
    /// variable BALER_LEDGER__SECRET.
    pub secret_file: Option<String>,
    /// PEM file with certificates to trust in place of the public ones, for rediss.
    pub ca_file: Option<String>,
    /// Another name for tenants than their credentials.
    pub tenant: LedgerTenant,
}

/// `ledger.tenant`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LedgerTenant {
    /// Request headers that name the tenant in place of its credentials, for credentials that
    /// change by the hour. Baler trusts them because the operator says so. A request that lacks one
    /// of them is known by its credentials.
    pub headers: Vec<String>,
}

/// `[limits]`
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections at a time.
    pub connections: usize,
    /// Requests at a time, answers still streaming included; more get a 503.
    pub in_flight: usize,
    /// The longest body that is inspected, bytes. Other paths have no limit.
    pub body_bytes: usize,
    /// Memory for all bodies being inspected, bytes; 0 for 512 MiB, or an eighth of the container's
    /// memory limit where that is less.
    pub memory_bytes: usize,
    /// What becomes of a chat request that `body_bytes` or `memory_bytes` leave no room for:
    /// "bypass" streams it through unread, "reject" answers 413 or 503.
    pub on_overload: OnOverload,
    /// The most messages of a request that is inspected; one with more is forwarded as it came.
    pub messages: usize,
    /// Time for the headers of a connection's next request to arrive, the wait for that request
    /// included.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub header_timeout: Duration,
    /// Time to receive the body of a request that is inspected; for any other request, the time
    /// between two pieces of its body.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub body_timeout: Duration,
    /// Time in which a client that does not read its answer must take something; after it the
    /// connection is closed.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub write_timeout: Duration,
    /// Time to plan one request, the wait for a free thread included; after it planning goes on
    /// with quick steps alone.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub plan_timeout: Duration,
    /// Time after which planning is given up and the client's bytes are forwarded (or `on_error`
    /// decides).
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub plan_deadline: Duration,
}

/// `limits.on_overload`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOverload {
    /// Stream the request through unread.
    #[default]
    Bypass,
    /// Answer 413 or 503.
    Reject,
}

/// `[shutdown]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// Time for running requests and streams to finish.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// "text" or "json".
    pub format: LogFormat,
    /// "error", "warn", "info", "debug" or "trace", or a filter such as "info,baler=debug".
    pub level: String,
    /// Whether lines have the model's name as the request states it, shortened and with unusual
    /// characters replaced.
    pub model: bool,
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

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: "127.0.0.1:4141".to_owned(),
            workers: 0,
            auth_tokens_file: None,
            server_timing: ServerTiming::Exact,
            response_headers: true,
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
        let usage_headers = [
            "x-prompt-tokens",
            "fireworks-prompt-tokens",
            "x-amzn-bedrock-input-token-count",
        ];
        Upstream {
            url: "https://api.openai.com/v1".to_owned(),
            ca_file: None,
            http2: false,
            discover_windows: false,
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_mins(10),
            idle_timeout: Duration::from_mins(10),
            usage_headers: usage_headers.map(str::to_owned).to_vec(),
        }
    }
}

impl Default for Route {
    fn default() -> Self {
        Route {
            chat_suffixes: vec![Dialect::ChatCompletions.suffix().to_owned()],
            decode_bodies: true,
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            url: "memory".to_owned(),
            memory_bytes: 64 << 20,
            max_bytes: 1 << 30,
            messages: 200_000,
            window_lifetime: Duration::from_hours(6),
            lifetime: Duration::from_hours(7 * 24),
            timeout: Duration::from_millis(20),
            secret_file: None,
            ca_file: None,
            tenant: LedgerTenant::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            in_flight: 2_048,
            body_bytes: 32 << 20,
            memory_bytes: 0,
            on_overload: OnOverload::Bypass,
            messages: 50_000,
            header_timeout: Duration::from_mins(2),
            body_timeout: Duration::from_mins(2),
            write_timeout: Duration::from_mins(1),
            plan_timeout: Duration::from_millis(500),
            plan_deadline: Duration::from_secs(10),
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            timeout: Duration::from_secs(25),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log {
            format: LogFormat::Text,
            level: "info".to_owned(),
            model: false,
        }
    }
}

/// Every key path outside lists, dotted.
#[must_use]
pub fn key_paths() -> Vec<String> {
    let Ok(serde_json::Value::Object(sections)) = serde_json::to_value(Raw::default()) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for (section, keys) in &sections {
        let keys = keys.as_object().into_iter().flat_map(|keys| keys.keys());
        paths.extend(keys.map(|key| format!("{section}.{key}")));
    }
    paths
}

/// The JSON schema of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Raw).to_value();
    unwrap_descriptions(&mut schema);
    schema
}

/// Joins the lines of each description: they end where a comment of the source does.
fn unwrap_descriptions(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                if let (true, Some(text)) = (key == "description", value.as_str()) {
                    *value = text.replace('\n', " ").into();
                } else {
                    unwrap_descriptions(value);
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(unwrap_descriptions),
        _ => {}
    }
}
