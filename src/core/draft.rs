//! The list a strategy works on: the messages of one request point, what already became of them, and what may be
//! touched.

use std::sync::Arc;

use globset::GlobSet;
use regex::Regex;

use super::chat::{Exchange, Kind, Message, Role, string};
use super::digest::Digest;
use super::models::Family;
use super::plan::{Edit, Replacement};
use super::size::Size;
use super::strategy::is_synthetic;
use super::tokens::{Encoding, Measure};

/// How much of the newest part of the conversation stays as it is: whatever any of these asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Exchanges up to this many tokens.
    pub tokens: u64,
    /// Turns.
    pub turns: u64,
    /// Exchanges.
    pub exchanges: u64,
}

/// What stays wherever it stands.
#[derive(Debug, Clone, Default)]
pub struct Pin {
    /// The first user message: the task.
    pub first_user: bool,
    /// Exchanges that call a tool so named.
    pub tools: Option<GlobSet>,
    /// Messages whose text matches.
    pub text: Option<Regex>,
}

/// Where a compaction is to end. Tokens are prompt tokens, as counted.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Low-water mark: steps run while the draft is over it.
    pub target: u64,
    /// What the prompt may take at most.
    pub room: u64,
    /// Low-water mark of messages, when their number was the trigger.
    pub messages: Option<u64>,
    /// Low-water mark of turns, when their number was the trigger.
    pub turns: Option<u64>,
}

impl Goal {
    /// Whether a list of this size needs nothing further.
    #[must_use]
    pub fn met(&self, size: Size) -> bool {
        size.tokens <= self.target
            && self.messages.is_none_or(|limit| size.messages <= limit)
            && self.turns.is_none_or(|limit| size.turns <= limit)
    }
}

/// Whether an exchange may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Instructions, pinned exchanges, the last user message: stay where they are.
    Head,
    /// Between head and tail: may be edited or dropped.
    Span,
    /// The newest exchanges: stay as they are.
    Tail,
    /// Gone, with new messages in its place: only what made those takes them up again.
    Condensed,
}

/// What every step of thinking needs to know of a request.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The messages.
    pub messages: &'a [Message<'a>],
    /// One measure per message.
    pub measures: &'a [Measure],
    /// The exchanges that the messages form.
    pub exchanges: &'a [Exchange],
    /// Prompt tokens beside the messages.
    pub fixed_tokens: u64,
    /// How tokens are counted.
    pub encoding: Encoding,
    /// What the model's family wants.
    pub family: Family,
}

impl<'a> Subject<'a> {
    /// The same request when it was `length` messages long. `length` must be a boundary between exchanges.
    #[must_use]
    pub fn prefix(&self, length: usize) -> Subject<'a> {
        let exchanges = self.exchanges.partition_point(|exchange| exchange.end <= length);
        Subject {
            messages: self.messages.get(..length).unwrap_or(self.messages),
            measures: self.measures.get(..length).unwrap_or(self.measures),
            exchanges: self.exchanges.get(..exchanges).unwrap_or(self.exchanges),
            ..*self
        }
    }
}

/// Prompt tokens of what is sent for an original message.
#[must_use]
pub fn tokens_of(measure: &Measure, edit: &Edit) -> u64 {
    match edit {
        Edit::Keep => measure.tokens,
        edit => edit.new_messages().iter().map(|new| new.tokens).sum(),
    }
}

/// The size of what is sent for an original message. New messages are no turns: nobody said them.
fn size_of(measure: &Measure, edit: &Edit) -> Size {
    let original = matches!(edit, Edit::Keep | Edit::Replace(_));
    Size {
        tokens: tokens_of(measure, edit),
        messages: if *edit == Edit::Keep { 1 } else { edit.new_messages().len() as u64 },
        turns: u64::from(original && measure.role == Role::User),
    }
}

/// The size of what `edits` leave of a request.
#[must_use]
pub fn size_of_edited(subject: &Subject<'_>, edits: &[Edit]) -> Size {
    let mut size = Size { tokens: subject.fixed_tokens, ..Size::default() };
    for (measure, edit) in subject.measures.iter().zip(edits) {
        size += size_of(measure, edit);
    }
    size
}

/// A request's messages on the way to a smaller list.
#[derive(Debug)]
pub struct Draft<'a> {
    subject: Subject<'a>,
    edits: Vec<Edit>,
    standing: Vec<Standing>,
    size: Size,
}

impl<'a> Draft<'a> {
    /// Continues from `edits` (one per message). `keep` says what of the newest part stays, but that never takes more
    /// than a third of what the head leaves of the goal, its newest exchange aside.
    #[must_use]
    pub fn new(subject: Subject<'a>, edits: Vec<Edit>, pin: &Pin, keep: &Keep, goal: Goal) -> Self {
        let size = size_of_edited(&subject, &edits);
        let mut draft = Draft { subject, edits, standing: vec![Standing::Span; subject.exchanges.len()], size };
        draft.assign(pin, keep, goal);
        draft
    }

