//! One run of the planner for one request: steps 5 to 8 of its life. The ledger is asked in two
//! steps, for all keys at once.

use std::borrow::Cow;
use std::time::Duration;

use crate::core::Cancel;
use crate::core::conversation::Fingerprint;
use crate::core::planner::{
    Arrived, Assessment, Basis, CheckpointKey, Deferred, KnownUsage, Lesson, LiveFacts,
    ModelCalibration, NotPlanned, Plan, Planner, Seeds, Session, UsageEstimate, UsageKey,
};
use crate::core::policy::OnUnfit;
use crate::core::strategy::{ExternalInputs, Need, Stopped};
use crate::core::summary::Summaries;
use crate::core::tokens::FactorStep;
use crate::ledger::{Lookup, Missing, Points, Scope};
use crate::observe::event::{
    Action, CheckpointLookedUp, ConditionFailed, DecisionReason, DoesNotFit, PassReason, Phase,
    Sizes,
};
use crate::proxy::Shared;
use crate::proxy::clock::Clock;
use crate::proxy::exchange::Decision;
use crate::proxy::plan_keys::Keys;
use crate::proxy::plan_open::open;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned, Purpose, Run, pieces};
use crate::summarizer::DueSummary;

/// The outcome of one run.
pub(super) enum PlanOutcome {
    Planned(Box<Planned>),
    /// It cannot go on without an answer to this. A summary would be this conversation's entry of
    /// the ledger.
    Asks(Box<Need>, Scope),
    /// The ledger's store may know more of the conversation than memory does.
    LooksUp(Lookup),
    /// It is not as brief as the run was to be.
    TakesLong,
}

/// Plans once, with what was gathered from outside so far.
///
/// # Errors
/// [`PlanFailure`]: the deadline is over, or the result must not be sent.
pub(super) fn run_once(
    shared: &Shared,
    request: &PlanRequest,
    run: &Run,
    cancel: &Cancel,
) -> Result<PlanOutcome, PlanFailure> {
    let mut clock = Clock::start(shared);
    let session = match open(shared, (request, run), cancel, &mut clock) {
        Ok(session) => session,
        Err(NotPlanned::Unreadable(unreadable)) => {
            return Ok(planned(passed(request, unreadable.into())));
        }
        Err(NotPlanned::Cancelled(_)) => return Err(PlanFailure::Deadline),
    };
    let usage_seed = shared.identities.usage_seed(request, session.outline());
    let is_assessed = matches!(run.purpose, Purpose::Assess);
    let mut planning = Planning {
        shared,
        request,
        run,
        session: &session,
        keys: if is_assessed {
            Keys::of_assessed(request, &session, usage_seed)
        } else {
            Keys::of(shared, request, &session, usage_seed)
        },
        cancel,
    };
    if is_assessed {
        return Ok(planned(planning.assessed()));
    }
    if let Some(lookup) = planning.missing() {
        return Ok(PlanOutcome::LooksUp(lookup));
    }
    let made = planning.plan();
    clock.lap(Phase::Decide);
    let made = match made {
        Ok(made) => made,
        Err(Stopped::Cancelled) => return Err(PlanFailure::Deadline),
        Err(Stopped::Invalid) => return Err(PlanFailure::Invalid),
        Err(Stopped::TakesLong) => return Ok(PlanOutcome::TakesLong),
        Err(Stopped::Asks(need)) => return Ok(PlanOutcome::Asks(need, planning.keys.scope)),
    };
    let concluded = planning.conclude(made);
    clock.lap(Phase::Render);
    Ok(planned(concluded))
}

/// The key of the whole list.
fn last(keys: &[CheckpointKey]) -> Option<Fingerprint> {
    keys.last().map(|key| key.prefix)
}

fn planned(planned: Planned) -> PlanOutcome {
    PlanOutcome::Planned(Box::new(planned))
}

/// A request that is forwarded as it came, for this reason.
fn passed(request: &PlanRequest, reason: PassReason) -> Planned {
    Planned {
        decision: Decision::passed(reason, request.window.tokens),
        body: None,
        rejected: false,
        compaction: None,
        due: None,
        waited: Duration::ZERO,
    }
}

