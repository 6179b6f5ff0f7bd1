//! The series of each policy's traffic by model: sizes, occupancy, window, calibration, reported
//! usage.

use std::sync::Arc;

use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use crate::core::budget::Budget;
use crate::core::conversation::ratio;
use crate::core::wire::Usage;
use crate::observe::event::gauge_value;
use crate::observe::event::genai::{GenAiFamilies, GenAiMetrics, Provider};
use crate::observe::event::request::{Action, Sizes};
use crate::observe::event::savings::{SavingsFamilies, SavingsMetrics};
use crate::observe::label::labels;
use crate::observe::registry::{ERROR_BUCKETS, LabelDescription, Registered, Registrar, Series};

const OCCUPANCY_BUCKETS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 2.0];

labels! {
    /// Whether a decision is carried out. What is only observed is never counted as done.
    pub enum TrafficMode {
        /// It is.
        Enforce = "enforce",
        /// It is reported, and the client's bytes are sent.
        Observe = "observe",
    }
}

labels! {
    /// A list of messages.
    pub enum Stage {
        /// The client's.
        Before = "before",
        /// The one that is sent; with [`TrafficMode::Observe`], that would have been.
        After = "after",
    }
}

labels! {
    /// Kinds of tokens that an upstream reports.
    pub enum TokenKind {
        /// The whole prompt.
        Prompt = "prompt",
        /// The part of the prompt that was read from a cache.
        Cached = "cached",
        /// The answer.
        Completion = "completion",
    }
}

/// The metrics that have the labels `policy` and `model`.
#[derive(Debug)]
pub(in crate::observe) struct TrafficFamilies {
    tokens: IntCounterVec,
    tokens_removed: IntCounterVec,
    compacted_away: IntCounterVec,
    messages: IntCounterVec,
    occupancy: HistogramVec,
    estimate_error: HistogramVec,
    calibration: GaugeVec,
    window: IntGaugeVec,
    reported: IntCounterVec,
    unreported: IntCounterVec,
    reread: IntCounterVec,
    savings: SavingsFamilies,
    gen_ai: GenAiFamilies,
}

/// The labels of a policy's traffic with a model.
fn of_policy_and_model(more: &[LabelDescription]) -> Vec<LabelDescription> {
    let mut labels = vec![
        LabelDescription::open("policy"),
        LabelDescription::open("model"),
    ];
    labels.extend_from_slice(more);
    labels
}

impl TrafficFamilies {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let mode = || LabelDescription::of::<TrafficMode>("mode");
        let both = [mode(), LabelDescription::of::<Stage>("stage")];
        let [reported, unreported, reread] = register_reported(registrar)?;
        Ok(TrafficFamilies {
            tokens: registrar.counters(
                "baler_prompt_tokens_total",
                "Estimated prompt tokens of inspected requests, before and after.",
                of_policy_and_model(&both),
            )?,
            tokens_removed: registrar.counters(
                "baler_prompt_tokens_removed_total",
                "Estimated prompt tokens that were not sent (mode enforce) or would not have been \
                 (mode observe), counted with every request.",
                of_policy_and_model(&[mode()]),
            )?,
            compacted_away: registrar.counters(
                "baler_compaction_tokens_removed_total",
                "Estimated prompt tokens that compactions removed, counted once for each.",
                of_policy_and_model(&[mode()]),
            )?,
            messages: registrar.counters(
                "baler_messages_total",
                "Messages of inspected requests, before and after.",
                of_policy_and_model(&both),
            )?,
            occupancy: registrar.histograms(
                "baler_occupancy_ratio",
                "Estimated prompt tokens / (window - reserve), before and after.",
                of_policy_and_model(&both),
                &OCCUPANCY_BUCKETS,
            )?,
            estimate_error: registrar.histograms(
                "baler_estimate_error_ratio",
                "Relative error of the estimated prompt tokens against those the upstream \
                 then reported.",
                vec![LabelDescription::open("policy")],
                &ERROR_BUCKETS,
            )?,
            calibration: registrar.float_gauges(
                "baler_calibration_factor",
                "The upstream's prompt tokens per token counted here, as learned.",
                of_policy_and_model(&[]),
            )?,
            window: registrar.gauges(
                "baler_window_tokens",
                "The context length that the last request was compared with.",
                of_policy_and_model(&[]),
            )?,
            reported,
            unreported,
            reread,
            savings: SavingsFamilies::register(registrar)?,
            gen_ai: GenAiFamilies::register(registrar)?,
        })
    }

    /// The series of one policy and one model, created at 0.
    pub(in crate::observe) fn of(
        &self,
        policy: &str,
        model: &str,
        provider: &Provider,
    ) -> TrafficMetrics {
        let labels = [policy, model];
        let modes_and_stages = || {
            let modes = TrafficMode::ALL.iter();
            modes.flat_map(|mode| Stage::ALL.iter().map(|stage| (*mode, *stage)))
        };
        let staged = |family: &IntCounterVec| {
            Series::new(modes_and_stages(), |(mode, stage)| {
                family.with_label_values(&[policy, model, mode.as_str(), stage.as_str()])
            })
        };
        let by_mode = |family: &IntCounterVec| {
            Series::new(TrafficMode::ALL.iter().copied(), |mode| {
                family.with_label_values(&[policy, model, mode.as_str()])
            })
        };
        let actions_and_kinds = Action::ALL
            .iter()
            .flat_map(|action| TokenKind::ALL.iter().map(|kind| (*action, *kind)));
        TrafficMetrics {
            policy: policy.to_owned(),
            model: model.to_owned(),
            tokens: staged(&self.tokens),
            messages: staged(&self.messages),
            tokens_removed: by_mode(&self.tokens_removed),
            compacted_away: by_mode(&self.compacted_away),
            occupancy: Series::new(modes_and_stages(), |(mode, stage)| {
                let labels = [policy, model, mode.as_str(), stage.as_str()];
                self.occupancy.with_label_values(&labels)
            }),
            estimate_error: self.estimate_error.with_label_values(&[policy]),
            calibration: self.calibration.with_label_values(&labels),
            window: self.window.with_label_values(&labels),
            reported: Series::new(actions_and_kinds, |(action, kind)| {
                let labels = [policy, model, action.as_str(), kind.as_str()];
                self.reported.with_label_values(&labels)
            }),
            unreported: self.unreported.with_label_values(&labels),
            reread: self.reread.with_label_values(&labels),
            savings: self.savings.of(policy),
            gen_ai: self.gen_ai.of(model, provider),
        }
    }

    /// The account of a policy's savings.
    pub(in crate::observe) fn savings(&self, policy: &str) -> Arc<SavingsMetrics> {
        self.savings.of(policy)
    }
}

