//! `sliding_window`: the newest turns, exchanges or messages stay, older ones of the span go.

use std::collections::HashSet;

use super::scope::Scope;
use crate::core::conversation::Kind;
use crate::core::edit::{Draft, Zone};

/// Its name.
pub(super) const NAME: &str = "sliding_window";

/// How much stays: the newest of the list, head and tail counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlidingWindow {
    /// This many user messages and what follows each.
    Turns(u64),
    /// This many exchanges.
    Exchanges(u64),
    /// This many messages, rounded up to whole exchanges.
    Messages(u64),
}

/// Instructions do not count: they stay and are not part of the conversation.
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
        let stays = match *options {
            SlidingWindow::Turns(limit) => turns < limit,
            SlidingWindow::Exchanges(limit) => exchanges < limit,
            SlidingWindow::Messages(limit) => messages < limit,
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
    0
}
