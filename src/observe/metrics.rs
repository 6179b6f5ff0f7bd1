//! The Prometheus metrics. Every label value comes from a closed set or from the configuration; what every request
//! touches is looked up once.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::core::budget::Budget;
use crate::core::conversation::{Size, ratio};
use crate::core::wire::Dialect;

/// Where Baler's own time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Viewing the body: fields, messages, exchanges.
    View,
    /// Digests and token counts.
    Measure,
    /// Replay, estimate, decision, compaction.
    Decide,
    /// Validation and rendering.
    Render,
    /// All of it that the request waited for.
    Total,
}

/// Label values of [`Phase`], in its order.
const PHASES: [&str; 5] = ["view", "measure", "decide", "render", "total"];

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// A chat completion.
    Chat,
    /// Anything else.
    Other,
}

/// Label values of [`Endpoint`], in its order.
const ENDPOINTS: [&str; 2] = [Dialect::ChatCompletions.as_str(), "other"];

/// What Baler did with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Forwarded as it came: nothing to do.
    None,
    /// Would have been edited; forwarded as it came because only observing was asked for.
    Observed,
    /// An earlier checkpoint was applied.
    Replayed,
    /// A compaction happened.
    Compacted,
    /// The upstream refused the request as too long, and served it once it was smaller.
    Rescued,
    /// Thinking failed; forwarded as it came.
    FailedOpen,
    /// Not looked at: asked for, or not readable to Baler.
    Bypassed,
}

/// Header and label values of [`Action`], in its order.
const ACTIONS: [&str; 7] = [
    "none",
    "observed",
    "replayed",
    "compacted",
    "rescued",
    "failed-open",
    "bypassed",
];

impl Action {
    /// Header and label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ACTIONS.get(self as usize).copied().unwrap_or_default()
    }
}

impl Endpoint {
    /// Label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        ENDPOINTS.get(self as usize).copied().unwrap_or_default()
    }
}

/// Label values of status classes.
const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The metrics of one policy's traffic with one model, looked up once.
#[derive(Debug)]
pub struct TrafficMetrics {
    policy: String,
    model: String,
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

    /// Counts a request of these sizes, before and after, with this budget.
    pub fn count(&self, sizes: [Size; 2], budget: &Budget) {
        self.window
            .set(i64::try_from(budget.window).unwrap_or(i64::MAX));
        for (((size, tokens), messages), occupancy) in sizes
            .iter()
            .zip(&self.tokens)
            .zip(&self.messages)
            .zip(&self.occupancy)
        {
            tokens.inc_by(size.tokens);
            messages.inc_by(size.messages);
            occupancy.observe(ratio(size.tokens, budget.room));
        }
        let [before, after] = sizes;
        self.tokens_removed
            .inc_by(before.tokens.saturating_sub(after.tokens));
    }
}

impl TrafficMetrics {
    /// An estimate met what the upstream then `reported`; `factor` is what it was learned to be by that.
    pub fn estimated(&self, tokens: u64, reported: u64, factor: Option<f64>) {
        self.estimate_error
            .observe(ratio(tokens.abs_diff(reported), reported));
        if let Some(factor) = factor {
            self.calibration.set(factor);
        }
    }
}

