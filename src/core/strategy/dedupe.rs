//! `dedupe`: a tool result that stands again later, and a run of lines that does, become a
//! reference to the newest copy.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::Exchange;
use crate::core::edit::Draft;
use crate::core::edit::Replacement;
use crate::core::strategy::label;
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::{Scope, is_result};
use crate::core::strategy::{Done, Stopped};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::text_of;
use crate::core::wire::chat::{with_content, with_texts};

/// Lines that must agree before a run of them is looked at.
const WINDOW: usize = 4;
/// What a reference to a whole result begins with.
const REFERENCE: &str = "[the same as the newer result of ";
/// A run shorter than this is not worth its reference (bytes).
const LEAST_BYTES: usize = 160;

/// Repeated results and blocks become a reference to their newest copy.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dedupe {
    /// Whether runs of lines are compared too, not only whole results.
    pub blocks: bool,
}

impl Default for Dedupe {
    fn default() -> Self {
        Dedupe { blocks: true }
    }
}

impl Options for Dedupe {
    const NAME: &'static str = "dedupe";

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(*self, run.scope, draft).into())
    }
}

/// Where a copy stands: the text's index and the line.
type Place = (usize, usize);

/// The texts that were seen, newest first.
#[derive(Default)]
struct Seen {
    /// Lines of each text.
    texts: Vec<Vec<String>>,
    /// What each text is the result of.
    labels: Vec<String>,
    /// Whole texts.
    whole: HashMap<String, usize>,
    /// Where runs of `WINDOW` lines begin, by their hash; what is found is compared line by line.
    runs: HashMap<u64, Place>,
}

/// A hash for each run of `WINDOW` lines, in order.
fn hashes<S: Hash>(lines: &[S]) -> impl Iterator<Item = u64> + '_ {
    lines.windows(WINDOW).map(|window| {
        let mut hasher = DefaultHasher::new();
        window.hash(&mut hasher);
        hasher.finish()
    })
}

pub(super) fn apply(options: Dedupe, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let messages = draft.conversation().messages;
    let editable: HashSet<usize> = scope.results(draft).into_iter().map(|(_, at)| at).collect();
    let mut results: Vec<(Exchange, usize)> = Vec::new();
    for (exchange, _) in draft.remaining() {
        results.extend(
            (exchange.first..exchange.end)
                .filter(|at| is_result(messages, *at))
                .map(|at| (exchange, at)),
        );
    }
    let (mut seen, mut replaced) = (Seen::default(), 0);
    for (exchange, at) in results.into_iter().rev() {
        let Ok(message) = Message::parse(draft.raw(at)) else {
            continue;
        };
        let new = editable
            .contains(&at)
            .then(|| seen.shorter(&message, options))
            .flatten();
        if let Some(new) =
            new.and_then(|json| Replacement::new(json, draft.conversation().encoding))
        {
            replaced += u64::from(draft.replace(at, new));
        }
        let Ok(message) = Message::parse(draft.raw(at)) else {
            continue;
        };
        // A reference is no copy of anything.
        for text in text_of(&message)
            .iter()
            .filter(|text| !text.starts_with(REFERENCE))
        {
            seen.add(text, label::of_result(messages, &exchange, at));
        }
    }
    replaced
}

/// The parts of a message's content: what stands beside its text may differ where the text does not.
fn parts(message: &Message<'_>) -> usize {
    let parts = message.content.filter(|raw| raw.starts_with('['));
    parts
        .and_then(|raw| serde_json::from_str::<Vec<serde::de::IgnoredAny>>(raw).ok())
        .map_or(1, |parts| parts.len())
}

impl Seen {
    fn add(&mut self, text: &str, label: String) {
        let index = self.texts.len();
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        for (line, hash) in hashes(&lines).enumerate() {
            self.runs.entry(hash).or_insert((index, line));
        }
        self.whole.entry(text.to_owned()).or_insert(index);
        self.texts.push(lines);
        self.labels.push(label);
    }

    /// The message with references in the place of what stands again later; `None` when nothing does.
    fn shorter(&self, message: &Message<'_>, options: Dedupe) -> Option<String> {
        let all = text_of(message);
        if let [text] = all.as_slice()
            && parts(message) <= 1
            && text.len() >= LEAST_BYTES / 2
            && let Some(newer) = self.whole.get(text.as_ref())
        {
            return with_content(
                message,
                &format!("{REFERENCE}{}]", self.labels.get(*newer)?),
            );
        }
        if options.blocks {
            with_texts(message, |text| self.without_runs(text))
        } else {
            None
        }
    }

    fn without_runs(&self, text: &str) -> Option<String> {
        // Line ends are part of the lines: what is no copy stays byte for byte.
        let lines: Vec<&str> = text.split('\n').collect();
        let hashes: Vec<u64> = hashes(&lines).collect();
        let (mut out, mut at, mut found): (Vec<String>, usize, bool) = (Vec::new(), 0, false);
        while let Some(line) = lines.get(at) {
            if let Some((index, start)) = hashes.get(at).and_then(|hash| self.runs.get(hash)) {
                let newer = self
                    .texts
                    .get(*index)
                    .and_then(|newer| newer.get(*start..))
                    .unwrap_or_default();
                let length = newer
                    .iter()
                    .zip(lines.iter().skip(at))
                    .take_while(|(a, b)| a.as_str() == **b)
                    .count();
                let bytes: usize = lines
                    .iter()
                    .skip(at)
                    .take(length)
                    .map(|line| line.len() + 1)
                    .sum();
                if length >= WINDOW && bytes >= LEAST_BYTES {
                    let label = self.labels.get(*index).map_or("", String::as_str);
                    out.push(format!(
                        "[… {length} lines as in the newer result of {label} …]"
                    ));
                    at += length;
                    found = true;
                    continue;
                }
            }
            out.push((*line).to_owned());
            at += 1;
        }
        found.then(|| out.join("\n"))
    }
}
