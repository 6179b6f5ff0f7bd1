//! Calls of webhooks.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};

use crate::observe::Metrics;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series, WAIT_BUCKETS};

labels! {
    /// How a call of a webhook ended.
    pub enum WebhookOutcome {
        /// With messages. Whether they can be used is decided later.
        Answered = "answered",
        /// Without a connection.
        Unreachable = "unreachable",
        /// With a status other than success.
        Status = "status",
        /// With a broken body.
        Broken = "broken",
        /// With a body over the limit.
        TooLarge = "too_large",
        /// With a body that holds no list of messages.
        NotMessages = "not_messages",
        /// Not within its time limit.
        Timeout = "timeout",
        /// The request for it could not be written: a defect.
        Error = "error",
    }
}

/// The metrics of this event.
#[derive(Debug)]
pub(in crate::observe) struct WebhookMetrics {
    calls: Series<WebhookOutcome, IntCounter>,
    seconds: Histogram,
}

impl WebhookMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        Ok(WebhookMetrics {
            calls: registrar.counter_by(
                "baler_webhook_calls_total",
                "Calls of webhook steps, by outcome.",
                "outcome",
            )?,
            seconds: registrar.histogram(
                "baler_webhook_seconds",
                "Time that requests waited for webhooks.",
                &WAIT_BUCKETS,
            )?,
        })
    }
}

/// A webhook was called.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct WebhookCalled {
    pub outcome: WebhookOutcome,
    pub took: Duration,
}

impl WebhookCalled {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.webhooks.seconds.observe(self.took.as_secs_f64());
        metrics.webhooks.calls.inc(self.outcome);
    }
}
