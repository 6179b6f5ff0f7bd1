//! From what was written to what is used: addresses, durations, globs and policies, each checked.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use hyper::Uri;
use hyper::header::HeaderName;

use crate::config::raw;
use crate::config::summarizer::Summarizer;
use crate::core::budget::Amount;
use crate::core::conversation::Fingerprint;
use crate::core::edit::{Keep, Pin};
use crate::core::models::Prices;
use crate::core::policy::Condition;
use crate::core::policy::{Idle, Matcher, Mode, OnError, OnUnfit, Policy, Trigger, Window};
use crate::core::strategy::Strategy;

pub use crate::config::raw::LogFormat;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// Where applications connect.
    pub listen: SocketAddr,
    /// Threads that serve requests.
    pub workers: usize,
    /// Where probes and Prometheus connect.
    pub admin: SocketAddr,
    /// The LLM API.
    pub upstream: Upstream,
    /// Path endings of chat completions.
    pub chat_suffixes: Vec<String>,
    /// Memory for checkpoints and usage, bytes.
    pub ledger_bytes: u64,
    /// Messages whose measure is remembered.
    pub ledger_messages: u64,
    /// How long a learned window is believed.
    pub window_lifetime: Duration,
    /// Who writes summaries.
    pub summarizer: Summarizer,
    /// Bounds.
    pub limits: Limits,
    /// Time for running requests to finish at the end.
    pub shutdown_timeout: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which there are.
    pub log_level: String,
    /// Policies, the built-in one for everything last.
    pub policies: Vec<Arc<Policy>>,
    /// Model globs named in policies, for metric labels.
    pub model_labels: Vec<(String, globset::GlobMatcher)>,
}

/// The LLM API.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Scheme and authority.
    pub origin: Uri,
    /// Path that stands for the listener's `/v1`; `None` when the URL has none: then all paths go through unchanged.
    pub base_path: Option<String>,
    /// More certificates to trust.
    pub ca_file: Option<PathBuf>,
    /// Speak HTTP/2.
    pub http2: bool,
    /// Ask it for its models' windows.
    pub discover_windows: bool,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time to the first byte of an answer.
    pub response_timeout: Duration,
    /// Time between two pieces of an answer.
    pub idle_timeout: Duration,
    /// Headers of answers that tell the prompt's tokens; the first that does counts.
    pub usage_headers: Vec<HeaderName>,
}

/// Bounds; see [`raw::Limits`].
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented where they are written")]
pub struct Limits {
    pub connections: usize,
    pub in_flight: usize,
    pub body_bytes: usize,
    pub memory_bytes: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub plan_timeout: Duration,
}

/// Threads that serve requests, at most.
const MAX_WORKERS: usize = 256;

