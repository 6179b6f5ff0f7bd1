//! Sizes: how large a request is, and amounts of tokens as operators write them.

use super::entry::Speaker;
use super::measure::Measure;

/// `tokens × factor`, rounded down.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "token counts stay far below 2^52, and a negative or endless product saturates"
)]
pub fn scale(tokens: u64, factor: f64) -> u64 {
    (tokens as f64 * factor) as u64
}

/// Tokens as a float.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "token counts stay far below 2^52"
)]
pub fn as_float(tokens: u64) -> f64 {
    tokens as f64
}

/// `part / whole` as a float, 0 for an empty whole.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "token counts stay far below 2^52"
)]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The limit for each of `sizes` with which they come to `allowed` together: small ones stay whole,
/// large ones share the rest.
#[must_use]
pub fn level(mut sizes: Vec<u64>, allowed: u64) -> u64 {
    sizes.sort_unstable();
    let mut left = allowed;
    for (done, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - done) as u64;
        if *size > share {
            return share;
        }
        left -= size;
    }
    u64::MAX
}

/// The size of a request, as triggers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Prompt tokens, fixed parts included.
    pub tokens: u64,
    /// Messages.
    pub messages: u64,
    /// User messages.
    pub turns: u64,
    /// Calls of tools.
    pub tool_uses: u64,
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, more: Size) {
        self.tokens += more.tokens;
        self.messages += more.messages;
        self.turns += more.turns;
        self.tool_uses += more.tool_uses;
    }
}

impl std::ops::SubAssign for Size {
    fn sub_assign(&mut self, less: Size) {
        self.tokens = self.tokens.saturating_sub(less.tokens);
        self.messages = self.messages.saturating_sub(less.messages);
        self.turns = self.turns.saturating_sub(less.turns);
        self.tool_uses = self.tool_uses.saturating_sub(less.tool_uses);
    }
}

impl Size {
    /// That of one message.
    #[must_use]
    pub fn of(measure: &Measure) -> Self {
        Size {
            tokens: measure.tokens,
            messages: 1,
            turns: u64::from(measure.speaker == Speaker::User),
            tool_uses: u64::from(measure.shape.calls),
        }
    }
}
