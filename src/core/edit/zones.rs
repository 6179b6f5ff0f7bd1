//! The zones of a conversation: head, span and tail, and the exchanges that were condensed already.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::edits::Edit;
use super::measured::{MeasuredConversation, last_user};
use super::synthetic::is_synthetic;
use crate::core::conversation::{Entry, Exchange, Kind, Size};
use crate::core::text::{NamePatterns, TextPattern};

/// How much of the newest part of the conversation stays unchanged: the most that any of these keys
/// asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Exchanges up to this many tokens.
    pub tokens: u64,
    /// Turns.
    pub turns: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Messages, rounded up to whole exchanges.
    pub messages: u64,
}

/// Messages that stay unchanged wherever they stand.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pin {
    /// The first user message: most often the task.
    pub first_user: bool,
    /// Exchanges that call a tool with such a name; `*` and `?` are wild.
    pub tools: NamePatterns,
    /// Messages whose text matches this regular expression.
    pub text: Option<TextPattern>,
}

impl Default for Pin {
    fn default() -> Self {
        Pin {
            first_user: true,
            tools: NamePatterns::default(),
            text: None,
        }
    }
}

impl Pin {
    fn holds(&self, messages: &[Entry<'_>]) -> bool {
        let mut calls = messages.iter().flat_map(Entry::calls);
        let has_text = |pattern: &TextPattern| {
            let mut texts = messages.iter().flat_map(Entry::texts);
            texts.any(|text| pattern.is_match(&text))
        };
        calls.any(|call| self.tools.is_match(&call.name))
            || self.text.as_ref().is_some_and(has_text)
    }
}

/// The size that a compaction is to reach. Tokens are prompt tokens, as counted.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Low-water mark: steps run while the draft is over it.
    pub target: u64,
    /// The most that the prompt may take.
    pub prompt: u64,
    /// Low-water mark of messages, when their number was the trigger.
    pub messages: Option<u64>,
    /// Low-water mark of turns, when their number was the trigger.
    pub turns: Option<u64>,
    /// Low-water mark of calls of tools, when their number was the trigger.
    pub tool_uses: Option<u64>,
    /// Tokens that are set aside for fillers: not part of `target` and `prompt`.
    pub fillers: u64,
}

impl Target {
    /// So many prompt tokens, of at most `prompt`.
    #[must_use]
    pub fn of_tokens(target: u64, prompt: u64) -> Self {
        Target {
            target,
            prompt,
            messages: None,
            turns: None,
            tool_uses: None,
            fillers: 0,
        }
    }

    /// The same with so many tokens less, which fillers take afterwards.
    #[must_use]
    pub fn less_fillers(mut self, fillers: u64) -> Self {
        self.target = self.target.saturating_sub(fillers);
        self.prompt = self.prompt.saturating_sub(fillers);
        self.fillers += fillers;
        self
    }

    /// Whether a list of this size needs nothing further.
    #[must_use]
    pub fn met(&self, size: Size) -> bool {
        size.tokens <= self.target
            && self.messages.is_none_or(|limit| size.messages <= limit)
            && self.turns.is_none_or(|limit| size.turns <= limit)
            && self.tool_uses.is_none_or(|limit| size.tool_uses <= limit)
    }

    /// Whether a number was the trigger: of messages, turns or calls.
    #[must_use]
    pub fn is_by_count(&self) -> bool {
        self.messages.is_some() || self.turns.is_some() || self.tool_uses.is_some()
    }
}

/// The part of the conversation that an exchange belongs to, which decides whether it may be
/// touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Instructions, pinned exchanges, the last user message: stay in their places.
    Head,
    /// Between head and tail: may be edited or dropped.
    Span,
    /// The newest exchanges: stay as they are.
    Tail,
    /// Gone, with new messages in its place: only the strategy that wrote those takes them up
    /// again.
    Condensed,
}

/// The part of the target that the head leaves which the tail may take: one in so many.
const TAIL_SHARE: u64 = 3;

/// The zone of each exchange. `keep` asks for a tail, which never takes more than a third of the
/// target that the head leaves, its newest exchange aside.
pub(super) fn assign(
    conversation: &MeasuredConversation<'_>,
    edits: &[Edit],
    pin: &Pin,
    keep: &Keep,
    target: Target,
) -> Vec<Zone> {
    let mut zones = without_tail(conversation, edits, pin);
    let head: u64 = conversation
        .exchanges
        .iter()
        .zip(&zones)
        .filter(|(_, zone)| **zone == Zone::Head)
        .map(|(exchange, _)| conversation.tokens_in(exchange, edits))
        .sum();
    let share = target
        .target
        .saturating_sub(head + conversation.fixed_tokens)
        / TAIL_SHARE;
    let (mut tokens, mut messages, mut turns, mut kept, mut calls) = (0, 0, 0, 0, 0);
    for (exchange, zone) in conversation.exchanges.iter().zip(&mut zones).rev() {
        if edits.get(exchange.first) == Some(&Edit::Drop) || exchange.kind == Kind::Instruction {
            continue;
        }
        if *zone == Zone::Condensed {
            break;
        }
        // Tokens of the head were counted above.
        let own = if *zone == Zone::Head {
            0
        } else {
            conversation.tokens_in(exchange, edits)
        };
        let more = tokens + own;
        let more_messages = messages + (exchange.end - exchange.first) as u64;
        let measures = conversation.measures.get(exchange.first..exchange.end);
        let own_calls = measures.unwrap_or_default().iter();
        let more_calls = calls + own_calls.map(|m| u64::from(m.shape.calls)).sum::<u64>();
        let wanted = more <= keep.tokens
            || turns < keep.turns
            || kept < keep.exchanges.max(1)
            || messages < keep.messages;
        let too_much = more > share
            || target
                .messages
                .is_some_and(|limit| more_messages > limit / 2)
            || target.tool_uses.is_some_and(|limit| more_calls > limit / 2);
        if !wanted || (too_much && kept > 0) {
            break;
        }
        (tokens, messages, calls, kept) = (more, more_messages, more_calls, kept + 1);
        turns += u64::from(exchange.kind == Kind::User);
        if *zone == Zone::Span {
            *zone = Zone::Tail;
        }
    }
    zones
}

/// The zones before a tail is marked off.
fn without_tail(conversation: &MeasuredConversation<'_>, edits: &[Edit], pin: &Pin) -> Vec<Zone> {
    let MeasuredConversation {
        messages,
        exchanges,
        ..
    } = conversation;
    let first_user = exchanges
        .iter()
        .position(|exchange| exchange.kind == Kind::User);
    let last_user = last_user(messages);
    let zone_of = |(at, exchange): (usize, &Exchange)| {
        // The newest exchange of all is the subject of the request, whatever it looks like.
        let newest = exchange.end == messages.len();
        let synthetic = messages.get(exchange.first).is_some_and(is_synthetic)
            && Some(exchange.first) != last_user
            && !newest;
        if synthetic || matches!(edits.get(exchange.first), Some(Edit::Stand(_))) {
            return Zone::Condensed;
        }
        let head = exchange.kind.is_fixed()
            || Some(exchange.first) == last_user
            || (pin.first_user && Some(at) == first_user)
            || pin.holds(exchange.of(messages));
        if head { Zone::Head } else { Zone::Span }
    };
    exchanges.iter().enumerate().map(zone_of).collect()
}
