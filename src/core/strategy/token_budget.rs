//! `token_budget`: the oldest exchanges of the span go until the rest fits. What else the list must keep (head and
//! tail) always stays, so at least one exchange does.

use crate::core::budget::Amount;
use crate::core::conversation::scale;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::strategy::scope::Scope;

/// Its name.
pub(super) const NAME: &str = "token_budget";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct TokenBudget {
    /// Down to here: tokens, or a share of window − reserve; the policy's target when not given.
    pub budget: Option<Amount>,
    /// Share of the budget above which exchanges go. Below 1 they go down to that share, else what was above it would be
    /// under the budget and nothing would ever go; above 1 down to the budget.
    pub threshold: f64,
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
