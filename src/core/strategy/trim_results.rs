//! `trim_results`: large tool results become smaller: a text keeps its head and tail, a list some of its items, and JSON
//! may become an outline. Error results are left alone.
//!
//! The steps look at the result itself and not at each other's output, so that none puts another out of action: an
//! outline shows the items that `sample` picks, and JSON stays JSON when it is truncated.

use super::rewrite::with_texts;
use super::scope::Scope;
use crate::core::chat::Message;
use crate::core::draft::Draft;
use crate::core::json::Json;
use crate::core::plan::Replacement;
use crate::core::text::is_failure;
use crate::core::tokens::Encoding;

/// Its name.
pub(super) const NAME: &str = "trim_results";

/// What every cut says; a text that says so is not cut again.
const MARK: &str = "removed by trim_results";
/// The member that says so in an object.
const MARK_KEY: &str = "__truncated__";

/// Options.
#[derive(Debug, Clone, Copy)]
pub struct TrimResults {
    /// Leave results alone that are not large.
    pub skip_small: bool,
    /// What is large, and what stays of it.
    pub truncate: Truncate,
    /// Make an outline of large JSON.
    pub outline: Option<Outline>,
    /// Keep some items of large lists.
    pub sample: Option<Sample>,
}

/// What is large, and what stays of it.
#[derive(Debug, Clone, Copy)]
pub struct Truncate {
    /// Whether the numbers are tokens; characters otherwise.
    pub tokens: bool,
    /// Above this a result is large.
    pub size: u64,
    /// What stays of the beginning.
    pub head: u64,
    /// What stays of the end.
    pub tail: u64,
}

/// How much an outline shows.
#[derive(Debug, Clone, Copy)]
pub struct Outline {
    /// Items and keys at each level.
    pub items: usize,
    /// Levels.
    pub depth: usize,
    /// Characters above which items are left out.
    pub chars: usize,
}

/// Which items of a list stay.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// How many.
    pub items: usize,
    /// Which ones.
    pub pick: Pick,
}

/// Which items stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

pub(super) fn apply(options: &TrimResults, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let encoding = draft.subject().encoding;
    let mut replaced = 0;
    for (_, at) in scope.results(draft) {
        let Ok(message) = Message::parse(draft.raw(at)) else { continue };
        let new = with_texts(&message, |text| trimmed(options, text, encoding)).and_then(|json| Replacement::new(json, encoding));
        if let Some(new) = new {
            replaced += u64::from(draft.replace(at, new));
        }
    }
    replaced
}

/// The result in its smaller form; `None` when it stays as it is.
fn trimmed(options: &TrimResults, text: &str, encoding: Encoding) -> Option<String> {
    let truncate = options.truncate;
    let large = truncate.measure(text, encoding) > truncate.size;
    if (options.skip_small && !large) || is_failure(text) || text.contains(MARK) {
        return None;
    }
    let Some(json) = Json::parse(text) else { return if large { truncate.text(text, encoding) } else { None } };
    let new = match (options.outline, options.sample) {
        (Some(outline), sample) => outline.of(&json, sample),
        (None, Some(sample)) => sampled(&json, sample),
        (None, None) if large => truncate.json(&json, truncate.head + truncate.tail, encoding),
        (None, None) => return None,
    };
    Some(new.to_string()).filter(|new| new.len() < text.len())
}

impl Truncate {
    fn measure(self, text: &str, encoding: Encoding) -> u64 {
        if self.tokens { encoding.count(text) } else { text.chars().count() as u64 }
    }

    /// Head and tail of a text, cut between characters, with what was removed in between.
    fn text(self, text: &str, encoding: Encoding) -> Option<String> {
        if self.head + self.tail == 0 {
            return None;
        }
        let total = self.measure(text, encoding);
        let (head, tail) = (self.bytes(text, self.head, total, false), self.bytes(text, self.tail, total, true));
        if head + tail >= text.len() {
            return None;
        }
        let (head, tail) = (text.get(..head)?, text.get(text.len() - tail..)?);
        let removed = text.chars().count() - head.chars().count() - tail.chars().count();
        Some(format!("{head}\n[… {removed} characters {MARK} …]\n{tail}"))
    }

    /// Bytes that `amount` of a text's beginning (or end) takes; tokens by the text's average.
    fn bytes(self, text: &str, amount: u64, total: u64, from_end: bool) -> usize {
        let amount = usize::try_from(amount).unwrap_or(usize::MAX);
        if self.tokens {
            let bytes =
                usize::try_from(text.len() as u128 * amount as u128 / u128::from(total.max(1))).unwrap_or(text.len()).min(text.len());
            return if from_end { text.len() - text.ceil_char_boundary(text.len() - bytes) } else { text.floor_char_boundary(bytes) };
        }
        match amount.checked_sub(1) {
            None => 0,
            Some(last) if from_end => text.char_indices().rev().nth(last).map_or(text.len(), |(at, _)| text.len() - at),
            Some(_) => text.char_indices().nth(amount).map_or(text.len(), |(at, _)| at),
        }
    }

