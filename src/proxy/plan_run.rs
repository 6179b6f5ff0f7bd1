//! One run of the planner for one request: DESIGN.md 4, steps 5 to 8. The ledger is asked in two
//! steps, for all keys at once.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::Cancel;
use crate::core::edit::Piece;
use crate::core::planner::{
    Assessment, Deferred, KnownUsage, Lesson, LiveFacts, ModelCalibration, NotPlanned, Plan,
    Planner, Seeds, Session, UsageEstimate, UsageKey, gate,
};
use crate::core::policy::OnUnfit;
use crate::core::strategy::{ExternalInputs, Need, Stopped};
use crate::core::summary::Summaries;
use crate::core::tokens::FactorStep;
use crate::core::wire::Unreadable;
use crate::ledger::Owner;
use crate::observe::event::{
    Action, CheckpointLookedUp, ConditionFailed, DecisionReason, DoesNotFit, LadderRan, PassReason,
    Phase, PhaseTimed, Sizes,
};
use crate::proxy::Shared;
use crate::proxy::exchange::Decision;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned, Purpose, Run};

/// The outcome of one run.
pub(super) enum PlanOutcome {
    Planned(Box<Planned>),
    /// It cannot go on without an answer to this.
    Asks(Box<Need>),
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
    let session = match open(shared, request, cancel, &mut clock) {
        Ok(session) => session,
        Err(NotPlanned::Unreadable(unreadable)) => {
            return Ok(planned(passed(request, unreadable.into())));
        }
        Err(NotPlanned::Cancelled(_)) => return Err(PlanFailure::Deadline),
    };
    let seeds = Seeds {
        checkpoint: request.checkpoint_seed,
        usage: shared.identities.usage_seed(request, session.outline()),
    };
    let planning = Planning {
        shared,
        request,
        run,
        session: &session,
        seeds,
        cancel,
    };
    if matches!(run.purpose, Purpose::Assess) {
        return Ok(planned(assessed(request, planning.assess())));
    }
    let plan = planning.plan();
    clock.lap(Phase::Decide);
    let (plan, lesson) = match plan {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(PlanFailure::Deadline),
        Err(Stopped::Invalid) => return Err(PlanFailure::Invalid),
        Err(Stopped::Asks(need)) => return Ok(PlanOutcome::Asks(need)),
    };
    let mut concluded = conclude(shared, request, &session, plan, seeds);
    concluded.decision.lesson = lesson;
    clock.lap(Phase::Render);
    Ok(planned(concluded))
}

fn planned(planned: Planned) -> PlanOutcome {
    PlanOutcome::Planned(Box::new(planned))
}

/// Outlines the body and measures its messages.
fn open<'b>(
    shared: &Shared,
    request: &'b PlanRequest,
    cancel: &Cancel,
    clock: &mut Clock<'_>,
) -> Result<Session<'b>, NotPlanned> {
    let (dialect, encoding) = (request.dialect, request.encoding());
    let outline = dialect.outline(&request.body)?;
    if outline.messages.len() > shared.snapshot.config.limits.messages {
        return Err(Unreadable::Unusual.into());
    }
    clock.lap(Phase::View);
    let owner = Owner {
        tenant: &request.tenant,
        dialect,
        encoding,
    };
    let measures = &shared.ledger.measures;
    let all = measures.measure_all(owner, &outline, cancel)?;
    let fixed = measures.fixed_tokens(owner, &outline);
    clock.lap(Phase::Measure);
    Ok(Session::measured(dialect, outline, (all, fixed, encoding)))
}

/// A request that is forwarded as it came, for this reason.
fn passed(request: &PlanRequest, reason: PassReason) -> Planned {
    Planned {
        decision: Decision::passed(reason, request.window.tokens),
        body: None,
        rejected: false,
        pending: None,
        waited: Duration::ZERO,
    }
}

/// A request that the gate let through, with its size.
fn assessed(request: &PlanRequest, assessment: Assessment) -> Planned {
    let mut planned = passed(request, PassReason::Gate);
    let Assessment {
        size,
        budget,
        estimate,
    } = assessment;
    planned.decision.sizes = Some(Sizes {
        before: size,
        after: size,
    });
    planned.decision.budget = Some(budget);
    planned.decision.estimate = Some(estimate);
    planned
}

