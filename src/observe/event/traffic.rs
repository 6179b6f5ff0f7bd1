//! The series of each policy's traffic by model: sizes, occupancy, window, calibration.

use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use crate::core::budget::Budget;
use crate::core::conversation::ratio;
use crate::observe::event::gauge_value;
use crate::observe::event::request::Sizes;
use crate::observe::registry::{ERROR_BUCKETS, LabelDescription, Registered, Registrar};

const OCCUPANCY_BUCKETS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 2.0];

/// Values of the label `stage`: the client's list, and the list that is sent.
const STAGES: [&str; 2] = ["before", "after"];

/// The metrics that have the label `policy`.
#[derive(Debug)]
pub(in crate::observe) struct TrafficFamilies {
    tokens: IntCounterVec,
    tokens_removed: IntCounterVec,
    messages: IntCounterVec,
    occupancy: HistogramVec,
    estimate_error: HistogramVec,
    calibration: GaugeVec,
    window: IntGaugeVec,
}

impl TrafficFamilies {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let policy = || LabelDescription::open("policy");
        let policy_and_model = || vec![policy(), LabelDescription::open("model")];
        let stage = || LabelDescription::listed("stage", &STAGES);
        let all = || vec![policy(), LabelDescription::open("model"), stage()];
        Ok(TrafficFamilies {
            tokens: registrar.counters(
                "baler_prompt_tokens_total",
                "Estimated prompt tokens of inspected requests, before and after.",
                all(),
            )?,
            tokens_removed: registrar.counters(
                "baler_prompt_tokens_removed_total",
                "Estimated prompt tokens that were not sent.",
                policy_and_model(),
            )?,
            messages: registrar.counters(
                "baler_messages_total",
                "Messages of inspected requests, before and after.",
                all(),
            )?,
            occupancy: registrar.histograms(
                "baler_occupancy_ratio",
                "Estimated prompt tokens / (window - reserve), before and after.",
                vec![policy(), stage()],
                &OCCUPANCY_BUCKETS,
            )?,
            estimate_error: registrar.histograms(
                "baler_estimate_error_ratio",
                "Relative error of the estimated prompt tokens against those the upstream \
                 then reported.",
                vec![policy()],
                &ERROR_BUCKETS,
            )?,
            calibration: registrar.float_gauges(
                "baler_calibration_factor",
                "The upstream's prompt tokens per token counted here, as learned.",
                policy_and_model(),
            )?,
            window: registrar.gauges(
                "baler_window_tokens",
                "The context length that the last request was compared with.",
                policy_and_model(),
            )?,
        })
    }

    /// The series of one policy and one model, created at 0.
    pub(in crate::observe) fn of(&self, policy: &str, model: &str) -> TrafficMetrics {
        let stages = |family: &IntCounterVec| {
            STAGES.map(|stage| family.with_label_values(&[policy, model, stage]))
        };
        TrafficMetrics {
            policy: policy.to_owned(),
            model: model.to_owned(),
            tokens: stages(&self.tokens),
            messages: stages(&self.messages),
            tokens_removed: self.tokens_removed.with_label_values(&[policy, model]),
            occupancy: STAGES.map(|stage| self.occupancy.with_label_values(&[policy, stage])),
            estimate_error: self.estimate_error.with_label_values(&[policy]),
            calibration: self.calibration.with_label_values(&[policy, model]),
            window: self.window.with_label_values(&[policy, model]),
        }
    }
}

/// The series of one policy's traffic with one model, looked up once.
#[derive(Debug)]
pub struct TrafficMetrics {
    policy: String,
    model: String,
    /// Before and after, as [`STAGES`].
    tokens: [IntCounter; 2],
    messages: [IntCounter; 2],
    tokens_removed: IntCounter,
    occupancy: [Histogram; 2],
    estimate_error: Histogram,
    calibration: Gauge,
    window: IntGauge,
}

impl TrafficMetrics {
    /// The policy's name.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The model's label.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Counts a request of these sizes with this budget.
    pub(super) fn count(&self, sizes: Sizes, budget: &Budget) {
        self.window.set(gauge_value(budget.window));
        let stages = [sizes.before, sizes.after];
        for (size, counter) in stages.iter().zip(&self.tokens) {
            counter.inc_by(size.tokens);
        }
        for (size, counter) in stages.iter().zip(&self.messages) {
            counter.inc_by(size.messages);
        }
        for (size, histogram) in stages.iter().zip(&self.occupancy) {
            histogram.observe(ratio(size.tokens, budget.prompt));
        }
        let removed = sizes.before.tokens.saturating_sub(sizes.after.tokens);
        self.tokens_removed.inc_by(removed);
    }

    /// Compares an estimate with the tokens that the upstream then reported; `factor` is the
    /// calibration learned from it.
    pub(super) fn calibrate(&self, estimated: u64, reported: u64, factor: Option<f64>) {
        self.estimate_error
            .observe(ratio(estimated.abs_diff(reported), reported));
        if let Some(factor) = factor {
            self.calibration.set(factor);
        }
    }
}
