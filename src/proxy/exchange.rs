//! The record of one request: what it holds while it is served, what was decided about it, and the
//! line written at its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};

use crate::config::ServerTiming;
use crate::core::budget::Budget;
use crate::core::conversation::Fingerprint;
use crate::core::planner::{Compaction, Lesson, PriorUsage, UsageEstimate};
use crate::core::wire::{Dialect, Usage};
use crate::ledger::Scope;
use crate::observe::event::{
    Action, CompactionMade, DecisionReason, Endpoint, FailureCause, PassReason, Phase, PhaseTimed,
    RequestEnded, Settlement, Sizes, StreamEnd, TrafficMetrics, TrafficMode, TruncationSuspected,
    UsageLearned,
};
use crate::proxy::admission::Permit;
use crate::proxy::headers;
use crate::proxy::{Proxy, Snapshot};

/// What planning found out about a request.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    /// What was done.
    pub action: Action,
    /// The trigger, or the reason for which nothing was done.
    pub reason: DecisionReason,
    /// Its size before and after; absent when its messages were not read.
    pub sizes: Option<Sizes>,
    /// The numbers it was decided by.
    pub budget: Option<Budget>,
    /// The context length, tokens.
    pub window: u64,
    /// How the size of the sent list was estimated, and the key under which its usage is kept.
    pub estimate: Option<UsageEstimate>,
    /// What is learned from the usage of the sent list for decisions that every replica derives.
    pub lesson: Option<Lesson>,
    /// Where other replicas find that usage: whose it is, and the digest of the client's own list.
    pub usage_slot: Option<(Scope, Fingerprint)>,
    /// The strategies that changed something.
    pub strategies: Vec<&'static str>,
    /// The key of the client's list, under which the tokens that are cached of it are kept.
    pub prefix: Option<Fingerprint>,
    /// Tokens that the upstream had in its cache before the compaction that was made.
    pub cached_before: Option<u64>,
}

impl Decision {
    fn without_plan(action: Action, reason: DecisionReason, window: u64) -> Self {
        Decision {
            action,
            reason,
            sizes: None,
            budget: None,
            window,
            estimate: None,
            lesson: None,
            usage_slot: None,
            strategies: Vec::new(),
            prefix: None,
            cached_before: None,
        }
    }

    /// Nothing was planned, for this reason.
    pub(super) fn passed(reason: PassReason, window: u64) -> Self {
        Self::without_plan(Action::None, DecisionReason::Passed(reason), window)
    }

    /// The request was not inspected, for this reason.
    pub(super) fn bypassed(reason: PassReason, window: u64) -> Self {
        Self::without_plan(Action::Bypassed, DecisionReason::Passed(reason), window)
    }

    /// Planning failed.
    pub(super) fn failed_open(cause: FailureCause, window: u64) -> Self {
        Self::without_plan(Action::FailedOpen, DecisionReason::Failed(cause), window)
    }

    /// Whether the messages of the request were read, or could not be in time: it may be made
    /// smaller should the upstream refuse it.
    pub(super) fn is_readable(&self) -> bool {
        let not_in_time = DecisionReason::Passed(PassReason::Gate);
        self.sizes.is_some() || self.action == Action::FailedOpen || self.reason == not_in_time
    }

    /// Estimated prompt tokens of the list that is sent.
    pub(super) fn sent_tokens(&self) -> Option<u64> {
        self.sizes.map(|sizes| sizes.after.tokens)
    }
}

