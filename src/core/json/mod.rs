//! JSON that is never turned into a tree unless a strategy needs one: values, and slices of raw
//! text.

mod raw;
mod value;

pub(in crate::core) use raw::present;
pub use raw::write_string;
pub(crate) use raw::{decoded, span_in, string};
pub use value::{Json, is_number};
