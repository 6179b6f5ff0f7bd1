//! What an upstream says when a request is too long for its model.
//!
//! There is no standard: vendors differ in status, envelope and wording, and the wording changes between versions. The
//! envelope is opened by `envelope`, the wordings are a table in `phrases`; here the two are weighed. A message may
//! quote what the user wrote, so only what stands in a message's place is read, only its beginning, and only if nothing
//! before the wording complains of something else. Rate limits, quotas and bodies of too many bytes are no overflows.
//!
//! Knows nothing of retries, nor of what else is known of a model.

mod envelope;
mod phrases;

use serde::Deserialize;

use envelope::Said;
use phrases::Figures;

/// What an upstream said about a request that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow {
    /// What was too long, as far as the message tells.
    pub kind: Kind,
    /// The limit that the message names, tokens: a plausible one that nothing else in the message contradicts.
    pub window: Option<u64>,
    /// Whether `window` limits the prompt alone, so that the answer needs no room in it. Taking it for the whole window
    /// errs on the safe side.
    pub input_only: bool,
    /// The size of the prompt, by the upstream's own count.
    pub prompt: Option<Prompt>,
    /// The length of the answer that the request asked for, tokens.
    pub output_tokens: Option<u64>,
}

/// What was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The prompt. Also where a message does not tell: a shorter prompt helps in every case but [`Kind::Output`].
    Prompt,
    /// Prompt and `max_tokens` together: a smaller `max_tokens` would do. With a prompt that is not exact it may do.
    Total,
    /// `max_tokens` alone is more than the model answers; a shorter prompt does not help.
    Output,
}

impl Kind {
    /// Every value.
    pub const ALL: [Kind; 3] = [Kind::Prompt, Kind::Total, Kind::Output];

    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Prompt => "prompt",
            Kind::Total => "total",
            Kind::Output => "output",
        }
    }
}

/// The size of a prompt as an upstream counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prompt {
    /// Tokens.
    pub tokens: u64,
    /// Whether the upstream counted all of it and nothing else. If not, the number is a bound or an estimate, and
    /// nothing to calibrate a counter by.
    pub exact: bool,
}

/// The overflow of which a whole answer tells. The body may also be an error under status 200.
#[must_use]
pub fn in_answer(status: u16, body: &[u8]) -> Option<Overflow> {
    if status < 400 {
        return in_event(body);
    }
    // Cerebras says no more than this. Servers that refuse bytes send a page or a sentence along.
    if status == 413 && body.trim_ascii().is_empty() {
        return Some(weigh(&[Kind::Prompt], &Figures::default()));
    }
    judge(status, &envelope::read(body)?)
}

/// The overflow of which the data of a stream's event tells, where the event is an error under status 200.
#[must_use]
pub fn in_event(data: &[u8]) -> Option<Overflow> {
    let said = envelope::read_error(data)?;
    judge(said.status.unwrap_or(200), &said)
}

/// Whether a chat completion, whole or a stream's event, ended because the window was full. It may hold a part of an
/// answer nevertheless.
#[must_use]
pub fn by_finish_reason(json: &[u8]) -> bool {
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
        .any(|reason| {
            [
                "model_context_window_exceeded",
                "context_window_exceeded",
                "context_length_exceeded",
            ]
            .contains(&reason.as_str())
        })
}

fn judge(status: u16, said: &Said) -> Option<Overflow> {
    let statuses = [Some(status), said.status];
    if statuses.contains(&Some(429)) || said.codes.iter().any(|code| phrases::other_code(code)) {
        return None;
    }
    if said.texts.iter().any(|text| phrases::other_error(text)) {
        return None;
    }
    let bad_request = statuses
        .iter()
        .flatten()
        .any(|status| matches!(status, 400 | 413 | 422));
    let mut figures = Figures::default();
    let mut kinds = Vec::new();
    kinds.extend(
        said.codes
            .iter()
            .filter(|code| phrases::overflow_code(code, bad_request))
            .map(|_| Kind::Prompt),
    );
    if let (Some(window), Some(prompt)) = (&said.n_ctx, &said.n_prompt_tokens) {
        kinds.push(Kind::Prompt);
        figures.window(window, false);
        figures.prompt(prompt, true);
    }
    for text in &said.texts {
        phrases::read(text, bad_request, &mut kinds, &mut figures);
    }
    (!kinds.is_empty()).then(|| weigh(&kinds, &figures))
}

/// Figures tell more than words do: the same sentence is sent for a long prompt and for a large `max_tokens`.
fn weigh(kinds: &[Kind], figures: &Figures) -> Overflow {
    let (window, prompt, output_tokens) = (
        figures.agreed_window(),
        figures.whole_prompt(),
        figures.output,
    );
    let said = *[Kind::Total, Kind::Prompt]
        .iter()
        .find(|kind| kinds.contains(kind))
        .unwrap_or(&Kind::Output);
    let kind = match (window, prompt, output_tokens) {
        (Some(window), Some(prompt), _) if prompt.tokens >= window => Kind::Prompt,
        (Some(window), Some(prompt), Some(output))
            if prompt.tokens.saturating_add(output) > window =>
        {
            Kind::Total
        }
        (Some(window), None, Some(output)) if output >= window => Kind::Output,
        _ => said,
    };
    Overflow {
        kind,
        window,
        input_only: window.is_some() && figures.input_only,
        prompt,
        output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::by_finish_reason;

    #[test]
    fn a_full_window_is_told_by_the_finish_reason_of_any_choice() {
        for full in [
            r#"{"choices":[{"index":0,"finish_reason":"model_context_window_exceeded","message":{"content":""}}]}"#,
            r#"{"choices":[{"finish_reason":null},{"finish_reason":"length","native_finish_reason":"model_context_window_exceeded"}]}"#,
        ] {
            assert!(by_finish_reason(full.as_bytes()), "{full}");
        }
        for other in [
            "",
            "[DONE]",
            r#"{"choices":null}"#,
            r#"{"choices":[{"finish_reason":"length","message":{"content":"model_context_window_exceeded"}}]}"#,
            r#"{"choices":[{"finish_reason":7}]}"#,
        ] {
            assert!(!by_finish_reason(other.as_bytes()), "{other}");
        }
    }
}
