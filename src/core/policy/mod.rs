//! A resolved policy: whom it matches, when it acts, down to where, and what it must not touch.

mod condition;
mod matcher;
mod pricing;
mod trigger;

use crate::core::budget::{Amount, Budget};

pub use condition::{Condition, ConditionView, RequestFacts, SeenMessage};
pub use matcher::Matcher;
pub use pricing::{pays, price};
use std::time::Duration;
pub use trigger::{Reason, Trigger};

use crate::core::conversation::Fingerprint;
use crate::core::edit::{Keep, Pin};
use crate::core::models;
use crate::core::models::{Family, Prices};
use crate::core::strategy::{Step, Strategy};
use crate::core::summary;

/// What a policy does with its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Sends the compacted request.
    Enforce,
    /// Decides, reports, and forwards the client's bytes.
    Observe,
    /// Forwards the client's bytes without a look.
    Off,
}

impl Mode {
    /// The word in configuration and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
            Mode::Off => "off",
        }
    }
}

/// The context length a policy assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// What the upstream says of the model, else the table of known models, else the policy's default.
    Auto,
    /// This many tokens.
    Tokens(u64),
}

/// Who says what a context length is, in the order of who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The policy names a number.
    Policy,
    /// The upstream's list of models.
    Upstream,
    /// The table of known models.
    Table,
    /// Nobody: the policy's default for unknown models.
    Default,
}

/// What happens to a request that does not fit whatever was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnfit {
    /// Send the smallest list there is; the upstream decides.
    Forward,
    /// Refuse it with an error in OpenAI's shape.
    Reject,
}

/// What happens when Baler's own thinking fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Send the client's bytes.
    Forward,
    /// Refuse the request with an error in OpenAI's shape.
    Reject,
}

/// A lower trigger for conversations that were not heard of for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// How long a provider keeps what it has cached.
    pub after: Duration,
    /// Share of window − reserve.
    pub ratio: f64,
}

/// A service that a `webhook` step calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its address.
    pub url: String,
    /// Time for its answer.
    pub timeout: Duration,
    /// The longest answer, bytes.
    pub max_bytes: usize,
}

/// A policy, resolved from configuration.
#[derive(Debug)]
pub struct Policy {
    /// Its name: header and label value.
    pub name: String,
    /// Digest of everything it says: two policies that decide differently never share a checkpoint.
    pub identity: Fingerprint,
    /// Whom it is for.
    pub matcher: Matcher,
    /// What it does with its decisions.
    pub mode: Mode,
    /// The context length.
    pub window: Window,
    /// The context length of models that nobody knows, tokens.
    pub default_window: u64,
    /// Tokens kept free for the reply.
    pub reserve: u64,
    /// When it acts.
    pub trigger: Trigger,
    /// When it acts, as an expression; its ratio trigger takes over where that fails.
    pub when: Option<Condition>,
    /// A lower trigger for conversations whose prompt cache is cold.
    pub idle: Option<Idle>,
    /// Whether a compaction must also pay for what it makes the upstream read anew.
    pub break_even: bool,
    /// Prices of cached tokens; those of the model table when not given.
    pub prices: Option<Prices>,
    /// Whether user and assistant must take turns; as the model's family wants it when not given.
    pub alternate: Option<bool>,
    /// The services that `webhook` steps call.
    pub webhooks: Vec<Webhook>,
    /// Low-water mark: a share of window − reserve, or tokens.
    pub target: Amount,
    /// The least a compaction must save while the request still fits: a share of window − reserve, or tokens.
    pub min_gain: Amount,
    /// The newest part that stays.
    pub keep: Keep,
    /// What stays elsewhere.
    pub pin: Pin,
    /// Strategies, least lossy first.
    pub ladder: Vec<Step>,
    /// What happens when nothing helps.
    pub on_unfit: OnUnfit,
    /// Whether what the upstream refuses as too long is compacted and sent once more.
    pub rescue: bool,
    /// Whether a reply's limit is lowered where that alone makes a refused request fit.
    pub fit_output: bool,
    /// What happens when thinking fails.
    pub on_error: OnError,
    /// Whether a request may choose it by header.
    pub selectable: bool,
    /// Whether streams are asked for usage on the client's behalf.
    pub include_usage: bool,
    /// All of its keys but the ladder as JSON, defaults filled in, for those who ask.
    pub options: String,
}

