//! Checks that every section needs: each reports what it finds and goes on.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use hyper::Uri;
use hyper::header::HeaderName;

use crate::core::tokens::Calibration;

/// Collects problems.
pub(super) struct Check<'r> {
    report: &'r mut dyn FnMut(String, String),
    problems: usize,
}

impl<'r> Check<'r> {
    pub(super) fn new(report: &'r mut dyn FnMut(String, String)) -> Self {
        Check {
            report,
            problems: 0,
        }
    }

    /// The number of problems so far.
    pub(super) fn problems(&self) -> usize {
        self.problems
    }

    /// Whether there was no problem.
    pub(super) fn passed(&self) -> bool {
        self.problems == 0
    }

    pub(super) fn fail(&mut self, key: &str, problem: impl Display) {
        self.problems += 1;
        (self.report)(key.to_owned(), problem.to_string());
    }

    pub(super) fn address(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fail(
                key,
                format_args!("\"{text}\" is not an IP address with a port, such as 127.0.0.1:4141"),
            );
        }
        parsed
    }

    pub(super) fn longer_than_nothing(&mut self, key: &str, duration: Duration) {
        if duration.is_zero() {
            self.fail(key, "must be longer than nothing");
        }
    }

    pub(super) fn at_least(&mut self, key: &str, value: u64, least: u64) {
        if value < least {
            self.fail(key, format_args!("{value} is too small; at least {least}"));
        }
    }

    /// A factor between what an upstream counts and what Baler does.
    pub(super) fn factor(&mut self, key: &str, factor: f64) {
        let (least, most) = Calibration::BOUNDS;
        if !(least..=most).contains(&factor) {
            self.fail(
                key,
                format_args!("{factor} is not between {least} and {most}"),
            );
        }
    }

    /// A share above 0 and at most 1.
    pub(super) fn share(&mut self, key: &str, share: f64) {
        if !(share > 0.0 && share <= 1.0) {
            self.fail(key, format_args!("{share} is not between 0 and 1"));
        }
    }

    pub(super) fn header_name(&mut self, key: &str, name: &str) -> Option<HeaderName> {
        let parsed = HeaderName::try_from(name).ok();
        if parsed.is_none() {
            // A whole header line, secret and all, may stand here.
            self.fail(key, "not a header name");
        }
        parsed
    }

    /// A set of globs; `None` for an empty list.
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

    /// Origin and base path of a URL. The text is not shown in errors: it may hold a password.
    pub(super) fn url(&mut self, key: &str, text: &str) -> Option<(Uri, Option<String>)> {
        let Some(uri) = http_uri(text) else {
            self.fail(key, not_a_url(text));
            return None;
        };
        let authority = uri.authority()?.clone();
        if has_credentials(&uri) {
            self.fail(
                key,
                "credentials in the URL are not supported: the client's own pass through",
            );
            return None;
        }
        let after_host = authority.as_str().rsplit_once(']').map_or_else(
            || authority.as_str().rsplit_once(':').map(|(_, port)| port),
            |(_, rest)| rest.strip_prefix(':'),
        );
        if after_host.is_some() && authority.port_u16().is_none() {
            self.fail(key, "the port is not a number up to 65535");
            return None;
        }
        if uri
            .path()
            .trim_end_matches('/')
            .ends_with("/chat/completions")
        {
            self.fail(
                key,
                "is the address of one endpoint, not a base URL: leave out /chat/completions",
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
            .authority(authority)
            .path_and_query("/")
            .build()
            .ok()?;
        Some((origin, base_path))
    }
}

/// The problem with a text that is no URL. It is shown only as a host with a port, which nobody
/// takes for a secret.
fn not_a_url(text: &str) -> String {
    let meant = format!("http://{text}");
    let is_meant = |uri: &Uri| {
        let is_host = uri.host().is_some_and(|host| host.parse::<u32>().is_err());
        is_host && uri.port_u16().is_some() && !has_credentials(uri) && uri.query().is_none()
    };
    if !text.contains("://") && http_uri(&meant).is_some_and(|uri| is_meant(&uri)) {
        format!("lacks its scheme, did you mean {meant}?")
    } else {
        "not an http or https URL such as https://api.openai.com/v1".to_owned()
    }
}

/// A text as an http or https URL with a host.
pub(super) fn http_uri(text: &str) -> Option<Uri> {
    text.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// Whether a URL names a user or a password.
pub(super) fn has_credentials(uri: &Uri) -> bool {
    uri.authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
}

/// Whether a request to `origin` would arrive at `listen`.
pub(super) fn is_same_place(origin: &Uri, listen: SocketAddr) -> bool {
    let Some(host) = origin.host() else {
        return false;
    };
    let usual_port = if origin.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let local = address.map_or(host.eq_ignore_ascii_case("localhost"), |ip| {
        ip == listen.ip()
            || (ip.is_loopback() && (listen.ip().is_loopback() || listen.ip().is_unspecified()))
    });
    origin.port_u16().unwrap_or(usual_port) == listen.port() && local
}
