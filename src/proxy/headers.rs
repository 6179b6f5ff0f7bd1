//! Heads of requests and answers: end-to-end headers pass untouched, hop-by-hop headers and Baler's
//! own do not.

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use hyper::{Request, Version};

use crate::core::planner::PriorUsage;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Insertion;
use crate::proxy::error::ProxyError;
use crate::upstream::{RequestBody, Upstream};

/// Names of the headers by which a client addresses Baler. They are not forwarded.
pub(super) static POLICY: HeaderName = HeaderName::from_static("x-baler-policy");
pub(super) static MODE: HeaderName = HeaderName::from_static("x-baler-mode");
pub(super) static REQUEST_ID: HeaderName = HeaderName::from_static("x-baler-request-id");
pub(super) static USAGE: HeaderName = HeaderName::from_static("x-baler-usage");
pub(super) static TOKEN: HeaderName = HeaderName::from_static(TOKEN_NAME);
pub(super) const TOKEN_NAME: &str = "x-baler-token";

/// The headers that Baler reads.
pub(super) static READ: [&HeaderName; 5] = [&POLICY, &MODE, &REQUEST_ID, &USAGE, &TOKEN];

/// Names of the headers that Baler puts on answers, besides those above.
pub(super) static ACTION: HeaderName = HeaderName::from_static("x-baler-action");
pub(super) static TOKENS: HeaderName = HeaderName::from_static("x-baler-tokens");
pub(super) static WARNING: HeaderName = HeaderName::from_static("x-baler-warning");
pub(super) static SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The beginning of the names of Baler's own headers.
const OWN: &[u8] = b"x-baler-";

/// Whether a header is one of Baler's own, known or not, also where an underscore stands for a
/// hyphen: servers behind gateways such as CGI and WSGI cannot tell the two apart.
pub(super) fn is_own(name: &HeaderName) -> bool {
    let begins = name.as_str().bytes().take(OWN.len());
    begins
        .map(|byte| if byte == b'_' { b'-' } else { byte })
        .eq(OWN.iter().copied())
}

/// Removes Baler's own headers: they do not pass Baler in either direction.
pub(super) fn strip_own(headers: &mut HeaderMap) {
    remove(headers, is_own);
}

/// Headers that belong to one connection.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What a request's own header asks of Baler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModeOverride {
    /// Nothing.
    None,
    /// `x-baler-mode: off`
    Off,
    /// `x-baler-mode: observe`
    Observe,
    /// `x-baler-mode: force`
    Force,
}

/// Reads `x-baler-mode`; an unknown word asks for nothing.
#[must_use]
pub(super) fn mode_override(headers: &HeaderMap) -> ModeOverride {
    let mode = headers.get(&MODE).and_then(mode);
    mode.unwrap_or(ModeOverride::None)
}

/// Whether a value of `x-baler-mode` is one that Baler knows.
pub(super) fn is_mode(value: &HeaderValue) -> bool {
    mode(value).is_some()
}

fn mode(value: &HeaderValue) -> Option<ModeOverride> {
    match &*value.as_bytes().to_ascii_lowercase() {
        b"off" => Some(ModeOverride::Off),
        b"observe" => Some(ModeOverride::Observe),
        b"force" => Some(ModeOverride::Force),
        _ => None,
    }
}

/// Usage that the client sends back from an earlier answer.
#[must_use]
pub(super) fn prior_usage(headers: &HeaderMap) -> Option<PriorUsage> {
    PriorUsage::parse(headers.get(&USAGE)?.to_str().ok()?)
}

/// The client's own id for the request if it is plain and short, else a new one.
#[must_use]
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let own = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    match own {
        Some(id) if is_plain_id(id, 64) => id.to_owned(),
        _ => crate::random::id(),
    }
}

/// Headers by which APIs and gateways name a request in their answers, and in their own logs.
const UPSTREAM_REQUEST_IDS: [&str; 5] = [
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "x-generation-id",
];

/// The upstream's own id of a request, if it is plain and not long.
#[must_use]
pub(super) fn upstream_request_id(answer: &HeaderMap) -> Option<String> {
    let named = |id: &&str| answer.iter().find(|(name, _)| name.as_str() == *id);
    let mut ids = UPSTREAM_REQUEST_IDS.iter();
    let id = ids.find_map(|id| named(id)?.1.to_str().ok())?;
    is_plain_id(id, 128).then(|| id.to_owned())
}

