//! The one place where planning is put together, for the proxy, `baler compact`, tests and benches.

use super::compact::{Outcome, compact};
use super::decide::Decision;
use super::derive::{Derived, derive, usage_keys};
use super::estimate::Estimate;
use super::input::{KnownCheckpoint, KnownUsage, LiveFacts, Seeds, UsageKey};
use super::plan::{Assessment, Plan};
use super::session::Session;
use crate::core::Cancel;
use crate::core::budget::Budget;
use crate::core::edit::{Edit, validate};
use crate::core::models::{Family, Prices};
use crate::core::policy::{Policy, Reason, RequestFacts};
use crate::core::strategy::{ExternalInputs, Report, Stopped};

/// Plans requests under one policy, for one model. Everything in it is the same in every replica,
/// but for `cancel`.
#[derive(Debug, Clone, Copy)]
pub struct Planner<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// The context length that derived decisions assume, tokens.
    pub window: u64,
    /// Prices of cached tokens, when known.
    pub prices: Option<Prices>,
    /// What the model's family wants on the wire.
    pub family: Family,
    /// What a policy's expression may know of the request.
    pub request: &'p RequestFacts,
    /// The first links of the prefix hashes.
    pub seeds: Seeds,
    /// Set when nobody waits for the plan any more.
    pub cancel: &'p Cancel,
}

impl<'p> Planner<'p> {
    /// A planner for `model`, by the policy and the table of models.
    #[must_use]
    pub fn new(
        policy: &'p Policy,
        (model, window): (Option<&str>, u64),
        request: &'p RequestFacts,
        seeds: Seeds,
        cancel: &'p Cancel,
    ) -> Self {
        let (prices, family) = (policy.prices_for(model), policy.family_for(model));
        Planner {
            policy,
            window,
            prices,
            family,
            request,
            seeds,
            cancel,
        }
    }

    /// Replays `known`, the longest checkpoint in the ledger for [`Session::checkpoint_keys`], and
    /// decides again what was decided at each later request point.
    ///
    /// # Errors
    /// [`Stopped`] when nobody waits any more, or an answer from outside is needed first.
    pub fn derive(
        &self,
        session: &Session<'_>,
        known: Option<KnownCheckpoint>,
        external: &ExternalInputs<'_>,
    ) -> Result<Derived, Stopped> {
        derive(self, session, known, external)
    }

    /// Decides about the request itself. `keys` are [`Derived::usage_keys`], and `known` is what
    /// the ledger knows of them.
    ///
    /// # Errors
    /// [`Stopped`], as for [`Planner::derive`]; and [`Stopped::Invalid`] for a result that must not
    /// be sent.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is known at another moment, and used once"
    )]
    pub fn decide(
        &self,
        session: &Session<'_>,
        derived: Derived,
        (keys, known): (&[UsageKey], &KnownUsage),
        external: &ExternalInputs<'_>,
        live: LiveFacts,
    ) -> Result<Plan, Stopped> {
        Decision {
            planner: self,
            session,
            external,
            live,
        }
        .plan(derived, keys, known)
    }

    /// The keys of usage for prefixes of the client's own list, shortest first: for a request that
    /// is sent as it came.
    #[must_use]
    pub fn usage_keys(&self, session: &Session<'_>) -> Vec<UsageKey> {
        usage_keys(self, session, None)
    }

    /// Assesses a request that is sent as it came, without a decision.
    #[must_use]
    pub fn assess(
        &self,
        session: &Session<'_>,
        (keys, known): (&[UsageKey], &KnownUsage),
        live: &LiveFacts,
    ) -> Assessment {
        let estimate = Estimate::of(session, None, keys, known, live);
        let window = live.learned.narrowed(self.window);
        let budget = self.policy.budget_for(window, live.max_output_tokens);
        Assessment {
            size: estimate.size,
            budget,
            estimate: estimate.known,
        }
    }

    /// Compacts a request at once, whatever its triggers, to at most `target` prompt tokens where
    /// that is possible.
    ///
    /// # Errors
    /// [`Stopped`], as for [`Planner::derive`]; a list whose calls and results do not match is
    /// [`Stopped::Invalid`].
    pub fn compact_to(
        &self,
        session: &Session<'_>,
        target: u64,
        external: &ExternalInputs<'_>,
    ) -> Result<(Vec<Edit>, Vec<Report>), Stopped> {
        let conversation = session
            .conversation(self.family)
            .map_err(|_| Stopped::Invalid)?;
        let edits = vec![Edit::Keep; session.len()];
        if conversation.size_after(&edits).tokens <= target {
            return Ok((edits, Vec::new()));
        }
        let budget = Budget {
            window: target,
            prompt: target,
            target,
            min_gain: 0,
        };
        match compact(
            self,
            &conversation,
            &edits,
            budget,
            Reason::Forced,
            external,
        )? {
            Outcome::Made(compacted) => {
                validate(session.dialect(), conversation.messages, &compacted.edits)
                    .map_err(|_| Stopped::Invalid)?;
                Ok((compacted.edits, compacted.reports))
            }
            Outcome::Deferred(_) => Ok((edits, Vec::new())),
        }
    }
}
