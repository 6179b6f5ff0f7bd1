//! `digest`: older exchanges become an extract that keeps what later calls are likely to need.
//!
//! The next compaction extends a digest: its lines stay candidates as they are, followed by those
//! of the newly aged exchanges.

mod extract;
mod line;
mod rank;
mod result;
mod weigh;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::borrow::Cow;

use self::line::DigestLine;
use self::rank::{Choice, choose_within};
use self::result::{Known, result_lines};
pub(super) use self::weigh::Context;
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{Author, Exchange};
use crate::core::edit::{Draft, Replacement, Tag, Target, Zone};
use crate::core::tokens::Encoding;

/// Older exchanges become an extract of the values that later calls are likely to need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Digest {}

impl Options for Digest {
    const NAME: &'static str = "digest";
    const COUNTS: &'static [&'static str] = &["lines", "lines_shown"];

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(run.scope, draft, run.target))
    }
}

/// A digest of fewer tokens than this has no room for content.
const LEAST_TOKENS: u64 = 48;
/// The share of the target that a digest may take where the rest of the list leaves nothing of it:
/// one in so many.
const LEAST_SHARE: u64 = 8;
/// The newest exchanges, whose texts show the present subject of the conversation.
const RECENT: usize = 3;
/// A result with fewer lines than this leaves nothing to choose.
const LEAST_LINES: usize = 8;
/// The same for JSON, where each line is a value with its key: a value that is not a line of its
/// own is cut in the middle.
const LEAST_MEMBERS: usize = 3;
/// Tokens of the target that may stay unused.
const SLACK_TOKENS: u64 = 4;
/// Attempts to meet the target.
const TRIES: usize = 4;

pub(super) fn apply(scope: &Scope, draft: &mut Draft<'_>, target: Target) -> Done {
    let messages = draft.conversation().messages;
    let mut old = draft.in_zone(Zone::Condensed);
    old.retain(|exchange| draft.body_of(Tag::Digest, exchange.first).is_some());
    let span = scope.span(draft);
    let aged = draft.tokens_of(&span);
    let before = aged + draft.tokens_of(&old);
    let budget = budget_of(draft.size().tokens - before, target).min(before);
    if span.is_empty() || budget < LEAST_TOKENS {
        return Done::default();
    }

    let known = (aged > budget + budget / 2).then(|| known(draft));
    let mut entries = lines_by_exchange(draft, &span, known);
    for exchange in &old {
        let body = draft
            .body_of(Tag::Digest, exchange.first)
            .unwrap_or_default();
        entries.push((exchange.first, DigestLine::read_back(&body)));
    }
    entries.sort_by_key(|(first, _)| *first);
    let lines: Vec<DigestLine> = entries.into_iter().flat_map(|(_, lines)| lines).collect();

    let condensed: Vec<Exchange> = draft
        .conversation()
        .exchanges
        .iter()
        .filter(|exchange| span.contains(exchange) || old.contains(exchange))
        .copied()
        .collect();
    let mark = span
        .iter()
        .rev()
        .find_map(|exchange| exchange.cache_mark(messages));
    let context = context_besides(draft, &condensed);
    let Some((new, shown)) = filled(&lines, &context, budget, mark, draft) else {
        return Done::default();
    };
    if !draft.condense(&condensed, vec![new]) {
        return Done::default();
    }
    Done {
        replaced: 0,
        details: vec![("lines", lines.len() as u64), ("lines_shown", shown as u64)],
    }
}

/// Tokens that a digest may take where the rest of the list takes `rest`. Where that leaves next to
/// nothing of the target, a small digest is still worth its room.
fn budget_of(rest: u64, target: Target) -> u64 {
    let share = target.target / LEAST_SHARE;
    let least = match target.prompt.checked_sub(rest) {
        Some(left) if left > 0 => share.min(left),
        _ => share,
    };
    target.target.saturating_sub(rest).max(least)
}

/// The lines of exchanges, newest first, each with the index of its first message. The newest
/// mention of a value is shown in full; where `known` is given, older ones are left out.
fn lines_by_exchange(
    draft: &Draft<'_>,
    exchanges: &[Exchange],
    mut known: Option<Known>,
) -> Vec<(usize, Vec<DigestLine>)> {
    let messages = draft.conversation().messages;
    let lines_of = |exchange: &Exchange| {
        let mut lines = Vec::new();
        extract::lines_of(messages, exchange, &mut known, &mut lines);
        (exchange.first, lines)
    };
    exchanges.iter().rev().map(lines_of).collect()
}

