//! The usage that an upstream reports, whatever its wire format.

use crate::core::wire::Dialect;

/// Tokens as reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included. Never zero: an upstream that does not know
    /// reports zero.
    pub prompt_tokens: u64,
    /// Of these, read from the upstream's prompt cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

impl Usage {
    /// The usage in a header that states the prompt's tokens and nothing else.
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
}

/// Whether a prompt can have so many tokens.
pub(in crate::core) fn is_plausible(prompt_tokens: &u64) -> bool {
    (1..=u64::from(u32::MAX)).contains(prompt_tokens)
}

/// Reads usage from the events of a stream as they pass, and merges what several of them report.
#[derive(Debug)]
pub struct UsageReader {
    dialect: Dialect,
    reported: Option<Usage>,
}

impl UsageReader {
    pub(super) fn new(dialect: Dialect) -> Self {
        UsageReader {
            dialect,
            reported: None,
        }
    }

    /// Reads the data of an event.
    pub fn event(&mut self, data: &[u8]) {
        if !self.dialect.may_report_usage(data) {
            return;
        }
        if let Some(usage) = self.dialect.usage(data) {
            self.reported = Some(self.dialect.merge_usage(self.reported, usage));
        }
    }

    /// All that was reported so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_holds_a_number_or_nothing() {
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
    fn the_last_event_with_usage_counts() {
        let mut reader = Dialect::ChatCompletions.usage_reader();
        for event in [
            r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":0}}"#,
            "[DONE]",
        ] {
            reader.event(event.as_bytes());
        }
        let usage = reader.usage().unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (7, 9));
    }
}
