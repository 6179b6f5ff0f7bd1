//! The checked configuration: the values that the rest of the program works with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::{GlobMatcher, GlobSet};
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::config::raw::{Limits, LogFormat, ServerTiming};
use crate::core::policy::Policy;
use crate::core::wire::own_call::OutputLimit;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// The listener for applications.
    pub listen: SocketAddr,
    /// Threads that serve requests.
    pub workers: usize,
    /// The tokens of clients that may use Baler; all may without.
    pub auth_tokens: Option<AuthTokens>,
    /// The form of `server-timing`.
    pub server_timing: ServerTiming,
    /// Whether answers carry Baler's headers.
    pub response_headers: bool,
    /// The listener for probes and Prometheus.
    pub admin: SocketAddr,
    /// The LLM API.
    pub upstream: Upstream,
    /// Path endings of chat completions.
    pub chat_suffixes: Vec<String>,
    /// Whether bodies with a content encoding are decoded to be inspected.
    pub decode_bodies: bool,
    /// How callers are told apart.
    pub tenant: Tenant,
    /// Where checkpoints, summaries and what upstreams taught are kept.
    pub ledger: Ledger,
    /// The models that write summaries.
    pub summarizers: Summarizers,
    /// Bounds.
    pub limits: Limits,
    /// Time for running requests to finish at the end.
    pub shutdown_timeout: Duration,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// The filter of log lines.
    pub log_level: String,
    /// Whether log lines have the model's own name.
    pub log_model: bool,
    /// Policies, the built-in one for all requests last.
    pub policies: Vec<Arc<Policy>>,
    /// Model globs named in policies, for metric labels.
    pub model_labels: Vec<(String, GlobMatcher)>,
}

/// How callers are told apart.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Headers with credentials.
    pub headers: Vec<HeaderName>,
    /// Headers that name a tenant in place of its credentials, by the operator's word. Empty:
    /// none does.
    pub named: Vec<HeaderName>,
    /// Query parameters with credentials, in lower case.
    pub parameters: Vec<String>,
    /// Cookies that are no credentials.
    pub ignored_cookies: GlobSet,
}

/// Where checkpoints, summaries and what upstreams taught are kept.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The store behind the memory of the process.
    pub store: StoreUrl,
    /// Memory for checkpoints and usage, bytes.
    pub memory_bytes: u64,
    /// Messages whose measure is cached.
    pub messages: u64,
    /// The most that the file of a redb store takes, bytes.
    pub max_bytes: u64,
    /// Lifetime of every entry.
    pub lifetime: Duration,
    /// Lifetime of a learned window.
    pub window_lifetime: Duration,
    /// The longest that a request waits for the store.
    pub timeout: Duration,
    /// The secret that keys and sealing are made with.
    pub secret: Option<Hidden>,
    /// Certificates (PEM) to trust in place of the public ones.
    pub ca: Option<Vec<u8>>,
}

/// The store that `ledger.url` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// None besides the memory of the process.
    Memory,
    /// An embedded database in this file.
    Redb(PathBuf),
    /// A server, or several.
    Redis(RedisServers),
}

impl fmt::Display for StoreUrl {
    /// Its address, without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = match self {
            StoreUrl::Memory => return f.write_str("memory"),
            StoreUrl::Redb(path) => return write!(f, "redb://{}", path.display()),
            StoreUrl::Redis(servers) => servers,
        };
        f.write_str(if servers.tls { "rediss" } else { "redis" })?;
        f.write_str(match servers.topology {
            Topology::Single => "://",
            Topology::Sentinel(_) => "+sentinel://",
            Topology::Cluster => "+cluster://",
        })?;
        for (at, (host, port)) in servers.nodes.iter().enumerate() {
            write!(f, "{}{host}:{port}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Servers that speak the protocol of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisServers {
    /// How they belong together.
    pub topology: Topology,
    /// Host and port of each: of the sentinels, where there are any.
    pub nodes: Vec<(String, u16)>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// The user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Hidden>,
    /// The number of the database.
    pub database: u16,
    /// The credentials of the sentinels themselves.
    pub sentinel: SentinelLogin,
}

/// The credentials of sentinels, which need not be those of the servers that they watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelLogin {
    /// The user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Hidden>,
}

