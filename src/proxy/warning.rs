//! What a request asks of Baler that Baler does not know: said in the answer's `x-baler-warning`,
//! because a misspelled header would otherwise do nothing without a word.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::proxy::headers;

/// Headers that are named in one warning, at most.
const MAX_NAMED: usize = 4;
/// Characters of a header's name that are shown, at most.
const MAX_CHARACTERS: usize = 48;

/// The warning about a request to which the policy called `applied` applies. Values are not shown.
pub(super) fn about(request: &HeaderMap, applied: &str) -> Option<HeaderValue> {
    let mut warnings: Vec<String> = request
        .keys()
        .filter(|name| headers::is_own(name) && !headers::READ.contains(name))
        .take(MAX_NAMED)
        .map(|name| format!("unknown header {}", shortened(name)))
        .collect();
    let modes = request.get_all(&headers::MODE).iter();
    if modes.into_iter().any(|mode| !headers::is_mode(mode)) {
        warnings.push("unknown mode".to_owned());
    }
    let mut policies = request.get_all(&headers::POLICY).iter();
    if policies.any(|name| name.as_bytes() != applied.as_bytes()) {
        warnings.push("no such selectable policy".to_owned());
    }
    if warnings.is_empty() {
        return None;
    }
    HeaderValue::try_from(warnings.join(", ")).ok()
}

/// The beginning of a name. Names of headers are ASCII.
fn shortened(name: &HeaderName) -> &str {
    let name = name.as_str();
    name.get(..MAX_CHARACTERS).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_named_and_what_is_known_is_not() {
        let warning = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_static(value));
            }
            about(&headers, "default").map(|value| value.to_str().unwrap().to_owned())
        };
        let known = [
            ("x-baler-mode", "Force"),
            ("x-baler-policy", "default"),
            ("x-baler-usage", "x"),
            ("x-baler-request-id", "1"),
            ("x-baler-token", "t"),
            ("x-balers", "somebody else's"),
        ];
        assert_eq!(warning(&known), None);
        assert_eq!(
            warning(&[("x-baler-modus", "a")]).unwrap(),
            "unknown header x-baler-modus"
        );
        assert_eq!(
            warning(&[("x_baler_mode", "a")]).unwrap(),
            "unknown header x_baler_mode"
        );
        assert_eq!(warning(&[("x-baler-mode", "of")]).unwrap(), "unknown mode");
        let both = [("x-baler-policy", "none"), ("x-baler-tag", "a")];
        assert_eq!(
            warning(&both).unwrap(),
            "unknown header x-baler-tag, no such selectable policy"
        );
    }
}
