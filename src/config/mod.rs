//! Configuration: defaults < `OPENAI_BASE_URL` < TOML file < environment (`BALER_SECTION__KEY`) < flags.
//!
//! Two stages: [`raw`] is what an operator writes, `resolve` turns it into what the code uses. Every problem is
//! reported at once, with the key, the value and where it came from.

mod ladder;
pub mod raw;
mod resolve;
mod step;
mod summarizer;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider};

pub use resolve::{Config, Limits, LogFormat, Upstream};
pub use summarizer::{Key, Summarizer};

/// Where configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables, all of them: what is not Baler's is passed over.
    pub env: BTreeMap<String, String>,
    /// Flags, by key path (`upstream.url`).
    pub flags: Vec<(&'static str, String)>,
    /// Strategies by name, to use instead of every policy's ladder.
    pub ladder: Option<Vec<String>>,
}

/// One thing wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Key path, dotted; list items by index.
    pub key: String,
    /// What is wrong, with the value where there is one.
    pub what: String,
    /// File, variable or flag it came from, when known.
    pub source: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)?;
        self.source
            .as_ref()
            .map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

/// All problems of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Variables that start like Baler's and are no keys: the file, and what Kubernetes sets in every pod of a namespace that
/// has a Service called `baler` or `baler-something`.
fn is_foreign(name: &str) -> bool {
    let rest = name.strip_prefix("BALER").unwrap_or(name);
    let numbered_port = rest
        .split("_PORT_")
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let of_a_service = rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_PORT")
        || rest.contains("_SERVICE_PORT")
        || numbered_port;
    rest == "_CONFIG" || (of_a_service && !rest.contains("__"))
}

/// Reads, checks and resolves the configuration.
///
/// # Errors
/// [`Problems`]: every one found, so that one run is enough to mend them all.
pub fn load(sources: &Sources) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let mut figment = Figment::new();
    if let Some(url) = sources
        .env
        .get("OPENAI_BASE_URL")
        .filter(|url| !url.is_empty())
    {
        figment = figment.merge(Serialized::default("upstream.url", url));
    }
    if let Some(file) = &sources.file {
        figment = figment.merge(read_file(file, &mut problems));
    }
    for (name, value) in sources
        .env
        .iter()
        .filter(|(name, _)| name.starts_with("BALER_") && !is_foreign(name))
    {
        match name
            .strip_prefix("BALER_")
            .map(|rest| rest.to_ascii_lowercase().replace("__", "."))
        {
            Some(key) if key.contains('.') && !key.split('.').any(str::is_empty) => {
                figment = figment.merge(Serialized::default(&key, parsed(value)));
            }
            _ => problems.push(Problem {
                key: name.clone(),
                what: format!(
                    "no such variable; sections and keys are joined by two underscores: {}",
                    nearest_variable(name)
                ),
                source: Some("environment".to_owned()),
            }),
        }
    }
    for (key, value) in &sources.flags {
        figment = figment.merge(Serialized::default(key, value));
    }

    let mut written = extract(&figment, sources, &mut problems);
    if let Some(names) = &sources.ladder {
        if written.policy.is_empty() {
            written.policy.push(raw::Policy::default());
        }
        let steps: Vec<raw::Step> = names
            .iter()
            .filter_map(|name| {
                let step = raw::Step::named(name);
                if step.is_none() {
                    let what = format!(
                        "unknown strategy \"{name}\"{}; one of {}",
                        hint(nearest(name, step::STEPS.iter().copied())),
                        step::STEPS.join(", ")
                    );
                    problems.push(Problem {
                        key: "--ladder".to_owned(),
                        what,
                        source: None,
                    });
                }
                step
            })
            .collect();
        written
            .policy
            .iter_mut()
            .for_each(|policy| policy.ladder.clone_from(&steps));
    }
    let config = resolved(&written, sources, &mut problems);
    config
        .filter(|_| problems.is_empty())
        .ok_or(Problems(problems))
}

/// Checks and resolves what was written in code.
///
/// # Errors
/// [`Problems`], as for [`load`].
pub fn from_raw(written: &raw::Raw) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    resolved(written, &Sources::default(), &mut problems).ok_or(Problems(problems))
}

fn resolved(written: &raw::Raw, sources: &Sources, problems: &mut Vec<Problem>) -> Option<Config> {
    resolve::resolve(written, &sources.env, &mut |key, what| {
        let source = source_of(sources, &key);
        problems.push(Problem { key, what, source });
    })
}

/// A variable's value: numbers, booleans and lists as in the file, anything else a string.
fn parsed(text: &str) -> Value {
    text.parse()
        .unwrap_or_else(|never: std::convert::Infallible| match never {})
}

fn read_file(file: &Path, problems: &mut Vec<Problem>) -> Figment {
    let fail = |what: String| Problem {
        key: file.display().to_string(),
        what,
        source: None,
    };
    match std::fs::read_to_string(file) {
        Ok(text) => {
            let figment = Figment::from(Toml::string(&text));
            if let Err(error) = merged(&figment) {
                problems.push(fail(format!(
                    "not valid TOML: {}",
                    error.to_string().trim()
                )));
                return Figment::new();
            }
            figment
        }
        Err(error) => {
            problems.push(fail(format!("cannot be read: {error}")));
            Figment::new()
        }
    }
}

