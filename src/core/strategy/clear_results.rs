//! `clear_results`: the oldest tool results become a placeholder until the target is met.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::label::{OfCalls, file_name};
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::placeholder::Placeholder;
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{BlockId, Exchange};
use crate::core::edit::{Draft, Replacement};
use crate::core::summary::file_of;
use crate::core::text::NamePatterns;

/// Every placeholder begins so; a result that does is never cleared again.
const MARK: &str = "[old tool result cleared to save context";

/// Old tool results become a placeholder.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClearResults {
    /// The newest results that stay, wherever they stand.
    pub keep: usize,
    /// The newest results up to this many tokens stay too.
    pub keep_tokens: u64,
    /// Whether the arguments of calls whose results may be cleared become `{}`; or the names of the
    /// tools of which they do, where `*` and `?` are wild.
    pub clear_inputs: ClearInputs,
    /// Tokens that clearing must save, or nothing is cleared.
    pub clear_at_least: u64,
    /// The placeholder; `{tokens}`, `{tool}` and `{file}` in it stand for the size of the result,
    /// the tool, and the file that the call reads or changes. When not given, a text with the size
    /// and the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Placeholder>,
}

/// The calls whose arguments are cleared along with their results.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ClearInputs {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of tools with such a name.
    Of(NamePatterns),
}

impl Serialize for ClearInputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ClearInputs::None => serializer.serialize_bool(false),
            ClearInputs::All => serializer.serialize_bool(true),
            ClearInputs::Of(tools) => tools.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ClearInputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ClearInputsVisitor)
    }
}

struct ClearInputsVisitor;

impl<'de> Visitor<'de> for ClearInputsVisitor {
    type Value = ClearInputs;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("true, false or a list of tools")
    }

    fn visit_bool<E>(self, all: bool) -> Result<ClearInputs, E> {
        Ok(if all {
            ClearInputs::All
        } else {
            ClearInputs::None
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ClearInputs, A::Error> {
        NamePatterns::deserialize(SeqAccessDeserializer::new(list)).map(ClearInputs::Of)
    }
}

impl JsonSchema for ClearInputs {
    fn schema_name() -> Cow<'static, str> {
        "ClearInputs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let list = Vec::<String>::json_schema(generator);
        json_schema!({ "anyOf": [{ "type": "boolean" }, list] })
    }
}

impl Default for ClearResults {
    fn default() -> Self {
        ClearResults {
            keep: 3,
            keep_tokens: 0,
            clear_inputs: ClearInputs::None,
            clear_at_least: 0,
            text: None,
        }
    }
}

impl Options for ClearResults {
    const NAME: &'static str = "clear_results";
    const QUICK: bool = true;

    fn keeps_its_own(&self) -> bool {
        true
    }

    fn check(&self, check: &mut OptionCheck<'_>) {
        if let Some(text) = &self.text {
            text.check("text", &["tokens", "tool", "file"], check);
        }
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run, draft)?.into())
    }
}

/// One change to one message, and what it saves.
struct Clearing {
    at: usize,
    new: Replacement,
    saves: u64,
}