impl Policy {
    /// The context length assumed for `model` where no upstream was asked, tokens.
    #[must_use]
    pub fn window_for(&self, model: Option<&str>) -> u64 {
        self.window_by(model, None).0
    }

    /// The context length assumed for `model`, tokens, given what the upstream says of it; and who said so.
    #[must_use]
    pub fn window_by(&self, model: Option<&str>, discovered: Option<u64>) -> (u64, Source) {
        match (self.window, discovered, model.and_then(models::known)) {
            (Window::Tokens(tokens), _, _) => (tokens, Source::Policy),
            (Window::Auto, Some(tokens), _) => (tokens, Source::Upstream),
            (Window::Auto, None, Some(known)) => (known.window, Source::Table),
            (Window::Auto, None, None) => (self.default_window, Source::Default),
        }
    }

    /// The step of its ladder that summarises, and its options.
    #[must_use]
    pub fn summarize(&self) -> Option<(&Step, &summary::Options)> {
        self.ladder.iter().find_map(|step| match &step.strategy {
            Strategy::Summarize(options) => Some((step, &**options)),
            _ => None,
        })
    }

    /// Prices of cached tokens for `model`, when any are known.
    #[must_use]
    pub fn prices_for(&self, model: Option<&str>) -> Option<Prices> {
        self.prices
            .or_else(|| model.and_then(models::known)?.prices)
    }

    /// What `model`'s family wants, as far as known; the policy has the last word on roles.
    #[must_use]
    pub fn family_for(&self, model: Option<&str>) -> Family {
        let family = model.map_or_else(Family::default, models::family);
        Family {
            alternates: self.alternate.unwrap_or(family.alternates),
            ..family
        }
    }

    /// The budget in a window, by the policy alone: the basis of decisions that any replica can derive again.
    /// With small windows the reserve shrinks to a quarter.
    #[must_use]
    pub fn budget(&self, window: u64) -> Budget {
        self.budget_with_reserve(window, self.reserve.min(window / 4))
    }

    /// The budget of one request, which may ask for a longer reply than the reserve. A wish that no prompt at all would
    /// leave room for is not the conversation's fault, and ignored.
    #[must_use]
    pub fn budget_for(&self, window: u64, max_output_tokens: Option<u64>) -> Budget {
        let shrunk = self.reserve.min(window / 4);
        self.budget_with_reserve(
            window,
            max_output_tokens
                .filter(|tokens| *tokens < window)
                .map_or(shrunk, |tokens| tokens.max(shrunk)),
        )
    }

    fn budget_with_reserve(&self, window: u64, reserve: u64) -> Budget {
        let room = window.saturating_sub(reserve);
        Budget {
            window,
            room,
            target: self.target.of(room).min(room),
            min_gain: self.min_gain.of(room),
        }
    }

    /// Whether this policy is for such a request.
    #[must_use]
    pub fn matches<'h>(
        &self,
        model: Option<&str>,
        path: &str,
        header: impl Fn(&str) -> Option<&'h str>,
    ) -> bool {
        self.matcher
            .models
            .as_ref()
            .is_none_or(|globs| globs.is_match(model.unwrap_or_default()))
            && self
                .matcher
                .paths
                .as_ref()
                .is_none_or(|globs| globs.is_match(path))
            && self
                .matcher
                .headers
                .iter()
                .all(|(name, glob)| header(name).is_some_and(|value| glob.is_match(value)))
    }
}
