//! `webhook`: the span goes to a service of the operator's; its answer takes the span's place when
//! it is valid and smaller. The core only asks and takes the answer; the shell posts the question
//! and waits.

use super::need::{Need, Stopped, WebhookAnswer, WebhookRequest};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{Content, Entry, Exchange, Speaker, group};
use crate::core::edit::{Draft, Replacement, Target, Zone};

/// Its name.
pub(super) const NAME: &str = "webhook";

pub(super) fn apply(
    webhook: usize,
    scope: &Scope,
    draft: &mut Draft<'_>,
    target: Target,
    answers: &[WebhookAnswer],
) -> Result<Done, Stopped> {
    let mut span = scope.span(draft);
    if span.is_empty() {
        return Ok(Done::default());
    }
    // Messages of an earlier answer are condensed further, together with the exchanges that have
    // aged since.
    let condensed = draft.in_zone(Zone::Condensed).into_iter();
    span.extend(condensed.filter(|exchange| !draft.is_ours(exchange.first)));
    span.sort_by_key(|exchange| exchange.first);
    let tokens = draft.tokens_of(&span);
    match answers.get(webhook).unwrap_or(&WebhookAnswer::Unavailable) {
        WebhookAnswer::Unasked => {
            let rest = draft.size().tokens - tokens;
            let request = WebhookRequest {
                webhook,
                messages: messages_of(draft, &span),
                target_tokens: target.target.saturating_sub(rest),
                tokens,
            };
            Err(Stopped::Asks(Box::new(Need::Webhook(request))))
        }
        WebhookAnswer::Messages(new) => {
            let new = accepted(new, draft)
                .filter(|new| new.iter().map(|new| new.tokens).sum::<u64>() < tokens);
            let Some(new) = new else {
                return Ok(Done {
                    replaced: 0,
                    details: vec![("discarded", 1)],
                });
            };
            draft.condense(&span, new);
            Ok(Done::default())
        }
        WebhookAnswer::Unavailable | WebhookAnswer::Failed => Ok(Done::default()),
    }
}

/// The JSON of all messages that are sent for `span` now.
fn messages_of(draft: &Draft<'_>, span: &[Exchange]) -> Vec<String> {
    span.iter()
        .flat_map(|exchange| exchange.first..exchange.end)
        .flat_map(|at| draft.raws(at))
        .map(str::to_owned)
        .collect()
}

/// The answer as messages, when they are a valid chat of their own without instructions.
fn accepted(new: &[String], draft: &Draft<'_>) -> Option<Vec<Replacement>> {
    let conversation = draft.conversation();
    let entries = new
        .iter()
        .map(|raw| conversation.dialect.entry(raw).ok())
        .collect::<Option<Vec<_>>>()?;
    let fine = |entry: &Entry<'_>| {
        (entry.content == Content::Present || entry.is_call())
            && !matches!(entry.speaker, Speaker::Instruction | Speaker::Other)
    };
    if entries.is_empty() || !entries.iter().all(fine) || group(&entries).is_err() {
        return None;
    }
    new.iter()
        .map(|raw| Replacement::new(conversation.dialect, raw.clone(), conversation.encoding))
        .collect()
}
