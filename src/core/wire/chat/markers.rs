//! Bytes that a body is searched for without parsing it.

use std::sync::LazyLock;

use memchr::memmem::Finder;

static MEDIA: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| {
    [
        "\"image_url\"",
        "\"input_audio\"",
        "\"file\"",
        "\"source\"",
        "\"video_url\"",
    ]
    .map(Finder::new)
});

static OUTPUT_LIMITS: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| ["\"max_tokens\"", "\"max_completion_tokens\""].map(Finder::new));

/// Types and keys of parts that are not text.
pub(in crate::core::wire) fn media_markers() -> &'static [Finder<'static>] {
    &*MEDIA
}

/// Keys that limit the answer.
pub(in crate::core::wire) fn output_limit_keys() -> &'static [Finder<'static>] {
    &*OUTPUT_LIMITS
}
