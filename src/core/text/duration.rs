//! Durations as operators write them: `500ms`, `30s`, `10m`. For `#[serde(with = "duration")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

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
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        de::Error::custom(format_args!(
            "{text:?} is not a duration such as 500ms, 30s or 10m: {error}"
        ))
    })
}
