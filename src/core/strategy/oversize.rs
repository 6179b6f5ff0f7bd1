//! The rule for newest results that alone are too much: where head and tail exceed the room, tool
//! results in the tail lose blanks and noise, or are cut to their beginning, their end and the
//! lines in between that a digest would keep; the cut is marked.
//!
//! A policy does not name this step: it keeps an agent alive that has just read a huge file.

use super::digest::{Context, TextLines, TextTokens, context_besides};
use super::minify::{Minify, shorter};
use crate::core::conversation::{BlockId, Exchange, Kind, level};
use crate::core::edit::{Draft, Replacement, Target, Zone};
use crate::core::json::Json;
use crate::core::{Cancel, Cancelled};

/// Name in reports and metrics.
pub const NAME: &str = "oversize";

/// The words in every cut.
const MARK: &str = "of this tool result removed to fit the context window";
/// What a result loses that is told in fewer tokens as a whole.
const BLANKS: &str = "blanks and noise";
/// The words in every cut of an argument.
const ARGUMENT_MARK: &str = "of this argument removed to fit the context window";
/// Texts in arguments that are longer than this may be cut (bytes): not a path or a query.
const LONG_ARGUMENT_BYTES: usize = 400;
/// Of a text that has too few lines to choose from, the share that its beginning gets (percent).
const HEAD_PERCENT: usize = 60;
/// A result is not cut below this many tokens: the mark and a few words around it.
const LEAST_TOKENS: u64 = 64;
/// Tries to meet a result's share; each takes off the tokens by which the last one was over.
const TRIES: usize = 4;
/// The share of the target that the head leaves which an oversize tail gets (percent), where older
/// messages need the rest.
const TAIL_PERCENT: u64 = 50;
/// What older messages need at least where the tail has room as a whole: so many tokens, and of
/// what the head leaves one in so many. The model has not answered the tail's results yet.
const LEAST_OLDER_TOKENS: u64 = 400;
const LEAST_OLDER: u64 = 12;

/// Cuts a tail that with the head alone exceeds the room, or leaves older messages less than their
/// share of it, before anything else is made smaller.
///
/// # Errors
/// [`Cancelled`] when nobody waits any more. Where only the time for planning is spent, results are
/// cut to their beginning and their end.
pub(super) fn apply_first(
    draft: &mut Draft<'_>,
    target: Target,
    cancel: &Cancel,
) -> Result<u64, Cancelled> {
    let (mut head, mut tail, mut older) = (draft.conversation().fixed_tokens, 0, 0);
    for (exchange, zone) in draft.remaining() {
        match zone {
            Zone::Head => head += draft.tokens_in(&exchange),
            Zone::Tail => tail += draft.tokens_in(&exchange),
            Zone::Span | Zone::Condensed => older += draft.tokens_in(&exchange),
        }
    }
    let left = target.target.saturating_sub(head);
    let others = older.min(left - left * TAIL_PERCENT / 100);
    // The room above the target is there for the newest; where there is none, older messages keep
    // what they need at least.
    let due = others.saturating_sub(target.prompt.saturating_sub(target.target));
    let due = due.min(LEAST_OLDER_TOKENS.max(left / LEAST_OLDER));
    if head + tail + due <= target.prompt {
        return Ok(0);
    }
    let before = draft.size().tokens;
    let over = tail.saturating_sub(left - others);
    let results = cut_results(draft, over, cancel)?;
    let over = over.saturating_sub(before - draft.size().tokens);
    Ok(results + cut_arguments(draft, over, cancel)?)
}

/// Cuts the tokens that are still over the room when every step has run.
///
/// # Errors
/// As for [`apply_first`].
pub(super) fn apply_last(
    draft: &mut Draft<'_>,
    target: Target,
    cancel: &Cancel,
) -> Result<u64, Cancelled> {
    let over = draft.size().tokens.saturating_sub(target.target);
    let results = cut_results(draft, over, cancel)?;
    let over = draft.size().tokens.saturating_sub(target.prompt);
    Ok(results + cut_arguments(draft, over, cancel)?)
}

