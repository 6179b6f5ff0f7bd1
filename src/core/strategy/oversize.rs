//! The rule for newest results that alone are too much: when nothing else is left to give and the list still exceeds
//! the room, tool results in the tail are cut to a head and a tail, the cut marked.
//!
//! This is no step that a policy names: it is what keeps an agent alive that has just read a huge file.

use super::clear_results::with_content;
use crate::core::chat::{Message, Role};
use crate::core::draft::{Draft, Goal, Standing, text_of};
use crate::core::plan::Replacement;

/// Name in reports and metrics.
pub const NAME: &str = "oversize";

/// What every cut says.
const MARK: &str = "bytes of this tool result removed to fit the context window";
/// Of what a cut result may keep, the share that its beginning gets (percent).
const HEAD_PERCENT: usize = 60;
/// A result is not cut below this many tokens: the mark and a few words around it.
const LEAST_TOKENS: u64 = 64;
/// Tries to meet a result's share; each takes what the last one was over off again.
const TRIES: usize = 4;

pub(super) fn apply(draft: &mut Draft<'_>, goal: Goal) -> u64 {
    let mut results: Vec<(u64, usize)> = Vec::new();
    for exchange in draft.standing(Standing::Tail) {
        for at in exchange.first..exchange.end {
            if draft.subject().messages.get(at).is_some_and(|m| matches!(m.role, Role::Tool | Role::Function)) {
                results.push((draft.tokens_at(at), at));
            }
        }
    }
    let total: u64 = results.iter().map(|(tokens, _)| tokens).sum();
    let over = draft.size().tokens.saturating_sub(goal.target);
    let limit = level(&results, total.saturating_sub(over)).max(LEAST_TOKENS);
    let mut replaced = 0;
    for (tokens, at) in results {
        if tokens > limit
            && let Some(new) = cut(draft, at, limit)
        {
            replaced += u64::from(draft.replace(at, new));
        }
    }
    replaced
}

/// The limit per result at which they come to `allowed` tokens together: small ones stay whole, large ones share the rest.
fn level(results: &[(u64, usize)], allowed: u64) -> u64 {
    let mut sizes: Vec<u64> = results.iter().map(|(tokens, _)| *tokens).collect();
    sizes.sort_unstable();
    let mut left = allowed;
    for (done, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - done) as u64;
        if *size > share {
            return share;
        }
        left -= size;
    }
    u64::MAX
}

/// The result at `at`, cut to about `limit` tokens; `None` when its content is no text.
fn cut(draft: &Draft<'_>, at: usize, limit: u64) -> Option<Replacement> {
    let encoding = draft.subject().encoding;
    let raw = draft.raw(at);
    let message = Message::parse(raw).ok()?;
    let text = text_of(&message).concat();
    let tokens = draft.tokens_at(at).max(1);
    // What was cut before came close to its limit then; it is cut again only where much less is left for it.
    if text.is_empty() || (text.contains(MARK) && tokens <= limit.saturating_mul(2)) {
        return None;
    }
    let mut keep = bytes_for(text.len(), limit, tokens);
    let mut best = None;
    for _ in 0..TRIES {
        let new = Replacement::new(with_content(&message, &head_and_tail(&text, keep, tokens))?, encoding)?;
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

/// The beginning and the end of `text`, about `keep` bytes together, cut between characters, with a mark in between.
fn head_and_tail(text: &str, keep: usize, tokens: u64) -> String {
    let head = text.floor_char_boundary(keep * HEAD_PERCENT / 100);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(keep.saturating_sub(head)));
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail.max(head)..).unwrap_or_default());
    let removed = text.len() - head.len() - tail.len();
    format!("{head}\n[… {removed} of {} {MARK}; it had {tokens} tokens …]\n{tail}", text.len())
}
