//! `digest`: older exchanges become an extract that keeps what later calls are likely to need.
//!
//! The next compaction extends a digest: its lines stay candidates as they are, with the newly aged
//! exchanges behind them.

mod extract;
mod rank;
mod result;
mod weigh;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::wire::chat::cache_control;
use std::borrow::Cow;

use self::extract::DigestLine;
use self::rank::Choice;
use self::rank::choose_within;
use self::result::Said;
use self::result::result_lines;
pub(super) use self::weigh::Context;
use crate::core::conversation::Exchange;
use crate::core::edit::Replacement;
use crate::core::edit::Tag;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::Scope;
use crate::core::strategy::{Done, Stopped};
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Message;
use crate::core::wire::chat::text_of;

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
/// The share of the target that a digest may take where nothing is left of it: one in so many.
const LEAST_SHARE: u64 = 8;
/// The newest exchanges, whose texts show the present subject of the conversation.
const RECENT: usize = 3;
/// A result with fewer lines than this leaves nothing to choose.
const LEAST_LINES: usize = 8;
/// The same for JSON, where each line is a value with its key: a value that is not a line of its own is cut in the middle.
const LEAST_MEMBERS: usize = 3;
/// Tokens of the target that may stay unused.
const SLACK_TOKENS: u64 = 4;
/// Attempts to meet the target.
const TRIES: usize = 4;

pub(super) fn apply(scope: &Scope, draft: &mut Draft<'_>, goal: Target) -> Done {
    let messages = draft.conversation().messages;
    let mut old = draft.standing(Zone::Condensed);
    old.retain(|exchange| Tag::Digest.body_at(draft, exchange.first).is_some());
    let span = scope.span(draft);
    let tokens_in = |exchanges: &[Exchange]| {
        exchanges
            .iter()
            .map(|exchange| draft.tokens_in(exchange))
            .sum::<u64>()
    };
    let (aged, digested) = (tokens_in(&span), tokens_in(&old));
    let rest = draft.size().tokens - aged - digested;
    // Where what stays leaves next to nothing of the target, a small digest is still worth its room.
    let least = match goal.room.checked_sub(rest) {
        Some(left) if left > 0 => (goal.target / LEAST_SHARE).min(left),
        _ => goal.target / LEAST_SHARE,
    };
    let budget = goal
        .target
        .saturating_sub(rest)
        .max(least)
        .min(aged + digested);
    if span.is_empty() || budget < LEAST_TOKENS {
        return Done::default();
    }

    let mut said = (aged > budget + budget / 2).then(|| noted(draft));
    let (mut entries, mut mark): (Vec<(usize, Vec<DigestLine>)>, Option<&str>) = (Vec::new(), None);
    // Newest first: what is said last is told in full, and not again where it was said before.
    for exchange in span.iter().rev() {
        let mut lines = Vec::new();
        extract::lines_of(messages, exchange, &mut said, &mut lines);
        entries.push((exchange.first, lines));
        mark = mark.or_else(|| {
            messages
                .get(exchange.first..exchange.end)?
                .iter()
                .rev()
                .find_map(cache_control)
        });
    }
    for exchange in &old {
        let body = Tag::Digest
            .body_at(draft, exchange.first)
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
    match filled(
        &lines,
        &context_beside(draft, &condensed),
        budget,
        mark,
        draft,
    ) {
        Some((new, shown)) if new.tokens < aged + digested => {
            let details = vec![("lines", lines.len() as u64), ("lines_shown", shown as u64)];
            draft.condense(&condensed, vec![new]);
            Done {
                replaced: 0,
                details,
            }
        }
        _ => Done::default(),
    }
}

/// What a digest of `exchanges`, which something else stands for that says `said`, would keep beside that: at most about
/// `budget` tokens of lines. `condensed` are the exchanges that go.
pub(super) fn facts(
    draft: &Draft<'_>,
    exchanges: &[Exchange],
    condensed: &[Exchange],
    said: &[&str],
    budget: u64,
) -> String {
    if budget < LEAST_TOKENS {
        return String::new();
    }
    let messages = draft.conversation().messages;
    let mut noted = Some(noted(draft));
    let mut entries: Vec<Vec<DigestLine>> = Vec::new();
    for exchange in exchanges.iter().rev() {
        let mut lines = Vec::new();
        extract::lines_of(messages, exchange, &mut noted, &mut lines);
        entries.push(lines);
    }
    let lines: Vec<DigestLine> = entries.into_iter().rev().flatten().collect();
    let mut context = context_beside(draft, condensed);
    context
        .said
        .extend(said.iter().map(|text| (*text).to_owned()));
    Choice::of(&lines, &context, budget, draft.conversation().encoding)
        .told()
        .join("\n")
}

/// What the results that stay say already.
fn noted(draft: &Draft<'_>) -> Said {
    let mut said = Said::default();
    for exchange in draft.standing(Zone::Tail) {
        for message in
            (exchange.first..exchange.end).filter_map(|at| Message::parse(draft.raw(at)).ok())
        {
            text_of(&message).iter().for_each(|text| said.note(text));
        }
    }
    said
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
    let mut room = budget.checked_sub(Tag::Digest.message("", mark, encoding)?.tokens)?;
    let mut choice = Choice::of(lines, context, room, encoding);
    let mut best = None;
    for _ in 0..TRIES {
        let body = choice.told();
        if body.is_empty() {
            break;
        }
        let new = Tag::Digest.message(&body.join("\n"), mark, encoding)?;
        let tokens = new.tokens;
        // Lines take less together than the sum of what they take alone, as a rule.
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
pub(super) fn context_beside(draft: &Draft<'_>, condensed: &[Exchange]) -> Context {
    let mut context = Context::default();
    let stay: Vec<Exchange> = draft
        .remaining()
        .map(|(exchange, _)| exchange)
        .filter(|exchange| !condensed.contains(exchange))
        .collect();
    for (age, exchange) in stay.iter().rev().enumerate() {
        let raws = (exchange.first..exchange.end).flat_map(|at| draft.raws(at));
        for message in raws.filter_map(|raw| Message::parse(raw).ok()) {
            let arguments = message
                .calls
                .iter()
                .filter_map(|call| serde_json::from_str::<String>(call.arguments?).ok());
            let (arguments, texts): (Vec<String>, Vec<Cow<'_, str>>) =
                (arguments.collect(), text_of(&message));
            if age < RECENT {
                context.recent.extend(
                    texts
                        .iter()
                        .map(|text| text.clone().into_owned())
                        .chain(arguments.iter().cloned()),
                );
            }
            context.said.extend(texts.into_iter().map(Cow::into_owned));
            context.calls.extend(arguments);
        }
    }
    context
}

/// A text cut to about `budget` tokens by the same care: its beginning, its end, and in between what says most. `mark`,
/// given the number of lines left out and of all, stands at the first gap. `None` where there are too few lines to choose
/// from.
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