/// One request, from its arrival to the end of its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The worker's proxy.
    pub proxy: Arc<Proxy>,
    /// The configuration that it is served by, from beginning to end.
    pub snapshot: Arc<Snapshot>,
    /// Its place among the requests in flight, once admitted.
    pub permit: Option<Permit>,
    started: Instant,
    /// `x-baler-request-id`.
    pub id: String,
    /// The headers that carry a token of Baler's.
    pub own_tokens: Vec<HeaderName>,
    /// What it asks of Baler that Baler does not know.
    pub warning: Option<HeaderValue>,
    /// What it is for.
    pub endpoint: Endpoint,
    /// Its wire format; absent for requests that are streamed through unread.
    pub dialect: Option<Dialect>,
    /// Its mode, once its policy is known; absent where it is not to be inspected.
    pub mode: Option<TrafficMode>,
    /// The model's own name, where the configuration wants it in the log.
    pub model_name: Option<String>,
    /// The metrics of its policy and model, for chat requests.
    pub traffic: Option<Arc<TrafficMetrics>>,
    /// Whose entries of the ledger about its model are its own.
    pub model: Option<Scope>,
    /// What planning found out.
    pub decision: Option<Decision>,
    /// Usage that the head of the answer reported.
    pub reported_by_head: Option<Usage>,
    /// Whether Baler requested usage that the client did not request.
    pub usage_included: bool,
    /// Time that the request waited for Baler itself.
    pub overhead: Duration,
    /// Time from sending to the head of the answer.
    pub first_byte: Option<Duration>,
    /// Time from the request's arrival to the first piece of the answer's body.
    pub first_chunk: Option<Duration>,
    /// Whether the answer is an event stream.
    pub stream: bool,
    /// The upstream's own id of the request.
    pub upstream_request_id: Option<String>,
    /// The status that the client gets.
    pub status: u16,
    has_ended: bool,
}

/// The status recorded for a client that left before there was an answer, as other proxies record
/// it.
const CLIENT_LEFT: u16 = 499;

impl Exchange {
    /// A request that just arrived.
    #[must_use]
    pub(super) fn new(proxy: Arc<Proxy>, id: String) -> Self {
        Exchange {
            snapshot: Arc::clone(&proxy.shared.snapshot),
            proxy,
            permit: None,
            started: Instant::now(),
            id,
            own_tokens: Vec::new(),
            warning: None,
            endpoint: Endpoint::Other,
            dialect: None,
            mode: None,
            model_name: None,
            traffic: None,
            model: None,
            decision: None,
            reported_by_head: None,
            usage_included: false,
            overhead: Duration::ZERO,
            first_byte: None,
            first_chunk: None,
            stream: false,
            upstream_request_id: None,
            status: CLIENT_LEFT,
            has_ended: false,
        }
    }

    /// Records the time that the request waited for Baler, from `began` on.
    pub(super) fn overhead_ends(&mut self, began: Instant) {
        self.overhead = Instant::now().saturating_duration_since(began);
        PhaseTimed {
            phase: Phase::Total,
            took: self.overhead,
        }
        .emit(&self.proxy.shared.metrics);
    }

    /// Records that a piece of the answer's body came.
    pub(super) fn chunk_came(&mut self) {
        if self.first_chunk.is_none() {
            self.first_chunk = Some(self.started.elapsed());
        }
    }

    /// Writes down a compaction that planning made, which took so long.
    pub(super) fn compacted(&self, decision: &Decision, made: &Compaction, took: Duration) {
        let (Some(traffic), Some(mode), Some(sizes)) = (&self.traffic, self.mode, decision.sizes)
        else {
            return;
        };
        CompactionMade {
            id: &self.id,
            traffic,
            mode,
            model_name: self.model_name.as_deref(),
            reason: made.reason,
            sizes,
            window: decision.window,
            reports: &made.reports,
            took,
        }
        .emit(&self.proxy.shared.metrics);
    }

