//! Events. Each method writes the metrics and the log line of one thing that happened.

use std::time::Duration;

use tracing::{debug, info, warn};

use crate::core::budget::Budget;
use crate::core::conversation::Size;
use crate::core::planner::UsageEstimate;
use crate::core::policy::Reason;
use crate::core::strategy::Report;
use crate::core::summary::{Spent, Summary};
use crate::core::wire::Usage;
use crate::core::wire::overflow::Overflow;
use crate::observe::{Action, Endpoint, Metrics, TrafficMetrics};

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// All of it was passed on.
    Complete,
    /// The upstream broke off, or said nothing for too long.
    UpstreamBroke,
    /// The client went away first.
    ClientLeft,
}

impl StreamEnd {
    fn as_str(self) -> &'static str {
        match self {
            StreamEnd::Complete => "complete",
            StreamEnd::UpstreamBroke => "upstream_broke",
            StreamEnd::ClientLeft => "client_left",
        }
    }
}

/// A request is over.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct RequestEnded<'a> {
    pub id: &'a str,
    pub endpoint: Endpoint,
    pub status: u16,
    pub action: Action,
    pub reason: &'static str,
    pub traffic: Option<&'a TrafficMetrics>,
    /// Before and after.
    pub sizes: Option<[Size; 2]>,
    pub budget: Option<Budget>,
    pub estimate: Option<UsageEstimate>,
    pub usage: Option<Usage>,
    pub overhead: Duration,
    pub first_byte: Option<Duration>,
    pub took: Duration,
    pub ending: StreamEnd,
}

impl RequestEnded<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.answered(self.endpoint, self.action, self.status);
        if let Some(time) = self.first_byte {
            metrics.first_byte_after(self.endpoint, time);
        }
        if self.ending != StreamEnd::Complete {
            metrics
                .answers_broken
                .with_label_values(&[if self.ending == StreamEnd::ClientLeft {
                    "client"
                } else {
                    "upstream"
                }])
                .inc();
        }
        if let (Some(traffic), Some(sizes), Some(budget)) = (self.traffic, self.sizes, self.budget)
        {
            traffic.count(sizes, &budget);
        }
        if let Some(usage) = self.usage {
            let reported = [
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.completion_tokens,
            ];
            for (counter, tokens) in metrics.upstream_tokens.iter().zip(reported) {
                counter.inc_by(tokens);
            }
        }
        self.log();
    }

    fn log(&self) {
        let [before, after] = self.sizes.unwrap_or_default();
        let reported = self.estimate.and_then(|estimate| estimate.reported);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    endpoint = self.endpoint.as_str(),
                    status = self.status,
                    action = self.action.as_str(),
                    reason = self.reason,
                    policy = self.traffic.map(TrafficMetrics::policy),
                    model = self.traffic.map(TrafficMetrics::model),
                    tokens_before = before.tokens,
                    tokens_after = after.tokens,
                    messages_before = before.messages,
                    messages_after = after.messages,
                    estimate_reported = reported.map(|known| known.prompt_tokens),
                    estimate_reported_messages = reported.map(|known| known.messages),
                    estimate_counted =
                        self.estimate.map(|all| all.counted
                            - reported.and_then(|known| known.counted).unwrap_or(0)),
                    prompt_tokens = self.usage.map(|usage| usage.prompt_tokens),
                    cached_tokens = self.usage.map(|usage| usage.cached_tokens),
                    overhead_ms = milliseconds(self.overhead),
                    first_byte_ms = self.first_byte.map(milliseconds),
                    took_ms = milliseconds(self.took),
                    ending = self.ending.as_str(),
                    "request"
                )
            };
        }
        // A request with nothing to tell is a line for those who ask; what Baler did, and what went wrong, is for all.
        let eventful = !matches!(
            self.action,
            Action::None | Action::Bypassed | Action::Replayed
        ) || self.status >= 500
            || self.ending == StreamEnd::UpstreamBroke;
        if self.action == Action::FailedOpen {
            line!(warn);
        } else if eventful {
            line!(info);
        } else {
            line!(debug);
        }
    }
}

/// Milliseconds, to a thousandth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// What came of a request that the upstream refused as too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// It was served once it was smaller.
    Rescued,
    /// It cannot be made smaller.
    Unfit,
    /// It was made smaller and failed all the same.
    Failed,
    /// The policy does not want it.
    Off,
}

impl Rescue {
    fn as_str(self) -> &'static str {
        match self {
            Rescue::Rescued => "rescued",
            Rescue::Unfit => "unfit",
            Rescue::Failed => "failed",
            Rescue::Off => "off",
        }
    }
}

/// The upstream refused a request as too long.
pub fn overflowed(metrics: &Metrics, id: &str, policy: &str, overflow: &Overflow, outcome: Rescue) {
    let kind = overflow.kind.as_str();
    metrics.overflows.with_label_values(&[kind]).inc();
    metrics.rescues.with_label_values(&[outcome.as_str()]).inc();
    info!(
        id,
        policy,
        kind,
        outcome = outcome.as_str(),
        window = overflow.window,
        prompt_tokens = overflow.prompt.as_ref().map(|prompt| prompt.tokens),
        "overflow"
    );
}