/// All metrics, registered.
#[derive(Debug)]
#[expect(missing_docs, reason = "each is described by its help text in `new`")]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    /// The same, by endpoint, action and status class.
    request_counters: Vec<std::sync::OnceLock<IntCounter>>,
    pub in_flight: IntGauge,
    tokens: IntCounterVec,
    tokens_removed: IntCounterVec,
    messages: IntCounterVec,
    occupancy: HistogramVec,
    estimate_error: HistogramVec,
    calibration: GaugeVec,
    window: IntGaugeVec,
    overhead: [Histogram; 5],
    first_byte: [Histogram; 2],
    pub compactions: IntCounterVec,
    pub strategy_tokens: IntCounterVec,
    pub strategy_counts: IntCounterVec,
    pub trigger_errors: IntCounter,
    pub webhook_calls: IntCounterVec,
    pub webhook_seconds: Histogram,
    pub summarizer_calls: IntCounterVec,
    pub summarizer_seconds: Histogram,
    pub summarizer_tokens: IntCounterVec,
    pub summarizer_breakers: IntGauge,
    pub summaries: IntCounterVec,
    pub summaries_running: IntGauge,
    pub summary_seconds: Histogram,
    pub summary_ungrounded: Histogram,
    pub summaries_wanted: IntCounterVec,
    pub checkpoint_hits: IntCounter,
    pub checkpoint_misses: IntCounter,
    pub fail_open: IntCounterVec,
    pub overflows: IntCounterVec,
    pub rescues: IntCounterVec,
    pub passes: IntCounterVec,
    /// `passes` with the reason `gate`.
    pub gated: IntCounter,
    pub unfit: IntCounter,
    pub answers_broken: IntCounterVec,
    /// Prompt, cached and completion tokens.
    pub upstream_tokens: [IntCounter; 3],
    pub usage_learned: IntCounter,
    pub truncations_suspected: IntCounter,
    /// Streams that were asked for usage on the client's behalf.
    pub usage_included: IntCounter,
    pub refusals: IntCounterVec,
    pub windows_discovered: IntGauge,
    pub discoveries: IntCounterVec,
}

const OVERHEAD_BUCKETS: [f64; 14] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.5,
];
const FIRST_BYTE_BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
const ERROR_BUCKETS: [f64; 10] = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0];
const OCCUPANCY_BUCKETS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 2.0];

type Registered<M> = Result<M, prometheus::Error>;

