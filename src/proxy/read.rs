//! A chat request, read: its body, its head for the upstream, and every fact that planning needs,
//! each computed once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request};

use crate::core::models::ModelFacts;
use crate::core::policy::{Mode, Policy, RequestFacts};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::ledger::Scope;
use crate::observe::event::{PassReason, RequestPassed, SignedBodySeen, TrafficMode};
use crate::proxy::admission::{Bound, BufferedBody, ReadBody, ShedBody};
use crate::proxy::error::ProxyError;
use crate::proxy::exchange::{Decision, Exchange};
use crate::proxy::headers;
use crate::proxy::headers::ModeOverride;
use crate::proxy::plan_request::{PlanRequest, RequestWindow};
use crate::proxy::signed::is_signed;
use crate::proxy::tenant::{Asker, Identities};
use crate::proxy::usage_tap::is_encoded;
use crate::proxy::warning;
use crate::upstream::RequestBody;

/// A chat request that was read.
#[derive(Debug)]
pub(super) struct ChatRequest {
    /// Its head for the upstream.
    pub head: Parts,
    /// Its body as it came, with its share of the memory for bodies. What is inspected is the body
    /// of `facts`, which is decoded.
    pub body: BufferedBody,
    /// What is known of it.
    pub facts: Box<PlanRequest>,
    /// The reason for which it is not inspected.
    pub opted_out: Option<PassReason>,
    /// When its body was complete: from here on the client waits for Baler.
    pub read_at: Instant,
}

/// A request that was read, or cannot be.
#[derive(Debug)]
pub(super) enum Read {
    /// A chat request.
    Chat(Box<ChatRequest>),
    /// There is no room for its body: it is streamed through unread.
    Unread(Box<Request<RequestBody>>),
}

/// The mode of one request: its policy's, narrowed by its own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EffectiveMode {
    /// The client's bytes are forwarded without inspection, for this reason.
    Off(PassReason),
    /// Decides, reports, and forwards the client's bytes.
    Observe,
    /// Sends the compacted request.
    Enforce,
}

impl EffectiveMode {
    /// The mode that a request's traffic is counted under.
    fn counted(self) -> Option<TrafficMode> {
        match self {
            EffectiveMode::Off(_) => None,
            EffectiveMode::Observe => Some(TrafficMode::Observe),
            EffectiveMode::Enforce => Some(TrafficMode::Enforce),
        }
    }

    fn of(policy: Mode, header: ModeOverride) -> Self {
        match (header, policy) {
            (ModeOverride::Off, _) => EffectiveMode::Off(PassReason::Header),
            (_, Mode::Off) => EffectiveMode::Off(PassReason::Policy),
            (ModeOverride::Observe, _) | (_, Mode::Observe) => EffectiveMode::Observe,
            (ModeOverride::None | ModeOverride::Force, Mode::Enforce) => EffectiveMode::Enforce,
        }
    }
}

impl Exchange {
    /// 3. Read: the body, within its limits, and the facts about the request.
    ///
    /// # Errors
    /// [`ProxyError`]: the body cannot be read, or the request's target is not a path.
    pub(super) async fn read(
        &mut self,
        request: Request<Incoming>,
        dialect: Dialect,
    ) -> Result<Read, ProxyError> {
        let (parts, body) = request.into_parts();
        let shared = Arc::clone(&self.proxy.shared);
        let admission = &shared.admission;
        let mut body = match admission.read(body, &parts.headers).await? {
            ReadBody::Whole(body) => body,
            ReadBody::Shed(body) => return self.shed(parts, body, dialect),
        };
        let read_at = Instant::now();
        let is_signed = is_signed(&parts.headers, parts.uri.query());
        let is_encoded = is_encoded(&parts.headers);
        let decoded = if is_encoded && !is_signed && self.snapshot.config.decode_bodies {
            admission.decoded(&mut body, &parts.headers).await
        } else {
            None
        };
        let is_readable = !is_encoded || decoded.is_some();
        let plain = decoded.unwrap_or_else(|| body.bytes.clone());
        let may_look = !is_signed && is_readable;
        let facts = self.facts(dialect, &parts, plain, may_look).await?;
        let opted_out = match facts.mode {
            EffectiveMode::Off(reason) => Some(reason),
            _ if is_signed => {
                let already = shared.seen.signed.swap(true, Ordering::Relaxed);
                SignedBodySeen { already }.emit();
                Some(PassReason::SignedBody)
            }
            _ if !is_readable => Some(PassReason::EncodedBody),
            _ => None,
        };
        Ok(Read::Chat(Box::new(ChatRequest {
            head: self.upstream_head(parts)?,
            body,
            facts,
            opted_out,
            read_at,
        })))
    }