    /// Puts Baler's headers on the answer of an inspected request.
    pub(super) fn set_headers(&self, answer: &mut HeaderMap) {
        if self.dialect.is_none() || !self.snapshot.config.response_headers {
            return;
        }
        let mut put = |name: &'static HeaderName, value: Result<HeaderValue, _>| {
            if let Ok(value) = value {
                answer.insert(name, value);
            }
        };
        put(&headers::REQUEST_ID, HeaderValue::from_str(&self.id));
        if let Some(traffic) = &self.traffic {
            put(&headers::POLICY, HeaderValue::from_str(traffic.policy()));
        }
        if let Some(decision) = &self.decision {
            put(
                &headers::ACTION,
                action_with_strategies(decision).try_into(),
            );
            put(&headers::TOKENS, tokens_and_window(decision).try_into());
            if let Some(usage) = self.known_usage(decision) {
                put(&headers::USAGE, usage.to_string().try_into());
            }
        } else {
            put(
                &headers::ACTION,
                HeaderValue::from_str(Action::None.as_str()),
            );
        }
        if let Some(warning) = &self.warning {
            answer.insert(&headers::WARNING, warning.clone());
        }
        if let Some(timing) = self.server_timing() {
            answer.append(&headers::SERVER_TIMING, timing);
        }
    }

    /// The time that the request waited for Baler, as the configuration wants it told.
    fn server_timing(&self) -> Option<HeaderValue> {
        let told = timing(self.overhead, self.snapshot.config.server_timing)?;
        HeaderValue::try_from(told).ok()
    }

    /// The usage of the prompt as known before the body of the answer: the usage that its head
    /// reported, which covers the client's whole list, else the usage reported for the longest
    /// known prefix.
    fn known_usage(&self, decision: &Decision) -> Option<PriorUsage> {
        let estimate = decision.estimate?;
        let sizes = decision.sizes?;
        let reported = self
            .reported_by_head
            .filter(|usage| !self.looks_truncated(&estimate, usage));
        let of_whole_list = reported.map(|usage| PriorUsage {
            messages: usize::try_from(sizes.before.messages).unwrap_or(usize::MAX),
            prompt_tokens: usage.prompt_tokens,
            counted: Some(estimate.counted),
        });
        of_whole_list.or(estimate.reported)
    }

    /// Whether the upstream seems to have cut the prompt.
    fn looks_truncated(&self, estimate: &UsageEstimate, usage: &Usage) -> bool {
        let ledger = &self.proxy.shared.ledger;
        let factor = self
            .model
            .map_or(1.0, |model| ledger.learned(&model.group, 1.0).factor);
        estimate.looks_truncated(usage.prompt_tokens, factor)
    }

    /// Learns from reported usage, unless the upstream seems to have cut the prompt.
    fn learn(&self, decision: &Decision, estimate: &UsageEstimate, usage: Usage) {
        let shared = &self.proxy.shared;
        if self.looks_truncated(estimate, &usage) {
            TruncationSuspected {
                id: &self.id,
                traffic: self.traffic.as_deref(),
                sent: estimate,
                usage,
            }
            .emit(&shared.metrics);
            return;
        }
        let reported = usage.prompt_tokens;
        shared
            .ledger
            .keep_usage(decision.usage_slot, estimate.key, reported);
        if let Some(lesson) = decision.lesson {
            let (prefix, evidence) = lesson.learn(reported, estimate.counted);
            let scope = decision.usage_slot.map(|(scope, _)| scope);
            shared.ledger.keep_evidence(scope, prefix, evidence);
        }
        let factor = self.model.map(|model| {
            shared.ledger.served(model, reported);
            shared.ledger.calibrate(model, reported, estimate.counted)
        });
        UsageLearned {
            traffic: self.traffic.as_deref(),
            estimated: decision.sent_tokens(),
            reported,
            factor,
        }
        .emit(&shared.metrics);
    }

    /// 11. Record: usage for the ledger, metrics, one log line.
    pub(super) fn end(&mut self, ending: StreamEnd, usage: Option<Usage>) {
        self.has_ended = true;
        let decision = self.decision.as_ref();
        let estimate = decision.and_then(|decision| decision.estimate);
        if let (Some(usage), Some(decision), Some(estimate)) = (usage, decision, estimate) {
            self.learn(decision, &estimate, usage);
        }
        if let (Some(usage), Some(prefix)) = (usage, decision.and_then(|known| known.prefix)) {
            self.proxy.shared.cached.keep(prefix, usage.cached_tokens);
        }
        let settlement = self.traffic.as_deref().map(|traffic| Settlement {
            traffic,
            mode: self.mode,
            cached_before: decision.and_then(|decision| decision.cached_before),
        });
        RequestEnded {
            id: &self.id,
            endpoint: self.endpoint,
            status: self.status,
            action: decision.map_or(Action::None, |decision| decision.action),
            reason: decision.map(|decision| decision.reason),
            settlement,
            model_name: self.model_name.as_deref(),
            sizes: decision.and_then(|decision| decision.sizes),
            budget: decision.and_then(|decision| decision.budget),
            estimate,
            usage,
            stream: self.stream,
            upstream_request_id: self.upstream_request_id.as_deref(),
            overhead: self.overhead,
            first_byte: self.first_byte,
            first_chunk: self.first_chunk,
            took: self.started.elapsed(),
            ending,
        }
        .emit(&self.proxy.shared.metrics);
    }
}

