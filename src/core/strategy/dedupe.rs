//! `dedupe`: a tool result that occurs again later, and a run of lines that does, become a
//! reference to the newest copy.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::label;
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::BlockId;
use crate::core::edit::Draft;

/// Lines that must agree before a run of them is looked at.
const WINDOW: usize = 4;
/// The beginning of a reference to a whole result.
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
    /// The call that each text is the result of.
    labels: Vec<String>,
    /// Whole texts.
    whole: HashMap<String, usize>,
    /// The places where runs of `WINDOW` lines begin, by their hash; a run that is found is
    /// compared line by line.
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
    let editable: HashSet<BlockId> = scope.results(draft).into_iter().map(|(_, id)| id).collect();
    let results = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    let (mut seen, mut replaced) = (Seen::default(), 0);
    for (exchange, id) in results.into_iter().rev() {
        if editable.contains(&id) {
            let shorter = match seen.reference(draft, id) {
                Some(reference) => draft.set_text(id, &reference),
                None if options.blocks => draft.map_texts(id, |text| seen.without_runs(text)),
                None => false,
            };
            replaced += u64::from(shorter);
        }
        let entry = draft.entry(id.at());
        let Some(result) = entry.as_ref().and_then(|entry| entry.result(id.block)) else {
            continue;
        };
        // A reference is not a copy of anything.
        for text in result.decoded().filter(|text| !text.starts_with(REFERENCE)) {
            seen.add(&text, label::of_result(messages, &exchange, result));
        }
    }
    replaced
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

    /// A reference to a newer copy of a whole result. One of several parts has none: they may
    /// differ where the text does not.
    fn reference(&self, draft: &Draft<'_>, id: BlockId) -> Option<String> {
        let entry = draft.entry(id.at())?;
        let result = entry.result(id.block)?;
        let mut texts = result.decoded();
        let text = texts.next().filter(|_| texts.next().is_none())?;
        if result.parts > 1 || text.len() < LEAST_BYTES / 2 {
            return None;
        }
        let newer = self.whole.get(text.as_ref())?;
        Some(format!("{REFERENCE}{}]", self.labels.get(*newer)?))
    }

    fn without_runs(&self, text: &str) -> Option<String> {
        // Line ends are part of the lines, so that every line without a copy stays byte for byte.
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
