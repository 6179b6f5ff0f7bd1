//! The ladder: strategies in the policy's order, each of which makes the span smaller until the
//! target is met.
//!
//! To add a strategy: a file here (its options, with the trait `Options`, and one function over a
//! [`Draft`](crate::core::edit::Draft)), a line in `table.rs`, a test file, and a paragraph in
//! `config/strategies.md`. A strategy is a pure function of its options and the draft. It looks at
//! the span only, leaves calls and results together, and changes nothing when it is applied to its
//! own output. It reads entries and edits them by meaning, and knows no field of any wire format.

mod beginning;
mod clear_results;
mod coalesce;
mod collapse_errors;
mod dedupe;
mod digest;
mod failing_log;
mod keys;
mod label;
mod ladder;
mod maps;
mod minify;
mod need;
mod options;
mod oversize;
mod placeholder;
mod report;
mod role_alternation;
mod scope;
mod sliding_window;
mod step;
mod strip;
mod summarize;
mod switch;
mod table;
mod token_budget;
mod trim_results;
mod truncate;
mod webhook;
mod weighed;

/// The version of what strategies write: digests, transcripts, references, tables, placeholders,
/// and the choice of what they keep.
///
/// It is part of the seed of checkpoints. Raise it with every release in which a strategy writes
/// other bytes: each living conversation is then compacted anew from its originals, once, and no
/// text of one version is continued by another. The changelog tells operators so.
pub const TEXT_VERSION: u32 = 46;

pub use clear_results::ClearResults;
pub use coalesce::Coalesce;
pub use collapse_errors::CollapseErrors;
pub use dedupe::Dedupe;
pub use digest::Digest;
pub use ladder::{Descent, on_arrival, webhooks, writes_digests_only};
pub use minify::Minify;
pub use need::{ExternalInputs, Need, Stopped, WebhookAnswer, WebhookRequest};
pub use options::{OptionCheck, TriggerLimits};
pub use oversize::NAME as OVERSIZE;
pub use report::Report;
pub use scope::Scope;
pub use sliding_window::SlidingWindow;
pub use step::Step;
pub use strip::Strip;
pub use summarize::Summarize;
pub use table::Strategy;
pub use token_budget::TokenBudget;
pub use trim_results::{Outline, Pick, Sample, TrimResults};
pub use truncate::{Truncate, Unit};
pub use webhook::Webhook;
