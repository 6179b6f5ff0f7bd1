//! The beginning and the end of a request.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntGauge};
use tracing::{debug, info, warn};

use crate::core::budget::Budget;
use crate::core::conversation::Size;
use crate::core::planner::UsageEstimate;
use crate::core::policy::Reason;
use crate::core::wire::{Dialect, Usage};
use crate::observe::Metrics;
use crate::observe::event::milliseconds;
use crate::observe::event::planning::{FailureCause, PassReason};
use crate::observe::event::traffic::TrafficMetrics;
use crate::observe::label::labels;
use crate::observe::registry::{LabelDescription, Registered, Registrar, Series, WAIT_BUCKETS};
use crate::proxy::ProxyError;

labels! {
    /// What a request was for.
    pub enum Endpoint {
        /// A chat completion: inspected.
        Chat = "chat",
        /// Anything else: streamed through unread.
        Other = "other",
    }
}

impl From<Option<Dialect>> for Endpoint {
    fn from(dialect: Option<Dialect>) -> Self {
        match dialect {
            Some(Dialect::ChatCompletions) => Endpoint::Chat,
            None => Endpoint::Other,
        }
    }
}

labels! {
    /// What Baler did with a request; also the header `x-baler-action`.
    pub enum Action {
        /// Forwarded as it came: nothing to do.
        None = "none",
        /// Would have been edited; forwarded as it came because only observing was asked for.
        Observed = "observed",
        /// An earlier checkpoint was applied.
        Replayed = "replayed",
        /// A compaction happened.
        Compacted = "compacted",
        /// The upstream refused the request as too long, and served it once it was smaller.
        Rescued = "rescued",
        /// Planning failed; forwarded as it came.
        FailedOpen = "failed-open",
        /// Not inspected: the client or the policy opted out, or Baler cannot read it.
        Bypassed = "bypassed",
    }
}

labels! {
    /// The first digit of a status.
    pub enum StatusClass {
        /// Informational.
        Informational = "1xx",
        /// Success.
        Success = "2xx",
        /// Redirection.
        Redirection = "3xx",
        /// Client error.
        ClientError = "4xx",
        /// Server error.
        ServerError = "5xx",
    }
}

impl StatusClass {
    fn of(status: u16) -> Self {
        match status {
            0..=199 => StatusClass::Informational,
            200..=299 => StatusClass::Success,
            300..=399 => StatusClass::Redirection,
            400..=499 => StatusClass::ClientError,
            500.. => StatusClass::ServerError,
        }
    }
}

labels! {
    /// The side that broke an answer off.
    pub enum Side {
        /// The client left first.
        Client = "client",
        /// The upstream broke off or stalled.
        Upstream = "upstream",
    }
}

labels! {
    /// How an answer ended.
    pub enum StreamEnd {
        /// All of it was passed on.
        Complete = "complete",
        /// The upstream broke off, or sent nothing for too long.
        UpstreamBroke = "upstream_broke",
        /// The client left first.
        ClientLeft = "client_left",
    }
}

/// The reason of an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionReason {
    /// Nothing was edited.
    Passed(PassReason),
    /// A trigger fired.
    Triggered(Reason),
    /// A checkpoint was replayed.
    Checkpoint,
    /// Planning failed.
    Failed(FailureCause),
}

impl DecisionReason {
    /// The word in log lines.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DecisionReason::Passed(reason) => reason.as_str(),
            DecisionReason::Triggered(reason) => reason.as_str(),
            DecisionReason::Checkpoint => "checkpoint",
            DecisionReason::Failed(cause) => cause.as_str(),
        }
    }
}

/// The size of a list of messages before and after its edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// As the client sent it.
    pub before: Size,
    /// As the upstream gets it.
    pub after: Size,
}

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct RequestMetrics {
    in_flight: IntGauge,
    answered: Series<(Endpoint, Action, StatusClass), IntCounter>,
    refusals: Series<ProxyError, IntCounter>,
    first_byte: Series<Endpoint, Histogram>,
    broken: Series<Side, IntCounter>,
}

