//! The rule for newest results that alone are too much: where head and tail exceed the room, tool results in the tail lose
//! blanks and noise, or are cut with the digest's care: beginning, end and what says most in between; the cut is marked.
//!
//! This is no step that a policy names: it is what keeps an agent alive that has just read a huge file.

use crate::core::conversation::level;
use crate::core::conversation::{Kind, Role};
use crate::core::edit::Replacement;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::json::Json;
use crate::core::strategy::digest::{Context, context_beside, shortened};
use crate::core::strategy::minify::{Minify, shorter};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::text_of;
use crate::core::wire::chat::{with_arguments, with_content};

/// Name in reports and metrics.
pub const NAME: &str = "oversize";

/// What every cut says.
const MARK: &str = "of this tool result removed to fit the context window";
/// What every cut in an argument says.
const ARGUMENT_MARK: &str = "of this argument removed to fit the context window";
/// Texts in arguments that are longer than this may be cut (bytes): not a path or a query.
const LONG_ARGUMENT_BYTES: usize = 400;
/// Of a text that has too few lines to choose from, the share that its beginning gets (percent).
const HEAD_PERCENT: usize = 60;
/// A result is not cut below this many tokens: the mark and a few words around it.
const LEAST_TOKENS: u64 = 64;
/// Tries to meet a result's share; each takes what the last one was over off again.
const TRIES: usize = 4;
/// Of what the head leaves of the target, the share that a tail gets which is too much (percent), where older messages
/// need the rest.
const TAIL_PERCENT: u64 = 50;

/// Cuts a tail that with the head alone exceeds the room, or leaves older messages less than their share of it, before anything else is
/// made smaller.
pub(super) fn apply_first(draft: &mut Draft<'_>, goal: Target) -> u64 {
    let (mut head, mut tail, mut older) = (draft.conversation().fixed_tokens, 0, 0);
    for (exchange, standing) in draft.remaining() {
        match standing {
            Zone::Head => head += draft.tokens_in(&exchange),
            Zone::Tail => tail += draft.tokens_in(&exchange),
            Zone::Span | Zone::Condensed => older += draft.tokens_in(&exchange),
        }
    }
    let left = goal.target.saturating_sub(head);
    let others = older.min(left - left * TAIL_PERCENT / 100);
    // What the room has above the target is there for the newest; where that is nothing, older messages keep their share.
    let due = others.saturating_sub(goal.room.saturating_sub(goal.target));
    if head + tail + due <= goal.room {
        return 0;
    }
    let (before, over) = (draft.size().tokens, tail.saturating_sub(left - others));
    let replaced = apply(draft, over);
    replaced + cut_arguments(draft, over.saturating_sub(before - draft.size().tokens))
}

/// Cuts what is left over the room when every step has run.
pub(super) fn apply_last(draft: &mut Draft<'_>, goal: Target) -> u64 {
    let replaced = apply(draft, draft.size().tokens.saturating_sub(goal.target));
    replaced + cut_arguments(draft, draft.size().tokens.saturating_sub(goal.room))
}

/// Takes about `over` tokens off the long texts in the arguments of the tail's calls: a file being written, a script.
fn cut_arguments(draft: &mut Draft<'_>, over: u64) -> u64 {
    if over == 0 {
        return 0;
    }
    let calls: Vec<(u64, usize)> = draft
        .standing(Zone::Tail)
        .iter()
        .filter(|exchange| exchange.kind == Kind::Calls)
        .map(|exchange| (draft.tokens_at(exchange.first), exchange.first))
        .collect();
    let total: u64 = calls.iter().map(|(tokens, _)| tokens).sum();
    let limit = level(
        calls.iter().map(|(tokens, _)| *tokens).collect(),
        total.saturating_sub(over),
    )
    .max(LEAST_TOKENS);
    let mut replaced = 0;
    for (tokens, at) in calls {
        let Ok(message) = Message::parse(draft.raw(at)) else {
            continue;
        };
        if tokens <= limit
            || (message.raw.contains(ARGUMENT_MARK) && tokens <= limit.saturating_mul(2))
        {
            continue;
        }
        let new = with_arguments(&message, |_, arguments| {
            let Some(Json::Object(mut members)) = Json::parse(arguments) else {
                return None;
            };
            let mut changed = false;
            for (_, value) in &mut members {
                if let Json::String(text) = value
                    && text.len() > LONG_ARGUMENT_BYTES
                {
                    let keep = bytes_for(text.len(), limit, tokens);
                    let (head, tail) = ends(text, keep);
                    let removed = text.len() - head.len() - tail.len();
                    *text = format!(
                        "{head}\n[… {removed} of {} bytes {ARGUMENT_MARK} …]\n{tail}",
                        text.len()
                    );
                    changed = true;
                }
            }
            changed.then(|| Json::Object(members).to_string())
        });
        if let Some(new) =
            new.and_then(|json| Replacement::new(json, draft.conversation().encoding))
        {
            replaced += u64::from(draft.replace(at, new));
        }
    }
    replaced
}

