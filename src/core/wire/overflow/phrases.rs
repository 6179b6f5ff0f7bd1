//! The wordings by which upstreams report that a request is too long, in one table, and those that
//! are mistaken for them.
//!
//! To add one: a row in [`PHRASES`] (or in [`FIGURES`], if it only names a number next to another
//! row's words) and a recorded example in `tests/it/fixtures/overflow.jsonl`; a test asks for an
//! example of every row.

use crate::core::text::Pattern;
use crate::core::wire::overflow::kind::Kind;
use crate::core::wire::overflow::kind::Kind::{Output, Prompt, Total};
use Scope::{Anywhere, BadRequest};

/// Where a wording is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// In any error: the wording has no other meaning.
    Anywhere,
    /// At the statuses of bad requests only: the words are common ones.
    BadRequest,
}

/// A wording that reports an overflow.
pub(super) struct Phrase {
    /// The vendor or server that was first seen to use it.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the row for readers and tests")
    )]
    vendor: &'static str,
    pub(super) kind: Kind,
    pub(super) scope: Scope,
    pub(super) pattern: Pattern,
}

const fn phrase(vendor: &'static str, kind: Kind, scope: Scope, source: &'static str) -> Phrase {
    Phrase {
        vendor,
        kind,
        scope,
        pattern: Pattern::expanded(source, with_numbers),
    }
}

/// A wording that names a number.
pub(super) struct Figure {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "names the row for readers and tests")
    )]
    vendor: &'static str,
    pub(super) pattern: Pattern,
}

const fn figure(vendor: &'static str, source: &'static str) -> Figure {
    Figure {
        vendor,
        pattern: Pattern::expanded(source, with_numbers),
    }
}

/// Digits, with any separators of thousands.
const NUMBER: &str = r"\d+(?:[,._']\d{3})*";

/// The expression of a row: matches any case, and names stand for numbers.
fn with_numbers(source: &str) -> String {
    let mut pattern = format!("(?i-u){}", source.replace("{any}", NUMBER));
    for name in ["window", "input", "prompt", "total", "output"] {
        pattern = pattern.replace(&format!("{{{name}}}"), &format!("(?P<{name}>{NUMBER})"));
    }
    pattern
}

/// Every pattern of this folder.
pub(in crate::core) fn patterns() -> impl Iterator<Item = &'static Pattern> {
    PHRASES
        .iter()
        .map(|phrase| &phrase.pattern)
        .chain(FIGURES.iter().map(|figure| &figure.pattern))
        .chain([&OTHER, &OTHER_CODES, &CODES, &COMPLAINTS])
}

