//! Who writes summaries, and what that may cost; and the options of `summarize` steps.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use globset::GlobBuilder;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::config::raw;
use crate::config::resolve::{Check, is_same_place};
use crate::core::summary::{FileAccess, FileRule, Options, PROMPT, Recent, SummaryRole};
use crate::core::wire::Dialect;
use crate::core::wire::own_call::OutputLimit;

/// Who writes summaries.
#[derive(Debug, Clone)]
pub struct Summarizer {
    /// Where chat completions of another API are; the upstream's own when not given.
    pub url: Option<String>,
    /// The model; the request's when not given.
    pub model: Option<String>,
    /// The key.
    pub key: Key,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the client's own list is continued, instead of quoted.
    pub suffix: bool,
    /// What it is told.
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
    /// How long a prefix whose summary failed is left alone.
    pub failure_lifetime: Duration,
    /// Failures in a row that open the breaker.
    pub breaker_failures: u32,
    /// How long it stays open.
    pub breaker_pause: Duration,
    /// Summaries being made at a time.
    pub concurrency: usize,
    /// Of these, for one tenant.
    pub concurrency_per_tenant: usize,
    /// Calls a minute.
    pub calls_per_minute: usize,
    /// Share of a tenant's forwarded tokens.
    pub max_share: f64,
    /// The longest answer, bytes.
    pub max_bytes: usize,
}

/// Where an API key is from.
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

