//! The part of a conversation to summarise: all but its recent part, up to a boundary between
//! exchanges.

use std::sync::Arc;

use super::options::{Options, Recent};
use super::state::{State, Summaries, Summary};
use crate::core::budget::Budget;
use crate::core::conversation::{Exchange, Fingerprint, Kind};
use crate::core::edit::{Draft, Edit, Zone};

/// A summary that is worth making.
#[derive(Debug, Clone)]
pub struct PendingSummary {
    /// Its key: the fingerprint of the messages that it covers.
    pub key: Fingerprint,
    /// The number of messages that it covers, from the first.
    pub covered: usize,
    /// The summary that it builds on, and the number of messages that one covers.
    pub earlier: Option<(usize, Arc<Summary>)>,
    /// The keys of all shorter prefixes: while one of them is being summarised, this one waits.
    pub prefixes: Vec<Fingerprint>,
    /// The edits of the covered messages as long as there is no summary.
    pub edits: Vec<Edit>,
    /// Tokens that it stands for.
    pub tokens: u64,
    /// The longest that it may be, tokens.
    pub max_tokens: u64,
}

/// The time at which a summary will be used.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct Forecast {
    /// The numbers that will decide then.
    pub budget: Budget,
    /// Tokens that the list will take.
    pub tokens: u64,
    /// Tokens by which the list will have grown.
    pub growth: u64,
}

/// The number of messages before the part of `draft` that stays: a boundary between exchanges,
/// after everything that earlier compactions took away and before the tail, which no step may
/// touch. `None` when that leaves nothing new.
fn cut(draft: &Draft<'_>, recent: &Recent, keep_tokens: u64, older_than: usize) -> Option<usize> {
    let floor = floor(draft);
    let messages = draft.conversation().messages.len();
    let tail = draft
        .in_zone(Zone::Tail)
        .first()
        .map_or(messages, |exchange| exchange.first);
    let Recent {
        turns,
        exchanges,
        messages: least,
        ..
    } = *recent;
    let (mut cut, mut kept_tokens, mut kept_turns, mut kept_messages) = (messages, 0, 0, 0);
    let mut kept_exchanges = 0;
    for exchange in draft.conversation().exchanges.iter().rev() {
        let enough = kept_tokens >= keep_tokens
            && kept_turns >= turns.unwrap_or(0)
            && kept_exchanges >= exchanges.unwrap_or(0)
            && kept_messages >= least.unwrap_or(0).max(1);
        if enough && cut <= tail && cut.saturating_add(older_than) <= messages {
            break;
        }
        if exchange.end <= floor {
            return None;
        }
        cut = exchange.first;
        if exchange.kind != Kind::Instruction {
            kept_tokens += draft.tokens_in(exchange);
            kept_messages += (exchange.end - exchange.first) as u64;
            kept_turns += u64::from(exchange.kind == Kind::User);
            kept_exchanges += 1;
        }
    }
    (cut > floor && cut < messages).then_some(cut)
}

/// The end of the part that earlier compactions took away, or replaced by new messages.
pub(in crate::core) fn floor(draft: &Draft<'_>) -> usize {
    let taken =
        |exchange: &&Exchange| matches!(draft.edit(exchange.first), Edit::Drop | Edit::Stand(_));
    draft
        .conversation()
        .exchanges
        .iter()
        .rev()
        .find(taken)
        .map_or(0, |exchange| exchange.end)
}

/// The summary that is worth making for `draft` now, to be used at the time of the forecast; `None`
/// as long as there is one that will do, one is on its way, or it just failed.
pub(in crate::core) fn next(
    draft: &Draft<'_>,
    options: &Options,
    older_than: usize,
    forecast: Forecast,
    summaries: &Summaries,
) -> Option<PendingSummary> {
    let Budget {
        window,
        target,
        min_gain,
        ..
    } = forecast.budget;
    // A part of the messages that will stay then is still to come.
    let keep = options
        .keep_tokens(window, target)
        .saturating_sub(forecast.growth);
    let covered = cut(draft, &options.keep, keep, older_than)?;
    let least = min_gain.max(1);
    let earlier = earlier(draft, covered, least, forecast, summaries)?;
    let tokens = stands_for(draft, 0, covered);
    if tokens < least {
        return None;
    }
    Some(PendingSummary {
        key: *summaries.keys().get(covered)?,
        covered,
        earlier,
        prefixes: summaries.keys().get(..covered)?.to_vec(),
        edits: (0..covered).map(|at| draft.edit(at).clone()).collect(),
        tokens,
        max_tokens: options.summary_tokens(target),
    })
}

/// Tokens that a summary of messages `from..to` would stand for.
fn stands_for(draft: &Draft<'_>, from: usize, to: usize) -> u64 {
    draft
        .remaining()
        .filter(|(exchange, _)| exchange.first >= from && exchange.end <= to)
        .filter(|(_, zone)| *zone != Zone::Head)
        .map(|(exchange, _)| draft.tokens_in(&exchange))
        .sum()
}

/// A summary to build on, with the number of messages that it covers.
type Earlier = Option<(usize, Arc<Summary>)>;

/// The summary to build on, which may be none; `None` when no other is to be made now.
fn earlier(
    draft: &Draft<'_>,
    covered: usize,
    least: u64,
    forecast: Forecast,
    summaries: &Summaries,
) -> Option<Earlier> {
    let floor = floor(draft);
    for exchange in draft.conversation().exchanges.iter().rev() {
        let end = exchange.end;
        match summaries.of(end) {
            None => {}
            Some(State::Running) => return None,
            // A little more of the same would fail as well.
            Some(State::Failed) if stands_for(draft, end, covered) < least => return None,
            Some(State::Failed) => {}
            Some(State::Ready(ready)) => {
                let saves = if end > floor {
                    stands_for(draft, 0, end).saturating_sub(ready.tokens)
                } else {
                    0
                };
                let will_do =
                    saves > 0 && forecast.tokens.saturating_sub(saves) <= forecast.budget.target;
                if end >= covered || will_do || stands_for(draft, end, covered) < least {
                    return None;
                }
                return Some(Some((end, Arc::clone(ready))));
            }
        }
    }
    Some(None)
}