fn apply(options: &ClearResults, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<u64, Stopped> {
    let (scope, target) = (run.scope, run.target);
    let over = draft.size().tokens.saturating_sub(target.target);
    // Clearing does not bring down the number of messages or of turns. Of calls, those whose
    // results stay in full are as few afterwards as the target asks for.
    let most_uses = target.tool_uses.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let surplus = uses_beyond(draft, most_uses);
    if over == 0 && surplus.is_none() {
        return Ok(0);
    }
    let (mut clearings, mut saved, mut files) = (Vec::new(), 0, OfCalls::default());
    for (exchange, id) in candidates(options, scope, draft) {
        run.cancel.check()?;
        let is_surplus = surplus.is_some_and(|last| id <= last);
        // With tokens to save, at least so many are saved; calls alone are no reason to go on.
        if !is_surplus && (over == 0 || saved >= over.max(options.clear_at_least)) {
            break;
        }
        // A result may be shorter than its placeholder, such as that of a file that was written;
        // the input of its call is not.
        let input = match &options.clear_inputs {
            ClearInputs::None => None,
            ClearInputs::All => empty_arguments(scope, draft, (&exchange, id), |_| true),
            ClearInputs::Of(tools) => {
                empty_arguments(scope, draft, (&exchange, id), |tool| tools.is_match(tool))
            }
        };
        let clearing = clear(options, draft, (&exchange, id), &mut files);
        for clearing in clearing.into_iter().chain(input) {
            saved += clearing.saves;
            clearings.push(clearing);
        }
    }
    if saved < options.clear_at_least {
        return Ok(0);
    }
    let replaced = clearings
        .into_iter()
        .map(|clearing| u64::from(draft.replace(clearing.at, Some(clearing.new))));
    Ok(replaced.sum())
}

/// The last result behind which so many more stand; `None` where there are no more.
fn uses_beyond(draft: &Draft<'_>, uses: usize) -> Option<BlockId> {
    let all = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    all.iter().rev().nth(uses).map(|(_, id)| *id)
}

/// The results that may be cleared, oldest first, each with its exchange.
fn candidates(
    options: &ClearResults,
    scope: &Scope,
    draft: &Draft<'_>,
) -> Vec<(Exchange, BlockId)> {
    let all = draft.results(draft.remaining().map(|(exchange, _)| exchange));
    let mut tokens = 0;
    let newest = all.iter().rev().enumerate().take_while(|(nth, (_, id))| {
        tokens += draft.tokens_at(id.at());
        *nth < options.keep || tokens <= options.keep_tokens
    });
    let stay = newest.count();
    let Some((_, last)) = all.iter().rev().nth(stay) else {
        return Vec::new();
    };
    let mut candidates = scope.results(draft);
    candidates.retain(|(_, id)| id <= last);
    candidates
}

fn clear(
    options: &ClearResults,
    draft: &Draft<'_>,
    (exchange, id): (&Exchange, BlockId),
    files: &mut OfCalls<Option<String>>,
) -> Option<Clearing> {
    let entry = draft.entry(id.at())?;
    let first = entry.result(id.block)?.decoded().next();
    let is_placeholder = |text: &str| {
        let own = options.text.as_ref();
        text.starts_with(MARK) || own.is_some_and(|own| own.is(text))
    };
    if first.is_some_and(|text| is_placeholder(&text)) {
        return None;
    }
    let (at, tokens) = (id.at(), draft.tokens_at(id.at()));
    // The call as the client sent it: a file keeps its name when its input is cleared.
    let messages = draft.conversation().messages;
    let result = messages.get(at)?.result(id.block)?;
    let call = exchange.call_of(messages, result);
    let file =
        call.and_then(|call| files.of(call, |call| file_of(call).map(|file| file_name(&file))));
    let plain = |file: &str| match &options.text {
        Some(text) => {
            let tool = exchange.tool_of(messages, result).unwrap_or_default();
            let tokens = tokens.to_string();
            text.filled(&[("tokens", &tokens), ("tool", &tool), ("file", file)])
        }
        None if file.is_empty() => format!("{MARK}, {tokens} tokens]"),
        None => format!("{MARK}, {tokens} tokens: {file}]"),
    };
    let cleared = |text: String| saving(draft, at, draft.with_text(id, &text)?);
    cleared(plain(file.as_deref().unwrap_or_default())).or_else(|| cleared(plain("")))
}

fn saving(draft: &Draft<'_>, at: usize, new: Replacement) -> Option<Clearing> {
    let saves = draft
        .tokens_at(at)
        .checked_sub(new.tokens)
        .filter(|saves| *saves > 0)?;
    Some(Clearing { at, new, saves })
}

/// Empties the arguments of an exchange's calls of such tools when the last of its results is
/// cleared, if all of them may be.
fn empty_arguments(
    scope: &Scope,
    draft: &Draft<'_>,
    (exchange, cleared): (&Exchange, BlockId),
    is_wanted: impl Fn(&str) -> bool,
) -> Option<Clearing> {
    // Whether it is the last is known by its place: the others need not be looked at for each.
    if cleared.at() + 1 < exchange.end {
        return None;
    }
    let results = draft.results([*exchange]);
    let (_, last) = results.last()?;
    let covered = |(_, id): &(Exchange, BlockId)| scope.covers(draft, exchange, *id);
    if *last != cleared || !results.iter().all(covered) {
        return None;
    }
    let new = draft.with_calls(exchange.first, |call, _| {
        is_wanted(&call.name).then(|| "{}".to_owned())
    })?;
    saving(draft, exchange.first, new)
}