/// All that one run plans with. The ledger is asked for all keys of a kind at once.
struct Planning<'r, 'b> {
    shared: &'r Shared,
    request: &'r PlanRequest,
    run: &'r Run,
    session: &'r Session<'b>,
    keys: Keys,
    cancel: &'r Cancel,
}

/// A plan, and what goes with it.
struct Made {
    plan: Plan,
    /// What its usage will teach.
    lesson: Option<Lesson>,
    /// The key of the checkpoint that it replays.
    replayed: Option<Fingerprint>,
}

impl Planning<'_, '_> {
    /// A request that the gate let through, with its size.
    fn assessed(&self) -> Planned {
        let planner = self.planner(self.request.window.tokens, self.seeds());
        let keys = planner.usage_keys(self.session);
        let Assessment {
            size,
            budget,
            estimate,
        } = planner.assess(
            self.session,
            (&keys, &self.usage(&keys)),
            &self.live_facts(),
        );
        let mut planned = passed(self.request, PassReason::Gate);
        planned.decision.sizes = Some(Sizes {
            before: size,
            after: size,
        });
        planned.decision.budget = Some(budget);
        planned.decision.estimate = Some(estimate);
        planned.decision.usage_slot = Some((self.keys.scope, estimate.key));
        planned.decision.prefix = last(&self.keys.points);
        planned
    }

    fn seeds(&self) -> Seeds {
        Seeds {
            checkpoint: self.request.checkpoint_seed,
            usage: self.keys.usage_seed,
        }
    }

    /// What the ledger's store may know of the conversation and memory does not, where this run may
    /// still ask for it. The step that the conversation is planned by is not known before: the
    /// checkpoints of those that are likely are asked for with the rest.
    fn missing(&mut self) -> Option<Lookup> {
        if !self.run.may_look_up {
            self.keys.knows_all = self.run.knows_all;
            return None;
        }
        let (request, ledger) = (self.request, &self.shared.ledger);
        let near = FactorStep::nearest(self.learned_now().factor);
        let mut steps = vec![FactorStep::default(), near, near.above()];
        steps.dedup();
        let window = self.derived_window();
        let chain = |step: &FactorStep| {
            let seed = request.checkpoint_seed_by(window, *step);
            self.session.checkpoint_keys(&seed)
        };
        let usage = || {
            let planner = self.planner(window, self.seeds());
            planner.usage_keys(self.session)
        };
        let chains = || steps.iter().map(chain).collect();
        let missing = ledger.missing(&Points {
            scope: self.keys.scope,
            model: request.model_scope(),
            points: &self.keys.points,
            checkpoints: &chains,
            reports: &self.keys.reports,
            usage: &usage,
            summaries: &self.keys.summaries,
            measures: self.session.measures(),
        });
        self.keys.knows_all = !matches!(missing, Missing::Unknown);
        match missing {
            Missing::Entries(lookup) => Some(lookup),
            Missing::Nothing | Missing::Unknown => None,
        }
    }

    fn plan(&self) -> Result<Made, Stopped> {
        let summaries = self.summaries();
        let external = ExternalInputs {
            answers: &self.run.answers,
            summaries: summaries.as_ref(),
        };
        // The key of the replayed checkpoint, by the step that was tried.
        let mut replayed: Vec<(FactorStep, Option<Fingerprint>)> = Vec::new();
        let mut plan_by = |window: u64, step: FactorStep, basis: Basis| {
            let (plan, key) = self.plan_by(&external, window, (step, basis))?;
            replayed.push((step, key));
            Ok(plan)
        };
        // The answers of others cannot be derived: with any to ask, what the upstream taught only
        // forces.
        let mut lesson = self.lesson().filter(|_| external.is_silent());
        let plan = match &mut lesson {
            Some(lesson) => {
                let window = self.derived_window();
                lesson.plan(|step, basis| plan_by(window, step, basis))?
            }
            None => {
                let is_derived = external.is_silent();
                let derived = is_derived.then(|| self.derived_window());
                let window = derived.unwrap_or(self.request.window.tokens);
                plan_by(window, FactorStep::default(), Basis::Derived)?
            }
        };
        let step = lesson.map(|lesson| lesson.step()).unwrap_or_default();
        let used = replayed.iter().rev().find(|(tried, _)| *tried == step);
        Ok(Made {
            plan,
            lesson,
            replayed: used.and_then(|(_, key)| *key),
        })
    }