/// The tokens that each of `sizes` may take for all of them to take about `over` tokens less.
fn limit_for(sizes: impl Iterator<Item = u64>, over: u64) -> u64 {
    let sizes: Vec<u64> = sizes.collect();
    let total: u64 = sizes.iter().sum();
    level(sizes, total.saturating_sub(over)).max(LEAST_TOKENS)
}

/// Takes about `over` tokens off the long texts in the arguments of the tail's calls: a file being
/// written, a script.
fn cut_arguments(draft: &mut Draft<'_>, over: u64, cancel: &Cancel) -> Result<u64, Cancelled> {
    if over == 0 {
        return Ok(0);
    }
    let calls: Vec<(u64, usize)> = draft
        .in_zone(Zone::Tail)
        .iter()
        .filter(|exchange| exchange.kind == Kind::Calls)
        .map(|exchange| (draft.tokens_at(exchange.first), exchange.first))
        .collect();
    let limit = limit_for(calls.iter().map(|(tokens, _)| *tokens), over);
    let mut replaced = 0;
    for (tokens, at) in calls {
        cancel.check()?;
        let was_cut = draft
            .entry(at)
            .is_some_and(|entry| entry.raw.contains(ARGUMENT_MARK));
        if tokens > limit && !(was_cut && tokens <= limit.saturating_mul(2)) {
            let cut = draft.map_arguments(at, |arguments| cut_texts(arguments, limit, tokens));
            replaced += u64::from(cut);
        }
    }
    Ok(replaced)
}

/// Arguments with their long texts cut to `limit` of `tokens`; `None` when there are none.
fn cut_texts(arguments: &str, limit: u64, tokens: u64) -> Option<String> {
    let Some(Json::Object(mut members)) = Json::parse(arguments) else {
        return None;
    };
    let mut changed = false;
    for (_, value) in &mut members {
        if let Json::String(text) = value
            && text.len() > LONG_ARGUMENT_BYTES
        {
            let (head, tail) = ends(text, bytes_for(text.len(), limit, tokens));
            let removed = text.len() - head.len() - tail.len();
            *text = format!(
                "{head}\n[… {removed} of {} bytes {ARGUMENT_MARK} …]\n{tail}",
                text.len()
            );
            changed = true;
        }
    }
    changed.then(|| Json::Object(members).to_string())
}

/// Takes about `over` tokens off the results of the tail.
fn cut_results(draft: &mut Draft<'_>, over: u64, cancel: &Cancel) -> Result<u64, Cancelled> {
    let results: Vec<(u64, BlockId)> = draft
        .results(draft.in_zone(Zone::Tail))
        .into_iter()
        .map(|(_, id)| (draft.tokens_at(id.at()), id))
        .collect();
    let limit = limit_for(results.iter().map(|(tokens, _)| *tokens), over);
    if results.iter().all(|(tokens, _)| *tokens <= limit) {
        return Ok(0);
    }
    // A choice of lines reads all other texts, but for digests, which may be still to be written.
    // Once the time for that is spent, a beginning and an end have to do.
    let apart = |zone: Zone| matches!(zone, Zone::Tail | Zone::Condensed);
    let apart = draft.remaining().filter(|(_, zone)| apart(*zone));
    let apart: Vec<Exchange> = apart.map(|(exchange, _)| exchange).collect();
    let context = context_besides(draft, &apart, cancel).ok();
    let mut replaced = 0;
    for (tokens, id) in results {
        if tokens > limit {
            cancel.check()?;
            let new = cut(draft, id, limit, context.as_ref(), cancel)?;
            replaced += u64::from(draft.replace(id.at(), new));
        }
    }
    Ok(replaced)
}

/// The message of a result, cut to about `limit` tokens; `None` when the result has no text.
fn cut(
    draft: &Draft<'_>,
    id: BlockId,
    limit: u64,
    context: Option<&Context>,
    cancel: &Cancel,
) -> Result<Option<Replacement>, Cancelled> {
    let text = draft.entry(id.at()).and_then(|entry| {
        let text: String = entry.result(id.block)?.decoded().collect();
        Some(text)
    });
    let text = text.unwrap_or_default();
    let tokens = draft.tokens_at(id.at()).max(1);
    // A result that was cut before came close to its limit then; it is cut again only where much
    // less is left for it.
    if text.is_empty() || (text.contains(MARK) && tokens <= limit.saturating_mul(2)) {
        return Ok(None);
    }
    let result = LargeResult {
        draft,
        id,
        text: &text,
        tokens,
        limit,
    };
    if let Some(context) = context {
        match result.in_its_best_form(context, cancel) {
            Ok(None) => {}
            // The time for a choice is spent, and the request is still waited for.
            Err(Cancelled) if cancel.check().is_ok() => {}
            done => return done,
        }
    }
    result.by_its_ends(cancel)
}

