//! `token_budget`: the oldest exchanges of the span go until the rest fits. Head and tail always
//! stay, so at least one exchange does.

use super::scope::Scope;
use crate::core::budget::Amount;
use crate::core::conversation::scale;
use crate::core::edit::{Draft, Target, Zone};

/// Its name.
pub(super) const NAME: &str = "token_budget";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct TokenBudget {
    /// Down to here: tokens, or a share of window − reserve; the policy's target when not given.
    pub budget: Option<Amount>,
    /// Share of the budget above which exchanges go. Below 1 they go down to that share: a list
    /// above it would be under the budget otherwise, and nothing would ever go. Above 1 they go
    /// down to the budget.
    pub threshold: f64,
}

pub(super) fn apply(
    options: &TokenBudget,
    scope: &Scope,
    draft: &mut Draft<'_>,
    target: Target,
) -> u64 {
    let budget = options
        .budget
        .map_or(target.target, |budget| budget.of(target.room));
    let target = Target {
        target: scale(budget, options.threshold.min(1.0)),
        ..target
    };
    let by_count = target.messages.is_some() || target.turns.is_some();
    if !by_count && draft.size().tokens <= scale(budget, options.threshold) {
        return 0;
    }
    for exchange in scope.span(draft) {
        if target.met(draft.size()) {
            break;
        }
        draft.drop_exchange(&exchange);
    }
    // Messages that stand for older ones go only where the request fits without them.
    let condensed = draft.in_zone(Zone::Condensed);
    let condensed_tokens = draft.tokens_of(&condensed);
    if draft.size().tokens.saturating_sub(condensed_tokens) > target.room {
        return 0;
    }
    for exchange in condensed {
        if draft.size().tokens <= target.room {
            break;
        }
        draft.drop_exchange(&exchange);
    }
    0
}
