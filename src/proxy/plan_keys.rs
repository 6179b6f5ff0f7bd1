//! The keys of the ledger for one run of the planner: what is looked up before it, and what is
//! recorded after it.

use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;
use crate::core::planner::{CheckpointKey, KnownCheckpoint, Planner, Seeds, Session, gate};
use crate::ledger::{Lookup, Missing, Points, Scope};
use crate::proxy::Shared;
use crate::proxy::plan_request::{PlanRequest, Run};

/// The keys of a conversation.
#[derive(Debug)]
pub(super) struct Keys {
    /// Whose it is.
    pub scope: Scope,
    /// The first links of its chains.
    pub seeds: Seeds,
    /// Of its checkpoints, shortest first.
    pub checkpoints: Vec<CheckpointKey>,
    /// Of its summaries, by the number of messages, where its policy wants any.
    pub summaries: Vec<Fingerprint>,
    /// Of the checkpoint that is replayed.
    replayed: Option<Fingerprint>,
    /// Whether no other process can know more of the conversation.
    knows_all: bool,
}

/// Whose entries of the ledger a conversation's are. Requests of one conversation begin with the
/// same message, instructions aside.
pub(super) fn scope_of(request: &PlanRequest, session: &Session<'_>) -> Scope {
    let mut measures = session.measures().iter();
    let first = measures.find(|measure| !measure.speaker.is_instruction());
    Scope {
        tenant: request.tenant,
        group: first.map_or(request.model_key, |first| first.fingerprint),
    }
}

impl Keys {
    pub(super) fn of(
        shared: &Shared,
        request: &PlanRequest,
        session: &Session<'_>,
        seeds: Seeds,
    ) -> Self {
        let identity = &request.policy.identity;
        let summaries = request.origin.as_ref().map(|_| {
            let summarizer = &shared.summarizer;
            let seed = summarizer.seed(request.dialect, &request.tenant, identity);
            session.summary_keys(&seed)
        });
        Keys {
            scope: scope_of(request, session),
            seeds,
            checkpoints: session.checkpoint_keys(&seeds.checkpoint),
            summaries: summaries.unwrap_or_default(),
            replayed: None,
            knows_all: true,
        }
    }

    /// What the ledger's store may know of the conversation and memory does not, where this run may
    /// still ask for it.
    pub(super) fn missing(
        &mut self,
        (shared, request, run): (&Shared, &PlanRequest, &Run),
        planner: &Planner<'_>,
        session: &Session<'_>,
    ) -> Option<Lookup> {
        if !run.may_look_up {
            self.knows_all = run.knows_all;
            return None;
        }
        let usage = || planner.usage_keys(session);
        let missing = shared.ledger.missing(&Points {
            scope: self.scope,
            model: request.model_scope(),
            checkpoints: &self.checkpoints,
            usage: &usage,
            summaries: &self.summaries,
            measures: session.measures(),
        });
        match missing {
            Missing::Nothing => None,
            Missing::Unknown => {
                self.knows_all = false;
                None
            }
            Missing::Entries(lookup) => Some(lookup),
        }
    }

    /// Takes note of the checkpoint that is replayed.
    pub(super) fn replayed(&mut self, known: Option<&KnownCheckpoint>) {
        let of_known = |known: &KnownCheckpoint| {
            let mut keys = self.checkpoints.iter();
            keys.find(|key| key.messages == known.messages)
        };
        self.replayed = known.and_then(of_known).map(|key| key.prefix);
    }

    /// Records the checkpoint of a plan, and that the request was served. One that no compaction
    /// was made for only tells this process where a walk may begin.
    pub(super) fn record(
        &self,
        shared: &Shared,
        request: &PlanRequest,
        checkpoint: Option<(Fingerprint, Checkpoint)>,
        is_compaction: bool,
    ) {
        let ledger = &shared.ledger;
        let made = checkpoint.as_ref().map(|(prefix, _)| *prefix);
        match checkpoint {
            Some((prefix, checkpoint)) if is_compaction => {
                let policy = &*request.policy;
                let budget = policy.budget(request.window.tokens);
                if gate::nothing_can_trigger(request.dialect, &request.body, policy, &budget, 1.0) {
                    ledger.never_gate(request.model_scope());
                }
                let builds_on_it = self.replayed == Some(prefix);
                ledger.keep_checkpoint(self.scope, prefix, checkpoint, builds_on_it);
            }
            Some((prefix, checkpoint)) => ledger.keep_resume_point(prefix, checkpoint),
            None => {}
        }
        // What the store could not be asked is asked with the next request.
        if let Some(newest) = self.checkpoints.last().filter(|_| self.knows_all) {
            ledger.visit(newest.prefix, made.or(self.replayed));
        }
    }
}
