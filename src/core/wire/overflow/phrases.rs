//! The wordings by which upstreams say that a request is too long, in one table, and those that are mistaken for them.
//!
//! To add one: a row in [`PHRASES`] (or in [`FIGURES`], if it only names a number beside another row's words) and a
//! recorded example in `tests/it/fixtures/overflow.jsonl`; a test asks for an example of every row.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::core::wire::overflow::Kind;
use crate::core::wire::overflow::Kind::{Output, Prompt, Total};
use crate::core::wire::overflow::Prompt as PromptSize;
use Scope::{Anywhere, BadRequest};

/// Bytes of a message that are read. What is said stands at the beginning; what is quoted may be long.
const HEAD_BYTES: usize = 2048;
/// Bytes that may stand before the first words that tell of an overflow: prefixes of gateways, other sentences.
const PRELUDE_BYTES: usize = 500;
/// Windows that are believed.
const WINDOWS: RangeInclusive<u64> = 1_000..=20_000_000;

/// Where words are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// In any error: nobody says so of anything else.
    Anywhere,
    /// At the statuses of bad requests only: the words are common ones.
    BadRequest,
}

/// Words that tell of an overflow, by the vendor or server that was first seen to use them. In a pattern,
/// `{window}`, `{input}` (a limit of the prompt alone), `{prompt}`, `{total}` (prompt and answer) and `{output}` stand
/// for numbers, and what a group `loose` matches makes the prompt's number one that is not exact.
const PHRASES: &[(&str, Kind, Scope, &str)] = &[
    (
        "openai",
        Prompt,
        Anywhere,
        r"this model's maximum context length is {window}",
    ),
    (
        "openai",
        Prompt,
        Anywhere,
        r"your input exceeds the context window of this model",
    ),
    (
        "openai",
        Prompt,
        Anywhere,
        r"input tokens exceed the configured limit of {input} tokens",
    ),
    (
        "openai",
        Output,
        Anywhere,
        r"max_(?:completion_)?tokens['`]? is too large:? {output}",
    ),
    (
        "azure",
        Output,
        Anywhere,
        r"this model supports at most {any} (?:completion|output) tokens",
    ),
    (
        "anthropic",
        Prompt,
        Anywhere,
        r"prompt is too long(?:: {prompt} tokens > {window} maximum)?",
    ),
    (
        "anthropic",
        Total,
        Anywhere,
        r"input length and `?max_tokens`? exceed context limit(?:: {prompt} \+ {output} > {window})?",
    ),
    (
        "anthropic",
        Output,
        Anywhere,
        r"max_tokens: {output} > {any}, which is the maximum allowed number of output tokens",
    ),
    (
        "bedrock",
        Prompt,
        Anywhere,
        r"input is too long for requested model",
    ),
    (
        "bedrock",
        Output,
        Anywhere,
        r"the maximum tokens you requested exceeds the model limit",
    ),
    (
        "vllm",
        Prompt,
        Anywhere,
        r"the model's context length is only {window} tokens",
    ),
    (
        "vllm",
        Prompt,
        Anywhere,
        r"prompt \(length {prompt}\) is longer than the maximum model length of {window}",
    ),
    (
        "vllm",
        Prompt,
        Anywhere,
        r"prompt length {prompt} exceeds the max_model_len {window}",
    ),
    (
        "vllm",
        Prompt,
        Anywhere,
        r"input prompt \({prompt} tokens\) is too long and exceeds limit of {window}",
    ),
    (
        "vllm",
        Output,
        Anywhere,
        r"max_tokens={output} cannot be greater than max_model_len=(?:max_total_tokens=)?{window}",
    ),
    (
        "sglang",
        Prompt,
        Anywhere,
        r"requested token count exceeds the model's maximum context length(?: of {window} tokens)?",
    ),
    (
        "sglang",
        Prompt,
        Anywhere,
        r"input length \(?{prompt}(?: tokens)?\)? exceeds the maximum allowed (?:input )?length (?:of )?\(?{input}",
    ),
    (
        "sglang",
        Prompt,
        Anywhere,
        r"input length \({prompt}\) exceeds model's maximum context length \({window}\)",
    ),
    (
        "together",
        Prompt,
        Anywhere,
        r"the input \({prompt} tokens\) is longer than the model's context length \({window} tokens\)",
    ),
    (
        "tgi",
        Total,
        Anywhere,
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {window}(?:\. given: {prompt} `?inputs`? tokens and {output})?",
    ),
    (
        "tgi",
        Prompt,
        Anywhere,
        r"`?inputs`? must have less than {input} tokens(?:\. given: {prompt})?",
    ),
    (
        "llama.cpp",
        Prompt,
        Anywhere,
        r"(?:request \({prompt} tokens\) )?exceeds the available context size(?: \({window} tokens\))?",
    ),
    (
        "llama-cpp-python",
        Prompt,
        Anywhere,
        r"requested tokens \({prompt}\) exceed context window of {window}",
    ),
    // The tokens to keep may be fewer than the prompt's.
    (
        "lm-studio",
        Prompt,
        Anywhere,
        r"(?P<loose>trying to keep the first ){prompt} tokens when (?:context the|the context) overflows",
    ),
    (
        "lm-studio",
        Prompt,
        Anywhere,
        r"model is loaded with context length of only {window} tokens",
    ),
    (
        "lm-studio",
        Prompt,
        Anywhere,
        r"tokens to keep from the initial prompt is greater than the context length",
    ),
    (
        "lm-studio",
        Prompt,
        Anywhere,
        r"context size has been exceeded",
    ),
    // What follows is by how much the prompt is too long, which is neither its size nor the window.
    (
        "ollama",
        Prompt,
        Anywhere,
        r"prompt too long; exceeded (?:max )?context length",
    ),
    (
        "ollama",
        Prompt,
        Anywhere,
        r"prompt is longer than the context length currently available",
    ),
    (
        "mistral",
        Prompt,
        Anywhere,
        r"prompt contains {prompt} tokens[\w ,]{0,60}too large for model with {window} maximum context length",
    ),
    (
        "groq",
        Prompt,
        Anywhere,
        r"please reduce the length of the messages or completion",
    ),
    (
        "openrouter",
        Prompt,
        Anywhere,
        r"this endpoint's maximum context length is {window}",
    ),
    (
        "deepseek",
        Output,
        Anywhere,
        r"invalid max_tokens value, the valid range of max_tokens is \[",
    ),
    (
        "gemini",
        Prompt,
        Anywhere,
        r"input token count (?:\({prompt}\) )?exceeds the maximum number of tokens allowed(?: \(?{input})?",
    ),
    (
        "xai",
        Prompt,
        Anywhere,
        r"maximum prompt length is {input} but the request contains {prompt} tokens",
    ),
    // Their documentation does not tell whether what was requested includes the answer; nor does that of Cerebras.
    (
        "kimi",
        Prompt,
        Anywhere,
        r"exceeded model token limit(?:: {window}(?: \((?P<loose>requested: ){prompt}\))?)?",
    ),
    (
        "cerebras",
        Prompt,
        Anywhere,
        r"(?P<loose>current length is ){prompt} while limit is {window}",
    ),
    (
        "qwen",
        Prompt,
        Anywhere,
        r"range of input length should be \[ ?{any}, ?{input} ?\]",
    ),
    (
        "qwen",
        Output,
        Anywhere,
        r"range of max_tokens should be \[",
    ),
    (
        "z.ai",
        Prompt,
        Anywhere,
        r"prompt exceeds max(?:imum)? length",
    ),
    ("minimax", Prompt, Anywhere, r"context window exceeds limit"),
    (
        "copilot",
        Prompt,
        Anywhere,
        r"prompt token count of {prompt} exceeds the limit of {input}",
    ),
    (
        "ds4",
        Prompt,
        Anywhere,
        r"prompt has {prompt} tokens?, but the configured context size is {window} tokens?",
    ),
    ("litellm", Prompt, Anywhere, r"contextwindowexceedederror"),
    (
        "any",
        Prompt,
        BadRequest,
        r"\bcontext[ _-]?(?:length|window|size|limit)[\w '`()-]{0,40}\b(?:exceed|overflow)",
    ),
    (
        "any",
        Prompt,
        BadRequest,
        r"\b(?:exceed(?:s|ed|ing)?|longer than|larger than|greater than|beyond|too (?:long|large|big) for)\b[\w '`()-]{0,60}\bcontext[ _-]?(?:length|window|size|limit)",
    ),
    (
        "any",
        Prompt,
        BadRequest,
        r"\btoo many (?:input |prompt |total )?tokens\b",
    ),
    (
        "any",
        Prompt,
        BadRequest,
        r"\btoken limit exceeded|\bexceed(?:s|ed)? the (?:maximum )?(?:model )?token limit",
    ),
    (
        "any",
        Prompt,
        BadRequest,
        r"\bexceed(?:s|ed)? the maximum (?:allowed )?(?:number of )?(?:input |prompt )?tokens\b",
    ),
    (
        "any",
        Prompt,
        BadRequest,
        r"\b(?:input|prompt|conversation) (?:is )?too long\b",
    ),
];

