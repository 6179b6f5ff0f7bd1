//! What a conversation is, whatever the wire format: messages, exchanges, fingerprints, sizes.

mod exchange;
mod fingerprint;
mod measure;
mod role;
mod size;

pub use exchange::{BrokenPairing, Exchange, Kind, group};
pub use fingerprint::{Fingerprint, PrefixHash};
pub use measure::Measure;
pub use role::Role;
pub use size::{Size, as_float, level, ratio, scale};
