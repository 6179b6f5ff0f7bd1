//! Slices of raw JSON: their text, their presence, their position.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The text of a JSON string, borrowed if it has no escapes. `None` if `raw` is not a string or
/// contains a lone surrogate.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        Some(Cow::Borrowed(inner))
    } else {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    }
}

/// The byte range of `part` in `whole`. `part` must be a slice of `whole`.
pub(crate) fn span_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

/// Reads a member as raw JSON, for `deserialize_with` (and `default`). A member that is `null`
/// counts as present.
pub(in crate::core) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// Appends `text` as a JSON string.
pub fn write_string(text: &str, out: &mut String) {
    // Serialising a string cannot fail. If that ever changed, an empty string would keep the JSON
    // valid.
    out.push_str(&serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned()));
}
