//! One request as planning sees it: facts that do not change, the purpose of one run, and what a
//! run comes to.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::request::Parts;

use crate::core::budget::Capacity;
use crate::core::conversation::Fingerprint;
use crate::core::edit::Piece;
use crate::core::models::ModelFacts;
use crate::core::planner::{Compaction, ModelCalibration, PriorUsage, RefusedList};
use crate::core::policy::{Policy, RequestFacts, Source};
use crate::core::strategy::WebhookAnswer;
use crate::core::tokens::{Encoding, FactorStep};
use crate::core::wire::Dialect;
use crate::core::wire::chat::Opening;
use crate::ledger::{Beginning, Scope};
use crate::observe::event::FailureCause;
use crate::proxy::exchange::Decision;
use crate::proxy::headers;
use crate::proxy::read::EffectiveMode;
use crate::summarizer::{DueSummary, SummaryOrigin};

/// A body up to this length, or of which no more is new, is planned on the event loop; any other by
/// the pool.
const INLINE_BYTES: usize = 64 * 1_024;
/// The most known messages of a body that is planned on the event loop.
const INLINE_MESSAGES: usize = 2_000;

/// The facts about one request, each computed once.
#[derive(Debug)]
pub(super) struct PlanRequest {
    /// Its wire format.
    pub dialect: Dialect,
    /// The body.
    pub body: Bytes,
    /// What is known of its beginning from an earlier request.
    pub beginning: Beginning,
    /// Its id, for log lines.
    pub id: String,
    /// Its policy.
    pub policy: Arc<Policy>,
    /// Its mode: the policy's, narrowed by the request's own header.
    pub mode: EffectiveMode,
    /// Whether it asked to be compacted now.
    pub force: bool,
    /// The model it names.
    pub model: Option<String>,
    /// What is known of the model.
    pub known: ModelFacts,
    /// What its tokens are counted in.
    pub encoding: Encoding,
    /// Its path: part of the key of its usage.
    pub path: String,
    /// Fingerprint of its credentials.
    pub tenant: Fingerprint,
    /// The key of everything that the upstream teaches about the model.
    pub model_key: Fingerprint,
    /// The first link of its chain of checkpoints.
    pub checkpoint_seed: Fingerprint,
    /// The context length of its model.
    pub window: RequestWindow,
    /// The facts that the policy's expression may read.
    pub facts: RequestFacts,
    /// Usage that it brings along.
    pub prior: Option<PriorUsage>,
    /// The request for which summaries are made, where the policy wants any.
    pub origin: Option<SummaryOrigin>,
}

/// The context length of a request's model.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestWindow {
    /// By policy, upstream or table, tokens: the basis of derived decisions.
    pub tokens: u64,
    /// Where that figure is from.
    pub source: Source,
    /// The longest prompt of the model, tokens, where it is less than the window.
    pub input_limit: Option<u64>,
    /// What the upstream taught about the model by the time the request was read.
    pub learned: ModelCalibration,
}

impl RequestWindow {
    /// The context length with regard to what the upstream taught, tokens.
    pub(super) fn live(&self) -> u64 {
        self.learned.narrowed(self.tokens)
    }

    /// What the model takes, if its context length were this one.
    pub(super) fn capacity(&self, window: u64) -> Capacity {
        Capacity {
            window,
            input: self.input_limit,
        }
    }
}

impl PlanRequest {
    /// The first link of its chain of checkpoints that are derived by a window and a step: the
    /// upstream may have taught others than were assumed.
    pub(super) fn checkpoint_seed_by(&self, window: u64, step: FactorStep) -> Fingerprint {
        if window == self.window.tokens && step == FactorStep::default() {
            return self.checkpoint_seed;
        }
        let parts: [&[u8]; 3] = [b"learned", &window.to_le_bytes(), &[step.number()]];
        Fingerprint::of_parts_under(&self.checkpoint_seed, &parts)
    }

    /// The first link of the chain of what was reported for conversations: like everything that the
    /// upstream teaches about the model.
    pub(super) fn conversation_seed(&self) -> Fingerprint {
        Fingerprint::of_parts_under(&self.model_key, &[b"conversation"])
    }

    /// Whose entries of the ledger about the model are its own.
    pub(super) fn model_scope(&self) -> Scope {
        Scope {
            tenant: self.tenant,
            group: self.model_key,
        }
    }

    /// Whether only reports are wanted, and the client's bytes are to be sent.
    pub(super) fn is_observed(&self) -> bool {
        self.mode == EffectiveMode::Observe
    }

