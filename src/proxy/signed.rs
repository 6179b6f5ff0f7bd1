//! Requests whose body is signed or digested by a header: any edit would break them.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// Headers whose presence says that the body must stay as it is: digests, and HTTP message
/// signatures (RFC 9421), which commonly cover one.
const MARKS: [&str; 10] = [
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
    "signature",
    "signature-input",
    "x-amz-content-sha256",
    "x-content-sha256",
    "x-hub-signature-256",
    "x-signature",
];

/// Schemes of `authorization` that sign the request: AWS's, and those of draft-cavage and OCI.
const SCHEMES: [&[u8]; 3] = [b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256", b"Signature"];

/// Whether a request says that its body is signed.
pub(super) fn is_signed(headers: &HeaderMap, query: Option<&str>) -> bool {
    let signs = |value: &[u8]| {
        let scheme = value
            .trim_ascii()
            .split(|byte| b" ,\t".contains(byte))
            .next();
        let scheme = scheme.unwrap_or_default();
        SCHEMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(scheme))
    };
    let mut parameters = query.unwrap_or_default().split('&');
    headers.keys().any(|name| MARKS.contains(&name.as_str()))
        || headers
            .get_all(AUTHORIZATION)
            .iter()
            .any(|value| signs(value.as_bytes()))
        || parameters.any(|pair| pair.to_ascii_lowercase().starts_with("x-amz-signature="))
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn signatures_and_digests_are_recognised() {
        let of = |name: &'static str, value: &'static str| {
            let name = HeaderName::from_static(name);
            is_signed(
                &HeaderMap::from_iter([(name, HeaderValue::from_static(value))]),
                None,
            )
        };
        for name in MARKS {
            assert!(of(name, "x"), "{name}");
        }
        assert!(of(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=a, Signature=b"
        ));
        assert!(of("authorization", "aws4-hmac-sha256 Credential=a"));
        assert!(of("authorization", "Signature version=\"1\",keyId=\"a\""));
        assert!(!of("authorization", "Bearer AWS4-HMAC-SHA256"));
        assert!(!of("authorization", "Bearer sk-1"));
        assert!(!of("x-request-signature-hint", "x"));
        let query = |query| is_signed(&HeaderMap::new(), Some(query));
        assert!(query("X-Amz-Algorithm=a&X-Amz-Signature=b"));
        assert!(!query("key=a"));
    }
}
