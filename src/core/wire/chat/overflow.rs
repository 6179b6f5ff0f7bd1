//! The overflow that an answer reports: as an error, in the envelopes that `wire::overflow` knows,
//! or as a finish reason.

use memchr::memmem;
use serde::Deserialize;

use crate::core::wire::overflow;
use crate::core::wire::overflow::Overflow;

/// Finish reasons of a window that is full.
const FULL_WINDOW: [&str; 3] = [
    "model_context_window_exceeded",
    "context_window_exceeded",
    "context_length_exceeded",
];

/// The overflow that a whole answer reports. Most good answers do not contain the words and are not
/// parsed.
pub(in crate::core::wire) fn overflow(status: u16, body: &[u8]) -> Option<Overflow> {
    if (200..300).contains(&status) && !may_be_error(body) {
        return by_finish_reason(body);
    }
    overflow::in_answer(status, body).or_else(|| by_finish_reason(body))
}

/// The overflow that the data of a stream's event reports.
pub(in crate::core::wire) fn overflow_event(data: &[u8]) -> Option<Overflow> {
    if may_be_error(data) {
        overflow::in_event(data)
    } else {
        by_finish_reason(data)
    }
}

fn may_be_error(json: &[u8]) -> bool {
    memmem::find(json, b"error").is_some()
}

fn by_finish_reason(json: &[u8]) -> Option<Overflow> {
    memmem::find(json, b"exceed")
        .filter(|_| ended_at_the_window(json))
        .map(|_| Overflow::unspecified())
}

/// Whether a completion, whole or a stream's event, ended because the window was full. It may hold
/// a part of an answer nevertheless.
fn ended_at_the_window(json: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        choices: Option<Vec<Choice>>,
    }
    #[derive(Deserialize)]
    struct Choice {
        finish_reason: Option<String>,
        native_finish_reason: Option<String>,
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(json) else {
        return false;
    };
    answer
        .choices
        .unwrap_or_default()
        .iter()
        .flat_map(|choice| [&choice.finish_reason, &choice.native_finish_reason])
        .flatten()
        .any(|reason| FULL_WINDOW.contains(&reason.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finish_reason_of_any_choice_reports_a_full_window() {
        for full in [
            concat!(
                r#"{"choices":[{"index":0,"#,
                r#""finish_reason":"model_context_window_exceeded","#,
                r#""message":{"content":""}}]}"#
            ),
            concat!(
                r#"{"choices":[{"finish_reason":null},{"finish_reason":"length","#,
                r#""native_finish_reason":"model_context_window_exceeded"}]}"#
            ),
        ] {
            assert!(overflow(200, full.as_bytes()).is_some(), "{full}");
            assert!(overflow_event(full.as_bytes()).is_some(), "{full}");
        }
        for other in [
            "",
            "[DONE]",
            r#"{"choices":null}"#,
            concat!(
                r#"{"choices":[{"finish_reason":"length","#,
                r#""message":{"content":"model_context_window_exceeded"}}]}"#
            ),
            r#"{"choices":[{"finish_reason":7}]}"#,
        ] {
            assert_eq!(overflow(200, other.as_bytes()), None, "{other}");
            assert_eq!(overflow_event(other.as_bytes()), None, "{other}");
        }
    }
}
