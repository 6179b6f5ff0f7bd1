//! What one message or code of an error reports, by the tables of `phrases`.
//!
//! A message may quote the request, so only its beginning is read, and only if nothing before the
//! wording complains of something else.

use crate::core::wire::overflow::figures::Figures;
use crate::core::wire::overflow::kind::Kind;
use crate::core::wire::overflow::phrases::{
    CODES, COMPLAINTS, FIGURES, OTHER, OTHER_CODES, PHRASES, Phrase, Scope,
};

/// Bytes of a message that are read. The error stands at the beginning; a quotation may be long.
const HEAD_BYTES: usize = 2048;
/// Bytes that may stand before the first wording that reports an overflow: prefixes of gateways,
/// other sentences.
const PRELUDE_BYTES: usize = 500;

/// Whether a code is that of an overflow. 1261 is z.ai's, and too short to be believed at any
/// status.
pub(super) fn overflow_code(code: &str, bad_request: bool) -> bool {
    CODES.is_match(code) || (bad_request && code == "1261")
}

/// Whether a code is that of another error, whatever its message.
pub(super) fn other_code(code: &str) -> bool {
    OTHER_CODES.is_match(code)
}

/// Whether a message is about rates, quotas, bytes or content rather than tokens of one request.
pub(super) fn other_error(text: &str) -> bool {
    OTHER.is_match(head(text))
}

/// Whether words complain of something else than a prompt's length, so that a quotation may follow.
pub(super) fn complains(words: &str) -> bool {
    COMPLAINTS.is_match(head(words))
}

/// Notes what a message reports of an overflow. Nothing, where it complains of something else
/// first.
pub(super) fn read(text: &str, bad_request: bool, kinds: &mut Vec<Kind>, figures: &mut Figures) {
    let text = head(text);
    let believed = |phrase: &&Phrase| phrase.scope == Scope::Anywhere || bad_request;
    let Some(start) = PHRASES
        .iter()
        .filter(believed)
        .filter_map(|phrase| Some(phrase.pattern.regex().find(text)?.start()))
        .min()
    else {
        return;
    };
    let prelude = text.get(..start).unwrap_or_default();
    if prelude.len() > PRELUDE_BYTES || complains(prelude) {
        return;
    }
    for phrase in PHRASES.iter().filter(believed) {
        for captures in phrase.pattern.regex().captures_iter(text) {
            kinds.push(phrase.kind);
            figures.note(&captures);
        }
    }
    for figure in &FIGURES {
        if let Some(captures) = figure.pattern.regex().captures(text) {
            figures.note(&captures);
        }
    }
}

/// The part of a message that is read.
pub(super) fn head(text: &str) -> &str {
    let text = text.trim_start();
    text.get(..text.floor_char_boundary(HEAD_BYTES))
        .unwrap_or(text)
}
