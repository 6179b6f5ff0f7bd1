//! What operators see: metrics, and one log line a request. An event writes both, so that they cannot drift.

mod event;
mod logging;
mod metrics;

pub use event::{
    RequestEnded, Rescue, StreamEnd, SummaryMade, compaction_happened, discovery_ended, overflowed,
    summary_call, truncation_suspected, unknown_model, unknown_models_are_many,
};
pub use logging::init as init_logging;
pub use metrics::{Action, Endpoint, Metrics, Phase, TrafficMetrics};
