//! The fingerprint of a message's canonical content, which is the same whatever its spelling.

use std::fmt;

use memchr::memmem;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::core::conversation::Fingerprint;

/// Object keys that clients add, drop or move between turns without a change of meaning.
const VOLATILE_KEYS: [&str; 2] = ["annotations", "cache_control"];

/// The fingerprint of a message's canonical content. Falls back to the exact bytes for JSON that
/// cannot be canonicalised (nested deeper than the parser's limit, lone surrogates): such a message
/// is then known by its spelling.
pub(in crate::core) fn canonical(raw: &str) -> Fingerprint {
    let mut json = serde_json::Deserializer::from_str(raw);
    let content = json.deserialize_any(Canonical).ok();
    match content.filter(|_| memmem::find(raw.as_bytes(), PARSERS_OWN).is_none()) {
        Some(content) => content.digest,
        None => Fingerprint::of_parts(&[b"raw", raw.as_bytes()]),
    }
}

/// The parser hands out numbers as objects with a key of this name: an object that really has such
/// a key would pass for a number.
const PARSERS_OWN: &[u8] = b"serde_json::private";

/// The content of one JSON value.
struct Content {
    digest: Fingerprint,
    /// An object or list with nothing in it, or null: as good as absent.
    nothing: bool,
    /// `Some` for an object whose only fields are `type: "text"` and `text`: the fingerprint of
    /// that text.
    text: Option<Fingerprint>,
}

impl Content {
    fn leaf(tag: &[u8], bytes: &[u8]) -> Self {
        Content {
            digest: Fingerprint::of_parts(&[tag, bytes]),
            nothing: false,
            text: None,
        }
    }
}

/// Digests a JSON value while it is parsed; keeps no tree.
struct Canonical;

impl<'de> serde::de::DeserializeSeed<'de> for Canonical {
    type Value = Content;
    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Canonical {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content {
            nothing: true,
            ..Content::leaf(b"null", b"")
        })
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
        // A single text part means the same as the plain string.
        if let (
            1,
            Some(Content {
                text: Some(text), ..
            }),
        ) = (length, last)
        {
            return Ok(Content {
                digest: text,
                nothing: false,
                text: None,
            });
        }
        Ok(Content {
            digest: Fingerprint(*hasher.finalize().as_bytes()),
            nothing: length == 0,
            text: None,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut fields: Vec<(String, Fingerprint)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if VOLATILE_KEYS.contains(&key.as_str()) {
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
                if text == "text"
                    && kind == "type"
                    && *text_type == Content::leaf(b"string", b"text").digest =>
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
        Ok(Content {
            digest: Fingerprint(*hasher.finalize().as_bytes()),
            nothing: fields.is_empty(),
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn an_object_does_not_pass_for_a_number() {
        let number = r#"{"role":"user","x":1}"#;
        let object = r#"{"role":"user","x":{"$serde_json::private::Number":"1"}}"#;
        assert_ne!(canonical(number), canonical(object));
    }

    #[test]
    fn spelling_does_not_make_another_message() {
        let plain = canonical(r#"{"role":"user","content":"hé"}"#);
        for same in [
            r#"{ "content" : "h\u00e9", "role":"user" }"#,
            r#"{"role":"user","content":"hé","refusal":null,"annotations":[1],"tool_calls":[]}"#,
            concat!(
                r#"{"role":"user","content":[{"type":"text","text":"hé","#,
                r#""cache_control":{"type":"ephemeral"}}]}"#
            ),
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
        let digests: std::collections::HashSet<_> =
            texts.iter().map(|text| canonical(text)).collect();
        assert_eq!(digests.len(), texts.len());
    }

    #[test]
    fn nesting_beyond_the_parsers_limit_is_known_by_its_bytes() {
        let deep = |n: usize| {
            format!(
                r#"{{"role":"user","content":"a","x":{}{}}}"#,
                "[".repeat(n),
                "]".repeat(n)
            )
        };
        assert_ne!(canonical(&deep(100_000)), canonical(&deep(100_001)));
    }
}
