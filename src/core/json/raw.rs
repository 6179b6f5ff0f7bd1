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

/// The same, with U+FFFD for what stands for no character: half of a surrogate pair, as JavaScript
/// writes where it cut a text inside of one. For texts to read, never for ids to compare.
pub(crate) fn decoded_lossy(raw: &str) -> Option<Cow<'_, str>> {
    decoded(raw).or_else(|| {
        let mut json = serde_json::Deserializer::from_str(raw);
        json.deserialize_bytes(Lossy).ok().map(Cow::Owned)
    })
}

/// The characters of the text that `raw` spells, without making it; half of a surrogate pair counts
/// as one. `None` when it is not a string.
pub(crate) fn string_chars(raw: &str) -> Option<usize> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    let bytes = inner.as_bytes();
    // Spelled characters that an escape takes beyond the one that it stands for.
    let (mut extra, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        let escape = at + found;
        let unit = |at: usize| {
            let digits = inner.get(at..at + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(digits, 16).ok()
        };
        let is_high = unit(escape).is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        let is_pair =
            is_high && unit(escape + 6).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
        let spelled = match (unit(escape), is_pair) {
            (Some(_), true) => 12,
            (Some(_), false) => 6,
            (None, _) => 2,
        };
        extra += spelled - 1;
        at = escape + spelled;
    }
    Some(inner.chars().count().saturating_sub(extra))
}

/// Reads a string that may hold halves of surrogate pairs.
struct Lossy;

impl Visitor<'_> for Lossy {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
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
    use super::{decoded, decoded_lossy, is_longer_than, string_chars};

    #[test]
    fn half_of_a_surrogate_pair_does_not_hide_the_text_around_it() {
        for raw in [r#""cut \ud83d here\n""#, r#""cut \ude00 here\n""#] {
            assert_eq!(decoded(raw), None, "{raw}");
            let text = decoded_lossy(raw).unwrap();
            assert!(
                text.starts_with("cut \u{fffd}") && text.ends_with(" here\n"),
                "{text}"
            );
        }
        assert_eq!(decoded_lossy(r#""\ud83d\ude00""#).as_deref(), Some("😀"));
        assert_eq!(decoded_lossy("17"), None);
    }

    #[test]
    fn characters_are_counted_as_they_would_be_decoded() {
        for raw in [
            r#""""#,
            r#""plain""#,
            r#""naïve \"q\" 日本\n\\u00e9\t""#,
            r#""\u00e9\ud83d\ude00 \ud83d x \\\" end""#,
        ] {
            let text = decoded_lossy(raw).unwrap();
            // Half of a pair decodes to the three bytes of a lone surrogate, each a U+FFFD.
            let halves = text.matches("\u{fffd}\u{fffd}\u{fffd}").count();
            let expected = text.chars().count() - 2 * halves;
            assert_eq!(string_chars(raw), Some(expected), "{raw}");
        }
        assert_eq!(string_chars("17"), None);
    }

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