/// Wordings that report an overflow. In a pattern, `{window}`, `{input}` (a limit of the prompt
/// alone), `{prompt}`, `{total}` (prompt and answer) and `{output}` stand for numbers, and a match
/// of a group `loose` makes the prompt's number an inexact one.
pub(super) static PHRASES: [Phrase; 50] = [
    phrase(
        "openai",
        Prompt,
        Anywhere,
        r"this model's maximum context length is {window}",
    ),
    phrase(
        "openai",
        Prompt,
        Anywhere,
        r"your input exceeds the context window of this model",
    ),
    phrase(
        "openai",
        Prompt,
        Anywhere,
        r"input tokens exceed the configured limit of {input} tokens",
    ),
    phrase(
        "openai",
        Output,
        Anywhere,
        r"max_(?:completion_)?tokens['`]? is too large:? {output}",
    ),
    phrase(
        "azure",
        Output,
        Anywhere,
        r"this model supports at most {any} (?:completion|output) tokens",
    ),
    phrase(
        "anthropic",
        Prompt,
        Anywhere,
        r"prompt is too long(?:: {prompt} tokens > {window} maximum)?",
    ),
    phrase(
        "anthropic",
        Total,
        Anywhere,
        concat!(
            r"input length and `?max_tokens`? exceed context limit(?:: {prompt} \+ ",
            r"{output} > {window})?"
        ),
    ),
    phrase(
        "anthropic",
        Output,
        Anywhere,
        r"max_tokens: {output} > {any}, which is the maximum allowed number of output tokens",
    ),
    phrase(
        "bedrock",
        Prompt,
        Anywhere,
        r"input is too long for requested model",
    ),
    phrase(
        "bedrock",
        Output,
        Anywhere,
        r"the maximum tokens you requested exceeds the model limit",
    ),
    phrase(
        "vllm",
        Prompt,
        Anywhere,
        r"the model's context length is only {window} tokens",
    ),
    phrase(
        "vllm",
        Prompt,
        Anywhere,
        r"prompt \(length {prompt}\) is longer than the maximum model length of {window}",
    ),
    phrase(
        "vllm",
        Prompt,
        Anywhere,
        r"prompt length {prompt} exceeds the max_model_len {window}",
    ),
    phrase(
        "vllm",
        Prompt,
        Anywhere,
        r"input prompt \({prompt} tokens\) is too long and exceeds limit of {window}",
    ),
    phrase(
        "vllm",
        Output,
        Anywhere,
        r"max_tokens={output} cannot be greater than max_model_len=(?:max_total_tokens=)?{window}",
    ),
    phrase(
        "sglang",
        Prompt,
        Anywhere,
        r"requested token count exceeds the model's maximum context length(?: of {window} tokens)?",
    ),
    phrase(
        "sglang",
        Prompt,
        Anywhere,
        concat!(
            r"input length \(?{prompt}(?: tokens)?\)? exceeds the maximum allowed ",
            r"(?:input )?length (?:of )?\(?{input}"
        ),
    ),
    phrase(
        "sglang",
        Prompt,
        Anywhere,
        r"input length \({prompt}\) exceeds model's maximum context length \({window}\)",
    ),
    phrase(
        "together",
        Prompt,
        Anywhere,
        concat!(
            r"the input \({prompt} tokens\) is longer than the model's context length ",
            r"\({window} tokens\)"
        ),
    ),
    phrase(
        "tgi",
        Total,
        Anywhere,
        concat!(
            r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {window}(?:\. given: ",
            r"{prompt} `?inputs`? tokens and {output})?"
        ),
    ),
    phrase(
        "tgi",
        Prompt,
        Anywhere,
        r"`?inputs`? must have less than {input} tokens(?:\. given: {prompt})?",
    ),
    phrase(
        "llama.cpp",
        Prompt,
        Anywhere,
        concat!(
            r"(?:request \({prompt} tokens\) )?exceeds the available context size(?: ",
            r"\({window} tokens\))?"
        ),
    ),
    phrase(
        "llama-cpp-python",
        Prompt,
        Anywhere,
        r"requested tokens \({prompt}\) exceed context window of {window}",
    ),
    // The tokens to keep may be fewer than the prompt's.
    phrase(
        "lm-studio",
        Prompt,
        Anywhere,
        concat!(
            r"(?P<loose>trying to keep the first ){prompt} tokens when (?:context ",
            r"the|the context) overflows"
        ),
    ),
    phrase(
        "lm-studio",
        Prompt,
        Anywhere,
        r"model is loaded with context length of only {window} tokens",
    ),
    phrase(
        "lm-studio",
        Prompt,
        Anywhere,
        r"tokens to keep from the initial prompt is greater than the context length",
    ),
    phrase(
        "lm-studio",
        Prompt,
        Anywhere,
        r"context size has been exceeded",
    ),
    // What follows is by how much the prompt is too long, which is neither its size nor the window.
    phrase(
        "ollama",
        Prompt,
        Anywhere,
        r"prompt too long; exceeded (?:max )?context length",
    ),
    phrase(
        "ollama",
        Prompt,
        Anywhere,
        r"prompt is longer than the context length currently available",
    ),
    phrase(
        "mistral",
        Prompt,
        Anywhere,
        concat!(
            r"prompt contains {prompt} tokens[\w ,]{0,60}too large for model with ",
            r"{window} maximum context length"
        ),
    ),
    phrase(
        "groq",
        Prompt,
        Anywhere,
        r"please reduce the length of the messages or completion",
    ),
    phrase(
        "openrouter",
        Prompt,
        Anywhere,
        r"this endpoint's maximum context length is {window}",
    ),
    phrase(
        "deepseek",
        Output,
        Anywhere,
        r"invalid max_tokens value, the valid range of max_tokens is \[",
    ),
    phrase(
        "gemini",
        Prompt,
        Anywhere,
        concat!(
            r"input token count (?:\({prompt}\) )?exceeds the maximum number of ",
            r"tokens allowed(?: \(?{input})?"
        ),
    ),
    phrase(
        "xai",
        Prompt,
        Anywhere,
        r"maximum prompt length is {input} but the request contains {prompt} tokens",
    ),
    // Their documentation does not tell whether what was requested includes the answer; nor does
    // that of Cerebras.
    phrase(
        "kimi",
        Prompt,
        Anywhere,
        r"exceeded model token limit(?:: {window}(?: \((?P<loose>requested: ){prompt}\))?)?",
    ),
    phrase(
        "cerebras",
        Prompt,
        Anywhere,
        r"(?P<loose>current length is ){prompt} while limit is {window}",
    ),
    phrase(
        "qwen",
        Prompt,
        Anywhere,
        r"range of input length should be \[ ?{any}, ?{input} ?\]",
    ),
    phrase(
        "qwen",
        Output,
        Anywhere,
        r"range of max_tokens should be \[",
    ),
    phrase(
        "z.ai",
        Prompt,
        Anywhere,
        r"prompt exceeds max(?:imum)? length",
    ),
    phrase("minimax", Prompt, Anywhere, r"context window exceeds limit"),
    phrase(
        "copilot",
        Prompt,
        Anywhere,
        r"prompt token count of {prompt} exceeds the limit of {input}",
    ),
    phrase(
        "ds4",
        Prompt,
        Anywhere,
        r"prompt has {prompt} tokens?, but the configured context size is {window} tokens?",
    ),
    phrase("litellm", Prompt, Anywhere, r"contextwindowexceedederror"),
    phrase(
        "any",
        Prompt,
        BadRequest,
        r"\bcontext[ _-]?(?:length|window|size|limit)[\w '`()-]{0,40}\b(?:exceed|overflow)",
    ),
    phrase(
        "any",
        Prompt,
        BadRequest,
        concat!(
            r"\b(?:exceed(?:s|ed|ing)?|longer than|larger than|greater ",
            r"than|beyond|too (?:long|large|big) for)\b[\w '`()-]{0,60}\bcontext[ ",
            r"_-]?(?:length|window|size|limit)"
        ),
    ),
    phrase(
        "any",
        Prompt,
        BadRequest,
        r"\btoo many (?:input |prompt |total )?tokens\b",
    ),
    phrase(
        "any",
        Prompt,
        BadRequest,
        r"\btoken limit exceeded|\bexceed(?:s|ed)? the (?:maximum )?(?:model )?token limit",
    ),
    phrase(
        "any",
        Prompt,
        BadRequest,
        r"\bexceed(?:s|ed)? the maximum (?:allowed )?(?:number of )?(?:input |prompt )?tokens\b",
    ),
    phrase(
        "any",
        Prompt,
        BadRequest,
        r"\b(?:input|prompt|conversation) (?:is )?too long\b",
    ),
];

/// Wordings that name a number next to those that report an overflow, the more specific ones first.
pub(super) static FIGURES: [Figure; 9] = [
    figure("openai", r"messages resulted in {prompt} tokens"),
    figure("openai", r"{prompt} in (?:the messages|your prompt)"),
    figure("openai", r"requested (?P<loose>about )?{total} tokens"),
    figure(
        "openai",
        r"{output} (?:tokens )?(?:in|for) the (?:completion|output)",
    ),
    figure("vllm", r"{prompt} tokens in the messages"),
    figure(
        "vllm",
        r"your (?:request|prompt) (?:has|contains) (?P<loose>at least )?{prompt} input tokens",
    ),
    // It stops counting when it knows that the prompt is too long.
    figure("vllm", r"(?P<loose>you passed ){prompt} input tokens"),
    figure("vllm", r"requested {output} output tokens"),
    figure("sglang", r"{prompt} tokens from the input messages"),
];

/// Messages of other errors that may sound like an overflow.
pub(super) static OTHER: Pattern = Pattern::expanded(
    concat!(
        concat!(
            r"\brate[ _-]?limit|\btoo many requests|\bthrottl|\btokens?[ -]per[ ",
            r"-](?:sec|min|hour|day)|\b[rt]p[mdh]\b|\bquota\b"
        ),
        concat!(
            r"|string_above_max_length|\bstring too long|\b(?:payload|entity|body) ",
            r"(?:is )?too large|\bbytes?\b|\b\d+ ?[kmg]i?b\b"
        ),
        r"|\bfiltered due to|\bcontent (?:management )?polic|\bplease wait",
    ),
    with_numbers,
);

/// Codes of other errors, whatever their message.
pub(super) static OTHER_CODES: Pattern = Pattern::expanded(
    concat!(
        r"rate[_ -]?limit|throttl|quota|too_many_requests|billing|overloaded|^tokens$|^requests$",
        r"|string_above_max_length|request_too_large|content_filter|content_policy|moderation",
        concat!(
            r"|api_key|authentication|permission|model_not_found|not_found_error|",
            r"resource_exhausted|invalid_(?:schema|function|json|tool)"
        ),
    ),
    with_numbers,
);

/// Codes of overflows. 1261 is z.ai's and too short to be believed at any status.
pub(super) static CODES: Pattern = Pattern::expanded(
    concat!(
        concat!(
            r"^(?:context_(?:length|window)_exceeded|model_context_window_exceeded|",
            r"exceed_context_size_error"
        ),
        r"|model_max_prompt_tokens_exceeded|(?:litellm\.)?contextwindowexceedederror)$",
    ),
    with_numbers,
);

/// Complaints about something else. After one of these, a wording that reports an overflow is a
/// quotation.
pub(super) static COMPLAINTS: Pattern = Pattern::expanded(
    concat!(
        concat!(
            r"\b(?:invalid|unsupported|unknown|unexpected|unrecognized|malformed|",
            r"missing|duplicate)(?: required)?"
        ),
        concat!(
            r" ['`]?(?:value|type|schema|function|json|tool|content|role|messages?|",
            r"field|key|character|token|format|url|image|name)"
        ),
        r"|\b(?:unsupported|unknown|unrecognized|missing)(?: required)? (?:parameter|argument)",
        concat!(
            r"|\b(?:should|must) (?:be|have|contain|not|match)\b|\bfailed to ",
            r"(?:parse|decode|validate|convert|load|read|deserialize)"
        ),
        concat!(
            r"|\berror parsing\b|\bparse error\b|\bcould not parse\b|\bno ",
            r"such\b|\binput_value\b|\bbut got\b"
        ),
        concat!(
            r"|\b(?:is|are|was|were|does|do|did) not (?:an? |of ",
            r"type|support|allow|permit|valid|match|exist|found)"
        ),
        r"|\b(?:flagged|blocked|unauthorized|forbidden|denied)\b",
    ),
    with_numbers,
);

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::envelope;
    use super::super::wording::head;
    use super::{FIGURES, PHRASES};

    /// Messages and vendors of the recorded overflows.
    fn recorded() -> Vec<(String, Vec<String>)> {
        let rows = include_str!("../../../../tests/it/fixtures/overflow.jsonl")
            .lines()
            .map(|row| serde_json::from_str::<Value>(row).unwrap());
        rows.filter(|row| !row["overflow"].is_null())
            .map(|row| {
                let body = row["body"]
                    .as_str()
                    .map_or_else(|| row["body"].to_string(), str::to_owned);
                let texts = envelope::read(body.as_bytes()).unwrap_or_default().texts;
                (row["vendor"].as_str().unwrap().to_owned(), texts)
            })
            .collect()
    }

    #[test]
    fn every_pattern_has_a_recorded_example_of_its_vendor() {
        let recorded = recorded();
        let patterns = PHRASES
            .iter()
            .map(|phrase| (phrase.vendor, &phrase.pattern))
            .chain(
                FIGURES
                    .iter()
                    .map(|figure| (figure.vendor, &figure.pattern)),
            );
        for (vendor, pattern) in patterns {
            let shown = recorded.iter().any(|(of, texts)| {
                of == vendor && texts.iter().any(|text| pattern.is_match(head(text)))
            });
            assert!(shown, "{vendor}: {}", pattern.source());
        }
    }
}
