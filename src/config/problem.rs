//! Problems of a configuration, and the names that an operator most likely meant.

use std::fmt;

/// One problem of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// Key path, dotted; list items by index.
    pub key: String,
    /// The key path with the names of policies and summarisers in the place of their indexes, where
    /// they have one.
    pub shown: Option<String>,
    /// The problem, with the value where there is one.
    pub what: String,
    /// Where the value is written, when known: file and line, variable or flag.
    pub source: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.shown.as_ref().unwrap_or(&self.key);
        write!(f, "{key}: {}", self.what)?;
        self.source
            .as_ref()
            .map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

/// All problems of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Keys that were renamed: the old path (list indexes left out) and the new name of its last part.
const RENAMED: [(&str, &str); 5] = [
    ("limits.think_timeout", "plan_timeout"),
    ("policy.inject_usage", "include_usage"),
    ("policy.ladder.summarize.max_invented", "max_ungrounded"),
    ("policy.ladder.summarize.facts", "extract_share"),
    ("policy.ladder.summarize.artifacts", "files"),
];

/// The new name of a key that was renamed.
pub(super) fn new_name(path: &[String]) -> Option<&'static str> {
    let is_index = |part: &&str| part.bytes().all(|b| b.is_ascii_digit());
    let names: Vec<&str> = path
        .iter()
        .map(String::as_str)
        .filter(|part| !is_index(part))
        .collect();
    let key = names.join(".");
    RENAMED
        .iter()
        .find(|(old, _)| *old == key)
        .map(|(_, new)| *new)
}

/// The question after an unknown name, when a known one is near.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!(", did you mean \"{name}\"?"))
        .unwrap_or_default()
}

/// The known name that a wrong one most likely meant.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(score, _)| *score > 0.83)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
