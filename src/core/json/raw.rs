//! Slices of raw JSON: strings, presence, places.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
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

/// Whether `raw`, a JSON list, has more than `most` elements. Nothing is allocated for them.
pub(crate) fn is_longer_than(raw: &str, most: usize) -> bool {
    // An element takes a byte and its comma another.
    raw.len() / 2 > most
        && memchr::memchr_iter(b',', raw.as_bytes()).take(most).count() == most
        && serde_json::Deserializer::from_str(raw)
            .deserialize_seq(Longer(most))
            .unwrap_or(false)
}

/// Answers whether a list has more elements than this.
struct Longer(usize);

impl<'de> Visitor<'de> for Longer {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        let mut length = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(length > self.0)
    }
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

#[cfg(test)]
mod tests {
    use super::is_longer_than;

    #[test]
    fn a_list_is_counted_by_its_own_elements() {
        for (raw, most, longer) in [
            ("[]", 0, false),
            ("[1]", 0, true),
            ("[1,2,3]", 2, true),
            ("[1,2,3]", 3, false),
            (r#"["a,b,c,d,e,f",[1,2,3,4]]"#, 2, false),
            (r#"{"not":"a list","it":1}"#, 1, false),
        ] {
            assert_eq!(is_longer_than(raw, most), longer, "{raw}");
        }
    }
}
