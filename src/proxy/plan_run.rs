//! One run of the planner for one request: DESIGN.md 4, steps 5 to 8. The ledger is asked in two
//! steps, for all keys at once.

use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::core::Cancel;
use crate::core::conversation::Fingerprint;
use crate::core::edit::Piece;
use crate::core::planner::{
    Assessment, CheckpointKey, Deferred, LiveFacts, ModelCalibration, NotPlanned, Plan, Planner,
    Seeds, Session, UsageEstimate, UsageKey, gate,
};
use crate::core::policy::OnUnfit;
use crate::core::strategy::{ExternalInputs, Need, Stopped};
use crate::core::summary::Summaries;
use crate::core::wire::Unreadable;
use crate::ledger::Owner;
use crate::observe::event::{
    Action, CheckpointLookedUp, ConditionFailed, DecisionReason, DoesNotFit, PassReason, Phase,
    PhaseTimed, Sizes,
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
        let keys = session.checkpoint_keys(&seeds.checkpoint);
        return Ok(planned(assessed(request, assessment, last(&keys))));
    }

    let keys = session.checkpoint_keys(&seeds.checkpoint);
    let checkpoint = shared.ledger.longest_checkpoint(&keys);
    let summaries = summaries(shared, request, run, &session);
    let external = ExternalInputs {
        answers: &run.answers,
        summaries: summaries.as_ref(),
    };
    let plan = planner
        .derive(&session, checkpoint.as_ref(), &external)
        .and_then(|derived| {
            let keys = derived.usage_keys(&planner, &session);
            planner.decide(&session, derived, (&keys, &usage(&keys)), &external, live)
        });
    clock.lap(Phase::Decide);
    let plan = match plan {
        Ok(plan) => plan,
        Err(Stopped::Cancelled) => return Err(PlanFailure::Deadline),
        Err(Stopped::Invalid) => return Err(PlanFailure::Invalid),
        Err(Stopped::Asks(need)) => return Ok(PlanOutcome::Asks(need)),
    };
    let made = plan.compaction.as_ref();
    let cached_before = made.and_then(|_| shared.cached.of(&keys));
    let mut concluded = conclude(shared, request, &session, plan, seeds);
    concluded.decision.prefix = last(&keys);
    concluded.decision.cached_before = cached_before;
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
        compaction: None,
        pending: None,
        waited: Duration::ZERO,
    }
}

/// A request that the gate let through, with its size.
fn assessed(request: &PlanRequest, assessment: Assessment, prefix: Option<Fingerprint>) -> Planned {
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
    planned.decision.prefix = prefix;
    planned
}

/// The summaries that exist for prefixes of the request, where its policy wants any.
fn summaries(
    shared: &Shared,
    request: &PlanRequest,
    run: &Run,
    session: &Session<'_>,
) -> Option<Summaries> {
    request.origin.as_ref()?;
    let (summarizer, identity) = (&shared.summarizer, &request.policy.identity);
    let keys = session.summary_keys(&summarizer.seed(request.dialect, &request.tenant, identity));
    let states = keys
        .iter()
        .map(|key| summarizer.state(&shared.ledger, key))
        .collect();
    Some(Summaries::new(keys, states, run.may_ask))
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
        return request.window.learned;
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
        compaction: plan.compaction,
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
        strategies: reports
            .filter(|report| report.acted())
            .map(|report| report.strategy)
            .collect(),
        prefix: None,
        cached_before: None,
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
