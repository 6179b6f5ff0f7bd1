//! The caller of the operator's own compaction service, for `webhook` steps. What comes back is checked by the core.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::core::strategy::{Webhook, WebhookAnswer, WebhookRequest};
use crate::observe::Metrics;
use crate::upstream::Upstream;

/// What is posted.
#[derive(Serialize)]
struct Asked<'a> {
    policy: &'a str,
    model: Option<&'a str>,
    /// Prompt tokens that the messages take.
    tokens: u64,
    /// Prompt tokens that they may take.
    target_tokens: u64,
    messages: Vec<&'a RawValue>,
}

/// What has to come back.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// Posts a question and waits for the answer, within the webhook's limits. Whatever goes wrong is counted, and the ladder
/// goes on without it.
pub async fn ask(
    upstream: &Upstream,
    webhook: &Webhook,
    policy: &str,
    model: Option<&str>,
    question: &WebhookRequest,
    metrics: &Metrics,
) -> WebhookAnswer {
    let began = Instant::now();
    let asked = async {
        let messages = question
            .messages
            .iter()
            .map(|raw| serde_json::from_str(raw))
            .collect::<Result<_, _>>()
            .map_err(|_| "error")?;
        let asked = Asked {
            policy,
            model,
            tokens: question.tokens,
            target_tokens: question.target_tokens,
            messages,
        };
        let body = Bytes::from(serde_json::to_vec(&asked).map_err(|_| "error")?);
        let response = upstream
            .post(&webhook.url, body)
            .await
            .map_err(|_| "unreachable")?;
        if !response.status().is_success() {
            return Err("status");
        }
        let body = Limited::new(response.into_body(), webhook.max_bytes)
            .collect()
            .await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|error| {
                if error.is::<http_body_util::LengthLimitError>() {
                    "too_large"
                } else {
                    "broken"
                }
            })
    };
    let answered = match tokio::time::timeout(webhook.timeout, asked).await {
        Ok(Ok(body)) => match serde_json::from_slice::<Answered<'_>>(&body) {
            Ok(answered) => Ok(answered
                .messages
                .into_iter()
                .map(|raw| raw.get().to_owned())
                .collect()),
            Err(_) => Err("not_messages"),
        },
        Ok(Err(outcome)) => Err(outcome),
        Err(_) => Err("timeout"),
    };
    metrics
        .webhook_seconds
        .observe(began.elapsed().as_secs_f64());
    metrics
        .webhook_calls
        .with_label_values(&[answered
            .as_ref()
            .map_or_else(|outcome| *outcome, |_: &Vec<String>| "answered")])
        .inc();
    answered.map_or(WebhookAnswer::Failed, WebhookAnswer::Messages)
}