    /// Whether so much of it is known from an earlier request that a plan, unless it compacts,
    /// takes no longer than that of a short one.
    fn is_mostly_known(&self) -> bool {
        let is_short = |opening: &Opening| {
            let new = self.body.len().saturating_sub(opening.end());
            new <= INLINE_BYTES && opening.len() <= INLINE_MESSAGES
        };
        let reads_messages = self.policy.when.is_some() || self.policy.least_arrival().is_some();
        !self.force && !reads_messages && self.beginning.opening().is_some_and(is_short)
    }

    /// Whether it is planned on the event loop.
    pub(super) fn is_planned_inline(&self, run: &Run) -> bool {
        (run.is_brief || self.body.len() <= INLINE_BYTES) && self.encoding.is_loaded()
    }

    /// Whether summaries may be made for it.
    pub(super) fn may_summarize(&self) -> bool {
        self.mode == EffectiveMode::Enforce && self.policy.summarize().is_some()
    }

    /// How long it may wait for a summary that is not ready.
    pub(super) fn summary_wait(&self) -> Duration {
        let summarize = self.policy.summarize().filter(|_| self.origin.is_some());
        summarize.map_or(Duration::ZERO, |(_, options)| options.wait)
    }

    /// Requests usage on the client's behalf where the policy wants that. Returns whether it did.
    pub(super) fn include_usage(&self, head: &mut Parts, pieces: &mut Vec<Bytes>) -> bool {
        self.policy.delivery.include_usage
            && self.mode == EffectiveMode::Enforce
            && headers::include_usage(self.dialect, head, &self.body, pieces)
    }
}

/// What a run of planning is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// To decide what is sent.
    Send,
    /// To find out the size of a request that was sent as it came.
    Assess,
    /// To make a request smaller that the upstream refused as too long.
    Retry(Refused),
}

/// What a refusal is known to say about a request's length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    /// The list that was refused.
    pub list: RefusedList,
    /// A window that is assumed for this one run.
    pub narrowed: Option<u64>,
}

/// One run of planning: its purpose, and what was gathered from outside so far.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub purpose: Purpose,
    /// The answers of the policy's webhooks.
    pub answers: Vec<WebhookAnswer>,
    /// Whether a step may still ask for a summary and wait for it.
    pub may_ask: bool,
    /// Whether the ledger's store may still be asked.
    pub may_look_up: bool,
    /// Whether memory knows all that the store does.
    pub knows_all: bool,
    /// Whether it is expected to be brief, and given up otherwise.
    pub is_brief: bool,
}

impl Run {
    /// The first run, for which nothing was asked yet.
    pub(super) fn first(request: &PlanRequest, purpose: Purpose) -> Self {
        let webhooks = request.policy.webhooks();
        Run {
            purpose,
            answers: webhooks.map(|_| WebhookAnswer::Unasked).collect(),
            may_ask: !request.summary_wait().is_zero(),
            may_look_up: matches!(purpose, Purpose::Send),
            knows_all: matches!(purpose, Purpose::Send),
            is_brief: !matches!(purpose, Purpose::Retry(_)) && request.is_mostly_known(),
        }
    }

    /// The refusal that the run follows.
    pub(super) fn refused(&self) -> Option<Refused> {
        match self.purpose {
            Purpose::Retry(refused) => Some(refused),
            Purpose::Send | Purpose::Assess => None,
        }
    }
}

/// The result of planning.
#[derive(Debug)]
pub(super) struct Planned {
    /// For the record and the headers.
    pub decision: Decision,
    /// The body to send; the client's when there is none.
    pub body: Option<Vec<Bytes>>,
    /// Whether the policy rejects the request because it does not fit.
    pub rejected: bool,
    /// The compaction that was made for the request.
    pub compaction: Option<Compaction>,
    /// The summary that is worth preparing now.
    pub due: Option<DueSummary>,
    /// Time spent waiting for others.
    pub waited: Duration,
}

/// Why planning failed; the label of `baler_fail_open_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlanFailure {
    /// A panic: a defect.
    #[error("planning panicked")]
    Panic,
    /// Longer than `limits.plan_deadline`.
    #[error("planning took too long")]
    Deadline,
    /// The result was not a valid chat: a defect of a strategy.
    #[error("the result is not valid")]
    Invalid,
    /// The plan asks for a webhook that the policy does not have: a defect.
    #[error("the policy has no such webhook")]
    UnknownWebhook,
}

impl PlanFailure {
    /// The label value.
    #[must_use]
    pub(super) fn cause(self) -> FailureCause {
        match self {
            PlanFailure::Panic => FailureCause::Panic,
            PlanFailure::Deadline => FailureCause::Deadline,
            PlanFailure::Invalid => FailureCause::InvalidResult,
            PlanFailure::UnknownWebhook => FailureCause::Internal,
        }
    }
}

/// The pieces as slices of the client's body and new bytes.
pub(super) fn pieces(body: &Bytes, pieces: &[Piece]) -> Vec<Bytes> {
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
