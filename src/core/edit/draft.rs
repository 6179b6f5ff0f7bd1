//! The list that a strategy works on: the messages of one request point, the edits made to them so
//! far, and their zones.
//!
//! Strategies read entries here; `by_meaning` has the edits that they make.

use std::borrow::Cow;
use std::sync::Arc;

use super::edits::{Edit, Replacement};
use super::measured::{MeasuredConversation, size_of, tokens_of, unused_of};
use super::synthetic::{FILLER, Tag, is_synthetic};
use super::zones::{Keep, Pin, Target, Zone, assign};
use crate::core::conversation::{Author, BlockId, Entry, Exchange, Size};

/// A request's messages on the way to a smaller list.
#[derive(Debug)]
pub struct Draft<'a> {
    conversation: MeasuredConversation<'a>,
    edits: Vec<Edit>,
    zones: Vec<Zone>,
    /// The zones for steps that say themselves what they keep, where those differ.
    zones_of_own: Option<Vec<Zone>>,
    /// Whether the step that runs says itself what it keeps.
    keeps_its_own: bool,
    size: Size,
    /// Whether a step put a message there that is still to be written.
    left_unwritten: bool,
    /// The first message of all that steps condensed.
    condensed_from: Option<usize>,
}

impl<'a> Draft<'a> {
    /// Continues from `edits` (one per message). `keep` asks for a part of the newest messages to
    /// stay, which never takes more than a third of the target that the head leaves, its newest
    /// exchange aside.
    #[must_use]
    pub fn new(
        conversation: MeasuredConversation<'a>,
        edits: Vec<Edit>,
        pin: &Pin,
        keep: &Keep,
        target: Target,
    ) -> Self {
        Draft {
            size: conversation.size_after(&edits),
            zones: assign(&conversation, &edits, pin, keep, target),
            zones_of_own: None,
            keeps_its_own: false,
            left_unwritten: false,
            condensed_from: None,
            conversation,
            edits,
        }
    }

    /// Steps that say themselves what they keep may reach into the tail, up to `least`: what the
    /// policy keeps at any rate.
    #[must_use]
    pub fn with_least(mut self, pin: &Pin, least: &Keep, target: Target) -> Self {
        self.zones_of_own = Some(assign(&self.conversation, &self.edits, pin, least, target));
        self
    }

    /// Begins a step, which says itself what it keeps or does not.
    pub fn begin_step(&mut self, keeps_its_own: bool) {
        self.keeps_its_own = keeps_its_own;
    }

    fn zones(&self) -> &[Zone] {
        match &self.zones_of_own {
            Some(zones) if self.keeps_its_own => zones,
            _ => &self.zones,
        }
    }

