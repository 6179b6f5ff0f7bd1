//! One compaction: the ladder, and whether what comes of it is worth it.

use crate::core::Cancel;
use crate::core::budget::Budget;
use crate::core::conversation::Speaker;
use crate::core::conversation::{as_float, ratio, scale};
use crate::core::edit::Edit;
use crate::core::edit::{Draft, MeasuredConversation, Target, size_of_edited, tokens_of};
use crate::core::models::Prices;
use crate::core::planner::{Deferred, PlanInput};
use crate::core::policy::{Policy, Reason};
use crate::core::strategy::{Report, Stopped, descend};

pub(super) struct Compacted {
    pub edits: Vec<Edit>,
    pub reports: Vec<Report>,
}

pub(super) enum Outcome {
    Made(Compacted),
    /// Nothing is to be changed; with a reason where there was something to gain.
    Deferred(Option<Deferred>),
}

/// Runs the ladder on `edits`. While the request still fits, what it changes must be worth a rewrite of what the upstream
/// has cached.
pub(super) fn compact(
    conversation: &MeasuredConversation<'_>,
    policy: &Policy,
    edits: &[Edit],
    budget: Budget,
    reason: Reason,
    input: &PlanInput<'_>,
    cancel: &Cancel,
) -> Result<Outcome, Stopped> {
    cancel.check()?;
    let before = size_of_edited(conversation, edits);
    let (mut goal, mut keep) = (
        Target {
            target: budget.target,
            room: budget.room,
            messages: None,
            turns: None,
        },
        policy.keep,
    );
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
    if reason == Reason::Condition && before.tokens <= goal.target {
        goal.target = before.tokens / 2;
    }
    let mut draft = Draft::new(*conversation, edits.to_vec(), &policy.pin, &keep, goal);
    let reports = descend(
        &policy.ladder,
        &mut draft,
        goal,
        input.window,
        &input.outside,
        cancel,
    )?;
    let gain = before.tokens.saturating_sub(draft.size().tokens);
    // Where what must stay is above the low mark, waiting makes compactions as rare as the marks promise.
    let out_of_reach = draft.untouchable() > goal.target;
    let high = match reason {
        Reason::Tokens => policy.trigger.tokens.unwrap_or(budget.room),
        _ => scale(budget.room, policy.trigger.ratio.unwrap_or(1.0)),
    };
    let least = if out_of_reach {
        budget.min_gain.max(high.saturating_sub(goal.target))
    } else {
        budget.min_gain
    };
    let after = draft.into_edits();
    if gain == 0 {
        return Ok(Outcome::Deferred(None));
    }
    let must = before.tokens > budget.room
        || !matches!(reason, Reason::Ratio | Reason::Tokens | Reason::Idle);
    if !must && gain < least {
        return Ok(Outcome::Deferred(Some(Deferred::BelowMinGain)));
    }
    if !must
        && reason != Reason::Idle
        && policy.break_even
        && !pays(conversation, edits, &after, gain, input.prices)
    {
        return Ok(Outcome::Deferred(Some(Deferred::BreakEven)));
    }
    Ok(Outcome::Made(Compacted {
        edits: after,
        reports,
    }))
}

/// Whether the requests still to come, as many as there were so far, save more by the smaller list than reading anew
/// what stands behind the first change costs.
fn pays(
    conversation: &MeasuredConversation<'_>,
    before: &[Edit],
    after: &[Edit],
    gain: u64,
    prices: Option<Prices>,
) -> bool {
    let Some(Prices {
        cache_read,
        cache_write,
    }) = prices
    else {
        return true;
    };
    let requests = 1 + conversation
        .measures
        .iter()
        .filter(|measure| measure.speaker == Speaker::Assistant)
        .count() as u64;
    let first = before
        .iter()
        .zip(after)
        .position(|(before, after)| before != after)
        .unwrap_or(after.len());
    let behind: u64 = conversation
        .measures
        .iter()
        .zip(after)
        .skip(first)
        .map(|(measure, edit)| tokens_of(measure, edit))
        .sum();
    as_float(requests) * as_float(gain) * cache_read > as_float(behind) * (cache_write - cache_read)
}
