//! Durations as operators write them: `500ms`, `30s`, `10m`. For `#[serde(with = "duration")]`.

use std::fmt;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserializer, Serializer, de};

/// Writes a duration in the form in which [`deserialize`] reads it.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

/// Reads a duration.
///
/// # Errors
/// When the text is not a number with a unit.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(DurationVisitor)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"500ms\", \"30s\" or \"10m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        humantime::parse_duration(text).map_err(|_| {
            de::Error::custom(format_args!(
                "{text:?} is not a duration such as 500ms, 30s or 10m"
            ))
        })
    }
}
