//! The numbers that a decision compares with, and amounts of tokens as operators write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::scale;

/// A number of tokens: `{ tokens = 50000 }`, or as a share of window − reserve: `{ ratio = 0.5 }`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "AmountKeys", rename_all = "snake_case")]
#[schemars(with = "AmountKeys")]
pub enum Amount {
    /// This many tokens.
    Tokens(u64),
    /// This share, 0..=1.
    Ratio(f64),
}

/// A number of tokens: one of the two keys.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Amount")]
struct AmountKeys {
    /// Share of window − reserve, 0 to 1.
    ratio: Option<f64>,
    /// Tokens.
    tokens: Option<u64>,
}

impl TryFrom<AmountKeys> for Amount {
    type Error = String;

    fn try_from(keys: AmountKeys) -> Result<Self, Self::Error> {
        match keys {
            AmountKeys {
                ratio: Some(ratio),
                tokens: None,
            } if !(0.0..=1.0).contains(&ratio) => {
                Err(format!("ratio {ratio} is not between 0 and 1"))
            }
            AmountKeys {
                ratio: Some(ratio),
                tokens: None,
            } => Ok(Amount::Ratio(ratio)),
            AmountKeys {
                ratio: None,
                tokens: Some(tokens),
            } => Ok(Amount::Tokens(tokens)),
            _ => Err("takes one of ratio and tokens".to_owned()),
        }
    }
}

impl Amount {
    /// The amount in tokens, where `whole` is what a ratio is a share of.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Tokens(tokens) => tokens,
            Amount::Ratio(ratio) => scale(whole, ratio),
        }
    }
}

/// What a model takes, tokens. A number alone is a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// The context length.
    pub window: u64,
    /// The longest prompt, where that is less than the window.
    pub input: Option<u64>,
}

impl Capacity {
    /// What the prompt may take where `reserve` tokens are kept free for the reply.
    #[must_use]
    pub fn prompt(self, reserve: u64) -> u64 {
        let left = self.window.saturating_sub(reserve);
        self.input.map_or(left, |input| input.min(left))
    }
}

impl From<u64> for Capacity {
    fn from(window: u64) -> Self {
        Capacity {
            window,
            input: None,
        }
    }
}

/// The numbers that a decision compares with. All in prompt tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The context length.
    pub window: u64,
    /// What the prompt may take: window − reserve, or the longest input of the model where that is
    /// less.
    pub prompt: u64,
    /// Low-water mark.
    pub target: u64,
    /// The least a compaction must save while the prompt still fits.
    pub min_gain: u64,
}

impl Budget {
    /// The same in tokens as Baler counts them, where the upstream counts `factor` (1 or more) of
    /// its own for each. The window stays: it says what kind of model it is.
    #[must_use]
    pub fn in_counted(self, factor: f64) -> Self {
        let counted = |tokens: u64| scale(tokens, 1.0 / factor.max(1.0));
        Budget {
            window: self.window,
            prompt: counted(self.prompt),
            target: counted(self.target),
            min_gain: counted(self.min_gain),
        }
    }
}
