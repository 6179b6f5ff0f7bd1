//! Requests that the upstream refused as too long.

use prometheus::IntCounter;
use tracing::{info, warn};

use crate::core::wire::overflow::{Kind, Overflow};
use crate::observe::Metrics;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series};

labels! {
    /// The outcome of a request that the upstream refused as too long.
    pub enum RescueOutcome {
        /// It was served once it was smaller.
        Rescued = "rescued",
        /// It cannot be made smaller.
        Unfit = "unfit",
        /// It was made smaller and failed all the same.
        Failed = "failed",
        /// The policy does not want it retried.
        Off = "off",
    }
}

/// The metrics of this event.
#[derive(Debug)]
pub(in crate::observe) struct OverflowMetrics {
    overflows: Series<Kind, IntCounter>,
    rescues: Series<RescueOutcome, IntCounter>,
}

impl OverflowMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        Ok(OverflowMetrics {
            overflows: registrar.counter_by(
                "baler_overflows_total",
                "Requests that the upstream refused as too long, by the part that was too long.",
                "kind",
            )?,
            rescues: registrar.counter_by(
                "baler_rescues_total",
                "Requests that the upstream refused as too long, by outcome.",
                "outcome",
            )?,
        })
    }
}

/// The upstream refused a request as too long.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct Overflowed<'a> {
    pub id: &'a str,
    pub policy: &'a str,
    pub overflow: &'a Overflow,
    pub outcome: RescueOutcome,
}

impl Overflowed<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        let kind = self.overflow.kind;
        metrics.overflows.overflows.inc(kind);
        metrics.overflows.rescues.inc(self.outcome);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    policy = self.policy,
                    kind = kind.as_str(),
                    outcome = self.outcome.as_str(),
                    window = self.overflow.window,
                    prompt_tokens = self.overflow.prompt.as_ref().map(|prompt| prompt.tokens),
                    "overflow"
                )
            };
        }
        // The client noticed everything but a rescue.
        if self.outcome == RescueOutcome::Rescued {
            line!(info);
        } else {
            line!(warn);
        }
    }
}
