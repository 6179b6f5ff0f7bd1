//! Amounts as operators write them: `128k`, `1.5M`, `32MiB`. They become plain numbers before the
//! configuration is read.

use figment::value::Value;

/// Keys whose value is a whole number, wherever they stand.
const NUMERIC: [&str; 24] = [
    "argument_chars",
    "body_bytes",
    "chars",
    "clear_at_least",
    "connections",
    "default_window",
    "exchanges",
    "head",
    "in_flight",
    "keep",
    "max_bytes",
    "max_calls_per_minute",
    "memory_bytes",
    "messages",
    "older_than",
    "output_limit",
    "reserve",
    "result_limit",
    "size",
    "tail",
    "tool_call_limit",
    "turns",
    "window",
    "workers",
];
/// Tables whose keys belong to others.
const FOREIGN: [&str; 2] = ["parameters", "headers"];

/// Units, longest first, and what they stand for.
const UNITS: [(&str, f64); 10] = [
    ("KiB", 1_024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
];

/// Replaces amounts with units by numbers.
pub(super) fn read(value: &mut Value) {
    match value {
        Value::Dict(_, dict) => {
            for (key, value) in dict.iter_mut() {
                if FOREIGN.contains(&key.as_str()) {
                    continue;
                }
                match value.as_str().and_then(amount) {
                    Some(number) if is_numeric(key) => *value = number.into(),
                    _ => read(value),
                }
            }
        }
        Value::Array(_, items) => items.iter_mut().for_each(read),
        _ => {}
    }
}

/// Whether the value of a key is a whole number.
fn is_numeric(key: &str) -> bool {
    key.ends_with("tokens") || NUMERIC.contains(&key)
}

/// The number that a text such as `128k` stands for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in the range of exact floats"
)]
pub(crate) fn amount(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let plain = || text.parse::<u64>().ok();
    plain().or_else(|| {
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
        let number = digits.trim_end().parse::<f64>().ok()? * factor;
        let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
        is_whole.then_some(number as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn units_multiply_and_anything_else_is_left_alone() {
        for (text, number) in [
            ("128k", Some(128_000)),
            ("1.5M", Some(1_500_000)),
            ("32MiB", Some(33_554_432)),
            ("64 KiB", Some(65_536)),
            ("7", Some(7)),
            ("1.5", None),
            ("10m", None),
            ("auto", None),
            ("0.0001k", None),
            ("k", None),
        ] {
            assert_eq!(amount(text), number, "{text}");
        }
    }
}
