//! When a policy acts, and which trigger fired.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::budget::Budget;
use crate::core::conversation::{Size, scale};

/// Windows of fewer tokens are small.
pub const SMALL_WINDOW: u64 = 32_000;
/// The share of window − reserve at which a policy acts that says nothing.
pub const DEFAULT_RATIO: f64 = 0.8;
/// The share of what triggers that is left, where a policy names no target.
pub const LOW_SHARE: f64 = 0.625;

/// A summary is prepared at least so many messages before their number triggers.
const MESSAGES_AHEAD: u64 = 6;
/// A summary is prepared at least so many turns before their number triggers.
const TURNS_AHEAD: u64 = 2;
/// A summary is prepared at least so many calls before their number triggers.
const TOOL_USES_AHEAD: u64 = 3;

/// A share of the prompt budget as a share of the default trigger.
fn nearness(share: f64) -> f64 {
    (share / DEFAULT_RATIO).min(1.0)
}

/// When a policy acts: at the first of these that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trigger {
    /// Share of window − reserve; [`Trigger::ratio_in`] is the one that counts.
    pub ratio: Option<f64>,
    /// The share in small windows, where it is another one.
    pub small_window_ratio: Option<f64>,
    /// Prompt tokens.
    pub tokens: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
    /// User messages.
    pub turns: Option<u64>,
    /// Calls of tools.
    pub tool_uses: Option<u64>,
}

/// A lower trigger for conversations without a request for a while.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdleTrigger {
    /// Time without a request after which the provider's prompt cache is cold.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub after: Duration,
    /// Share of window − reserve.
    pub ratio: f64,
}

impl Default for IdleTrigger {
    fn default() -> Self {
        IdleTrigger {
            after: Duration::from_mins(10),
            ratio: 0.5,
        }
    }
}

/// Which trigger fired; the metric label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Occupancy.
    Ratio,
    /// Prompt tokens.
    Tokens,
    /// Number of messages.
    Messages,
    /// Number of turns.
    Turns,
    /// Number of calls of tools.
    ToolUses,
    /// The policy's expression (`when`).
    Condition,
    /// The prompt cache is cold, so that rewriting costs nothing.
    Idle,
    /// The upstream refused the request as too long.
    Overflow,
    /// The request's `x-baler-mode: force`.
    Forced,
}

impl Reason {
    /// All of them, for metrics.
    pub const ALL: [Reason; 9] = [
        Reason::Ratio,
        Reason::Tokens,
        Reason::Messages,
        Reason::Turns,
        Reason::ToolUses,
        Reason::Condition,
        Reason::Idle,
        Reason::Overflow,
        Reason::Forced,
    ];

    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Ratio => "ratio",
            Reason::Tokens => "tokens",
            Reason::Messages => "messages",
            Reason::Turns => "turns",
            Reason::ToolUses => "tool_uses",
            Reason::Condition => "when",
            Reason::Idle => "idle",
            Reason::Overflow => "overflow",
            Reason::Forced => "forced",
        }
    }
}

impl Trigger {
    /// The trigger of a policy that names none. A small window comes to its trigger within a few
    /// turns: acting later there saves rewrites, and a reserve of a quarter leaves room enough.
    pub const DEFAULT: Trigger = Trigger {
        ratio: Some(DEFAULT_RATIO),
        small_window_ratio: Some(0.9),
        tokens: None,
        messages: None,
        turns: None,
        tool_uses: None,
    };

    /// The tokens at which the list's size fires, within a prompt budget; `None` where only other
    /// keys are given.
    #[must_use]
    pub fn high(&self, window: u64, prompt: u64) -> Option<u64> {
        let by_ratio = self.ratio_in(window).map(|ratio| scale(prompt, ratio));
        let by_tokens = self.tokens.map(|tokens| tokens.min(prompt));
        by_ratio.into_iter().chain(by_tokens).min()
    }

    /// The tokens from which on a summary is prepared, so that it exists at the trigger. `share` is
    /// a share of the prompt budget, for the default trigger; for others it is as near to them.
    #[must_use]
    pub fn prepares_at(&self, budget: &Budget, share: f64) -> u64 {
        let Budget { window, prompt, .. } = *budget;
        let by_tokens = self
            .tokens
            .map(|tokens| scale(tokens.min(prompt), nearness(share)));
        let by_ratio = self.ratio_in(window).map(|ratio| {
            let near = if share < ratio {
                share
            } else {
                ratio * nearness(share)
            };
            scale(prompt, near)
        });
        let first = by_tokens.into_iter().chain(by_ratio).min();
        first.unwrap_or_else(|| scale(prompt, share))
    }

    /// The messages, the turns and the calls from which on a summary is prepared: as near to the
    /// trigger as for tokens, and a few requests before it at least.
    #[must_use]
    pub fn prepares_at_counts(&self, share: f64) -> [Option<u64>; 3] {
        let before = |limit: u64, least: u64| {
            let near = scale(limit, nearness(share));
            near.min(limit.saturating_sub(least)).max(1)
        };
        [
            self.messages.map(|limit| before(limit, MESSAGES_AHEAD)),
            self.turns.map(|limit| before(limit, TURNS_AHEAD)),
            self.tool_uses.map(|limit| before(limit, TOOL_USES_AHEAD)),
        ]
    }

    /// The tokens that are left where the list's size fired, within a prompt budget: the same share
    /// of each unit. A policy that names no trigger acts later in a small window, and leaves the
    /// same there.
    #[must_use]
    pub fn low(&self, prompt: u64) -> u64 {
        let by_ratio = self.ratio.map(|ratio| scale(prompt, ratio * LOW_SHARE));
        let by_tokens = self
            .tokens
            .map(|tokens| scale(tokens.min(prompt), LOW_SHARE));
        let by_size = by_ratio.into_iter().chain(by_tokens).min();
        by_size.unwrap_or_else(|| scale(prompt, DEFAULT_RATIO * LOW_SHARE))
    }

    /// The share of window − reserve at which the policy acts in a window of this many tokens.
    #[must_use]
    pub fn ratio_in(&self, window: u64) -> Option<f64> {
        let small = self.small_window_ratio.filter(|_| window < SMALL_WINDOW);
        small.or(self.ratio)
    }

    /// The first trigger that `size` reaches, given the window and the prompt budget (window −
    /// reserve). A size above the budget always fires.
    #[must_use]
    pub fn fires(&self, size: Size, budget: &Budget) -> Option<Reason> {
        let Budget { window, prompt, .. } = *budget;
        let reached = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value >= limit);
        if size.tokens > prompt
            || reached(
                self.ratio_in(window).map(|ratio| scale(prompt, ratio)),
                size.tokens,
            )
        {
            Some(Reason::Ratio)
        } else if reached(self.tokens, size.tokens) {
            Some(Reason::Tokens)
        } else if reached(self.messages, size.messages) {
            Some(Reason::Messages)
        } else if reached(self.turns, size.turns) {
            Some(Reason::Turns)
        } else if reached(self.tool_uses, size.tool_uses) {
            Some(Reason::ToolUses)
        } else {
            None
        }
    }
}
