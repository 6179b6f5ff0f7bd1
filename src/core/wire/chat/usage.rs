//! The `usage` of an answer.

use memchr::memmem;
use serde::Deserialize;
use serde_json::Number;

use crate::core::wire::{Usage, is_plausible};

#[derive(Deserialize)]
struct Envelope {
    usage: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    prompt_tokens: Option<Number>,
    completion_tokens: Option<Number>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<Number>,
}

/// Whether the data of an event may report usage. Found without parsing: most events are deltas.
pub(in crate::core::wire) fn may_report_usage(data: &[u8]) -> bool {
    memmem::find(data, b"\"prompt_tokens\"").is_some()
}

/// The usage in `json`: a whole answer, or the data of one stream event. Zero, negative and absent
/// mean unknown.
pub(in crate::core::wire) fn usage(json: &[u8]) -> Option<Usage> {
    let usage = serde_json::from_slice::<Envelope>(json).ok()?.usage?;
    let number = |number: Option<Number>| number.and_then(|number| number.as_u64()).unwrap_or(0);
    let prompt_tokens = Some(number(usage.prompt_tokens)).filter(is_plausible)?;
    Some(Usage {
        prompt_tokens,
        cached_tokens: number(
            usage
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens),
        ),
        completion_tokens: number(usage.completion_tokens),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_stays_unknown() {
        for unknown in [
            "",
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":{"prompt_tokens":0}}"#,
            r#"{"usage":{"prompt_tokens":-1}}"#,
            r#"{"usage":{"prompt_tokens":1e99}}"#,
            "[]",
            r#"{"usage":7}"#,
        ] {
            assert_eq!(usage(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn cached_tokens_are_part_of_the_prompt() {
        let json = br#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,
        "prompt_tokens_details":{"cached_tokens":64}}}"#;
        assert_eq!(
            usage(json),
            Some(Usage {
                prompt_tokens: 100,
                cached_tokens: 64,
                completion_tokens: 7
            })
        );
        assert!(may_report_usage(json));
    }
}
