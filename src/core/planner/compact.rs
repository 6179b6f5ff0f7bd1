//! One compaction: the ladder, and whether its result is worth a rewrite of what the upstream has
//! cached.

use super::plan::Deferred;
use super::planner::Planner;
use super::session::Session;
use crate::core::budget::Budget;
use crate::core::conversation::{Measure, Size, Speaker, scale};
use crate::core::edit::{Draft, Edit, Keep, MeasuredConversation, Target, tokens_of, validate};
use crate::core::policy::{Policy, Reason, pays};
use crate::core::strategy::{Descent, ExternalInputs, Report, Stopped};
use crate::core::text::Failures;

/// A compaction that is worth it.
pub(super) struct Compacted {
    /// One per message.
    pub edits: Vec<Edit>,
    /// What each step did.
    pub reports: Vec<Report>,
    /// Whether it made a digest that is only counted.
    pub left_unwritten: bool,
}

pub(super) enum Outcome {
    Made(Compacted),
    /// Nothing is to be changed; with a reason where there was something to gain.
    Deferred(Option<Deferred>),
}

impl Planner<'_> {
    /// Compacts a request at once, whatever its triggers, to at most `target` prompt tokens where
    /// the ladder can. What the ladder leaves above `room`, in prompt tokens and not less than
    /// `target`, is cut from the newest results.
    ///
    /// # Errors
    /// [`Stopped`], as for [`Planner::derive`]; a list whose calls and results do not match is
    /// [`Stopped::Invalid`].
    pub fn compact_to(
        &self,
        session: &Session<'_>,
        target: u64,
        room: u64,
        external: &ExternalInputs<'_>,
    ) -> Result<(Vec<Edit>, Vec<Report>), Stopped> {
        let conversation = self.view(session)?.map_err(|_| Stopped::Invalid)?;
        let edits = vec![Edit::Keep; session.len()];
        if conversation.size_after(&edits).tokens <= target {
            return Ok((edits, Vec::new()));
        }
        let budget = Budget {
            window: room,
            prompt: room.max(target),
            target,
            min_gain: 0,
        };
        let task = Task {
            planner: self,
            budget,
            reason: Reason::Forced,
            external,
            writes: true,
        };
        match task.compact(&conversation, &edits)? {
            Outcome::Made(compacted) => {
                validate(session.dialect(), conversation.messages, &compacted.edits)
                    .map_err(|_| Stopped::Invalid)?;
                Ok((compacted.edits, compacted.reports))
            }
            Outcome::Deferred(_) => Ok((edits, Vec::new())),
        }
    }
}

/// A compaction to be made: who decides, by which numbers, and why.
#[derive(Clone, Copy)]
pub(super) struct Task<'t> {
    pub planner: &'t Planner<'t>,
    pub budget: Budget,
    pub reason: Reason,
    pub external: &'t ExternalInputs<'t>,
    /// Whether digests are written now, and not only counted.
    pub writes: bool,
}

impl Task<'_> {
    /// Runs the ladder on `edits`. While the request still fits, the gain must be worth a rewrite
    /// of what the upstream has cached.
    pub(super) fn compact(
        self,
        conversation: &MeasuredConversation<'_>,
        edits: &[Edit],
    ) -> Result<Outcome, Stopped> {
        let (budget, reason) = (self.budget, self.reason);
        let Planner {
            policy,
            window,
            cancel,
            prices,
            ..
        } = *self.planner;
        cancel.check()?;
        let before = conversation.size_after(edits);
        let (target, [keep, least]) = target_of(policy, budget, reason, before);
        let mut draft = Draft::new(*conversation, edits.to_vec(), &policy.pin, &keep, target)
            .with_least(&policy.pin, &least, target);
        let descent = Descent {
            ladder: &policy.ladder,
            target,
            window,
            failures: Failures::new(&policy.failures),
            external: self.external,
            writes: self.writes,
            cancel,
        };
        let reports = descent.run(&mut draft)?;
        let gain = before.tokens.saturating_sub(draft.size().tokens);
        let least = least_gain(policy, budget, reason, &draft, target);
        let left_unwritten = draft.left_unwritten();
        let condensed_from = draft.condensed_from();
        let after = draft.into_edits();
        if gain == 0 {
            return Ok(Outcome::Deferred(None));
        }
        let by_size = matches!(reason, Reason::Ratio | Reason::Tokens | Reason::Idle);
        let must = before.tokens > budget.prompt || !by_size;
        let fits = before.tokens.saturating_sub(gain) <= budget.prompt;
        // What cannot fit is not mangled for a little.
        if (fits && !must && gain < least) || (!fits && gain < budget.min_gain) {
            return Ok(Outcome::Deferred(Some(Deferred::BelowMinGain)));
        }
        let must_pay = !must && reason != Reason::Idle && policy.break_even;
        if must_pay {
            let requests = conversation.measures.iter();
            let requests = requests.filter(|m| m.speaker == Speaker::Assistant).count();
            let behind = tokens_behind(conversation.measures, (edits, &after), condensed_from);
            if !pays(1 + requests as u64, gain, behind, prices) {
                return Ok(Outcome::Deferred(Some(Deferred::BreakEven)));
            }
        }
        Ok(Outcome::Made(Compacted {
            left_unwritten,
            edits: after,
            reports,
        }))
    }
}

