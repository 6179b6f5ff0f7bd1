//! `webhook`: the span goes to a service of the operator's; its answer takes the span's place when
//! it is valid and smaller. The core only asks and takes the answer; the shell posts and waits.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::conversation::{Role, group};
use crate::core::edit::Replacement;
use crate::core::edit::is_ours;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::strategy::options::{OptionCheck, Options, Run};
use crate::core::strategy::scope::Scope;
use crate::core::strategy::{Done, Need, Stopped};
use crate::core::wire::chat::Message;

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

/// A question to a webhook.
#[derive(Debug)]
pub struct WebhookRequest {
    /// The number of the webhook among those of the ladder, from 0.
    pub webhook: usize,
    /// The messages as they stand now, raw JSON.
    pub messages: Vec<String>,
    /// Prompt tokens that they may take.
    pub target_tokens: u64,
    /// Prompt tokens that they take now.
    pub tokens: u64,
}

/// The answer of a webhook, as far as it is known.
#[derive(Debug, Clone, Default)]
pub enum WebhookAnswer {
    /// Nobody was asked, and nobody can be: the step is passed over.
    #[default]
    Unavailable,
    /// Nobody was asked yet.
    Unasked,
    /// There is no answer, or none that can be used.
    Failed,
    /// The messages that are to stand for the span, raw JSON.
    Messages(Vec<String>),
}

pub(super) fn apply(
    webhook: usize,
    scope: &Scope,
    draft: &mut Draft<'_>,
    goal: Target,
    answers: &[WebhookAnswer],
) -> Result<Done, Stopped> {
    let mut span = scope.span(draft);
    if span.is_empty() {
        return Ok(Done::default());
    }
    // What an earlier answer stands for is condensed further together with what has aged since.
    span.extend(
        draft
            .standing(Zone::Condensed)
            .into_iter()
            .filter(|exchange| !is_ours(draft, exchange.first)),
    );
    span.sort_by_key(|exchange| exchange.first);
    let tokens: u64 = span.iter().map(|exchange| draft.tokens_in(exchange)).sum();
    let target_tokens = goal.target.saturating_sub(draft.size().tokens - tokens);
    match answers.get(webhook).unwrap_or(&WebhookAnswer::Unavailable) {
        WebhookAnswer::Unasked => {
            let all = span
                .iter()
                .flat_map(|exchange| exchange.first..exchange.end);
            let messages = all
                .flat_map(|at| draft.raws(at))
                .map(str::to_owned)
                .collect();
            Err(Stopped::Asks(Box::new(Need::Webhook(WebhookRequest {
                webhook,
                messages,
                target_tokens,
                tokens,
            }))))
        }
        WebhookAnswer::Messages(new) => {
            let new = taken(new, draft)
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

/// The answer as messages, when they are a valid chat of their own without instructions.
fn taken(new: &[String], draft: &Draft<'_>) -> Option<Vec<Replacement>> {
    let messages = new
        .iter()
        .map(|raw| Message::parse(raw).ok())
        .collect::<Option<Vec<_>>>()?;
    let fine = |message: &Message<'_>| {
        let says = message
            .content
            .is_some_and(|content| !matches!(content, r#""""# | "[]"))
            || message.is_call();
        says && !message.role.is_instruction() && message.role != Role::Other
    };
    if messages.is_empty() || !messages.iter().all(fine) || group(&messages).is_err() {
        return None;
    }
    new.iter()
        .map(|raw| Replacement::new(raw.clone(), draft.conversation().encoding))
        .collect()
}
