//! Compactions: what triggered one, what its steps did, and the account of its summary.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec};
use serde_json::{Map, Value, json};
use tracing::info;

use crate::core::policy::Reason;
use crate::core::strategy::{OVERSIZE, Report, Strategy};
use crate::observe::Metrics;
use crate::observe::event::milliseconds;
use crate::observe::event::request::Sizes;
use crate::observe::event::summary::SummaryState;
use crate::observe::event::traffic::{TrafficMetrics, TrafficMode};
use crate::observe::label::labels;
use crate::observe::registry::{ITEM_BUCKETS, LabelDescription, Registered, Registrar, Series};

labels! {
    /// What a step does to messages.
    pub enum Change {
        /// It drops them.
        Dropped = "dropped",
        /// It replaces them by smaller ones.
        Replaced = "replaced",
    }
}

/// Counts of strategies that count no items: states, sizes and costs of a summary, which metrics of
/// their own tell.
const NOT_ITEMS: [&str; 13] = [
    "split_turn",
    "incremental",
    "generation",
    "summary_tokens",
    "summary_chars",
    "summarizer_calls",
    "summarizer_prompt_tokens",
    "summarizer_completion_tokens",
    "summarizer_ms",
    "ready",
    "late",
    "failed",
    DISCARDED,
];
/// The count of a webhook's answer that is not valid.
const DISCARDED: &str = "discarded";

/// The names of all steps: strategies, and the rule for what is too large by itself.
fn step_names() -> Vec<&'static str> {
    let mut names = Strategy::NAMES.to_vec();
    if !names.contains(&OVERSIZE) {
        names.push(OVERSIZE);
    }
    names
}

/// The metrics of this event.
#[derive(Debug)]
pub(in crate::observe) struct CompactionMetrics {
    made: IntCounterVec,
    steps: IntCounterVec,
    tokens_removed: IntCounterVec,
    messages: IntCounterVec,
    items: HistogramVec,
    shortcuts: IntCounter,
    discarded: IntCounter,
}

impl CompactionMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let names = step_names();
        let strategy = || LabelDescription::listed("strategy", &names);
        let mode = || LabelDescription::of::<TrafficMode>("mode");
        let reason = || LabelDescription::of::<Reason>("reason");
        let metrics = CompactionMetrics {
            made: registrar.counters(
                "baler_compactions_total",
                "Compactions, by the trigger that fired.",
                vec![LabelDescription::open("policy"), mode(), reason()],
            )?,
            steps: registrar.counters(
                "baler_compaction_steps_total",
                "Steps of compactions that changed something.",
                vec![strategy(), mode(), reason()],
            )?,
            tokens_removed: registrar.counters(
                "baler_strategy_tokens_removed_total",
                "Prompt tokens that each strategy removed, counted once for each compaction.",
                vec![strategy(), mode()],
            )?,
            messages: registrar.counters(
                "baler_strategy_messages_total",
                "Messages that each strategy dropped or replaced, counted once for each \
                 compaction.",
                vec![strategy(), mode(), LabelDescription::of::<Change>("change")],
            )?,
            items: registrar.histograms(
                "baler_strategy_items",
                "What a strategy counted in one compaction: calls, outputs, lines, messages.",
                vec![strategy(), LabelDescription::open("count")],
                &ITEM_BUCKETS,
            )?,
            shortcuts: registrar.counter(
                "baler_plan_shortcuts_total",
                "Compactions that took quick steps because the time for planning was spent.",
            )?,
            discarded: registrar.counter(
                "baler_webhook_answers_discarded_total",
                "Answers of webhooks that were not valid messages.",
            )?,
        };
        metrics.create_steps(&names);
        Ok(metrics)
    }

    /// Creates the series of all steps at 0.
    fn create_steps(&self, names: &[&'static str]) {
        for strategy in names {
            for mode in TrafficMode::ALL.iter().map(|mode| mode.as_str()) {
                self.tokens_removed.with_label_values(&[strategy, mode]);
                for change in Change::ALL {
                    let labels = [strategy, mode, change.as_str()];
                    self.messages.with_label_values(&labels);
                }
                for reason in Reason::ALL {
                    let labels = [strategy, mode, reason.as_str()];
                    self.steps.with_label_values(&labels);
                }
            }
        }
        for (strategy, counts) in Strategy::COUNTS {
            let items = counts.iter().filter(|count| !NOT_ITEMS.contains(count));
            for count in items {
                self.items.with_label_values(&[strategy, *count]);
            }
        }
    }

    /// Creates the series of a policy at 0.
    pub(in crate::observe) fn create(&self, policy: &str) {
        let _at_zero: Vec<Series<Reason, IntCounter>> = TrafficMode::ALL
            .iter()
            .map(|mode| {
                Series::new(Reason::ALL.iter().copied(), |reason| {
                    let labels = [policy, mode.as_str(), reason.as_str()];
                    self.made.with_label_values(&labels)
                })
            })
            .collect();
    }
}

/// A compaction was made, or would have been.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct CompactionMade<'a> {
    pub id: &'a str,
    pub traffic: &'a TrafficMetrics,
    pub mode: TrafficMode,
    /// The model's own name, where the configuration wants that.
    pub model_name: Option<&'a str>,
    pub reason: Reason,
    pub sizes: Sizes,
    pub window: u64,
    pub reports: &'a [Report],
    /// Time that planning took, without the time spent waiting for others.
    pub took: Duration,
}

