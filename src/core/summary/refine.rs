//! What a summary is made from, in pieces that the summariser's window holds: cut between exchanges, each piece updating
//! the summary of those before it.

use crate::core::conversation::scale;
use crate::core::conversation::{Exchange, Kind, Role};
use crate::core::edit::is_synthetic;
use crate::core::summary::transcript::{Part, parts, said, shortened};
use crate::core::summary::{Options, PendingSummary};
use crate::core::tokens::Encoding;
use crate::core::wire::chat::Message;

/// The least room for a piece, tokens: with less a model cannot be asked.
const LEAST_ROOM: u64 = 128;
/// Of a window, what is kept free because others count otherwise.
const MARGIN: f64 = 0.03;
/// Characters of the task that are told.
const TASK_CHARS: usize = 8_000;

/// All that a summary is made from.
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
    /// All that was said in the messages it covers, in lower case: what it may speak of.
    pub source: String,
    /// Whether it starts from an earlier summary.
    pub incremental: bool,
    /// The summary's generation.
    pub generation: u32,
    encoding: Encoding,
    /// Prompt tokens beside the transcript and the summary so far.
    beside: u64,
    max_tokens: u64,
}

/// What is asked about at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Exchanges of turns that are over.
    pub conversation: String,
    /// Exchanges of the turn that goes on behind the summary.
    pub turn: String,
    /// Whether it is the last.
    pub last: bool,
}