    fn assign(&mut self, pin: &Pin, keep: &Keep, goal: Goal) {
        let exchanges = self.subject.exchanges;
        let first_user = exchanges.iter().position(|exchange| exchange.kind == Kind::User);
        let last_user = last_user(self.subject.messages);
        let mut standing: Vec<Standing> = exchanges
            .iter()
            .enumerate()
            .map(|(at, exchange)| {
                let message = self.subject.messages.get(exchange.first);
                // The newest of all is what the request is about, whatever it looks like.
                let newest = exchange.end == self.subject.messages.len();
                let synthetic = message.is_some_and(is_synthetic) && Some(exchange.first) != last_user && !newest;
                if synthetic || matches!(self.edit(exchange.first), Edit::Stand(_)) {
                    return Standing::Condensed;
                }
                let head = matches!(exchange.kind, Kind::Instruction | Kind::Other)
                    || Some(exchange.first) == last_user
                    || (pin.first_user && Some(at) == first_user)
                    || self.pinned(exchange, pin);
                if head { Standing::Head } else { Standing::Span }
            })
            .collect();

        // The tail gets a share of what the head leaves.
        let head: u64 = exchanges
            .iter()
            .zip(&standing)
            .filter(|(_, standing)| **standing == Standing::Head)
            .map(|(exchange, _)| self.tokens_in(exchange))
            .sum();
        let share = goal.target.saturating_sub(head + self.subject.fixed_tokens) / 3;
        let (mut tokens, mut messages, mut turns, mut kept) = (0, 0, 0, 0);
        for (at, exchange) in exchanges.iter().enumerate().rev() {
            if self.is_gone(exchange) || exchange.kind == Kind::Instruction {
                continue;
            }
            if standing.get(at) == Some(&Standing::Condensed) {
                break;
            }
            // What is head was counted there.
            let own = if standing.get(at) == Some(&Standing::Head) { 0 } else { self.tokens_in(exchange) };
            let more = tokens + own;
            let more_messages = messages + (exchange.end - exchange.first) as u64;
            let wanted = more <= keep.tokens || turns < keep.turns || kept < keep.exchanges.max(1);
            let too_much = more > share || goal.messages.is_some_and(|limit| more_messages > limit / 2);
            if !wanted || (too_much && kept > 0) {
                break;
            }
            (tokens, messages, kept) = (more, more_messages, kept + 1);
            turns += u64::from(exchange.kind == Kind::User);
            if let Some(standing @ Standing::Span) = standing.get_mut(at) {
                *standing = Standing::Tail;
            }
        }
        self.standing = standing;
    }

    fn pinned(&self, exchange: &Exchange, pin: &Pin) -> bool {
        let messages = self.subject.messages.get(exchange.first..exchange.end).unwrap_or_default();
        pin.tools.as_ref().is_some_and(|globs| messages.iter().flat_map(|m| &m.calls).any(|call| globs.is_match(call.name.as_ref())))
            || pin.text.as_ref().is_some_and(|pattern| messages.iter().any(|m| text_of(m).iter().any(|text| pattern.is_match(text))))
    }

