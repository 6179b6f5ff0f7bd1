//! Opens the envelopes in which upstreams, and gateways in front of them, send errors.
//!
//! INVARIANT: takes messages and codes from their own places only. Other places (`input`,
//! `flagged_input`, `param` ...) may quote what the user wrote.

use crate::core::json::Json;
use crate::core::wire::overflow::wording;

/// Objects, lists and JSON in strings that are opened within one another.
const DEPTH: u8 = 8;
/// Messages that are read; a gateway that tried several upstreams lists the message of each.
const TEXTS: usize = 16;

/// An error, taken out of its envelope.
#[derive(Debug, Default)]
pub(super) struct ErrorReport {
    /// Messages.
    pub(super) texts: Vec<String>,
    /// Values of `code`, `type` and the like.
    pub(super) codes: Vec<String>,
    /// An HTTP status inside the envelope.
    pub(super) status: Option<u16>,
    /// The window, in a field of its own (llama.cpp).
    pub(super) n_ctx: Option<String>,
    /// The prompt's size, in a field of its own (llama.cpp).
    pub(super) n_prompt_tokens: Option<String>,
}

/// Reads an answer that is known to be an error. `None` for one that cannot be understood, such as
/// a gateway's HTML.
pub(super) fn read(body: &[u8]) -> Option<ErrorReport> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}');
    let mut report = ErrorReport::default();
    match text.trim_start().chars().next()? {
        '{' | '[' => report.walk(&Json::parse(text)?, DEPTH),
        '"' => report.text(&serde_json::from_str::<String>(text).ok()?, DEPTH),
        '<' => return None,
        _ => report.text(text, DEPTH),
    }
    Some(report)
}

/// Reads JSON that may be an error. `None` when nothing marks it as one.
pub(super) fn read_error(body: &[u8]) -> Option<ErrorReport> {
    let json = Json::parse(std::str::from_utf8(body).ok()?)?;
    let first = match &json {
        Json::List(items) => items.first()?,
        json => json,
    };
    let is = |key: &str, word: &str| {
        let value = first.get(key);
        matches!(value, Some(Json::String(value)) if value == word)
    };
    let holds_error = match first.get("error") {
        Some(Json::Object(_)) => true,
        Some(Json::String(text)) => !text.is_empty(),
        _ => false,
    };
    // MiniMax sends this on good answers too, with a zero.
    let code = first
        .get("base_resp")
        .and_then(|response| response.get("status_code"));
    let failed = matches!(code, Some(Json::Number(code)) if code.as_ref() != "0");
    if !(holds_error || failed || is("object", "error") || is("type", "error")) {
        return None;
    }
    let mut report = ErrorReport::default();
    report.walk(&json, DEPTH);
    Some(report)
}

impl ErrorReport {
    fn walk(&mut self, json: &Json, depth: u8) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        match json {
            Json::Object(members) => {
                for (key, value) in members {
                    match key.to_ascii_lowercase().as_str() {
                        "error" | "errors" | "message" | "msg" | "detail" | "error_message"
                        | "errormessage" | "error_msg" | "metadata" | "raw" | "base_resp"
                        | "status_msg" => self.walk(value, depth),
                        "code" | "type" | "status" | "error_type" | "error_code"
                        | "status_code" | "http_code" | "__type" => self.code(value),
                        "n_ctx" => self.n_ctx = number(value).or(self.n_ctx.take()),
                        "n_prompt_tokens" => {
                            self.n_prompt_tokens = number(value).or(self.n_prompt_tokens.take())
                        }
                        _ => {}
                    }
                }
            }
            Json::List(items) => items
                .iter()
                .take(TEXTS)
                .for_each(|item| self.walk(item, depth)),
            Json::String(text) => self.text(text, depth),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// A message, which may be another envelope, or contain some between words. JSON is never taken
    /// for words: it may be the request.
    fn text(&mut self, text: &str, depth: u8) {
        let mut rest = text;
        while let Some((words, json)) = rest.find('{').and_then(|at| rest.split_at_checked(at))
            && !wording::complains(words)
        {
            let mut values = serde_json::Deserializer::from_str(json).into_iter::<Json>();
            let Some(Ok(inner)) = values.next() else {
                break;
            };
            self.words(words);
            self.walk(&inner, depth);
            rest = json.get(values.byte_offset()..).unwrap_or_default();
        }
        self.words(rest);
    }

    fn words(&mut self, words: &str) {
        if self.texts.len() < TEXTS && !words.trim().is_empty() {
            self.texts.push(words.to_owned());
        }
    }

    fn code(&mut self, value: &Json) {
        let code = match value {
            Json::String(code) => code.as_str(),
            Json::Number(code) => code,
            _ => return,
        };
        match code.parse() {
            Ok(status) if (400..=599).contains(&status) => self.status = Some(status),
            _ if self.codes.len() < TEXTS => self.codes.push(code.to_owned()),
            _ => {}
        }
    }
}

fn number(value: &Json) -> Option<String> {
    match value {
        Json::Number(spelling) => Some(spelling.as_ref().to_owned()),
        _ => None,
    }
}