fn registered<M: Collector + Clone + 'static>(registry: &Registry, metric: M) -> Registered<M> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// When two metrics clash: a defect.
    pub fn new() -> Registered<Self> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(
                &registry,
                IntCounterVec::new(Opts::new(name, help), labels)?,
            )
        };
        let counter = |name: &str, help: &str| registered(&registry, IntCounter::new(name, help)?);
        let histograms = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            registered(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new(name, help).buckets(buckets.to_vec()),
                    labels,
                )?,
            )
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            registered(
                &registry,
                Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?,
            )
        };

        let build = registered(
            &registry,
            IntGaugeVec::new(
                Opts::new("baler_build_info", "Always 1; the labels name the build."),
                &["version"],
            )?,
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let overhead = "Time that an inspected request waited for Baler itself, by phase; waiting for client and upstream is not in it.";
        let overhead = histograms(
            "baler_overhead_seconds",
            overhead,
            &["phase"],
            &OVERHEAD_BUCKETS,
        )?;
        let first_byte = "Time from sending a request to the head of its answer.";
        let first_byte = histograms(
            "baler_upstream_first_byte_seconds",
            first_byte,
            &["endpoint"],
            &FIRST_BYTE_BUCKETS,
        )?;
        let lookups =
            "Requests that were looked up in the ledger, by whether a checkpoint matched.";
        let lookups = counters("baler_checkpoint_lookups_total", lookups, &["result"])?;
        let upstream_tokens = counters(
            "baler_upstream_tokens_total",
            "Tokens that the upstream reported, by kind.",
            &["kind"],
        )?;
        let passes = counters(
            "baler_passes_total",
            "Inspected requests that were forwarded as they came, by why.",
            &["reason"],
        )?;
        let traffic = ["policy", "model", "stage"];
        let occupancy = "Estimated prompt tokens / (window - reserve), before and after.";

        Ok(Metrics {
            requests: counters(
                "baler_requests_total",
                "Requests answered.",
                &["endpoint", "action", "status"],
            )?,
            request_counters: (0..ENDPOINTS.len() * ACTIONS.len() * STATUSES.len())
                .map(|_| std::sync::OnceLock::new())
                .collect(),
            in_flight: registered(
                &registry,
                IntGauge::new(
                    "baler_requests_in_flight",
                    "Requests being served, answers still streaming included.",
                )?,
            )?,
            tokens: counters(
                "baler_prompt_tokens_total",
                "Estimated prompt tokens of inspected requests, before and after.",
                &traffic,
            )?,
            tokens_removed: counters(
                "baler_prompt_tokens_removed_total",
                "Estimated prompt tokens that were not sent.",
                &["policy", "model"],
            )?,
            messages: counters(
                "baler_messages_total",
                "Messages of inspected requests, before and after.",
                &traffic,
            )?,
            occupancy: histograms(
                "baler_occupancy_ratio",
                occupancy,
                &["policy", "stage"],
                &OCCUPANCY_BUCKETS,
            )?,
            estimate_error: histograms(
                "baler_estimate_error_ratio",
                "Relative error of the estimated prompt tokens against what the upstream then reported.",
                &["policy"],
                &ERROR_BUCKETS,
            )?,
            calibration: registered(
                &registry,
                GaugeVec::new(
                    Opts::new(
                        "baler_calibration_factor",
                        "The upstream's prompt tokens per token counted here, as learned.",
                    ),
                    &["policy", "model"],
                )?,
            )?,
            window: registered(
                &registry,
                IntGaugeVec::new(
                    Opts::new(
                        "baler_window_tokens",
                        "The context length that the last request was held against.",
                    ),
                    &["policy", "model"],
                )?,
            )?,
            overhead: PHASES.map(|phase| overhead.with_label_values(&[phase])),
            first_byte: ENDPOINTS.map(|endpoint| first_byte.with_label_values(&[endpoint])),
            compactions: counters(
                "baler_compactions_total",
                "Steps of a compaction that changed something.",
                &["strategy", "reason"],
            )?,
            strategy_tokens: counters(
                "baler_strategy_tokens_removed_total",
                "Prompt tokens that each strategy took off.",
                &["strategy"],
            )?,
            strategy_counts: counters(
                "baler_strategy_counts_total",
                "What strategies count beside messages and tokens.",
                &["strategy", "count"],
            )?,
            trigger_errors: counter(
                "baler_trigger_errors_total",
                "Times that a policy's expression failed and its ratio decided.",
            )?,
            webhook_calls: counters(
                "baler_webhook_calls_total",
                "Calls of webhook steps, by outcome.",
                &["outcome"],
            )?,
            webhook_seconds: histogram(
                "baler_webhook_seconds",
                "Time that requests waited for webhooks.",
                &FIRST_BYTE_BUCKETS,
            )?,
            summarizer_calls: counters(
                "baler_summarizer_calls_total",
                "Calls of the summariser, by outcome.",
                &["outcome"],
            )?,
            summarizer_seconds: histogram(
                "baler_summarizer_seconds",
                "Time that a call of the summariser took.",
                &FIRST_BYTE_BUCKETS,
            )?,
            summarizer_tokens: counters(
                "baler_summarizer_tokens_total",
                "Tokens that summaries cost, by kind.",
                &["kind"],
            )?,
            summarizer_breakers: registered(
                &registry,
                IntGauge::new(
                    "baler_summarizer_breakers_open",
                    "Summarisers that are left alone because they failed in a row.",
                )?,
            )?,
            summaries: counters(
                "baler_summaries_total",
                "Summaries that were due, by what came of it.",
                &["outcome"],
            )?,
            summaries_running: registered(
                &registry,
                IntGauge::new("baler_summaries_running", "Summaries being made.")?,
            )?,
            summary_seconds: histogram(
                "baler_summary_seconds",
                "Time that a summary took, all its calls included.",
                &FIRST_BYTE_BUCKETS,
            )?,
            summary_ungrounded: histogram(
                "baler_summary_ungrounded_ratio",
                "Share of a summary's identifiers and numbers that its source does not have.",
                &ERROR_BUCKETS,
            )?,
            summaries_wanted: counters(
                "baler_summaries_wanted_total",
                "Compactions that asked for a summary, by how it stood: ready, late, failed, missing.",
                &["state"],
            )?,
            checkpoint_hits: lookups.with_label_values(&["hit"]),
            checkpoint_misses: lookups.with_label_values(&["miss"]),
            fail_open: counters(
                "baler_fail_open_total",
                "Requests for which thinking failed, by cause.",
                &["cause"],
            )?,
            overflows: counters(
                "baler_overflows_total",
                "Requests that the upstream refused as too long, by what was too long.",
                &["kind"],
            )?,
            rescues: counters(
                "baler_rescues_total",
                "What came of requests that the upstream refused as too long.",
                &["outcome"],
            )?,
            gated: passes.with_label_values(&["gate"]),
            passes,
            unfit: counter(
                "baler_unfit_total",
                "Requests that could not be made to fit.",
            )?,
            answers_broken: counters(
                "baler_answers_broken_total",
                "Answers that did not end properly, by who left.",
                &["side"],
            )?,
            upstream_tokens: ["prompt", "cached", "completion"]
                .map(|kind| upstream_tokens.with_label_values(&[kind])),
            usage_learned: counter(
                "baler_usage_learned_total",
                "Answers whose reported usage was kept.",
            )?,
            truncations_suspected: counter(
                "baler_truncations_suspected_total",
                "Answers that reported far fewer prompt tokens than were sent: the upstream seems to have cut the prompt.",
            )?,
            usage_included: counter(
                "baler_usage_included_total",
                "Streams that were asked for usage on the client's behalf.",
            )?,
            refusals: counters(
                "baler_refusals_total",
                "Errors that Baler itself answered, by kind.",
                &["kind"],
            )?,
            windows_discovered: registered(
                &registry,
                IntGauge::new(
                    "baler_windows_discovered",
                    "Models whose context length the upstream told.",
                )?,
            )?,
            discoveries: counters(
                "baler_discovery_total",
                "Times that the upstream was asked for its models, by outcome.",
                &["outcome"],
            )?,
            registry,
        })
    }

    /// The metrics of a policy's traffic with a model.
    #[must_use]
    pub fn traffic(&self, policy: &str, model: &str) -> TrafficMetrics {
        let stages = ["before", "after"];
        TrafficMetrics {
            policy: policy.to_owned(),
            model: model.to_owned(),
            tokens: stages.map(|stage| self.tokens.with_label_values(&[policy, model, stage])),
            messages: stages.map(|stage| self.messages.with_label_values(&[policy, model, stage])),
            tokens_removed: self.tokens_removed.with_label_values(&[policy, model]),
            occupancy: stages.map(|stage| self.occupancy.with_label_values(&[policy, stage])),
            estimate_error: self.estimate_error.with_label_values(&[policy]),
            calibration: self.calibration.with_label_values(&[policy, model]),
            window: self.window.with_label_values(&[policy, model]),
        }
    }

    /// Counts an answered request.
    pub fn answered(&self, endpoint: Endpoint, action: Action, status: u16) {
        let class = usize::from(status / 100).clamp(1, STATUSES.len()) - 1;
        let at = (endpoint as usize * ACTIONS.len() + action as usize) * STATUSES.len() + class;
        if let Some(counter) = self.request_counters.get(at) {
            let status = STATUSES.get(class).copied().unwrap_or_default();
            counter
                .get_or_init(|| {
                    self.requests
                        .with_label_values(&[endpoint.as_str(), action.as_str(), status])
                })
                .inc();
        }
    }

    /// Records the time that an upstream took to begin its answer.
    pub fn first_byte_after(&self, endpoint: Endpoint, time: Duration) {
        if let Some(histogram) = self.first_byte.get(endpoint as usize) {
            histogram.observe(time.as_secs_f64());
        }
    }

    /// Records time spent in a phase.
    pub fn spent(&self, phase: Phase, time: Duration) {
        if let Some(histogram) = self.overhead.get(phase as usize) {
            histogram.observe(time.as_secs_f64());
        }
    }

    /// Prometheus text.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Writing into memory fails for a metric without a name only.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}
