//! The beginning of a list from which old exchanges were dropped: it is no message of the model's,
//! unless the client's own list begins so. Many APIs and templates want a user's message first.

use super::scope::{Scope, is_among};
use crate::core::conversation::{Exchange, Kind};
use crate::core::edit::{Draft, Zone};

/// Answers without the question that they belong to go too, up to the next message of the user's,
/// where that costs less than half of what is left; else the question comes back, and is returned.
pub(super) fn mend(scope: &Scope, draft: &mut Draft<'_>) -> Option<Exchange> {
    let speaks = |exchange: &Exchange| exchange.kind != Kind::Instruction;
    let first = draft.conversation().exchanges.iter().find(|e| speaks(e));
    if first.is_none_or(is_answer) {
        return None;
    }
    let left: Vec<(Exchange, Zone)> = draft.remaining().filter(|(e, _)| speaks(e)).collect();
    let answers: Vec<Exchange> = left
        .iter()
        .map_while(|(exchange, zone)| {
            (*zone != Zone::Condensed && is_answer(exchange)).then_some(*exchange)
        })
        .collect();
    let oldest = answers.first()?;
    let span = scope.span(draft);
    let may_go = answers.iter().all(|exchange| is_among(&span, exchange));
    let messages = |exchanges: &mut dyn Iterator<Item = &Exchange>| -> usize {
        exchanges
            .map(|exchange| exchange.end - exchange.first)
            .sum()
    };
    let all = messages(&mut left.iter().map(|(exchange, _)| exchange));
    let question = draft
        .conversation()
        .exchanges
        .iter()
        .rev()
        .find(|exchange| {
            exchange.end <= oldest.first && exchange.kind == Kind::User && draft.is_gone(exchange)
        });
    let question = question.copied();
    let few = messages(&mut answers.iter()) * 2 < all;
    if may_go && few && answers.len() < left.len() {
        for exchange in &answers {
            draft.drop_exchange(exchange);
        }
        return None;
    }
    let question = question?;
    (question.first..question.end).for_each(|at| draft.restore(at));
    Some(question)
}

/// Whether an answer follows a question in what is left.
pub(super) fn is_answered(question: &Exchange, draft: &Draft<'_>) -> bool {
    let next = draft.remaining().find(|(e, _)| e.first > question.first);
    next.is_some_and(|(exchange, zone)| zone != Zone::Condensed && is_answer(&exchange))
}

/// Whether the model speaks first in an exchange.
fn is_answer(exchange: &Exchange) -> bool {
    matches!(
        exchange.kind,
        Kind::Assistant | Kind::Calls | Kind::Unanswered
    )
}
