//! Reading the merged data as [`raw::Raw`]: every value that does not fit is reported, and the rest
//! is read all the same.

use figment::error::Kind;
use figment::value::{Dict, Value};

use crate::config::foreign::said_here;
use crate::config::problem::{hint, nearest, new_name};
use crate::config::raw;

/// Reads the configuration out of the merged data. A value that does not fit is passed to `report`
/// with its path and removed; then the rest is read again, until it fits.
pub(super) fn read(mut data: Value, report: &mut dyn FnMut(&[String], String)) -> raw::Raw {
    check_brackets(&mut data, report);
    let mut reported: Vec<Vec<String>> = Vec::new();
    loop {
        let error = match data.deserialize::<raw::Raw>() {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        let mut path = error.path.clone();
        let (what, last) = explain(&error, &data);
        path.extend(last);
        // An item of a list is replaced and not removed: that it does not fit even so is no news.
        if !reported.iter().any(|known| path.starts_with(known)) {
            report(&path, what);
            reported.push(path.clone());
        }
        if !remove(&mut data, &path) {
            return raw::Raw::default();
        }
    }
}

/// Words of keys whose values may be secrets.
const SECRET: [&str; 16] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "header",
    "headers",
    "key",
    "keys",
    "passwd",
    "password",
    "secret",
    "secrets",
    "token",
];

/// Whether the value of a key may be a secret, by the key's name. A whole section may hold any.
fn may_be_secret(path: &[String]) -> bool {
    let is_secret = |part: &String| {
        let part = part.to_ascii_lowercase();
        let mut words = part.split(['_', '-']);
        part != "token_budget" && words.any(|word| SECRET.contains(&word))
    };
    let names = path.iter().filter(|part| part.parse::<usize>().is_err());
    names.count() < 2 || path.iter().any(is_secret)
}

/// A problem with a value that is not shown.
fn explain_secret(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            format!("expected {}; the value is not shown", in_words(expected))
        }
        Kind::UnknownVariant(_, known) => format!("unknown value; one of {}", known.join(", ")),
        _ => "not a value for this key; it is not shown".to_owned(),
    }
}

/// The problem, and the last part of the key where the error's own path stops short of it.
fn explain(error: &figment::Error, data: &Value) -> (String, Option<String>) {
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let last = (error.path.last() != Some(name)).then(|| name.clone());
            let path: Vec<String> = error.path.iter().cloned().chain(last.clone()).collect();
            (unknown_key(name, &path, known), last)
        }
        kind if may_be_secret(&error.path) => (explain_secret(kind), None),
        Kind::UnknownVariant(name, known) => {
            let hint = hint_for(name, &error.path, known);
            let known = known.join(", ");
            (
                format!("unknown value \"{name}\"{hint}; one of {known}"),
                None,
            )
        }
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            let value = shown_at(data, &error.path);
            let expected = match error.path.last().map(String::as_str) {
                Some("address") => "an IP address with a port, such as 127.0.0.1:4141",
                _ => in_words(expected),
            };
            (format!("expected {expected}, got {value}"), None)
        }
        Kind::InvalidLength(_, expected) => (format!("expected {expected}"), None),
        Kind::MissingField(name) => (format!("lacks the key {name}"), None),
        kind => {
            let (problem, value) = (kind.to_string(), shown_at(data, &error.path));
            // A type's own message may quote the value already.
            let quoted = matches!(kind, Kind::Message(text) if text.contains(&value));
            if value.is_empty() || quoted {
                (problem, None)
            } else {
                (format!("{problem}, got {value}"), None)
            }
        }
    }
}

/// Removes and reports sections that are written as lists, and the list of policies where it is
/// written as a section. Serde would read a list as the values of a table's keys.
fn check_brackets(data: &mut Value, report: &mut dyn FnMut(&[String], String)) {
    let Value::Dict(_, sections) = data else {
        return;
    };
    let keys = raw::key_paths();
    let is_table = |name: &str| {
        let is_in = |key: &String| key.split_once('.').is_some_and(|(table, _)| table == name);
        name != "summarizer" && keys.iter().any(is_in)
    };
    sections.retain(|name, value| {
        let what = match value {
            Value::Dict(..) if name == "policy" => "expected a list of tables: write [[policy]]",
            Value::Array(..) if is_table(name) => "expected a table of keys: write",
            _ => return true,
        };
        let what = if name == "policy" {
            what.to_owned()
        } else {
            format!("{what} [{name}]")
        };
        report(std::slice::from_ref(name), what);
        false
    });
}

