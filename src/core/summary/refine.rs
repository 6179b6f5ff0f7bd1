//! The source of a summary, in chunks that the summariser's window holds: cut between exchanges,
//! each chunk updating the summary of those before it.

use super::cut::PendingSummary;
use super::options::Options;
use super::transcript::{Part, parts, shortened, words};
use crate::core::conversation::{Entry, Exchange, Kind, Speaker, scale};
use crate::core::edit::is_synthetic;
use crate::core::tokens::Encoding;

/// The least room for a chunk, tokens: with less a model cannot be asked.
const LEAST_ROOM: u64 = 128;
/// The share of a window that is kept free because other tokenizers count otherwise.
const MARGIN: f64 = 0.03;
/// Characters of the task that are quoted.
const TASK_CHARS: usize = 8_000;
/// Tokens of the tags and the closing words of a request.
const FRAME_TOKENS: u64 = 200;

/// The source of one summary, and how far it was read.
#[derive(Debug)]
pub struct ChunkPlan {
    parts: Vec<Part>,
    next: usize,
    /// Index of the first message of the turn that the summary ends in.
    turn: Option<usize>,
    /// The first user message.
    pub task: Option<String>,
    /// The summary so far.
    pub previous: Option<String>,
    /// All texts of the messages that the summary covers, in lower case. Its identifiers must be
    /// found here.
    pub source: String,
    /// Whether it starts from an earlier summary.
    pub incremental: bool,
    /// The summary's generation.
    pub generation: u32,
    encoding: Encoding,
    /// Prompt tokens besides the transcript and the summary so far.
    overhead: u64,
    max_tokens: u64,
}

/// The part of the source that one request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Exchanges of turns that are over.
    pub conversation: String,
    /// Exchanges of the turn that goes on after the summary.
    pub turn: String,
    /// Whether it is the last.
    pub last: bool,
}

/// The model that writes a summary.
#[derive(Debug, Clone, Copy)]
pub struct SummaryModel<'s> {
    /// Its instructions.
    pub instructions: &'s str,
    /// Its context length, tokens.
    pub window: u64,
    /// The way its tokens are counted.
    pub encoding: Encoding,
}

