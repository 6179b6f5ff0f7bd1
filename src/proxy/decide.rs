//! Decides what is sent for a request that needs a plan, and records the decision.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::CONTENT_ENCODING;
use hyper::http::request::Parts;

use crate::core::policy::OnError;
use crate::observe::event::{Action, DecisionReason, PlanningFailed, RequestPassed};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::{Decision, Exchange};
use crate::proxy::plan::ask;
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Purpose};
use crate::proxy::read::ChatRequest;
use crate::proxy::send::{Alongside, Outgoing};
use crate::proxy::tenant::Identities;
use crate::summarizer::SummaryOrigin;

impl Exchange {
    /// 5 to 8. View, replay, estimate, decide: the request as it is to be sent.
    ///
    /// # Errors
    /// [`ProxyError::Unfit`] and [`ProxyError::PlanningFailed`], where the policy rejects such
    /// requests.
    pub(super) async fn plan(&mut self, request: Box<ChatRequest>) -> Result<Outgoing, ProxyError> {
        self.proxy.refresh_window(&request);
        let ChatRequest {
            mut head,
            body,
            mut facts,
            read_at,
            ..
        } = *request;
        facts.origin = summary_origin(&facts, &head, &self.proxy.shared.identities);
        let facts: Arc<PlanRequest> = facts.into();
        let mut pieces = vec![body.bytes.clone()];
        let mut alongside = Alongside::Nothing;
        let mut waited = Duration::ZERO;
        let began = Instant::now();
        match ask(&self.proxy, &facts, Purpose::Send).await {
            Ok(planned) => {
                if let Some(made) = &planned.compaction {
                    let took = began.elapsed().saturating_sub(planned.waited);
                    self.compacted(&planned.decision, made, took);
                }
                self.planned(&facts, planned.decision, planned.rejected);
                if planned.rejected {
                    // The next request may fit with the summary.
                    if let Some(due) = &planned.due {
                        self.proxy.spawn_summary(&facts, due);
                    }
                    return Err(ProxyError::Unfit);
                }
                waited = planned.waited;
                if let Some(edited) = planned.body {
                    // It is made of the decoded body.
                    head.headers.remove(CONTENT_ENCODING);
                    pieces = edited;
                }
                self.usage_included = facts.include_usage(&mut head, &mut pieces);
                if let Some(due) = planned.due {
                    alongside = Alongside::Summary(Box::new(due));
                }
            }
            Err(failure) => self.planning_failed(&facts, failure)?,
        }
        self.overhead_ends(read_at + waited);
        Ok(Outgoing {
            head,
            pieces,
            body,
            plan_request: Some(facts),
            alongside,
        })
    }

    /// Records the decision about a request, which is sent unless it is rejected.
    fn planned(&mut self, request: &PlanRequest, decision: Decision, rejected: bool) {
        let shared = &self.proxy.shared;
        if let (Action::None, DecisionReason::Passed(reason)) = (decision.action, decision.reason) {
            RequestPassed { reason }.emit(&shared.metrics);
        }
        self.count_forwarded(request, &decision);
        let idle = request.policy.idle.filter(|_| !rejected);
        if let (Some(_), Some(estimate)) = (idle, decision.estimate) {
            shared.ledger.sent(estimate.key);
        }
        self.decision = Some(decision);
    }

    /// Records that planning failed: the client's bytes are sent, unless the policy rejects the
    /// request.
    fn planning_failed(
        &mut self,
        request: &PlanRequest,
        failure: PlanFailure,
    ) -> Result<(), ProxyError> {
        let cause = failure.cause();
        PlanningFailed { cause }.emit(&self.proxy.shared.metrics);
        self.decision = Some(Decision::failed_open(cause, request.window.tokens));
        match request.policy.delivery.on_error {
            OnError::Reject => Err(ProxyError::PlanningFailed),
            OnError::Forward => Ok(()),
        }
    }
}

/// The request that summaries are made for, where the policy wants any.
fn summary_origin(
    request: &PlanRequest,
    head: &Parts,
    identities: &Identities,
) -> Option<SummaryOrigin> {
    if !request.may_summarize() {
        return None;
    }
    Some(SummaryOrigin {
        body: request.body.clone(),
        uri: head.uri.clone(),
        credentials: identities.credentials(&head.headers),
        model: request.model.clone(),
        tenant: request.tenant,
        window: request.window.capacity(request.window.live()).prompt(0),
        factor: request.window.learned.factor,
        request: request.id.clone(),
        policy: request.policy.name.clone(),
    })
}
