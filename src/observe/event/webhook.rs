//! Calls of webhooks.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};
use tracing::{debug, warn};

use crate::observe::Metrics;
use crate::observe::event::milliseconds;
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
pub struct WebhookCalled<'a> {
    /// The request that it was called for.
    pub id: &'a str,
    pub policy: &'a str,
    pub outcome: WebhookOutcome,
    /// Where it was called, without a query.
    pub address: &'a str,
    /// The status of its answer, where that is why it failed.
    pub status: Option<u16>,
    /// Why it could not be reached, in the words of the system or of TLS.
    pub cause: Option<&'a str>,
    pub took: Duration,
}

impl WebhookCalled<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.webhooks.seconds.observe(self.took.as_secs_f64());
        metrics.webhooks.calls.inc(self.outcome);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    policy = self.policy,
                    outcome = self.outcome.as_str(),
                    address = self.address,
                    status = self.status,
                    cause = self.cause,
                    took_ms = milliseconds(self.took),
                    "webhook called"
                )
            };
        }
        if self.outcome == WebhookOutcome::Answered {
            line!(debug);
        } else {
            line!(warn);
        }
    }
}
