//! Connections to the upstream that could not be made.

use prometheus::IntCounter;
use tracing::warn;

use crate::observe::Metrics;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series};

labels! {
    /// The part of connecting that failed.
    pub enum ConnectPhase {
        /// The name could not be resolved.
        Dns = "dns",
        /// TCP could not connect.
        Connect = "connect",
        /// TLS could not be agreed on: a certificate that is not trusted, for instance.
        Tls = "tls",
        /// `upstream.connect_timeout` was over.
        Timeout = "timeout",
    }
}

/// The metrics of this event.
#[derive(Debug)]
pub(in crate::observe) struct ConnectMetrics {
    failures: Series<ConnectPhase, IntCounter>,
}

impl ConnectMetrics {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        Ok(ConnectMetrics {
            failures: registrar.counter_by(
                "baler_connect_failures_total",
                "Requests for which no connection to the upstream could be made, by phase.",
                "phase",
            )?,
        })
    }
}

/// No connection to the upstream could be made for a request.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the log line's")]
pub struct ConnectFailed<'a> {
    pub id: &'a str,
    /// Host and port, from the configuration.
    pub host: &'a str,
    pub phase: ConnectPhase,
    /// What was being done when the time was over, for [`ConnectPhase::Timeout`].
    pub during: Option<ConnectPhase>,
    /// The words of the system or of TLS. They know nothing of the request.
    pub cause: &'a str,
}

impl ConnectFailed<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.connects.failures.inc(self.phase);
        warn!(
            id = self.id,
            host = self.host,
            phase = self.phase.as_str(),
            during = self.during.map(ConnectPhase::as_str),
            cause = self.cause,
            "cannot connect to the upstream"
        );
    }
}