impl ChunkPlan {
    /// What `due` is made from, for a summariser that holds `window` tokens and is instructed by `instructions`: what is
    /// new since the earlier summary, or everything, when that is due and fits.
    #[must_use]
    pub fn new(
        messages: &[Message<'_>],
        exchanges: &[Exchange],
        due: &PendingSummary,
        options: &Options,
        instructions: &str,
        window: u64,
        encoding: Encoding,
    ) -> Self {
        let covered: Vec<Exchange> = exchanges
            .iter()
            .filter(|exchange| exchange.end <= due.covered)
            .copied()
            .collect();
        let written = |message: &&Message<'_>| message.role == Role::User && !is_synthetic(message);
        let task = messages
            .get(..due.covered)
            .and_then(|messages| messages.iter().position(|message| written(&message)));
        let parts_from = |from: usize| {
            let new: Vec<Exchange> = covered
                .iter()
                .filter(|exchange| exchange.first >= from && Some(exchange.first) != task)
                .copied()
                .collect();
            parts(messages, &new, options.result_limit, encoding)
        };
        let task_text = task
            .and_then(|at| messages.get(at))
            .map(|message| shortened(&said(message), TASK_CHARS));
        let beside = encoding.count(instructions)
            + task_text.as_deref().map_or(0, |text| encoding.count(text))
            + FRAME_TOKENS;
        let mut material = ChunkPlan {
            parts: Vec::new(),
            next: 0,
            turn: turn_of(messages, exchanges, due.covered),
            task: task_text,
            previous: None,
            source: source(messages.get(..due.covered).unwrap_or(messages)),
            incremental: false,
            generation: 1,
            encoding,
            beside,
            max_tokens: due.max_tokens,
        };
        if let Some((from, earlier)) = &due.earlier {
            if earlier.generation >= options.refresh_every.max(1) {
                let all = parts_from(0);
                if all.iter().map(|part| part.tokens).sum::<u64>() <= material.room(window) {
                    return ChunkPlan {
                        parts: all,
                        ..material
                    };
                }
            }
            material.parts = parts_from(*from);
            material.previous = Some(earlier.text.to_string());
            material.incremental = true;
            material.generation = earlier.generation.saturating_add(1);
        } else {
            material.parts = parts_from(0);
        }
        material
    }

    /// Tokens of transcript that a window of `window` tokens holds beside everything else.
    fn room(&self, window: u64) -> u64 {
        let previous = self
            .previous
            .as_deref()
            .map_or(0, |text| self.encoding.count(text));
        window.saturating_sub(scale(window, MARGIN) + self.max_tokens + self.beside + previous)
    }

    /// Whether the summary ends inside a turn.
    #[must_use]
    pub fn split(&self) -> bool {
        self.turn.is_some()
    }

    /// The next piece for a window of `window` tokens; `None` when that is too narrow for any. It is the next one until
    /// [`Material::taken`] says otherwise.
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

    /// The summary of everything up to and with the next `count` parts.
    pub fn taken(&mut self, count: usize, summary: String) {
        self.next += count;
        self.previous = Some(summary);
    }
}

/// Tokens of the tags and the closing words of a request.
const FRAME_TOKENS: u64 = 200;

/// A text of at most `room` tokens, given that it has `tokens`.
fn fitted(text: &str, tokens: u64, room: u64) -> String {
    if tokens <= room {
        return text.to_owned();
    }
    // Characters tell about tokens on the average; a tenth less makes up for where they do not.
    let chars = text.chars().count() as u64;
    shortened(
        text,
        usize::try_from(chars * room / tokens * 9 / 10).unwrap_or(0),
    )
}

/// The first message of the turn that the cut falls into.
fn turn_of(messages: &[Message<'_>], exchanges: &[Exchange], cut: usize) -> Option<usize> {
    let behind = exchanges
        .iter()
        .filter(|exchange| exchange.first >= cut)
        .find(|exchange| exchange.kind != Kind::Instruction)?;
    let inside = behind.kind != Kind::User;
    let start = exchanges
        .iter()
        .rev()
        .filter(|exchange| exchange.end <= cut && exchange.kind == Kind::User);
    inside.then(|| {
        start.map(|exchange| exchange.first).find(|at| {
            messages
                .get(*at)
                .is_some_and(|message| !is_synthetic(message))
        })
    })?
}

fn source(messages: &[Message<'_>]) -> String {
    let mut source = String::new();
    for message in messages {
        for text in crate::core::wire::chat::text_of(message) {
            source.push_str(&text);
            source.push('\n');
        }
        for call in &message.calls {
            source.push_str(&call.name);
            source.push('\n');
            let arguments = call
                .arguments
                .map(|raw| serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned()));
            source.push_str(&arguments.unwrap_or_default());
            source.push('\n');
        }
        source.push_str(message.function_call.unwrap_or_default());
        source.push_str(message.name.as_deref().unwrap_or_default());
        source.push('\n');
    }
    // Escapes of JSON inside texts would hide paths and quotes.
    source.to_lowercase().replace("\\/", "/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::core::conversation::Fingerprint;
    use crate::core::conversation::group;
    use crate::core::wire::chat::Chat;

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
                let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": "c", "content": text}));
            }
        }
        messages.push(json!({"role": "assistant", "content": "Behind the cut."}));
        json!({"messages": messages}).to_string()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn pieces_hold_every_exchange_once_in_order_and_fit(sizes in proptest::collection::vec(0..300_usize, 1..40), window in 400..3_000_u64) {
            let body = chat(&sizes);
            let chat = Chat::parse(body.as_bytes()).unwrap();
            let exchanges = group(&chat.messages).unwrap();
            let encoding = Encoding::O200K;
            let mut material = ChunkPlan::new(&chat.messages, &exchanges, &due(chat.messages.len() - 1), &options(), "Summarise.", window, encoding);
            prop_assert_eq!(material.task.as_deref(), Some("The task."));
            let (mut begun, mut pieces) = (0, 0);
            loop {
                let room = material.room(window);
                let Some((piece, count)) = material.piece(window) else {
                    prop_assert!(room < LEAST_ROOM);
                    return Ok(());
                };
                let text = [piece.conversation.as_str(), piece.turn.as_str()].concat();
                prop_assert!(encoding.count(&text) <= room + count as u64, "{} in {room}", encoding.count(&text));
                prop_assert!(count >= 1 && !text.contains("Behind the cut."));
                // Whole exchanges, each in its place.
                while text.contains(&format!("part {begun} begins")) || text.contains(&format!("part {begun} ends")) {
                    begun += 1;
                }
                prop_assert_eq!(text.matches("result of f").count(), text.matches("call f").count());
                pieces += 1;
                prop_assert!(pieces <= sizes.len());
                if piece.last {
                    break;
                }
                material.taken(count, format!("Summary {pieces}."));
            }
            prop_assert_eq!(begun, sizes.len(), "all of it was told");
        }
    }

    #[test]
    fn a_later_summary_starts_where_the_earlier_one_ended_or_anew_when_that_is_due_and_fits() {
        let body = chat(&[50; 12]);
        let chat = Chat::parse(body.as_bytes()).unwrap();
        let exchanges = group(&chat.messages).unwrap();
        let earlier = |generation| {
            let spent = super::super::Spent::default();
            let summary = super::super::Summary {
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
                "Summarise.",
                window,
                Encoding::O200K,
            )
        };
        let material = new(&earlier(3), 10_000);
        assert_eq!(
            (
                material.previous.as_deref(),
                material.incremental,
                material.generation
            ),
            (Some("Earlier."), true, 4)
        );
        assert!(
            !material
                .piece(10_000)
                .unwrap()
                .0
                .conversation
                .contains("part 0 begins")
        );
        let material = new(&earlier(4), 10_000);
        assert_eq!(
            (
                material.previous.as_deref(),
                material.incremental,
                material.generation
            ),
            (None, false, 1)
        );
        assert!(
            material
                .piece(10_000)
                .unwrap()
                .0
                .conversation
                .contains("part 0 begins")
        );
        let material = new(&earlier(4), 700);
        assert!(
            material.incremental,
            "what does not fit is extended once more"
        );
    }
}