/// How servers belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// Sentinels that tell which server is the master of this service.
    Sentinel(String),
    /// A cluster.
    Cluster,
}

/// A secret. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// The bearer tokens of clients. They are never shown.
#[derive(Clone)]
pub struct AuthTokens(pub Vec<String>);

impl fmt::Debug for AuthTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.0.len())
    }
}

/// The LLM API.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Scheme and authority.
    pub origin: Uri,
    /// The path that the listener's `/v1` stands for; `None` when the URL has none: then all paths
    /// go through unchanged.
    pub base_path: Option<String>,
    /// File with more certificates to trust.
    pub ca_file: Option<PathBuf>,
    /// Whether HTTP/2 is used.
    pub http2: bool,
    /// Whether the upstream is asked for its models' windows.
    pub discover_windows: bool,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time to the first byte of an answer.
    pub response_timeout: Duration,
    /// Time between two pieces of an answer.
    pub idle_timeout: Duration,
    /// Response headers that report the prompt's tokens; the first with a number counts.
    pub usage_headers: Vec<HeaderName>,
}

/// The models that write summaries.
#[derive(Debug, Clone)]
pub struct Summarizers {
    /// That of policies that name none.
    pub default: Summarizer,
    /// All others; no two have the same name.
    pub others: Vec<Summarizer>,
}

impl Summarizers {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Summarizer> {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// That of a policy.
    #[must_use]
    pub fn of(&self, policy: &Policy) -> &Summarizer {
        let named = policy.delivery.summarizer.as_ref();
        let named = named.and_then(|name| self.others.iter().find(|other| other.name == *name));
        named.unwrap_or(&self.default)
    }
}

/// A model that writes summaries.
#[derive(Debug, Clone)]
pub struct Summarizer {
    /// Its name: log and label value.
    pub name: String,
    /// Whether the configuration says anything of it.
    pub is_given: bool,
    /// The URL for chat completions of another API; the upstream's own when not given.
    pub url: Option<String>,
    /// The model; the request's when not given.
    pub model: Option<String>,
    /// The API key.
    pub key: Key,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the client's own list is continued, instead of quoted.
    pub suffix: bool,
    /// The instructions for the summariser.
    pub instructions: Arc<str>,
    /// The field that limits an answer.
    pub limit: OutputLimit,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Further fields of the request.
    pub parameters: Map<String, Value>,
    /// Its context length, tokens.
    pub window: Option<u64>,
    /// Time for one call.
    pub timeout: Duration,
    /// The longest wait before a retry.
    pub longest_wait: Duration,
    /// Time without a new attempt after a summary failed.
    pub failure_lifetime: Duration,
    /// Failures in a row that open the breaker.
    pub breaker_failures: u32,
    /// Time that the breaker stays open.
    pub breaker_pause: Duration,
    /// Summaries being made at a time.
    pub concurrency: usize,
    /// Summaries being made at a time for one tenant.
    pub concurrency_per_tenant: usize,
    /// Calls a minute.
    pub calls_per_minute: usize,
    /// Calls a minute for one tenant.
    pub calls_per_minute_per_tenant: usize,
    /// Share of a tenant's forwarded tokens.
    pub max_share: f64,
    /// The longest answer, bytes.
    pub max_bytes: usize,
}

/// The source of an API key.
#[derive(Clone)]
pub enum Key {
    /// There is none.
    None,
    /// A file, read for each summary: secrets are rotated.
    File(PathBuf),
    /// The environment.
    Value(String),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Key::None => "None",
            Key::File(_) => "File",
            Key::Value(_) => "Value",
        })
    }
}