/// Whether an id is of plain characters, and no longer than `longest`.
fn is_plain_id(id: &str, longest: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=longest).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Checks what decides where a request ends and whom it is for, as other servers on the way do.
///
/// # Errors
/// [`ProxyError::UnsupportedCoding`] and [`ProxyError::BadHost`].
pub(super) fn check<B>(request: &Request<B>) -> Result<(), ProxyError> {
    if !has_known_coding(request.headers()) {
        return Err(ProxyError::UnsupportedCoding);
    }
    let hosts = request.headers().get_all(HOST).iter().count();
    match request.version() {
        Version::HTTP_11 if hosts != 1 => Err(ProxyError::BadHost),
        _ if hosts > 1 => Err(ProxyError::BadHost),
        _ => Ok(()),
    }
}

/// Whether a message has no transfer coding, or is chunked and nothing else: another coding would
/// be lost, since it belongs to one connection.
#[must_use]
pub(super) fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| {
        coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    };
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

/// Prepares the head of an answer for the client. INVARIANT: where the upstream's answer was
/// chunked, its length is what the chunks say, never what a `Content-Length` beside them said.
pub(super) fn strip_answer(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip_hop_by_hop(headers);
}

/// Removes hop-by-hop headers, including those that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let named: Vec<HeaderName> = named.filter_map(|name| name.trim().parse().ok()).collect();
    remove(headers, |name| {
        HOP_BY_HOP.contains(&name.as_str()) || named.contains(name)
    });
}

/// Removes unwanted headers. Most requests have none, which one pass finds out.
fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    let found: Vec<HeaderName> = headers
        .keys()
        .filter(|name| unwanted(name))
        .cloned()
        .collect();
    for name in found {
        headers.remove(name);
    }
}

/// The head of a request for the upstream: same method, path, query and end-to-end headers, `Host`
/// the upstream's.
///
/// # Errors
/// [`ProxyError::BadTarget`] for a target that is not a path.
pub(super) fn head(
    upstream: &Upstream,
    mut parts: hyper::http::request::Parts,
) -> Result<hyper::http::request::Parts, ProxyError> {
    let target = parts
        .uri
        .path_and_query()
        .map(|target| target.as_str())
        .filter(|target| target.starts_with('/') || *target == "*");
    if parts.method == hyper::Method::CONNECT {
        return Err(ProxyError::BadTarget);
    }
    parts.uri = upstream
        .uri(target.ok_or(ProxyError::BadTarget)?)
        .map_err(|_| ProxyError::BadTarget)?;
    strip_hop_by_hop(&mut parts.headers);
    remove(&mut parts.headers, |name| *name == HOST || is_own(name));
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    Ok(parts)
}

/// A request with this head and a body in pieces.
#[must_use]
pub(super) fn with_body(
    mut head: hyper::http::request::Parts,
    pieces: Vec<Bytes>,
) -> Request<RequestBody> {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(length));
    Request::from_parts(head, RequestBody::pieces(pieces))
}

/// `pieces` with `new` in the place of `old`, which is part of the bytes that the pieces are slices
/// of.
#[must_use]
pub(super) fn replaced(pieces: Vec<Bytes>, old: &[u8], new: &Bytes) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(pieces.len() + 2);
    for piece in pieces {
        let from = (old.as_ptr() as usize).wrapping_sub(piece.as_ptr() as usize);
        match from.checked_add(old.len()) {
            Some(end) if end <= piece.len() => {
                out.extend([piece.slice(..from), new.clone(), piece.slice(end..)])
            }
            _ => out.push(piece),
        }
    }
    out
}

/// Requests usage where the client did not, and returns whether it did. `pieces` are slices of
/// `body` and new bytes. The answer must not be encoded, so that the usage can be removed from it
/// again.
pub(super) fn include_usage(
    dialect: Dialect,
    head: &mut hyper::http::request::Parts,
    body: &Bytes,
    pieces: &mut Vec<Bytes>,
) -> bool {
    let Some(Insertion { range, text }) = dialect.include_usage(body) else {
        return false;
    };
    let start_of = |piece: &Bytes| (piece.as_ptr() as usize).checked_sub(body.as_ptr() as usize);
    let found = pieces.iter().enumerate().find_map(|(at, piece)| {
        let start = start_of(piece)
            .filter(|start| (*start..=start + piece.len()).contains(&range.start))?;
        Some((at, piece.clone(), range.start - start, range.end - start))
    });
    let Some((at, piece, start, end)) = found.filter(|(_, piece, _, end)| *end <= piece.len())
    else {
        return false;
    };
    pieces.splice(
        at..=at,
        [
            piece.slice(..start),
            Bytes::from_static(text.as_bytes()),
            piece.slice(end..),
        ],
    );
    head.headers.remove(ACCEPT_ENCODING);
    true
}

/// HTTP/2 may split the cookie header; HTTP/1.1 requires one.
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_connection_names_are_removed_too() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "2"),
            ("te", "trailers"),
            ("x-stays", "3"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        strip_hop_by_hop(&mut headers);
        assert_eq!(
            headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["x-stays"]
        );
    }
}
