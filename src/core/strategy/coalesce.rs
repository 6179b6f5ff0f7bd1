//! `coalesce`: older turns become one user message, a transcript of what was asked, called and
//! answered. Made from the originals each time, so that it always shows the newest calls and
//! outputs and counts the rest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::{Exchange, Kind};
use crate::core::edit::Tag;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::json::Json;
use crate::core::strategy::collapse_errors;
use crate::core::strategy::label::{Limits, clipped, of_call};
use crate::core::strategy::options::{Options, Run};
use crate::core::strategy::scope::{Scope, is_result, name_of_result};
use crate::core::strategy::{Done, Stopped};
use crate::core::text::{failure_line, is_failure};
use crate::core::wire::chat::Message;
use crate::core::wire::chat::cache_control;
use crate::core::wire::chat::media_kind;
use crate::core::wire::chat::text_of;

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
        Ok(apply(self, run.scope, draft, run.target))
    }
}

/// One line or block of the transcript.
enum Piece {
    Said(String),
    Call {
        line: String,
        output: Option<String>,
        collapsed: bool,
    },
}

pub(super) fn apply(
    options: &Coalesce,
    scope: &Scope,
    draft: &mut Draft<'_>,
    goal: Target,
) -> Done {
    let messages = draft.conversation().messages;
    let mut old: Vec<Exchange> = draft.standing(Zone::Condensed);
    old.retain(|exchange| Tag::Transcript.body_at(draft, exchange.first).is_some());
    let span = scope.span(draft);
    if span.is_empty() || goal.met(draft.size()) {
        return Done::default();
    }
    let mut exchanges = [old.as_slice(), &span].concat();
    exchanges.sort_by_key(|exchange| exchange.first);
    // What an earlier transcript stands for is among the dropped exchanges; it is told again, within the limits. Others
    // may have dropped more than that: where it gets too long by them, the earlier transcript is extended as it is.
    let gone: Vec<Exchange> = draft
        .conversation()
        .exchanges
        .iter()
        .filter(|exchange| exchanges.contains(exchange) || draft.is_gone(exchange))
        .copied()
        .collect();
    let earlier: Vec<String> = old
        .iter()
        .filter_map(|exchange| Tag::Transcript.body_at(draft, exchange.first))
        .collect();
    let before: u64 = exchanges
        .iter()
        .map(|exchange| draft.tokens_in(exchange))
        .sum();
    let mark = told_mark(messages, &gone);
    // Told from the originals; where steps before this one made them shorter than a transcript is, as they stand.
    for nth in 0..3 {
        let (body, details) = match nth {
            0 => transcript(options, messages, Vec::new(), &gone),
            1 => transcript(options, messages, earlier.clone(), &span),
            _ => transcript(options, &as_they_stand(draft), earlier.clone(), &span),
        };
        if let Some(new) = Tag::Transcript
            .message(&body, mark, draft.conversation().encoding)
            .filter(|new| new.tokens < before)
        {
            draft.condense(&exchanges, vec![new]);
            return Done {
                replaced: 0,
                details,
            };
        }
    }
    Done::default()
}

/// The last cache mark in exchanges.
fn told_mark<'a>(messages: &[Message<'a>], told: &[Exchange]) -> Option<&'a str> {
    told.iter().rev().find_map(|exchange| {
        messages
            .get(exchange.first..exchange.end)?
            .iter()
            .rev()
            .find_map(cache_control)
    })
}

/// The messages with what steps before this one made of them.
fn as_they_stand<'d>(draft: &'d Draft<'_>) -> Vec<Message<'d>> {
    let originals = draft.conversation().messages.iter().enumerate();
    originals
        .filter_map(|(at, original)| {
            Message::parse(draft.raw(at))
                .or_else(|_| Message::parse(original.raw))
                .ok()
        })
        .collect()
}

/// What a message held beside text, in a word each.
fn media(message: &Message<'_>) -> String {
    let parts = message
        .content
        .filter(|raw| raw.starts_with('['))
        .and_then(Json::parse);
    let Some(Json::List(parts)) = parts else {
        return String::new();
    };
    parts
        .iter()
        .filter_map(media_kind)
        .map(|what| format!(" [{what}]"))
        .collect()
}

