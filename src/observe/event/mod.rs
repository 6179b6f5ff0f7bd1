//! Events: one struct each. Its `emit` writes the log line and the metrics of one thing that
//! happened; an event without a log line is counted only.
//!
//! To add a metric: a field in the `...Metrics` of one file here, its registration there, and the
//! `emit` that updates it.

pub(in crate::observe) mod compaction;
pub(in crate::observe) mod connect;
pub(in crate::observe) mod discovery;
pub(in crate::observe) mod ended;
pub(in crate::observe) mod genai;
pub(in crate::observe) mod ledger;
pub(in crate::observe) mod overflow;
pub(in crate::observe) mod planning;
pub(in crate::observe) mod request;
pub(in crate::observe) mod savings;
pub(in crate::observe) mod summary;
pub(in crate::observe) mod traffic;
pub(in crate::observe) mod usage;
pub(in crate::observe) mod webhook;

use std::time::Duration;

pub use compaction::{Change, CompactionMade};
pub use connect::{ConnectFailed, ConnectPhase};
pub use discovery::{DiscoveryEnded, DiscoveryOutcome, UnknownModel, UnknownModelsAreMany};
pub use ended::{RequestEnded, Settlement};
pub use genai::{ErrorType, Operation, Provider, TokenType};
pub use ledger::{
    EvictionReason, LedgerBreaker, LedgerError, LedgerEvicted, LedgerFailed, LedgerLookedUp,
    LedgerQueued, LedgerSetAside, LedgerSize, LedgerTimed, LedgerUnreachable, LedgerWritten,
    StoreKind, StoreOperation, StoreResult, WriteResult,
};
pub use overflow::{Overflowed, RescueOutcome};
pub use planning::{
    CheckpointLookedUp, ConditionFailed, DoesNotFit, FailureCause, LookupResult, PassReason, Phase,
    PhaseTimed, PlanBegan, PlanEnded, PlanningFailed, RequestPassed,
};
pub use request::{
    Action, DecisionReason, Endpoint, OpenToAll, RequestAdmitted, RequestRefused, RequestReleased,
    Side, SignedBodySeen, Sizes, StatusClass, StreamEnd, UncompactedApi,
};
pub use summary::{
    CallOutcome, SkipReason, SpentKind, SummarizerCalled, SummarizerMetrics, SummaryChecked,
    SummaryEnded, SummaryOutcome, SummaryReleased, SummarySkipped, SummaryStarted, SummaryState,
};
pub use traffic::{Stage, TokenKind, TrafficMetrics, TrafficMode};
pub use usage::{TruncationSuspected, UsageIncluded, UsageLearned};
pub use webhook::{WebhookCalled, WebhookOutcome};

/// Milliseconds, to a thousandth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A count as the value of a gauge.
fn gauge_value(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
