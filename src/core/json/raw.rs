//! Slices of raw JSON: strings, presence, places.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The text of a JSON string, borrowed when it has no escapes. `None` when `raw` is not a string or
/// holds a lone surrogate.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    decoded(raw.get())
}

/// The same for a slice of JSON that is one value, without white space around it.
pub(crate) fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        Some(Cow::Borrowed(inner))
    } else {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    }
}

/// The place of `part` in `whole`, of which it is a slice (bytes).
pub(crate) fn span_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// Reads a member as its raw JSON, for `deserialize_with` (and `default`): a member that is `null`
/// is not taken for absent.
pub(in crate::core) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut String) {
    // Strings always serialise; an empty one keeps the JSON whole if that were ever to change.
    out.push_str(&serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned()));
}
