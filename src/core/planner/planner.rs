//! What all plans of one policy and one model have in common. The other files of this room add what
//! it does.

use super::input::Seeds;
use super::session::Session;
use crate::core::Cancel;
use crate::core::budget::{Budget, Capacity};
use crate::core::conversation::BrokenPairing;
use crate::core::edit::MeasuredConversation;
use crate::core::models::{Family, ModelFacts, Prices};
use crate::core::policy::{Policy, RequestFacts};
use crate::core::strategy::Stopped;
use crate::core::tokens::FactorStep;

/// Plans requests under one policy, for one model. Everything in it is the same in every replica,
/// but for `cancel`.
#[derive(Debug, Clone, Copy)]
pub struct Planner<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// The context length that derived decisions assume, tokens.
    pub window: u64,
    /// The longest prompt of the model, tokens, where it is less than the window.
    pub input_limit: Option<u64>,
    /// How many of the upstream's tokens derived decisions take a counted token for.
    pub step: FactorStep,
    /// Whether only the request itself is decided, and no former one: the list goes on from what
    /// was sent by another step.
    pub goes_on: bool,
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
        (model, window): (&ModelFacts, u64),
        request: &'p RequestFacts,
        seeds: Seeds,
        cancel: &'p Cancel,
    ) -> Self {
        let (prices, family) = (policy.prices_for(model), policy.family_for(model));
        Planner {
            policy,
            window,
            input_limit: Policy::input_limit(model, window),
            step: FactorStep::default(),
            goes_on: false,
            prices,
            family,
            request,
            seeds,
            cancel,
        }
    }

    /// The conversation with its messages viewed: what takes long begins here.
    ///
    /// # Errors
    /// [`Stopped::TakesLong`] where only brief work is wanted.
    pub(super) fn view<'s>(
        &self,
        session: &'s Session<'_>,
    ) -> Result<Result<MeasuredConversation<'s>, BrokenPairing>, Stopped> {
        if self.cancel.is_brief() {
            return Err(Stopped::TakesLong);
        }
        Ok(session.conversation(self.family))
    }

    /// What the model takes, where its context length is this one.
    pub(super) fn capacity(&self, window: u64) -> Capacity {
        Capacity {
            window,
            input: self.input_limit,
        }
    }

    /// The budget of derived decisions.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.policy.budget(self.capacity(self.window))
    }
}
