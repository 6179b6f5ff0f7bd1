//! One conversation through the planner, request by request, as the proxy would plan it.

use std::collections::HashMap;
use std::sync::Arc;

use super::conversation;
use crate::core::Cancel;
use crate::core::conversation::{Fingerprint, Measure};
use crate::core::edit::Checkpoint;
use crate::core::models::ModelFacts;
use crate::core::planner::{
    Counting, KnownCheckpoint, KnownUsage, LiveFacts, Plan, Planner, Seeds, Session,
};
use crate::core::policy::{Policy, RequestFacts};
use crate::core::strategy::{ExternalInputs, Report, Stopped};
use crate::core::summary::{Spent, State, Summaries, Summary};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;

const DIALECT: Dialect = Dialect::ChatCompletions;
const ENCODING: Encoding = Encoding::O200K;
/// Requests that come while a summary is written.
const WRITING: usize = 2;

/// What became of a conversation.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// The requests that were compacted, by number.
    compacted: Vec<usize>,
    /// Requests in all.
    pub(super) requests: usize,
    /// Requests that did not fit.
    pub(super) unfit: usize,
    /// Summaries that were asked for.
    pub(super) summaries: usize,
    /// The names of the steps that ran, with the number of those that changed something.
    steps: HashMap<&'static str, usize>,
    /// The most steps of the ladder that one compaction came to.
    deepest: usize,
}

/// The planner's memory.
#[derive(Default)]
struct Memory {
    checkpoints: HashMap<Fingerprint, Arc<Checkpoint>>,
    measures: std::cell::RefCell<HashMap<Fingerprint, Measure>>,
    /// Summaries by prefix: the request that each is ready at.
    summaries: HashMap<Fingerprint, usize>,
}

impl Played {
    /// Plays a conversation that grows by `turns`, in a window.
    pub(super) fn new(policy: &Policy, turns: &[Vec<String>], window: u64) -> Self {
        let mut played = Played::default();
        let mut memory = Memory::default();
        let mut list = String::new();
        for turn in turns {
            for message in turn {
                if !list.is_empty() {
                    list.push(',');
                }
                list.push_str(message);
            }
            played.requests += 1;
            let body = conversation::request(&list);
            // A webhook is not asked here: such a request goes on without a plan.
            if let Some(plan) = memory.plan(policy, &body, window, played.requests) {
                played.record(plan, policy, &mut memory);
            }
        }
        played
    }

    fn record(&mut self, plan: Plan, policy: &Policy, memory: &mut Memory) {
        self.unfit += usize::from(!plan.fits);
        if let Some(compaction) = &plan.compaction {
            let of_ladder = |report: &&Report| {
                let mut names = policy.ladder.iter().map(|step| step.strategy.name());
                names.any(|name| name == report.strategy)
            };
            let reports: Vec<&Report> = compaction.reports.iter().filter(of_ladder).collect();
            // The cut of an oversize result is no step of the ladder.
            if reports.iter().any(|report| report.acted()) {
                self.compacted.push(self.requests);
            }
            self.deepest = self.deepest.max(reports.len());
            for report in reports {
                *self.steps.entry(report.strategy).or_default() += usize::from(report.acted());
            }
        }
        if let Some(pending) = plan.pending_summary {
            self.summaries += 1;
            memory
                .summaries
                .insert(pending.key, self.requests + WRITING);
        }
        if let Some((key, checkpoint)) = plan.checkpoint {
            memory.checkpoints.insert(key, Arc::new(checkpoint));
        }
    }

    /// Number of compactions.
    pub(super) fn compactions(&self) -> usize {
        self.compacted.len()
    }

    /// Requests behind the first compaction.
    pub(super) fn requests_after_first(&self) -> usize {
        let first = self.compacted.first().copied().unwrap_or(self.requests);
        self.requests - first + 1
    }

    /// Whether the ladder's step at this place ran.
    pub(super) fn reached(&self, step: usize) -> bool {
        step < self.deepest
    }

    /// Whether a step of this name changed something.
    pub(super) fn acted(&self, strategy: &str) -> bool {
        self.steps.get(strategy).is_some_and(|times| *times > 0)
    }
}

impl Memory {
    fn plan(&self, policy: &Policy, body: &str, window: u64, request: usize) -> Option<Plan> {
        let cancel = Cancel::default();
        let outline = DIALECT.outline(body.as_bytes()).ok()?;
        let message = |raw: &str| {
            let key = Fingerprint::of(raw.as_bytes());
            if let Some(known) = self.measures.borrow().get(&key) {
                return Ok(*known);
            }
            let measure = DIALECT.measure(raw, ENCODING)?;
            self.measures.borrow_mut().insert(key, measure);
            Ok(measure)
        };
        let counting = Counting {
            encoding: ENCODING,
            message: &message,
            fixed: &|outline| DIALECT.count_fixed(outline, ENCODING),
        };
        let session = Session::open(DIALECT, outline, &counting, &cancel).ok()?;
        let seed = Fingerprint::of(b"baler check");
        let seeds = Seeds {
            checkpoint: seed,
            usage: seed,
        };
        let facts = RequestFacts::default();
        let planner = Planner::new(
            policy,
            (&ModelFacts::default(), window),
            &facts,
            seeds,
            &cancel,
        );
        self.decide(&planner, &session, request).ok()
    }

    fn decide(
        &self,
        planner: &Planner<'_>,
        session: &Session<'_>,
        request: usize,
    ) -> Result<Plan, Stopped> {
        let summaries = planner.policy.summarize().map(|_| {
            let keys = session.summary_keys(&planner.seeds.checkpoint);
            let states = keys.iter().map(|key| self.summary(key, request)).collect();
            Summaries::new(keys, states, false)
        });
        let external = ExternalInputs {
            answers: &[],
            summaries: summaries.as_ref(),
        };
        let keys = session.checkpoint_keys(&planner.seeds.checkpoint);
        let known = keys.iter().rev().find_map(|key| {
            Some(KnownCheckpoint {
                messages: key.messages,
                checkpoint: Arc::clone(self.checkpoints.get(&key.prefix)?),
            })
        });
        let derived = planner.derive(session, known.as_ref(), &external)?;
        let keys = derived.usage_keys(planner, session);
        let unknown = KnownUsage::default();
        let live = LiveFacts::default();
        planner.decide(session, derived, (&keys, &unknown), &external, live)
    }

    fn summary(&self, key: &Fingerprint, request: usize) -> Option<State> {
        let ready_at = *self.summaries.get(key)?;
        if request < ready_at {
            return Some(State::Running);
        }
        let text = "## Goal\nThe user plans work; parts and prices were discussed.\n";
        Some(State::Ready(Arc::new(Summary {
            text: text.into(),
            tokens: 20,
            generation: 1,
            incremental: false,
            split: false,
            spent: Spent::default(),
        })))
    }
}