    /// The request that this is a draft of.
    #[must_use]
    pub fn conversation(&self) -> &MeasuredConversation<'a> {
        &self.conversation
    }

    /// Its present size, as decisions take it.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Its present size, as it would be sent.
    #[must_use]
    pub fn sent_size(&self) -> Size {
        let unused: u64 = self.edits.iter().map(unused_of).sum();
        Size {
            tokens: self.size.tokens.saturating_sub(unused),
            ..self.size
        }
    }

    /// Whether a step put a message there that is still to be written.
    #[must_use]
    pub fn left_unwritten(&self) -> bool {
        self.left_unwritten
    }

    /// The first message of all that steps condensed.
    #[must_use]
    pub fn condensed_from(&self) -> Option<usize> {
        self.condensed_from
    }

    /// The edits, one per message.
    #[must_use]
    pub fn into_edits(self) -> Vec<Edit> {
        self.edits
    }

    /// The edit of message `at`.
    #[must_use]
    pub fn edit(&self, at: usize) -> &Edit {
        self.edits.get(at).unwrap_or(&Edit::Keep)
    }

    /// Prompt tokens of message `at` as it is now.
    #[must_use]
    pub fn tokens_at(&self, at: usize) -> u64 {
        self.conversation
            .measures
            .get(at)
            .map_or(0, |measure| tokens_of(measure, self.edit(at)))
    }

    /// Prompt tokens of an exchange as it is now.
    #[must_use]
    pub fn tokens_in(&self, exchange: &Exchange) -> u64 {
        self.conversation.tokens_in(exchange, &self.edits)
    }

    /// Prompt tokens of exchanges as they are now.
    #[must_use]
    pub fn tokens_of<'e>(&self, exchanges: impl IntoIterator<Item = &'e Exchange>) -> u64 {
        exchanges
            .into_iter()
            .map(|exchange| self.tokens_in(exchange))
            .sum()
    }

    /// Whether an exchange was dropped.
    #[must_use]
    pub fn is_gone(&self, exchange: &Exchange) -> bool {
        *self.edit(exchange.first) == Edit::Drop
    }

    /// Prompt tokens that no step may touch: head, tail, and the parts besides the messages.
    #[must_use]
    pub fn untouchable(&self) -> u64 {
        let messages = self
            .remaining()
            .filter(|(_, zone)| matches!(zone, Zone::Head | Zone::Tail))
            .map(|(exchange, _)| self.tokens_in(&exchange));
        self.conversation.fixed_tokens + messages.sum::<u64>()
    }

    /// The exchanges of a zone that are still there, oldest first.
    #[must_use]
    pub fn in_zone(&self, wanted: Zone) -> Vec<Exchange> {
        self.remaining()
            .filter(|(_, zone)| *zone == wanted)
            .map(|(exchange, _)| exchange)
            .collect()
    }

    /// All exchanges that are still there, oldest first, each with its zone.
    pub fn remaining(&self) -> impl DoubleEndedIterator<Item = (Exchange, Zone)> + '_ {
        self.conversation
            .exchanges
            .iter()
            .zip(self.zones())
            .filter(|(exchange, _)| !self.is_gone(exchange))
            .map(|(exchange, zone)| (*exchange, *zone))
    }

    /// The JSON of all messages that are sent for message `at` now.
    #[must_use]
    pub fn raws(&self, at: usize) -> Vec<&str> {
        match self.edit(at) {
            Edit::Keep => {
                let original = self.conversation.messages.get(at);
                original.map(|entry| entry.raw).into_iter().collect()
            }
            edit => edit.new_messages().iter().map(|new| &*new.json).collect(),
        }
    }
}

/// Reading entries as they are now.
impl Draft<'_> {
    /// The view of message `at` as it is now; `None` when it is gone, or others stand in its place.
    #[must_use]
    pub fn entry(&self, at: usize) -> Option<Cow<'_, Entry<'_>>> {
        match self.edit(at) {
            Edit::Keep => self.conversation.messages.get(at).map(Cow::Borrowed),
            Edit::Replace(new) => self.read(&new.json),
            Edit::Drop | Edit::Stand(_) => None,
        }
    }

    /// The views of all messages that are sent for message `at` now.
    #[must_use]
    pub fn entries(&self, at: usize) -> Vec<Cow<'_, Entry<'_>>> {
        match self.edit(at) {
            Edit::Stand(new) => new.iter().filter_map(|new| self.read(&new.json)).collect(),
            _ => self.entry(at).into_iter().collect(),
        }
    }

    /// The tool results of exchanges, in order, each with its exchange.
    #[must_use]
    pub fn results(
        &self,
        exchanges: impl IntoIterator<Item = Exchange>,
    ) -> Vec<(Exchange, BlockId)> {
        let messages = self.conversation.messages;
        exchanges
            .into_iter()
            .flat_map(|exchange| {
                let results = exchange.results(messages);
                results.map(move |(id, _)| (exchange, id))
            })
            .collect()
    }

    /// The text of a result as it is now, a line break between its parts.
    #[must_use]
    pub fn text_of(&self, result: BlockId) -> Option<String> {
        let entry = self.entry(result.at())?;
        let texts: Vec<_> = entry.result(result.block)?.decoded().collect();
        Some(texts.join("\n"))
    }

    fn read<'d>(&self, json: &'d str) -> Option<Cow<'d, Entry<'d>>> {
        self.conversation.dialect.entry(json).ok().map(Cow::Owned)
    }

    /// The body of a message with this tag that is sent for message `at` now.
    pub(in crate::core) fn body_of(&self, tag: Tag, at: usize) -> Option<String> {
        self.entries(at).iter().find_map(|entry| tag.body_of(entry))
    }

    /// Whether a message that Baler wrote is sent for message `at` now. Only the strategy that
    /// wrote it takes it up again.
    pub(in crate::core) fn is_ours(&self, at: usize) -> bool {
        self.entries(at).iter().any(|entry| is_synthetic(entry))
    }
}