    /// JSON of about `room`, still JSON: lists and objects keep their first members, long texts their head and tail.
    fn json(self, value: &Json, room: u64, encoding: Encoding) -> Json {
        match value {
            Json::String(text) if self.measure(text, encoding) > room => {
                let share = Truncate { head: room * 6 / 10, tail: room * 4 / 10, ..self };
                share.text(text, encoding).map_or_else(|| value.clone(), Json::String)
            }
            Json::List(items) => {
                let (mut kept, mut used) = (Vec::new(), 0);
                for item in items {
                    let item = self.json(item, room.saturating_sub(used), encoding);
                    used += self.measure(&item.to_string(), encoding);
                    if used > room && !kept.is_empty() {
                        break;
                    }
                    kept.push(item);
                }
                let removed = items.len() - kept.len();
                if removed > 0 {
                    kept.push(Json::String(format!("… {removed} of {} items {MARK}", items.len())));
                }
                Json::List(kept)
            }
            Json::Object(members) => {
                let (mut kept, mut used) = (Vec::new(), 0);
                for (key, value) in members {
                    let value = self.json(value, room.saturating_sub(used), encoding);
                    used += self.measure(key, encoding) + self.measure(&value.to_string(), encoding);
                    if used > room && !kept.is_empty() {
                        break;
                    }
                    kept.push((key.clone(), value));
                }
                let removed = members.len() - kept.len();
                if removed > 0 {
                    kept.push((MARK_KEY.to_owned(), Json::String(format!("{removed} of {} members {MARK}", members.len()))));
                }
                Json::Object(kept)
            }
            scalar => scalar.clone(),
        }
    }
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
    (0..wanted).filter_map(|nth| items.get(at(nth)).cloned()).collect()
}

/// The value with its large lists sampled: the list itself, and lists right below an object.
fn sampled(value: &Json, sample: Sample) -> Json {
    match value {
        Json::List(items) if items.len() > sample.items => Json::Object(vec![
            ("items".to_owned(), Json::List(picked(items, sample))),
            ("total_count".to_owned(), number(items.len())),
            ("sampled".to_owned(), word(sample.pick.as_str())),
            (MARK_KEY.to_owned(), word(&format!("{} items {MARK}", items.len() - sample.items))),
        ]),
        Json::Object(members) => Json::Object(members.iter().map(|(key, value)| (key.clone(), sampled(value, sample))).collect()),
        other => other.clone(),
    }
}

impl Outline {
    fn of(self, value: &Json, sample: Option<Sample>) -> Json {
        let mut outline = self.level(value, sample, self.depth);
        if outline.to_string().chars().count() > self.chars
            && let Json::Object(members) = &mut outline
        {
            members.retain(|(key, _)| key != "sample" && key != "excerpt");
            members.push(("sample_removed".to_owned(), Json::Bool(true)));
        }
        if let Json::Object(members) = &mut outline {
            members.push((MARK_KEY.to_owned(), word(&format!("details {MARK}"))));
        }
        outline
    }

    fn level(self, value: &Json, sample: Option<Sample>, depth: usize) -> Json {
        let inner = |value: &Json| if depth > 1 { self.level(value, sample, depth - 1) } else { shallow(value) };
        let sample_of = |items: &[Json]| picked(items, sample.unwrap_or(Sample { items: self.items, pick: Pick::First }));
        match value {
            Json::List(items) => Json::Object(vec![
                ("type".to_owned(), word("list")),
                ("count".to_owned(), number(items.len())),
                ("sample".to_owned(), Json::List(sample_of(items).iter().map(inner).collect())),
            ]),
            Json::Object(members) => Json::Object(vec![
                ("type".to_owned(), word("object")),
                ("count".to_owned(), number(members.len())),
                ("keys".to_owned(), Json::List(members.iter().take(self.items.max(20)).map(|(key, _)| word(key)).collect())),
                (
                    "sample".to_owned(),
                    Json::Object(members.iter().take(self.items).map(|(key, value)| (key.clone(), inner(value))).collect()),
                ),
            ]),
            Json::String(text) if text.chars().count() > 100 => Json::Object(vec![
                ("type".to_owned(), word("text")),
                ("length".to_owned(), number(text.chars().count())),
                ("excerpt".to_owned(), Json::String(text.chars().take(100).collect())),
            ]),
            scalar => scalar.clone(),
        }
    }
}

/// A value below the last level: what it is, and no more.
fn shallow(value: &Json) -> Json {
    match value {
        Json::List(items) => word(&format!("list of {}", items.len())),
        Json::Object(members) => word(&format!("object of {}", members.len())),
        Json::String(text) if text.chars().count() > 100 => word(&format!("text of {} characters", text.chars().count())),
        scalar => scalar.clone(),
    }
}
