//! The usage that upstreams report, and what is learned from it.

use prometheus::IntCounter;
use tracing::warn;

use crate::core::planner::UsageEstimate;
use crate::core::wire::Usage;
use crate::observe::Metrics;
use crate::observe::event::traffic::TrafficMetrics;
use crate::observe::registry::{Registered, Registrar};

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct UsageMetrics {
    learned: IntCounter,
    truncations: IntCounter,
    included: IntCounter,
}

impl UsageMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        Ok(UsageMetrics {
            learned: registrar.counter(
                "baler_usage_learned_total",
                "Answers whose reported usage was kept.",
            )?,
            truncations: registrar.counter(
                "baler_truncations_suspected_total",
                "Answers that reported far fewer prompt tokens than were sent: the upstream seems \
                to have cut the prompt.",
            )?,
            included: registrar.counter(
                "baler_usage_included_total",
                "Streams for which Baler requested usage on the client's behalf.",
            )?,
        })
    }
}

/// The usage that an upstream reported was kept.
#[derive(Debug)]
pub struct UsageLearned<'a> {
    /// The series of the request's policy and model.
    pub traffic: Option<&'a TrafficMetrics>,
    /// Prompt tokens that were estimated for the request as sent.
    pub estimated: Option<u64>,
    /// Prompt tokens that were reported.
    pub reported: u64,
    /// The model's calibration after it.
    pub factor: Option<f64>,
}

impl UsageLearned<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.usage.learned.inc();
        if let (Some(traffic), Some(estimated)) = (self.traffic, self.estimated) {
            traffic.calibrate(estimated, self.reported, self.factor);
        }
    }
}

/// The upstream answered, and reported far fewer prompt tokens than were sent to it.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct TruncationSuspected<'a> {
    pub id: &'a str,
    pub traffic: Option<&'a TrafficMetrics>,
    pub sent: &'a UsageEstimate,
    pub usage: Usage,
}

impl TruncationSuspected<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.usage.truncations.inc();
        warn!(
            id = self.id,
            policy = self.traffic.map(TrafficMetrics::policy),
            model = self.traffic.map(TrafficMetrics::model),
            counted = self.sent.counted,
            prompt_tokens = self.usage.prompt_tokens,
            "the upstream seems to have cut the prompt to its context length: set the policy's \
             window to the real one"
        );
    }
}

/// A stream was asked for usage that its client did not request.
#[derive(Debug)]
pub struct UsageIncluded;

impl UsageIncluded {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.usage.included.inc();
    }
}