    /// A request that there is no room to look at, to be streamed through. Its policy is found by
    /// what arrived of it.
    fn shed(&mut self, parts: Parts, body: ShedBody, dialect: Dialect) -> Result<Read, ProxyError> {
        let model = dialect.peek_model(&body.begun, None);
        let known = ModelFacts::of(model.as_deref());
        let policy = self.choose_policy((model.as_deref(), &known), &parts)?;
        let discovered = self.proxy.shared.windows.discovered(model.as_deref());
        let (window, _) = policy.window_by(&known, discovered);
        let reason = match body.bound {
            Bound::Length => PassReason::TooLarge,
            Bound::Memory => PassReason::NoMemory,
        };
        self.decision = Some(Decision::bypassed(reason, window));
        RequestPassed { reason }.emit(&self.proxy.shared.metrics);
        let head = self.upstream_head(parts)?;
        let body = RequestBody::resumed(body.begun, body.rest);
        Ok(Read::Unread(Box::new(Request::from_parts(head, body))))
    }

    /// What is known of a request before it is planned. One that is not inspected, because of its
    /// mode or because Baler may not look (`may_look`), does not wait for the ledger.
    async fn facts(
        &mut self,
        dialect: Dialect,
        parts: &Parts,
        body: Bytes,
        may_look: bool,
    ) -> Result<Box<PlanRequest>, ProxyError> {
        let shared = Arc::clone(&self.proxy.shared);
        let identities = &shared.identities;
        let tenant = identities.tenant(&parts.headers, parts.uri.query());
        let beginning = shared.ledger.openings().of(&tenant, dialect, &body);
        let model = dialect.peek_model(&body, beginning.opening());
        let path = parts.uri.path();
        let known = ModelFacts::of(model.as_deref());
        let policy = self.choose_policy((model.as_deref(), &known), parts)?;
        self.warning = warning::about(&parts.headers, &policy.name);
        let mode_override = headers::mode_override(&parts.headers);
        let mode = EffectiveMode::of(policy.delivery.mode, mode_override);
        self.mode = mode.counted();
        let asker = Asker {
            dialect,
            tenant: &tenant,
            model: model.as_deref(),
            known: &known,
        };
        let model_key = identities.model_key(asker, path);
        let scope = Scope {
            tenant,
            group: model_key,
        };
        self.model = Some(scope);
        if may_look && !matches!(mode, EffectiveMode::Off(_)) {
            self.proxy.refresh_model(scope).await;
        }
        let window = self.window_of(&policy, asker, scope);
        Ok(Box::new(PlanRequest {
            dialect,
            body,
            beginning,
            id: self.id.clone(),
            mode,
            force: mode_override == ModeOverride::Force,
            checkpoint_seed: identities.checkpoint_seed(asker, &policy, window.tokens),
            window,
            facts: visible_facts(identities, &policy, model.as_deref(), &parts.headers),
            prior: headers::prior_usage(&parts.headers),
            origin: None,
            path: path.to_owned(),
            policy,
            encoding: Encoding::for_model(model.as_deref().unwrap_or_default()),
            known,
            model,
            tenant,
            model_key,
        }))
    }

    /// The context length that a request is planned by, as it is known now.
    fn window_of(&self, policy: &Policy, asker: Asker<'_>, scope: Scope) -> RequestWindow {
        let shared = &self.proxy.shared;
        let discovered = shared.windows.discovered(asker.model);
        let (tokens, source) = policy.window_by(asker.known, discovered);
        RequestWindow {
            tokens,
            source,
            input_limit: Policy::input_limit(asker.known, tokens),
            learned: shared
                .ledger
                .learned(&scope.group, policy.calibration_factor),
        }
    }
}

/// The facts that a policy's expression may read, besides the messages: never credentials.
fn visible_facts(
    identities: &Identities,
    policy: &Arc<Policy>,
    model: Option<&str>,
    headers: &HeaderMap,
) -> RequestFacts {
    let model = model.unwrap_or_default().to_owned();
    let reads_headers = policy
        .when
        .as_ref()
        .is_some_and(|when| when.reads_headers());
    if !reads_headers {
        return RequestFacts {
            model,
            ..RequestFacts::default()
        };
    }
    let visible = headers
        .iter()
        .filter(|(name, _)| !identities.is_credential(name));
    let readable = visible.filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    RequestFacts {
        headers: readable.collect(),
        model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_of_policy_and_header_is_the_mode() {
        let (off_by_header, off_by_policy) = (
            EffectiveMode::Off(PassReason::Header),
            EffectiveMode::Off(PassReason::Policy),
        );
        for (policy, header, mode) in [
            (Mode::Enforce, ModeOverride::None, EffectiveMode::Enforce),
            (Mode::Enforce, ModeOverride::Force, EffectiveMode::Enforce),
            (Mode::Enforce, ModeOverride::Observe, EffectiveMode::Observe),
            (Mode::Observe, ModeOverride::Force, EffectiveMode::Observe),
            (Mode::Off, ModeOverride::Force, off_by_policy),
            (Mode::Off, ModeOverride::Observe, off_by_policy),
            (Mode::Off, ModeOverride::Off, off_by_header),
            (Mode::Enforce, ModeOverride::Off, off_by_header),
        ] {
            assert_eq!(EffectiveMode::of(policy, header), mode);
        }
    }
}
