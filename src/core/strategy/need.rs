//! Answers from outside: those that steps have, and those that a step stops to ask for.

use crate::core::Cancelled;
use crate::core::summary::{PendingSummary, Summaries};

/// The reason for which a ladder did not come to its end.
#[derive(Debug)]
pub enum Stopped {
    /// Nobody waits any more.
    Cancelled,
    /// A step needs an answer from outside.
    Asks(Box<Need>),
    /// The result must not be sent: a defect of a strategy.
    Invalid,
    /// Messages must be read, and only brief work is wanted.
    TakesLong,
}

impl From<Cancelled> for Stopped {
    fn from(_: Cancelled) -> Self {
        Stopped::Cancelled
    }
}

/// An answer that a step needs from outside.
#[derive(Debug)]
pub enum Need {
    /// The answer of a webhook.
    Webhook(WebhookRequest),
    /// A summary.
    Summary(Box<PendingSummary>),
}

/// The answers that there are for a conversation.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExternalInputs<'a> {
    /// Answers of the policy's webhooks, in the order of the policy.
    pub answers: &'a [WebhookAnswer],
    /// The summaries that there are.
    pub summaries: Option<&'a Summaries>,
}

impl ExternalInputs<'_> {
    /// Whether nothing outside is asked: then the same messages lead to the same list, wherever and
    /// whenever.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.answers.is_empty() && self.summaries.is_none()
    }
}

/// A question to a webhook.
#[derive(Debug)]
pub struct WebhookRequest {
    /// The number of the webhook among the policy's.
    pub webhook: usize,
    /// The messages as they are now, raw JSON.
    pub messages: Vec<String>,
    /// Prompt tokens that they may take.
    pub target_tokens: u64,
    /// Prompt tokens that they take now.
    pub tokens: u64,
}

/// The state of a webhook's answer.
#[derive(Debug, Clone, Default)]
pub enum WebhookAnswer {
    /// The webhook was not asked, and cannot be: the step is passed over.
    #[default]
    Unavailable,
    /// The webhook was not asked yet.
    Unasked,
    /// There is no answer, or none that is of use.
    Failed,
    /// The messages that are to stand for the span, raw JSON.
    Messages(Vec<String>),
}
