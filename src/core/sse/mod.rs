//! Server-sent events as they pass, whatever way they are cut into chunks: their data read on the side, and the usage
//! that only Baler asked for taken out.

mod filter;
mod lines;

pub use filter::UsageFilter;
pub use lines::Lines;