/// Resolves everything it can and reports the rest: `report(key, what)`. `None` when something was wrong.
pub(super) fn resolve(
    raw: &raw::Raw,
    env: &BTreeMap<String, String>,
    report: &mut dyn FnMut(String, String),
) -> Option<Config> {
    let mut check = Check {
        report,
        failed: false,
    };
    let listen = check.address("listen.address", &raw.listen.address);
    let admin = check.address("admin.address", &raw.admin.address);
    if let (Some(listen), Some(admin)) = (listen, admin)
        && listen.port() != 0
        && listen == admin
    {
        check.fail(
            "admin.address",
            format_args!(
                "{admin} is the listener's own address: probes and metrics need a port of their own"
            ),
        );
    }
    let upstream = check.upstream(&raw.upstream, listen);
    if raw.ledger.url != "memory" {
        check.fail(
            "ledger.url",
            format_args!("unknown store \"{}\"; one of memory", raw.ledger.url),
        );
    }
    for (at, suffix) in raw.route.chat_suffixes.iter().enumerate() {
        if !suffix.starts_with('/') {
            check.fail(
                &format!("route.chat_suffixes.{at}"),
                format_args!("\"{suffix}\" does not begin with /"),
            );
        }
    }
    if tracing_subscriber::EnvFilter::try_new(&raw.log.level).is_err() {
        check.fail(
            "log.level",
            format_args!(
                "\"{}\" is no log filter; try error, warn, info, debug or trace",
                raw.log.level
            ),
        );
    }
    let summarizer = check.summarizer(&raw.summarizer, env, listen);
    let limits = check.limits(&raw.limits);
    let shutdown_timeout = check.duration("shutdown.timeout", &raw.shutdown.timeout);
    let ledger_bytes = check.at_least("ledger.memory_bytes", raw.ledger.memory_bytes, 1 << 20);
    let window_lifetime = check.duration("ledger.window_lifetime", &raw.ledger.window_lifetime);
    let ledger_messages = check.at_least("ledger.messages", raw.ledger.messages, 1_000);

    let mut policies: Vec<Arc<Policy>> = raw
        .policy
        .iter()
        .enumerate()
        .filter_map(|(at, policy)| check.policy(&format!("policy.{at}"), policy))
        .map(Arc::new)
        .collect();
    for (at, policy) in raw.policy.iter().enumerate() {
        if raw
            .policy
            .iter()
            .take(at)
            .any(|other| other.name == policy.name)
        {
            check.fail(
                &format!("policy.{at}.name"),
                format_args!("\"{}\" is taken by a policy before", policy.name),
            );
        }
    }
    if !raw.policy.iter().any(is_for_everything) {
        let mut last = raw::Policy::default();
        if raw.policy.iter().any(|policy| policy.name == last.name) {
            last.name = "built-in".to_owned();
        }
        policies.extend(check.policy("policy", &last).map(Arc::new));
    }
    let mut patterns: Vec<&String> = raw
        .policy
        .iter()
        .flat_map(|policy| &policy.models)
        .filter(|pattern| *pattern != "*")
        .collect();
    patterns.dedup();
    let model_labels = patterns
        .into_iter()
        .filter_map(|pattern| Some((pattern.clone(), Glob::new(pattern).ok()?.compile_matcher())))
        .collect();

    let workers = match usize::try_from(raw.listen.workers).unwrap_or(usize::MAX) {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count if count > MAX_WORKERS => {
            check.fail(
                "listen.workers",
                format_args!(
                    "{count} is too many; at most {MAX_WORKERS}, or 0 for one per processor"
                ),
            );
            1
        }
        count => count,
    };

    let config = Config {
        listen: listen?,
        workers: workers.min(MAX_WORKERS),
        admin: admin?,
        upstream: upstream?,
        chat_suffixes: raw.route.chat_suffixes.clone(),
        ledger_bytes,
        ledger_messages,
        window_lifetime: window_lifetime?,
        summarizer: summarizer?,
        limits: limits?,
        shutdown_timeout: shutdown_timeout?,
        log_format: raw.log.format,
        log_level: raw.log.level.clone(),
        policies,
        model_labels,
    };
    (!check.failed).then_some(config)
}

fn is_for_everything(policy: &raw::Policy) -> bool {
    (policy.models.is_empty() || policy.models.iter().any(|pattern| pattern == "*"))
        && policy.paths.is_empty()
        && policy.headers.is_empty()
}

pub(super) struct Check<'r> {
    report: &'r mut dyn FnMut(String, String),
    failed: bool,
}

