//! A JSON value as strategies need it. Keys keep their order and numbers their spelling, except
//! that an exponent gets a sign.
//!
//! This type is only for single texts such as a tool result. A request's body is never parsed into
//! a tree.

use super::write_string;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The key under which `serde_json` passes on a number's spelling.
const NUMBER_KEY: &str = "$serde_json::private::Number";

/// Commas and colons of a text that is parsed, at most.
const MOST_PARTS: usize = 400_000;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, with its original spelling.
    Number(Box<str>),
    /// A decoded string.
    String(String),
    /// A list.
    List(Vec<Json>),
    /// An object, in the order of its keys. Duplicate keys are kept.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text that is one object or list. `None` for anything else: a bare number or string
    /// is handled as text, and so is a value of more than some hundred thousand parts, since a tree
    /// takes many times the bytes of its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let separators = memchr::memchr2_iter(b',', b':', text.as_bytes());
        if text.len() > MOST_PARTS && separators.take(MOST_PARTS).count() == MOST_PARTS {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    /// The value that a text stands for in formats that write strings without quotes: a number or
    /// a boolean where JSON spells one like that, else a string.
    #[must_use]
    pub fn unquoted(text: &str) -> Self {
        match text {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            number if is_number(number) => Json::Number(number.into()),
            _ => Json::String(text.to_owned()),
        }
    }

    /// Appends the value as JSON without white space.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(spelling) => out.push_str(spelling),
            Json::String(text) => write_string(text, out),
            Json::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Whether the value is neither an object nor a list.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Json::List(_) | Json::Object(_))
    }

    /// The first member of an object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string().into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string().into()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Number(value.to_string().into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::String(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Json, E> {
                Ok(Json::String(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Json::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut members: Vec<(String, Json)> = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                match members.as_slice() {
                    [(key, Json::String(spelling))] if key == NUMBER_KEY && is_number(spelling) => {
                        Ok(Json::Number(spelling.as_str().into()))
                    }
                    _ => Ok(Json::Object(members)),
                }
            }
        }
        deserializer.deserialize_any(JsonVisitor)
    }
}

/// Whether a text is a valid JSON number.
#[must_use]
pub fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn keeps_order_and_spelling() {
        for text in [
            r#"{"b":1.0,"a":[1e+3,0.10,12345678901234567890.10,-0],"b":null,"é":"\"\n"}"#,
            "[]",
            r#"[{"$serde_json::private::Number":"x"},{"":{}}]"#,
        ] {
            assert_eq!(Json::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Json::parse("12"), None);
        assert_eq!(Json::parse("{} x"), None);
    }
}
