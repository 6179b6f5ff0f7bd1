//! The facts that planning starts from. Derived facts are the same in every replica; live facts are
//! known of one request only, and can force a compaction but never change a derived one.

use std::sync::Arc;
use std::time::Duration;

use crate::core::conversation::Fingerprint;
use crate::core::edit::Checkpoint;

/// The first links of the two prefix hashes of a request.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// Of checkpoints: tenant, upstream, policy, window, step, what is known of the model, and the
    /// version of what strategies write ([`TEXT_VERSION`](crate::core::strategy::TEXT_VERSION)).
    pub checkpoint: Fingerprint,
    /// Of reported usage: tenant, upstream, model, and the fixed parts of the prompt.
    pub usage: Fingerprint,
}

/// Facts that are known of one request only.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveFacts {
    /// The longest reply that the request asks for, tokens.
    pub max_output_tokens: Option<u64>,
    /// The request asked to be compacted now.
    pub force: bool,
    /// What the upstream taught about the model.
    pub learned: ModelCalibration,
    /// Usage that the request itself carries.
    pub prior: Option<PriorUsage>,
    /// The list that the upstream refused as too long.
    pub refused: Option<RefusedList>,
}

/// A list that the upstream refused as too long.
#[derive(Debug, Clone, Copy)]
pub struct RefusedList {
    /// The key of its usage.
    pub list: Fingerprint,
    /// Prompt tokens that it has at least, by the upstream's count.
    pub tokens: u64,
    /// Tokens counted for it.
    pub counted: u64,
}

/// What an upstream taught about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelCalibration {
    /// The context length in tokens, where the upstream reported a narrower one than assumed.
    pub window: Option<u64>,
    /// The upstream's tokens per token of ours.
    pub factor: f64,
}

impl Default for ModelCalibration {
    fn default() -> Self {
        ModelCalibration {
            window: None,
            factor: 1.0,
        }
    }
}

impl ModelCalibration {
    /// The narrower of the assumed context length and the learned one, tokens.
    #[must_use]
    pub fn narrowed(&self, window: u64) -> u64 {
        self.window.map_or(window, |learned| learned.min(window))
    }
}

/// Usage that was reported for the first messages of a client's list, as they were sent then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorUsage {
    /// Messages of the client's list that it covers.
    pub messages: usize,
    /// Prompt tokens as reported.
    pub prompt_tokens: u64,
    /// Tokens that were counted for the same messages, when known: another count is about another
    /// list.
    pub counted: Option<u64>,
}

/// A key under which a checkpoint of this conversation, or what was reported for it, may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointKey {
    /// Messages of the prefix.
    pub messages: usize,
    /// Its prefix hash: of checkpoints with instructions left out, of usage with them.
    pub prefix: Fingerprint,
}

/// The longest checkpoint that the ledger has for a conversation.
#[derive(Debug, Clone)]
pub struct KnownCheckpoint {
    /// Messages of its prefix.
    pub messages: usize,
    /// The checkpoint.
    pub checkpoint: Arc<Checkpoint>,
}

/// A key under which the upstream's usage for a prefix of the list to be sent may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageKey {
    /// Messages of the client's list that the prefix stands for.
    pub messages: usize,
    /// The prefix hash of what is sent for them, instructions included.
    pub list: Fingerprint,
    /// Tokens counted for them.
    pub counted: u64,
}

/// What the ledger knows of the usage of a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownUsage {
    /// The longest prefix with reported usage: its messages and prompt tokens.
    pub reported: Option<(usize, u64)>,
    /// Time since the longest known prefix was last sent.
    pub silence: Option<Duration>,
}
