//! Calls the operator's own compaction service, for `webhook` steps. The core checks the answer.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::strategy::{Webhook, WebhookAnswer, WebhookRequest};
use crate::observe::Metrics;
use crate::observe::event::{WebhookCalled, WebhookOutcome};
use crate::upstream::Upstream;

/// The JSON that is posted.
#[derive(Serialize)]
struct Posted<'a> {
    policy: &'a str,
    model: Option<&'a str>,
    /// Prompt tokens that the messages take.
    tokens: u64,
    /// Prompt tokens that they may take.
    target_tokens: u64,
    messages: Vec<&'a RawValue>,
}

/// The JSON that is expected in return.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// The request that a webhook is called for.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// Its policy's name.
    pub policy: &'a str,
    /// The model it names.
    pub model: Option<&'a str>,
}

/// Posts the span and waits for the answer, within the webhook's limits. A failure is counted, and
/// the ladder goes on without an answer.
pub async fn call(
    upstream: &Upstream,
    webhook: &Webhook,
    caller: Caller<'_>,
    request: &WebhookRequest,
    metrics: &Metrics,
) -> WebhookAnswer {
    let began = Instant::now();
    let answered = match tokio::time::timeout(
        webhook.timeout,
        exchange(upstream, webhook, caller, request),
    )
    .await
    {
        Ok(Ok(body)) => messages_in(&body),
        Ok(Err(outcome)) => Err(outcome),
        Err(_) => Err(WebhookOutcome::Timeout),
    };
    let outcome = answered
        .as_ref()
        .map_or_else(|outcome| *outcome, |_| WebhookOutcome::Answered);
    WebhookCalled {
        outcome,
        took: began.elapsed(),
    }
    .emit(metrics);
    answered.map_or(WebhookAnswer::Failed, WebhookAnswer::Messages)
}

/// One request and the body of its answer.
async fn exchange(
    upstream: &Upstream,
    webhook: &Webhook,
    caller: Caller<'_>,
    request: &WebhookRequest,
) -> Result<Bytes, WebhookOutcome> {
    let messages: Result<Vec<&RawValue>, _> = request
        .messages
        .iter()
        .map(|raw| serde_json::from_str(raw))
        .collect();
    let posted = Posted {
        policy: caller.policy,
        model: caller.model,
        tokens: request.tokens,
        target_tokens: request.target_tokens,
        messages: messages.map_err(|_| WebhookOutcome::Error)?,
    };
    let body = serde_json::to_vec(&posted).map_err(|_| WebhookOutcome::Error)?;
    let response = upstream
        .post(&webhook.url, Bytes::from(body))
        .await
        .map_err(|_| WebhookOutcome::Unreachable)?;
    if !response.status().is_success() {
        return Err(WebhookOutcome::Status);
    }
    let body = Limited::new(response.into_body(), webhook.max_bytes);
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(WebhookOutcome::TooLarge),
        Err(_) => Err(WebhookOutcome::Broken),
    }
}

/// The raw messages of an answer.
fn messages_in(body: &[u8]) -> Result<Vec<String>, WebhookOutcome> {
    let answered: Answered<'_> =
        serde_json::from_slice(body).map_err(|_| WebhookOutcome::NotMessages)?;
    let messages = answered.messages.into_iter();
    Ok(messages.map(|raw| raw.get().to_owned()).collect())
}