impl ChunkPlan {
    /// The source of `pending` for a summariser: the messages since the earlier summary, or all of
    /// them, when a summary from the originals is due and they fit.
    #[must_use]
    pub fn new(
        messages: &[Entry<'_>],
        exchanges: &[Exchange],
        pending: &PendingSummary,
        options: &Options,
        summarizer: SummaryModel<'_>,
    ) -> Self {
        let encoding = summarizer.encoding;
        let covered = messages.get(..pending.covered).unwrap_or(messages);
        let task = covered
            .iter()
            .position(|entry| entry.speaker == Speaker::User && !is_synthetic(entry));
        let parts_from = |from: usize| {
            let new: Vec<Exchange> = exchanges
                .iter()
                .filter(|exchange| exchange.first >= from && exchange.end <= pending.covered)
                .filter(|exchange| Some(exchange.first) != task)
                .copied()
                .collect();
            parts(messages, &new, options.result_limit, encoding)
        };
        let task_text = task
            .and_then(|at| messages.get(at))
            .map(|entry| shortened(&words(entry), TASK_CHARS));
        let overhead = encoding.count(summarizer.instructions)
            + task_text.as_deref().map_or(0, |text| encoding.count(text))
            + FRAME_TOKENS;
        let mut plan = ChunkPlan {
            parts: Vec::new(),
            next: 0,
            turn: turn_of(messages, exchanges, pending.covered),
            task: task_text,
            previous: None,
            source: source(covered),
            incremental: false,
            generation: 1,
            encoding,
            overhead,
            max_tokens: pending.max_tokens,
        };
        let Some((from, earlier)) = &pending.earlier else {
            plan.parts = parts_from(0);
            return plan;
        };
        if earlier.generation >= options.refresh_every.max(1) {
            let all = parts_from(0);
            let tokens: u64 = all.iter().map(|part| part.tokens).sum();
            if tokens <= plan.room(summarizer.window) {
                plan.parts = all;
                return plan;
            }
        }
        plan.parts = parts_from(*from);
        plan.previous = Some(earlier.text.to_string());
        plan.incremental = true;
        plan.generation = earlier.generation.saturating_add(1);
        plan
    }

    /// Tokens of transcript that a window of `window` tokens holds besides everything else.
    fn room(&self, window: u64) -> u64 {
        let previous = self
            .previous
            .as_deref()
            .map_or(0, |text| self.encoding.count(text));
        window.saturating_sub(scale(window, MARGIN) + self.max_tokens + self.overhead + previous)
    }

    /// Whether the summary ends inside a turn.
    #[must_use]
    pub fn split(&self) -> bool {
        self.turn.is_some()
    }

    /// The next chunk for a window of `window` tokens, and the number of its exchanges; `None` when
    /// the window is too narrow for any. It stays the next one until [`ChunkPlan::taken`] is
    /// called.
    #[must_use]
    pub fn piece(&self, window: u64) -> Option<(Chunk, usize)> {
        let room = self.room(window);
        if room < LEAST_ROOM {
            return None;
        }
        let rest = self.parts.get(self.next..).unwrap_or_default();
        let (mut count, mut tokens) = (0, 0);
        for part in rest {
            if count > 0 && tokens + part.tokens > room {
                break;
            }
            (count, tokens) = (count + 1, tokens + part.tokens);
        }
        let (mut conversation, mut turn) = (String::new(), String::new());
        for part in rest.iter().take(count) {
            let out = if self.turn.is_some_and(|start| part.first >= start) {
                &mut turn
            } else {
                &mut conversation
            };
            // Only an exchange that is alone can be larger than the room.
            out.push_str(&fitted(&part.text, part.tokens, room));
        }
        Some((
            Chunk {
                conversation,
                turn,
                last: count == rest.len(),
            },
            count,
        ))
    }

    /// Takes the summary of everything up to the end of the next `count` exchanges.
    pub fn taken(&mut self, count: usize, summary: String) {
        self.next += count;
        self.previous = Some(summary);
    }
}

/// A text of at most `room` tokens, given that it has `tokens`.
fn fitted(text: &str, tokens: u64, room: u64) -> String {
    if tokens <= room {
        return text.to_owned();
    }
    // Characters follow tokens only on the average; a tenth less makes up for the difference.
    let chars = text.chars().count() as u64;
    shortened(
        text,
        usize::try_from(chars * room / tokens * 9 / 10).unwrap_or(0),
    )
}

/// The first message of the turn that the cut falls into.
fn turn_of(messages: &[Entry<'_>], exchanges: &[Exchange], cut: usize) -> Option<usize> {
    let after = exchanges
        .iter()
        .filter(|exchange| exchange.first >= cut)
        .find(|exchange| exchange.kind != Kind::Instruction)?;
    if after.kind == Kind::User {
        return None;
    }
    exchanges
        .iter()
        .rev()
        .filter(|exchange| exchange.end <= cut && exchange.kind == Kind::User)
        .map(|exchange| exchange.first)
        .find(|at| messages.get(*at).is_some_and(|entry| !is_synthetic(entry)))
}

/// All texts, calls and names of messages, in lower case.
fn source(messages: &[Entry<'_>]) -> String {
    let mut source = String::new();
    for entry in messages {
        for text in entry.texts() {
            source.extend([text.as_ref(), "\n"]);
        }
        for call in entry.calls().filter(|call| call.legacy.is_none()) {
            let arguments = call.arguments.map(|text| text.decode_or_raw());
            let arguments = arguments.as_deref().unwrap_or_default();
            source.extend([call.name.as_ref(), "\n", arguments, "\n"]);
        }
        for raw in entry.calls().filter_map(|call| call.legacy) {
            source.push_str(raw);
        }
        source.extend([entry.name.as_deref().unwrap_or_default(), "\n"]);
    }
    // Escapes of JSON inside texts would hide paths and quotes.
    source.to_lowercase().replace("\\/", "/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::core::conversation::{Fingerprint, group};
    use crate::core::summary::{Spent, Summary};
    use crate::core::wire::chat::Chat;

    fn summarizer(window: u64) -> SummaryModel<'static> {
        SummaryModel {
            instructions: "Summarise.",
            window,
            encoding: Encoding::O200K,
        }
    }

    fn options() -> Options {
        Options {
            max_tokens: 100,
            ..Options::default()
        }
    }

    fn due(covered: usize) -> PendingSummary {
        let key = Fingerprint::of(b"");
        PendingSummary {
            key,
            covered,
            earlier: None,
            prefixes: Vec::new(),
            edits: Vec::new(),
            tokens: 1_000,
            max_tokens: 100,
        }
    }

    /// A chat of exchanges with so many words; every third is a user's.
    fn chat(sizes: &[usize]) -> String {
        let mut messages = vec![json!({"role": "user", "content": "The task."})];
        for (at, size) in sizes.iter().enumerate() {
            let text = format!("part {at} begins {} part {at} ends", "word ".repeat(*size));
            if at % 3 == 2 {
                messages.push(json!({"role": "user", "content": text}));
            } else {
                let function = json!({"name": "f", "arguments": "{}"});
                let call = json!({"id": "c", "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": "c", "content": text}));
            }
        }
        messages.push(json!({"role": "assistant", "content": "Behind the cut."}));
        json!({"messages": messages}).to_string()
    }

    fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(0..300_usize, 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn chunks_hold_every_exchange_once_in_order_and_fit(
            sizes in any_sizes(),
            window in 400..3_000_u64,
        ) {
            let body = chat(&sizes);
            let chat = Chat::parse(body.as_bytes()).unwrap();
            let messages = &chat.messages;
            let exchanges = group(messages).unwrap();
            let encoding = Encoding::O200K;
            let pending = due(messages.len() - 1);
            let model = summarizer(window);
            let mut plan = ChunkPlan::new(messages, &exchanges, &pending, &options(), model);
            prop_assert_eq!(plan.task.as_deref(), Some("The task."));
            let (mut begun, mut chunks) = (0, 0);
            loop {
                let room = plan.room(window);
                let Some((chunk, count)) = plan.piece(window) else {
                    prop_assert!(room < LEAST_ROOM);
                    return Ok(());
                };
                let text = [chunk.conversation.as_str(), chunk.turn.as_str()].concat();
                let tokens = encoding.count(&text);
                prop_assert!(tokens <= room + count as u64, "{tokens} in {room}");
                prop_assert!(count >= 1 && !text.contains("Behind the cut."));
                // Whole exchanges, each in its place.
                let has = |part: String| text.contains(&part);
                while has(format!("part {begun} begins")) || has(format!("part {begun} ends")) {
                    begun += 1;
                }
                let (results, calls) = (text.matches("result of f"), text.matches("call f"));
                prop_assert_eq!(results.count(), calls.count());
                chunks += 1;
                prop_assert!(chunks <= sizes.len());
                if chunk.last {
                    break;
                }
                plan.taken(count, format!("Summary {chunks}."));
            }
            prop_assert_eq!(begun, sizes.len(), "none is left out");
        }
    }

    #[test]
    fn a_later_summary_starts_where_the_earlier_one_ended_or_anew_when_that_is_due_and_fits() {
        let body = chat(&[50; 12]);
        let chat = Chat::parse(body.as_bytes()).unwrap();
        let exchanges = group(&chat.messages).unwrap();
        let earlier = |generation| {
            let spent = Spent::default();
            let summary = Summary {
                text: "Earlier.".into(),
                tokens: 2,
                generation,
                incremental: false,
                split: false,
                spent,
            };
            PendingSummary {
                earlier: Some((11, summary.into())),
                ..due(chat.messages.len() - 1)
            }
        };
        let new = |due: &PendingSummary, window| {
            ChunkPlan::new(
                &chat.messages,
                &exchanges,
                due,
                &options(),
                summarizer(window),
            )
        };
        let plan = new(&earlier(3), 10_000);
        assert_eq!(
            (plan.previous.as_deref(), plan.incremental, plan.generation),
            (Some("Earlier."), true, 4)
        );
        assert!(
            !plan
                .piece(10_000)
                .unwrap()
                .0
                .conversation
                .contains("part 0 begins")
        );
        let plan = new(&earlier(4), 10_000);
        assert_eq!(
            (plan.previous.as_deref(), plan.incremental, plan.generation),
            (None, false, 1)
        );
        assert!(
            plan.piece(10_000)
                .unwrap()
                .0
                .conversation
                .contains("part 0 begins")
        );
        let plan = new(&earlier(4), 700);
        assert!(plan.incremental, "what does not fit is extended once more");
    }
}
