//! The ladder: strategies in the policy's order, each making the span smaller until the target is
//! met.
//!
//! A strategy is a pure function of its options and a [`Draft`](crate::core::edit::Draft): it looks
//! at the span only, leaves calls and results together, and changes nothing when it is applied to
//! its own output. It reads entries and edits them by meaning, and knows no field of any wire
//! format.

mod clear_results;
mod coalesce;
mod collapse_errors;
mod dedupe;
mod digest;
mod label;
mod ladder;
mod minify;
mod need;
mod oversize;
mod report;
mod role_alternation;
mod scope;
mod sliding_window;
mod step;
mod strip;
mod summarize;
mod token_budget;
mod trim_results;
mod truncate;
mod webhook;
mod weighed;

pub use clear_results::ClearResults;
pub use coalesce::Coalesce;
pub use dedupe::Dedupe;
pub use ladder::descend;
pub use minify::Minify;
pub use need::{ExternalInputs, Need, Stopped, WebhookAnswer, WebhookRequest};
pub use oversize::NAME as OVERSIZE;
pub use report::Report;
pub use scope::Scope;
pub use sliding_window::SlidingWindow;
pub use step::{Step, Strategy};
pub use strip::Strip;
pub use token_budget::TokenBudget;
pub use trim_results::{Outline, Pick, Sample, TrimResults};
pub use truncate::Truncate;