/// All that one run plans with. The ledger is asked for all keys of a kind at once.
struct Planning<'r, 'b> {
    shared: &'r Shared,
    request: &'r PlanRequest,
    run: &'r Run,
    session: &'r Session<'b>,
    seeds: Seeds,
    cancel: &'r Cancel,
}

impl Planning<'_, '_> {
    /// The size of a request that was sent as it came.
    fn assess(&self) -> Assessment {
        let planner = self.planner(self.request.window.tokens, self.seeds);
        let keys = planner.usage_keys(self.session);
        planner.assess(
            self.session,
            (&keys, &self.usage(&keys)),
            &self.live_facts(),
        )
    }

    /// The plan, and what its usage will teach.
    fn plan(&self) -> Result<(Plan, Option<Lesson>), Stopped> {
        let summaries = self.summaries();
        let external = ExternalInputs {
            answers: &self.run.answers,
            summaries: summaries.as_ref(),
        };
        // The answers of others cannot be derived: with any to ask, what the upstream taught only
        // forces.
        if !external.is_silent() {
            let plan =
                self.plan_by(&external, self.request.window.tokens, FactorStep::default())?;
            return Ok((plan, None));
        }
        let window = self.derived_window();
        let mut lesson = self.lesson();
        let plan = match &mut lesson {
            Some(lesson) => lesson.plan(|step| self.plan_by(&external, window, step))?,
            None => self.plan_by(&external, window, FactorStep::default())?,
        };
        Ok((plan, lesson))
    }

    /// The plan by a window and a step.
    fn plan_by(
        &self,
        external: &ExternalInputs<'_>,
        window: u64,
        step: FactorStep,
    ) -> Result<Plan, Stopped> {
        let (session, ledger) = (self.session, &self.shared.ledger);
        let checkpoint = self.request.checkpoint_seed_by(window, step);
        let usage = self.seeds.usage;
        let planner = Planner {
            step,
            ..self.planner(window, Seeds { checkpoint, usage })
        };
        let checkpoint = ledger.longest_checkpoint(&session.checkpoint_keys(&checkpoint));
        let derived = planner.derive(session, checkpoint.as_ref(), external)?;
        let keys = derived.usage_keys(&planner, session);
        let known = (&*keys, &self.usage(&keys));
        planner.decide(session, derived, known, external, self.live_facts())
    }

    fn planner(&self, window: u64, seeds: Seeds) -> Planner<'_> {
        let Planning {
            request, cancel, ..
        } = self;
        let model = (request.model.as_deref(), window);
        Planner::new(&request.policy, model, &request.facts, seeds, cancel)
    }

    fn usage(&self, keys: &[UsageKey]) -> KnownUsage {
        let needs_silence = self.request.policy.idle.is_some();
        self.shared.ledger.known_usage(keys, needs_silence)
    }

    /// The lesson of the conversation for derived decisions.
    fn lesson(&self) -> Option<Lesson> {
        let (request, ledger) = (self.request, &self.shared.ledger);
        let prefixes = self.session.checkpoint_keys(&request.conversation_seed());
        let learned = ledger.learned(&request.model_key).factor;
        let elsewhere = Lesson::elsewhere(learned, request.prior, &prefixes, request.body.len());
        Lesson::of(&prefixes, ledger.evidence(&prefixes), elsewhere)
    }

    /// The window that derived decisions assume: what the upstream told when it refused a request
    /// is the same for every replica.
    fn derived_window(&self) -> u64 {
        let window = self.request.window;
        let told = match self.run.refused() {
            Some(_) => self.shared.ledger.learned(&self.request.model_key),
            None => window.learned,
        };
        told.narrowed(window.tokens)
    }

    /// The summaries that exist for prefixes of the request, where its policy wants any.
    fn summaries(&self) -> Option<Summaries> {
        let request = self.request;
        request.origin.as_ref()?;
        let (summarizer, identity) = (&self.shared.summarizer, &request.policy.identity);
        let seed = summarizer.seed(request.dialect, &request.tenant, identity);
        let keys = self.session.summary_keys(&seed);
        let states = keys
            .iter()
            .map(|key| summarizer.state(&self.shared.ledger, key))
            .collect();
        Some(Summaries::new(keys, states, self.run.may_ask))
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
            return self.request.window.learned;
        };
        let known = self.shared.ledger.learned(&self.request.model_key);
        let windows = [known.window, refused.narrowed];
        ModelCalibration {
            window: windows.into_iter().flatten().min(),
            ..known
        }
    }
}

