//! Recovery from a request that the upstream refused as too long: learns from the error, makes the
//! request smaller, and sends it once more, before the client has seen anything of the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::CONTENT_ENCODING;
use hyper::http::request::Parts;

use crate::core::planner::{RefusedList, UsageEstimate};
use crate::core::policy::OnUnfit;
use crate::core::wire::chat::Outline;
use crate::core::wire::overflow::{Kind, Overflow};
use crate::observe::event::{Action, Overflowed, RescueOutcome};
use crate::proxy::admission::BufferedBody;
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::{Decision, Exchange};
use crate::proxy::plan_request::{PlanRequest, Planned, Purpose, Refused};
use crate::proxy::read::EffectiveMode;
use crate::proxy::send::{Sent, UpstreamResponse};
use crate::proxy::{headers, peek, plan};

/// The shortest reply, in tokens, that is worth a lower limit.
const MIN_OUTPUT_TOKENS: u64 = 16;
/// Share of a window that is kept free when the prompt's size is only estimated: one part in so
/// many.
const MARGIN: u64 = 50;

/// A request that can be sent once more.
#[derive(Debug)]
pub(super) struct RetryableRequest {
    /// Its head.
    pub head: Parts,
    /// Its body as sent.
    pub sent: Vec<Bytes>,
    /// What is known of it.
    pub plan_request: Arc<PlanRequest>,
    /// The share of the memory for bodies.
    pub _body: BufferedBody,
}

/// A way to send a refused request again.
enum Retry {
    /// With this body; the time spent waiting for others is not Baler's own. Where it was planned
    /// anew, the decision holds once it is sent.
    Send {
        pieces: Vec<Bytes>,
        waited: Duration,
        decision: Option<Box<Decision>>,
    },
    /// No way that may help.
    DoesNotFit { may_reject: bool },
}

impl Exchange {
    /// 10. Peek at the answer, and retry once when it reports an overflow.
    ///
    /// # Errors
    /// [`ProxyError::Unfit`], where the policy rejects requests that cannot fit.
    pub(super) async fn recover_from_overflow(
        &mut self,
        sent: Sent,
    ) -> Result<UpstreamResponse, ProxyError> {
        let Sent {
            response,
            retryable,
        } = sent;
        let Some(retryable) = retryable else {
            return Ok(response.unread());
        };
        let (response, overflow) = peek::peek(retryable.plan_request.dialect, response).await;
        match overflow {
            None => Ok(response),
            // Boxed, since it is long and rare.
            Some(overflow) => Box::pin(self.retry(retryable, response, &overflow)).await,
        }
    }

    async fn retry(
        &mut self,
        request: RetryableRequest,
        refused: UpstreamResponse,
        overflow: &Overflow,
    ) -> Result<UpstreamResponse, ProxyError> {
        let began = Instant::now();
        let facts = Arc::clone(&request.plan_request);
        self.learn_from(&facts, overflow);
        let is_enforced = facts.mode == EffectiveMode::Enforce;
        if !is_enforced || !facts.policy.delivery.rescue {
            self.overflowed(&facts, overflow, RescueOutcome::Off);
            return Ok(refused);
        }
        let mut head = request.head.clone();
        let (pieces, waited, decision) =
            match self.make_smaller(&request, &mut head, overflow).await {
                Retry::Send {
                    pieces,
                    waited,
                    decision,
                } => (pieces, waited, decision),
                Retry::DoesNotFit { may_reject } => {
                    self.overflowed(&facts, overflow, RescueOutcome::Unfit);
                    let rejects = may_reject && facts.policy.delivery.on_unfit == OnUnfit::Reject;
                    return if rejects {
                        Err(ProxyError::Unfit)
                    } else {
                        Ok(refused)
                    };
                }
            };
        self.overhead += (began + waited).elapsed();
        let Ok(dispatched) = self.dispatch(headers::with_body(head, pieces)).await else {
            // The upstream's first error helps the client more than the news that it is gone now.
            self.overflowed(&facts, overflow, RescueOutcome::Failed);
            return Ok(refused);
        };
        if let Some(decision) = decision {
            self.decision = Some(*decision);
        }
        let (response, again) = peek::peek(facts.dialect, self.answered(dispatched)).await;
        if let Some(again) = &again {
            self.learn_from(&facts, again);
        }
        let status = response.response.status();
        let failed = again.is_some() || status.is_client_error() || status.is_server_error();
        if failed {
            self.overflowed(&facts, overflow, RescueOutcome::Failed);
        } else {
            if let Some(decision) = &mut self.decision {
                decision.action = Action::Rescued;
            }
            self.overflowed(&facts, overflow, RescueOutcome::Rescued);
        }
        Ok(response)
    }

    fn overflowed(&self, request: &PlanRequest, overflow: &Overflow, outcome: RescueOutcome) {
        Overflowed {
            id: &self.id,
            policy: &request.policy.name,
            overflow,
            outcome,
        }
        .emit(&self.proxy.shared.metrics);
    }

