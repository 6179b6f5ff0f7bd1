//! Connections to the upstream that could not be made.

use prometheus::IntCounter;
use tracing::warn;

use crate::observe::Metrics;
use crate::observe::label::labels;
use crate::observe::registry::{Registered, Registrar, Series};

labels! {
    /// The part of connecting that failed.
    pub enum ConnectPhase {
        /// The name was being resolved.
        Resolve = "resolve",
        /// TCP was connecting.
        Tcp = "tcp",
        /// TLS was being agreed on.
        Tls = "tls",
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
    pub phase: ConnectPhase,
    pub timed_out: bool,
}

impl ConnectFailed<'_> {
    /// Writes it down.
    pub fn emit(self, metrics: &Metrics) {
        metrics.connects.failures.inc(self.phase);
        warn!(
            id = self.id,
            phase = self.phase.as_str(),
            timed_out = self.timed_out,
            "cannot connect to the upstream"
        );
    }
}
