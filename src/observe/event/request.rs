//! The beginning and the end of a request.

use prometheus::{Histogram, HistogramVec, IntCounter, IntGauge};
use tracing::warn;

use crate::core::conversation::Size;
use crate::core::policy::Reason;
use crate::core::wire::Dialect;
use crate::observe::Metrics;
use crate::observe::event::planning::{FailureCause, PassReason};
use crate::observe::label::labels;
use crate::observe::registry::{LabelDescription, Registered, Registrar, Series, WAIT_BUCKETS};
use crate::proxy::ProxyError;

labels! {
    /// What a request was for.
    pub enum Endpoint {
        /// A chat completion: inspected.
        Chat = "chat",
        /// The Responses API: passes uncompacted.
        Responses = "responses",
        /// Anthropic's Messages API: passes uncompacted.
        Messages = "messages",
        /// Anything else: streamed through unread.
        Other = "other",
    }
}

impl From<Dialect> for Endpoint {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::ChatCompletions => Endpoint::Chat,
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
    /// The first digit of a status; a limit of rate is told apart.
    pub enum StatusClass {
        /// Informational.
        Informational = "1xx",
        /// Success.
        Success = "2xx",
        /// Redirection.
        Redirection = "3xx",
        /// Too many requests.
        TooManyRequests = "429",
        /// Another client error.
        ClientError = "4xx",
        /// Server error.
        ServerError = "5xx",
    }
}

impl StatusClass {
    pub(super) fn of(status: u16) -> Self {
        match status {
            0..=199 => StatusClass::Informational,
            200..=299 => StatusClass::Success,
            300..=399 => StatusClass::Redirection,
            429 => StatusClass::TooManyRequests,
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
    /// A large result arrived.
    Arrival,
    /// A checkpoint was replayed, or what was done to results when they arrived.
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
            DecisionReason::Arrival => "arrival",
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
    pub(super) answered: Series<(Endpoint, Action, StatusClass), IntCounter>,
    refusals: Series<ProxyError, IntCounter>,
    pub(super) duration: Series<(Endpoint, Action), Histogram>,
    pub(super) first_byte: Series<(Endpoint, Action), Histogram>,
    pub(super) broken: Series<Side, IntCounter>,
}

impl RequestMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let endpoint = || LabelDescription::of::<Endpoint>("endpoint");
        let action = || LabelDescription::of::<Action>("action");
        let answered = registrar.counters(
            "baler_requests_total",
            "Requests answered.",
            vec![
                endpoint(),
                action(),
                LabelDescription::of::<StatusClass>("status"),
            ],
        )?;
        let keys = endpoints_and_actions().flat_map(|(endpoint, action)| {
            StatusClass::ALL
                .iter()
                .map(move |status| (endpoint, action, *status))
        });
        let duration = registrar.histograms(
            "baler_request_seconds",
            "Time from the arrival of a request to the end of its answer.",
            vec![endpoint(), action()],
            &WAIT_BUCKETS,
        )?;
        let first_byte = registrar.histograms(
            "baler_upstream_first_byte_seconds",
            "Time from sending a request to the head of its answer.",
            vec![endpoint(), action()],
            &WAIT_BUCKETS,
        )?;
        let by_action = |family: &HistogramVec| {
            Series::new(endpoints_and_actions(), |(endpoint, action)| {
                family.with_label_values(&[endpoint.as_str(), action.as_str()])
            })
        };
        Ok(RequestMetrics {
            in_flight: registrar.gauge(
                "baler_requests_in_flight",
                "Requests being served, including answers that are still streaming.",
            )?,
            answered: Series::new(keys, |(endpoint, action, status)| {
                answered.with_label_values(&[endpoint.as_str(), action.as_str(), status.as_str()])
            }),
            duration: by_action(&duration),
            first_byte: by_action(&first_byte),
            refusals: registrar.counter_by(
                "baler_refusals_total",
                "Errors that Baler itself answered, by kind.",
                "kind",
            )?,
            broken: registrar.counter_by(
                "baler_answers_broken_total",
                "Answers that did not end properly, by the side that left.",
                "side",
            )?,
        })
    }
}

/// Every endpoint with the actions that it knows: only chat requests are acted upon.
fn endpoints_and_actions() -> impl Iterator<Item = (Endpoint, Action)> {
    let endpoints = Endpoint::ALL.iter();
    endpoints.flat_map(|endpoint| {
        let actions = Action::ALL.iter();
        actions
            .filter(|action| *endpoint == Endpoint::Chat || **action == Action::None)
            .map(|action| (*endpoint, *action))
    })
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
    /// Writes it down. The log line is that of [`RequestEnded`](super::ended::RequestEnded).
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

/// A request of an API passed that Baler does not compact, though an application might expect it.
#[derive(Debug)]
pub struct UncompactedApi {
    /// The API.
    pub endpoint: Endpoint,
    /// Whether that happened before: only the first one is logged.
    pub already: bool,
}

impl UncompactedApi {
    /// Writes it down.
    pub fn emit(self) {
        if self.already {
            return;
        }
        let endpoint = self.endpoint.as_str();
        match self.endpoint {
            Endpoint::Responses => warn!(
                endpoint,
                "requests to the Responses API pass unchanged: Baler compacts chat completions \
                 only. Have the SDK use those; README.md says how for each, for example \
                 set_default_openai_api(\"chat_completions\") for OpenAI's Agents SDK and \
                 openai.chat(MODEL) for the AI SDK"
            ),
            Endpoint::Messages => warn!(
                endpoint,
                "requests to the Messages API pass unchanged: Baler compacts chat completions \
                 only. Use an SDK for chat completions, and the provider's endpoint for them"
            ),
            Endpoint::Chat | Endpoint::Other => {}
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
