//! The plan: what is to be done with a request, and what is to be recorded of it.

use super::estimate::UsageEstimate;
use crate::core::budget::Budget;
use crate::core::conversation::{Fingerprint, Size};
use crate::core::edit::{Checkpoint, Edit};
use crate::core::policy::Reason;
use crate::core::strategy::{Report, TrimResults};
use crate::core::summary::PendingSummary;

/// What is to be done with a request.
#[derive(Debug)]
pub struct Plan {
    /// One per message.
    pub edits: Vec<Edit>,
    /// Whether a checkpoint of the ledger was used.
    pub replayed: bool,
    /// The last compaction that was made for this request, possibly at an earlier request point
    /// that no replica had seen.
    pub compaction: Option<Compaction>,
    /// Whether results were edited as they arrived.
    pub arrived: Arrived,
    /// Whether that compaction, or an attempt at it, was forced by the size of the list as the
    /// upstream counts it: no other replica derives it.
    pub forced_by_size: bool,
    /// Size of the client's list.
    pub before: Size,
    /// Size of the list that is sent.
    pub after: Size,
    /// The numbers that it was decided by.
    pub budget: Budget,
    /// Whether the list that is sent fits.
    pub fits: bool,
    /// Why a compaction that a trigger asked for was not made.
    pub deferred: Option<Deferred>,
    /// Failures of the policy's expression, where its ratio decided.
    pub trigger_errors: TriggerErrors,
    /// The checkpoint to keep in the ledger, with its key.
    pub checkpoint: Option<(Fingerprint, Checkpoint)>,
    /// How the size of what is sent was estimated.
    pub estimate: UsageEstimate,
    /// The summary that is worth preparing while the upstream answers.
    pub pending_summary: Option<PendingSummary>,
}

impl Plan {
    /// Whether anything but the client's bytes is to be sent.
    #[must_use]
    pub fn edited(&self) -> bool {
        self.edits.iter().any(|edit| *edit != Edit::Keep)
    }

    /// The strategies that changed something for this request.
    #[must_use]
    pub fn strategies(&self) -> Vec<&'static str> {
        let reports = self.compaction.iter().flat_map(|made| &made.reports);
        let acted = reports.filter(|report| report.acted());
        let mut names: Vec<&'static str> = acted.map(|report| report.strategy).collect();
        if self.arrived == Arrived::Now && !names.contains(&TrimResults::NAME) {
            names.insert(0, TrimResults::NAME);
        }
        names
    }
}

/// Results that were edited as they arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// None.
    Nothing,
    /// With earlier requests only.
    Before,
    /// With this request.
    Now,
}

/// Failures of a policy's expression while one request was planned.
#[derive(Debug, Default)]
pub struct TriggerErrors {
    /// Evaluations that failed.
    pub times: u64,
    /// The problem of the first of them, in words.
    pub first: Option<String>,
}

impl TriggerErrors {
    pub(super) fn add(&mut self, why: String) {
        self.times += 1;
        self.first.get_or_insert(why);
    }
}

/// A compaction that was just made.
#[derive(Debug, Clone)]
pub struct Compaction {
    /// What triggered it.
    pub reason: Reason,
    /// What each step did.
    pub reports: Vec<Report>,
}

/// Why a compaction was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deferred {
    /// It would save less than the policy's minimum gain.
    BelowMinGain,
    /// Its saving is not worth what the upstream would have to read again at the full price.
    BreakEven,
    /// The calls and results of the list do not match: it is forwarded as it came.
    BrokenPairing,
    /// A number of messages or turns, or an expression, triggers again so soon after the last
    /// compaction that the conversation would be rewritten every few requests.
    TooSoon,
}

impl Deferred {
    /// All of them, for metrics.
    pub const ALL: [Deferred; 4] = [
        Deferred::BelowMinGain,
        Deferred::BreakEven,
        Deferred::BrokenPairing,
        Deferred::TooSoon,
    ];

    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Deferred::BelowMinGain => "below_min_gain",
            Deferred::BreakEven => "break_even",
            Deferred::BrokenPairing => "broken_pairing",
            Deferred::TooSoon => "too_soon",
        }
    }
}

/// What is known of a request that is sent as it came, without a decision.
#[derive(Debug, Clone, Copy)]
pub struct Assessment {
    /// Its size.
    pub size: Size,
    /// The numbers it is compared with.
    pub budget: Budget,
    /// How its size was estimated.
    pub estimate: UsageEstimate,
}
