//! JSON without a tree: slices of raw text, and values for the few places where a strategy needs
//! one.

mod raw;
mod value;

pub(in crate::core) use raw::present;
pub use raw::write_string;
pub(crate) use raw::{decoded, decoded_lossy, is_longer_than, span_in, string, string_chars};
pub use value::{Json, is_number};
