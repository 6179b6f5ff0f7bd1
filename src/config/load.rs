//! Loading: the sources of a configuration, their precedence, and the way from them to a
//! [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider};

use crate::config::problem::{hint, nearest};
use crate::config::{Config, Problem, Problems, amounts, overlay, raw, resolve, unreadable};
use crate::core::strategy::{Step, Strategy};

/// The sources of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Environment variables, all of them: those that are not Baler's are ignored.
    pub env: BTreeMap<String, String>,
    /// Flags, by key path (`upstream.url`).
    pub flags: Vec<(&'static str, String)>,
    /// Strategies by name, to use instead of every policy's ladder.
    pub ladder: Option<Vec<String>>,
}

/// Reads, checks and resolves the configuration.
///
/// # Errors
/// [`Problems`]: all of them, so that one run is enough to mend them.
pub fn load(sources: &Sources) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let figment = merge(sources, &mut problems);
    let mut written = match merged(&figment) {
        Ok(mut dict) => {
            default_policy(&mut dict, sources, &mut problems);
            default_summarizer(&mut dict, sources);
            let mut data = Value::from(dict);
            amounts::read(&mut data);
            unreadable::read(data, &mut |path, what| {
                let key = path.join(".");
                let source = source_of(sources, &key);
                problems.push(Problem { key, what, source });
            })
        }
        Err(error) => {
            problems.push(Problem {
                key: error.path.join("."),
                what: error.kind.to_string(),
                source: None,
            });
            raw::Raw::default()
        }
    };
    if let Some(names) = &sources.ladder {
        replace_ladders(&mut written, names, &mut problems);
    }
    let config = resolved(&written, sources, &mut problems);
    config
        .filter(|_| problems.is_empty())
        .ok_or(Problems(problems))
}

/// Checks and resolves a configuration that was written in code.
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

/// Puts what variables and flags say about the default policy into the merged data.
fn default_policy(data: &mut Dict, sources: &Sources, problems: &mut Vec<Problem>) {
    let Some((keys, source)) = keys_below(POLICY, sources) else {
        return;
    };
    if let Err(what) = overlay::set_default_policy(data, keys) {
        problems.push(Problem {
            key: source,
            what,
            source: None,
        });
    }
}

/// Puts what variables say about the default summariser into the merged data, where the file has
/// several. Those about the only one were merged like any other key.
fn default_summarizer(data: &mut Dict, sources: &Sources) {
    if let (Some(Value::Array(_, several)), Some((keys, _))) =
        (data.get_mut("summarizer"), keys_below(SUMMARIZER, sources))
    {
        overlay::set_default_summarizer(several, keys);
    }
}

/// The keys below a section that variables and flags set, and the last of these.
fn keys_below(section: &str, sources: &Sources) -> Option<(Dict, String)> {
    let below = |key: &str| key.strip_prefix(section).map(str::to_owned);
    let variables = sources.env.iter().filter_map(|(name, value)| {
        let key = below(&key_of_variable(name).filter(|_| !is_foreign(name))?)?;
        Some((key, parsed(value), name.clone()))
    });
    let flags = sources.flags.iter().filter_map(|(key, value)| {
        let key = below(key)?;
        let flag = format!("--{}", key.replace('_', "-"));
        Some((key, parsed(value), flag))
    });
    let mut figment = Figment::new();
    let mut source = None;
    for (key, value, name) in variables.chain(flags) {
        figment = figment.merge(Serialized::default(&key, value));
        source = Some(name);
    }
    Some((merged(&figment).ok()?, source?))
}

/// Begins the keys of the default policy in variables and flags.
const POLICY: &str = "policy.";
/// Begins the keys of the default summariser in variables.
const SUMMARIZER: &str = "summarizer.";

/// All sources in one, the strongest on top. Those of the default policy are put in later.
fn merge(sources: &Sources, problems: &mut Vec<Problem>) -> Figment {
    let mut figment = Figment::new();
    if let Some(url) = sources
        .env
        .get("OPENAI_BASE_URL")
        .filter(|url| !url.is_empty())
    {
        figment = figment.merge(Serialized::default("upstream.url", url));
    }
    if let Some(file) = &sources.file {
        figment = figment.merge(read_file(file, problems));
    }
    let of_file = merged(&figment).unwrap_or_default();
    let has_several = matches!(of_file.get("summarizer"), Some(Value::Array(..)));
    let variables = sources.env.iter();
    for (name, value) in variables.filter(|(name, _)| name.starts_with("BALER_")) {
        if is_foreign(name) {
            continue;
        }
        if let Some(key) = key_of_variable(name) {
            if key.starts_with(POLICY) || (has_several && key.starts_with(SUMMARIZER)) {
                continue;
            }
            figment = figment.merge(Serialized::default(&key, parsed(value)));
        } else {
            problems.push(Problem {
                key: name.clone(),
                what: format!(
                    "no such variable; sections and keys are joined by two underscores: {}",
                    nearest_variable(name)
                ),
                source: Some("environment".to_owned()),
            });
        }
    }
    let flags = sources.flags.iter();
    for (key, value) in flags.filter(|(key, _)| !key.starts_with(POLICY)) {
        figment = figment.merge(Serialized::default(key, value));
    }
    figment
}