/// What an unknown name most likely meant.
fn hint_for(name: &str, path: &[String], known: &[&str]) -> String {
    said_here(name, path).map_or_else(
        || hint(nearest(name, known.iter().copied())),
        |here| format!(", here it is {here}"),
    )
}

/// What a type of the program is in the operator's words.
fn in_words(expected: &str) -> &str {
    match expected.trim_matches('`') {
        "u64" | "u32" | "u16" | "usize" | "i64" => {
            "a whole number such as 1000, \"128k\" or \"32MiB\""
        }
        "f64" => "a number such as 0.5",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "struct AmountKeys" | "struct Amount" => "{ tokens = 1000 } or { ratio = 0.5 }",
        "struct Trigger" => "{ ratio = 0.8 } or { tokens = 100000 }",
        "struct Keep" => "{ tokens = 20000 } or { turns = 3 }",
        "struct Recent" => "{ tokens = 20000 }, { turns = 3 } or { messages = 10 }",
        "struct Truncate" => "{ size = 4000, head = 1200, tail = 800 }",
        "struct Sample" => "{ items = 5 }",
        table if table.starts_with("struct ") => "a table of keys",
        other => other,
    }
}

/// The value of an unknown key is not shown: a secret may stand anywhere but where it belongs.
fn unknown_key(name: &str, path: &[String], known: &[&str]) -> String {
    if let Some(new) = new_name(path) {
        return format!("renamed to {new}");
    }
    let above = path.split_last().map_or(path, |(_, above)| above);
    let hint = hint_for(name, above, known);
    format!("unknown key{hint}; known here: {}", known.join(", "))
}

/// The value at `path` as errors show it; empty where there is none to show.
fn shown_at(data: &Value, path: &[String]) -> String {
    find(data, path).map(show).unwrap_or_default()
}

fn find<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| match value {
        Value::Dict(_, dict) => dict.get(part),
        Value::Array(_, list) => list.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Removes the value at `path`, or the nearest existing one above it.
fn remove(data: &mut Value, path: &[String]) -> bool {
    let Some((last, above)) = path.split_last() else {
        return false;
    };
    let mut value = &mut *data;
    for part in above {
        value = match value {
            Value::Dict(_, dict) if dict.contains_key(part) => match dict.get_mut(part) {
                Some(value) => value,
                None => return false,
            },
            Value::Array(_, list) => {
                match part.parse::<usize>().ok().and_then(|at| list.get_mut(at)) {
                    Some(value) => value,
                    None => return remove(data, above),
                }
            }
            _ => return remove(data, above),
        };
    }
    let removed = match value {
        Value::Dict(_, dict) => dict.remove(last).is_some(),
        // A list item is made harmless and not removed, so that the indexes of the others stay what
        // the operator counts.
        Value::Array(_, list) => last
            .parse::<usize>()
            .ok()
            .and_then(|at| list.get_mut(at))
            .is_some_and(make_harmless),
        _ => false,
    };
    removed || remove(data, above)
}

/// Replaces a list item by one that fits into any list of the configuration: a table by a table
/// without keys, anything else by a strategy's name, which is as good a string as any. Returns
/// whether the item changed.
fn make_harmless(item: &mut Value) -> bool {
    let harmless = match &*item {
        Value::Dict(tag, dict) if !dict.is_empty() => Value::Dict(*tag, Dict::new()),
        other => Value::String(other.tag(), "token_budget".to_owned()),
    };
    let changed = *item != harmless;
    *item = harmless;
    changed
}

pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Bool(_, value) => value.to_string(),
        Value::Num(_, number) => number
            .to_i128()
            .map(|n| n.to_string())
            .or_else(|| number.to_u128().map(|n| n.to_string()))
            .or_else(|| number.to_f64().map(|n| n.to_string()))
            .unwrap_or_default(),
        Value::Array(..) => "a list".to_owned(),
        Value::Dict(..) => "a table".to_owned(),
        _ => String::new(),
    }
}
