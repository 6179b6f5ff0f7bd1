//! The run down a ladder: each step makes the span smaller until the target is met.

use super::need::{ExternalInputs, Stopped};
use super::options::Run;
use super::oversize;
use super::report::{Done, Report};
use super::role_alternation;
use super::step::Step;
use super::table::Strategy;
use super::webhook::Webhook;
use crate::core::Cancel;
use crate::core::edit::{Draft, Target};

/// Runs the ladder down to the target. Where a list exceeds the room because of its newest exchange
/// alone, that is cut (`oversize`): the one edit that reaches into the tail. It runs first where
/// head and tail alone are too much, and last where nothing else helped.
///
/// # Errors
/// [`Stopped`]: cancelled, or in need of an answer; with the answer, the same call comes to its
/// end.
#[expect(
    clippy::too_many_arguments,
    reason = "the ladder and the draft, the two numbers to reach, and the two ways to stop"
)]
pub fn descend(
    ladder: &[Step],
    draft: &mut Draft<'_>,
    mut target: Target,
    window: u64,
    outside: &ExternalInputs<'_>,
    cancel: &Cancel,
) -> Result<Vec<Report>, Stopped> {
    let mut reports = Vec::with_capacity(ladder.len() + 2);
    let alternates = draft.conversation().family.alternates;
    let room = target.prompt;
    if alternates {
        let with_fillers = draft.size().tokens;
        role_alternation::remove_fillers(draft);
        // About as many fillers will be needed again.
        let fillers = with_fillers.saturating_sub(draft.size().tokens);
        target.prompt = target.prompt.saturating_sub(fillers);
        target.target = target.target.saturating_sub(fillers);
    }
    let first = reported(oversize::NAME, &[], draft, |draft| {
        Ok(oversize::apply_first(draft, target).into())
    })?;
    if first.acted() {
        reports.push(first);
    }
    for (at, step) in ladder.iter().enumerate() {
        cancel.check()?;
        if target.met(draft.size()) {
            break;
        }
        let strategy = &step.strategy;
        let run = Run {
            scope: &step.scope,
            target,
            window,
            webhook: webhooks(ladder.get(..at).unwrap_or_default()).count(),
            external: outside,
            cancel,
        };
        let apply = |draft: &mut Draft<'_>| strategy.apply(&run, draft);
        reports.push(reported(strategy.name(), strategy.counts(), draft, apply)?);
    }
    if alternates {
        role_alternation::insert_fillers(draft);
        target.prompt = room;
    }
    if draft.size().tokens > target.prompt {
        reports.push(reported(oversize::NAME, &[], draft, |draft| {
            Ok(oversize::apply_last(draft, target).into())
        })?);
    }
    Ok(reports)
}

/// The options of the `webhook` steps of a ladder, in order.
pub fn webhooks(ladder: &[Step]) -> impl Iterator<Item = &Webhook> {
    ladder.iter().filter_map(|step| match &step.strategy {
        Strategy::Webhook(webhook) => Some(webhook),
        _ => None,
    })
}

/// Runs one step, and reports it.
fn reported<'a>(
    strategy: &'static str,
    details: &[&'static str],
    draft: &mut Draft<'a>,
    apply: impl FnOnce(&mut Draft<'a>) -> Result<Done, Stopped>,
) -> Result<Report, Stopped> {
    let before = draft.size();
    let done = apply(draft)?;
    let after = draft.size();
    let count = |name: &str| {
        done.details
            .iter()
            .find(|(key, _)| *key == name)
            .map_or(0, |(_, count)| *count)
    };
    Ok(Report {
        strategy,
        before,
        after,
        dropped: before.messages.saturating_sub(after.messages),
        replaced: done.replaced,
        details: details.iter().map(|name| (*name, count(name))).collect(),
    })
}
