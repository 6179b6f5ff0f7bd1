//! `[tenant]`, and the tokens of `[listen]`.

use globset::GlobSet;
use hyper::header::{AUTHORIZATION, HeaderName};

use crate::config::resolve::check::Check;
use crate::config::{AuthTokens, Tenant, raw};

impl Check<'_> {
    pub(super) fn tenant(&mut self, raw: &raw::Tenant, named: Vec<HeaderName>) -> Tenant {
        let mut headers = Vec::with_capacity(raw.headers.len());
        for (at, name) in raw.headers.iter().enumerate() {
            let key = format!("tenant.headers.{at}");
            headers.extend(self.header_name(&key, name));
        }
        if !headers.contains(&AUTHORIZATION) {
            self.fail(
                "tenant.headers",
                "authorization is missing: callers with different keys would share what is learned",
            );
        }
        if raw.parameters.iter().any(String::is_empty) {
            self.fail("tenant.parameters", "an empty name");
        }
        let parameters = raw.parameters.iter();
        Tenant {
            headers,
            named,
            parameters: parameters.map(|name| name.to_ascii_lowercase()).collect(),
            ignored_cookies: self
                .globs("tenant.ignored_cookies", &raw.ignored_cookies)
                .unwrap_or_else(GlobSet::empty),
        }
    }

    /// The bearer tokens of clients, one a line; empty lines and lines that begin with `#` are left
    /// out. No part of the file is shown in errors.
    pub(super) fn auth_tokens(&mut self, file: Option<&str>) -> Option<AuthTokens> {
        let key = "listen.auth_tokens_file";
        let text = match std::fs::read_to_string(file?) {
            Ok(text) => text,
            Err(error) => {
                self.fail(key, format_args!("the file cannot be read: {error}"));
                return None;
            }
        };
        let mut tokens = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let token = line.trim();
            if token.is_empty() || token.starts_with('#') {
                continue;
            }
            if token.len() < LEAST_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                self.fail(
                    key,
                    format_args!(
                        "line {}: a token has at least {LEAST_BYTES} characters, none of them \
                         blank or beyond ASCII",
                        at + 1
                    ),
                );
                continue;
            }
            tokens.push(token.to_owned());
        }
        if tokens.is_empty() {
            self.fail(key, "the file has no token");
        }
        Some(AuthTokens(tokens))
    }
}

/// The length of the shortest token: a shorter one can be guessed.
const LEAST_BYTES: usize = 16;
