//! Summaries: when one is made, what its calls and its checks came to, and whether it was there
//! when needed.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use tracing::{debug, info, warn};

use crate::core::conversation::as_float;
use crate::core::strategy::Report;
use crate::core::summary::{Rejected, Spent, Summary};
use crate::observe::Metrics;
use crate::observe::event::{gauge_value, milliseconds};
use crate::observe::label::{Label, labels};
use crate::observe::registry::{
    ERROR_BUCKETS, LabelDescription, Registered, Registrar, Series, WAIT_BUCKETS,
};

labels! {
    /// Why a summary that was due is not made now.
    pub enum SkipReason {
        /// Its conversation's summary failed a short while ago.
        FailedBefore = "failed_before",
        /// The summariser failed too often in a row.
        Breaker = "breaker",
        /// As many summaries as allowed are being made.
        Busy = "busy",
        /// As many summaries as allowed are being made for this tenant.
        TenantBusy = "tenant_busy",
        /// There were too many calls in the last minute.
        Rate = "rate",
        /// Summaries have cost this tenant their share.
        Share = "share",
        /// Baler is shutting down.
        Stopping = "stopping",
        /// Another replica makes it.
        Elsewhere = "elsewhere",
    }
}

labels! {
    /// How a call of the summariser ended.
    pub enum CallOutcome {
        /// With an answer.
        Answered = "answered",
        /// Without a connection.
        Unreachable = "unreachable",
        /// The connection or the body broke.
        Broken = "broken",
        /// Not in time.
        Timeout = "timeout",
        /// With 429 or 5xx.
        Overloaded = "overloaded",
        /// The prompt is too long for the summariser.
        Overflow = "overflow",
        /// The summariser does not know a parameter.
        Parameter = "parameter",
        /// With another status.
        RefusedRequest = "refused_request",
        /// Not made: there were too many calls in the last minute.
        Rate = "rate",
        /// The answer exceeds the limit.
        TooLarge = "too_large",
    }
}

/// The outcome of a summary that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryOutcome {
    /// It was made.
    Made,
    /// It was not begun.
    Skipped(SkipReason),
    /// A call for it failed.
    CallFailed(CallOutcome),
    /// The answer was not accepted.
    Rejected(Rejected),
    /// The request is unreadable, the window holds no chunk of it, or there is no readable key.
    Impossible,
}

impl Label for SummaryOutcome {
    fn all() -> Vec<Self> {
        let skipped = SkipReason::ALL.iter().copied().map(Self::Skipped);
        let calls = CallOutcome::ALL.iter().copied();
        let failed = calls
            .filter(|outcome| *outcome != CallOutcome::Answered)
            .map(Self::CallFailed);
        let rejected = Rejected::ALL.iter().copied().map(Self::Rejected);
        let mut all = vec![Self::Made, Self::Impossible];
        all.extend(skipped);
        all.extend(failed);
        all.extend(rejected);
        all
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Skipped(reason) => reason.as_str(),
            Self::CallFailed(outcome) => outcome.as_str(),
            Self::Rejected(rejected) => rejected.as_str(),
            Self::Impossible => "impossible",
        }
    }
}

labels! {
    /// The state of a summary when a ladder came to `summarize`.
    pub enum SummaryState {
        /// It was there.
        Ready = "ready",
        /// It was still being made.
        Late = "late",
        /// It could not be made.
        Failed = "failed",
        /// It was never begun.
        Missing = "missing",
    }
}

impl SummaryState {
    /// The state that a report of `summarize` counts; `None` for other strategies.
    pub(super) fn of(report: &Report) -> Option<Self> {
        if report.strategy != "summarize" {
            return None;
        }
        let counted = |state: &SummaryState| {
            let mut details = report.details.iter();
            details.any(|(name, count)| *name == state.as_str() && *count > 0)
        };
        let found = Self::ALL.iter().copied().find(counted);
        Some(found.unwrap_or(SummaryState::Missing))
    }
}

labels! {
    /// Kinds of tokens that summaries cost.
    pub enum SpentKind {
        /// Tokens of prompts.
        Prompt = "prompt",
        /// Tokens of answers.
        Completion = "completion",
    }
}

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct SummaryMetrics {
    by_summarizer: SummarizerFamilies,
    tokens: IntCounterVec,
    running: IntGauge,
    length: Histogram,
    generation: Histogram,
    incremental: IntCounter,
    split_turns: IntCounter,
    wanted: Series<SummaryState, IntCounter>,
}