/// Words that name a number beside those that tell of an overflow, the more telling ones first.
const FIGURES: &[(&str, &str)] = &[
    ("openai", r"messages resulted in {prompt} tokens"),
    ("openai", r"{prompt} in (?:the messages|your prompt)"),
    ("openai", r"requested (?P<loose>about )?{total} tokens"),
    (
        "openai",
        r"{output} (?:tokens )?(?:in|for) the (?:completion|output)",
    ),
    ("vllm", r"{prompt} tokens in the messages"),
    (
        "vllm",
        r"your (?:request|prompt) (?:has|contains) (?P<loose>at least )?{prompt} input tokens",
    ),
    // It stops counting when it knows that the prompt is too long.
    ("vllm", r"(?P<loose>you passed ){prompt} input tokens"),
    ("vllm", r"requested {output} output tokens"),
    ("sglang", r"{prompt} tokens from the input messages"),
];

/// Errors whose message may sound like an overflow.
const OTHER: &str = concat!(
    r"\brate[ _-]?limit|\btoo many requests|\bthrottl|\btokens?[ -]per[ -](?:sec|min|hour|day)|\b[rt]p[mdh]\b|\bquota\b",
    r"|string_above_max_length|\bstring too long|\b(?:payload|entity|body) (?:is )?too large|\bbytes?\b|\b\d+ ?[kmg]i?b\b",
    r"|\bfiltered due to|\bcontent (?:management )?polic|\bplease wait",
);

