//! The default policy as variables and flags set it (`BALER_POLICY__MODE`, `--mode`), so that
//! trying Baler out needs no file; and the default one of several summarisers.

use figment::value::{Dict, Value};

use crate::config::raw::{self, DEFAULT_SUMMARIZER};

/// Puts the keys that variables or flags set into the default policy: that of the merged data with
/// this name, else a new one behind all others.
///
/// # Errors
/// The problem, in words, where another policy applies to all requests, so that the default one
/// would never be used.
pub(super) fn set_default_policy(data: &mut Dict, mut keys: Dict) -> Result<(), String> {
    split_lists(&mut keys);
    let policies = data
        .entry("policy".to_owned())
        .or_insert_with(|| Value::from(Vec::<Value>::new()));
    let Value::Array(_, policies) = policies else {
        // Reading reports that.
        return Ok(());
    };
    let default = raw::Policy::default().name;
    let mut names = policies.iter().map(|policy| name_of(policy, &default));
    if let Some(at) = names.position(|name| name == default) {
        if let Some(Value::Dict(_, written)) = policies.get_mut(at) {
            merge(written, keys);
        }
        return Ok(());
    }
    if let Some(other) = policies.iter().find(|policy| is_for_everything(policy)) {
        return Err(format!(
            "sets the default policy, which is never used: policy \"{}\" applies to all requests",
            name_of(other, &default)
        ));
    }
    policies.push(Value::from(keys));
    Ok(())
}

/// Puts the keys that variables set into the default summariser of several: the only one, or that
/// with this name, else a new one.
pub(super) fn set_default_summarizer(several: &mut Vec<Value>, keys: Dict) {
    let default = |other: &Value| name_of(other, DEFAULT_SUMMARIZER) == DEFAULT_SUMMARIZER;
    let at = match several.len() {
        1 => Some(0),
        _ => several.iter().position(default),
    };
    match at.and_then(|at| several.get_mut(at)) {
        Some(Value::Dict(_, written)) => merge_deeply(written, keys),
        Some(_) => {} // Reading reports that.
        None => several.push(Value::from(keys)),
    }
}

/// Replaces values; tables within are merged.
fn merge_deeply(written: &mut Dict, keys: Dict) {
    for (key, value) in keys {
        match (written.get_mut(&key), value) {
            (Some(Value::Dict(_, table)), Value::Dict(_, keys)) => merge_deeply(table, keys),
            (_, value) => {
                written.insert(key, value);
            }
        }
    }
}

/// A list in a variable may be names with commas between them.
fn split_lists(keys: &mut Dict) {
    for (_, value) in keys
        .iter_mut()
        .filter(|(key, _)| LISTS.contains(&key.as_str()))
    {
        if let Value::String(tag, text) = value {
            let names = text.split(',').map(str::trim);
            let items = names
                .filter(|name| !name.is_empty())
                .map(|name| Value::String(*tag, name.to_owned()))
                .collect();
            *value = Value::Array(*tag, items);
        }
    }
}

/// Keys of a policy whose values are lists of names.
const LISTS: [&str; 3] = ["ladder", "models", "paths"];

/// Replaces values; tables of amounts are replaced as a whole, as in a file.
fn merge(written: &mut Dict, keys: Dict) {
    written.extend(keys);
}

fn name_of<'v>(policy: &'v Value, default: &'v str) -> &'v str {
    let name = policy.as_dict().and_then(|policy| policy.get("name"));
    name.and_then(Value::as_str).unwrap_or(default)
}

fn is_for_everything(policy: &Value) -> bool {
    let Some(policy) = policy.as_dict() else {
        return false;
    };
    let is_empty = |key: &str| match policy.get(key) {
        None => true,
        Some(Value::Array(_, items)) => items.is_empty(),
        Some(Value::Dict(_, members)) => members.is_empty(),
        Some(_) => false,
    };
    let any_model = match policy.get("models") {
        Some(Value::Array(_, models)) => models.iter().any(|model| model.as_str() == Some("*")),
        _ => false,
    };
    (any_model || is_empty("models")) && is_empty("paths") && is_empty("headers")
}
