//! `webhook`: the span goes to a service of the operator's; its answer takes the span's place when
//! it is valid and smaller. The core only asks and takes the answer; the shell posts the question
//! and waits.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::need::{Need, Stopped, WebhookAnswer, WebhookRequest};
use super::options::{OptionCheck, Options, Run};
use super::report::Done;
use super::scope::Scope;
use crate::core::conversation::{Content, Entry, Exchange, Kind, Speaker, group};
use crate::core::edit::{Draft, Replacement, Target, Zone};

/// The span goes to a service of the operator's, whose answer takes its place when it is valid.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// The address to which the span is posted: http or https.
    pub url: String,
    /// Time for the answer.
    #[serde(with = "crate::core::text::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// The longest answer, bytes.
    pub max_bytes: usize,
}

impl Default for Webhook {
    fn default() -> Self {
        Webhook {
            url: String::new(),
            timeout: Duration::from_secs(2),
            max_bytes: 1 << 20,
        }
    }
}

impl Options for Webhook {
    const NAME: &'static str = "webhook";
    const COUNTS: &'static [&'static str] = &["discarded"];

    fn check(&self, check: &mut OptionCheck<'_>) {
        if self.timeout.is_zero() {
            check.fail("timeout", "must be longer than nothing");
        }
        check.at_least("max_bytes", self.max_bytes as u64, 64);
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        let answers = run.external.answers;
        apply(run.webhook, run.scope, draft, run.target, answers)
    }
}

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
            let condensed = accepted(new, draft).is_some_and(|new| draft.condense(&span, new));
            let details = (!condensed).then_some(("discarded", 1));
            Ok(Done {
                replaced: 0,
                details: details.into_iter().collect(),
            })
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
    // The list behind the answer does not answer its calls.
    let is_answered = |exchange: &Exchange| exchange.kind != Kind::Unanswered;
    let is_chat = group(&entries).is_ok_and(|exchanges| exchanges.iter().all(is_answered));
    if entries.is_empty() || !entries.iter().all(fine) || !is_chat {
        return None;
    }
    new.iter()
        .map(|raw| Replacement::new(conversation.dialect, raw.clone(), conversation.encoding))
        .collect()
}