/// Codes of errors that are none, whatever their message.
const OTHER_CODES: &str = concat!(
    r"rate[_ -]?limit|throttl|quota|too_many_requests|billing|overloaded|^tokens$|^requests$",
    r"|string_above_max_length|request_too_large|content_filter|content_policy|moderation",
    r"|api_key|authentication|permission|model_not_found|not_found_error|resource_exhausted|invalid_(?:schema|function|json|tool)",
);

/// Codes of overflows. 1261 is z.ai's and too short to be believed at any status.
const CODES: &str = concat!(
    r"^(?:context_(?:length|window)_exceeded|model_context_window_exceeded|exceed_context_size_error",
    r"|model_max_prompt_tokens_exceeded|(?:litellm\.)?contextwindowexceedederror)$",
);

/// Complaints of something else. After one of these, words that tell of an overflow are a quotation.
const COMPLAINTS: &str = concat!(
    r"\b(?:invalid|unsupported|unknown|unexpected|unrecognized|malformed|missing|duplicate)(?: required)?",
    r" ['`]?(?:value|type|schema|function|json|tool|content|role|messages?|field|key|character|token|format|url|image|name)",
    r"|\b(?:unsupported|unknown|unrecognized|missing)(?: required)? (?:parameter|argument)",
    r"|\b(?:should|must) (?:be|have|contain|not|match)\b|\bfailed to (?:parse|decode|validate|convert|load|read|deserialize)",
    r"|\berror parsing\b|\bparse error\b|\bcould not parse\b|\bno such\b|\binput_value\b|\bbut got\b",
    r"|\b(?:is|are|was|were|does|do|did) not (?:an? |of type|support|allow|permit|valid|match|exist|found)",
    r"|\b(?:flagged|blocked|unauthorized|forbidden|denied)\b",
);

static TABLE: LazyLock<Vec<(Kind, Scope, Regex)>> = LazyLock::new(|| {
    PHRASES
        .iter()
        .filter_map(|(_, kind, scope, pattern)| Some((*kind, *scope, compile(pattern)?)))
        .collect()
});
static NUMBERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    FIGURES
        .iter()
        .filter_map(|(_, pattern)| compile(pattern))
        .collect()
});

/// Digits, with whatever separates thousands.
const NUMBER: &str = r"\d+(?:[,._']\d{3})*";

fn compile(pattern: &str) -> Option<Regex> {
    let mut pattern = format!("(?i-u){}", pattern.replace("{any}", NUMBER));
    for name in ["window", "input", "prompt", "total", "output"] {
        pattern = pattern.replace(&format!("{{{name}}}"), &format!("(?P<{name}>{NUMBER})"));
    }
    Regex::new(&pattern).ok()
}

/// Whether a code is that of an overflow.
pub(super) fn overflow_code(code: &str, bad_request: bool) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compile(CODES));
    matches(&PATTERN, code) || (bad_request && code == "1261")
}

/// Whether a code is that of another error, whatever its message says.
pub(super) fn other_code(code: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compile(OTHER_CODES));
    matches(&PATTERN, code)
}

/// Whether a message is about rates, quotas, bytes or content rather than tokens of one request.
pub(super) fn other_error(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compile(OTHER));
    matches(&PATTERN, head(text))
}

/// Whether words complain of something else than a prompt's length, so that what follows may be a quotation.
pub(super) fn complains(words: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| compile(COMPLAINTS));
    matches(&PATTERN, head(words))
}

