//! What operators see: metrics and log lines.
//!
//! An event is a struct; its `emit` writes both its log line and its metrics, so that they cannot
//! drift apart. Nothing outside this room touches a metric.
//!
//! ```text
//! event/     one struct per event, with the metrics that belong to it
//! label      closed sets of label values
//! registry   registration, description, series at 0
//! metrics    all metrics together, as text
//! logging    where log lines go
//! ```

pub mod event;
mod label;
mod logging;
mod metrics;
mod registry;

pub use label::{Label, plain_name};
pub use logging::init as init_logging;
pub use metrics::Metrics;
pub use registry::{LabelDescription, MetricDescription, MetricKind};
