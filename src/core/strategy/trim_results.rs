//! `trim_results`: large tool results become smaller: a text keeps its head and tail, a list some
//! of its items, and JSON may become an outline. Of a failure, the lines that say what failed stay.
//!
//! The options work together: an outline shows the items that `sample` picks, and a result that is
//! still large after either, or cannot be sampled, is truncated. JSON stays JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failing_log;
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::placeholder::Placeholder;
use super::report::Done;
use super::switch::Switch;
use super::truncate::{Cutter, MARK_KEY, Truncate};
use crate::core::edit::{Draft, Zone};
use crate::core::json::Json;
use crate::core::text::ToolFailures;

/// Keys that an outline shows of an object at least.
const LEAST_KEYS: usize = 20;
/// Texts that are longer are shown by so many characters in an outline.
const EXCERPT_CHARS: usize = 100;

/// Large tool results are cut, sampled or outlined.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrimResults {
    /// Whether every option here leaves results up to the size of `truncate` alone; where that is
    /// off, up to its default size.
    pub skip_small: bool,
    /// The size from which on a result is large, and the part of a large text that stays; false:
    /// nothing is cut.
    pub truncate: Switch<Truncate>,
    /// Large JSON becomes an outline: type, length, keys, first items.
    pub outline: Switch<Outline>,
    /// Of large lists only some items stay.
    pub sample: Switch<Sample>,
    /// Whether results are trimmed as they arrive, before any trigger, and for good. Otherwise they
    /// are trimmed when the ladder runs, and the newest stay as they are.
    pub newest: bool,
    /// The words that mark every cut, in the place of `removed by trim_results`: a text is cut with
    /// `[… 9000 characters removed by trim_results …]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Placeholder>,
}

impl Default for TrimResults {
    fn default() -> Self {
        TrimResults {
            skip_small: true,
            truncate: Switch::on(Truncate::default()),
            outline: Switch::OFF,
            sample: Switch::OFF,
            newest: false,
            text: None,
        }
    }
}

impl TrimResults {
    /// The step's name.
    pub const NAME: &'static str = <Self as Options>::NAME;

    /// The least bytes of a result that the step changes.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        if self.skip_small {
            self.truncate.get().unwrap_or_default().size
        } else {
            0
        }
    }
}

impl Options for TrimResults {
    const NAME: &'static str = "trim_results";

    fn check(&self, check: &mut OptionCheck<'_>) {
        if let Some(text) = &self.text {
            text.check("text", &[], check);
        }
        let truncate = self.truncate.get();
        let (outline, sample) = (self.outline.get(), self.sample.get());
        if truncate.is_none() && outline.is_none() && sample.is_none() {
            check.fail(
                "",
                "truncate, outline and sample are all off: it would do nothing",
            );
        }
        let is_more =
            |truncate: &Truncate| truncate.head.saturating_add(truncate.tail) > truncate.size;
        if truncate.as_ref().is_some_and(is_more) {
            check.fail("truncate", "head and tail together are more than size");
        }
        for (key, value) in [
            ("outline.items", outline.map(|outline| outline.items)),
            ("outline.depth", outline.map(|outline| outline.depth)),
            ("outline.chars", outline.map(|outline| outline.chars)),
            ("sample.items", sample.map(|sample| sample.items)),
        ] {
            if value == Some(0) {
                check.fail(key, "0 would show nothing; at least 1");
            }
        }
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        apply(self, run, draft).map(Done::from)
    }
}

/// The size of an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outline {
    /// Items and keys shown at each level.
    pub items: usize,
    /// Levels shown.
    pub depth: usize,
    /// Characters above which the items are left out.
    pub chars: usize,
}

impl Default for Outline {
    fn default() -> Self {
        Outline {
            items: 3,
            depth: 3,
            chars: 500,
        }
    }
}

/// The items of a list that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sample {
    /// Items that stay.
    pub items: usize,
    /// Their choice.
    pub pick: Pick,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            items: 5,
            pick: Pick::First,
        }
    }
}

/// A choice of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first ones.
    First,
    /// The last ones.
    Last,
    /// Evenly spread, first and last among them.
    Spread,
}

impl Pick {
    fn as_str(self) -> &'static str {
        match self {
            Pick::First => "first",
            Pick::Last => "last",
            Pick::Spread => "spread",
        }
    }
}

/// JSON is nested no deeper than its parser goes.
const DEEPEST: usize = 128;

