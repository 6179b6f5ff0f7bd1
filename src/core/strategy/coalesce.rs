//! `coalesce`: older turns become one user message, a transcript of requests, calls and outputs. It
//! is made from the originals each time, so that it always shows the newest calls and outputs and
//! counts the rest.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collapse_errors;
use super::label::{Limits, OfCalls, SHORT, clipped, of_call};
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::is_among;
use crate::core::conversation::{Author, Entry, Exchange, Kind, Media, ToolResult};
use crate::core::edit::{Draft, Tag, Zone};
use crate::core::text::{Failures, ToolFailures};
use crate::core::{Cancel, Cancelled};

/// Older turns become one user message: a transcript of the user's questions, the calls and their
/// outputs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Coalesce {
    /// The newest calls that are shown; the rest is counted.
    pub tool_call_limit: usize,
    /// The newest outputs that are shown; the rest is counted.
    pub output_limit: usize,
    /// Items shown of a list or object in arguments.
    pub items: usize,
    /// Characters shown of a text in arguments.
    pub argument_chars: usize,
    /// Characters shown of an output or a message.
    pub chars: usize,
}

impl Default for Coalesce {
    fn default() -> Self {
        Coalesce {
            tool_call_limit: 20,
            output_limit: 15,
            items: 3,
            argument_chars: 80,
            chars: 400,
        }
    }
}

impl Options for Coalesce {
    const NAME: &'static str = "coalesce";
    const COUNTS: &'static [&'static str] = &[
        "turns",
        "calls_total",
        "calls_shown",
        "calls_dropped",
        "outputs_total",
        "outputs_shown",
        "outputs_dropped",
        "errors_collapsed",
    ];

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run, draft)?)
    }
}

/// A failure that still stands is shown at so many times the length of other outputs.
const FAILURE_LENGTH: usize = 4;

/// One line or block of the transcript.
enum Piece {
    Words(String),
    Call {
        line: String,
        output: Option<String>,
        collapsed: bool,
    },
}