/// Where the compaction is to end, and how much of the newest part it keeps: by default, and at
/// least.
fn target_of(policy: &Policy, budget: Budget, reason: Reason, before: Size) -> (Target, [Keep; 2]) {
    let mut keep = [policy.keep, policy.least_keep];
    // Counts come down by the same share as tokens do, whichever trigger is the reason: none of
    // them is to fire for what is left.
    let low = |limit: Option<u64>, count: u64| {
        let reached = limit.filter(|limit| count >= *limit);
        reached.map(|limit| policy.low_count(limit, &budget))
    };
    let mut target = Target {
        target: budget.target,
        prompt: budget.prompt,
        messages: low(policy.trigger.messages, before.messages),
        turns: low(policy.trigger.turns, before.turns),
        tool_uses: low(policy.trigger.tool_uses, before.tool_uses),
        fillers: 0,
    };
    // A tail measured in tokens must not prevent a lower count.
    if target.is_by_count() {
        keep.iter_mut().for_each(|keep| keep.tokens = 0);
    }
    // An expression may be about anything: the list becomes half as large at least.
    if reason == Reason::Condition && before.tokens <= target.target {
        target.target = before.tokens / 2;
    }
    (target, keep)
}

/// The least gain, tokens. Where head and tail alone are above the target, waiting for more makes
/// compactions as rare as trigger and target promise.
fn least_gain(
    policy: &Policy,
    budget: Budget,
    reason: Reason,
    draft: &Draft<'_>,
    target: Target,
) -> u64 {
    if draft.untouchable() <= target.target {
        return budget.min_gain;
    }
    let high = match reason {
        Reason::Tokens => policy.trigger.tokens.unwrap_or(budget.prompt),
        _ => scale(
            budget.prompt,
            policy.trigger.ratio_in(budget.window).unwrap_or(1.0),
        ),
    };
    budget.min_gain.max(high.saturating_sub(target.target))
}

/// Tokens of the new list from its first change on: what the upstream must read again. A digest
/// that was made anew, where `condensed_from` says, is a change whether its text is known or not.
fn tokens_behind(
    measures: &[Measure],
    (before, after): (&[Edit], &[Edit]),
    condensed_from: Option<usize>,
) -> u64 {
    let changed = before.iter().zip(after).position(|(was, is)| was != is);
    let first = changed.into_iter().chain(condensed_from).min();
    let first = first.unwrap_or(after.len());
    let behind = measures.iter().zip(after).skip(first);
    behind.map(|(measure, edit)| tokens_of(measure, edit)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::edit::Replacement;
    use crate::core::tokens::Encoding;
    use crate::core::wire::Dialect;

    #[test]
    fn a_digest_made_anew_is_a_change_also_where_only_its_room_is_known() {
        let dialect = Dialect::ChatCompletions;
        let json = r#"{"role":"user","content":"one two three"}"#;
        let measure = dialect.measure(json, Encoding::O200K).unwrap();
        let measures = [measure; 4];
        let digest = Replacement::counted(dialect, json.to_owned(), 300).unwritten();
        let list = |last: Edit| [Edit::Stand([digest.clone()].into()), Edit::Keep, last];
        let (before, after) = (list(Edit::Keep), list(Edit::Drop));
        let behind = |from| tokens_behind(&measures, (&before, &after), from);
        assert_eq!(behind(None), 0, "the last message is gone");
        assert_eq!(behind(Some(0)), 300 + measure.tokens);
        assert_eq!(behind(Some(1)), measure.tokens);
        assert_eq!(tokens_behind(&measures, (&after, &after), None), 0);
    }
}