/// The lines that a digest of `exchanges` would keep besides `texts`, which stand for them: at most
/// about `budget` tokens. `condensed` are the exchanges that go.
pub(super) fn extract_besides(
    draft: &Draft<'_>,
    exchanges: &[Exchange],
    condensed: &[Exchange],
    texts: &[&str],
    budget: u64,
) -> String {
    if budget < LEAST_TOKENS {
        return String::new();
    }
    let entries = lines_by_exchange(draft, exchanges, Some(known(draft)));
    let lines: Vec<DigestLine> = entries
        .into_iter()
        .rev()
        .flat_map(|(_, lines)| lines)
        .collect();
    let mut context = context_besides(draft, condensed);
    context
        .texts
        .extend(texts.iter().map(|text| (*text).to_owned()));
    Choice::of(&lines, &context, budget, draft.conversation().encoding)
        .lines()
        .join("\n")
}

/// The values in the tail, which stays.
fn known(draft: &Draft<'_>) -> Known {
    let mut known = Known::default();
    for exchange in draft.in_zone(Zone::Tail) {
        for entry in (exchange.first..exchange.end).filter_map(|at| draft.entry(at)) {
            entry.texts().iter().for_each(|text| known.note(text));
        }
    }
    known
}

/// The digest of `lines` that fills `budget`, and the number of its lines.
fn filled(
    lines: &[DigestLine],
    context: &Context,
    budget: u64,
    mark: Option<&str>,
    draft: &Draft<'_>,
) -> Option<(Replacement, usize)> {
    let encoding = draft.conversation().encoding;
    let written = |body: &str| draft.written(Author::User, &Tag::Digest.text(body), mark);
    let mut room = budget.checked_sub(written("")?.tokens)?;
    let mut choice = Choice::of(lines, context, room, encoding);
    let mut best = None;
    for _ in 0..TRIES {
        let body = choice.lines();
        if body.is_empty() {
            break;
        }
        let new = written(&body.join("\n"))?;
        let tokens = new.tokens;
        // As a rule, lines take less together than the sum of their own tokens.
        if tokens <= budget {
            best = Some((new, body.len()));
            if budget - tokens < SLACK_TOKENS || !choice.extend(budget - tokens) {
                break;
            }
        } else if best.is_some() {
            break;
        } else {
            room = room.checked_sub(tokens - budget)?;
            choice = Choice::of(lines, context, room, encoding);
        }
    }
    best
}

/// The texts that stay when `condensed` go.
pub(super) fn context_besides(draft: &Draft<'_>, condensed: &[Exchange]) -> Context {
    let mut context = Context::default();
    let stay: Vec<Exchange> = draft
        .remaining()
        .map(|(exchange, _)| exchange)
        .filter(|exchange| !condensed.contains(exchange))
        .collect();
    for (age, exchange) in stay.iter().rev().enumerate() {
        for entry in (exchange.first..exchange.end).flat_map(|at| draft.entries(at)) {
            let texts = entry.texts().into_iter().map(Cow::into_owned);
            let calls = entry.calls().filter(|call| call.legacy.is_none());
            let arguments = calls.filter_map(|call| call.arguments?.decode());
            let texts: Vec<String> = texts.collect();
            let arguments: Vec<String> = arguments.map(Cow::into_owned).collect();
            if age < RECENT {
                let recent = texts.iter().chain(&arguments);
                context.recent.extend(recent.cloned());
            }
            context.texts.extend(texts);
            context.calls.extend(arguments);
        }
    }
    context
}

/// A text cut to about `budget` tokens: its beginning, its end, and the lines in between that a
/// digest would keep. `mark`, given the number of lines left out and of all, fills the first gap.
/// `None` where there are too few lines to choose from.
pub(super) fn shortened(
    text: &str,
    context: &Context,
    budget: u64,
    encoding: Encoding,
    mark: impl FnOnce(usize, usize) -> String,
) -> Option<String> {
    let mut lines = Vec::new();
    result_lines(text, &[], &mut None, &mut lines);
    let taken = choose_within(&lines, context, budget, encoding);
    let left_out = taken.iter().filter(|taken| !**taken).count();
    let least = if lines.iter().all(|line| line.plain) {
        LEAST_LINES
    } else {
        LEAST_MEMBERS
    };
    if lines.len() < least || left_out == lines.len() {
        return None;
    }
    let (mut out, mut gap, mut mark): (Vec<String>, bool, _) = (Vec::new(), false, Some(mark));
    let mut close = |gap: &mut bool, out: &mut Vec<String>| {
        if std::mem::take(gap) {
            out.push(
                mark.take()
                    .map_or_else(|| "…".to_owned(), |mark| mark(left_out, lines.len())),
            );
        }
    };
    for (line, taken) in lines.iter().zip(&taken) {
        if *taken {
            close(&mut gap, &mut out);
            out.push(line.text.strip_prefix(' ').unwrap_or(&line.text).to_owned());
        } else {
            gap = true;
        }
    }
    close(&mut gap, &mut out);
    Some(out.join("\n"))
}