    /// Keeps what an error reports about the window and about the size of the sent list.
    fn learn_from(&self, request: &PlanRequest, overflow: &Overflow) {
        let ledger = &self.proxy.shared.ledger;
        let model = request.model_scope();
        let narrower = overflow
            .window
            .filter(|window| *window < request.window.tokens);
        if let Some(window) = narrower {
            ledger.keep_window(model, window);
        }
        let exact = overflow.prompt.as_ref().filter(|prompt| prompt.exact);
        let decision = self.decision.as_ref();
        let estimate = decision.and_then(|decision| decision.estimate);
        if let (Some(prompt), Some(estimate)) = (exact, estimate) {
            let slot = decision.and_then(|decision| decision.usage_slot);
            ledger.keep_usage(slot, estimate.key, prompt.tokens);
            if let Some(lesson) = decision.and_then(|decision| decision.lesson) {
                let (prefix, evidence) = lesson.learn(prompt.tokens, estimate.counted);
                ledger.keep_evidence(slot.map(|(scope, _)| scope), prefix, evidence);
            }
            ledger.calibrate(model, prompt.tokens, estimate.counted);
        }
    }

    /// A smaller version of the request: a lower limit for the reply where that is enough, else a
    /// harder compaction.
    async fn make_smaller(
        &self,
        request: &RetryableRequest,
        head: &mut Parts,
        overflow: &Overflow,
    ) -> Retry {
        let smaller_reply = if request.plan_request.policy.delivery.fit_output {
            self.with_smaller_reply(request, overflow)
        } else {
            None
        };
        if let Some(pieces) = smaller_reply {
            return Retry::Send {
                pieces,
                waited: Duration::ZERO,
                decision: None,
            };
        }
        // No prompt is short enough for a reply that is too long by itself.
        if overflow.kind == Kind::Output {
            return Retry::DoesNotFit { may_reject: false };
        }
        let Some(harder) = self.compact_harder(request, overflow).await else {
            return Retry::DoesNotFit { may_reject: true };
        };
        let (mut pieces, waited, decision) = harder;
        // It is made of the decoded body.
        head.headers.remove(CONTENT_ENCODING);
        if self.usage_included {
            headers::include_usage(
                request.plan_request.dialect,
                head,
                &request.plan_request.body,
                &mut pieces,
            );
        }
        let decision = Some(decision);
        Retry::Send {
            pieces,
            waited,
            decision,
        }
    }

    /// The request compacted harder than before, the time spent waiting for others, and what was
    /// decided; `None` when that makes it no smaller.
    async fn compact_harder(
        &self,
        request: &RetryableRequest,
        overflow: &Overflow,
    ) -> Option<(Vec<Bytes>, Duration, Box<Decision>)> {
        let facts = &request.plan_request;
        let (sent, estimate) = self.measured(facts).await?;
        let reported = overflow.prompt.as_ref().map_or(0, |prompt| prompt.tokens);
        let at_least = match overflow.kind {
            Kind::Prompt => reported.max(overflow.window.unwrap_or(0)),
            Kind::Total | Kind::Output => reported,
        };
        let prompt_tokens = at_least.max(sent);
        let refused = Refused {
            list: RefusedList {
                list: estimate.key,
                tokens: prompt_tokens,
                counted: estimate.counted,
            },
            // Without a figure all that is known is that the sent list is too long.
            narrowed: overflow.window.is_none().then_some(sent),
        };
        let began = Instant::now();
        let planned = plan::ask(&self.proxy, facts, Purpose::Retry(refused)).await;
        let Planned {
            decision,
            body,
            waited,
            compaction,
            ..
        } = planned.ok()?;
        let is_smaller = decision.sent_tokens()? < prompt_tokens;
        let is_edited = matches!(decision.action, Action::Compacted | Action::Replayed);
        if !is_edited || !is_smaller {
            return None;
        }
        if let Some(made) = &compaction {
            let took = began.elapsed().saturating_sub(waited);
            self.compacted(&decision, made, took);
        }
        Some((body?, waited, Box::new(decision)))
    }

    /// The prompt tokens of the list that was sent, and how they were estimated; measured now where
    /// planning failed, or the answer came before the size was found out.
    async fn measured(&self, request: &Arc<PlanRequest>) -> Option<(u64, UsageEstimate)> {
        let of = |decision: &Decision| decision.sent_tokens().zip(decision.estimate);
        if let Some(measured) = self.decision.as_ref().and_then(of) {
            return Some(measured);
        }
        let assessed = plan::ask(&self.proxy, request, Purpose::Assess).await;
        of(&assessed.ok()?.decision)
    }

    /// The same request with a lower limit for the reply, where that is enough.
    fn with_smaller_reply(
        &self,
        request: &RetryableRequest,
        overflow: &Overflow,
    ) -> Option<Vec<Bytes>> {
        if overflow.kind == Kind::Prompt {
            return None;
        }
        let window = overflow.window?;
        let prompt = match &overflow.prompt {
            Some(prompt) if prompt.exact => prompt.tokens,
            estimated => {
                let reported = estimated.as_ref().map_or(0, |prompt| prompt.tokens);
                reported.max(self.sent_tokens()?) + window / MARGIN
            }
        };
        let limit = window
            .checked_sub(prompt)
            .filter(|limit| *limit >= MIN_OUTPUT_TOKENS)?;
        let outline = Outline::parse(&request.plan_request.body).ok()?;
        let mut pieces = request.sent.clone();
        for field in outline.output_limits {
            let requested = field.get(..).and_then(|raw| raw.parse::<u64>().ok());
            if requested.is_some_and(|requested| requested > limit) {
                let limit = limit.to_string().into();
                pieces = headers::replaced(pieces, field.as_bytes(), &limit);
            }
        }
        (pieces != request.sent).then_some(pieces)
    }

    /// Estimated prompt tokens of the list that was sent.
    fn sent_tokens(&self) -> Option<u64> {
        self.decision.as_ref().and_then(Decision::sent_tokens)
    }
}
