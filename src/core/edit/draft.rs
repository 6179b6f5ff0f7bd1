//! The list a strategy works on: the messages of one request point, what already became of them, and what may be
//! touched.

use super::measured::size_of;
use super::{Keep, MeasuredConversation, Pin, Target, Zone, last_user, size_of_edited, tokens_of};
use crate::core::wire::chat::text_of;
use std::sync::Arc;

use crate::core::conversation::Size;
use crate::core::conversation::{Exchange, Kind};
use crate::core::edit::is_synthetic;
use crate::core::edit::{Edit, Replacement};

/// A request's messages on the way to a smaller list.
#[derive(Debug)]
pub struct Draft<'a> {
    conversation: MeasuredConversation<'a>,
    edits: Vec<Edit>,
    standing: Vec<Zone>,
    size: Size,
}

impl<'a> Draft<'a> {
    /// Continues from `edits` (one per message). `keep` says what of the newest part stays, but that never takes more
    /// than a third of what the head leaves of the goal, its newest exchange aside.
    #[must_use]
    pub fn new(
        conversation: MeasuredConversation<'a>,
        edits: Vec<Edit>,
        pin: &Pin,
        keep: &Keep,
        goal: Target,
    ) -> Self {
        let size = size_of_edited(&conversation, &edits);
        let mut draft = Draft {
            conversation,
            edits,
            standing: vec![Zone::Span; conversation.exchanges.len()],
            size,
        };
        draft.assign(pin, keep, goal);
        draft
    }

    fn assign(&mut self, pin: &Pin, keep: &Keep, goal: Target) {
        let exchanges = self.conversation.exchanges;
        let first_user = exchanges
            .iter()
            .position(|exchange| exchange.kind == Kind::User);
        let last_user = last_user(self.conversation.messages);
        let mut standing: Vec<Zone> = exchanges
            .iter()
            .enumerate()
            .map(|(at, exchange)| {
                let message = self.conversation.messages.get(exchange.first);
                // The newest of all is what the request is about, whatever it looks like.
                let newest = exchange.end == self.conversation.messages.len();
                let synthetic = message.is_some_and(is_synthetic)
                    && Some(exchange.first) != last_user
                    && !newest;
                if synthetic || matches!(self.edit(exchange.first), Edit::Stand(_)) {
                    return Zone::Condensed;
                }
                let head = matches!(exchange.kind, Kind::Instruction | Kind::Other)
                    || Some(exchange.first) == last_user
                    || (pin.first_user && Some(at) == first_user)
                    || self.pinned(exchange, pin);
                if head { Zone::Head } else { Zone::Span }
            })
            .collect();

        // The tail gets a share of what the head leaves.
        let head: u64 = exchanges
            .iter()
            .zip(&standing)
            .filter(|(_, standing)| **standing == Zone::Head)
            .map(|(exchange, _)| self.tokens_in(exchange))
            .sum();
        let share = goal
            .target
            .saturating_sub(head + self.conversation.fixed_tokens)
            / 3;
        let (mut tokens, mut messages, mut turns, mut kept) = (0, 0, 0, 0);
        for (at, exchange) in exchanges.iter().enumerate().rev() {
            if self.is_gone(exchange) || exchange.kind == Kind::Instruction {
                continue;
            }
            if standing.get(at) == Some(&Zone::Condensed) {
                break;
            }
            // What is head was counted there.
            let own = if standing.get(at) == Some(&Zone::Head) {
                0
            } else {
                self.tokens_in(exchange)
            };
            let more = tokens + own;
            let more_messages = messages + (exchange.end - exchange.first) as u64;
            let wanted = more <= keep.tokens || turns < keep.turns || kept < keep.exchanges.max(1);
            let too_much =
                more > share || goal.messages.is_some_and(|limit| more_messages > limit / 2);
            if !wanted || (too_much && kept > 0) {
                break;
            }
            (tokens, messages, kept) = (more, more_messages, kept + 1);
            turns += u64::from(exchange.kind == Kind::User);
            if let Some(standing @ Zone::Span) = standing.get_mut(at) {
                *standing = Zone::Tail;
            }
        }
        self.standing = standing;
    }