impl Check<'_> {
    pub(super) fn fail(&mut self, key: &str, what: impl Display) {
        self.failed = true;
        (self.report)(key.to_owned(), what.to_string());
    }

    fn address(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fail(
                key,
                format_args!("\"{text}\" is no IP address with a port, such as 127.0.0.1:4141"),
            );
        }
        parsed
    }

    pub(super) fn duration(&mut self, key: &str, text: &str) -> Option<Duration> {
        match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => self.fail(key, "must be longer than nothing"),
            Ok(duration) => return Some(duration),
            Err(error) => self.fail(
                key,
                format_args!("\"{text}\" is no duration such as 500ms, 30s or 10m: {error}"),
            ),
        }
        None
    }

    pub(super) fn at_least(&mut self, key: &str, value: u64, least: u64) -> u64 {
        if value < least {
            self.fail(key, format_args!("{value} is too small; at least {least}"));
        }
        value
    }

    pub(super) fn size(&mut self, key: &str, value: u64, least: u64) -> usize {
        usize::try_from(self.at_least(key, value, least)).unwrap_or(usize::MAX)
    }

    fn limits(&mut self, raw: &raw::Limits) -> Option<Limits> {
        let body_bytes = self.size("limits.body_bytes", raw.body_bytes, 1 << 10);
        if raw.memory_bytes < raw.body_bytes {
            self.fail(
                "limits.memory_bytes",
                format_args!(
                    "{} is less than limits.body_bytes: the longest body could never be inspected",
                    raw.memory_bytes
                ),
            );
        }
        let (header, body, think) = (
            self.duration("limits.header_timeout", &raw.header_timeout),
            self.duration("limits.body_timeout", &raw.body_timeout),
            self.duration("limits.plan_timeout", &raw.plan_timeout),
        );
        Some(Limits {
            connections: self.size("limits.connections", raw.connections, 1),
            in_flight: self.size("limits.in_flight", raw.in_flight, 1),
            body_bytes,
            memory_bytes: usize::try_from(raw.memory_bytes).unwrap_or(usize::MAX),
            header_timeout: header?,
            body_timeout: body?,
            plan_timeout: think?,
        })
    }

    fn upstream(&mut self, raw: &raw::Upstream, listen: Option<SocketAddr>) -> Option<Upstream> {
        let url = self.url("upstream.url", &raw.url);
        if let (Some((origin, _)), Some(listen)) = (&url, listen)
            && is_same_place(origin, listen)
        {
            self.fail(
                "upstream.url",
                format_args!(
                    "{} is Baler's own listener: requests would go round in circles",
                    raw.url
                ),
            );
        }
        let (connect, response, idle) = (
            self.duration("upstream.connect_timeout", &raw.connect_timeout),
            self.duration("upstream.response_timeout", &raw.response_timeout),
            self.duration("upstream.idle_timeout", &raw.idle_timeout),
        );
        let mut usage_headers = Vec::with_capacity(raw.usage_headers.len());
        for (at, name) in raw.usage_headers.iter().enumerate() {
            match HeaderName::try_from(name.as_str()) {
                Ok(name) => usage_headers.push(name),
                Err(_) => self.fail(
                    &format!("upstream.usage_headers.{at}"),
                    format_args!("\"{name}\" is no header name"),
                ),
            }
        }
        let (origin, base_path) = url?;
        Some(Upstream {
            origin,
            base_path,
            ca_file: raw.ca_file.as_ref().map(PathBuf::from),
            http2: raw.http2,
            discover_windows: raw.discover_windows,
            connect_timeout: connect?,
            response_timeout: response?,
            idle_timeout: idle?,
            usage_headers,
        })
    }

    /// Origin and base path of a URL.
    pub(super) fn url(&mut self, key: &str, text: &str) -> Option<(Uri, Option<String>)> {
        let example = "an http or https URL such as https://api.openai.com/v1";
        let uri = match text.parse::<Uri>() {
            Ok(uri)
                if matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.host().is_some_and(|host| !host.is_empty()) =>
            {
                uri
            }
            // The text is not shown: it may hold a password.
            _ => {
                self.fail(key, format_args!("not {example}"));
                return None;
            }
        };
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            self.fail(
                key,
                "credentials in the URL are not supported: the client's own pass through",
            );
            return None;
        }
        if uri.query().is_some() {
            self.fail(
                key,
                "a query in the URL is not supported: the client's own passes through",
            );
            return None;
        }
        let path = uri.path().trim_end_matches('/');
        let base_path = (!path.is_empty()).then(|| path.to_owned());
        let origin = Uri::builder()
            .scheme(uri.scheme()?.clone())
            .authority(uri.authority()?.clone())
            .path_and_query("/")
            .build()
            .ok()?;
        Some((origin, base_path))
    }

    fn policy(&mut self, key: &str, raw: &raw::Policy) -> Option<Policy> {
        let failed_before = std::mem::take(&mut self.failed);
        let name_is_plain = !raw.name.is_empty()
            && raw.name.len() <= 64
            && raw
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b));
        if !name_is_plain {
            self.fail(
                &format!("{key}.name"),
                format_args!(
                    "\"{}\" is not made of lower-case letters, digits, - and _",
                    raw.name
                ),
            );
        }
        let window = match raw.window {
            raw::Window::Auto(_) => Window::Auto,
            raw::Window::Tokens(tokens) => {
                Window::Tokens(self.at_least(&format!("{key}.window"), tokens, 256))
            }
        };
        self.at_least(&format!("{key}.default_window"), raw.default_window, 256);
        let trigger = Trigger {
            ratio: raw.trigger.ratio,
            tokens: raw.trigger.tokens,
            messages: raw.trigger.messages,
            turns: raw.trigger.turns,
        };
        if let Some(ratio) = trigger.ratio {
            self.share(&format!("{key}.trigger.ratio"), ratio);
        }
        let target = self.amount(&format!("{key}.target"), raw.target);
        let min_gain = self.amount(&format!("{key}.min_gain"), raw.min_gain);
        let low_is_below = match (target, trigger.ratio, trigger.tokens) {
            (Some(Amount::Ratio(low)), Some(high), _) => low < high,
            (Some(Amount::Tokens(low)), _, Some(high)) => low < high,
            _ => true,
        };
        if !low_is_below {
            self.fail(
                &format!("{key}.target"),
                "is not below the trigger: every request would be compacted again",
            );
        }
        let mut webhooks = Vec::new();
        let ladder = self.ladder(&format!("{key}.ladder"), raw, &mut webhooks);
        let when = raw.trigger.when.as_ref().and_then(|text| {
            Condition::compile(text)
                .map_err(|why| {
                    self.fail(
                        &format!("{key}.trigger.when"),
                        format_args!("\"{text}\" {why}"),
                    )
                })
                .ok()
        });
        let idle = raw.idle_trigger.as_ref().and_then(|idle| {
            self.share(&format!("{key}.idle_trigger.ratio"), idle.ratio);
            Some(Idle {
                after: self.duration(&format!("{key}.idle_trigger.after"), &idle.after)?,
                ratio: idle.ratio,
            })
        });
        for (name, price) in raw.prices.iter().flat_map(|prices| {
            [
                ("cache_read", prices.cache_read),
                ("cache_write", prices.cache_write),
            ]
        }) {
            if !(0.0..=100.0).contains(&price) {
                self.fail(
                    &format!("{key}.prices.{name}"),
                    format_args!("{price} is no multiple of a price"),
                );
            }
        }
        for (at, step) in ladder.iter().enumerate() {
            if let (Strategy::Summarize(options), Some(ratio)) = (&step.strategy, trigger.ratio)
                && options.prepare_at >= ratio
                && options.wait.is_zero()
            {
                let what = format!(
                    "{} is not below the trigger at {ratio}, and nobody waits: no summary would ever be ready",
                    options.prepare_at
                );
                self.fail(&format!("{key}.ladder.{at}.summarize.prepare_at"), what);
            }
        }
        let mut policy = Policy {
            name: raw.name.clone(),
            identity: identity(raw),
            matcher: Matcher {
                models: self.matcher(&format!("{key}.models"), &raw.models),
                paths: self.matcher(&format!("{key}.paths"), &raw.paths),
                headers: Vec::new(),
            },
            mode: match raw.mode {
                raw::Mode::Enforce => Mode::Enforce,
                raw::Mode::Observe => Mode::Observe,
                raw::Mode::Off => Mode::Off,
            },
            window,
            default_window: raw.default_window,
            reserve: raw.reserve,
            trigger,
            when,
            idle,
            break_even: raw.break_even,
            prices: raw.prices.map(|prices| Prices {
                cache_read: prices.cache_read,
                cache_write: prices.cache_write,
            }),
            alternate: match raw.roles {
                raw::Roles::Auto => None,
                raw::Roles::Free => Some(false),
                raw::Roles::Alternate => Some(true),
            },
            webhooks,
            target: target.unwrap_or(Amount::Tokens(0)),
            min_gain: min_gain.unwrap_or(Amount::Tokens(0)),
            keep: Keep {
                tokens: raw.keep.tokens,
                turns: raw.keep.turns,
                exchanges: raw.keep.exchanges,
            },
            pin: Pin {
                first_user: raw.pin.first_user,
                tools: self.globs(&format!("{key}.pin.tools"), &raw.pin.tools),
                text: None,
            },
            ladder,
            on_unfit: if raw.on_unfit == raw::Choice::Reject {
                OnUnfit::Reject
            } else {
                OnUnfit::Forward
            },
            rescue: raw.rescue,
            fit_output: raw.fit_output,
            on_error: if raw.on_error == raw::Choice::Reject {
                OnError::Reject
            } else {
                OnError::Forward
            },
            selectable: raw.selectable,
            include_usage: raw.include_usage,
            options: serde_json::to_string(&raw::Policy {
                ladder: Vec::new(),
                ..raw.clone()
            })
            .unwrap_or_default(),
        };
        if let Some(pattern) = &raw.pin.text {
            match regex::Regex::new(pattern) {
                Ok(regex) => policy.pin.text = Some(regex),
                Err(error) => self.fail(
                    &format!("{key}.pin.text"),
                    format_args!(
                        "\"{pattern}\" is no regular expression: {}",
                        last_line(&error)
                    ),
                ),
            }
        }
        for (name, pattern) in &raw.headers {
            let at = format!("{key}.headers.{name}");
            match (HeaderName::try_from(name.as_str()), Glob::new(pattern)) {
                (Ok(name), Ok(glob)) => policy
                    .matcher
                    .headers
                    .push((name.as_str().to_owned(), glob.compile_matcher())),
                (Err(_), _) => self.fail(&at, "is no header name"),
                (_, Err(error)) => self.fail(&at, error),
            }
        }
        let failed = std::mem::replace(&mut self.failed, failed_before);
        self.failed |= failed;
        (!failed).then_some(policy)
    }

    pub(super) fn share(&mut self, key: &str, ratio: f64) {
        if !(ratio > 0.0 && ratio <= 1.0) {
            self.fail(key, format_args!("{ratio} is not between 0 and 1"));
        }
    }

    pub(super) fn amount(&mut self, key: &str, raw: raw::Amount) -> Option<Amount> {
        match raw {
            raw::Amount {
                ratio: Some(ratio),
                tokens: None,
            } => {
                if !(0.0..=1.0).contains(&ratio) {
                    self.fail(
                        &format!("{key}.ratio"),
                        format_args!("{ratio} is not between 0 and 1"),
                    );
                }
                Some(Amount::Ratio(ratio))
            }
            raw::Amount {
                ratio: None,
                tokens: Some(tokens),
            } => Some(Amount::Tokens(tokens)),
            _ => {
                self.fail(key, "takes one of ratio and tokens");
                None
            }
        }
    }

    /// Globs that a request must match; `None` when they match everything.
    fn matcher(&mut self, key: &str, patterns: &[String]) -> Option<GlobSet> {
        if patterns.iter().any(|pattern| pattern == "*") {
            None
        } else {
            self.globs(key, patterns)
        }
    }

    /// `None` for an empty list.
    pub(super) fn globs(&mut self, key: &str, patterns: &[String]) -> Option<GlobSet> {
        if patterns.is_empty() {
            return None;
        }
        let mut set = GlobSetBuilder::new();
        for (at, pattern) in patterns.iter().enumerate() {
            match Glob::new(pattern) {
                Ok(glob) => drop(set.add(glob)),
                Err(error) => self.fail(&format!("{key}.{at}"), error),
            }
        }
        set.build().map_err(|error| self.fail(key, error)).ok()
    }
}

