//! What happens when the upstream says that a request is too long: learn from what it says, make the request smaller, and
//! send it once more, before the client saw anything of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::http::request::Parts;

use crate::core::policy::{OnUnfit, Policy};
use crate::core::wire::chat::Outline;
use crate::core::wire::overflow::{Kind, Overflow};
use crate::observe::{Action, Rescue, overflowed};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::Context;
use crate::proxy::plan;
use crate::proxy::plan::{PlanRequest, Planned};
use crate::proxy::{Answered, Proxy, headers, send};

/// Tokens that a reply must be allowed for a smaller limit to make sense.
const LEAST_OUTPUT_TOKENS: u64 = 16;
/// Of a window, what is kept free when the prompt's size is only estimated: one part in so many.
const MARGIN: u64 = 50;

/// A request that can be sent once more.
pub(super) struct RetryableRequest<'r> {
    pub policy: &'r Policy,
    pub head: Parts,
    /// What was sent, in pieces.
    pub sent: Vec<Bytes>,
    pub request: PlanRequest,
}

/// Answers a request that the upstream refused with `refused`, because of `overflow`.
///
/// # Errors
/// [`ProxyError::Unfit`], where the policy wants what cannot fit to be rejected.
pub(super) async fn rescue(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    again: RetryableRequest<'_>,
    refused: Answered,
    overflow: Overflow,
) -> Result<Answered, ProxyError> {
    let mut began = Instant::now();
    learn(proxy, context, &again, &overflow);
    let tell = |outcome: Rescue| {
        overflowed(
            &proxy.metrics,
            &again.request.id,
            &again.policy.name,
            &overflow,
            outcome,
        )
    };
    if !again.policy.delivery.rescue {
        tell(Rescue::Off);
        return Ok(refused);
    }
    let smaller_reply = if again.policy.delivery.fit_output {
        with_smaller_reply(context, &again, &overflow)
    } else {
        None
    };
    let mut head = again.head.clone();
    let pieces = match smaller_reply {
        Some(pieces) => pieces,
        // No prompt is short enough for a reply that is too long by itself.
        None if overflow.kind == Kind::Output => {
            tell(Rescue::Unfit);
            return Ok(refused);
        }
        None => match compacted(proxy, context, again.request.clone(), &overflow).await {
            Some((mut pieces, waited)) => {
                began += waited;
                if context.usage_included {
                    headers::include_usage(
                        again.request.dialect,
                        &mut head,
                        &again.request.body,
                        &mut pieces,
                    );
                }
                pieces
            }
            None => {
                tell(Rescue::Unfit);
                return if again.policy.delivery.on_unfit == OnUnfit::Reject {
                    Err(ProxyError::Unfit)
                } else {
                    Ok(refused)
                };
            }
        },
    };
    context.overhead += began.elapsed();
    let retried = send(proxy, context, headers::with_body(head, pieces)).await;
    let Ok((response, place)) = retried else {
        // What the upstream said is more to the point than that it is gone now.
        tell(Rescue::Failed);
        return Ok(refused);
    };
    let (response, again_too_long) = super::peek::look(again.request.dialect, response).await;
    if let Some(still) = &again_too_long {
        learn(proxy, context, &again, still);
    }
    let served = again_too_long.is_none()
        && !response.status().is_client_error()
        && !response.status().is_server_error();
    if let (true, Some(decision)) = (served, &mut context.decision) {
        decision.action = Action::Rescued;
    }
    tell(if served {
        Rescue::Rescued
    } else {
        Rescue::Failed
    });
    Ok((response, place))
}

/// Keeps what an error says about the window and about the size of what was sent.
fn learn(proxy: &Proxy, context: &Context, again: &RetryableRequest<'_>, overflow: &Overflow) {
    let model = again.request.model_key;
    if let Some(window) = overflow
        .window
        .filter(|window| *window < again.request.window)
    {
        proxy.ledger.keep_window(model, window);
    }
    if let (Some(prompt), Some(known)) = (
        overflow.prompt.as_ref().filter(|prompt| prompt.exact),
        context
            .decision
            .as_ref()
            .and_then(|decision| decision.estimate),
    ) {
        proxy.ledger.keep_usage(known.key, prompt.tokens);
        proxy.ledger.calibrate(model, prompt.tokens, known.counted);
    }
}

/// The request compacted harder than before, and the time spent waiting for others; `None` when that makes it no smaller.
async fn compacted(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    mut request: PlanRequest,
    overflow: &Overflow,
) -> Option<(Vec<Bytes>, Duration)> {
    let sent = context.decision.as_ref()?.sizes?[1].tokens;
    let told = overflow.prompt.as_ref().map_or(0, |prompt| prompt.tokens);
    let at_least = match overflow.kind {
        Kind::Prompt => told.max(overflow.window.unwrap_or(0)),
        Kind::Total | Kind::Output => told,
    };
    request.sent = false;
    request.overflow = Some(at_least.max(sent));
    // Without a figure all that is known is that what was sent is too much.
    request.narrowed = overflow.window.is_none().then_some(sent);
    let refused_at = request.overflow;
    let Planned {
        decision,
        body,
        waited,
        ..
    } = plan::ask(proxy, context.worker, request).await.ok()?;
    let [_, after] = decision.sizes?;
    if decision.action != Action::Compacted
        || refused_at.is_none_or(|refused_at| after.tokens >= refused_at)
    {
        return None;
    }
    context.decision = Some(decision);
    Some((body?, waited))
}

/// The same request with a lower limit for the reply, where that is all it takes.
fn with_smaller_reply(
    context: &Context,
    again: &RetryableRequest<'_>,
    overflow: &Overflow,
) -> Option<Vec<Bytes>> {
    if overflow.kind == Kind::Prompt {
        return None;
    }
    let window = overflow.window?;
    let prompt = match &overflow.prompt {
        Some(prompt) if prompt.exact => prompt.tokens,
        told => {
            told.as_ref()
                .map_or(0, |prompt| prompt.tokens)
                .max(context.decision.as_ref()?.sizes?[1].tokens)
                + window / MARGIN
        }
    };
    let limit = window
        .checked_sub(prompt)
        .filter(|limit| *limit >= LEAST_OUTPUT_TOKENS)?;
    let outline = Outline::parse(&again.request.body).ok()?;
    let mut pieces = again.sent.clone();
    for field in outline.output_limits {
        if field
            .get(..)
            .and_then(|raw| raw.parse::<u64>().ok())
            .is_some_and(|asked| asked > limit)
        {
            pieces = headers::replaced(pieces, field.as_bytes(), &limit.to_string().into());
        }
    }
    (pieces != again.sent).then_some(pieces)
}
