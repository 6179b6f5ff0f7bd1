//! The keys of the ledger for one run of the planner: what is looked up before it, and what is
//! recorded after it.

use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;
use crate::core::planner::{CheckpointKey, Session, gate};
use crate::ledger::Scope;
use crate::proxy::Shared;
use crate::proxy::plan_request::PlanRequest;

/// The keys of a conversation.
#[derive(Debug)]
pub(super) struct Keys {
    /// Whose it is.
    pub scope: Scope,
    /// The first link of the chain of reported usage.
    pub usage_seed: Fingerprint,
    /// Of its request points, shortest first, whichever way they are planned.
    pub points: Vec<CheckpointKey>,
    /// Of what was reported for it, by the same points.
    pub reports: Vec<CheckpointKey>,
    /// Of its summaries, by the number of messages, where its policy wants any.
    pub summaries: Vec<Fingerprint>,
    /// Whether no other process can know more of the conversation.
    pub knows_all: bool,
}

/// Whose entries of the ledger a conversation's are. Requests of one conversation begin with the
/// same message, instructions aside.
fn scope_of(request: &PlanRequest, session: &Session<'_>) -> Scope {
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
        usage_seed: Fingerprint,
    ) -> Self {
        let identity = &request.policy.identity;
        let summaries = request.origin.as_ref().map(|_| {
            let summarizer = shared.summarizers.of(&request.policy);
            let seed = summarizer.seed(request.dialect, &request.tenant, identity);
            session.summary_keys(&seed)
        });
        Keys {
            scope: scope_of(request, session),
            usage_seed,
            points: session.checkpoint_keys(&request.checkpoint_seed),
            reports: session.checkpoint_keys(&request.conversation_seed()),
            summaries: summaries.unwrap_or_default(),
            knows_all: true,
        }
    }

    /// What an assessment needs of them: those of the request itself.
    pub(super) fn of_assessed(
        request: &PlanRequest,
        session: &Session<'_>,
        usage_seed: Fingerprint,
    ) -> Self {
        Keys {
            scope: scope_of(request, session),
            usage_seed,
            points: vec![session.own_key(&request.checkpoint_seed)],
            reports: Vec::new(),
            summaries: Vec::new(),
            knows_all: false,
        }
    }

    /// Records the checkpoint of a plan that replayed another one, and that the request was served.
    /// One that no compaction was made for only tells this process where a walk may begin.
    pub(super) fn record(
        &self,
        (shared, request): (&Shared, &PlanRequest),
        checkpoint: Option<(Fingerprint, Checkpoint)>,
        is_compaction: bool,
        replayed: Option<Fingerprint>,
    ) {
        let ledger = &shared.ledger;
        let made = checkpoint.as_ref().map(|(prefix, _)| *prefix);
        match checkpoint {
            Some((prefix, checkpoint)) if is_compaction => {
                let policy = &*request.policy;
                let capacity = request.window.capacity(request.window.tokens);
                let budget = policy.budget(capacity);
                let glance = gate::Glance::of(&request.body);
                if gate::nothing_can_trigger(request.dialect, glance, policy, &budget, 1.0) {
                    ledger.never_gate(request.model_scope());
                }
                let builds_on_it = replayed == Some(prefix);
                ledger.keep_checkpoint(self.scope, prefix, checkpoint, builds_on_it);
            }
            Some((prefix, checkpoint)) => ledger.keep_resume_point(prefix, checkpoint),
            None => {}
        }
        // What the store could not be asked is asked with the next request.
        if let Some(newest) = self.points.last().filter(|_| self.knows_all) {
            ledger.visit(newest.prefix, made.or(replayed));
        }
    }
}
