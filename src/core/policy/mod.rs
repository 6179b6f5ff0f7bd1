//! A resolved policy: when it acts, down to where, with which strategies, and what it must not
//! touch.

mod condition;
mod delivery;
mod matcher;
mod pricing;
mod trigger;
mod window;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::budget::{Amount, Budget, Capacity};
use crate::core::conversation::{Fingerprint, ratio, scale};
use crate::core::edit::{Keep, Pin};
use crate::core::models::{Family, ModelFacts, Prices};
use crate::core::strategy;
use crate::core::strategy::{Step, Strategy, TrimResults, Webhook};
use crate::core::summary;
use crate::core::text::FailureRule;

pub use condition::{Condition, ConditionView, RequestFacts, SeenMessage};
pub use delivery::{Delivery, Mode, OnError, OnUnfit};
pub use matcher::Matcher;
pub use pricing::{pays, price};
pub use trigger::{DEFAULT_RATIO, IdleTrigger, LOW_SHARE, Reason, SMALL_WINDOW, Trigger};
pub use window::{Source, Window};

/// The minimum gain is one in so many parts of what lies between trigger and target.
const GAIN_PARTS: f64 = 3.0;

/// A policy, resolved from configuration.
#[derive(Debug)]
pub struct Policy {
    /// The name: header and label value.
    pub name: String,
    /// Fingerprint of everything that decides a plan: policies that decide differently never share
    /// a checkpoint.
    pub identity: Fingerprint,
    /// The context length.
    pub window: Window,
    /// The context length of unknown models, tokens.
    pub default_window: u64,
    /// Tokens that the upstream reports for each that Baler counts, until it has reported any.
    pub calibration_factor: f64,
    /// Tokens kept free for the reply.
    pub reserve: u64,
    /// When the policy acts.
    pub trigger: Trigger,
    /// When the policy acts, as an expression; a ratio takes over where the expression fails.
    pub when: Option<Condition>,
    /// A lower trigger for conversations whose prompt cache is cold.
    pub idle: Option<IdleTrigger>,
    /// Whether a compaction must also pay for the tokens that the upstream has to read anew.
    pub break_even: bool,
    /// Prices of cached tokens; those of the model table when not given.
    pub prices: Option<Prices>,
    /// Whether user and assistant must take turns.
    pub roles: Roles,
    /// Low-water mark; follows from the trigger when not given.
    pub target: Option<Amount>,
    /// The least that a compaction must save while the request still fits; follows from trigger and
    /// target when not given.
    pub min_gain: Option<Amount>,
    /// The newest part, which stays unchanged: the default of steps that do not say what they keep.
    pub keep: Keep,
    /// The newest part that no step touches, whatever it says itself.
    pub least_keep: Keep,
    /// Messages that stay unchanged elsewhere.
    pub pin: Pin,
    /// Signs of failure in results, besides the usual ones.
    pub failures: Vec<FailureRule>,
    /// Strategies, least lossy first.
    pub ladder: Vec<Step>,
    /// How the proxy applies the policy.
    pub delivery: Delivery,
}

/// The order of roles that a policy enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    /// As the model's family requires, as far as known.
    Auto,
    /// Any order.
    Free,
    /// User and assistant take turns.
    Alternate,
}

impl Policy {
    /// The context length assumed for `model` without asking the upstream, tokens.
    #[must_use]
    pub fn window_for(&self, model: &ModelFacts) -> u64 {
        self.window_by(model, None).0
    }

    /// The context length assumed for `model`, tokens, and its source; `discovered` is the length
    /// that the upstream reported.
    #[must_use]
    pub fn window_by(&self, model: &ModelFacts, discovered: Option<u64>) -> (u64, Source) {
        match (self.window, discovered, model.known()) {
            (Window::Tokens(tokens), _, _) => (tokens, Source::Policy),
            (Window::Auto, Some(tokens), _) => (tokens, Source::Upstream),
            (Window::Auto, None, Some(known)) => (known.window, Source::Table),
            (Window::Auto, None, None) => (self.default_window, Source::Default),
        }
    }

    /// The longest prompt that `model` takes, tokens, where the table of models knows it to be less
    /// than the window. A window beyond the table's is that of another deployment, of which the
    /// table knows nothing.
    #[must_use]
    pub fn input_limit(model: &ModelFacts, window: u64) -> Option<u64> {
        let known = model.known()?;
        let limit = known.max_input.filter(|limit| *limit < window)?;
        (window <= known.window).then_some(limit)
    }

