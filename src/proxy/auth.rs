//! Who may use Baler: the bearer tokens of `listen.auth_tokens_file`. They are Baler's own and go
//! no further.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;

use crate::config::AuthTokens;
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Exchange;
use crate::proxy::headers;

/// Headers that may carry a token: Baler's own, the one for proxies, and those in which SDKs send
/// their API key. With a token in one of the first two, the API key goes on to the upstream.
const PLACES: [HeaderName; 5] = [
    HeaderName::from_static(headers::TOKEN_NAME),
    PROXY_AUTHORIZATION,
    AUTHORIZATION,
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-api-key"),
];

/// The tokens of clients, as keyed hashes.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    key: [u8; 32],
    /// `None`: everyone may.
    hashes: Option<Vec<blake3::Hash>>,
}

impl Gatekeeper {
    pub(super) fn new(tokens: Option<&AuthTokens>) -> Self {
        let key = crate::random::bytes();
        let hash = |token: &String| blake3::keyed_hash(&key, token.as_bytes());
        Gatekeeper {
            hashes: tokens.map(|AuthTokens(tokens)| tokens.iter().map(hash).collect()),
            key,
        }
    }

    /// The headers with a token of Baler's. Empty where no token is asked for.
    ///
    /// # Errors
    /// [`ProxyError::Unauthorized`] when there is none.
    fn tokens_in(&self, headers: &HeaderMap) -> Result<Vec<HeaderName>, ProxyError> {
        let Some(hashes) = &self.hashes else {
            return Ok(Vec::new());
        };
        let is_token = |value: &HeaderValue| {
            let hash = blake3::keyed_hash(&self.key, token_of(value.as_bytes()));
            // Hashes are compared in constant time, and all of them are compared.
            let matches = hashes.iter().map(|known| *known == hash);
            matches.fold(false, |found, matches| found | matches)
        };
        let holds_token = |name: &HeaderName| headers.get_all(name).iter().any(is_token);
        let found: Vec<HeaderName> = PLACES.into_iter().filter(holds_token).collect();
        if found.is_empty() {
            Err(ProxyError::Unauthorized)
        } else {
            Ok(found)
        }
    }
}

/// The token of a header's value, with or without the word `Bearer`.
fn token_of(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        _ => value,
    }
}

impl Exchange {
    /// Lets a client in that has a token of Baler's, where one is asked for.
    ///
    /// # Errors
    /// [`ProxyError::Unauthorized`] when it has none.
    pub(super) fn authenticate(&mut self, headers: &HeaderMap) -> Result<(), ProxyError> {
        self.own_tokens = self.proxy.shared.gatekeeper.tokens_in(headers)?;
        Ok(())
    }

    /// The head of a request for the upstream, without Baler's own token.
    ///
    /// # Errors
    /// [`ProxyError::BadTarget`] for a target that is not a path.
    pub(super) fn upstream_head(&self, mut parts: Parts) -> Result<Parts, ProxyError> {
        for name in &self.own_tokens {
            parts.headers.remove(name);
        }
        headers::head(&self.proxy.upstream, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tokens: Option<&[&str]>, name: &'static str, value: &'static str) -> Option<usize> {
        let tokens = tokens.map(|tokens| AuthTokens(tokens.iter().map(|t| (*t).into()).collect()));
        let mut headers = HeaderMap::new();
        headers.insert("x-other", HeaderValue::from_static("one-token"));
        headers.insert(name, HeaderValue::from_static(value));
        let found = Gatekeeper::new(tokens.as_ref()).tokens_in(&headers);
        found.ok().map(|names| names.len())
    }

    #[test]
    fn a_token_lets_in_from_any_of_its_places_and_nothing_else_does() {
        let tokens: Option<&[&str]> = Some(&["one-token", "another-token"]);
        for value in ["Bearer one-token", "bearer  another-token", "one-token"] {
            for name in PLACES {
                let name = name.as_str().to_owned().leak();
                assert_eq!(found(tokens, name, value), Some(1), "{name}: {value}");
            }
        }
        for value in [
            "",
            "Bearer",
            "Bearer one-toke",
            "Bearer one-token2",
            "Basic one-token",
        ] {
            assert_eq!(found(tokens, "authorization", value), None, "{value}");
        }
        assert_eq!(found(tokens, "x-unknown", "one-token"), None);
        assert_eq!(found(None, "authorization", "anything"), Some(0));
    }
}
