//! `[summarizer]`, or several `[[summarizer]]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};

use crate::config::problem::{hint, nearest};
use crate::config::resolve::check::{Check, is_same_place};
use crate::config::{Key, Summarizer, Summarizers, raw};
use crate::core::summary::PROMPT;
use crate::core::wire::Dialect;

impl Check<'_> {
    /// All summarisers. That of policies that name none is the only one, or the one called
    /// "default"; else the upstream itself.
    pub(super) fn summarizers(
        &mut self,
        written: &raw::Summarizers,
        env: &BTreeMap<String, String>,
        listen: Option<SocketAddr>,
    ) -> Summarizers {
        let mut names: Vec<&str> = Vec::new();
        let mut all = Vec::with_capacity(written.all().len());
        for (at, raw) in written.all().iter().enumerate() {
            let key = written.key(at);
            self.name(&format!("{key}.name"), &raw.name);
            if names.contains(&raw.name.as_str()) {
                self.fail(
                    &format!("{key}.name"),
                    format_args!("\"{}\" is the name of an earlier summarizer", raw.name),
                );
            }
            names.push(&raw.name);
            let is_given = *written != raw::Summarizers::default();
            all.push(Summarizer {
                is_given,
                ..self.summarizer(&key, raw, env, listen)
            });
        }
        let named = |summarizer: &Summarizer| summarizer.name == raw::DEFAULT_SUMMARIZER;
        let default = match all.len() {
            1 => all.pop(),
            _ => all.iter().position(named).map(|at| all.remove(at)),
        };
        let built_in = raw::Summarizer::default();
        Summarizers {
            default: default.unwrap_or_else(|| self.summarizer("summarizer", &built_in, env, None)),
            others: all,
        }
    }

    /// The summariser that a policy names must be there.
    pub(super) fn summarizer_name(&mut self, key: &str, name: &str, written: &raw::Summarizers) {
        let known = || written.all().iter().map(|known| known.name.as_str());
        if known().any(|known| known == name) {
            return;
        }
        let hint = hint(nearest(name, known()));
        let there = known().collect::<Vec<_>>().join(", ");
        self.fail(
            key,
            format_args!(
                "no summarizer is called \"{name}\"{hint}; there is: {there}. Another one is a \
                 table [[summarizer]] with name = \"{name}\""
            ),
        );
    }

    fn summarizer(
        &mut self,
        key: &str,
        raw: &raw::Summarizer,
        env: &BTreeMap<String, String>,
        listen: Option<SocketAddr>,
    ) -> Summarizer {
        let suffix = raw.style == raw::Style::Suffix;
        if suffix && (raw.url.is_some() || raw.model.is_some()) {
            self.fail(
                &format!("{key}.style"),
                "\"suffix\" continues the client's own request: it takes neither url nor model",
            );
        }
        self.summarizer_request(key, raw);
        self.summarizer_bounds(key, raw);
        Summarizer {
            name: raw.name.clone(),
            is_given: false,
            url: self.summarizer_url(&format!("{key}.url"), raw.url.as_deref(), listen),
            model: raw.model.clone(),
            key: self.summarizer_key(key, raw, env),
            headers: self.summarizer_headers(&format!("{key}.headers"), &raw.headers),
            suffix,
            instructions: self
                .instructions(&format!("{key}.prompt_file"), raw.prompt_file.as_deref()),
            limit: raw.limit_field,
            temperature: Some(raw.temperature).filter(|temperature| *temperature >= 0.0),
            parameters: raw.parameters.clone().into_iter().collect(),
            window: raw.window,
            timeout: raw.timeout,
            longest_wait: raw.retry_after_at_most,
            failure_lifetime: raw.failure_lifetime,
            breaker_failures: raw.breaker_failures,
            breaker_pause: raw.breaker_pause,
            concurrency: raw.concurrency,
            concurrency_per_tenant: raw.concurrency_per_tenant,
            calls_per_minute: raw.max_calls_per_minute,
            calls_per_minute_per_tenant: raw.max_calls_per_minute_per_tenant,
            max_share: raw.max_share,
            max_bytes: raw.max_bytes,
        }
    }

    fn summarizer_url(
        &mut self,
        key: &str,
        url: Option<&str>,
        listen: Option<SocketAddr>,
    ) -> Option<String> {
        let (origin, base_path) = self.url(key, url?)?;
        if listen.is_some_and(|listen| is_same_place(&origin, listen)) {
            self.fail(
                key,
                "is Baler's own listener: summaries would be summarised",
            );
        }
        Some(format!(
            "{}{}/chat/completions",
            origin.to_string().trim_end_matches('/'),
            base_path.unwrap_or_default()
        ))
    }

    fn summarizer_key(
        &mut self,
        key: &str,
        raw: &raw::Summarizer,
        env: &BTreeMap<String, String>,
    ) -> Key {
        match (&raw.api_key_file, &raw.api_key_env) {
            (None, None) => Key::None,
            (Some(_), Some(_)) => {
                self.fail(
                    &format!("{key}.api_key_file"),
                    "takes one of api_key_file and api_key_env",
                );
                Key::None
            }
            (Some(file), None) => {
                if let Err(error) = std::fs::read_to_string(file) {
                    self.fail(
                        &format!("{key}.api_key_file"),
                        format_args!("the file cannot be read: {error}"),
                    );
                }
                Key::File(PathBuf::from(file))
            }
            (None, Some(name)) => {
                let value = env.get(name).map(|value| value.trim());
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    return Key::Value(value.to_owned());
                }
                self.fail(
                    &format!("{key}.api_key_env"),
                    // A key that was written here in place of a name must not be shown.
                    "takes the name of a variable, and that variable is not set",
                );
                Key::None
            }
        }
    }

    fn summarizer_headers(
        &mut self,
        key: &str,
        written: &BTreeMap<String, String>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::with_capacity(written.len());
        for (name, value) in written {
            let name = self.header_name(key, name);
            if let Some(name) = name
                .as_ref()
                .filter(|name| name.as_str().starts_with("x-baler"))
            {
                self.fail(
                    key,
                    format_args!("{name}: Baler's own headers do not leave it"),
                );
            }
            match HeaderValue::try_from(value.as_str()) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    headers.extend(name.map(|name| (name, value)));
                }
                Err(_) => self.fail(key, "a value has characters that a header cannot have"),
            }
        }
        headers
    }

    fn instructions(&mut self, key: &str, file: Option<&str>) -> Arc<str> {
        let Some(file) = file else {
            return Arc::from(PROMPT);
        };
        match std::fs::read_to_string(file) {
            Ok(text) if !text.trim().is_empty() => return Arc::from(text),
            Ok(_) => self.fail(key, format_args!("{file} is empty")),
            Err(error) => self.fail(key, format_args!("{file} cannot be read: {error}")),
        }
        Arc::from("")
    }

    /// Fields of the summariser's request.
    fn summarizer_request(&mut self, key: &str, raw: &raw::Summarizer) {
        for taken in Dialect::default().own_fields() {
            if raw.parameters.contains_key(*taken) {
                self.fail(
                    &format!("{key}.parameters.{taken}"),
                    "is set by Baler itself",
                );
            }
        }
        if raw.temperature > 2.0 || raw.temperature.is_nan() {
            self.fail(
                &format!("{key}.temperature"),
                format_args!("{} is not a temperature; at most 2", raw.temperature),
            );
        }
        if let Some(window) = raw.window {
            self.at_least(&format!("{key}.window"), window, 1_024);
        }
    }

    /// Bounds on calls: time, number and cost.
    fn summarizer_bounds(&mut self, key: &str, raw: &raw::Summarizer) {
        if !(raw.max_share > 0.0 && raw.max_share.is_finite()) {
            self.fail(
                &format!("{key}.max_share"),
                format_args!("{} is not above 0", raw.max_share),
            );
        }
        for (name, duration) in [
            ("timeout", raw.timeout),
            ("retry_after_at_most", raw.retry_after_at_most),
            ("failure_lifetime", raw.failure_lifetime),
            ("breaker_pause", raw.breaker_pause),
        ] {
            self.longer_than_nothing(&format!("{key}.{name}"), duration);
        }
        for (name, value, least) in [
            ("breaker_failures", raw.breaker_failures as usize, 1),
            ("concurrency", raw.concurrency, 1),
            ("concurrency_per_tenant", raw.concurrency_per_tenant, 1),
            ("max_calls_per_minute", raw.max_calls_per_minute, 1),
            (
                "max_calls_per_minute_per_tenant",
                raw.max_calls_per_minute_per_tenant,
                1,
            ),
            ("max_bytes", raw.max_bytes, 1_024),
        ] {
            self.at_least(&format!("{key}.{name}"), value as u64, least);
        }
    }
}
