//! The decision about one request: what the walk derived, and what live facts force beyond it.

use super::attempt::{Attempt, calls_in};
use super::compact::{Outcome, Task};
use super::derive::Derived;
use super::estimate::Estimate;
use super::forecast::{Listed, Near, near};
use super::input::{KnownUsage, LiveFacts, UsageKey};
use super::plan::{Arrived, Assessment, Compaction, Deferred, Plan};
use super::planner::Planner;
use super::session::Session;
use super::watch::Watch;
use crate::core::budget::Budget;
use crate::core::conversation::{Fingerprint, Size, scale};
use crate::core::edit::{
    Checkpoint, Draft, Edit, MeasuredConversation, Target, is_synthetic, size_of_edited, unused_of,
    validate,
};
use crate::core::policy::{Condition, Reason};
use crate::core::strategy::{ExternalInputs, Stopped};
use crate::core::summary::{self, Forecast, PendingSummary};
use crate::core::tokens::FactorStep;

impl Planner<'_> {
    /// Decides about the request itself. `keys` are [`Derived::usage_keys`], and `known` is what
    /// the ledger knows of them.
    ///
    /// # Errors
    /// [`Stopped`], as for [`Planner::derive`]; and [`Stopped::Invalid`] for a result that must not
    /// be sent.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is known at another moment, and used once"
    )]
    pub fn decide(
        &self,
        session: &Session<'_>,
        derived: Derived,
        (keys, known): (&[UsageKey], &KnownUsage),
        external: &ExternalInputs<'_>,
        live: LiveFacts,
    ) -> Result<Plan, Stopped> {
        Decision {
            planner: self,
            session,
            external,
            live,
        }
        .plan(derived, keys, known)
    }

    /// Assesses a request that is sent as it came, without a decision.
    #[must_use]
    pub fn assess(
        &self,
        session: &Session<'_>,
        (keys, known): (&[UsageKey], &KnownUsage),
        live: &LiveFacts,
    ) -> Assessment {
        let estimate = Estimate::of(session, None, keys, known, live);
        let window = live.learned.narrowed(self.window);
        let capacity = self.capacity(window);
        let budget = self.policy.budget_for(capacity, live.max_output_tokens);
        let (_, size) = estimate.reported_sizes(estimate.size);
        Assessment {
            size,
            budget,
            estimate: estimate.known,
        }
    }
}

/// Whether something was condensed in the list that `edits` leave, by them or by a client that
/// sends compacted lists.
fn is_compacted(conversation: &MeasuredConversation<'_>, edits: &[Edit]) -> bool {
    edits.iter().any(|edit| *edit != Edit::Keep) || conversation.messages.iter().any(is_synthetic)
}

/// All that a decision is made from besides the request itself.
struct Decision<'d, 'p, 'b> {
    planner: &'d Planner<'p>,
    session: &'d Session<'b>,
    external: &'d ExternalInputs<'d>,
    live: LiveFacts,
}