impl Drop for Exchange {
    /// A client that leaves before the answer drops the whole request, and so does a panic, after
    /// which the client gets an error: its record is written here.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (status, ending) = dropped(self.status, std::thread::panicking());
        self.status = status;
        self.end(ending, None);
    }
}

/// The status and the end of a request that was dropped.
fn dropped(status: u16, panics: bool) -> (u16, StreamEnd) {
    if panics {
        let status = StatusCode::INTERNAL_SERVER_ERROR.as_u16();
        return (status, StreamEnd::Complete);
    }
    (status, StreamEnd::ClientLeft)
}

/// The value of `x-baler-action`: with the strategies that acted, or the reason for which nothing
/// was done.
fn action_with_strategies(decision: &Decision) -> String {
    let action = decision.action.as_str();
    let reason = match decision.reason {
        DecisionReason::Passed(reason) => Some(reason.as_str()),
        DecisionReason::Failed(cause) => Some(cause.as_str()),
        DecisionReason::Triggered(_) | DecisionReason::Arrival | DecisionReason::Checkpoint => None,
    };
    if let Some(reason) = reason {
        return format!("{action}; reason={reason}");
    }
    if decision.strategies.is_empty() {
        return action.to_owned();
    }
    let strategies = decision.strategies.join(" ");
    format!("{action}; strategies=\"{strategies}\"")
}

/// The value of `x-baler-tokens`.
fn tokens_and_window(decision: &Decision) -> String {
    let window = decision.window;
    match decision.sizes {
        Some(Sizes { before, after }) => format!(
            "before={}; after={}; window={window}",
            before.tokens, after.tokens
        ),
        None => format!("before=unknown; after=unknown; window={window}"),
    }
}

/// The value of `server-timing`, in milliseconds.
fn timing(overhead: Duration, how: ServerTiming) -> Option<String> {
    let nanos = overhead.as_nanos();
    let micros = (nanos + 500) / 1_000;
    match how {
        ServerTiming::Exact => Some(format!(
            "baler;dur={}.{:03}",
            micros / 1_000,
            micros % 1_000
        )),
        ServerTiming::Rounded => Some(format!("baler;dur={}", nanos.div_ceil(1_000_000))),
        ServerTiming::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_told_to_the_microsecond_or_rounded_up_to_the_millisecond() {
        for (nanos, exact, rounded) in [
            (0, "0.000", "0"),
            (400, "0.000", "1"),
            (1_000_600, "1.001", "2"),
            (12_034_400, "12.034", "13"),
        ] {
            let told = |how| timing(Duration::from_nanos(nanos), how);
            assert_eq!(
                told(ServerTiming::Exact),
                Some(format!("baler;dur={exact}"))
            );
            assert_eq!(
                told(ServerTiming::Rounded),
                Some(format!("baler;dur={rounded}"))
            );
            assert_eq!(told(ServerTiming::Off), None);
        }
    }

    #[test]
    fn a_panic_is_recorded_as_the_error_that_the_client_gets() {
        assert_eq!(dropped(CLIENT_LEFT, true), (500, StreamEnd::Complete));
        let left = dropped(CLIENT_LEFT, false);
        assert_eq!(left, (CLIENT_LEFT, StreamEnd::ClientLeft));
    }
}