fn apply(options: &TrimResults, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<u64, Stopped> {
    let encoding = draft.conversation().encoding;
    let messages = draft.conversation().messages;
    let mut results = run.scope.results(draft);
    if options.newest {
        // A result is trimmed alike wherever it stands: what follows it changes nothing.
        let newest = draft.results(draft.in_zone(Zone::Tail));
        let covered = newest
            .into_iter()
            .filter(|(exchange, id)| run.scope.covers(draft, exchange, *id));
        results.extend(covered);
    }
    let to = options.truncate.get().unwrap_or_default();
    let cutter = Cutter::new(to, options.text.as_ref(), encoding);
    let mut replaced = 0;
    for (exchange, id) in results {
        run.cancel.check_budget()?;
        let result = messages
            .get(id.at())
            .and_then(|entry| entry.result(id.block));
        let tool = result.and_then(|result| exchange.tool_of(messages, result));
        let failures = run.failures.of(tool.as_deref());
        let trimmed = draft.map_texts(id, |text| trimmed(options, failures, cutter, text));
        replaced += u64::from(trimmed);
    }
    Ok(replaced)
}

/// The result in its smaller form; `None` when it stays as it is.
fn trimmed(
    options: &TrimResults,
    failures: ToolFailures<'_>,
    cutter: Cutter<'_>,
    text: &str,
) -> Option<String> {
    let large = cutter.measure(text) > cutter.to.size;
    if (options.skip_small && !large) || cutter.has_cut(text) {
        return None;
    }
    let may_cut = options.truncate.get().is_some();
    if failures.are(text) {
        return (may_cut && large).then(|| failing_log::cut(cutter, failures, text))?;
    }
    let Some(json) = Json::parse(text) else {
        return (may_cut && large).then(|| cutter.text(text))?;
    };
    let shaped = match (options.outline.get(), options.sample.get()) {
        (Some(outline), sample) => outline.of(&json, sample, cutter),
        (None, Some(sample)) => sampled(&json, sample, cutter),
        (None, None) if large => json.clone(),
        (None, None) => return None,
    };
    // JSON that has no list to sample, or is shorter than its outline, is truncated like any other.
    let shaped = if shaped.to_string().len() < text.len() {
        shaped
    } else {
        json
    };
    let new = if may_cut && cutter.measure(&shaped.to_string()) > cutter.to.size {
        cutter.json(&shaped)
    } else {
        shaped
    };
    Some(new.to_string()).filter(|new| new.len() < text.len())
}

fn number(count: usize) -> Json {
    Json::Number(count.to_string().into())
}

fn word(text: &str) -> Json {
    Json::String(text.to_owned())
}

fn picked(items: &[Json], sample: Sample) -> Vec<Json> {
    let (all, wanted) = (items.len(), sample.items.min(items.len()));
    let at = |nth: usize| match sample.pick {
        Pick::First => nth,
        Pick::Last => all - wanted + nth,
        Pick::Spread if wanted > 1 => nth * (all - 1) / (wanted - 1),
        Pick::Spread => 0,
    };
    (0..wanted)
        .filter_map(|nth| items.get(at(nth)).cloned())
        .collect()
}

/// The value with its large lists sampled: the list itself, and lists right below an object.
fn sampled(value: &Json, sample: Sample, cutter: Cutter<'_>) -> Json {
    match value {
        Json::List(items) if items.len() > sample.items => Json::Object(vec![
            ("items".to_owned(), Json::List(picked(items, sample))),
            ("total_count".to_owned(), number(items.len())),
            ("sampled".to_owned(), word(sample.pick.as_str())),
            (
                MARK_KEY.to_owned(),
                word(&cutter.mark(&format!("{} items", items.len() - sample.items))),
            ),
        ]),
        Json::Object(members) => Json::Object(
            members
                .iter()
                .map(|(key, value)| (key.clone(), sampled(value, sample, cutter)))
                .collect(),
        ),
        other => other.clone(),
    }
}

impl Outline {
    fn of(self, value: &Json, sample: Option<Sample>, cutter: Cutter<'_>) -> Json {
        let mut outline = self.level(value, sample, self.depth.min(DEEPEST));
        if outline.to_string().chars().count() > self.chars
            && let Json::Object(members) = &mut outline
        {
            members.retain(|(key, _)| key != "sample" && key != "excerpt");
            members.push(("sample_removed".to_owned(), Json::Bool(true)));
        }
        if let Json::Object(members) = &mut outline {
            members.push((MARK_KEY.to_owned(), word(&cutter.mark("details"))));
        }
        outline
    }

    fn level(self, value: &Json, sample: Option<Sample>, depth: usize) -> Json {
        let inner = |value: &Json| {
            if depth > 1 {
                self.level(value, sample, depth - 1)
            } else {
                shallow(value)
            }
        };
        let first = Sample {
            items: self.items,
            pick: Pick::First,
        };
        match value {
            Json::List(items) => {
                let items_shown = picked(items, sample.unwrap_or(first));
                let sample = Json::List(items_shown.iter().map(inner).collect());
                described("list", [("count", number(items.len())), ("sample", sample)])
            }
            Json::Object(members) => {
                let keys = members.iter().take(self.items.max(LEAST_KEYS));
                let sample = members.iter().take(self.items);
                let sample = sample.map(|(key, value)| (key.clone(), inner(value)));
                described(
                    "object",
                    [
                        ("count", number(members.len())),
                        ("keys", Json::List(keys.map(|(key, _)| word(key)).collect())),
                        ("sample", Json::Object(sample.collect())),
                    ],
                )
            }
            Json::String(text) if text.chars().count() > EXCERPT_CHARS => {
                let excerpt = text.chars().take(EXCERPT_CHARS).collect();
                described(
                    "text",
                    [
                        ("length", number(text.chars().count())),
                        ("excerpt", Json::String(excerpt)),
                    ],
                )
            }
            scalar => scalar.clone(),
        }
    }
}

/// A value of an outline: its type, and the parts of it that are shown.
fn described<const N: usize>(kind: &str, members: [(&str, Json); N]) -> Json {
    let members = [("type", word(kind))].into_iter().chain(members);
    Json::Object(
        members
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

/// A value below the last level: its kind and size only.
fn shallow(value: &Json) -> Json {
    match value {
        Json::List(items) => word(&format!("list of {}", items.len())),
        Json::Object(members) => word(&format!("object of {}", members.len())),
        Json::String(text) if text.chars().count() > EXCERPT_CHARS => {
            word(&format!("text of {} characters", text.chars().count()))
        }
        scalar => scalar.clone(),
    }
}
