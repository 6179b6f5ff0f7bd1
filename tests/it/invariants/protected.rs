//! What no compaction may touch, by the words of the design and independent of the product's own
//! zones: the head, what is pinned, and the tail.

use baler::core::budget::Amount;
use baler::core::conversation::{Entry, Exchange, Kind, Size, Speaker, ratio, scale};
use baler::core::edit::Edit;
use baler::core::policy::{Policy, Reason};
use baler::core::tokens::Encoding;
use baler::core::wire::chat::Chat;

use super::DIALECT;

/// Why an exchange is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Instructions, the last user message, what is pinned, and roles that nobody knows.
    Head,
    /// The newest part that the policy keeps.
    Tail,
    /// A text that stands for older messages.
    Condensed,
    /// Anything else: free to go.
    Span,
}

/// The list before a compaction, and what the compaction was to reach.
pub struct Before<'a> {
    pub chat: &'a Chat<'a>,
    pub exchanges: &'a [Exchange],
    pub policy: &'a Policy,
    /// What earlier compactions did, one per message.
    pub edits: &'a [Edit],
    /// Prompt tokens that no message accounts for.
    pub fixed_tokens: u64,
    /// Low-water mark, prompt tokens.
    pub target: u64,
    /// Low-water mark of messages, where their number triggered.
    pub messages: Option<u64>,
    /// Low-water mark of calls, where their number triggered.
    pub tool_uses: Option<u64>,
    /// Whether the tail is measured in tokens too; it is not where a count triggered.
    pub by_tokens: bool,
}

impl<'a> Before<'a> {
    /// The list as `edits` left it, to be compacted for `reason`.
    pub fn of(
        chat: &'a Chat<'a>,
        exchanges: &'a [Exchange],
        policy: &'a Policy,
        edits: &'a [Edit],
        (target, room, fixed_tokens): (u64, u64, u64),
    ) -> Self {
        let mut before = Before {
            chat,
            exchanges,
            policy,
            edits,
            fixed_tokens,
            target,
            messages: None,
            tool_uses: None,
            by_tokens: true,
        };
        let size = before.size();
        let low = |limit: Option<u64>, count: u64| {
            let reached = limit.filter(|limit| count >= *limit);
            let share = match policy.target {
                Some(Amount::Ratio(_)) => ratio(target, room),
                _ => 0.625,
            };
            reached.map(|limit| scale(limit, share))
        };
        before.messages = low(policy.trigger.messages, size.messages);
        before.tool_uses = low(policy.trigger.tool_uses, size.tool_uses);
        before.by_tokens = before.messages.is_none()
            && before.tool_uses.is_none()
            && low(policy.trigger.turns, size.turns).is_none();
        before
    }

    /// The same with the target of a compaction that happened for `reason`.
    pub fn for_reason(mut self, reason: Reason) -> Self {
        let tokens = self.size().tokens;
        if reason == Reason::Condition && tokens <= self.target {
            self.target = tokens / 2;
        }
        self
    }

    fn size(&self) -> Size {
        let mut size = Size {
            tokens: self.fixed_tokens,
            ..Size::default()
        };
        for (at, edit) in self.edits.iter().enumerate() {
            let original = matches!(edit, Edit::Keep | Edit::Replace(_));
            let user = self.message(at).speaker == Speaker::User;
            size.tokens += self.tokens_at(at);
            size.messages += match edit {
                Edit::Keep => 1,
                edit => edit.new_messages().len() as u64,
            };
            size.turns += u64::from(original && user);
            if original {
                size.tool_uses += self.message(at).calls().count() as u64;
            }
        }
        size
    }

    fn message(&self, at: usize) -> &'a Entry<'a> {
        &self.chat.messages[at]
    }

    fn tokens_at(&self, at: usize) -> u64 {
        match &self.edits[at] {
            Edit::Keep => {
                DIALECT
                    .measure(self.message(at).raw, Encoding::O200K)
                    .unwrap()
                    .tokens
            }
            edit => edit.new_messages().iter().map(|new| new.tokens).sum(),
        }
    }

    fn tokens_in(&self, exchange: &Exchange) -> u64 {
        (exchange.first..exchange.end)
            .map(|at| self.tokens_at(at))
            .sum()
    }