impl SummaryMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let by_summarizer = SummarizerFamilies::register(registrar)?;
        let [length, generation] = register_made(registrar)?;
        Ok(SummaryMetrics {
            by_summarizer,
            tokens: registrar.counters(
                "baler_summarizer_tokens_total",
                "Tokens that summaries cost, by kind.",
                vec![
                    LabelDescription::open("policy"),
                    LabelDescription::of::<SpentKind>("kind"),
                ],
            )?,
            running: registrar.gauge("baler_summaries_running", "Summaries being made.")?,
            length,
            generation,
            incremental: registrar.counter(
                "baler_summaries_incremental_total",
                "Summaries that were made from an earlier one and what followed it.",
            )?,
            split_turns: registrar.counter(
                "baler_summaries_split_turns_total",
                "Summaries that end inside a turn.",
            )?,
            wanted: registrar.counter_by(
                "baler_summaries_wanted_total",
                "Compactions that needed a summary, by its state: ready, late, failed, missing.",
                "state",
            )?,
        })
    }

    /// Creates the series of a policy at 0.
    pub(in crate::observe) fn create(&self, policy: &str) {
        for kind in SpentKind::ALL {
            self.tokens.with_label_values(&[policy, kind.as_str()]);
        }
    }

    /// The series of one summariser, created at 0.
    pub(in crate::observe) fn of_summarizer(&self, name: &str) -> SummarizerMetrics {
        self.by_summarizer.of(name)
    }

    /// Counts a compaction whose ladder came to `summarize`.
    pub(super) fn count_wanted(&self, state: SummaryState) {
        self.wanted.inc(state);
    }
}

/// The metrics that have the label `summarizer`.
#[derive(Debug)]
struct SummarizerFamilies {
    calls: IntCounterVec,
    call_seconds: HistogramVec,
    breakers_open: IntGaugeVec,
    outcomes: IntCounterVec,
    seconds: HistogramVec,
    ungrounded: HistogramVec,
}

impl SummarizerFamilies {
    fn register(registrar: &mut Registrar) -> Registered<Self> {
        let summarizer = || LabelDescription::open("summarizer");
        let outcome = LabelDescription::of::<CallOutcome>("outcome");
        let calls = registrar.counters(
            "baler_summarizer_calls_total",
            "Calls of a summariser, by outcome.",
            vec![summarizer(), outcome],
        )?;
        let outcome = LabelDescription::of::<SummaryOutcome>("outcome");
        let mut times =
            |name, help, buckets| registrar.histograms(name, help, vec![summarizer()], buckets);
        Ok(SummarizerFamilies {
            calls,
            call_seconds: times(
                "baler_summarizer_seconds",
                "Time that a call of a summariser took.",
                &WAIT_BUCKETS,
            )?,
            seconds: times(
                "baler_summarization_seconds",
                "Time that a summary took, all its calls included.",
                &WAIT_BUCKETS,
            )?,
            ungrounded: times(
                "baler_summarization_ungrounded_ratio",
                "Share of a summary's identifiers and numbers that its source does not contain.",
                &ERROR_BUCKETS,
            )?,
            breakers_open: registrar.gauges(
                "baler_summarizer_breakers_open",
                "Services of a summariser that are not called because they failed in a row.",
                vec![summarizer()],
            )?,
            outcomes: registrar.counters(
                "baler_summaries_total",
                "Summaries that were due, by outcome.",
                vec![summarizer(), outcome],
            )?,
        })
    }

    fn of(&self, name: &str) -> SummarizerMetrics {
        SummarizerMetrics {
            calls: Series::new(CallOutcome::all(), |outcome: CallOutcome| {
                self.calls.with_label_values(&[name, outcome.as_str()])
            }),
            call_seconds: self.call_seconds.with_label_values(&[name]),
            breakers_open: self.breakers_open.with_label_values(&[name]),
            outcomes: Series::new(SummaryOutcome::all(), |outcome: SummaryOutcome| {
                self.outcomes.with_label_values(&[name, outcome.as_str()])
            }),
            seconds: self.seconds.with_label_values(&[name]),
            ungrounded: self.ungrounded.with_label_values(&[name]),
        }
    }
}

/// The series of one summariser.
#[derive(Debug)]
pub struct SummarizerMetrics {
    calls: Series<CallOutcome, IntCounter>,
    call_seconds: Histogram,
    breakers_open: IntGauge,
    outcomes: Series<SummaryOutcome, IntCounter>,
    seconds: Histogram,
    ungrounded: Histogram,
}

/// What a summary that was made is like: its length and its generation.
fn register_made(registrar: &mut Registrar) -> Registered<[Histogram; 2]> {
    Ok([
        registrar.histogram(
            "baler_summarization_tokens",
            "Length of summaries.",
            &LENGTH_BUCKETS,
        )?,
        registrar.histogram(
            "baler_summarization_generation",
            "Times that a summary was updated since it was made from the originals, plus one.",
            &GENERATION_BUCKETS,
        )?,
    ])
}

