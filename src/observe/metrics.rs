//! The Prometheus metrics. Every label value comes from a closed set or from the configuration.

use std::time::Duration;

use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

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

impl Phase {
    const ALL: [Phase; 5] = [Phase::View, Phase::Measure, Phase::Decide, Phase::Render, Phase::Total];

    fn as_str(self) -> &'static str {
        match self {
            Phase::View => "view",
            Phase::Measure => "measure",
            Phase::Decide => "decide",
            Phase::Render => "render",
            Phase::Total => "total",
        }
    }
}

/// All metrics, registered.
#[derive(Debug)]
#[expect(missing_docs, reason = "each is described by its help text in `new`")]
pub struct Metrics {
    registry: Registry,
    pub requests: IntCounterVec,
    pub in_flight: IntGauge,
    pub tokens: IntCounterVec,
    pub tokens_removed: IntCounterVec,
    pub messages: IntCounterVec,
    pub compactions: IntCounterVec,
    pub checkpoints: IntCounterVec,
    pub occupancy: HistogramVec,
    overhead: [Histogram; 5],
    pub first_byte: HistogramVec,
    pub fail_open: IntCounterVec,
    pub passes: IntCounterVec,
    pub unfit: IntCounter,
    pub answers_broken: IntCounterVec,
    pub upstream_tokens: IntCounterVec,
    pub usage_learned: IntCounter,
    pub refusals: IntCounterVec,
}

const OVERHEAD_BUCKETS: [f64; 14] =
    [0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5];
const FIRST_BYTE_BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const OCCUPANCY_BUCKETS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 2.0];

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// When two metrics clash: a defect.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let counter = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let metric = IntCounter::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let histograms = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| -> Result<HistogramVec, prometheus::Error> {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };

        let in_flight = IntGauge::new("baler_requests_in_flight", "Requests being served, answers still streaming included.")?;
        registry.register(Box::new(in_flight.clone()))?;
        let overhead = histograms(
            "baler_overhead_seconds",
            "Time that an inspected request waited for Baler itself, by phase; waiting for client and upstream is not in it.",
            &["phase"],
            &OVERHEAD_BUCKETS,
        )?;
        let build = GaugeVec::new(Opts::new("baler_build_info", "Always 1; the labels name the build."), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        registry.register(Box::new(build))?;
        Ok(Metrics {
            requests: counters(
                "baler_requests_total",
                "Requests answered, by endpoint, action and status class.",
                &["endpoint", "action", "status"],
            )?,
            in_flight,
            tokens: counters(
                "baler_prompt_tokens_total",
                "Estimated prompt tokens of inspected requests, before and after.",
                &["policy", "model", "stage"],
            )?,
            tokens_removed: counters(
                "baler_prompt_tokens_removed_total",
                "Estimated prompt tokens that were not sent.",
                &["policy", "model"],
            )?,
            messages: counters("baler_messages_total", "Messages of inspected requests, before and after.", &["policy", "model", "stage"])?,
            compactions: counters(
                "baler_compactions_total",
                "Compactions, once per strategy that acted, by what triggered them.",
                &["strategy", "reason"],
            )?,
            checkpoints: counters(
                "baler_checkpoint_lookups_total",
                "Requests that were looked up in the ledger, by whether a checkpoint matched.",
                &["result"],
            )?,
            occupancy: histograms(
                "baler_occupancy_ratio",
                "Estimated prompt tokens / (window - reserve), before and after.",
                &["policy", "stage"],
                &OCCUPANCY_BUCKETS,
            )?,
            overhead: Phase::ALL.map(|phase| overhead.with_label_values(&[phase.as_str()])),
            first_byte: histograms(
                "baler_upstream_first_byte_seconds",
                "Time from sending a request to the head of its answer.",
                &["endpoint"],
                &FIRST_BYTE_BUCKETS,
            )?,
            fail_open: counters(
                "baler_fail_open_total",
                "Requests whose original bytes were forwarded because thinking failed, by cause.",
                &["cause"],
            )?,
            passes: counters("baler_passes_total", "Inspected requests that were forwarded as they came, by why.", &["reason"])?,
            unfit: counter("baler_unfit_total", "Requests that could not be made to fit.")?,
            answers_broken: counters("baler_answers_broken_total", "Answers that did not end properly, by who left.", &["side"])?,
            upstream_tokens: counters("baler_upstream_tokens_total", "Tokens that the upstream reported, by kind.", &["kind"])?,
            usage_learned: counter("baler_usage_learned_total", "Answers whose reported usage was kept.")?,
            refusals: counters("baler_refusals_total", "Errors that Baler itself answered, by kind.", &["kind"])?,
            registry,
        })
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
