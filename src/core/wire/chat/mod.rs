//! Chat completions: the only place that spells their JSON.

mod canonical;
mod count;
mod include_usage;
mod message;
mod outline;
mod reasoning;
mod rewrite;
mod schemas;
mod text;
mod usage;
mod usage_filter;

pub use canonical::canonical;
pub use count::{PRIMER_TOKENS, count_fixed, count_message, measure};
pub use include_usage::{Insertion, include_usage_edit};
pub use message::{Call, Message};
pub use outline::{Chat, Fixed, Outline, Unreadable, peek_model};
pub(in crate::core) use rewrite::{
    with_arguments, with_content, with_parts, with_texts, without_members,
};
pub use schemas::HARMONY_TOKENS;
pub use text::text_of;
pub(in crate::core) use text::{AUDIO, IMAGE, cache_control, media_kind};
pub use usage::Usage;
pub(in crate::core) use usage::is_plausible;
pub use usage_filter::UsageFilter;
