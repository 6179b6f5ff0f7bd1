//! One run of the planner for one request: DESIGN.md 4, steps 5 to 8. The ledger is asked in two
//! steps, for all keys at once.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::Cancel;
use crate::core::edit::Piece;
use crate::core::planner::{
    Assessment, Deferred, LiveFacts, ModelCalibration, NotPlanned, Plan, Planner, Seeds, Session,
    UsageEstimate, UsageKey,
};
use crate::core::policy::OnUnfit;
use crate::core::strategy::{ExternalInputs, Need, Stopped};
use crate::core::summary::Summaries;
use crate::core::wire::Unreadable;
use crate::ledger::{Lookup, Owner, Scope};
use crate::observe::event::{
    Action, CheckpointLookedUp, ConditionFailed, DecisionReason, DoesNotFit, LadderRan, PassReason,
    Phase, PhaseTimed, Sizes,
};
use crate::proxy::Shared;
use crate::proxy::exchange::Decision;
use crate::proxy::plan_keys::{Keys, scope_of};
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned, Purpose, Run};
use crate::summarizer::DueSummary;

/// The outcome of one run.
pub(super) enum PlanOutcome {
    Planned(Box<Planned>),
    /// It cannot go on without an answer to this. A summary would be this conversation's entry of
    /// the ledger.
    Asks(Box<Need>, Scope),
    /// The ledger's store may know more of the conversation than memory does.
    LooksUp(Lookup),
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
    let model = (request.model.as_deref(), request.window.tokens);
    let planner = Planner::new(&request.policy, model, &request.facts, seeds, cancel);
    let live = live_facts(shared, request, run, &session);
    let usage = |keys: &[UsageKey]| {
        let needs_silence = request.policy.idle.is_some();
        shared.ledger.known_usage(keys, needs_silence)
    };
    if matches!(run.purpose, Purpose::Assess) {
        let keys = planner.usage_keys(&session);
        let assessment = planner.assess(&session, (&keys, &usage(&keys)), &live);
        return Ok(planned(assessed(request, &session, assessment)));
    }

    let mut keys = Keys::of(shared, request, &session, seeds);
    if let Some(lookup) = keys.missing((shared, request, run), &planner, &session) {
        return Ok(PlanOutcome::LooksUp(lookup));
    }
    let checkpoint = shared.ledger.longest_checkpoint(&keys.checkpoints);
    keys.replayed(checkpoint.as_ref());
    let summaries = summaries(shared, request, run, &keys);
    let external = ExternalInputs {
        answers: &run.answers,
        summaries: summaries.as_ref(),
    };
    let plan = planner
        .derive(&session, checkpoint.as_ref(), &external)
        .and_then(|derived| {
            let lists = derived.usage_keys(&planner, &session);
            planner.decide(&session, derived, (&lists, &usage(&lists)), &external, live)
        });
    clock.lap(Phase::Decide);
    let plan = match plan {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(PlanFailure::Deadline),
        Err(Stopped::Invalid) => return Err(PlanFailure::Invalid),
        Err(Stopped::Asks(need)) => return Ok(PlanOutcome::Asks(need, keys.scope)),
    };
    let concluded = conclude(shared, request, &session, plan, &keys);
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
    let measures = shared.ledger.measures();
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
        due: None,
        waited: Duration::ZERO,
    }
}

/// A request that the gate let through, with its size.
fn assessed(request: &PlanRequest, session: &Session<'_>, assessment: Assessment) -> Planned {
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
    planned.decision.usage_slot = Some((scope_of(request, session), estimate.key));
    planned
}

/// The summaries that exist for prefixes of the request, where its policy wants any.
fn summaries(shared: &Shared, request: &PlanRequest, run: &Run, keys: &Keys) -> Option<Summaries> {
    request.origin.as_ref()?;
    let states = keys
        .summaries
        .iter()
        .map(|key| shared.summarizer.state(&shared.ledger, key))
        .collect();
    Some(Summaries::new(keys.summaries.clone(), states, run.may_ask))
}

fn live_facts(
    shared: &Shared,
    request: &PlanRequest,
    run: &Run,
    session: &Session<'_>,
) -> LiveFacts {
    LiveFacts {
        max_output_tokens: session.outline().max_output_tokens,
        force: request.force,
        learned: learned(shared, request, run),
        prior: request.prior,
        overflow: run.refused().map(|refused| refused.prompt_tokens),
    }
}

/// What the upstream taught about the model. A refused request is planned with what its refusal
/// taught.
fn learned(shared: &Shared, request: &PlanRequest, run: &Run) -> ModelCalibration {
    let Some(refused) = run.refused() else {
        return if run.may_look_up {
            request.window.learned
        } else {
            // What other replicas learned was looked up since the request was read.
            shared.ledger.learned(&request.model_key)
        };
    };
    let known = shared.ledger.learned(&request.model_key);
    let windows = [known.window, refused.narrowed];
    ModelCalibration {
        window: windows.into_iter().flatten().min(),
        ..known
    }
}

/// Reports, records and renders a plan.
fn conclude(
    shared: &Shared,
    request: &PlanRequest,
    session: &Session<'_>,
    plan: Plan,
    keys: &Keys,
) -> Planned {
    let (policy, observe) = (&*request.policy, request.is_observed());
    report(shared, request, &plan);
    let decision = decision(&plan, observe, session, keys);
    let rejects = policy.delivery.on_unfit == OnUnfit::Reject && !observe;
    let edited = plan.edited() && !observe;
    let body = edited.then(|| pieces(&request.body, &session.render(&plan.edits)));
    let rejected = does_not_fit(&plan) && rejects;
    let is_compaction = plan.compaction.is_some();
    keys.record(shared, request, plan.checkpoint, is_compaction);
    Planned {
        decision,
        body,
        rejected,
        due: plan.pending_summary.map(|pending| DueSummary {
            scope: keys.scope,
            pending,
        }),
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
fn decision(plan: &Plan, observe: bool, session: &Session<'_>, keys: &Keys) -> Decision {
    let (action, reason) = action_of(plan, observe);
    let (measures, fixed) = (session.measures(), session.fixed_tokens());
    let of_all = UsageEstimate::of_all(&keys.seeds.usage, measures, fixed);
    // An observed request is sent as it came: its usage is that of the whole list.
    let estimate = if observe { of_all } else { plan.estimate };
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
        usage_slot: Some((keys.scope, of_all.key)),
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