/// The account of the summary that a compaction used or wanted.
#[derive(Debug, Clone, Copy)]
struct SummaryAccount<'r>(&'r Report);

impl<'r> SummaryAccount<'r> {
    /// The account in these reports, if one is of a `summarize` step.
    fn of(reports: &'r [Report]) -> Option<Self> {
        let mut reports = reports.iter();
        let report = reports.find(|report| report.strategy == "summarize")?;
        Some(SummaryAccount(report))
    }

    fn count(self, name: &str) -> Option<u64> {
        let mut details = self.0.details.iter();
        details.find_map(|(known, count)| (*known == name).then_some(*count))
    }

    fn flag(self, name: &str) -> Option<bool> {
        self.count(name).map(|count| count > 0)
    }
}

impl CompactionMade<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        let compactions = &metrics.compactions;
        let (mode, reason) = (self.mode.as_str(), self.reason.as_str());
        let labels = [self.traffic.policy(), mode, reason];
        compactions.made.with_label_values(&labels).inc();
        self.traffic.compacted(self.mode, self.removed());
        if self.reports.iter().any(|report| report.shortcut) {
            compactions.shortcuts.inc();
        }
        for report in self.reports {
            self.count(report, metrics);
        }
        self.log();
    }

    /// Tokens that all of its steps removed together.
    fn removed(&self) -> u64 {
        let before = self.reports.first().map_or(0, |first| first.before.tokens);
        let after = self.reports.last().map_or(0, |last| last.after.tokens);
        before.saturating_sub(after)
    }

    fn count(&self, report: &Report, metrics: &Metrics) {
        let compactions = &metrics.compactions;
        let (strategy, mode) = (report.strategy, self.mode.as_str());
        if report.acted() {
            let labels = [strategy, mode, self.reason.as_str()];
            compactions.steps.with_label_values(&labels).inc();
        }
        let removed = report.before.tokens.saturating_sub(report.after.tokens);
        compactions
            .tokens_removed
            .with_label_values(&[strategy, mode])
            .inc_by(removed);
        for (change, count) in [
            (Change::Dropped, report.dropped),
            (Change::Replaced, report.replaced),
        ] {
            let labels = [strategy, mode, change.as_str()];
            compactions
                .messages
                .with_label_values(&labels)
                .inc_by(count);
        }
        if let Some(state) = SummaryState::of(report) {
            metrics.summaries.count_wanted(state);
        }
        for (count, value) in &report.details {
            if *count == DISCARDED {
                compactions.discarded.inc_by(*value);
            } else if !NOT_ITEMS.contains(count) {
                let items = compactions.items.with_label_values(&[strategy, *count]);
                items.observe(crate::core::conversation::as_float(*value));
            }
        }
    }

    fn log(&self) {
        let Sizes { before, after } = self.sizes;
        let acted = self.reports.iter().filter(|report| report.acted());
        let strategies: Vec<&str> = acted.map(|report| report.strategy).collect();
        let summary = SummaryAccount::of(self.reports);
        let state = summary.and_then(|summary| SummaryState::of(summary.0));
        // There is an account only of a summary that was there.
        let ready = summary.filter(|_| state == Some(SummaryState::Ready));
        let count = |name| ready.and_then(|summary| summary.count(name));
        let flag = |name| ready.and_then(|summary| summary.flag(name));
        info!(
            id = self.id,
            policy = self.traffic.policy(),
            model = self.traffic.model(),
            model_name = self.model_name,
            mode = self.mode.as_str(),
            reason = self.reason.as_str(),
            strategies = strategies.join(" "),
            tokens_before = before.tokens,
            tokens_after = after.tokens,
            messages_before = before.messages,
            messages_after = after.messages,
            window = self.window,
            removed_now = self.removed(),
            took_ms = milliseconds(self.took),
            summary = state.map(SummaryState::as_str),
            messages_summarized = count("messages_summarized"),
            messages_kept = count("messages_kept"),
            split_turn = flag("split_turn"),
            incremental = flag("incremental"),
            generation = count("generation"),
            files = count("files"),
            summary_tokens = count("summary_tokens"),
            summary_chars = count("summary_chars"),
            summarizer_calls = count("summarizer_calls"),
            summarizer_prompt_tokens = count("summarizer_prompt_tokens"),
            summarizer_completion_tokens = count("summarizer_completion_tokens"),
            summarizer_ms = count("summarizer_ms"),
            steps = steps(self.reports),
            "compaction"
        );
    }
}

/// What each step did, as a JSON list.
fn steps(reports: &[Report]) -> String {
    let steps = reports.iter().map(|report| {
        let mut step = json!({
            "strategy": report.strategy,
            "acted": report.acted(),
            "tokens_before": report.before.tokens,
            "tokens_after": report.after.tokens,
            "messages_before": report.before.messages,
            "messages_after": report.after.messages,
            "dropped": report.dropped,
            "replaced": report.replaced,
        });
        if let Some(step) = step.as_object_mut() {
            if report.shortcut {
                step.insert("shortcut".to_owned(), Value::Bool(true));
            }
            if !report.details.is_empty() {
                let counts = report.details.iter();
                let counts: Map<String, Value> = counts
                    .map(|(name, count)| ((*name).to_owned(), Value::from(*count)))
                    .collect();
                step.insert("counts".to_owned(), Value::Object(counts));
            }
        }
        step
    });
    Value::Array(steps.collect()).to_string()
}
