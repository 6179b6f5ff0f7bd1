//! Loading: the sources of a configuration, their precedence, and the way from them to a
//! [`Config`].

use std::net::SocketAddr;
use std::path::Path;

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider};

use crate::config::place::{self, Places, is_part};
use crate::config::problem::{hint, nearest};
use crate::config::{Config, Problem, Problems, Sources};
use crate::config::{amounts, overlay, raw, resolve, unreadable};
use crate::core::strategy::{Step, Strategy};

/// Reads, checks and resolves the configuration.
///
/// # Errors
/// [`Problems`]: all of them, so that one run is enough to mend them.
pub fn load(sources: &Sources) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let mut places = Places::new(sources);
    let figment = merge(sources, &mut places, &mut problems);
    let mut written = match merged(&figment) {
        Ok(mut dict) => {
            default_policy(&mut dict, sources, &mut problems);
            default_summarizer(&mut dict, sources);
            places.read_names(&dict);
            let mut data = Value::from(dict);
            amounts::read(&mut data);
            unreadable::read(data, &mut |path, what| {
                problems.push(places.problem(path.join("."), what));
            })
        }
        Err(error) => {
            problems.push(Problem {
                key: error.path.join("."),
                what: error.kind.to_string(),
                ..Problem::default()
            });
            raw::Raw::default()
        }
    };
    if let Some(names) = &sources.ladder {
        replace_ladders(&mut written, names, &mut problems);
    }
    let config = resolved(&written, &places, sources, &mut problems);
    config
        .filter(|_| problems.is_empty())
        .ok_or(Problems(problems))
}

/// Reads the address of probes, for a command that asks a running Baler. That one began with the
/// configuration as it was then: other mistakes that it has by now are no matter here.
///
/// # Errors
/// [`Problems`] with that address, or with the file where nothing else names one.
pub fn load_admin(sources: &Sources) -> Result<SocketAddr, Problems> {
    let mut problems = Vec::new();
    let mut places = Places::new(sources);
    let figment = merge(sources, &mut places, &mut problems);
    let data = Value::from(merged(&figment).unwrap_or_default());
    let file = sources.file.as_ref().map(|file| file.display().to_string());
    problems.retain(|problem| file.as_ref() == Some(&problem.key));
    let address = match data.find_ref(ADMIN) {
        Some(Value::String(_, address)) => address.clone(),
        Some(other) => unreadable::show(other),
        None if problems.is_empty() => raw::Admin::default().address,
        None => return Err(Problems(problems)),
    };
    problems.clear();
    let address = resolve::address(ADMIN, &address, &mut |key, what| {
        problems.push(places.problem(key, what));
    });
    address.ok_or(Problems(problems))
}

/// The key with the address of probes.
const ADMIN: &str = "admin.address";

/// Checks and resolves a configuration that was written in code.
///
/// # Errors
/// [`Problems`], as for [`load`].
pub fn from_raw(written: &raw::Raw) -> Result<Config, Problems> {
    let mut problems = Vec::new();
    let sources = Sources::default();
    let places = Places::new(&sources);
    resolved(written, &places, &sources, &mut problems).ok_or(Problems(problems))
}

fn resolved(
    written: &raw::Raw,
    places: &Places<'_>,
    sources: &Sources,
    problems: &mut Vec<Problem>,
) -> Option<Config> {
    // What could not be read has its default now: what follows from that is no mistake of its own.
    let unread: Vec<String> = problems.iter().map(|problem| problem.key.clone()).collect();
    resolve::resolve(written, sources, &mut |key, what| {
        if !unread.iter().any(|unread| follows(&key, unread)) {
            problems.push(places.problem(key, what));
        }
    })
}