    /// The `summarize` step of the ladder, and its options.
    #[must_use]
    pub fn summarize(&self) -> Option<(&Step, &summary::Options)> {
        self.ladder.iter().find_map(|step| match &step.strategy {
            Strategy::Summarize(options) => Some((step, options)),
            _ => None,
        })
    }

    /// The options of the ladder's `webhook` steps, in order.
    pub fn webhooks(&self) -> impl Iterator<Item = &Webhook> {
        strategy::webhooks(&self.ladder)
    }

    /// The least bytes of a result that is edited as it arrives, whatever the triggers; `None`
    /// where none is.
    #[must_use]
    pub fn least_arrival(&self) -> Option<u64> {
        let steps = strategy::on_arrival(&self.ladder);
        steps.map(TrimResults::least_bytes).min()
    }

    /// Prices of cached tokens for `model`, when any are known.
    #[must_use]
    pub fn prices_for(&self, model: &ModelFacts) -> Option<Prices> {
        self.prices.or_else(|| model.known()?.prices)
    }

    /// The requirements of `model`'s family, as far as known; the policy's `roles` take precedence.
    #[must_use]
    pub fn family_for(&self, model: &ModelFacts) -> Family {
        Family {
            alternates: match self.roles {
                Roles::Auto => model.family.alternates,
                Roles::Free => false,
                Roles::Alternate => true,
            },
            ..model.family
        }
    }

    /// The budget in a window, by the policy alone: the basis of decisions that any replica can
    /// derive again. The reserve is at most a quarter of the window.
    #[must_use]
    pub fn budget(&self, capacity: impl Into<Capacity>) -> Budget {
        let capacity = capacity.into();
        self.budget_with_reserve(capacity, self.reserve.min(capacity.window / 4))
    }

    /// The budget of one request, which may ask for a longer reply than the reserve. A reply as
    /// long as the window, which leaves the prompt no room, is ignored.
    #[must_use]
    pub fn budget_for(
        &self,
        capacity: impl Into<Capacity>,
        max_output_tokens: Option<u64>,
    ) -> Budget {
        let capacity = capacity.into();
        let shrunk = self.reserve.min(capacity.window / 4);
        self.budget_with_reserve(
            capacity,
            max_output_tokens
                .filter(|tokens| *tokens < capacity.window)
                .map_or(shrunk, |tokens| tokens.max(shrunk)),
        )
    }

    fn budget_with_reserve(&self, capacity: Capacity, reserve: u64) -> Budget {
        let Capacity { window, .. } = capacity;
        let prompt = capacity.prompt(reserve);
        let target = self.target_in(window, prompt);
        Budget {
            window,
            prompt,
            target,
            min_gain: self.min_gain_in(window, prompt, target),
        }
    }

    /// Low-water mark, tokens. One that the policy names and that is not below the trigger in this
    /// window gives way to the one that follows from the trigger: else the policy would act on
    /// every request, or not where its trigger says.
    #[must_use]
    pub fn target_in(&self, window: u64, prompt: u64) -> u64 {
        let high = self.trigger.high(window, prompt).unwrap_or(prompt);
        let given = self.target.map(|target| target.of(prompt));
        given
            .filter(|target| *target < high)
            .unwrap_or_else(|| self.trigger.low(prompt))
    }

    /// The least gain, tokens.
    fn min_gain_in(&self, window: u64, prompt: u64, target: u64) -> u64 {
        match (self.min_gain, self.target, &self.trigger) {
            (Some(given), ..) => given.of(prompt),
            (None, None, trigger) if trigger.tokens.is_none() => {
                let high = trigger.ratio.unwrap_or(DEFAULT_RATIO);
                scale(prompt, high * (1.0 - LOW_SHARE) / GAIN_PARTS)
            }
            (None, _, trigger) => {
                let usual = || scale(prompt, DEFAULT_RATIO);
                let high = trigger.high(window, prompt).unwrap_or_else(usual);
                scale(high.saturating_sub(target), 1.0 / GAIN_PARTS)
            }
        }
    }

    /// The number of messages, turns or calls that is left where `limit` of them triggered.
    #[must_use]
    pub fn low_count(&self, limit: u64, budget: &Budget) -> u64 {
        match self.target {
            Some(Amount::Ratio(_)) => scale(limit, ratio(budget.target, budget.prompt)),
            Some(Amount::Tokens(_)) | None => scale(limit, LOW_SHARE),
        }
    }

    /// Whether the policy applies to a request with this model, path and these headers.
    #[must_use]
    pub fn matches<'h>(
        &self,
        model: Option<&str>,
        path: &str,
        header: impl Fn(&str) -> Option<&'h str>,
    ) -> bool {
        self.delivery.matcher.matches(model, path, header)
    }
}