/// Reports, records and renders a plan.
fn conclude(
    shared: &Shared,
    request: &PlanRequest,
    session: &Session<'_>,
    plan: Plan,
    seeds: Seeds,
) -> Planned {
    let (policy, observe) = (&*request.policy, request.is_observed());
    report(shared, request, &plan);
    let decision = decision(&plan, observe, session, seeds);
    let rejects = policy.delivery.on_unfit == OnUnfit::Reject && !observe;
    let edited = plan.edited() && !observe;
    let body = edited.then(|| pieces(&request.body, &session.render(&plan.edits)));
    let rejected = does_not_fit(&plan) && rejects;
    if let Some((prefix, checkpoint)) = plan.checkpoint {
        let budget = policy.budget(request.window.tokens);
        if gate::nothing_can_trigger(request.dialect, &request.body, policy, &budget, 1.0) {
            shared.ledger.never_gate(request.checkpoint_seed);
        }
        shared.ledger.keep_checkpoint(prefix, checkpoint);
    }
    Planned {
        decision,
        body,
        rejected,
        pending: plan.pending_summary,
        waited: Duration::ZERO,
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
    if let Some(compaction) = &plan.compaction {
        LadderRan {
            id: &request.id,
            policy: &request.policy.name,
            reason: compaction.reason,
            reports: &compaction.reports,
        }
        .emit(metrics);
    }
    ConditionFailed {
        times: plan.trigger_errors,
    }
    .emit(metrics);
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

/// The decision that a plan amounts to, for the record and the headers.
fn decision(plan: &Plan, observe: bool, session: &Session<'_>, seeds: Seeds) -> Decision {
    let (action, reason) = action_of(plan, observe);
    // An observed request is sent as it came: its usage is that of the whole list.
    let estimate = if observe {
        UsageEstimate::of_all(&seeds.usage, session.measures(), session.fixed_tokens())
    } else {
        plan.estimate
    };
    let reports = plan
        .compaction
        .iter()
        .flat_map(|compaction| &compaction.reports);
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
        strategies: reports
            .filter(|report| report.acted())
            .map(|report| report.strategy)
            .collect(),
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
    let reason = compaction.map_or(DecisionReason::Checkpoint, |compaction| {
        DecisionReason::Triggered(compaction.reason)
    });
    let action = if observe {
        Action::Observed
    } else if compaction.is_some() {
        Action::Compacted
    } else {
        Action::Replayed
    };
    (action, reason)
}

/// The pieces as slices of the client's body and new bytes.
fn pieces(body: &Bytes, pieces: &[Piece]) -> Vec<Bytes> {
    let slice = |range: &Range<usize>| {
        if range.end <= body.len() && range.start <= range.end {
            body.slice(range.clone())
        } else {
            Bytes::new()
        }
    };
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Client(range) => slice(range),
            Piece::New(json) => Bytes::copy_from_slice(json.as_bytes()),
            Piece::Comma => Bytes::from_static(b","),
        })
        .collect()
}

/// Takes the time of each phase; recorded once, at the end of a run.
struct Clock<'s> {
    shared: &'s Shared,
    last: Instant,
    laps: Vec<(Phase, Duration)>,
}

impl<'s> Clock<'s> {
    fn start(shared: &'s Shared) -> Self {
        Clock {
            shared,
            last: Instant::now(),
            laps: Vec::with_capacity(4),
        }
    }

    fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        match self.laps.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, time)) => *time += took,
            None => self.laps.push((phase, took)),
        }
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        for (phase, took) in self.laps.drain(..) {
            PhaseTimed { phase, took }.emit(&self.shared.metrics);
        }
    }
}