/// Whether a problem of one key may come of another key that could not be read.
fn follows(key: &str, unread: &str) -> bool {
    if is_part(key, unread) {
        return true;
    }
    // High and low mark are compared with each other, in the window.
    let of_policy = |key: &str| {
        let (policy, index) = key.split_once('.')?;
        let (index, rest) = index.split_once('.')?;
        let first = rest.split('.').next().unwrap_or(rest);
        (policy == "policy").then(|| (index.to_owned(), first.to_owned()))
    };
    match (of_policy(key), of_policy(unread)) {
        (Some((policy, key)), Some((other, unread))) => {
            let marks = ["target", "min_gain", "idle_trigger"];
            let others = ["trigger", "window", "default_window", "reserve"];
            policy == other && marks.contains(&&*key) && others.contains(&&*unread)
        }
        _ => false,
    }
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
            ..Problem::default()
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
        let key = below(&place::key_of_variable(name).filter(|_| !place::is_foreign(name))?)?;
        Some((key, parsed(value), name.clone()))
    });
    let flags = sources.flags.iter().filter_map(|(key, value)| {
        let key = below(key)?;
        Some((key.clone(), parsed(value), place::flag_of(&key)))
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
fn merge(sources: &Sources, places: &mut Places<'_>, problems: &mut Vec<Problem>) -> Figment {
    let mut figment = Figment::new();
    if let Some(url) = sources
        .env
        .get("OPENAI_BASE_URL")
        .filter(|url| !url.is_empty())
    {
        figment = figment.merge(Serialized::default("upstream.url", url));
    }
    if let Some(file) = &sources.file {
        figment = figment.merge(read_file(file, places, problems));
    }
    let of_file = merged(&figment).unwrap_or_default();
    let has_several = matches!(of_file.get("summarizer"), Some(Value::Array(..)));
    let variables = sources.env.iter();
    for (name, value) in variables.filter(|(name, _)| name.starts_with("BALER_")) {
        if place::is_foreign(name) {
            continue;
        }
        if let Some(key) = place::key_of_variable(name) {
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
                ..Problem::default()
            });
        }
    }
    let flags = sources.flags.iter();
    for (key, value) in flags.filter(|(key, _)| !key.starts_with(POLICY)) {
        figment = figment.merge(Serialized::default(key, value));
    }
    figment
}

fn read_file(file: &Path, places: &mut Places<'_>, problems: &mut Vec<Problem>) -> Figment {
    let what = match std::fs::read_to_string(file) {
        Ok(text) => {
            let figment = Figment::from(Toml::string(&text));
            match merged(&figment) {
                Ok(_) => {
                    places.read_lines(&text);
                    return figment;
                }
                Err(error) => format!("not valid TOML: {}", without_excerpt(&error.to_string())),
            }
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    problems.push(Problem {
        key: file.display().to_string(),
        what,
        ..Problem::default()
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
                ..Problem::default()
            });
        }
    }
    for policy in &mut written.policy {
        policy.ladder.clone_from(&steps);
    }
}

/// A variable's value: numbers, booleans and lists as in the file, anything else a string.
fn parsed(text: &str) -> Value {
    text.parse()
        .unwrap_or_else(|never: std::convert::Infallible| match never {})
}

/// Whether policies have a key of this name. They stand in a list, which has no variables.
fn is_key_of_policies(name: &str) -> bool {
    let policy = serde_json::to_value(raw::Policy::default());
    policy.is_ok_and(|policy| policy.get(name).is_some())
}

fn nearest_variable(name: &str) -> String {
    let keys = raw::key_paths();
    let section = name.strip_prefix("BALER_").unwrap_or(name);
    if section == "POLICY" {
        return "the default policy's keys, for example BALER_POLICY__MODE".to_owned();
    }
    let of_section = keys.iter().find(|key| {
        let table = key.split('.').next().unwrap_or(key);
        table.eq_ignore_ascii_case(section)
    });
    if let Some(key) = of_section {
        return format!("for example {}", place::variable_of_key(key));
    }
    let of_policy = section.strip_prefix("POLICY_").unwrap_or(section);
    if is_key_of_policies(&of_policy.to_ascii_lowercase()) {
        return format!("did you mean BALER_POLICY__{of_policy}?");
    }
    let variables: Vec<String> = keys.iter().map(|key| place::variable_of_key(key)).collect();
    // What all of them begin with says nothing about which one was meant.
    let rest = |name: &str| name.strip_prefix("BALER_").unwrap_or(name).to_owned();
    let known: Vec<String> = variables.iter().map(|name| rest(name)).collect();
    let found = nearest(&rest(name), known.iter().map(String::as_str));
    found.map(|found| format!("BALER_{found}")).map_or_else(
        || "for example BALER_UPSTREAM__URL".to_owned(),
        |near| format!("did you mean {near}?"),
    )
}
