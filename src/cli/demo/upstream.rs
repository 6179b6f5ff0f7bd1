//! The demo's upstream: a scripted model with a small window. It counts tokens as a real model
//! does, refuses prompts that do not fit, and caches the longest prefix that it has seen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::cli::demo::script;
use crate::core::tokens::Encoding;
use crate::core::wire::chat::{Chat, Outline};
use crate::core::wire::chat::{PRIMER_TOKENS, count_message};

/// Context length, tokens.
pub(super) const WINDOW: u64 = 6_000;
/// Longest body that is read. The script stays far below it.
const MAX_BODY_BYTES: usize = 4 << 20;
/// Least number of tokens that the prompt cache stores, as with real providers.
const LEAST_CACHED: u64 = 1_024;

/// The model's prompt cache: the messages of the newest requests, as sent.
#[derive(Debug, Default)]
pub(super) struct Model {
    seen: Mutex<VecDeque<Vec<String>>>,
}

/// Number of requests whose prompt is cached.
const REMEMBERED: usize = 4;

/// Answers one request.
///
/// # Errors
/// Never.
pub(super) async fn answer(
    model: Arc<Model>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match http_body_util::Limited::new(request.into_body(), MAX_BODY_BYTES)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            return Ok(json(
                StatusCode::BAD_REQUEST,
                &serde_json::json!({ "error": { "message": "cannot read the body" } }),
            ));
        }
    };
    Ok(match Outline::parse(&body).and_then(Outline::view) {
        Ok(chat) => model.complete(&chat),
        Err(_) => json(
            StatusCode::BAD_REQUEST,
            &serde_json::json!({ "error": { "message": "not a chat" } }),
        ),
    })
}

impl Model {
    fn complete(&self, chat: &Chat<'_>) -> Response<Full<Bytes>> {
        let counts: Vec<u64> = chat
            .messages
            .iter()
            .map(|message| count_message(message.raw, Encoding::O200K).unwrap_or(0))
            .collect();
        let prompt = PRIMER_TOKENS + counts.iter().sum::<u64>();
        let wanted = chat.outline.max_output_tokens.unwrap_or(0);
        if prompt + wanted > WINDOW {
            let message = format!(
                "This model's maximum context length is {WINDOW} tokens. However, \
                you requested {} tokens ({prompt} in the messages, {wanted} in the \
                completion). Please reduce the length of the messages or completion.",
                prompt + wanted
            );
            let error = serde_json::json!({ "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            } });
            return json(StatusCode::BAD_REQUEST, &error);
        }
        let now: Vec<String> = chat
            .outline
            .messages
            .iter()
            .map(|raw| (*raw).to_owned())
            .collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let common = |before: &Vec<String>| {
            before
                .iter()
                .zip(&now)
                .take_while(|(before, now)| before == now)
                .count()
        };
        let same = seen.iter().map(common).max().unwrap_or(0);
        let cached = Some(counts.iter().take(same).sum::<u64>() / 128 * 128)
            .filter(|tokens| *tokens >= LEAST_CACHED)
            .unwrap_or(0);
        seen.push_front(now);
        seen.truncate(REMEMBERED);
        json(
            StatusCode::OK,
            &serde_json::json!({
                "object": "chat.completion",
                "choices": [{
                    "index": 0,
                    "message": script::reply(chat),
                    "finish_reason": "stop",
                }],
                "usage": {
                    "prompt_tokens": prompt,
                    "completion_tokens": 40,
                    "prompt_tokens_details": { "cached_tokens": cached },
                },
            }),
        )
    }
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
