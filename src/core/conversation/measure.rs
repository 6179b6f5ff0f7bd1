//! The numbers of a message, as far as planning needs them.

use super::entry::Speaker;
use super::fingerprint::Fingerprint;

/// The measure of a message. It is costly to take and the same for the same bytes, so the shell
/// caches it by a hash of the raw message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The party that speaks.
    pub speaker: Speaker,
    /// The wire format's own word for the role.
    pub role: &'static str,
    /// Fingerprint of the canonical content.
    pub fingerprint: Fingerprint,
    /// Prompt tokens, overhead included.
    pub tokens: u64,
    /// Whether all of it is text that every upstream counts alike. Costs of images and other media
    /// differ widely, and some upstreams leave reasoning that is sent back out of the prompt.
    pub is_plain: bool,
}