/// Digest of all that makes a policy decide as it does. Its name, whom it matches, whether it may be chosen and whether
/// it asks for usage do not.
fn identity(raw: &raw::Policy) -> Fingerprint {
    let plain = raw::Policy {
        name: String::new(),
        models: Vec::new(),
        paths: Vec::new(),
        headers: BTreeMap::new(),
        selectable: false,
        include_usage: false,
        ..raw.clone()
    };
    // These types always serialise; were that to change, no two policies would share anything with the name in it.
    Fingerprint::of(&serde_json::to_vec(&plain).unwrap_or_else(|_| raw.name.clone().into_bytes()))
}

/// The point of an error that is told in several lines.
fn last_line(error: &impl Display) -> String {
    error
        .to_string()
        .lines()
        .last()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}

/// Whether a request to `origin` would arrive at `listen`.
pub(super) fn is_same_place(origin: &Uri, listen: SocketAddr) -> bool {
    let Some(host) = origin.host() else {
        return false;
    };
    let port = origin
        .port_u16()
        .unwrap_or(if origin.scheme_str() == Some("https") {
            443
        } else {
            80
        });
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let local = address.map_or(host.eq_ignore_ascii_case("localhost"), |ip| {
        ip == listen.ip()
            || (ip.is_loopback() && (listen.ip().is_loopback() || listen.ip().is_unspecified()))
    });
    port == listen.port() && local
}
