//! The context length that a policy assumes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The context length that a policy assumes: a number of tokens, or "auto".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The length that the upstream reports for the model, else that of the table of known models,
    /// else the policy's default.
    Auto,
    /// This many tokens.
    Tokens(u64),
}

/// The source of a context length, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The policy names a number.
    Policy,
    /// The upstream's list of models.
    Upstream,
    /// The table of known models.
    Table,
    /// The policy's default for unknown models.
    Default,
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Window::Auto => serializer.serialize_str("auto"),
            Window::Tokens(tokens) => serializer.serialize_u64(*tokens),
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WindowVisitor)
    }
}

struct WindowVisitor;

impl Visitor<'_> for WindowVisitor {
    type Value = Window;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens, or \"auto\"")
    }

    fn visit_u64<E>(self, tokens: u64) -> Result<Window, E> {
        Ok(Window::Tokens(tokens))
    }

    fn visit_i64<E: de::Error>(self, tokens: i64) -> Result<Window, E> {
        u64::try_from(tokens)
            .map(Window::Tokens)
            .map_err(|_| E::invalid_value(Unexpected::Signed(tokens), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Window, E> {
        if text == "auto" {
            Ok(Window::Auto)
        } else {
            Err(E::invalid_value(Unexpected::Str(text), &self))
        }
    }
}

impl JsonSchema for Window {
    fn schema_name() -> Cow<'static, str> {
        "Window".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Context length: a number of tokens, or \"auto\".",
            "anyOf": [
                { "type": "string", "const": "auto" },
                { "type": "integer", "format": "uint64", "minimum": 0 },
            ],
        })
    }
}