/// The upstream answered, and reported far fewer prompt tokens than were sent to it.
pub fn truncation_suspected(
    metrics: &Metrics,
    id: &str,
    traffic: Option<&TrafficMetrics>,
    sent: &UsageEstimate,
    usage: Usage,
) {
    metrics.truncations_suspected.inc();
    warn!(
        id,
        policy = traffic.map(TrafficMetrics::policy),
        model = traffic.map(TrafficMetrics::model),
        counted = sent.counted,
        prompt_tokens = usage.prompt_tokens,
        "the upstream seems to have cut the prompt to its context length: set window in the policy to what it really is"
    );
}

/// The upstream was asked for its models' windows, and `known` of them are known by now.
pub fn discovery_ended(metrics: &Metrics, outcome: &'static str, heard: bool, known: usize) {
    metrics.discoveries.with_label_values(&[outcome]).inc();
    metrics
        .windows_discovered
        .set(i64::try_from(known).unwrap_or(i64::MAX));
    if heard {
        info!(
            outcome,
            known, "asked the upstream for its models' context lengths"
        );
    } else {
        warn!(
            outcome,
            known,
            "asking the upstream for its models' context lengths failed; it is asked again later"
        );
    }
}

/// A model came up of which nobody says how long its context is.
pub fn unknown_model(policy: &str, model: &str, window: u64) {
    warn!(
        policy,
        model,
        window,
        "the context length of this model is not known: the policy's default_window is assumed; set window if it is wrong"
    );
}

/// From here on, unknown models are not named any more.
pub fn unknown_models_are_many(told: usize) {
    warn!(told, "many unknown models: further ones are not named");
}

/// The summariser was called.
pub fn summary_call(metrics: &Metrics, outcome: &'static str, took: Duration) {
    metrics.summarizer_calls.with_label_values(&[outcome]).inc();
    metrics.summarizer_seconds.observe(took.as_secs_f64());
    debug!(outcome, took_ms = milliseconds(took), "summariser called");
}

/// The preparation of a summary is over.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct SummaryMade<'a> {
    pub outcome: &'static str,
    /// Messages that it covers.
    pub covered: usize,
    /// Tokens that it stands for.
    pub stands_for: u64,
    pub spent: Spent,
    pub summary: Option<&'a Summary>,
}

impl SummaryMade<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.summaries.with_label_values(&[self.outcome]).inc();
        metrics
            .summarizer_tokens
            .with_label_values(&["prompt"])
            .inc_by(self.spent.prompt_tokens);
        metrics
            .summarizer_tokens
            .with_label_values(&["completion"])
            .inc_by(self.spent.completion_tokens);
        if let Some(summary) = self.summary {
            metrics
                .summary_seconds
                .observe(summary.spent.took.as_secs_f64());
        }
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    outcome = self.outcome,
                    messages = self.covered,
                    tokens_before = self.stands_for,
                    tokens_after = self.summary.map(|summary| summary.tokens),
                    generation = self.summary.map(|summary| summary.generation),
                    incremental = self.summary.map(|summary| summary.incremental),
                    split_turn = self.summary.map(|summary| summary.split),
                    calls = self.spent.calls,
                    prompt_tokens = self.spent.prompt_tokens,
                    completion_tokens = self.spent.completion_tokens,
                    took_ms = self.summary.map(|summary| milliseconds(summary.spent.took)),
                    "summary"
                )
            };
        }
        if self.summary.is_some() {
            line!(info);
        } else {
            line!(warn);
        }
    }
}

/// A ladder ran.
pub fn compaction_happened(
    metrics: &Metrics,
    id: &str,
    policy: &str,
    reason: Reason,
    reports: &[Report],
) {
    for report in reports {
        if report.acted() {
            metrics
                .compactions
                .with_label_values(&[report.strategy, reason.as_str()])
                .inc();
        }
        metrics
            .strategy_tokens
            .with_label_values(&[report.strategy])
            .inc_by(report.before.tokens.saturating_sub(report.after.tokens));
        if report.strategy == "summarize" {
            let told = |name: &str| {
                report
                    .details
                    .iter()
                    .any(|(key, count)| *key == name && *count > 0)
            };
            let state = ["ready", "late", "failed"]
                .into_iter()
                .find(|state| told(state))
                .unwrap_or("missing");
            metrics.summaries_wanted.with_label_values(&[state]).inc();
        }
        for (count, value) in &report.details {
            metrics
                .strategy_counts
                .with_label_values(&[report.strategy, *count])
                .inc_by(*value);
        }
        debug!(
            id,
            policy,
            reason = reason.as_str(),
            strategy = report.strategy,
            acted = report.acted(),
            tokens_before = report.before.tokens,
            tokens_after = report.after.tokens,
            messages_before = report.before.messages,
            messages_after = report.after.messages,
            dropped = report.dropped,
            replaced = report.replaced,
            counts = ?report.details,
            "strategy"
        );
    }
}