    /// The plan by a window and a step, from a basis; and the key of the checkpoint it replays.
    fn plan_by(
        &self,
        external: &ExternalInputs<'_>,
        window: u64,
        (step, basis): (FactorStep, Basis),
    ) -> Result<(Plan, Option<Fingerprint>), Stopped> {
        let (session, ledger) = (self.session, &self.shared.ledger);
        let checkpoint = self.request.checkpoint_seed_by(window, step);
        let usage = self.keys.usage_seed;
        let planner = Planner {
            step,
            goes_on: basis != Basis::Derived,
            ..self.planner(window, Seeds { checkpoint, usage })
        };
        let known_by = match basis {
            Basis::Derived => checkpoint,
            Basis::Sent(before) => self.request.checkpoint_seed_by(window, before),
        };
        let points = if known_by == self.request.checkpoint_seed {
            Cow::Borrowed(&self.keys.points)
        } else {
            Cow::Owned(session.checkpoint_keys(&known_by))
        };
        let known = ledger.longest_checkpoint(&points);
        let replayed = known.as_ref().and_then(|known| {
            let mut points = points.iter();
            points.find(|key| key.messages == known.messages)
        });
        let derived = planner.derive(session, known.as_ref(), external)?;
        let keys = derived.usage_keys(&planner, session);
        let usage = (&*keys, &self.usage(&keys));
        let plan = planner.decide(session, derived, usage, external, self.live_facts())?;
        Ok((plan, replayed.map(|key| key.prefix)))
    }

    fn planner(&self, window: u64, seeds: Seeds) -> Planner<'_> {
        let Planning {
            request, cancel, ..
        } = self;
        let model = (&request.known, window);
        Planner::new(&request.policy, model, &request.facts, seeds, cancel)
    }

    fn usage(&self, keys: &[UsageKey]) -> KnownUsage {
        let needs_silence = self.request.policy.idle.is_some();
        self.shared.ledger.known_usage(keys, needs_silence)
    }

    /// What the upstream has taught of the model by now.
    fn learned_now(&self) -> ModelCalibration {
        let (key, policy) = (&self.request.model_key, &self.request.policy);
        self.shared.ledger.learned(key, policy.calibration_factor)
    }

    /// The lesson of the conversation for derived decisions.
    fn lesson(&self) -> Option<Lesson> {
        let (request, ledger) = (self.request, &self.shared.ledger);
        let prefixes = &self.keys.reports;
        let learned = self.learned_now().factor;
        let elsewhere = Lesson::elsewhere(learned, request.prior, prefixes, request.body.len());
        Lesson::of(prefixes, ledger.evidence(prefixes), elsewhere)
    }

    /// The window that derived decisions assume: what the upstream told when it refused a request
    /// is the same for every replica.
    fn derived_window(&self) -> u64 {
        let window = self.request.window;
        let told = match self.run.refused() {
            Some(_) => self.learned_now(),
            None => window.learned,
        };
        told.narrowed(window.tokens)
    }

    /// The summaries that exist for prefixes of the request, where its policy wants any.
    fn summaries(&self) -> Option<Summaries> {
        self.request.origin.as_ref()?;
        let summarizer = self.shared.summarizers.of(&self.request.policy);
        let ledger = &self.shared.ledger;
        let keys = self.keys.summaries.iter();
        let states = keys.map(|key| summarizer.state(ledger, key)).collect();
        let may_ask = self.run.may_ask;
        Some(Summaries::new(self.keys.summaries.clone(), states, may_ask))
    }

    fn live_facts(&self) -> LiveFacts {
        LiveFacts {
            max_output_tokens: self.session.outline().max_output_tokens,
            force: self.request.force,
            learned: self.learned(),
            prior: self.request.prior,
            refused: self.run.refused().map(|refused| refused.list),
        }
    }

    /// What the upstream taught about the model. A refused request is planned with what its refusal
    /// taught.
    fn learned(&self) -> ModelCalibration {
        let Some(refused) = self.run.refused() else {
            return if self.run.may_look_up {
                self.request.window.learned
            } else {
                // What other replicas learned was looked up since the request was read.
                self.learned_now()
            };
        };
        let known = self.learned_now();
        let windows = [known.window, refused.narrowed];
        ModelCalibration {
            window: windows.into_iter().flatten().min(),
            ..known
        }
    }

    /// Reports, records and renders a plan.
    fn conclude(&self, made: Made) -> Planned {
        let (shared, request, session) = (self.shared, self.request, self.session);
        let Made {
            plan,
            lesson,
            replayed,
        } = made;
        let (policy, observe) = (&*request.policy, request.is_observed());
        // A request is counted once, however often it is planned.
        if !matches!(self.run.purpose, Purpose::Retry(_)) {
            report(shared, request, &plan);
        }
        let decision = Decision {
            lesson,
            ..self.decision(&plan, observe)
        };
        let rejects = policy.delivery.on_unfit == OnUnfit::Reject && !observe;
        let edited = plan.edited() && !observe;
        let body = edited.then(|| pieces(&request.body, &session.render(&plan.edits)));
        let rejected = does_not_fit(&plan) && rejects;
        let is_compaction = plan.compaction.is_some();
        let checkpoint = plan.checkpoint;
        let to = (shared, request);
        self.keys.record(to, checkpoint, is_compaction, replayed);
        Planned {
            decision,
            body,
            rejected,
            compaction: plan.compaction,
            due: plan.pending_summary.map(|pending| DueSummary {
                scope: self.keys.scope,
                pending,
            }),
            waited: Duration::ZERO,
        }
    }

    /// The decision that a plan amounts to, for the record and the headers.
    fn decision(&self, plan: &Plan, observe: bool) -> Decision {
        let (action, reason) = action_of(plan, observe);
        // Its cost grows with the list: only where it is used.
        let is_used = observe || self.shared.ledger.is_shared();
        let of_all = is_used.then(|| {
            let (measures, fixed) = (self.session.measures(), self.session.fixed_tokens());
            UsageEstimate::of_all(&self.keys.usage_seed, measures, fixed)
        });
        // An observed request is sent as it came: its usage is that of the whole list.
        let estimate = of_all.filter(|_| observe).unwrap_or(plan.estimate);
        let points = &self.keys.points;
        let made = plan.compaction.as_ref();
        Decision {
            action,
            reason,
            sizes: Some(Sizes {
                before: plan.before,
                after: plan.after,
            }),
            budget: Some(plan.budget),
            window: plan.budget.window,
            estimate: Some(estimate),
            lesson: None,
            usage_slot: of_all.map(|all| (self.keys.scope, all.key)),
            strategies: plan.strategies(),
            prefix: last(points),
            cached_before: made.and_then(|_| self.shared.cached.of(points)),
        }
    }
}

