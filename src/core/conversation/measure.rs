//! What planning needs to know of a message beyond its bytes.

use super::{Fingerprint, Role};

/// What thinking needs to know of a message beyond its view: costly to find out, the same for the same bytes, so the
/// shell keeps it by the digest of the raw message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Who speaks.
    pub role: Role,
    /// Digest of the canonical content.
    pub digest: Fingerprint,
    /// Prompt tokens, overhead included.
    pub tokens: u64,
    /// Whether all of it is text that any upstream counts. What images and other media cost differs by far, and reasoning
    /// that is sent back is left out of the prompt by some.
    pub is_plain: bool,
}
