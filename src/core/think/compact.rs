//! One compaction: the ladder, and whether what comes of it is worth it.

use super::{Circumstances, HeldBack};
use crate::core::Cancel;
use crate::core::chat::Role;
use crate::core::draft::{Draft, Goal, Subject, size_of_edited, tokens_of};
use crate::core::models::Prices;
use crate::core::plan::Edit;
use crate::core::policy::{Budget, Policy, Reason};
use crate::core::size::{as_float, ratio, scale};
use crate::core::strategy::{Report, Stopped, descend};

pub(super) struct Compacted {
    pub edits: Vec<Edit>,
    pub reports: Vec<Report>,
}

pub(super) enum Outcome {
    Made(Compacted),
    /// Nothing is to be changed; with a reason where there was something to gain.
    HeldBack(Option<HeldBack>),
}

/// Runs the ladder on `edits`. While the request still fits, what it changes must be worth a rewrite of what the upstream
/// has cached.
pub(super) fn compact(
    subject: &Subject<'_>,
    policy: &Policy,
    edits: &[Edit],
    budget: Budget,
    reason: Reason,
    circumstances: &Circumstances<'_>,
    cancel: &Cancel,
) -> Result<Outcome, Stopped> {
    cancel.check()?;
    let before = size_of_edited(subject, edits);
    let (mut goal, mut keep) = (Goal { target: budget.target, room: budget.room, messages: None, turns: None }, policy.keep);
    // Counts come down by the same share as tokens do, and a tail measured in tokens must not stand in their way. Whichever
    // trigger is the reason, none of them is to fire for what is left.
    let low = |limit: Option<u64>, count: u64| {
        let reached = limit.filter(|limit| count >= *limit);
        reached.map(|limit| scale(limit, ratio(budget.target, budget.room)))
    };
    goal.messages = low(policy.trigger.messages, before.messages);
    goal.turns = low(policy.trigger.turns, before.turns);
    if goal.messages.is_some() || goal.turns.is_some() {
        keep.tokens = 0;
    }
    // An expression may be about anything: it is met by making the list half as large at least.
    if reason == Reason::When && before.tokens <= goal.target {
        goal.target = before.tokens / 2;
    }
    let mut draft = Draft::new(*subject, edits.to_vec(), &policy.pin, &keep, goal);
    let reports = descend(&policy.ladder, &mut draft, goal, circumstances.window, &circumstances.outside, cancel)?;
    let gain = before.tokens.saturating_sub(draft.size().tokens);
    // Where what must stay is above the low mark, waiting makes compactions as rare as the marks promise.
    let out_of_reach = draft.untouchable() > goal.target;
    let high = match reason {
        Reason::Tokens => policy.trigger.tokens.unwrap_or(budget.room),
        _ => scale(budget.room, policy.trigger.ratio.unwrap_or(1.0)),
    };
    let least = if out_of_reach { budget.min_gain.max(high.saturating_sub(goal.target)) } else { budget.min_gain };
    let after = draft.into_edits();
    if gain == 0 {
        return Ok(Outcome::HeldBack(None));
    }
    let must = before.tokens > budget.room || !matches!(reason, Reason::Ratio | Reason::Tokens | Reason::Idle);
    if !must && gain < least {
        return Ok(Outcome::HeldBack(Some(HeldBack::LittleGain)));
    }
    if !must && reason != Reason::Idle && policy.break_even && !pays(subject, edits, &after, gain, circumstances.prices) {
        return Ok(Outcome::HeldBack(Some(HeldBack::BreakEven)));
    }
    Ok(Outcome::Made(Compacted { edits: after, reports }))
}

/// Whether the requests still to come, as many as there were so far, save more by the smaller list than reading anew
/// what stands behind the first change costs.
fn pays(subject: &Subject<'_>, before: &[Edit], after: &[Edit], gain: u64, prices: Option<Prices>) -> bool {
    let Some(Prices { cache_read, cache_write }) = prices else { return true };
    let requests = 1 + subject.measures.iter().filter(|measure| measure.role == Role::Assistant).count() as u64;
    let first = before.iter().zip(after).position(|(before, after)| before != after).unwrap_or(after.len());
    let behind: u64 = subject.measures.iter().zip(after).skip(first).map(|(measure, edit)| tokens_of(measure, edit)).sum();
    as_float(requests) * as_float(gain) * cache_read > as_float(behind) * (cache_write - cache_read)
}
