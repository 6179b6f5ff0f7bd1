//! The end of a request: its log line, and everything that is counted once it is over.

use std::time::Duration;

use tracing::{debug, warn};

use crate::core::budget::Budget;
use crate::core::planner::UsageEstimate;
use crate::core::wire::Usage;
use crate::observe::Metrics;
use crate::observe::event::genai::ErrorType;
use crate::observe::event::milliseconds;
use crate::observe::event::request::{
    Action, DecisionReason, Endpoint, Side, Sizes, StatusClass, StreamEnd,
};
use crate::observe::event::traffic::{TrafficMetrics, TrafficMode};

/// The traffic that a request is counted under.
#[derive(Debug, Clone, Copy)]
pub struct Settlement<'a> {
    /// Its policy and model.
    pub traffic: &'a TrafficMetrics,
    /// Its mode; absent for one that is not inspected.
    pub mode: Option<TrafficMode>,
    /// Tokens that the upstream read from its cache for the request before the compaction that was
    /// made for this one.
    pub cached_before: Option<u64>,
}

/// A request is over.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct RequestEnded<'a> {
    pub id: &'a str,
    pub endpoint: Endpoint,
    pub status: u16,
    pub action: Action,
    pub reason: Option<DecisionReason>,
    pub settlement: Option<Settlement<'a>>,
    /// The model's own name, where the configuration wants that.
    pub model_name: Option<&'a str>,
    pub sizes: Option<Sizes>,
    pub budget: Option<Budget>,
    pub estimate: Option<UsageEstimate>,
    pub usage: Option<Usage>,
    /// Whether the answer is an event stream.
    pub stream: bool,
    /// The upstream's own id of the request.
    pub upstream_request_id: Option<&'a str>,
    pub overhead: Duration,
    pub first_byte: Option<Duration>,
    /// Time to the first piece of the answer's body.
    pub first_chunk: Option<Duration>,
    pub took: Duration,
    pub ending: StreamEnd,
}

impl RequestEnded<'_> {
    /// Writes it down.
    pub fn emit(&self, metrics: &Metrics) {
        let requests = &metrics.requests;
        let (endpoint, action) = (self.endpoint, self.action);
        let status = StatusClass::of(self.status);
        requests.answered.inc((endpoint, action, status));
        let took = self.took.as_secs_f64();
        requests.duration.observe((endpoint, action), took);
        if let Some(time) = self.first_byte {
            let seconds = time.as_secs_f64();
            requests.first_byte.observe((endpoint, action), seconds);
        }
        match self.ending {
            StreamEnd::Complete => {}
            StreamEnd::UpstreamBroke => requests.broken.inc(Side::Upstream),
            StreamEnd::ClientLeft => requests.broken.inc(Side::Client),
        }
        if let Some(settlement) = &self.settlement {
            self.settle(settlement);
        }
        self.log();
    }

    fn settle(&self, settlement: &Settlement<'_>) {
        let traffic = settlement.traffic;
        let mut removed = 0;
        if let (Some(mode), Some(sizes), Some(budget)) = (settlement.mode, self.sizes, self.budget)
        {
            removed = traffic.count(mode, sizes, &budget);
        }
        let is_success = (200..300).contains(&self.status);
        match self.usage {
            Some(usage) => traffic.reported(self.action, usage),
            None if is_success && self.ending == StreamEnd::Complete => traffic.unreported(),
            None => {}
        }
        traffic.settle(removed, self.read_again(settlement));
        let first_chunk = self.first_chunk.filter(|_| self.stream);
        let error = self.error_type();
        traffic
            .gen_ai
            .record(error, self.usage, self.took, first_chunk);
    }

    /// Tokens that the upstream would have read from its cache, had the request not been compacted.
    fn read_again(&self, settlement: &Settlement<'_>) -> u64 {
        let is_made = matches!(self.action, Action::Compacted | Action::Rescued);
        let before = settlement.cached_before.filter(|_| is_made);
        let (Some(before), Some(usage)) = (before, self.usage) else {
            return 0;
        };
        let uncached = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        before.saturating_sub(usage.cached_tokens).min(uncached)
    }

    fn error_type(&self) -> ErrorType {
        match StatusClass::of(self.status) {
            StatusClass::TooManyRequests => ErrorType::TooManyRequests,
            StatusClass::ClientError => ErrorType::ClientError,
            StatusClass::ServerError => ErrorType::ServerError,
            _ if self.ending == StreamEnd::UpstreamBroke => ErrorType::Broken,
            _ => ErrorType::None,
        }
    }

    fn log(&self) {
        let before = self.sizes.map(|sizes| sizes.before).unwrap_or_default();
        let after = self.sizes.map(|sizes| sizes.after).unwrap_or_default();
        let reported = self.estimate.and_then(|estimate| estimate.reported);
        let reported_count = reported.and_then(|prior| prior.counted).unwrap_or(0);
        let traffic = self.settlement.map(|settlement| settlement.traffic);
        let mode = self.settlement.and_then(|settlement| settlement.mode);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    endpoint = self.endpoint.as_str(),
                    status = self.status,
                    stream = self.stream,
                    action = self.action.as_str(),
                    reason = self.reason.map_or("", DecisionReason::as_str),
                    policy = traffic.map(TrafficMetrics::policy),
                    mode = mode.map(TrafficMode::as_str),
                    model = traffic.map(TrafficMetrics::model),
                    model_name = self.model_name,
                    tokens_before = before.tokens,
                    tokens_after = after.tokens,
                    messages_before = before.messages,
                    messages_after = after.messages,
                    estimate_reported = reported.map(|prior| prior.prompt_tokens),
                    estimate_reported_messages = reported.map(|prior| prior.messages),
                    estimate_counted = self.estimate.map(|all| all.counted - reported_count),
                    prompt_tokens = self.usage.map(|usage| usage.prompt_tokens),
                    cached_tokens = self.usage.map(|usage| usage.cached_tokens),
                    completion_tokens = self.usage.map(|usage| usage.completion_tokens),
                    upstream_request_id = self.upstream_request_id,
                    overhead_ms = milliseconds(self.overhead),
                    first_byte_ms = self.first_byte.map(milliseconds),
                    took_ms = milliseconds(self.took),
                    ending = self.ending.as_str(),
                    "request"
                )
            };
        }
        if self.went_wrong() {
            line!(warn);
        } else {
            line!(debug);
        }
    }

    /// Whether an operator should know. Every other request is a line for debugging only; what was
    /// compacted has a line of its own.
    fn went_wrong(&self) -> bool {
        self.action == Action::FailedOpen
            || self.status >= 500
            || self.ending == StreamEnd::UpstreamBroke
    }
}
