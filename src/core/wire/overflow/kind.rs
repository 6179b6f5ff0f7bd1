//! The parts of an overflow that the tables of wordings name.

/// The part of a request that was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The prompt. Also where the message leaves it open: a shorter prompt helps in every case but
    /// [`Kind::Output`].
    Prompt,
    /// Prompt and `max_tokens` together: a smaller `max_tokens` would do. With a prompt that is not
    /// exact it may do.
    Total,
    /// `max_tokens` alone is more than the model answers; a shorter prompt does not help.
    Output,
}

impl Kind {
    /// Every value.
    pub const ALL: [Kind; 3] = [Kind::Prompt, Kind::Total, Kind::Output];

    /// Label value for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Prompt => "prompt",
            Kind::Total => "total",
            Kind::Output => "output",
        }
    }
}

/// The size of a prompt as an upstream counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prompt {
    /// Tokens.
    pub tokens: u64,
    /// Whether the upstream counted all of it and nothing else. If not, the number is a bound or an
    /// estimate, and nothing to calibrate a counter by.
    pub exact: bool,
}
