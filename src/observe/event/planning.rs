//! Planning: how long its phases took, and what came of it.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntGauge};
use tracing::warn;

use crate::core::planner::Deferred;
use crate::core::wire::chat::Unreadable;
use crate::observe::Metrics;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series};

labels! {
    /// Where Baler's own time went.
    pub enum Phase {
        /// Waiting for a thread that plans; bodies that are planned on the event loop wait for
        /// none.
        Queue = "queue",
        /// Viewing the body: fields, messages, exchanges.
        View = "view",
        /// Fingerprints and token counts.
        Measure = "measure",
        /// Replay, estimate, decision, compaction, validation.
        Decide = "decide",
        /// Rendering, and what the ledger keeps of the plan.
        Render = "render",
        /// Everything that the request waited for in Baler.
        Total = "total",
    }
}

labels! {
    /// Why an inspected request was forwarded as it came.
    pub enum PassReason {
        /// The gate proved from the body's length that no trigger can fire.
        Gate = "gate",
        /// The request opted out by header.
        Header = "header",
        /// The policy's mode is `off`.
        Policy = "policy",
        /// The request is signed, or names a digest of its body.
        SignedBody = "signed_body",
        /// The body has a content encoding that is not decoded.
        EncodedBody = "encoded_body",
        /// The body is longer than `limits.body_bytes`.
        TooLarge = "too_large",
        /// `limits.memory_bytes` left no room for the body.
        NoMemory = "no_memory",
        /// The body is not JSON.
        NotJson = "not_json",
        /// The body is JSON, but not a plain chat request.
        UnusualJson = "unusual_json",
        /// A compaction was due, but a result lacks its call.
        BrokenPairing = "broken_pairing",
        /// No trigger fired.
        BelowTrigger = "below_trigger",
        /// A compaction would save less than the policy's minimum gain.
        BelowMinGain = "below_min_gain",
        /// The tokens saved are not worth those the upstream would read anew.
        BreakEven = "break_even",
        /// A count or an expression triggers again too soon after the last compaction.
        TooSoon = "too_soon",
        /// The request does not fit, and no step makes it smaller.
        Unfit = "unfit",
    }
}

impl From<Deferred> for PassReason {
    fn from(deferred: Deferred) -> Self {
        match deferred {
            Deferred::BelowMinGain => PassReason::BelowMinGain,
            Deferred::BreakEven => PassReason::BreakEven,
            Deferred::BrokenPairing => PassReason::BrokenPairing,
            Deferred::TooSoon => PassReason::TooSoon,
        }
    }
}

impl From<Unreadable> for PassReason {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::NotJson => PassReason::NotJson,
            Unreadable::Unusual => PassReason::UnusualJson,
        }
    }
}

labels! {
    /// Why planning failed.
    pub enum FailureCause {
        /// A panic: a defect.
        Panic = "panic",
        /// Planning took longer than `limits.plan_deadline`.
        Deadline = "deadline",
        /// The result was not a valid chat: a defect of a strategy.
        InvalidResult = "invalid_result",
        /// The plan names something that its policy does not have: a defect.
        Internal = "internal",
    }
}

labels! {
    /// Whether a checkpoint matched.
    pub enum LookupResult {
        /// One did.
        Hit = "hit",
        /// None did.
        Miss = "miss",
    }
}

const OVERHEAD_BUCKETS: [f64; 14] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.5,
];

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct PlanningMetrics {
    overhead: Series<Phase, Histogram>,
    passes: Series<PassReason, IntCounter>,
    lookups: Series<LookupResult, IntCounter>,
    failures: Series<FailureCause, IntCounter>,
    unfit: IntCounter,
    trigger_errors: IntCounter,
    in_flight: IntGauge,
}