/// A result that takes more than its limit.
struct LargeResult<'r, 'd> {
    draft: &'r Draft<'d>,
    id: BlockId,
    text: &'r str,
    /// Tokens of its message.
    tokens: u64,
    /// Tokens that its message may take.
    limit: u64,
}

impl LargeResult<'_, '_> {
    /// All of it in fewer tokens, which is better than any cut, or the lines that say most. `None`
    /// where neither comes to the limit.
    fn in_its_best_form(
        &self,
        context: &Context,
        cancel: &Cancel,
    ) -> Result<Option<Replacement>, Cancelled> {
        cancel.check_budget()?;
        let whole = self.in_fewer_tokens();
        if whole.is_some() {
            return Ok(whole);
        }
        let Some(lines) = TextLines::of(self.text, cancel)? else {
            return Ok(None);
        };
        let tokens = TextTokens::new(self.draft.conversation().encoding);
        let mut shortening = lines.weighed(context, &tokens, cancel)?;
        let mut room = self.limit.saturating_sub(LEAST_TOKENS / 2);
        for _ in 0..TRIES {
            cancel.check_budget()?;
            let mark = |removed, all| match removed {
                0 => mark_of(BLANKS, self.tokens),
                _ => mark_of(&format!("{removed} of {all} lines"), self.tokens),
            };
            let Some(short) = shortening.within(room, mark)? else {
                break;
            };
            let Some(new) = self.draft.with_text(self.id, &short) else {
                break;
            };
            if new.tokens <= self.limit {
                return Ok(Some(new));
            }
            room = room.saturating_sub(new.tokens - self.limit);
        }
        Ok(None)
    }

    /// The whole text without blanks and noise, where that comes to the limit.
    fn in_fewer_tokens(&self) -> Option<Replacement> {
        let minify = Minify {
            json: true,
            text: true,
        };
        let whole = shorter(minify, self.text)?;
        let whole = format!("{}\n{whole}", mark_of(BLANKS, self.tokens));
        let new = self.draft.with_text(self.id, &whole)?;
        (new.tokens <= self.limit).then_some(new)
    }

    /// Its beginning and its end, of about the limit.
    fn by_its_ends(&self, cancel: &Cancel) -> Result<Option<Replacement>, Cancelled> {
        let mut keep = bytes_for(self.text.len(), self.limit, self.tokens);
        let mut best = None;
        for _ in 0..TRIES {
            cancel.check()?;
            let text = head_and_tail(self.text, keep, self.tokens);
            let Some(new) = self.draft.with_text(self.id, &text) else {
                return Ok(None);
            };
            let fits = new.tokens <= self.limit;
            let next = bytes_for(keep, self.limit, new.tokens + new.tokens / 50 + 1);
            best = Some(new);
            if fits || next >= keep {
                break;
            }
            keep = next;
        }
        Ok(best)
    }
}

/// `bytes × limit / tokens`.
fn bytes_for(bytes: usize, limit: u64, tokens: u64) -> usize {
    usize::try_from(bytes as u128 * u128::from(limit) / u128::from(tokens.max(1))).unwrap_or(bytes)
}

/// The beginning and the end of `text`, about `keep` bytes together, with a mark in between.
fn head_and_tail(text: &str, keep: usize, tokens: u64) -> String {
    let (head, tail) = ends(text, keep);
    let removed = text.len() - head.len() - tail.len();
    let mark = mark_of(&format!("{removed} of {} bytes", text.len()), tokens);
    format!("{head}\n{mark}\n{tail}")
}

/// The mark of a cut that took `removed` off a result of so many tokens.
fn mark_of(removed: &str, tokens: u64) -> String {
    format!("[… {removed} {MARK}; it had {tokens} tokens …]")
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
