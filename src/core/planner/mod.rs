//! From a request and what the ledger knows to a plan: replay, estimate, decide, compact.
//!
//! ```text
//! planner      what all plans of one policy and one model have in common
//! gate         a proof, from the bytes alone, that no trigger can fire
//! session      one request: outline, measures, and its messages once something is due
//! chains       the keys of its prefixes, as far as they are known of its beginning
//! input        what planning starts from: derived facts, live facts, what the ledger knows
//! derive       decisions that any replica makes alike
//! arrive       edits of results as they arrive
//! usage_keys   keys of what was reported for prefixes of what is sent
//! estimate     how large a list is for the upstream
//! learned      how reported usage enters what every replica derives
//! decide       the decision about this request
//! forecast     whether a trigger will fire soon: the time to prepare a summary
//! compact      one compaction, and whether it is worth it
//! plan         the result
//! prior_usage  usage that a client carries, as text
//! ```
//!
//! The caller goes through it in these steps. What the ledger knows is fetched between them, all
//! keys at once, and handed in as a value; what is to be recorded comes out as values. So the
//! ledger may be asynchronous and shared.
//!
//! ```text
//! session = Session::open(outline)                   session.checkpoint_keys(): a checkpoint
//! derived = planner.derive(session, checkpoint)      derived.usage_keys(): usage
//! plan    = planner.decide(session, derived, usage)  plan.checkpoint: to be recorded
//! pieces  = session.render(plan.edits)
//! ```
//!
//! Decisions come in two kinds. *Derived* ones depend on the policy and the messages alone, and on
//! a coarse step and a window that all replicas learn alike (`learned`): every assistant message in
//! the history was once a request, so walking those request points from the start (or from the last
//! checkpoint) gives the same edits in every replica, with or without a ledger. *Forced* ones
//! depend on live facts: usage beyond the step, a refusal, the request's own `max_tokens`, a
//! header. They can add a compaction, never prevent one, and are found again only through the
//! ledger.

mod arrive;
mod attempt;
mod chains;
mod compact;
mod decide;
mod derive;
mod estimate;
mod forecast;
pub mod gate;
mod input;
mod learned;
mod plan;
#[expect(
    clippy::module_inception,
    reason = "the room is named after its subject"
)]
mod planner;
mod prior_usage;
mod session;
mod unwritten;
mod usage_keys;
mod watch;

pub use chains::Chains;
pub use derive::Derived;
pub use estimate::UsageEstimate;
pub use input::{
    CheckpointKey, KnownCheckpoint, KnownUsage, LiveFacts, ModelCalibration, PriorUsage,
    RefusedList, Seeds, UsageKey,
};
pub use learned::{Basis, Evidence, Lesson};
pub use plan::{Arrived, Assessment, Compaction, Deferred, Plan};
pub use planner::Planner;
pub use session::{Counting, NotPlanned, Session};
