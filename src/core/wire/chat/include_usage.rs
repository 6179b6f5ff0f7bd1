//! The edit that makes a streaming request ask for usage when its client did not.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::present;
use crate::core::json::span_in;

/// New bytes for a place in a body: an edit that copies nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insertion {
    /// The client's bytes that are replaced; often none.
    pub range: Range<usize>,
    /// The new bytes.
    pub text: &'static str,
}

#[derive(Deserialize)]
struct TopLevel<'a> {
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    stream_options: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StreamOptions<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    include_usage: Option<&'a RawValue>,
}

/// The edit that makes `body` ask for usage. `None` for a request that does not stream, asks
/// already, or is not as the API describes it: that is between client and upstream.
#[must_use]
pub fn include_usage_edit(body: &[u8]) -> Option<Insertion> {
    memchr::memmem::find(body, b"\"stream\"")?;
    let body = std::str::from_utf8(body).ok()?;
    let top = object::<TopLevel<'_>>(body)?;
    top.stream.filter(|stream| stream.get() == "true")?;
    let Some(options) = top.stream_options else {
        let end = body.trim_end().len().checked_sub(1)?;
        return Some(Insertion {
            range: end..end,
            text: r#","stream_options":{"include_usage":true}"#,
        });
    };
    let span = span_in(body, options.get());
    if options.get() == "null" {
        return Some(Insertion {
            range: span,
            text: r#"{"include_usage":true}"#,
        });
    }
    match object::<StreamOptions<'_>>(options.get())?.include_usage {
        Some(asked) if matches!(asked.get(), "false" | "null") => Some(Insertion {
            range: span_in(body, asked.get()),
            text: "true",
        }),
        Some(_) => None,
        None => {
            let at = span.start + 1;
            let is_empty = body.get(at..)?.trim_start().starts_with('}');
            Some(Insertion {
                range: at..at,
                text: if is_empty {
                    r#""include_usage":true"#
                } else {
                    r#""include_usage":true,"#
                },
            })
        }
    }
}

/// Reads an object. A list is refused: serde would read it as a struct.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    json.trim_start()
        .starts_with('{')
        .then(|| serde_json::from_str(json).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> Option<String> {
        let Insertion { range, text } = include_usage_edit(body.as_bytes())?;
        Some(format!(
            "{}{text}{}",
            &body[..range.start],
            &body[range.end..]
        ))
    }

    #[test]
    fn the_missing_part_is_added() {
        for (body, expected) in [
            (
                r#"{"stream":true}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                "{\"stream\": true, \"x\": 1e2 }\n",
                "{\"stream\": true, \"x\": 1e2 ,\"stream_options\":{\"include_usage\":true}}\n",
            ),
            (
                r#"{"stream_options":null,"stream":true}"#,
                r#"{"stream_options":{"include_usage":true},"stream":true}"#,
            ),
            (
                r#"{"stream":true,"stream_options":{ }}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true }}"#,
            ),
            (
                r#"{"stream":true,"stream_options":{"y":[{}]},"é":"}"}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true,"y":[{}]},"é":"}"}"#,
            ),
            (
                r#"{"stream":true,"stream_options":{"include_usage":false}}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                r#"{"stream":true,"stream_options":{"y":1,"include_usage": null }}"#,
                r#"{"stream":true,"stream_options":{"y":1,"include_usage": true }}"#,
            ),
        ] {
            assert_eq!(asked(body).as_deref(), Some(expected), "{body}");
            assert_eq!(asked(expected), None, "{expected}: once is enough");
        }
    }

    #[test]
    fn other_requests_stay_as_they_are() {
        for body in [
            "",
            "{}",
            r#"{"stream":false}"#,
            r#"{"stream":"true"}"#,
            r#"{"stream":null,"x":true}"#,
            r#"{"x":{"stream":true}}"#,
            r#"{"stream":true,"stream":true}"#,
            r#"{"stream":true,"stream_options":7}"#,
            r#"{"stream":true,"stream_options":[false]}"#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":"yes"}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":false,"include_usage":false}}"#,
            r#"{"stream":true,"stream_options":{},"stream_options":{}}"#,
            r#"{"stream":true"#,
            r#"[true,{"stream":true}]"#,
            "[\"stream\", null]",
        ] {
            assert_eq!(asked(body), None, "{body}");
        }
    }
}
