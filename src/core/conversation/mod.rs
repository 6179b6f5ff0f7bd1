//! Conversations, whatever the wire format: entries, exchanges, fingerprints, sizes.

mod entry;
mod exchange;
mod fingerprint;
mod measure;
mod size;

pub use entry::{
    Author, Block, BlockId, Call, Content, Entry, Media, MediaKind, Speaker, Text, ToolResult,
};
pub use exchange::{BrokenPairing, Exchange, Kind, group};
pub use fingerprint::{Fingerprint, PrefixHash};
pub use measure::{Measure, MessageKind, Shape};
pub use size::{Size, as_float, level, ratio, scale};
