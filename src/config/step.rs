//! The steps of a policy's ladder as an operator writes them: a strategy's name, or a table of that name with options.

use schemars::JsonSchema;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// `policy.target`, `policy.min_gain`, `token_budget.budget`: one of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Amount {
    /// Share of window − reserve.
    pub ratio: Option<f64>,
    /// Tokens.
    pub tokens: Option<u64>,
}

/// A step of `policy.ladder`: a name, or a table of that name with options.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Old tool results become a placeholder.
    ClearResults(ClearResults),
    /// The newest turns, exchanges or messages stay.
    SlidingWindow(SlidingWindow),
    /// The oldest exchanges go until the rest fits.
    TokenBudget(TokenBudget),
}

/// Options of `clear_results`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClearResults {
    /// The newest results that stay.
    pub keep: usize,
    /// Tools whose results are never cleared; `*` and `?` are wild.
    pub exclude_tools: Vec<String>,
    /// Whether the arguments of calls whose results are cleared become {}.
    pub clear_inputs: bool,
    /// Tokens that clearing must save, or nothing is cleared.
    pub clear_at_least: u64,
}

/// Options of `sliding_window`: one of the three; 20 messages when none is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindow {
    /// Turns that stay.
    pub turns: Option<u64>,
    /// Exchanges that stay.
    pub exchanges: Option<u64>,
    /// Messages that stay, rounded up to whole exchanges.
    pub messages: Option<u64>,
}

/// Options of `token_budget`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudget {
    /// Down to here; the policy's target when not given.
    pub budget: Option<Amount>,
    /// Share of the budget from which on anything is done.
    pub threshold: f64,
}

impl Default for ClearResults {
    fn default() -> Self {
        ClearResults { keep: 3, exclude_tools: Vec::new(), clear_inputs: false, clear_at_least: 0 }
    }
}

impl Default for TokenBudget {
    fn default() -> Self {
        TokenBudget { budget: None, threshold: 1.0 }
    }
}

/// The names there are.
pub(super) const STEPS: [&str; 3] = ["clear_results", "sliding_window", "token_budget"];

impl<'de> Deserialize<'de> for Step {
    /// Accepts a bare name as well as a table, and names the key where an option is wrong.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StepVisitor;
        impl<'de> Visitor<'de> for StepVisitor {
            type Value = Step;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a strategy's name, or a table of one with options")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Step, E> {
                match name {
                    "clear_results" => Ok(Step::ClearResults(ClearResults::default())),
                    "sliding_window" => Ok(Step::SlidingWindow(SlidingWindow::default())),
                    "token_budget" => Ok(Step::TokenBudget(TokenBudget::default())),
                    _ => Err(E::unknown_variant(name, &STEPS)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step, A::Error> {
                let Some(name) = map.next_key::<String>()? else { return Err(de::Error::invalid_length(0, &self)) };
                let step = match name.as_str() {
                    "clear_results" => Step::ClearResults(map.next_value()?),
                    "sliding_window" => Step::SlidingWindow(map.next_value()?),
                    "token_budget" => Step::TokenBudget(map.next_value()?),
                    _ => return Err(de::Error::unknown_field(&name, &STEPS)),
                };
                match map.next_key::<String>()? {
                    None => Ok(step),
                    Some(_) => Err(de::Error::invalid_length(2, &"one strategy a table")),
                }
            }
        }
        deserializer.deserialize_any(StepVisitor)
    }
}
