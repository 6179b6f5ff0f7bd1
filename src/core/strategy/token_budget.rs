//! `token_budget`: the oldest exchanges of the span go until the rest fits. What else the list must
//! keep (head and tail) always stays, so at least one exchange does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::budget::Amount;
use crate::core::conversation::scale;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::strategy::options::{OptionCheck, Options, Run};
use crate::core::strategy::scope::Scope;
use crate::core::strategy::{Done, Stopped};

/// The oldest exchanges go until the rest fits.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudget {
    /// The budget; the policy's target when not given.
    pub budget: Option<Amount>,
    /// Share of the budget above which exchanges go. Below 1 they go down to that share, else a
    /// list between the two would be under the budget and never shrink; above 1 down to the budget.
    pub threshold: f64,
}

impl Default for TokenBudget {
    fn default() -> Self {
        TokenBudget {
            budget: None,
            threshold: 1.0,
        }
    }
}

impl Options for TokenBudget {
    const NAME: &'static str = "token_budget";

    fn check(&self, check: &mut OptionCheck<'_>) {
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            check.fail("threshold", format!("{} is not above 0", self.threshold));
        }
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run.scope, draft, run.target).into())
    }
}

pub(super) fn apply(
    options: &TokenBudget,
    scope: &Scope,
    draft: &mut Draft<'_>,
    goal: Target,
) -> u64 {
    let budget = options
        .budget
        .map_or(goal.target, |budget| budget.of(goal.room));
    let goal = Target {
        target: scale(budget, options.threshold.min(1.0)),
        ..goal
    };
    let by_count = goal.messages.is_some() || goal.turns.is_some();
    if !by_count && draft.size().tokens <= scale(budget, options.threshold) {
        return 0;
    }
    for exchange in scope.span(draft) {
        if goal.met(draft.size()) {
            break;
        }
        draft.drop_exchange(&exchange);
    }
    // What stands for older messages goes only where the request fits without it.
    let condensed = draft.standing(Zone::Condensed);
    let standing_in: u64 = condensed
        .iter()
        .map(|exchange| draft.tokens_in(exchange))
        .sum();
    if draft.size().tokens.saturating_sub(standing_in) > goal.room {
        return 0;
    }
    for exchange in condensed {
        if draft.size().tokens <= goal.room {
            break;
        }
        draft.drop_exchange(&exchange);
    }
    0
}