/// Notes what a message tells of an overflow. Nothing, where it complains of something else first.
pub(super) fn read(text: &str, bad_request: bool, kinds: &mut Vec<Kind>, figures: &mut Figures) {
    let text = head(text);
    let heard = || {
        TABLE
            .iter()
            .filter(|(_, scope, _)| *scope == Anywhere || bad_request)
    };
    let Some(start) = heard()
        .filter_map(|(_, _, pattern)| Some(pattern.find(text)?.start()))
        .min()
    else {
        return;
    };
    let prelude = text.get(..start).unwrap_or_default();
    if prelude.len() > PRELUDE_BYTES || complains(prelude) {
        return;
    }
    for (kind, _, pattern) in heard() {
        for captures in pattern.captures_iter(text) {
            kinds.push(*kind);
            figures.note(&captures);
        }
    }
    for captures in NUMBERS.iter().filter_map(|pattern| pattern.captures(text)) {
        figures.note(&captures);
    }
}

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

fn head(text: &str) -> &str {
    let text = text.trim_start();
    text.get(..text.floor_char_boundary(HEAD_BYTES))
        .unwrap_or(text)
}

/// The numbers that an error names.
#[derive(Debug, Default)]
pub(super) struct Figures {
    window: Option<u64>,
    contradicted: bool,
    pub(super) input_only: bool,
    prompt: Option<PromptSize>,
    total: Option<PromptSize>,
    pub(super) output: Option<u64>,
}

impl Figures {
    fn note(&mut self, captures: &Captures<'_>) {
        let exact = captures.name("loose").is_none();
        let get = |name| captures.name(name).map(|number| number.as_str());
        for (name, input_only) in [("window", false), ("input", true)] {
            if let Some(number) = get(name) {
                self.window(number, input_only);
            }
        }
        if let Some(number) = get("prompt") {
            self.prompt(number, exact);
        }
        let total = get("total")
            .and_then(count)
            .map(|tokens| PromptSize { tokens, exact });
        self.total = self.total.or(total);
        self.output = self.output.or(get("output").and_then(count));
    }

    /// Notes a window. Two that differ are worth nothing.
    pub(super) fn window(&mut self, number: &str, input_only: bool) {
        let Some(window) = count(number).filter(|window| WINDOWS.contains(window)) else {
            return;
        };
        self.contradicted |= self.window.is_some_and(|known| known != window);
        self.window = Some(window);
        self.input_only |= input_only;
    }

    /// Notes the prompt's size; the first one counts.
    pub(super) fn prompt(&mut self, number: &str, exact: bool) {
        self.prompt = self
            .prompt
            .or(count(number).map(|tokens| PromptSize { tokens, exact }));
    }

    /// The window, if all that was said of it agrees.
    pub(super) fn agreed_window(&self) -> Option<u64> {
        self.window.filter(|_| !self.contradicted)
    }

    /// The prompt with all that belongs to it. A total less the answer includes the tools, which some list apart.
    pub(super) fn whole_prompt(&self) -> Option<PromptSize> {
        let rest = |total: PromptSize| {
            Some(PromptSize {
                tokens: total.tokens.checked_sub(self.output?)?,
                ..total
            })
        };
        self.total
            .and_then(rest)
            .filter(|prompt| prompt.tokens > 0)
            .or(self.prompt)
    }
}

/// The number that a text spells. `None` for what no count of tokens can be.
fn count(number: &str) -> Option<u64> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    digits
        .parse()
        .ok()
        .filter(|count| (1..=u64::from(u32::MAX)).contains(count))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::envelope;
    use super::FIGURES;
    use super::NUMBERS;
    use super::OTHER_CODES;
    use super::PHRASES;
    use super::TABLE;
    use super::compile;
    use super::head;

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
    fn every_pattern_compiles() {
        assert_eq!((TABLE.len(), NUMBERS.len()), (PHRASES.len(), FIGURES.len()));
        for pattern in [super::OTHER, OTHER_CODES, super::CODES, super::COMPLAINTS] {
            assert!(compile(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn every_pattern_has_a_recorded_example_of_its_vendor() {
        let recorded = recorded();
        let patterns = PHRASES
            .iter()
            .map(|(vendor, _, _, pattern)| (vendor, pattern))
            .chain(FIGURES.iter().map(|(vendor, pattern)| (vendor, pattern)));
        for (vendor, pattern) in patterns {
            let regex = compile(pattern).unwrap();
            let shown = recorded.iter().any(|(of, texts)| {
                of == vendor && texts.iter().any(|text| regex.is_match(head(text)))
            });
            assert!(shown, "{vendor}: {pattern}");
        }
    }
}
