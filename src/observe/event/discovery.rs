//! The upstream's list of models, and models of unknown context length.

use prometheus::{IntCounter, IntGauge};
use tracing::{info, warn};

use crate::observe::Metrics;
use crate::observe::event::gauge_value;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series};

labels! {
    /// How a request for the list of models ended.
    pub enum DiscoveryOutcome {
        /// With at least one context length.
        Answered = "answered",
        /// With a list that names none: OpenAI's, for one.
        NoWindows = "no_windows",
        /// These credentials may not ask.
        Refused = "refused",
        /// Without a connection.
        Unreachable = "unreachable",
        /// With another error status.
        Status = "status",
        /// With a broken body.
        Broken = "broken",
        /// With a body over the limit.
        TooLarge = "too_large",
        /// With a body that is not a list of models.
        NotModels = "not_models",
        /// Not in time.
        Timeout = "timeout",
    }
}

impl DiscoveryOutcome {
    /// Whether the upstream is at fault, so that it is worth asking again soon.
    #[must_use]
    pub fn is_failure(self) -> bool {
        !matches!(
            self,
            DiscoveryOutcome::Answered | DiscoveryOutcome::NoWindows | DiscoveryOutcome::Refused
        )
    }
}

/// The metrics of these events.
#[derive(Debug)]
pub(in crate::observe) struct DiscoveryMetrics {
    requests: Series<DiscoveryOutcome, IntCounter>,
    windows: IntGauge,
}

impl DiscoveryMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        Ok(DiscoveryMetrics {
            windows: registrar.gauge(
                "baler_windows_discovered",
                "Models whose context length the upstream reported.",
            )?,
            requests: registrar.counter_by(
                "baler_discovery_total",
                "Times that the upstream was asked for its models, by outcome.",
                "outcome",
            )?,
        })
    }
}

/// The upstream was asked for its models.
#[derive(Debug)]
pub struct DiscoveryEnded {
    /// How that ended.
    pub outcome: DiscoveryOutcome,
    /// Models whose context length is known by now.
    pub known: usize,
}

impl DiscoveryEnded {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        let DiscoveryEnded { outcome, known } = self;
        metrics.discovery.requests.inc(outcome);
        metrics.discovery.windows.set(gauge_value(known));
        let outcome_word = outcome.as_str();
        if outcome.is_failure() {
            warn!(
                outcome = outcome_word,
                known,
                "asking the upstream for its models' context lengths failed; Baler asks again later"
            );
        } else {
            info!(
                outcome = outcome_word,
                known, "asked the upstream for its models' context lengths"
            );
        }
    }
}

/// A request named a model of unknown context length.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct UnknownModel<'a> {
    pub policy: &'a str,
    /// Plain characters only: a client chose the name.
    pub model: &'a str,
    pub window: u64,
}

impl UnknownModel<'_> {
    /// Writes it down.
    pub fn emit(self) {
        warn!(
            policy = self.policy,
            model = self.model,
            window = self.window,
            "the context length of this model is not known: the policy's default_window is \
             assumed; set window if it is wrong"
        );
    }
}

/// So many unknown models were named that further ones are not.
#[derive(Debug)]
#[expect(missing_docs, reason = "named by the event")]
pub struct UnknownModelsAreMany {
    pub named: usize,
}

impl UnknownModelsAreMany {
    /// Writes it down.
    pub fn emit(self) {
        warn!(
            named = self.named,
            "many unknown models: further ones are not named"
        );
    }
}
