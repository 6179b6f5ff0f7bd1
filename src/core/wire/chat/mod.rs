//! Chat completions: the only place that spells their JSON.

mod canonical;
mod count;
mod entry;
mod include_usage;
mod message;
mod outline;
mod reasoning;
mod rewrite;
mod schemas;
mod usage;
mod usage_filter;

pub(in crate::core) use canonical::canonical;
pub(in crate::core) use count::measure;
pub use count::{PRIMER_TOKENS, count_fixed, count_message};
pub(in crate::core) use entry::{entry, role_of};
pub use include_usage::{Insertion, include_usage_edit};
pub use outline::{Chat, Fixed, Outline, peek_model};
pub(in crate::core) use rewrite::{rewrite, synthetic};
pub use schemas::HARMONY_TOKENS;
pub use usage::Usage;
pub(in crate::core) use usage::is_plausible;
pub use usage_filter::UsageFilter;

pub use super::unreadable::Unreadable;