impl Decision<'_, '_, '_> {
    /// Turns the outcome of the walk into a plan. `keys` are the usage keys of the list that it
    /// left, `known` is what the ledger knows of them.
    fn plan(
        &self,
        derived: Derived,
        keys: &[UsageKey],
        known: &KnownUsage,
    ) -> Result<Plan, Stopped> {
        let (planner, session) = (self.planner, self.session);
        let all = vec![Edit::Keep; session.len()];
        let mut estimate = Estimate::of(session, Some(&derived.edits), keys, known, &self.live);
        let (mut made_at, derived_end) = (derived.made_at, derived.can_resume);
        let (attempt, arrived) = (derived.attempt, derived.arrived);
        let window = self.live.learned.narrowed(planner.window);
        let mut plan = Plan {
            before: size_of_edited(session.measures(), session.fixed_tokens(), &all),
            after: estimate.size,
            budget: planner
                .policy
                .budget_for(planner.capacity(window), self.live.max_output_tokens),
            fits: true,
            deferred: derived.deferred,
            trigger_errors: derived.trigger_errors,
            checkpoint: None,
            estimate: estimate.known,
            edits: derived.edits,
            replayed: derived.replayed,
            compaction: derived.compaction,
            arrived,
            forced_by_size: false,
            pending_summary: None,
        };
        let reason = self.forced(&mut plan, &estimate, known, attempt);
        plan.forced_by_size = matches!(reason, Some(Reason::Ratio | Reason::Tokens));
        if let Some(reason) = reason
            && let Some(after) = self.compact_now(&mut plan, &estimate, reason)?
        {
            estimate = after;
            made_at = Some(session.len());
        }
        plan.estimate = estimate.known;
        plan.fits = estimate.size.tokens <= plan.budget.prompt;
        // What the edits removed is added to what is left, so that both figures are made alike.
        (plan.before, plan.after) = estimate.reported_sizes(plan.before);
        plan.pending_summary = self.pending_summary(&plan)?;
        if derived_end && plan.compaction.is_none() {
            made_at = made_at.or(Some(session.len()));
        }
        if made_at.is_some() || arrived != Arrived::Nothing {
            self.check(&plan.edits)?;
        }
        if let Some(at) = made_at {
            let compacted_at = match &plan.compaction {
                Some(_) => at,
                None => attempt.map_or(0, Attempt::length),
            };
            plan.checkpoint = self.freeze(at, &plan.edits, compacted_at);
        }
        Ok(plan)
    }

    /// The reason for a compaction that the walk could not know. A decision that the walk made by
    /// the same numbers is not made again.
    fn forced(
        &self,
        plan: &mut Plan,
        estimate: &Estimate,
        known: &KnownUsage,
        attempt: Option<Attempt>,
    ) -> Option<Reason> {
        let Planner { policy, .. } = *self.planner;
        if let Some(refused) = self.live.refused {
            if let Some(compaction) = &mut plan.compaction {
                compaction.reason = Reason::Overflow;
            }
            // What follows from the lesson of the refusal alone is what every replica derives.
            let is_same = refused.list == estimate.known.key;
            let is_forced = is_same || estimate.size.tokens > plan.budget.prompt;
            return is_forced.then_some(Reason::Overflow);
        }
        if self.live.force {
            return Some(Reason::Forced);
        }
        let knows_more = estimate.size.tokens > estimate.known.counted
            || plan.budget.prompt < self.planner.budget().prompt;
        if knows_more || policy.when.as_ref().is_some_and(Condition::reads_headers) {
            let watch = Watch {
                previous: 0,
                session: self.session,
                planner: self.planner,
                budget: plan.budget,
                now: true,
            };
            let measures = self.session.measures();
            let errors = &mut plan.trigger_errors;
            let fired = watch.fires(measures, &plan.edits, self.beyond_step(estimate), errors);
            let is_over = estimate.size.tokens > plan.budget.prompt;
            let too_soon = fired.is_some_and(|reason| {
                let last = attempt.filter(|_| !is_over);
                let grown = (measures.len(), calls_in(measures));
                last.is_some_and(|last| last.is_too_near(reason, grown, self.planner))
            });
            if too_soon {
                plan.deferred = Some(Deferred::TooSoon);
            } else if fired.is_some() || is_over {
                return fired.or(Some(Reason::Ratio));
            }
        }
        let idle = policy.idle?;
        let cold = known.silence.is_some_and(|silence| silence >= idle.after)
            && estimate.size.tokens >= scale(plan.budget.prompt, idle.ratio);
        cold.then_some(Reason::Idle)
    }

    /// The size that decides whether usage forces a compaction. What the step of derived decisions
    /// covers does not: other replicas would not know of it, and undo it.
    fn beyond_step(&self, estimate: &Estimate) -> Size {
        let tokens = estimate.size.tokens;
        let tokens = if self.external.is_silent() {
            FactorStep::without_margin(tokens).max(estimate.known.counted.min(tokens))
        } else {
            tokens
        };
        Size {
            tokens,
            ..estimate.size
        }
    }

    /// A budget, which is in the upstream's tokens, in ours. Where no answer from outside keeps
    /// replicas apart, its target follows the step of derived decisions as long as that is near
    /// enough to `factor`: replicas that learned from other requests then come to the same list.
    fn in_counted(&self, budget: Budget, factor: f64) -> Budget {
        let step = self.planner.step;
        let exact = budget.in_counted(factor);
        let derived = budget.in_counted(step.factor());
        let agrees = self.external.is_silent() && step.tolerates(factor);
        if !agrees || derived.target > exact.prompt {
            return exact;
        }
        Budget {
            prompt: exact.prompt,
            ..derived
        }
    }

    /// Compacts beyond what the walk did. Gives the new estimate where that changed the list.
    fn compact_now(
        &self,
        plan: &mut Plan,
        estimate: &Estimate,
        reason: Reason,
    ) -> Result<Option<Estimate>, Stopped> {
        let Ok(conversation) = self.planner.view(self.session)? else {
            plan.deferred = Some(Deferred::BrokenPairing);
            return Ok(None);
        };
        let mut budget = self.in_counted(plan.budget, estimate.factor());
        if reason == Reason::Forced && estimate.known.counted <= budget.target {
            // Forced again and again, a list comes to rest at the target.
            if is_compacted(&conversation, &plan.edits) {
                return Ok(None);
            }
            // Forced once, a short list shows an effect, too.
            budget.target = estimate.known.counted / 2;
        }
        let planner = self.planner;
        let task = Task {
            planner,
            budget,
            reason,
            external: self.external,
            writes: true,
        };
        match task.compact(&conversation, &plan.edits)? {
            Outcome::Made(compacted) => {
                plan.edits = compacted.edits;
                plan.compaction = Some(Compaction {
                    reason,
                    reports: compacted.reports,
                });
                plan.deferred = None;
                let seed = planner.seeds.usage;
                Ok(Some(estimate.after_edits(&conversation, &plan.edits, seed)))
            }
            Outcome::Deferred(why) => {
                plan.deferred = why.or(plan.deferred);
                Ok(None)
            }
        }
    }

    /// The summary that is to be prepared now, so that it exists when a trigger fires.
    fn pending_summary(&self, plan: &Plan) -> Result<Option<PendingSummary>, Stopped> {
        let policy = self.planner.policy;
        let (Some((step, options)), Some(summaries)) =
            (policy.summarize(), self.external.summaries)
        else {
            return Ok(None);
        };
        let Budget { prompt, target, .. } = plan.budget;
        // As the trigger will see it.
        let unused: u64 = plan.edits.iter().map(unused_of).sum();
        let list = Listed {
            size: Size {
                tokens: plan.after.tokens.saturating_add(unused),
                ..plan.after
            },
            edits: &plan.edits,
            budget: plan.budget,
        };
        let Some(near) = self.near(list, options) else {
            return Ok(None);
        };
        let Ok(conversation) = self.planner.view(self.session)? else {
            return Ok(None);
        };
        let goal = Target::of_tokens(target, prompt);
        let edits = plan.edits.clone();
        let keep = if step.strategy.keeps_its_own() {
            policy.least_keep
        } else {
            policy.keep
        };
        let draft = Draft::new(conversation, edits, &policy.pin, &keep, goal);
        // When the summary is used, the list will have grown up to the trigger.
        let now = plan.after.tokens;
        let forecast = Forecast {
            budget: Budget {
                min_gain: near.min_gain,
                ..plan.budget
            },
            tokens: now.max(near.tokens),
            growth: near.tokens.saturating_sub(now),
        };
        let older_than = step.scope.older_than;
        Ok(summary::next(
            &draft, options, older_than, forecast, summaries,
        ))
    }

    /// The trigger to prepare a summary for. A request that asked to be compacted, and lacks one,
    /// asks again at any size.
    fn near(&self, list: Listed<'_>, options: &summary::Options) -> Option<Near> {
        let near = near(self.planner, self.session, list, options.prepare_at);
        near.or_else(|| {
            self.live.force.then_some(Near {
                tokens: list.size.tokens,
                min_gain: 1,
            })
        })
    }

    /// INVARIANT: no list is sent or recorded that is not a valid chat with everything that must
    /// stay.
    fn check(&self, edits: &[Edit]) -> Result<(), Stopped> {
        let conversation = self.planner.view(self.session)?;
        let messages = conversation.map_err(|_| Stopped::Invalid)?.messages;
        validate(self.session.dialect(), messages, edits).map_err(|_| Stopped::Invalid)
    }

    /// The checkpoint of the first `at` messages, with its key.
    fn freeze(
        &self,
        at: usize,
        edits: &[Edit],
        compacted_at: usize,
    ) -> Option<(Fingerprint, Checkpoint)> {
        let keys = self.session.checkpoint_keys(&self.planner.seeds.checkpoint);
        let key = keys.iter().find(|key| key.messages == at)?;
        let checkpoint =
            Checkpoint::freeze(self.session.measures(), edits.get(..at)?, compacted_at);
        Some((key.prefix, checkpoint))
    }
}