/// A list whose calls and results do not match is not Baler's to make fit.
fn does_not_fit(plan: &Plan) -> bool {
    !plan.fits && plan.deferred != Some(Deferred::BrokenPairing)
}

fn report(shared: &Shared, request: &PlanRequest, plan: &Plan) {
    let metrics = &shared.metrics;
    CheckpointLookedUp {
        found: plan.replayed,
    }
    .emit(metrics);
    if let Some(why) = &plan.trigger_errors.first {
        ConditionFailed {
            policy: &request.policy.name,
            times: plan.trigger_errors.times,
            why,
            is_first: shared.seen.is_first_failure(&request.policy.name),
        }
        .emit(metrics);
    }
    if does_not_fit(plan) {
        DoesNotFit {
            id: &request.id,
            policy: &request.policy.name,
            tokens: plan.after.tokens,
            budget: plan.budget.prompt,
        }
        .emit(metrics);
    }
}

/// What a plan amounts to, and why.
fn action_of(plan: &Plan, observe: bool) -> (Action, DecisionReason) {
    let compaction = plan.compaction.as_ref();
    if !plan.edited() {
        let reason = if does_not_fit(plan) {
            PassReason::Unfit
        } else if let Some(deferred) = plan.deferred {
            deferred.into()
        } else {
            PassReason::BelowTrigger
        };
        return (Action::None, DecisionReason::Passed(reason));
    }
    let (action, reason) = match compaction {
        Some(made) => (Action::Compacted, DecisionReason::Triggered(made.reason)),
        None if plan.arrived == Arrived::Now => (Action::Compacted, DecisionReason::Arrival),
        None => (Action::Replayed, DecisionReason::Checkpoint),
    };
    let action = if observe { Action::Observed } else { action };
    (action, reason)
}