fn read_file(file: &Path, problems: &mut Vec<Problem>) -> Figment {
    let what = match std::fs::read_to_string(file) {
        Ok(text) => {
            let figment = Figment::from(Toml::string(&text));
            match merged(&figment) {
                Ok(_) => return figment,
                Err(error) => format!("not valid TOML: {}", without_excerpt(&error.to_string())),
            }
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    problems.push(Problem {
        key: file.display().to_string(),
        what,
        source: None,
    });
    Figment::new()
}

/// An error of the parser without the lines of the file that it quotes: they may hold a secret.
fn without_excerpt(error: &str) -> String {
    let is_quoted = |line: &&str| {
        let rest = line
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit());
        rest.trim_start().starts_with('|')
    };
    let lines = error.trim().lines().filter(|line| !is_quoted(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The merged data of a figment.
fn merged(figment: &Figment) -> Result<Dict, Box<figment::Error>> {
    Ok(figment
        .data()?
        .remove(&Profile::Default)
        .unwrap_or_default())
}

/// Replaces every policy's ladder by the strategies with these names.
fn replace_ladders(written: &mut raw::Raw, names: &[String], problems: &mut Vec<Problem>) {
    if written.policy.is_empty() {
        written.policy.push(raw::Policy::default());
    }
    let mut steps = Vec::with_capacity(names.len());
    for name in names {
        if let Some(step) = Step::named(name) {
            steps.push(step);
        } else {
            let hint = hint(nearest(name, Strategy::NAMES.iter().copied()));
            let known = Strategy::NAMES.join(", ");
            problems.push(Problem {
                key: "--ladder".to_owned(),
                what: format!("unknown strategy \"{name}\"{hint}; one of {known}"),
                source: None,
            });
        }
    }
    for policy in &mut written.policy {
        policy.ladder.clone_from(&steps);
    }
}

/// Whether a variable begins like Baler's and is not a key: the one with the file's name, the one
/// with the ledger's secret, and those that Kubernetes sets in every pod of a namespace with a
/// Service called `baler` or `baler-something`.
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
    rest == "_CONFIG" || name == resolve::SECRET_VARIABLE || (of_a_service && !rest.contains("__"))
}

/// The key path of a variable such as `BALER_UPSTREAM__URL`.
fn key_of_variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix("BALER_")?;
    let key = rest.to_ascii_lowercase().replace("__", ".");
    (key.contains('.') && !key.split('.').any(str::is_empty)).then_some(key)
}

/// The variable of a key path.
fn variable_of_key(key: &str) -> String {
    format!("BALER_{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// A variable's value: numbers, booleans and lists as in the file, anything else a string.
fn parsed(text: &str) -> Value {
    text.parse()
        .unwrap_or_else(|never: std::convert::Infallible| match never {})
}

fn nearest_variable(name: &str) -> String {
    let keys = raw::key_paths();
    let variables: Vec<String> = keys.iter().map(|key| variable_of_key(key)).collect();
    // What all of them begin with says nothing about which one was meant.
    let rest = |name: &str| name.strip_prefix("BALER_").unwrap_or(name).to_owned();
    let known: Vec<String> = variables.iter().map(|name| rest(name)).collect();
    let found = nearest(&rest(name), known.iter().map(String::as_str));
    found.map(|found| format!("BALER_{found}")).map_or_else(
        || "for example BALER_UPSTREAM__URL".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}

/// The strongest source that sets `key`.
fn source_of(sources: &Sources, key: &str) -> Option<String> {
    if sources.flags.iter().any(|(flag, _)| *flag == key) {
        return Some("flag".to_owned());
    }
    // Policies are counted in the file and named by their keys in variables.
    let plain = key
        .strip_prefix(POLICY)
        .and_then(|rest| rest.split_once('.'));
    if let Some((_, rest)) = plain.filter(|(index, _)| index.parse::<usize>().is_ok()) {
        let first = rest.split('.').next().unwrap_or(rest);
        let variable = variable_of_key(&format!("{POLICY}{first}"));
        let mut names = sources.env.keys();
        if let Some(name) = names.find(|name| name.starts_with(&variable)) {
            return Some(name.clone());
        }
        let flag = |known: &str| known.strip_prefix(POLICY) == Some(first);
        if sources.flags.iter().any(|(known, _)| flag(known)) {
            return Some("flag".to_owned());
        }
    }
    let variable = variable_of_key(key);
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