/// Edits.
impl Draft<'_> {
    /// Puts `new` in the place of message `at`, if there is one and it saves tokens. Reports
    /// whether it did.
    pub fn replace(&mut self, at: usize, new: Option<Replacement>) -> bool {
        let Some(new) = new.filter(|new| new.tokens < self.tokens_at(at)) else {
            return false;
        };
        self.set(at, Edit::Replace(Arc::new(new)));
        true
    }

    /// Drops a whole exchange.
    pub fn drop_exchange(&mut self, exchange: &Exchange) {
        (exchange.first..exchange.end).for_each(|at| self.set(at, Edit::Drop));
    }

    /// Brings a message back as the client sent it.
    pub fn restore(&mut self, at: usize) {
        self.set(at, Edit::Keep);
    }

    /// Puts `new` where a dropped message was; without any, it stays dropped.
    pub fn stand(&mut self, at: usize, new: Vec<Replacement>) {
        let edit = if new.is_empty() {
            Edit::Drop
        } else {
            Edit::Stand(new.into())
        };
        self.set(at, edit);
    }

    /// Drops whole exchanges and puts `new` where the first of them was, if that saves tokens, and
    /// reports whether it did. Where roles must alternate, a filler may have to stand before and
    /// after `new`; both are counted, lest they take what was saved.
    pub fn condense(&mut self, exchanges: &[Exchange], new: Vec<Replacement>) -> bool {
        if !self.is_less(new.iter().map(|new| new.tokens).sum(), exchanges) {
            return false;
        }
        for exchange in exchanges {
            self.drop_exchange(exchange);
        }
        self.left_unwritten |= new.iter().any(Replacement::is_unwritten);
        if let Some(first) = exchanges.first() {
            let from = self.condensed_from.unwrap_or(first.first);
            self.condensed_from = Some(from.min(first.first));
            self.set(first.first, Edit::Stand(new.into()));
        }
        true
    }

    /// Whether new messages of so many tokens save any in the place of `exchanges`.
    pub fn is_less(&self, tokens: u64, exchanges: &[Exchange]) -> bool {
        tokens + self.tokens_of_fillers() < self.tokens_of(exchanges)
    }

    /// Tokens of the fillers that new messages may need around them.
    fn tokens_of_fillers(&self) -> u64 {
        if !self.conversation.family.alternates {
            return 0;
        }
        let filler = self.written(Author::Assistant, FILLER);
        filler.map_or(0, |filler| 2 * filler.tokens)
    }

    /// The one place where an edit changes.
    fn set(&mut self, at: usize, edit: Edit) {
        let exchanges = self.conversation.exchanges;
        if let (Some(measure), Some(slot)) =
            (self.conversation.measures.get(at), self.edits.get_mut(at))
        {
            self.size -= size_of(measure, slot);
            self.size += size_of(measure, &edit);
            // Messages that stand for others are no longer those that the zone was assigned by: no
            // step may take them for an exchange of the span.
            if let Edit::Stand(_) = edit
                && let Ok(exchange) = exchanges.binary_search_by_key(&at, |exchange| exchange.first)
            {
                let zones = [Some(&mut self.zones), self.zones_of_own.as_mut()];
                for zone in zones.into_iter().flatten() {
                    if let Some(zone) = zone.get_mut(exchange) {
                        *zone = Zone::Condensed;
                    }
                }
            }
            *slot = edit;
        }
    }
}