/// What upstreams report: tokens, answers without a report, tokens that were read again.
fn register_reported(registrar: &mut Registrar) -> Registered<[IntCounterVec; 3]> {
    let action_and_kind = [
        LabelDescription::of::<Action>("action"),
        LabelDescription::of::<TokenKind>("kind"),
    ];
    Ok([
        registrar.counters(
            "baler_upstream_tokens_total",
            "Tokens that the upstream reported, by kind.",
            of_policy_and_model(&action_and_kind),
        )?,
        registrar.counters(
            "baler_usage_unreported_total",
            "Successful chat answers that reported no usage.",
            of_policy_and_model(&[]),
        )?,
        registrar.counters(
            "baler_reread_tokens_total",
            "Prompt tokens that the upstream read from its cache for the request before a \
             compaction, and had to read again with it.",
            of_policy_and_model(&[]),
        )?,
    ])
}

/// The series of one policy's traffic with one model, looked up once.
#[derive(Debug)]
pub struct TrafficMetrics {
    policy: String,
    model: String,
    tokens: Series<(TrafficMode, Stage), IntCounter>,
    messages: Series<(TrafficMode, Stage), IntCounter>,
    tokens_removed: Series<TrafficMode, IntCounter>,
    compacted_away: Series<TrafficMode, IntCounter>,
    occupancy: Series<(TrafficMode, Stage), Histogram>,
    estimate_error: Histogram,
    calibration: Gauge,
    window: IntGauge,
    reported: Series<(Action, TokenKind), IntCounter>,
    unreported: IntCounter,
    reread: IntCounter,
    savings: Arc<SavingsMetrics>,
    pub(super) gen_ai: GenAiMetrics,
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

    /// Counts a request of these sizes with this budget. Returns the tokens that were not sent.
    pub(super) fn count(&self, mode: TrafficMode, sizes: Sizes, budget: &Budget) -> u64 {
        self.window.set(gauge_value(budget.window));
        for (stage, size) in [(Stage::Before, sizes.before), (Stage::After, sizes.after)] {
            self.tokens.inc_by((mode, stage), size.tokens);
            self.messages.inc_by((mode, stage), size.messages);
            let occupancy = ratio(size.tokens, budget.prompt);
            self.occupancy.observe((mode, stage), occupancy);
        }
        let removed = sizes.before.tokens.saturating_sub(sizes.after.tokens);
        self.tokens_removed.inc_by(mode, removed);
        match mode {
            TrafficMode::Enforce => removed,
            TrafficMode::Observe => 0,
        }
    }

    /// Counts a compaction, once.
    pub(super) fn compacted(&self, mode: TrafficMode, removed: u64) {
        self.compacted_away.inc_by(mode, removed);
    }

    /// Counts what an answer reported.
    pub(super) fn reported(&self, action: Action, usage: Usage) {
        for (kind, tokens) in [
            (TokenKind::Prompt, usage.prompt_tokens),
            (TokenKind::Cached, usage.cached_tokens),
            (TokenKind::Completion, usage.completion_tokens),
        ] {
            self.reported.inc_by((action, kind), tokens);
        }
    }

    /// Counts a successful answer without usage.
    pub(super) fn unreported(&self) {
        self.unreported.inc();
    }

    /// Settles a request: tokens that were not sent, and tokens that had to be read again.
    pub(super) fn settle(&self, removed: u64, reread: u64) {
        self.reread.inc_by(reread);
        self.savings.settle(removed, reread);
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
