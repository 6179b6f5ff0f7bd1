//! `token_budget`: the oldest exchanges of the span go until the rest fits. What else the list must keep (head and
//! tail) always stays, so at least one exchange does.

use super::scope::Scope;
use crate::core::draft::{Draft, Goal, Standing};
use crate::core::size::{Amount, scale};

/// Its name.
pub(super) const NAME: &str = "token_budget";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct TokenBudget {
    /// Down to here: tokens, or a share of window − reserve; the policy's target when not given.
    pub budget: Option<Amount>,
    /// Share of the budget from which on anything is done.
    pub threshold: f64,
}

pub(super) fn apply(options: &TokenBudget, scope: &Scope, draft: &mut Draft<'_>, goal: Goal) -> u64 {
    let goal = Goal { target: options.budget.map_or(goal.target, |budget| budget.of(goal.room)), ..goal };
    let by_count = goal.messages.is_some() || goal.turns.is_some();
    if !by_count && draft.size().tokens < scale(goal.target, options.threshold) {
        return 0;
    }
    for exchange in scope.span(draft) {
        if goal.met(draft.size()) {
            break;
        }
        draft.drop_exchange(&exchange);
    }
    // What stands for older messages goes only where the request fits without it.
    let condensed = draft.standing(Standing::Condensed);
    let standing_in: u64 = condensed.iter().map(|exchange| draft.tokens_in(exchange)).sum();
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
