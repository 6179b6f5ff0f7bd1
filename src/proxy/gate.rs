//! The gate: opt-outs, and the proof that nothing can trigger. Both send the client's bytes without
//! waiting for a plan.

use std::sync::Arc;

use crate::core::planner::gate::{self, Glance};
use crate::core::policy::Source;
use crate::core::tokens::FactorStep;
use crate::ledger::{Refresh, Scope};
use crate::observe::event::{PassReason, RequestPassed};
use crate::proxy::Proxy;
use crate::proxy::exchange::{Decision, Exchange};
use crate::proxy::plan_request::{PlanFailure, PlanRequest, Planned};
use crate::proxy::read::ChatRequest;
use crate::proxy::send::{Alongside, Outgoing};

/// Whether a request needs a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// No: it is not to be inspected, for this reason.
    Bypass(PassReason),
    /// No: its length alone proves that no trigger can fire.
    CannotTrigger,
    /// Yes.
    Open,
}

impl Exchange {
    /// 4. Gate.
    pub(super) fn gate(&self, request: &ChatRequest) -> Gate {
        if let Some(reason) = request.opted_out {
            return Gate::Bypass(reason);
        }
        let facts = &request.facts;
        let capacity = facts.window.capacity(facts.window.live());
        let budget = facts.policy.budget(capacity);
        let learned = facts.window.learned.factor;
        let factor = FactorStep::nearest(learned).factor().max(learned);
        let ledger = &self.proxy.shared.ledger;
        let known = facts.beginning.known().filter(|known| known.is_text);
        let glance = Glance {
            body: &facts.body,
            text: known.map(|known| &known.opening),
        };
        let (dialect, policy) = (facts.dialect, &facts.policy);
        let cannot_trigger = !facts.force
            && gate::nothing_can_trigger(dialect, glance, policy, &budget, factor)
            && ledger.may_gate(&facts.model_key);
        if cannot_trigger {
            Gate::CannotTrigger
        } else {
            Gate::Open
        }
    }

    /// Forwards the client's bytes without inspection.
    pub(super) fn forward(&mut self, request: Box<ChatRequest>, reason: PassReason) -> Outgoing {
        let window = request.facts.window.tokens;
        self.decision = Some(Decision::bypassed(reason, window));
        RequestPassed { reason }.emit(&self.proxy.shared.metrics);
        self.overhead_ends(request.read_at);
        Outgoing {
            head: request.head,
            pieces: vec![request.body.bytes.clone()],
            body: request.body,
            plan_request: None,
            alongside: Alongside::Nothing,
        }
    }

    /// Forwards the client's bytes; its size is found out while the upstream is working.
    pub(super) fn forward_and_assess(&mut self, request: Box<ChatRequest>) -> Outgoing {
        self.proxy.refresh_window(&request);
        let ChatRequest {
            mut head,
            body,
            facts,
            read_at,
            ..
        } = *request;
        let mut pieces = vec![body.bytes.clone()];
        self.usage_included = facts.include_usage(&mut head, &mut pieces);
        self.overhead_ends(read_at);
        Outgoing {
            head,
            pieces,
            body,
            plan_request: Some(facts.into()),
            alongside: Alongside::Assessment,
        }
    }

    /// Records the assessment of a request that the gate let through.
    pub(super) fn assessed(
        &mut self,
        request: &PlanRequest,
        assessed: Result<Planned, PlanFailure>,
    ) {
        let decision = match assessed {
            Ok(planned) => planned.decision,
            Err(_) => Decision::passed(PassReason::Gate, request.window.tokens),
        };
        self.count_forwarded(request, &decision);
        self.decision = Some(decision);
        let reason = PassReason::Gate;
        RequestPassed { reason }.emit(&self.proxy.shared.metrics);
    }

    /// Counts the tokens that a request forwards: summaries may cost a share of them.
    pub(super) fn count_forwarded(&self, request: &PlanRequest, decision: &Decision) {
        if request.may_summarize()
            && let Some(tokens) = decision.sent_tokens()
        {
            let summarizers = &self.proxy.shared.summarizers;
            let summarizer = summarizers.of(&request.policy);
            summarizer.forwarded(request.tenant, tokens);
        }
    }
}

impl Proxy {
    /// Looks up what other replicas learned of a model: before the first request for it goes on,
    /// and now and then without anybody waiting.
    pub(super) async fn refresh_model(self: &Arc<Self>, model: Scope) {
        match self.shared.ledger.refresh(model) {
            Refresh::NotDue => {}
            Refresh::Now(lookup) => {
                self.shared.ledger.fetch(lookup).await;
            }
            Refresh::Later(lookup) => {
                let shared = Arc::clone(&self.shared);
                let task = async move {
                    shared.ledger.fetch(lookup).await;
                };
                self.shared.background.spawn(task);
            }
        }
    }

    /// Asks the upstream for the window of the request's model if that is due, and logs a model of
    /// unknown window.
    pub(super) fn refresh_window(self: &Arc<Self>, request: &ChatRequest) {
        let facts = &request.facts;
        let model = facts.model.as_deref();
        let windows = &self.shared.windows;
        match facts.window.source {
            Source::Policy => return,
            Source::Default => {
                windows.log_unknown_once(&facts.policy.name, model, facts.window.tokens);
            }
            Source::Upstream | Source::Table => {}
        }
        if let Some(lease) = windows.lease(model, facts.tenant) {
            let identities = &self.shared.identities;
            let credentials = identities.credentials(&request.head.headers);
            let proxy = Arc::clone(self);
            windows.background.spawn(async move {
                lease.ask(&proxy.upstream, credentials).await;
            });
        }
    }
}