impl PlanningMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let (overhead, passes) = register_inspection(registrar)?;
        Ok(PlanningMetrics {
            overhead,
            passes,
            lookups: registrar.counter_by(
                "baler_checkpoint_lookups_total",
                "Requests that were looked up in the ledger, by whether a checkpoint matched.",
                "result",
            )?,
            failures: registrar.counter_by(
                "baler_fail_open_total",
                "Requests for which planning failed, by cause.",
                "cause",
            )?,
            unfit: registrar.counter(
                "baler_unfit_total",
                "Requests that could not be made to fit.",
            )?,
            trigger_errors: registrar.counter(
                "baler_trigger_errors_total",
                "Times that a policy's expression failed and its ratio decided.",
            )?,
            in_flight: registrar.gauge(
                "baler_plans_in_flight",
                "Requests being planned, those that wait for a thread included.",
            )?,
        })
    }
}

/// Time per phase, and requests passed by reason.
type Inspection = (Series<Phase, Histogram>, Series<PassReason, IntCounter>);

fn register_inspection(registrar: &mut Registrar) -> Registered<Inspection> {
    let overhead = registrar.histogram_by(
        "baler_overhead_seconds",
        "Time that an inspected request waited for Baler itself, by phase; time spent waiting \
         for clients and upstreams is excluded.",
        "phase",
        &OVERHEAD_BUCKETS,
    )?;
    let passes = registrar.counter_by(
        "baler_passes_total",
        "Chat requests that were forwarded as they came, inspected or not, by reason.",
        "reason",
    )?;
    Ok((overhead, passes))
}

/// Planning of a request began.
#[derive(Debug)]
pub struct PlanBegan;

impl PlanBegan {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.in_flight.inc();
    }
}

/// Planning of a request ended, or its client left.
#[derive(Debug)]
pub struct PlanEnded;

impl PlanEnded {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.in_flight.dec();
    }
}

/// A phase of planning, or all of it, took this long.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct PhaseTimed {
    pub phase: Phase,
    pub took: Duration,
}

impl PhaseTimed {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let seconds = self.took.as_secs_f64();
        metrics.planning.overhead.observe(self.phase, seconds);
    }
}

/// An inspected request is forwarded as it came.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct RequestPassed {
    pub reason: PassReason,
}

impl RequestPassed {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.passes.inc(self.reason);
    }
}

/// The ledger was asked for a checkpoint of a request.
#[derive(Debug)]
pub struct CheckpointLookedUp {
    /// Whether a checkpoint matched.
    pub found: bool,
}

impl CheckpointLookedUp {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let result = if self.found {
            LookupResult::Hit
        } else {
            LookupResult::Miss
        };
        metrics.planning.lookups.inc(result);
    }
}

/// A policy's expression failed while a request was planned.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct ConditionFailed<'e> {
    pub policy: &'e str,
    pub times: u64,
    /// The problem, in words of Baler's own.
    pub why: &'e str,
    /// Whether it is the policy's first: later ones are counted only.
    pub is_first: bool,
}

impl ConditionFailed<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.trigger_errors.inc_by(self.times);
        if self.is_first {
            warn!(
                policy = self.policy,
                cause = self.why,
                "the policy's expression (trigger.when) failed, and a ratio of 0.8 decided; later \
                 failures are counted only"
            );
        }
    }
}

/// A request exceeds its budget after all that was done.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct DoesNotFit<'e> {
    pub id: &'e str,
    pub policy: &'e str,
    pub tokens: u64,
    pub budget: u64,
}

impl DoesNotFit<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.unfit.inc();
        warn!(
            id = self.id,
            policy = self.policy,
            tokens = self.tokens,
            budget = self.budget,
            "unfit: the request exceeds the window after all that the ladder does"
        );
    }
}

/// Planning failed: the policy decides whether the client's bytes are forwarded.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct PlanningFailed {
    pub cause: FailureCause,
}

impl PlanningFailed {
    /// Writes it down. The log line is that of the request.
    pub fn emit(self, metrics: &Metrics) {
        metrics.planning.failures.inc(self.cause);
    }
}
