//! Events. Each method writes the metrics and the log line of one thing that happened.

use std::time::Duration;

use tracing::{debug, info, warn};

use super::Metrics;
use crate::core::policy::{Budget, Reason, Size, ratio};
use crate::core::strategy::Report;
use crate::core::usage::Usage;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All of it was passed on.
    Complete,
    /// The upstream broke off, or said nothing for too long.
    UpstreamBroke,
    /// The client went away first.
    ClientLeft,
}

impl Ending {
    fn as_str(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::UpstreamBroke => "upstream_broke",
            Ending::ClientLeft => "client_left",
        }
    }
}

/// A request is over.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct RequestEnded<'a> {
    pub id: &'a str,
    pub endpoint: &'static str,
    pub status: u16,
    pub action: &'static str,
    pub reason: &'static str,
    pub policy: &'a str,
    pub model: &'a str,
    pub sizes: Option<(Size, Size)>,
    pub budget: Option<Budget>,
    pub usage: Option<Usage>,
    pub overhead: Duration,
    pub first_byte: Option<Duration>,
    pub took: Duration,
    pub ending: Ending,
}

fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

impl RequestEnded<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        metrics.requests.with_label_values(&[self.endpoint, self.action, status_class(self.status)]).inc();
        if let Some(time) = self.first_byte {
            metrics.first_byte.with_label_values(&[self.endpoint]).observe(time.as_secs_f64());
        }
        if self.ending != Ending::Complete {
            metrics.answers_broken.with_label_values(&[if self.ending == Ending::ClientLeft { "client" } else { "upstream" }]).inc();
        }
        if let Some((before, after)) = self.sizes {
            for (stage, size) in [("before", before), ("after", after)] {
                metrics.tokens.with_label_values(&[self.policy, self.model, stage]).inc_by(size.tokens);
                metrics.messages.with_label_values(&[self.policy, self.model, stage]).inc_by(size.messages);
                if let Some(budget) = self.budget {
                    metrics.occupancy.with_label_values(&[self.policy, stage]).observe(ratio(size.tokens, budget.room));
                }
            }
            metrics.tokens_removed.with_label_values(&[self.policy, self.model]).inc_by(before.tokens.saturating_sub(after.tokens));
        }
        if let Some(usage) = self.usage {
            metrics.upstream_tokens.with_label_values(&["prompt"]).inc_by(usage.prompt_tokens);
            metrics.upstream_tokens.with_label_values(&["cached"]).inc_by(usage.cached_tokens);
            metrics.upstream_tokens.with_label_values(&["completion"]).inc_by(usage.completion_tokens);
        }
        self.log();
    }

    fn log(&self) {
        let (before, after) = self.sizes.unwrap_or_default();
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    endpoint = self.endpoint,
                    status = self.status,
                    action = self.action,
                    reason = self.reason,
                    policy = self.policy,
                    model = self.model,
                    tokens_before = before.tokens,
                    tokens_after = after.tokens,
                    messages_before = before.messages,
                    messages_after = after.messages,
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
        let eventful =
            !matches!(self.action, "none" | "bypassed" | "replayed") || self.status >= 500 || self.ending == Ending::UpstreamBroke;
        if self.action == "failed-open" {
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

/// A ladder ran.
pub fn compaction_happened(metrics: &Metrics, id: &str, policy: &str, reason: Reason, reports: &[Report]) {
    for report in reports {
        if report.acted() {
            metrics.compactions.with_label_values(&[report.strategy, reason.as_str()]).inc();
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
            "strategy"
        );
    }
}