/// Takes about `over` tokens off the results of the tail.
fn apply(draft: &mut Draft<'_>, over: u64) -> u64 {
    let mut results: Vec<(u64, usize)> = Vec::new();
    for exchange in draft.standing(Zone::Tail) {
        for at in exchange.first..exchange.end {
            if draft
                .conversation()
                .messages
                .get(at)
                .is_some_and(|m| matches!(m.role, Role::Tool | Role::Function))
            {
                results.push((draft.tokens_at(at), at));
            }
        }
    }
    let total: u64 = results.iter().map(|(tokens, _)| tokens).sum();
    let limit = level(
        results.iter().map(|(tokens, _)| *tokens).collect(),
        total.saturating_sub(over),
    )
    .max(LEAST_TOKENS);
    if results.iter().all(|(tokens, _)| *tokens <= limit) {
        return 0;
    }
    let context = context_beside(draft, &draft.standing(Zone::Tail));
    let mut replaced = 0;
    for (tokens, at) in results {
        if tokens > limit
            && let Some(new) = cut(draft, at, limit, &context)
        {
            replaced += u64::from(draft.replace(at, new));
        }
    }
    replaced
}

/// The result at `at`, cut to about `limit` tokens; `None` when its content is no text.
fn cut(draft: &Draft<'_>, at: usize, limit: u64, context: &Context) -> Option<Replacement> {
    let encoding = draft.conversation().encoding;
    let raw = draft.raw(at);
    let message = Message::parse(raw).ok()?;
    let text = text_of(&message).concat();
    let tokens = draft.tokens_at(at).max(1);
    // What was cut before came close to its limit then; it is cut again only where much less is left for it.
    if text.is_empty() || (text.contains(MARK) && tokens <= limit.saturating_mul(2)) {
        return None;
    }
    // What says all of it in fewer tokens comes before any cut.
    if let Some(whole) = shorter(
        Minify {
            json: true,
            text: true,
        },
        &text,
    ) {
        let whole = format!("[… blanks and noise {MARK}; it had {tokens} tokens …]\n{whole}");
        let new = Replacement::new(with_content(&message, &whole)?, encoding)?;
        if new.tokens <= limit {
            return Some(new);
        }
    }
    let mut room = limit.saturating_sub(LEAST_TOKENS / 2);
    for _ in 0..TRIES {
        let mark =
            |removed, all| format!("[… {removed} of {all} lines {MARK}; it had {tokens} tokens …]");
        let Some(short) = shortened(&text, context, room, encoding, mark) else {
            break;
        };
        let new = Replacement::new(with_content(&message, &short)?, encoding)?;
        if new.tokens <= limit {
            return Some(new);
        }
        room = room.saturating_sub(new.tokens - limit);
    }
    let mut keep = bytes_for(text.len(), limit, tokens);
    let mut best = None;
    for _ in 0..TRIES {
        let new = Replacement::new(
            with_content(&message, &head_and_tail(&text, keep, tokens))?,
            encoding,
        )?;
        let fits = new.tokens <= limit;
        let next = bytes_for(keep, limit, new.tokens + new.tokens / 50 + 1);
        best = Some(new);
        if fits || next >= keep {
            break;
        }
        keep = next;
    }
    best
}

/// `bytes × limit / tokens`.
fn bytes_for(bytes: usize, limit: u64, tokens: u64) -> usize {
    usize::try_from(bytes as u128 * u128::from(limit) / u128::from(tokens.max(1))).unwrap_or(bytes)
}

/// The beginning and the end of `text`, about `keep` bytes together, with a mark in between.
fn head_and_tail(text: &str, keep: usize, tokens: u64) -> String {
    let (head, tail) = ends(text, keep);
    let removed = text.len() - head.len() - tail.len();
    format!(
        "{head}\n[… {removed} of {} bytes {MARK}; it had {tokens} tokens …]\n{tail}",
        text.len()
    )
}

/// The beginning and the end of `text`, about `keep` bytes together, cut between characters.
fn ends(text: &str, keep: usize) -> (&str, &str) {
    let head = text.floor_char_boundary(keep * HEAD_PERCENT / 100);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(keep.saturating_sub(head)));
    (
        text.get(..head).unwrap_or_default(),
        text.get(tail.max(head)..).unwrap_or_default(),
    )
}
