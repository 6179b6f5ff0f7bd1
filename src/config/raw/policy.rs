//! `[[policy]]` as an operator writes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::budget::Amount;
use crate::core::edit::{Keep, Pin};
use crate::core::models::Prices;
use crate::core::policy::{IdleTrigger, Mode, OnError, OnUnfit, Roles, Window};
use crate::core::strategy::Step;
use crate::core::text::FailureRule;

/// `[[policy]]`
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The name: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Model names that the policy applies to; `*` and `?` are wild. Other model names are `other`
    /// in metrics.
    pub models: Vec<String>,
    /// Request paths that the policy applies to; empty for all.
    pub paths: Vec<String>,
    /// Header values that the policy applies to; all must match.
    pub headers: BTreeMap<String, String>,
    /// "enforce", "observe" (plan and report, forward the original) or "off".
    pub mode: Mode,
    /// Context length, tokens, or "auto": the length that the upstream reports
    /// (`upstream.discover_windows`), else that of the table of known models, else
    /// `default_window`.
    pub window: Window,
    /// Context length of unknown models under `window = "auto"`, tokens.
    pub default_window: u64,
    /// Tokens that the upstream reports for each that Baler counts, 0.5 to 3, until it has reported
    /// any; 1 when not given. A process that was restarted then decides as the one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration_factor: Option<f64>,
    /// Tokens kept free for the reply; at most a quarter of the window. A request that asks for a
    /// longer reply, of less than the window, reserves that much.
    pub reserve: u64,
    /// When to act: at any of these. When not given, at 0.8 of window − reserve, in windows of
    /// fewer than 32,000 tokens at 0.9. Above window − reserve the policy always acts.
    pub trigger: Option<Trigger>,
    /// A lower trigger for conversations whose prompt cache is cold; none when not given.
    pub idle_trigger: Option<IdleTrigger>,
    /// The size down to which a conversation is compacted. When not given: five eighths of what
    /// triggers, in its unit; without `trigger` a half of window − reserve.
    pub target: Option<Amount>,
    /// The least that a compaction must save while the request still fits. When not given: a third
    /// of what lies between trigger and target; without `trigger` a tenth of window − reserve.
    pub min_gain: Option<Amount>,
    /// Whether a compaction must also pay, while the request still fits, for the tokens that the
    /// upstream has to read anew.
    pub break_even: bool,
    /// Prices of cached prompt tokens; those of the model table when not given.
    pub prices: Option<Prices>,
    /// "auto" (as the model's family requires), "free", or "alternate" (user and assistant take
    /// turns).
    pub roles: Roles,
    /// The newest part, which stays unchanged: at most a third of what the head leaves of the
    /// target. When not given: 20000 tokens and one turn, for steps that do not say themselves what
    /// they keep. A table given here holds for all steps, as a minimum.
    pub keep: Option<Keep>,
    /// Messages that stay unchanged elsewhere.
    pub pin: Pin,
    /// Signs of failure in the results of tools, besides those that are recognised anyway.
    pub failures: Vec<FailureRule>,
    /// Strategies, least lossy first: names, or tables with options.
    pub ladder: Vec<Step>,
    /// The name of the summariser that the step `summarize` asks; when not given, the only one, or
    /// the one called "default".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarizer: Option<String>,
    /// Whether streams are asked for usage where the client did not ask. The extra chunk is taken
    /// out of the answer again.
    pub include_usage: bool,
    /// "forward" or "reject": what happens to a request that cannot be made to fit.
    pub on_unfit: OnUnfit,
    /// "forward" (the client's bytes) or "reject": what happens when planning fails.
    pub on_error: OnError,
    /// Whether a request that the upstream refuses as too long is compacted and sent once more.
    pub rescue: bool,
    /// Whether `max_tokens` (`max_completion_tokens`) is lowered where that alone makes a refused
    /// request fit.
    pub fit_output: bool,
    /// Whether a request may choose the policy with `x-baler-policy`.
    pub selectable: bool,
}

/// Tokens kept free for the reply, where a policy does not say.
pub const DEFAULT_RESERVE: u64 = 16_384;

/// The newest part that steps keep which do not say so themselves, where the policy does not say.
pub const DEFAULT_KEEP: Keep = Keep {
    tokens: 20_000,
    turns: 1,
    exchanges: 0,
    messages: 0,
};

/// `policy.trigger`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    /// Share of window − reserve.
    pub ratio: Option<f64>,
    /// Prompt tokens.
    pub tokens: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
    /// User messages.
    pub turns: Option<u64>,
    /// Calls of tools.
    pub tool_uses: Option<u64>,
    /// A CEL expression over `total_tokens`, `budget`, `window`, `occupancy` (doubles), `messages`
    /// (each `seq`, `role`, `tokens`, `tool`, `kind`, `chars`), `model` and `headers`.
    pub when: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            name: "default".to_owned(),
            models: vec!["*".to_owned()],
            paths: Vec::new(),
            headers: BTreeMap::new(),
            mode: Mode::Enforce,
            window: Window::Auto,
            default_window: 128_000,
            calibration_factor: None,
            reserve: DEFAULT_RESERVE,
            trigger: None,
            idle_trigger: None,
            target: None,
            min_gain: None,
            break_even: true,
            prices: None,
            roles: Roles::Auto,
            keep: None,
            pin: Pin::default(),
            failures: Vec::new(),
            ladder: ["dedupe", "minify", "digest", "token_budget"]
                .into_iter()
                .filter_map(Step::named)
                .collect(),
            summarizer: None,
            include_usage: false,
            on_unfit: OnUnfit::Forward,
            on_error: OnError::Forward,
            rescue: true,
            fit_output: false,
            selectable: false,
        }
    }
}