    /// The request this is a draft of.
    #[must_use]
    pub fn subject(&self) -> &Subject<'a> {
        &self.subject
    }

    /// Its present size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// What became of each message so far.
    #[must_use]
    pub fn into_edits(self) -> Vec<Edit> {
        self.edits
    }

    /// What became of message `at` so far.
    #[must_use]
    pub fn edit(&self, at: usize) -> &Edit {
        self.edits.get(at).unwrap_or(&Edit::Keep)
    }

    /// Prompt tokens of message `at` as it stands now.
    #[must_use]
    pub fn tokens_at(&self, at: usize) -> u64 {
        self.subject.measures.get(at).map_or(0, |measure| tokens_of(measure, self.edit(at)))
    }

    /// Prompt tokens of an exchange as it stands now.
    #[must_use]
    pub fn tokens_in(&self, exchange: &Exchange) -> u64 {
        (exchange.first..exchange.end).map(|at| self.tokens_at(at)).sum()
    }

    /// Whether an exchange was dropped.
    #[must_use]
    pub fn is_gone(&self, exchange: &Exchange) -> bool {
        *self.edit(exchange.first) == Edit::Drop
    }

    /// Prompt tokens of what no step may touch: head, tail, and what no message accounts for.
    #[must_use]
    pub fn untouchable(&self) -> u64 {
        let fixed = |standing| matches!(standing, Standing::Head | Standing::Tail);
        let messages = self.remaining().filter(|(_, standing)| fixed(*standing)).map(|(exchange, _)| self.tokens_in(&exchange));
        self.subject.fixed_tokens + messages.sum::<u64>()
    }

    /// The exchanges that are still there and have this standing, oldest first.
    #[must_use]
    pub fn standing(&self, wanted: Standing) -> Vec<Exchange> {
        self.subject
            .exchanges
            .iter()
            .zip(&self.standing)
            .filter(|(exchange, standing)| **standing == wanted && !self.is_gone(exchange))
            .map(|(exchange, _)| *exchange)
            .collect()
    }

    /// All exchanges that are still there, oldest first, each with its standing.
    pub fn remaining(&self) -> impl DoubleEndedIterator<Item = (Exchange, Standing)> + '_ {
        self.subject
            .exchanges
            .iter()
            .zip(&self.standing)
            .filter(|(exchange, _)| !self.is_gone(exchange))
            .map(|(exchange, standing)| (*exchange, *standing))
    }

    /// The raw JSON of message `at` as it stands now; empty when it was dropped.
    #[must_use]
    pub fn raw(&self, at: usize) -> &str {
        match self.edit(at) {
            Edit::Keep => self.subject.messages.get(at).map_or("", |message| message.raw),
            Edit::Replace(new) => &new.json,
            Edit::Drop | Edit::Stand(_) => "",
        }
    }

    /// The raw JSON of all messages that are sent for message `at` now.
    #[must_use]
    pub fn raws(&self, at: usize) -> Vec<&str> {
        match self.edit(at) {
            Edit::Keep => self.subject.messages.get(at).map(|message| message.raw).into_iter().collect(),
            edit => edit.new_messages().iter().map(|new| &*new.json).collect(),
        }
    }

    /// The one place where an edit changes.
    fn set(&mut self, at: usize, edit: Edit) {
        if let (Some(measure), Some(slot)) = (self.subject.measures.get(at), self.edits.get_mut(at)) {
            self.size -= size_of(measure, slot);
            self.size += size_of(measure, &edit);
            // What stands for others is no longer what it was made from: no step takes it for an exchange of the span.
            if let Edit::Stand(_) = edit
                && let Ok(exchange) = self.subject.exchanges.binary_search_by_key(&at, |exchange| exchange.first)
                && let Some(standing) = self.standing.get_mut(exchange)
            {
                *standing = Standing::Condensed;
            }
            *slot = edit;
        }
    }

    /// Drops a whole exchange.
    pub fn drop_exchange(&mut self, exchange: &Exchange) {
        (exchange.first..exchange.end).for_each(|at| self.set(at, Edit::Drop));
    }

    /// Lets `new` stand where a dropped message was; without any, it stays dropped.
    pub fn stand(&mut self, at: usize, new: Vec<Replacement>) {
        self.set(at, if new.is_empty() { Edit::Drop } else { Edit::Stand(new.into()) });
    }

    /// Drops whole exchanges and lets `new` stand where the first of them was.
    pub fn condense(&mut self, exchanges: &[Exchange], new: Vec<Replacement>) {
        exchanges.iter().for_each(|exchange| self.drop_exchange(exchange));
        if let Some(first) = exchanges.first() {
            self.set(first.first, Edit::Stand(new.into()));
        }
    }

    /// Puts `new` in the place of message `at`, if that saves tokens. Says whether it did.
    pub fn replace(&mut self, at: usize, new: Replacement) -> bool {
        let before = self.tokens_at(at);
        if new.tokens >= before {
            return false;
        }
        self.set(at, Edit::Replace(Arc::new(new)));
        true
    }
}

/// The last message that a user wrote. What Baler wrote in a user's name is none, unless there is no other: so it is the
/// same message for as long as the user writes no new one.
#[must_use]
pub fn last_user(messages: &[Message<'_>]) -> Option<usize> {
    let of_user = || messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User);
    let written = of_user().find(|(_, message)| !is_synthetic(message));
    written.or_else(|| of_user().next()).map(|(at, _)| at)
}

/// Digests of the messages that are sent for an original one.
pub fn digests_of<'e>(measure: &'e Measure, edit: &'e Edit) -> impl Iterator<Item = &'e Digest> {
    let kept = (*edit == Edit::Keep).then_some(&measure.digest);
    kept.into_iter().chain(edit.new_messages().iter().map(|new| &new.digest))
}

/// The texts of a message's content: the string, or its text parts.
#[must_use]
pub fn text_of<'a>(message: &Message<'a>) -> Vec<std::borrow::Cow<'a, str>> {
    use serde_json::value::RawValue;
    #[derive(serde::Deserialize)]
    struct Part<'p> {
        #[serde(borrow)]
        text: Option<&'p RawValue>,
    }
    let Some(raw) = message.content else { return Vec::new() };
    if raw.starts_with('[') {
        let parts: Vec<&'a RawValue> = serde_json::from_str(raw).unwrap_or_default();
        parts.into_iter().filter_map(|part| serde_json::from_str::<Part<'a>>(part.get()).ok()?.text.and_then(string)).collect()
    } else {
        serde_json::from_str::<&'a RawValue>(raw).ok().and_then(string).into_iter().collect()
    }
}
