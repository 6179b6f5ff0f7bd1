//! The `usage` that an upstream reports.

use serde::Deserialize;
use serde_json::Number;

/// Prompt tokens as reported; zero, negative and absent mean unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: u64,
    /// Of these, read from the upstream's prompt cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

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

impl Usage {
    /// The usage in a header that tells the prompt's tokens and nothing else.
    #[must_use]
    pub fn of_header(value: &[u8]) -> Option<Self> {
        let prompt_tokens = std::str::from_utf8(value)
            .ok()?
            .trim()
            .parse()
            .ok()
            .filter(is_plausible)?;
        Some(Usage {
            prompt_tokens,
            cached_tokens: 0,
            completion_tokens: 0,
        })
    }

    /// The usage in `json`: a whole answer, or the data of one stream event.
    #[must_use]
    pub fn find(json: &[u8]) -> Option<Self> {
        let usage = serde_json::from_slice::<Envelope>(json).ok()?.usage?;
        let number =
            |number: Option<Number>| number.and_then(|number| number.as_u64()).unwrap_or(0);
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
}

/// Whether a prompt can have so many tokens.
pub(in crate::core) fn is_plausible(prompt_tokens: &u64) -> bool {
    (1..=u64::from(u32::MAX)).contains(prompt_tokens)
}

#[cfg(test)]
mod tests {
    use super::Usage;

    #[test]
    fn a_header_tells_a_number_or_nothing() {
        for unknown in [
            "",
            "0",
            "-1",
            "+",
            "1.5",
            "1e3",
            "many",
            "12 13",
            "99999999999999999999",
            "4294967296",
        ] {
            assert_eq!(Usage::of_header(unknown.as_bytes()), None, "{unknown}");
        }
        assert_eq!(Usage::of_header(b"\xff"), None);
        assert_eq!(
            Usage::of_header(b" 1234 ").map(|usage| usage.prompt_tokens),
            Some(1234)
        );
    }

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
            assert_eq!(Usage::find(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn cached_tokens_are_part_of_the_prompt() {
        let json = br#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":64}}}"#;
        assert_eq!(
            Usage::find(json),
            Some(Usage {
                prompt_tokens: 100,
                cached_tokens: 64,
                completion_tokens: 7
            })
        );
    }
}