impl RequestMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let answered = registrar.counters(
            "baler_requests_total",
            "Requests answered.",
            vec![
                LabelDescription::of::<Endpoint>("endpoint"),
                LabelDescription::of::<Action>("action"),
                LabelDescription::of::<StatusClass>("status"),
            ],
        )?;
        // Only chat requests are acted upon.
        let chat = Action::ALL.iter().map(|action| (Endpoint::Chat, *action));
        let pairs = chat.chain([(Endpoint::Other, Action::None)]);
        let keys = pairs.flat_map(|(endpoint, action)| {
            StatusClass::ALL
                .iter()
                .map(move |status| (endpoint, action, *status))
        });
        Ok(RequestMetrics {
            in_flight: registrar.gauge(
                "baler_requests_in_flight",
                "Requests being served, including answers that are still streaming.",
            )?,
            answered: Series::new(keys, |(endpoint, action, status)| {
                answered.with_label_values(&[endpoint.as_str(), action.as_str(), status.as_str()])
            }),
            refusals: registrar.counter_by(
                "baler_refusals_total",
                "Errors that Baler itself answered, by kind.",
                "kind",
            )?,
            first_byte: registrar.histogram_by(
                "baler_upstream_first_byte_seconds",
                "Time from sending a request to the head of its answer.",
                "endpoint",
                &WAIT_BUCKETS,
            )?,
            broken: registrar.counter_by(
                "baler_answers_broken_total",
                "Answers that did not end properly, by the side that left.",
                "side",
            )?,
        })
    }
}

/// A request took a permit.
#[derive(Debug)]
pub struct RequestAdmitted;

impl RequestAdmitted {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.requests.in_flight.inc();
    }
}

/// A request gave its permit back.
#[derive(Debug)]
pub struct RequestReleased;

impl RequestReleased {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.requests.in_flight.dec();
    }
}

/// Baler answered a request with an error of its own.
#[derive(Debug)]
pub struct RequestRefused {
    /// The error.
    pub error: ProxyError,
}

impl RequestRefused {
    /// Writes it down. The log line is that of [`RequestEnded`].
    pub fn emit(self, metrics: &Metrics) {
        metrics.requests.refusals.inc(self.error);
    }
}

/// A request was signed, so that it is never edited.
#[derive(Debug)]
pub struct SignedBodySeen {
    /// Whether that happened before: only the first one is logged.
    pub already: bool,
}

impl SignedBodySeen {
    /// Writes it down.
    pub fn emit(self) {
        if !self.already {
            warn!(
                "a chat request is signed, or names a digest of its body: such requests are \
                 forwarded as they come and never compacted"
            );
        }
    }
}

/// Baler serves everyone who reaches its address.
#[derive(Debug)]
pub struct OpenToAll {
    /// The address.
    pub address: std::net::SocketAddr,
}

impl OpenToAll {
    /// Writes it down.
    pub fn emit(self) {
        warn!(
            "{} can be reached from other machines, and no client is asked for a token: set \
             listen.auth_tokens_file, or let only trusted networks reach the port",
            self.address
        );
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
    pub reason: Option<DecisionReason>,
    pub traffic: Option<&'a TrafficMetrics>,
    pub sizes: Option<Sizes>,
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
        let requests = &metrics.requests;
        let status = StatusClass::of(self.status);
        requests.answered.inc((self.endpoint, self.action, status));
        if let Some(time) = self.first_byte {
            requests
                .first_byte
                .observe(self.endpoint, time.as_secs_f64());
        }
        match self.ending {
            StreamEnd::Complete => {}
            StreamEnd::UpstreamBroke => requests.broken.inc(Side::Upstream),
            StreamEnd::ClientLeft => requests.broken.inc(Side::Client),
        }
        if let (Some(traffic), Some(sizes), Some(budget)) = (self.traffic, self.sizes, self.budget)
        {
            traffic.count(sizes, &budget);
        }
        if let Some(usage) = self.usage {
            metrics.usage.count(usage);
        }
        self.log();
    }

    fn log(&self) {
        let before = self.sizes.map(|sizes| sizes.before).unwrap_or_default();
        let after = self.sizes.map(|sizes| sizes.after).unwrap_or_default();
        let reported = self.estimate.and_then(|estimate| estimate.reported);
        let reported_count = reported.and_then(|prior| prior.counted).unwrap_or(0);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    id = self.id,
                    endpoint = self.endpoint.as_str(),
                    status = self.status,
                    action = self.action.as_str(),
                    reason = self.reason.map_or("", DecisionReason::as_str),
                    policy = self.traffic.map(TrafficMetrics::policy),
                    model = self.traffic.map(TrafficMetrics::model),
                    tokens_before = before.tokens,
                    tokens_after = after.tokens,
                    messages_before = before.messages,
                    messages_after = after.messages,
                    estimate_reported = reported.map(|prior| prior.prompt_tokens),
                    estimate_reported_messages = reported.map(|prior| prior.messages),
                    estimate_counted = self.estimate.map(|all| all.counted - reported_count),
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
        if self.action == Action::FailedOpen {
            line!(warn);
        } else if self.is_eventful() {
            line!(info);
        } else {
            line!(debug);
        }
    }

    /// Whether Baler acted or something went wrong. Every other request is a line for debugging
    /// only.
    fn is_eventful(&self) -> bool {
        let untouched = matches!(
            self.action,
            Action::None | Action::Bypassed | Action::Replayed
        );
        !untouched || self.status >= 500 || self.ending == StreamEnd::UpstreamBroke
    }
}