impl Check<'_> {
    pub(super) fn summarizer(
        &mut self,
        raw: &raw::Summarizer,
        env: &BTreeMap<String, String>,
        listen: Option<std::net::SocketAddr>,
    ) -> Option<Summarizer> {
        let suffix = raw.style == raw::Style::Suffix;
        if suffix && (raw.url.is_some() || raw.model.is_some()) {
            self.fail(
                "summarizer.style",
                "\"suffix\" continues the client's own request: it takes neither url nor model",
            );
        }
        let url = raw.url.as_deref().and_then(|text| {
            let (origin, base_path) = self.url("summarizer.url", text)?;
            if listen.is_some_and(|listen| is_same_place(&origin, listen)) {
                self.fail(
                    "summarizer.url",
                    "is Baler's own listener: summaries would be summarised",
                );
            }
            Some(format!(
                "{}{}{}",
                origin.to_string().trim_end_matches('/'),
                base_path.unwrap_or_default(),
                Dialect::ChatCompletions.suffix()
            ))
        });
        let key = match (&raw.api_key_file, &raw.api_key_env) {
            (Some(_), Some(_)) => {
                self.fail(
                    "summarizer.api_key_file",
                    "takes one of api_key_file and api_key_env",
                );
                Key::None
            }
            (Some(file), None) => {
                if let Err(error) = std::fs::read_to_string(file) {
                    self.fail(
                        "summarizer.api_key_file",
                        format_args!("{file} cannot be read: {error}"),
                    );
                }
                Key::File(PathBuf::from(file))
            }
            (None, Some(name)) => match env.get(name).filter(|value| !value.trim().is_empty()) {
                Some(value) => Key::Value(value.trim().to_owned()),
                None => {
                    self.fail(
                        "summarizer.api_key_env",
                        format_args!("the variable {name} is not set"),
                    );
                    Key::None
                }
            },
            (None, None) => Key::None,
        };
        let mut headers = Vec::with_capacity(raw.headers.len());
        for (name, value) in &raw.headers {
            match (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.as_str()),
            ) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.push((name, value));
                }
                (Err(_), _) => {
                    self.fail(&format!("summarizer.headers.{name}"), "is no header name")
                }
                (_, Err(_)) => self.fail(
                    &format!("summarizer.headers.{name}"),
                    "its value cannot stand in a header",
                ),
            }
        }
        let instructions = match &raw.prompt_file {
            None => Arc::from(PROMPT),
            Some(file) => match std::fs::read_to_string(file) {
                Ok(text) if !text.trim().is_empty() => Arc::from(text),
                Ok(_) => {
                    self.fail("summarizer.prompt_file", format_args!("{file} is empty"));
                    Arc::from("")
                }
                Err(error) => {
                    self.fail(
                        "summarizer.prompt_file",
                        format_args!("{file} cannot be read: {error}"),
                    );
                    Arc::from("")
                }
            },
        };
        for taken in Dialect::ChatCompletions.own_fields() {
            if raw.parameters.contains_key(*taken) {
                self.fail(
                    &format!("summarizer.parameters.{taken}"),
                    "is Baler's to set",
                );
            }
        }
        if !(raw.max_share > 0.0 && raw.max_share.is_finite()) {
            self.fail(
                "summarizer.max_share",
                format_args!("{} is not above 0", raw.max_share),
            );
        }
        if raw.temperature > 2.0 || raw.temperature.is_nan() {
            self.fail(
                "summarizer.temperature",
                format_args!("{} is no temperature", raw.temperature),
            );
        }
        if let Some(window) = raw.window {
            self.at_least("summarizer.window", window, 1_024);
        }
        self.at_least(
            "summarizer.breaker_failures",
            raw.breaker_failures.into(),
            1,
        );
        let (timeout, longest_wait) = (
            self.duration("summarizer.timeout", &raw.timeout),
            self.duration("summarizer.retry_after_at_most", &raw.retry_after_at_most),
        );
        let (failure_lifetime, breaker_pause) = (
            self.duration("summarizer.failure_lifetime", &raw.failure_lifetime),
            self.duration("summarizer.breaker_pause", &raw.breaker_pause),
        );
        Some(Summarizer {
            url,
            model: raw.model.clone(),
            key,
            headers,
            suffix,
            instructions,
            limit: match raw.limit_field {
                raw::LimitField::MaxCompletionTokens => OutputLimit::MaxCompletionTokens,
                raw::LimitField::MaxTokens => OutputLimit::MaxTokens,
            },
            temperature: Some(raw.temperature).filter(|temperature| *temperature >= 0.0),
            parameters: raw.parameters.clone().into_iter().collect(),
            window: raw.window,
            timeout: timeout?,
            longest_wait: longest_wait?,
            failure_lifetime: failure_lifetime?,
            breaker_failures: raw.breaker_failures,
            breaker_pause: breaker_pause?,
            concurrency: self.size("summarizer.concurrency", raw.concurrency, 1),
            concurrency_per_tenant: self.size(
                "summarizer.concurrency_per_tenant",
                raw.concurrency_per_tenant,
                1,
            ),
            calls_per_minute: self.size(
                "summarizer.max_calls_per_minute",
                raw.max_calls_per_minute,
                1,
            ),
            max_share: raw.max_share,
            max_bytes: self.size("summarizer.max_bytes", raw.max_bytes, 1_024),
        })
    }

    pub(super) fn summarize(&mut self, key: &str, raw: &raw::Summarize) -> Option<Options> {
        self.share(&format!("{key}.prepare_at"), raw.prepare_at);
        for (name, share) in [("facts", raw.facts), ("max_ungrounded", raw.max_ungrounded)] {
            if !(0.0..=1.0).contains(&share) {
                self.fail(
                    &format!("{key}.{name}"),
                    format_args!("{share} is not between 0 and 1"),
                );
            }
        }
        self.at_least(&format!("{key}.refresh_every"), raw.refresh_every.into(), 1);
        let wait = match humantime::parse_duration(&raw.wait) {
            Ok(wait) => Some(wait),
            Err(error) => {
                self.fail(
                    &format!("{key}.wait"),
                    format_args!(
                        "\"{}\" is no duration such as 0s, 500ms or 10s: {error}",
                        raw.wait
                    ),
                );
                None
            }
        };
        let mut artifacts = Vec::new();
        match &raw.artifacts {
            None => artifacts.extend(USUAL.iter().filter_map(|usual| {
                let (tool, argument, when, touch) = *usual;
                self.artifact(
                    key,
                    tool,
                    argument,
                    when.map(|(k, v)| (k.to_owned(), v.to_owned()))
                        .into_iter()
                        .collect(),
                    touch,
                )
            })),
            Some(rules) => {
                for (at, rule) in rules.iter().enumerate() {
                    let touch = if rule.kind == raw::Touch::Read {
                        FileAccess::Read
                    } else {
                        FileAccess::Write
                    };
                    let when = rule.when.clone().into_iter().collect();
                    artifacts.extend(self.artifact(
                        &format!("{key}.artifacts.{at}"),
                        &rule.tool,
                        &rule.argument,
                        when,
                        touch,
                    ));
                }
            }
        }
        Some(Options {
            keep: Recent {
                tokens: raw.keep.tokens,
                turns: raw.keep.turns,
                messages: raw.keep.messages,
            },
            prepare_at: raw.prepare_at,
            wait: wait?,
            max_tokens: self.at_least(&format!("{key}.max_tokens"), raw.max_tokens, 64),
            refresh_every: raw.refresh_every,
            result_limit: self.size(&format!("{key}.result_limit"), raw.result_limit as u64, 64),
            facts: raw.facts,
            max_ungrounded: raw.max_ungrounded,
            role: match raw.role {
                raw::SummaryRole::User => SummaryRole::User,
                raw::SummaryRole::System => SummaryRole::System,
                raw::SummaryRole::Developer => SummaryRole::Developer,
            },
            artifacts: artifacts.into(),
        })
    }

    fn artifact(
        &mut self,
        key: &str,
        tool: &str,
        argument: &str,
        when: Vec<(String, String)>,
        touch: FileAccess,
    ) -> Option<FileRule> {
        if argument.is_empty() {
            self.fail(&format!("{key}.argument"), "is empty");
        }
        match GlobBuilder::new(tool).case_insensitive(true).build() {
            Ok(glob) => {
                let arguments = argument.split('|').map(str::to_owned).collect();
                Some(FileRule {
                    tool: glob.compile_matcher(),
                    arguments,
                    when,
                    touch,
                })
            }
            Err(error) => {
                self.fail(&format!("{key}.tool"), error);
                None
            }
        }
    }
}