/// The transcript of `exchanges`, behind earlier ones.
fn transcript(
    options: &Coalesce,
    messages: &[Message<'_>],
    earlier: Vec<String>,
    exchanges: &[Exchange],
) -> (String, Vec<(&'static str, u64)>) {
    let overcome = collapse_errors::overcome(messages, exchanges);
    let mut pieces: Vec<Piece> = earlier.into_iter().map(Piece::Said).collect();
    let limits = Limits {
        items: options.items,
        chars: options.argument_chars,
    };
    for exchange in exchanges {
        let Some(first) = messages.get(exchange.first) else {
            continue;
        };
        // A transcript that came back from a client: its originals are not here to be told again.
        if let Some(body) = Tag::Transcript.body_of(first) {
            pieces.push(Piece::Said(body));
            continue;
        }
        let said = [
            clipped(text_of(first).join(" ").trim(), options.chars),
            media(first),
        ]
        .concat();
        if !said.is_empty() {
            let who = if exchange.kind == Kind::User {
                "user"
            } else {
                "assistant"
            };
            pieces.push(Piece::Said(format!("{who}: {}", said.trim_start())));
        }
        for at in (exchange.first..exchange.end).filter(|at| is_result(messages, *at)) {
            let Some(result) = messages.get(at) else {
                continue;
            };
            let line = match first
                .calls
                .iter()
                .find(|call| Some(&call.id) == result.answers.as_ref())
            {
                Some(call) => of_call(&call.name, call.arguments, limits),
                None => format!(
                    "{}()",
                    name_of_result(messages, exchange, at).unwrap_or_default()
                ),
            };
            let (output, media) = (text_of(result).join("\n"), media(result));
            let collapsed = overcome.contains(&at);
            let output = match () {
                () if collapsed => Some(format!(
                    "failed, overcome later: {}",
                    clipped(failure_line(&output).trim(), options.argument_chars)
                )),
                () if output.trim().is_empty() => {
                    Some(media.trim_start().to_owned()).filter(|media| !media.is_empty())
                }
                // What still fails is what the model must know of in full.
                () if is_failure(&output) => {
                    Some(clipped(output.trim(), options.chars.saturating_mul(4)))
                }
                () => Some([clipped(output.trim(), options.chars), media].concat()),
            };
            pieces.push(Piece::Call {
                line,
                output,
                collapsed,
            });
        }
    }

    let calls_total = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Call { .. }))
        .count();
    let outputs = |from: usize| {
        let calls = pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::Call { .. }))
            .skip(from);
        calls
            .filter(|piece| {
                matches!(
                    piece,
                    Piece::Call {
                        output: Some(_),
                        collapsed: false,
                        ..
                    }
                )
            })
            .count()
    };
    let calls_dropped = calls_total.saturating_sub(options.tool_call_limit);
    let outputs_total = outputs(0);
    // An output is shown below its call: that of a call which is not shown is not, whatever the limit.
    let outputs_shown = outputs(calls_dropped).min(options.output_limit);
    let outputs_dropped = outputs_total - outputs_shown;
    let (mut calls, mut outputs, mut lines) = (0, 0, Vec::new());
    if calls_dropped > 0 {
        lines.push(format!("({calls_dropped} earlier calls are not shown)"));
    }
    if outputs_dropped > 0 {
        lines.push(format!("({outputs_dropped} earlier outputs are not shown)"));
    }
    for piece in &pieces {
        match piece {
            Piece::Said(line) => lines.push(line.clone()),
            Piece::Call {
                line,
                output,
                collapsed,
            } => {
                calls += 1;
                outputs += usize::from(output.is_some() && !collapsed);
                if calls <= calls_dropped {
                    continue;
                }
                lines.push(format!("→ {line}"));
                if let Some(output) = output
                    && (*collapsed || outputs > outputs_dropped)
                {
                    lines.push(format!(" {output}"));
                }
            }
        }
    }
    let turns = exchanges
        .iter()
        .filter(|exchange| exchange.kind == Kind::User)
        .count();
    let calls_shown = calls_total - calls_dropped;
    let counts = [
        turns,
        calls_total,
        calls_shown,
        calls_dropped,
        outputs_total,
        outputs_shown,
        outputs_dropped,
        overcome.len(),
    ];
    (
        lines.join("\n"),
        Coalesce::COUNTS
            .iter()
            .copied()
            .zip(counts.map(|count| count as u64))
            .collect(),
    )
}
