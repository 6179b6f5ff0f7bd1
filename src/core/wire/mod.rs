//! The wire formats: the only room that spells the JSON of an API.

pub mod chat;
pub mod decode;
mod dialect;
pub mod model_list;
pub mod overflow;
pub mod own_call;
pub mod sse;
mod usage;

pub use dialect::Fault;
pub(in crate::core) use usage::is_plausible;
pub use usage::{Usage, UsageReader};

/// A wire format. A closed set: each verb is a `match` that leads to the folder of one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// OpenAI's chat completions, and all that is compatible with them.
    #[default]
    ChatCompletions,
}
