//! One request's context: what is known and decided about it, written down once when it is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::HeaderValue;

use crate::core::budget::Budget;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::Size;
use crate::core::planner::{PriorUsage, UsageEstimate};
use crate::core::wire::{Dialect, Usage};
use crate::observe::{
    Action, Endpoint, RequestEnded, StreamEnd, TrafficMetrics, truncation_suspected,
};
use crate::proxy::Proxy;
use crate::proxy::read;
use crate::proxy::read::Permit;

/// What inspection found out about a request.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What was done.
    pub action: Action,
    /// Why: a trigger, or why nothing was done.
    pub reason: &'static str,
    /// Size before and after.
    pub sizes: Option<[Size; 2]>,
    /// The numbers it was decided by.
    pub budget: Option<Budget>,
    /// The context length, tokens.
    pub window: u64,
    /// How the size of what was sent was estimated, and where its usage is to be kept.
    pub estimate: Option<UsageEstimate>,
    /// The strategies that changed something.
    pub strategies: Vec<&'static str>,
}

impl Decision {
    /// Nothing was found out, for this reason.
    #[must_use]
    pub fn without_a_look(action: Action, reason: &'static str, window: u64) -> Self {
        Decision {
            action,
            reason,
            sizes: None,
            budget: None,
            window,
            estimate: None,
            strategies: Vec::new(),
        }
    }
}

/// One request, from admission to the end of its answer.
#[derive(Debug)]
pub struct Context {
    proxy: Arc<Proxy>,
    _permit: Option<Permit>,
    started: Instant,
    /// The worker it is on.
    pub worker: usize,
    /// `x-baler-request-id`.
    pub id: String,
    /// What it is for.
    pub endpoint: Endpoint,
    /// The wire format that it speaks, where it is inspected.
    pub dialect: Option<Dialect>,
    /// The metrics of its policy and model, for chat requests.
    pub traffic: Option<Arc<TrafficMetrics>>,
    /// What inspection found out.
    pub decision: Option<Decision>,
    /// What the upstream teaches about the model is kept under this.
    pub model_key: Option<Fingerprint>,
    /// Usage that the head of the answer told.
    pub told: Option<Usage>,
    /// The upstream was asked for usage that the client did not ask for.
    pub usage_included: bool,
    /// Time the request waited for Baler itself.
    pub overhead: Duration,
    /// Time from sending to the head of the answer.
    pub first_byte: Option<Duration>,
    /// Status that the client gets.
    pub status: u16,
    ended: bool,
}

/// What is written down for a client that left before there was an answer, as other proxies do.
const CLIENT_LEFT: u16 = 499;

impl Context {
    /// A request that was just admitted.
    #[must_use]
    pub fn new(proxy: Arc<Proxy>, worker: usize, permit: Option<Permit>, id: String) -> Self {
        Context {
            proxy,
            _permit: permit,
            started: Instant::now(),
            worker,
            id,
            endpoint: Endpoint::Other,
            dialect: None,
            traffic: None,
            decision: None,
            model_key: None,
            told: None,
            usage_included: false,
            overhead: Duration::ZERO,
            first_byte: None,
            status: CLIENT_LEFT,
            ended: false,
        }
    }

    /// Puts Baler's headers on the answer of an inspected request.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        if self.endpoint != Endpoint::Chat {
            return;
        }
        let mut put = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        put("x-baler-request-id", &self.id);
        if let Some(traffic) = &self.traffic {
            put("x-baler-policy", traffic.policy());
        }
        if let Some(decision) = &self.decision {
            let action = decision.action.as_str();
            match decision.strategies.as_slice() {
                [] => put("x-baler-action", action),
                strategies => put(
                    "x-baler-action",
                    &format!("{action}; strategies=\"{}\"", strategies.join(" ")),
                ),
            }
            let tokens = match decision.sizes {
                Some([before, after]) => format!(
                    "before={}; after={}; window={}",
                    before.tokens, after.tokens, decision.window
                ),
                None => format!("before=unknown; after=unknown; window={}", decision.window),
            };
            put("x-baler-tokens", &tokens);
            if let Some(usage) = self.known_usage(decision) {
                put(read::USAGE, &usage.to_string());
            }
        } else {
            put("x-baler-action", Action::None.as_str());
        }
        if let Ok(value) = HeaderValue::from_str(&format!(
            "baler;dur={:.3}",
            self.overhead.as_secs_f64() * 1e3
        )) {
            headers.append("server-timing", value);
        }
    }

    /// What is known of the prompt's usage before the body of the answer: what its head told, which covers the client's
    /// whole list, else what was reported for the longest known prefix.
    fn known_usage(&self, decision: &Decision) -> Option<PriorUsage> {
        let (known, [before, _]) = (decision.estimate?, decision.sizes?);
        let told = self
            .told
            .filter(|usage| !self.looks_truncated(&known, usage))
            .map(|usage| PriorUsage {
                messages: usize::try_from(before.messages).unwrap_or(usize::MAX),
                prompt_tokens: usage.prompt_tokens,
                counted: Some(known.counted),
            });
        told.or(known.reported)
    }

    /// Whether the upstream seems to have cut the prompt.
    fn looks_truncated(&self, known: &UsageEstimate, usage: &Usage) -> bool {
        let factor = self
            .model_key
            .map_or(1.0, |model| self.proxy.ledger.learned(&model).factor);
        known.looks_truncated(usage.prompt_tokens, factor)
    }

    /// Keeps what the upstream reported for a list, and what that teaches about how it counts.
    fn learn(&self, decision: &Decision, known: &UsageEstimate, usage: &Usage) {
        self.proxy.ledger.keep_usage(known.key, usage.prompt_tokens);
        self.proxy.metrics.usage_learned.inc();
        let factor = self.model_key.map(|model| {
            self.proxy.ledger.served(&model, usage.prompt_tokens);
            self.proxy
                .ledger
                .calibrate(model, usage.prompt_tokens, known.counted)
        });
        if let (Some(traffic), Some([_, after])) = (&self.traffic, decision.sizes) {
            traffic.estimated(after.tokens, usage.prompt_tokens, factor);
        }
    }

    /// Writes the request down: usage for the ledger, metrics, one log line.
    pub fn end(&mut self, ending: StreamEnd, usage: Option<Usage>) {
        self.ended = true;
        let decision = self.decision.as_ref();
        if let (Some(usage), Some(decision)) = (usage, decision)
            && let Some(known) = decision.estimate
        {
            if self.looks_truncated(&known, &usage) {
                truncation_suspected(
                    &self.proxy.metrics,
                    &self.id,
                    self.traffic.as_deref(),
                    &known,
                    usage,
                );
            } else {
                self.learn(decision, &known, &usage);
            }
        }
        RequestEnded {
            id: &self.id,
            endpoint: self.endpoint,
            status: self.status,
            action: decision.map_or(Action::None, |decision| decision.action),
            reason: decision.map_or("", |decision| decision.reason),
            traffic: self.traffic.as_deref(),
            sizes: decision.and_then(|decision| decision.sizes),
            budget: decision.and_then(|decision| decision.budget),
            estimate: decision.and_then(|decision| decision.estimate),
            usage,
            overhead: self.overhead,
            first_byte: self.first_byte,
            took: self.started.elapsed(),
            ending,
        }
        .emit(&self.proxy.metrics);
    }
}

impl Drop for Context {
    /// A client that leaves before the answer takes the whole request with it: this is all that is left to tell.
    fn drop(&mut self) {
        if !self.ended {
            self.end(StreamEnd::ClientLeft, None);
        }
    }
}