/// Arguments that name a file, in the tools of the common agents.
const NAMES: &str = "path|file_path|filePath|filename|file|target_file|absolute_path|relative_path|notebook_path|file_paths|paths|files|relative_workspace_path|AbsolutePath|TargetFile";
/// Arguments that hold a patch.
const PATCHES: &str = "patch|input|patchText|diff";

type Usual = (
    &'static str,
    &'static str,
    Option<(&'static str, &'static str)>,
    FileAccess,
);

/// What the tools of the common agents do: tool, arguments, condition, kind.
const USUAL: [Usual; 13] = [
    (
        "*str_replace*edit*",
        NAMES,
        Some(("command", "view")),
        FileAccess::Read,
    ),
    (
        "*editor*",
        NAMES,
        Some(("command", "view")),
        FileAccess::Read,
    ),
    (
        "*{apply_patch,apply_diff,patch}*",
        PATCHES,
        None,
        FileAccess::Write,
    ),
    (
        "*{write,edit,str_replace,replace,create,insert,append,delete,remove,update,patch,diff,modify,rename,move}*",
        NAMES,
        None,
        FileAccess::Write,
    ),
    ("*{read,view,open,cat,show}*", NAMES, None, FileAccess::Read),
    ("*get_file*", NAMES, None, FileAccess::Read),
    ("*file_contents*", NAMES, None, FileAccess::Read),
    ("*fetch_file*", NAMES, None, FileAccess::Read),
    ("*load_file*", NAMES, None, FileAccess::Read),
    ("*outline*", NAMES, None, FileAccess::Read),
    ("*{head,tail}", NAMES, None, FileAccess::Read),
    ("*download*", NAMES, None, FileAccess::Read),
    ("*save*", NAMES, None, FileAccess::Write),
];
