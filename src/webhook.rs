//! Calls the operator's own compaction service, for `webhook` steps. The core checks the answer.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Uri;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::strategy::{Webhook, WebhookAnswer, WebhookRequest};
use crate::observe::Metrics;
use crate::observe::event::{WebhookCalled, WebhookOutcome};
use crate::upstream::{ConnectError, Upstream, address_of};

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
    /// Its id.
    pub id: &'a str,
    /// Its policy's name.
    pub policy: &'a str,
    /// The model it names.
    pub model: Option<&'a str>,
}

/// Why a webhook gave nothing.
struct Failure {
    outcome: WebhookOutcome,
    /// The status of its answer, where it was no success.
    status: Option<u16>,
    /// Why it could not be reached.
    cause: Option<String>,
}

impl From<WebhookOutcome> for Failure {
    fn from(outcome: WebhookOutcome) -> Self {
        Failure {
            outcome,
            status: None,
            cause: None,
        }
    }
}

/// Posts the span and waits for the answer, within the webhook's limits. A failure is counted
/// and logged, and the ladder goes on without an answer.
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
        Ok(Ok(body)) => messages_in(&body).map_err(Failure::from),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::from(WebhookOutcome::Timeout)),
    };
    let failure = answered.as_ref().err();
    let address = webhook.url.parse().ok();
    let address = address.map_or_else(String::new, |uri: Uri| address_of(&uri));
    WebhookCalled {
        id: caller.id,
        policy: caller.policy,
        outcome: failure.map_or(WebhookOutcome::Answered, |failure| failure.outcome),
        address: &address,
        status: failure.and_then(|failure| failure.status),
        cause: failure.and_then(|failure| failure.cause.as_deref()),
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
) -> Result<Bytes, Failure> {
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
        .map_err(|error| Failure {
            cause: ConnectError::in_causes_of(&*error).map(ConnectError::cause),
            ..Failure::from(WebhookOutcome::Unreachable)
        })?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failure {
            status: Some(status.as_u16()),
            ..Failure::from(WebhookOutcome::Status)
        });
    }
    let body = Limited::new(response.into_body(), webhook.max_bytes);
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(WebhookOutcome::TooLarge.into()),
        Err(_) => Err(WebhookOutcome::Broken.into()),
    }
}

/// The raw messages of an answer.
fn messages_in(body: &[u8]) -> Result<Vec<String>, WebhookOutcome> {
    let answered: Answered<'_> =
        serde_json::from_slice(body).map_err(|_| WebhookOutcome::NotMessages)?;
    let messages = answered.messages.into_iter();
    Ok(messages.map(|raw| raw.get().to_owned()).collect())
}