    fn pinned(&self, exchange: &Exchange, pin: &Pin) -> bool {
        let messages = self
            .conversation
            .messages
            .get(exchange.first..exchange.end)
            .unwrap_or_default();
        let mut calls = messages.iter().flat_map(|m| &m.calls);
        calls.any(|call| pin.tools.is_match(call.name.as_ref()))
            || pin.text.as_ref().is_some_and(|pattern| {
                messages
                    .iter()
                    .any(|m| text_of(m).iter().any(|text| pattern.is_match(text)))
            })
    }

    /// The request this is a draft of.
    #[must_use]
    pub fn conversation(&self) -> &MeasuredConversation<'a> {
        &self.conversation
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
        self.conversation
            .measures
            .get(at)
            .map_or(0, |measure| tokens_of(measure, self.edit(at)))
    }

    /// Prompt tokens of an exchange as it stands now.
    #[must_use]
    pub fn tokens_in(&self, exchange: &Exchange) -> u64 {
        (exchange.first..exchange.end)
            .map(|at| self.tokens_at(at))
            .sum()
    }

    /// Whether an exchange was dropped.
    #[must_use]
    pub fn is_gone(&self, exchange: &Exchange) -> bool {
        *self.edit(exchange.first) == Edit::Drop
    }

    /// Prompt tokens of what no step may touch: head, tail, and what no message accounts for.
    #[must_use]
    pub fn untouchable(&self) -> u64 {
        let fixed = |standing| matches!(standing, Zone::Head | Zone::Tail);
        let messages = self
            .remaining()
            .filter(|(_, standing)| fixed(*standing))
            .map(|(exchange, _)| self.tokens_in(&exchange));
        self.conversation.fixed_tokens + messages.sum::<u64>()
    }

    /// The exchanges that are still there and have this standing, oldest first.
    #[must_use]
    pub fn standing(&self, wanted: Zone) -> Vec<Exchange> {
        self.conversation
            .exchanges
            .iter()
            .zip(&self.standing)
            .filter(|(exchange, standing)| **standing == wanted && !self.is_gone(exchange))
            .map(|(exchange, _)| *exchange)
            .collect()
    }

    /// All exchanges that are still there, oldest first, each with its standing.
    pub fn remaining(&self) -> impl DoubleEndedIterator<Item = (Exchange, Zone)> + '_ {
        self.conversation
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
            Edit::Keep => self
                .conversation
                .messages
                .get(at)
                .map_or("", |message| message.raw),
            Edit::Replace(new) => &new.json,
            Edit::Drop | Edit::Stand(_) => "",
        }
    }

    /// The raw JSON of all messages that are sent for message `at` now.
    #[must_use]
    pub fn raws(&self, at: usize) -> Vec<&str> {
        match self.edit(at) {
            Edit::Keep => self
                .conversation
                .messages
                .get(at)
                .map(|message| message.raw)
                .into_iter()
                .collect(),
            edit => edit.new_messages().iter().map(|new| &*new.json).collect(),
        }
    }

    /// The one place where an edit changes.
    fn set(&mut self, at: usize, edit: Edit) {
        if let (Some(measure), Some(slot)) =
            (self.conversation.measures.get(at), self.edits.get_mut(at))
        {
            self.size -= size_of(measure, slot);
            self.size += size_of(measure, &edit);
            // What stands for others is no longer what it was made from: no step takes it for an exchange of the span.
            if let Edit::Stand(_) = edit
                && let Ok(exchange) = self
                    .conversation
                    .exchanges
                    .binary_search_by_key(&at, |exchange| exchange.first)
                && let Some(standing) = self.standing.get_mut(exchange)
            {
                *standing = Zone::Condensed;
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
        self.set(
            at,
            if new.is_empty() {
                Edit::Drop
            } else {
                Edit::Stand(new.into())
            },
        );
    }

    /// Drops whole exchanges and lets `new` stand where the first of them was.
    pub fn condense(&mut self, exchanges: &[Exchange], new: Vec<Replacement>) {
        exchanges
            .iter()
            .for_each(|exchange| self.drop_exchange(exchange));
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