/// The body of a transcript, and its counts.
type Transcript = (String, Vec<(&'static str, u64)>);

fn apply(options: &Coalesce, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Cancelled> {
    let Run {
        scope,
        target,
        failures,
        cancel,
        ..
    } = *run;
    let messages = draft.conversation().messages;
    let mut old: Vec<Exchange> = draft.in_zone(Zone::Condensed);
    old.retain(|exchange| draft.body_of(Tag::Transcript, exchange.first).is_some());
    let span = scope.span(draft);
    if span.is_empty() || target.met(draft.size()) {
        return Ok(Done::default());
    }
    let mut exchanges = [old.as_slice(), &span].concat();
    exchanges.sort_by_key(|exchange| exchange.first);
    // The originals of an earlier transcript are among the dropped exchanges; they are shown again,
    // within the limits. Other steps may have dropped more: where the transcript gets too long by
    // that, the earlier one is extended as it is.
    let gone: Vec<Exchange> = draft
        .conversation()
        .exchanges
        .iter()
        .filter(|exchange| is_among(&exchanges, exchange) || draft.is_gone(exchange))
        .copied()
        .collect();
    let earlier = |draft: &Draft<'_>| {
        let bodies = old
            .iter()
            .filter_map(|exchange| draft.body_of(Tag::Transcript, exchange.first));
        bodies.map(Piece::Words).collect()
    };
    let told = |messages: &[Entry<'_>], earlier, exchanges: &[Exchange]| {
        let told = (messages, exchanges);
        transcript(options, failures, told, earlier, cancel)
    };
    // Made from the originals; where earlier steps made them shorter than a transcript is, from
    // what they are now.
    let from_originals = |_: &Draft<'_>| told(messages, Vec::new(), &gone);
    let extended = |draft: &Draft<'_>| told(messages, earlier(draft), &span);
    let from_edited = |draft: &Draft<'_>| told(&as_they_are(draft), earlier(draft), &span);
    type Attempt<'t> = &'t dyn Fn(&Draft<'_>) -> Result<Transcript, Cancelled>;
    let attempts: [Attempt<'_>; 3] = [&from_originals, &extended, &from_edited];
    for attempt in attempts {
        let (body, details) = attempt(draft)?;
        let new = draft.written(Author::User, &Tag::Transcript.text(&body));
        if new.is_some_and(|new| draft.condense(&exchanges, vec![new])) {
            return Ok(Done {
                replaced: 0,
                details,
            });
        }
    }
    Ok(Done::default())
}

/// The messages under the edits of earlier steps; those that are gone as they were.
fn as_they_are<'d>(draft: &'d Draft<'_>) -> Vec<Entry<'d>> {
    let originals = draft.conversation().messages.iter().enumerate();
    originals
        .map(|(at, original)| {
            draft
                .entry(at)
                .map_or_else(|| original.clone(), Cow::into_owned)
        })
        .collect()
}

/// The parts of a message that are not text, in a word each.
fn words_for<'a>(media: impl Iterator<Item = Media<'a>>) -> String {
    media.map(|media| format!(" [{}]", media.words())).collect()
}

/// The transcript of `exchanges`, after earlier ones.
fn transcript(
    options: &Coalesce,
    failures: Failures<'_>,
    (messages, exchanges): (&[Entry<'_>], &[Exchange]),
    earlier: Vec<Piece>,
    cancel: &Cancel,
) -> Result<Transcript, Cancelled> {
    let overcome = collapse_errors::overcome(messages, exchanges, failures, cancel)?;
    let mut pieces = earlier;
    let mut lines = OfCalls::default();
    for exchange in exchanges {
        cancel.check_budget()?;
        let Some(first) = messages.get(exchange.first) else {
            continue;
        };
        // A transcript that came back from a client: its originals are not here to be shown again.
        if let Some(body) = Tag::Transcript.body_of(first) {
            pieces.push(Piece::Words(body));
            continue;
        }
        pieces.extend(words(options, exchange, first));
        for (id, result) in exchange.results(messages) {
            let tool = exchange.tool_of(messages, result);
            let fate = Fate {
                failures: failures.of(tool.as_deref()),
                is_overcome: overcome.contains(&id),
            };
            let line = line_of(options, (messages, exchange, result), &mut lines);
            pieces.push(called(options, line, result, fate));
        }
    }
    let turns = exchanges
        .iter()
        .filter(|exchange| exchange.kind == Kind::User)
        .count();
    Ok(shown(options, &pieces, turns, overcome.len()))
}

/// The words of the first message of an exchange, if there are any.
fn words(options: &Coalesce, exchange: &Exchange, first: &Entry<'_>) -> Option<Piece> {
    let text = clipped(first.texts().join(" ").trim(), options.chars);
    let words = [text, words_for(first.media())].concat();
    let party = if exchange.kind == Kind::User {
        "user"
    } else {
        "assistant"
    };
    (!words.is_empty()).then(|| Piece::Words(format!("{party}: {}", words.trim_start())))
}

/// What is known of a result that may be a failure.
#[derive(Clone, Copy)]
struct Fate<'f> {
    failures: ToolFailures<'f>,
    /// Whether the same tool succeeded later.
    is_overcome: bool,
}

/// The call that a result answers.
fn line_of(
    options: &Coalesce,
    (messages, exchange, result): (&[Entry<'_>], &Exchange, &ToolResult<'_>),
    known: &mut OfCalls<String>,
) -> String {
    let limits = Limits {
        items: options.items,
        chars: options.argument_chars,
        whole: options
            .items
            .saturating_mul(options.argument_chars)
            .saturating_add(SHORT.whole),
    };
    match exchange.call_of(messages, result) {
        Some(call) => known.of(call, |call| of_call(&call.name, call.arguments, limits)),
        None => {
            let tool = exchange.tool_of(messages, result).unwrap_or_default();
            of_call(&tool, None, limits)
        }
    }
}

/// A call with its output, given its line and its result.
fn called(options: &Coalesce, line: String, result: &ToolResult<'_>, fate: Fate<'_>) -> Piece {
    let text = result.decoded().collect::<Vec<_>>().join("\n");
    let media = words_for(result.media.iter().copied());
    let collapsed = fate.is_overcome;
    let output = if collapsed {
        let failure = clipped(fate.failures.line(&text).trim(), options.argument_chars);
        Some(format!("failed, overcome later: {failure}"))
    } else if text.trim().is_empty() {
        Some(media.trim_start().to_owned()).filter(|media| !media.is_empty())
    } else if fate.failures.are(&text) {
        // The model needs all of a failure that no later success overcame.
        let chars = options.chars.saturating_mul(FAILURE_LENGTH);
        Some(clipped(text.trim(), chars))
    } else {
        Some([clipped(text.trim(), options.chars), media].concat())
    };
    Piece::Call {
        line,
        output,
        collapsed,
    }
}

/// The calls that are shown of a transcript, and whether the output of each is.
struct Limited {
    calls_total: usize,
    calls_dropped: usize,
    outputs_total: usize,
    outputs_shown: usize,
    outputs_dropped: usize,
}

impl Limited {
    fn of(options: &Coalesce, pieces: &[Piece]) -> Self {
        // For each call, whether it has an output of its own.
        let calls: Vec<bool> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Words(_) => None,
                Piece::Call {
                    output, collapsed, ..
                } => Some(output.is_some() && !collapsed),
            })
            .collect();
        let outputs = |from: usize| calls.iter().skip(from).filter(|has| **has).count();
        let calls_dropped = calls.len().saturating_sub(options.tool_call_limit);
        let outputs_total = outputs(0);
        // An output is shown below its call: without the call it is not shown, whatever the limit.
        let outputs_shown = outputs(calls_dropped).min(options.output_limit);
        Limited {
            calls_total: calls.len(),
            calls_dropped,
            outputs_total,
            outputs_shown,
            outputs_dropped: outputs_total - outputs_shown,
        }
    }
}

/// The newest calls and outputs within the limits, and the counts of all.
fn shown(options: &Coalesce, pieces: &[Piece], turns: usize, overcome: usize) -> Transcript {
    let limited = Limited::of(options, pieces);
    let mut lines = Vec::new();
    if limited.calls_dropped > 0 {
        lines.push(format!(
            "({} earlier calls are not shown)",
            limited.calls_dropped
        ));
    }
    if limited.outputs_dropped > 0 {
        lines.push(format!(
            "({} earlier outputs are not shown)",
            limited.outputs_dropped
        ));
    }
    let (mut calls, mut outputs) = (0, 0);
    for piece in pieces {
        match piece {
            Piece::Words(line) => lines.push(line.clone()),
            Piece::Call {
                line,
                output,
                collapsed,
            } => {
                calls += 1;
                outputs += usize::from(output.is_some() && !collapsed);
                if calls <= limited.calls_dropped {
                    continue;
                }
                lines.push(format!("→ {line}"));
                if let Some(output) = output
                    && (*collapsed || outputs > limited.outputs_dropped)
                {
                    lines.push(format!(" {output}"));
                }
            }
        }
    }
    let counts = [
        turns,
        limited.calls_total,
        limited.calls_total - limited.calls_dropped,
        limited.calls_dropped,
        limited.outputs_total,
        limited.outputs_shown,
        limited.outputs_dropped,
        overcome,
    ];
    let details = Coalesce::COUNTS
        .iter()
        .copied()
        .zip(counts.map(|count| count as u64));
    (lines.join("\n"), details.collect())
}