    /// The place of every exchange.
    pub fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = (0..self.exchanges.len())
            .map(|at| self.place_of(at))
            .collect();
        let head: u64 = self
            .exchanges
            .iter()
            .zip(&places)
            .filter(|(_, place)| **place == Place::Head)
            .map(|(exchange, _)| self.tokens_in(exchange))
            .sum();
        // The tail gets a third of what the head leaves, its newest exchange aside.
        let share = self.target.saturating_sub(head + self.fixed_tokens) / 3;
        let keep = self.policy.keep;
        let most_tokens = if self.by_tokens { keep.tokens } else { 0 };
        let (mut tokens, mut messages, mut turns, mut kept, mut calls) = (0, 0, 0, 0, 0);
        for (at, exchange) in self.exchanges.iter().enumerate().rev() {
            let gone = self.edits[exchange.first] == Edit::Drop;
            if gone || exchange.kind == Kind::Instruction {
                continue;
            }
            if places[at] == Place::Condensed {
                break;
            }
            if places[at] != Place::Head {
                tokens += self.tokens_in(exchange);
            }
            let messages_before = messages;
            messages += (exchange.end - exchange.first) as u64;
            let of_exchange = exchange.first..exchange.end;
            calls += of_exchange
                .map(|at| self.message(at).calls().count() as u64)
                .sum::<u64>();
            let within = tokens <= most_tokens
                || turns < keep.turns
                || kept < keep.exchanges.max(1)
                || messages_before < keep.messages;
            let fits = tokens <= share
                && self.messages.is_none_or(|most| messages <= most / 2)
                && self.tool_uses.is_none_or(|most| calls <= most / 2);
            if !within || (kept > 0 && !fits) {
                break;
            }
            kept += 1;
            turns += u64::from(exchange.kind == Kind::User);
            if places[at] == Place::Span {
                places[at] = Place::Tail;
            }
        }
        places
    }

    fn place_of(&self, at: usize) -> Place {
        let exchange = &self.exchanges[at];
        let newest = exchange.end == self.chat.messages.len();
        let last_user = last_user(self.chat) == Some(exchange.first);
        let first_user = self
            .exchanges
            .iter()
            .position(|exchange| exchange.kind == Kind::User);
        let stands_in = matches!(self.edits[exchange.first], Edit::Stand(_));
        let synthetic = is_synthetic(self.message(exchange.first)) && !last_user && !newest;
        if stands_in || synthetic {
            Place::Condensed
        } else if last_user
            || matches!(
                exchange.kind,
                Kind::Instruction | Kind::Unanswered | Kind::Other
            )
            || self.policy.pin.first_user && first_user == Some(at)
            || pinned(self.chat, exchange, self.policy)
        {
            Place::Head
        } else {
            Place::Span
        }
    }
}

/// Whether a policy pins an exchange by the tool that it calls or by its text.
pub fn pinned(chat: &Chat<'_>, exchange: &Exchange, policy: &Policy) -> bool {
    let messages = &chat.messages[exchange.first..exchange.end];
    let tool = |name: &str| policy.pin.tools.is_match(name);
    let text = |text: &str| {
        let pattern = policy.pin.text.as_ref();
        pattern.is_some_and(|pattern| pattern.is_match(text))
    };
    let by_text = policy.pin.text.is_some();
    messages.iter().any(|message| {
        message.calls().any(|call| tool(&call.name))
            || by_text && message.texts().iter().any(|found| text(found))
    })
}

/// The last message that a user wrote; what stands for older messages is none, unless there is no
/// other.
pub fn last_user(chat: &Chat<'_>) -> Option<usize> {
    let users = || {
        let all = chat.messages.iter().enumerate().rev();
        all.filter(|(_, message)| message.speaker == Speaker::User)
    };
    let written = users().find(|(_, message)| !is_synthetic(message));
    written.or_else(|| users().next()).map(|(at, _)| at)
}

/// Whether Baler wrote a message, here or before it came back from a client.
pub fn is_synthetic(message: &Entry<'_>) -> bool {
    let text = message.texts().concat();
    let framed = ["digest", "transcript", "summary"].iter().any(|kind| {
        text.starts_with(&format!("<conversation_{kind}>\nOlder messages, condensed"))
            && text.ends_with(&format!("\n</conversation_{kind}>"))
    });
    match message.speaker {
        Speaker::User => framed || text == "[earlier messages were condensed]",
        Speaker::Assistant => text == "[earlier messages were condensed]",
        _ => false,
    }
}