/// A figment's merged data; an error tells what could not be read.
fn merged(figment: &Figment) -> Result<Dict, Box<figment::Error>> {
    Ok(figment
        .data()?
        .remove(&Profile::Default)
        .unwrap_or_default())
}

/// Takes the written configuration out of the merged data. What does not fit is reported, taken away, and the rest read
/// again, until it does.
fn extract(figment: &Figment, sources: &Sources, problems: &mut Vec<Problem>) -> raw::Raw {
    let mut data = match merged(figment) {
        Ok(dict) => Value::from(dict),
        Err(error) => {
            problems.push(Problem {
                key: error.path.join("."),
                what: error.kind.to_string(),
                source: None,
            });
            return raw::Raw::default();
        }
    };
    loop {
        let error = match data.deserialize::<raw::Raw>() {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        let mut path = error.path.clone();
        let (what, last) = explain(&error, &data);
        path.extend(last);
        let key = path.join(".");
        let source = source_of(sources, &key);
        let removed = remove(&mut data, &path);
        problems.push(Problem { key, what, source });
        if !removed {
            return raw::Raw::default();
        }
    }
}

/// What is wrong, and the last part of the key when the error's own path stops short of it.
fn explain(error: &figment::Error, data: &Value) -> (String, Option<String>) {
    use figment::error::Kind;
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let last = (error.path.last() != Some(name)).then(|| name.clone());
            let path: Vec<String> = error.path.iter().cloned().chain(last.clone()).collect();
            let value = find(data, &path)
                .map(show)
                .filter(|value| !value.is_empty())
                .map(|value| format!(" = {value}"))
                .unwrap_or_default();
            (
                format!(
                    "unknown key{value}{}; known here: {}",
                    hint(nearest(name, known.iter().copied())),
                    known.join(", ")
                ),
                last,
            )
        }
        Kind::UnknownVariant(name, known) => (
            format!(
                "unknown value \"{name}\"{}; one of {}",
                hint(nearest(name, known.iter().copied())),
                known.join(", ")
            ),
            None,
        ),
        kind => {
            let value = find(data, &error.path).map(show).unwrap_or_default();
            (
                if value.is_empty() {
                    kind.to_string()
                } else {
                    format!("{kind}, got {value}")
                },
                None,
            )
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!(", did you mean \"{name}\"?"))
        .unwrap_or_default()
}

/// The known name that a wrong one most likely meant.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

fn nearest_variable(name: &str) -> String {
    let keys = raw::key_paths();
    let variables: Vec<String> = keys
        .iter()
        .map(|key| format!("BALER_{}", key.to_ascii_uppercase().replace('.', "__")))
        .collect();
    nearest(name, variables.iter().map(String::as_str)).map_or_else(
        || "for example BALER_UPSTREAM__URL".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}

fn find<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| match value {
        Value::Dict(_, dict) => dict.get(part),
        Value::Array(_, list) => list.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Takes the value at `path` away; the nearest one above it that exists when there is none.
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
        // A list item is made harmless and not taken out, so that the indexes of the others stay what the operator counts.
        Value::Array(_, list) => last
            .parse::<usize>()
            .ok()
            .and_then(|at| list.get_mut(at))
            .is_some_and(make_harmless),
        _ => false,
    };
    removed || remove(data, above)
}

/// Puts something in the place of a list item that is right in any list there is: a table without keys for a table, a
/// strategy's name (as good a string as any) for the rest. Says whether that changed it.
fn make_harmless(item: &mut Value) -> bool {
    let harmless = match &*item {
        Value::Dict(tag, dict) if !dict.is_empty() => Value::Dict(*tag, Dict::new()),
        other => Value::String(other.tag(), "token_budget".to_owned()),
    };
    let changed = *item != harmless;
    *item = harmless;
    changed
}

fn show(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Bool(_, value) => value.to_string(),
        Value::Num(_, number) => number
            .to_i128()
            .map(|n| n.to_string())
            .or_else(|| number.to_f64().map(|n| n.to_string()))
            .unwrap_or_default(),
        Value::Array(..) => "a list".to_owned(),
        Value::Dict(..) => "a table".to_owned(),
        _ => String::new(),
    }
}

/// The strongest source that sets `key`.
fn source_of(sources: &Sources, key: &str) -> Option<String> {
    if sources.flags.iter().any(|(flag, _)| *flag == key) {
        return Some("flag".to_owned());
    }
    let variable = format!("BALER_{}", key.to_ascii_uppercase().replace('.', "__"));
    if sources.env.contains_key(&variable) {
        return Some(variable);
    }
    if key == "upstream.url"
        && sources.file.is_none()
        && sources.env.contains_key("OPENAI_BASE_URL")
    {
        return Some("OPENAI_BASE_URL".to_owned());
    }
    sources.file.as_ref().map(|file| file.display().to_string())
}
