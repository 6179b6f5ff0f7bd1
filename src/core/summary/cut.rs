//! How much of a conversation is to be summarised: all but its recent part, at the boundary of an exchange.

use std::sync::Arc;

use crate::core::budget::Budget;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::{Exchange, Kind};
use crate::core::edit::Edit;
use crate::core::edit::{Draft, Zone};
use crate::core::summary::{Options, Recent, State, Summaries, Summary};

/// A summary that is worth making.
#[derive(Debug, Clone)]
pub struct PendingSummary {
    /// What it will be kept under: the digest of the messages it covers.
    pub key: Fingerprint,
    /// Messages it covers, from the first.
    pub covered: usize,
    /// The summary that it builds on, and the messages that one covers.
    pub earlier: Option<(usize, Arc<Summary>)>,
    /// The keys of all shorter prefixes: while one of them is being summarised, this one waits.
    pub prefixes: Vec<Fingerprint>,
    /// What becomes of the covered messages as long as there is no summary.
    pub edits: Vec<Edit>,
    /// Tokens that it stands for.
    pub tokens: u64,
    /// The longest it may be, tokens.
    pub max_tokens: u64,
}

/// The number of messages in front of the part of `draft` that stays: a boundary between exchanges, behind all that
/// earlier compactions took away and before the tail, which no step may touch. `None` when that leaves nothing new.
fn cut(draft: &Draft<'_>, recent: &Recent, keep_tokens: u64, older_than: usize) -> Option<usize> {
    let floor = floor(draft);
    let messages = draft.conversation().messages.len();
    let tail = draft
        .standing(Zone::Tail)
        .first()
        .map_or(messages, |exchange| exchange.first);
    let (turns, least) = (recent.turns.unwrap_or(0), recent.messages.unwrap_or(0));
    let (mut cut, mut kept_tokens, mut kept_turns, mut kept_messages) = (messages, 0, 0, 0);
    for exchange in draft.conversation().exchanges.iter().rev() {
        let enough =
            kept_tokens >= keep_tokens && kept_turns >= turns && kept_messages >= least.max(1);
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
        }
    }
    (cut > floor && cut < messages).then_some(cut)
}

/// The end of what earlier compactions took away, or put something else in the place of.
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

/// The summary that is worth making for `draft` now, for a time when the list will have grown by `growth` and take `tokens`;
/// `None` as long as there is one that will do, one is on its way, or it just failed.
pub(in crate::core) fn next(
    draft: &Draft<'_>,
    options: &Options,
    older_than: usize,
    budget: Budget,
    tokens: u64,
    growth: u64,
    summaries: &Summaries<'_>,
) -> Option<PendingSummary> {
    // What will stay then is partly still to come.
    let keep = options
        .keep_tokens(budget.window, budget.target)
        .saturating_sub(growth);
    let covered = cut(draft, &options.keep, keep, older_than)?;
    let floor = floor(draft);
    // Tokens that a summary of these messages would stand for.
    let worth = |from: usize, to: usize| -> u64 {
        let within = draft
            .remaining()
            .filter(|(exchange, _)| exchange.first >= from && exchange.end <= to);
        within
            .filter(|(_, standing)| *standing != Zone::Head)
            .map(|(exchange, _)| draft.tokens_in(&exchange))
            .sum()
    };
    let least = budget.min_gain.max(1);
    let mut earlier = None;
    for end in draft
        .conversation()
        .exchanges
        .iter()
        .rev()
        .map(|exchange| exchange.end)
    {
        match summaries.of(end) {
            None => {}
            Some(State::Running) => return None,
            // A little more of the same would fail as well.
            Some(State::Failed) if worth(end, covered) < least => return None,
            Some(State::Failed) => {}
            Some(State::Ready(ready)) => {
                let saves = if end > floor {
                    worth(0, end).saturating_sub(ready.tokens)
                } else {
                    0
                };
                let will_do = saves > 0 && tokens.saturating_sub(saves) <= budget.target;
                if end >= covered || will_do || worth(end, covered) < least {
                    return None;
                }
                earlier = Some((end, ready));
                break;
            }
        }
    }
    let stands_for = worth(0, covered);
    if stands_for < least {
        return None;
    }
    Some(PendingSummary {
        key: *summaries.chain().get(covered)?,
        covered,
        earlier,
        prefixes: summaries.chain().get(..covered)?.to_vec(),
        edits: (0..covered).map(|at| draft.edit(at).clone()).collect(),
        tokens: stands_for,
        max_tokens: options.summary_tokens(budget.target),
    })
}
