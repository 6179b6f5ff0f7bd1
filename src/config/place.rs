//! The place of a problem: the line of the file, the variable or the flag that an operator has to
//! change; and the names of policies and summarisers, which say more than their indexes.

use std::collections::BTreeMap;

use figment::value::{Dict, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::problem::Problem;
use crate::config::sources::Sources;
use crate::config::{raw, resolve};

/// Flags by the key that they set, where they are not called like its last part.
const FLAGS: [(&str, &str); 4] = [
    ("upstream.url", "--upstream"),
    ("listen.address", "--listen"),
    ("admin.address", "--admin"),
    ("log.format", "--log-format"),
];

/// The flag that sets a key.
pub(super) fn flag_of(key: &str) -> String {
    let known = FLAGS.iter().find(|(known, _)| *known == key);
    known.map_or_else(
        || {
            let words = key.strip_prefix("policy.").unwrap_or(key);
            format!("--{}", words.replace(['.', '_'], "-"))
        },
        |(_, flag)| (*flag).to_owned(),
    )
}

/// Whether a variable begins like Baler's and is not a key: the one with the file's name, the one
/// with the ledger's secret, and those that Kubernetes sets in every pod of a namespace with a
/// Service called `baler` or `baler-something`.
pub(super) fn is_foreign(name: &str) -> bool {
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
pub(super) fn key_of_variable(name: &str) -> Option<String> {
    let rest = name.strip_prefix("BALER_")?;
    let key = rest.to_ascii_lowercase().replace("__", ".");
    (key.contains('.') && !key.split('.').any(str::is_empty)).then_some(key)
}

/// The variable of a key path.
pub(super) fn variable_of_key(key: &str) -> String {
    format!("BALER_{}", key.to_ascii_uppercase().replace('.', "__"))
}

/// Where every key was written.
#[derive(Debug)]
pub(super) struct Places<'s> {
    sources: &'s Sources,
    /// Lines of the file by key path, from 1.
    lines: BTreeMap<String, usize>,
    /// Names of the items of these lists; empty where an item has none.
    named: [(&'static str, Vec<String>); 2],
}

impl<'s> Places<'s> {
    pub(super) fn new(sources: &'s Sources) -> Self {
        Places {
            sources,
            lines: BTreeMap::new(),
            named: [("policy", Vec::new()), ("summarizer", Vec::new())],
        }
    }

    /// Takes note of the lines of the file's keys.
    pub(super) fn read_lines(&mut self, text: &str) {
        if let Ok(table) = DeTable::parse(text) {
            let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
            let line = |at: usize| starts.partition_point(|start| *start <= at) + 1;
            note_table(table.get_ref(), "", &line, &mut self.lines);
        }
    }

    /// Takes note of the names in the merged data.
    pub(super) fn read_names(&mut self, data: &Dict) {
        for (section, names) in &mut self.named {
            if let Some(Value::Array(_, items)) = data.get(*section) {
                let name = |item: &Value| item.as_dict()?.get("name")?.as_str().map(str::to_owned);
                *names = items
                    .iter()
                    .map(|item| name(item).unwrap_or_default())
                    .collect();
            }
        }
    }

    /// A problem of a key, with its place.
    pub(super) fn problem(&self, key: String, what: String) -> Problem {
        Problem {
            shown: self.shown(&key),
            source: self.of(&key),
            key,
            what,
        }
    }

    /// Section, index and the rest of a key path of a list that has names.
    fn item<'k>(&self, key: &'k str) -> Option<(&'static str, &[String], usize, &'k str)> {
        let (section, rest) = key.split_once('.')?;
        let (index, rest) = rest.split_once('.').unwrap_or((rest, ""));
        let (section, names) = self.named.iter().find(|(known, _)| *known == section)?;
        Some((*section, names.as_slice(), index.parse().ok()?, rest))
    }

    /// A key path with names in the place of indexes. A name that is not one (the problem may be
    /// just that), or that several have, leaves the index.
    fn shown(&self, key: &str) -> Option<String> {
        let (section, names, at, rest) = self.item(key)?;
        let name = names.get(at)?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
        let is_plain = !name.is_empty() && name.bytes().all(plain);
        let is_only = names.iter().filter(|other| *other == name).count() == 1;
        (is_plain && is_only && rest != "name").then(|| {
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{section}.{name}{dot}{rest}")
        })
    }

    /// The strongest source that sets a key.
    fn of(&self, key: &str) -> Option<String> {
        // Policies are counted in the file; variables and flags set the default one by its keys.
        let default = self.item(key).map(|(section, names, at, rest)| {
            let is_default = |name: &String| name.is_empty() || name == raw::DEFAULT_SUMMARIZER;
            let is_only = section == "summarizer" && names.len() == 1;
            let set = is_only || names.get(at).is_none_or(is_default);
            set.then(|| format!("{section}.{rest}"))
        });
        let by_name = match &default {
            Some(key) => key.as_deref(),
            None => Some(key),
        };
        if let Some(key) = by_name {
            let mut flags = self.sources.flags.iter();
            if let Some((flag, _)) = flags.find(|(flag, _)| is_part(key, flag)) {
                return Some(flag_of(flag));
            }
            let is_it = |name: &&String| {
                let known = key_of_variable(name).filter(|_| !is_foreign(name));
                known.is_some_and(|known| is_part(key, &known) || is_part(&known, key))
            };
            if let Some(name) = self.sources.env.keys().find(is_it) {
                return Some(name.clone());
            }
        }
        let is_openai = key == "upstream.url" && self.line(key).is_none();
        if is_openai && self.sources.env.contains_key("OPENAI_BASE_URL") {
            return Some("OPENAI_BASE_URL".to_owned());
        }
        let file = self.sources.file.as_ref()?.display();
        Some(match self.nearest_line(key) {
            Some(line) => format!("{file}:{line}"),
            None => file.to_string(),
        })
    }

    fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }

    /// The line of a key, or of the table that it is missing from.
    fn nearest_line(&self, mut key: &str) -> Option<usize> {
        loop {
            if let Some(line) = self.line(key) {
                return Some(line);
            }
            (key, _) = key.rsplit_once('.')?;
        }
    }
}

/// Whether a key path is `whole` or lies within it.
pub(super) fn is_part(key: &str, whole: &str) -> bool {
    key.strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn note_table(
    table: &DeTable<'_>,
    above: &str,
    line: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if above.is_empty() {
            name.to_string()
        } else {
            format!("{above}.{name}")
        };
        lines.entry(path.clone()).or_insert(line(key.span().start));
        note_value(value, &path, line, lines);
    }
}

fn note_value(
    value: &Spanned<DeValue<'_>>,
    path: &str,
    line: &dyn Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    match value.get_ref() {
        DeValue::Table(table) => note_table(table, path, line, lines),
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}.{at}");
                lines.insert(path.clone(), line(item.span().start));
                note_value(item, &path, line, lines);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_lines_that_they_are_written_on() {
        let text = "top = 1\n\n[upstream] # here\nurl = \"x\"\n[[policy]]\nname = \"a\"\n\
            ladder = [\n  \"digest\",\n  { token_budget = { threshold = 1 } },\n]\n\
            [[policy]]\n[policy.trigger]\nratio = 2\n";
        let sources = Sources {
            file: Some("f.toml".into()),
            ..Sources::default()
        };
        let mut places = Places::new(&sources);
        places.read_lines(text);
        for (key, line) in [
            ("top", 1),
            ("upstream.url", 4),
            ("upstream.http2", 3),
            ("policy.0.name", 6),
            ("policy.0.window", 5),
            ("policy.0.ladder", 7),
            ("policy.0.ladder.0", 8),
            ("policy.0.ladder.1.token_budget.threshold", 9),
            ("policy.0.ladder.1.token_budget.budget", 9),
            ("policy.1.mode", 11),
            ("policy.1.trigger.ratio", 13),
        ] {
            let place = places.of(key);
            assert_eq!(place.as_deref(), Some(&*format!("f.toml:{line}")), "{key}");
        }
        assert_eq!(places.of("nowhere").as_deref(), Some("f.toml"));
    }
}
