//! Digests: which message is the same message, which list is the same prefix, and for whom.
//!
//! A message is known by its canonical content: key order, nulls and volatile annotations aside, and a text is the same
//! whether it is sent as a string or as a single text part. A prefix is known by a chain over its messages.

use std::fmt;

use highway::{HighwayHash, HighwayHasher, Key};
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// 256 bits of BLAKE3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    /// A few digits are enough to tell two apart while reading a test's output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

impl Digest {
    /// The digest of these exact bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of several parts; each part's length counts, so that moving a boundary changes the result.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

/// A chain over the messages of a list: knows the digest of every prefix on the way.
///
/// HighwayHash with the seed as its key: two messages of a chain cost what one costs with BLAKE3, and every message of
/// every request is in two chains. Its strength is that of a keyed hash, so the seed must be a secret.
#[derive(Debug, Clone)]
pub struct Chain(HighwayHasher);

impl Chain {
    /// A chain that starts from `seed`, which nobody outside can know.
    #[must_use]
    pub fn new(seed: &Digest) -> Self {
        let (words, _) = seed.0.as_chunks::<8>();
        let mut key = [0; 4];
        for (part, word) in key.iter_mut().zip(words) {
            *part = u64::from_le_bytes(*word);
        }
        Chain(HighwayHasher::new(Key(key)))
    }

    /// One more message.
    pub fn push(&mut self, message: &Digest) {
        self.0.append(&message.0);
    }

    /// The digest of the list so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = [0; 32];
        let (words, _) = digest.as_chunks_mut::<8>();
        for (word, part) in words.iter_mut().zip(self.0.clone().finalize256()) {
            *word = part.to_le_bytes();
        }
        Digest(digest)
    }
}

/// Object keys that clients add, drop or move between turns without meaning another message.
const VOLATILE: [&str; 2] = ["annotations", "cache_control"];

/// The digest of a message's canonical content. Falls back to the exact bytes for JSON that cannot be canonicalised
/// (nested deeper than the parser's limit, lone surrogates): such a message is then known by its spelling.
#[must_use]
pub fn canonical(raw: &str) -> Digest {
    let mut json = serde_json::Deserializer::from_str(raw);
    match json.deserialize_any(Canonical) {
        Ok(content) => content.digest,
        Err(_) => Digest::of_parts(&[b"raw", raw.as_bytes()]),
    }
}

/// What one JSON value amounts to.
struct Content {
    digest: Digest,
    /// An object or list with nothing in it, or null: as good as absent.
    nothing: bool,
    /// `Some` for an object whose only fields are `type: "text"` and `text`: the digest of that text.
    text: Option<Digest>,
}

impl Content {
    fn leaf(tag: &[u8], bytes: &[u8]) -> Self {
        Content { digest: Digest::of_parts(&[tag, bytes]), nothing: false, text: None }
    }
}

/// Digests a JSON value while it is parsed; keeps no tree.
struct Canonical;

impl<'de> serde::de::DeserializeSeed<'de> for Canonical {
    type Value = Content;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Canonical {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content { nothing: true, ..Content::leaf(b"null", b"") })
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::leaf(b"bool", &[u8::from(value)]))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::leaf(b"number", value.to_string().as_bytes()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::leaf(b"number", value.to_string().as_bytes()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::leaf(b"number", value.to_string().as_bytes()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::leaf(b"string", value.as_bytes()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"list");
        let (mut length, mut last) = (0_usize, None);
        while let Some(item) = seq.next_element_seed(Canonical)? {
            hasher.update(&item.digest.0);
            length += 1;
            last = Some(item);
        }
        // A single text part says what the plain string says.
        if let (1, Some(Content { text: Some(text), .. })) = (length, last) {
            return Ok(Content { digest: text, nothing: false, text: None });
        }
        Ok(Content { digest: Digest(*hasher.finalize().as_bytes()), nothing: length == 0, text: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut fields: Vec<(String, Digest)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if VOLATILE.contains(&key.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value_seed(Canonical)?;
            if !value.nothing {
                fields.push((key, value.digest));
            }
        }
        fields.sort_unstable();
        let text = match fields.as_slice() {
            [(text, content), (kind, text_type)]
                if text == "text" && kind == "type" && *text_type == Content::leaf(b"string", b"text").digest =>
            {
                Some(*content)
            }
            _ => None,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"object");
        for (key, value) in &fields {
            hasher.update(&(key.len() as u64).to_le_bytes());
            hasher.update(key.as_bytes());
            hasher.update(&value.0);
        }
        Ok(Content { digest: Digest(*hasher.finalize().as_bytes()), nothing: fields.is_empty(), text })
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn spelling_does_not_make_another_message() {
        let plain = canonical(r#"{"role":"user","content":"hé"}"#);
        for same in [
            r#"{ "content" : "h\u00e9", "role":"user" }"#,
            r#"{"role":"user","content":"hé","refusal":null,"annotations":[1],"tool_calls":[]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"hé","cache_control":{"type":"ephemeral"}}]}"#,
        ] {
            assert_eq!(canonical(same), plain, "{same}");
        }
    }

    #[test]
    fn meaning_does() {
        let texts = [
            r#"{"role":"user","content":"a"}"#,
            r#"{"role":"user","content":"b"}"#,
            r#"{"role":"assistant","content":"a"}"#,
            r#"{"role":"user","content":"a","name":"x"}"#,
            r#"{"role":"user","content":["a"]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"a"}]}"#,
            r#"{"role":"user","content":"a","n":12345678901234567890123}"#,
            r#"{"role":"user","content":"a","n":12345678901234567890124}"#,
            r#"{"role":"user","content":"a","n":1e400}"#,
            r#"{"role":"user","content":"\ud800"}"#,
            r#"{"role":"user","content":"\ud801"}"#,
        ];
        let digests: std::collections::HashSet<_> = texts.iter().map(|text| canonical(text)).collect();
        assert_eq!(digests.len(), texts.len());
    }

    #[test]
    fn nesting_beyond_the_parsers_limit_is_known_by_its_bytes() {
        let deep = |n: usize| format!(r#"{{"role":"user","content":"a","x":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        assert_ne!(canonical(&deep(100_000)), canonical(&deep(100_001)));
    }
}
