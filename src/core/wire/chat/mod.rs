//! Chat completions: the only place that spells their JSON.

mod canonical;
mod completion;
mod count;
mod entry;
mod error;
mod include_usage;
mod markers;
mod marks;
mod media;
mod message;
mod opening;
mod outline;
mod overflow;
mod reasoning;
mod rewrite;
mod schemas;
mod usage;
mod usage_filter;

pub(in crate::core) use canonical::canonical;
pub use completion::SUFFIX;
pub(in crate::core::wire) use completion::{
    OWN_FIELDS, completion, completion_request, continued_request, own_path, refused_parameter,
};
pub(in crate::core) use count::measure;
pub use count::{PRIMER_TOKENS, count_fixed, count_message};
pub(in crate::core) use entry::{entry, role_of};
pub(in crate::core::wire) use error::error_body;
pub use include_usage::{Insertion, include_usage_edit};
pub(in crate::core::wire) use markers::{media_markers, output_limit_keys};
pub use marks::CacheMark;
pub(in crate::core::wire) use marks::{count_marks, marks, with_marks, without_marks};
pub use opening::Opening;
pub use outline::{Chat, Fixed, Outline, peek_model};
pub(in crate::core::wire) use overflow::{overflow, overflow_event};
pub(in crate::core) use rewrite::{rewrite, synthetic};
pub use schemas::HARMONY_TOKENS;
pub(in crate::core::wire) use usage::{may_report_usage, usage};
pub use usage_filter::UsageFilter;

pub use super::unreadable::Unreadable;
