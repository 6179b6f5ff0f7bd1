//! `sliding_window`: the newest turns, exchanges or messages stay, older ones of the span go.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::beginning;
use super::need::Stopped;
use super::options::{OptionCheck, Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::Kind;
use crate::core::edit::{Draft, Zone};

/// Messages besides those of a window that usually stay: instructions, the task, the last user
/// message.
const BESIDES_WINDOW: u64 = 3;

/// The newest turns, exchanges or messages stay: one of the three; 20 messages when none is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlidingWindow {
    /// Turns that stay: this many user messages and the messages after each.
    pub turns: Option<u64>,
    /// Exchanges that stay.
    pub exchanges: Option<u64>,
    /// Messages that stay, rounded up to whole exchanges.
    pub messages: Option<u64>,
}

/// The part of the list that stays, head and tail counted.
#[derive(Debug, Clone, Copy)]
enum Newest {
    Turns(u64),
    Exchanges(u64),
    Messages(u64),
}

impl SlidingWindow {
    /// The part that stays; of several keys, which [`Options::check`] refuses, the first.
    fn newest(&self) -> Newest {
        match (self.turns, self.exchanges, self.messages) {
            (Some(turns), ..) => Newest::Turns(turns),
            (None, Some(exchanges), _) => Newest::Exchanges(exchanges),
            (None, None, messages) => Newest::Messages(messages.unwrap_or(20)),
        }
    }
}

impl Options for SlidingWindow {
    const NAME: &'static str = "sliding_window";
    const QUICK: bool = true;

    fn check(&self, check: &mut OptionCheck<'_>) {
        let given = [self.turns, self.exchanges, self.messages];
        if given.contains(&Some(0)) {
            check.fail("", "0 would keep nothing; at least 1");
        }
        if given.iter().flatten().count() > 1 {
            check.fail("", "takes one of turns, exchanges and messages");
        }
        let (unit, trigger, window, besides) = match self.newest() {
            Newest::Turns(turns) => ("turns", check.trigger.turns, turns, 1),
            Newest::Exchanges(newest) | Newest::Messages(newest) => {
                ("messages", check.trigger.messages, newest, BESIDES_WINDOW)
            }
        };
        if let Some(trigger) = trigger.filter(|trigger| *trigger <= window.saturating_add(besides))
        {
            check.fail(
                "",
                format!(
                    "the trigger at {trigger} {unit} leaves no room above a window of {window} \
                    and the messages that stay besides it: every request would be compacted again"
                ),
            );
        }
    }

    fn keeps_its_own(&self) -> bool {
        true
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        Ok(apply(self, run.scope, draft).into())
    }
}

/// Instructions do not count: they stay and are no part of the conversation.
pub(super) fn apply(options: &SlidingWindow, scope: &Scope, draft: &mut Draft<'_>) -> u64 {
    let span: HashSet<usize> = scope
        .span(draft)
        .iter()
        .map(|exchange| exchange.first)
        .collect();
    let (mut turns, mut exchanges, mut messages) = (0_u64, 0_u64, 0_u64);
    let mut old = Vec::new();
    for (exchange, zone) in draft.remaining().rev() {
        if exchange.kind == Kind::Instruction || zone == Zone::Condensed {
            continue;
        }
        let stays = match options.newest() {
            Newest::Turns(limit) => turns < limit,
            Newest::Exchanges(limit) => exchanges < limit,
            Newest::Messages(limit) => messages < limit,
        };
        if !stays && span.contains(&exchange.first) {
            old.push(exchange);
        }
        turns += u64::from(exchange.kind == Kind::User);
        exchanges += 1;
        messages += (exchange.end - exchange.first) as u64;
    }
    for exchange in &old {
        draft.drop_exchange(exchange);
    }
    if !old.is_empty() {
        beginning::mend(scope, draft);
    }
    0
}