/// Buckets of the length of summaries, tokens.
const LENGTH_BUCKETS: [f64; 8] = [
    100.0, 250.0, 500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0, 16_000.0,
];
/// Buckets of the generations of summaries.
const GENERATION_BUCKETS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0];

/// A summary was due and is not made now.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct SummarySkipped {
    pub reason: SkipReason,
}

impl SummarySkipped {
    /// Writes it down.
    pub fn emit(self, series: &SummarizerMetrics) {
        series.outcomes.inc(SummaryOutcome::Skipped(self.reason));
    }
}

/// A summary is being made from now on.
#[derive(Debug)]
pub struct SummaryStarted;

impl SummaryStarted {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.summaries.running.inc();
    }
}

/// A summary is no longer being made.
#[derive(Debug)]
pub struct SummaryReleased {
    /// Services of the summariser that are not called for now.
    pub open_breakers: usize,
}

impl SummaryReleased {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics, series: &SummarizerMetrics) {
        metrics.summaries.running.dec();
        series.breakers_open.set(gauge_value(self.open_breakers));
    }
}

/// A summariser was called.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct SummarizerCalled<'a> {
    /// The request that the summary is made for.
    pub id: &'a str,
    pub summarizer: &'a str,
    pub outcome: CallOutcome,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    pub took: Duration,
}

impl SummarizerCalled<'_> {
    /// Writes it down.
    pub fn emit(self, series: &SummarizerMetrics) {
        series.calls.inc(self.outcome);
        series.call_seconds.observe(self.took.as_secs_f64());
        debug!(
            id = self.id,
            summarizer = self.summarizer,
            outcome = self.outcome.as_str(),
            status = self.status,
            took_ms = milliseconds(self.took),
            "summariser called"
        );
    }
}

/// A summary was compared with its source.
#[derive(Debug)]
pub struct SummaryChecked {
    /// The share of its identifiers and numbers that the source does not contain, 0..=1.
    pub ungrounded: f64,
}

impl SummaryChecked {
    /// Writes it down.
    pub fn emit(self, series: &SummarizerMetrics) {
        series.ungrounded.observe(self.ungrounded);
    }
}

/// The preparation of a summary ended.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct SummaryEnded<'a> {
    /// The request that it was made for.
    pub id: &'a str,
    pub policy: &'a str,
    /// The summariser's name.
    pub summarizer: &'a str,
    pub outcome: SummaryOutcome,
    /// Where the summariser is called, without a query.
    pub address: &'a str,
    /// The status of its last answer.
    pub status: Option<u16>,
    /// Why it could not be reached, in the words of the system or of TLS.
    pub cause: Option<&'a str>,
    /// Calls that were made, repeated ones included.
    pub calls: u64,
    /// Messages that it covers.
    pub covered: usize,
    /// Tokens that it stands for.
    pub stands_for: u64,
    pub spent: Spent,
    pub summary: Option<&'a Summary>,
}

impl SummaryEnded<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics, series: &SummarizerMetrics) {
        let Spent {
            prompt_tokens,
            completion_tokens,
            ..
        } = self.spent;
        let summaries = &metrics.summaries;
        series.outcomes.inc(self.outcome);
        for (kind, tokens) in [
            (SpentKind::Prompt, prompt_tokens),
            (SpentKind::Completion, completion_tokens),
        ] {
            let labels = [self.policy, kind.as_str()];
            summaries.tokens.with_label_values(&labels).inc_by(tokens);
        }
        let savings = metrics.traffic.savings(self.policy);
        savings.settle(0, prompt_tokens + completion_tokens);
        if let Some(summary) = self.summary {
            series.seconds.observe(summary.spent.took.as_secs_f64());
            summaries.length.observe(as_float(summary.tokens));
            summaries.generation.observe(f64::from(summary.generation));
            summaries.incremental.inc_by(summary.incremental.into());
            summaries.split_turns.inc_by(summary.split.into());
        }
        self.log();
    }

    fn log(&self) {
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    policy = self.policy,
                    summarizer = self.summarizer,
                    outcome = self.outcome.as_str(),
                    address = self.address,
                    status = self.status,
                    cause = self.cause,
                    messages = self.covered,
                    tokens_before = self.stands_for,
                    tokens_after = self.summary.map(|summary| summary.tokens),
                    generation = self.summary.map(|summary| summary.generation),
                    incremental = self.summary.map(|summary| summary.incremental),
                    split_turn = self.summary.map(|summary| summary.split),
                    calls = self.calls,
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
