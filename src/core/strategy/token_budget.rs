//! `token_budget`: the oldest exchanges of the span go until the rest fits. Head and tail always
//! stay, so at least one exchange does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::beginning;
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::budget::Amount;
use crate::core::conversation::{Exchange, scale};
use crate::core::edit::{Draft, Target, Zone};

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
    const QUICK: bool = true;

    fn check(&self, check: &mut OptionCheck<'_>) {
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            check.fail("threshold", format!("{} is not above 0", self.threshold));
        }
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run.scope, draft, run.target).into())
    }
}

/// Drops the oldest exchanges until the target is met, without the one that `stays`.
fn drop_oldest(scope: &Scope, draft: &mut Draft<'_>, target: Target, stays: Option<Exchange>) {
    for exchange in scope.span(draft) {
        if target.met(draft.size()) {
            break;
        }
        if Some(exchange) != stays {
            draft.drop_exchange(&exchange);
        }
    }
}

pub(super) fn apply(
    options: &TokenBudget,
    scope: &Scope,
    draft: &mut Draft<'_>,
    target: Target,
) -> u64 {
    let budget = options
        .budget
        .map_or(target.target, |budget| budget.of(target.prompt));
    let target = Target {
        target: scale(budget, options.threshold.min(1.0)),
        ..target
    };
    if !target.is_by_count() && draft.size().tokens <= scale(budget, options.threshold) {
        return 0;
    }
    drop_oldest(scope, draft, target, None);
    mend_beginning(scope, draft, target);
    // Messages that stand for older ones go only where the request fits without them.
    let condensed = draft.in_zone(Zone::Condensed);
    let condensed_tokens = draft.tokens_of(&condensed);
    if draft.size().tokens.saturating_sub(condensed_tokens) > target.prompt {
        return 0;
    }
    let mut condensed = condensed.into_iter();
    while draft.size().tokens > target.prompt
        && let Some(exchange) = condensed.next()
    {
        draft.drop_exchange(&exchange);
    }
    mend_beginning(scope, draft, target);
    0
}

/// Has the list begin with a question, where there is room for it.
fn mend_beginning(scope: &Scope, draft: &mut Draft<'_>, target: Target) {
    if let Some(question) = beginning::mend(scope, draft) {
        // It takes room: what goes for it stands behind it.
        drop_oldest(scope, draft, target, Some(question));
        let is_over = !target.met(draft.size()) && !beginning::is_answered(&question, draft);
        if is_over || draft.size().tokens > target.prompt {
            draft.drop_exchange(&question);
        }
    }
}
