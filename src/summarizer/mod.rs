//! Makes summaries in the background, before a request needs them: the one caller of a model on
//! Baler's own account.
//!
//! `core::summary` composes the prompts and checks the answers. This room decides which service is
//! called, when, how often, and what follows when it fails. Nothing here can fail a request: a
//! request whose summary is missing goes on without it.
//!
//! ```text
//! mod      which summary may be made now
//! limiter  the limits that decide that
//! make     one summary, from the conversation to the checked text
//! refine   its calls, chunk by chunk
//! call     one call of the summariser
//! ```
//!
//! INVARIANT: a request's own credentials go to its own upstream and nowhere else.

mod call;
mod limiter;
mod make;
mod refine;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::Uri;
use hyper::header::HeaderMap;
use tokio::sync::watch;

use crate::background::Background;
use crate::config;
use crate::core::conversation::Fingerprint;
use crate::core::policy::Policy;
use crate::core::summary::{Options, PendingSummary, Spent, State};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::ledger::{Ledger, Scope};
use crate::observe::Metrics;
use crate::observe::event::{
    SkipReason, SummarizerMetrics, SummaryEnded, SummaryOutcome, SummaryReleased, SummarySkipped,
    SummaryStarted,
};
use crate::upstream::Upstream;

/// The wire format of Baler's own calls.
const OWN_DIALECT: Dialect = Dialect::ChatCompletions;

use call::CallTrace;
use limiter::{Ended, Limiter, Reservation};
use make::NoSummary;

/// The summarisers of all policies.
#[derive(Debug)]
pub struct Summarizers {
    /// That of policies that name none.
    default: Arc<Summarizer>,
    others: Vec<Arc<Summarizer>>,
}

impl Summarizers {
    /// Calls nothing yet. `upstream` is the upstream's name in fingerprints.
    #[must_use]
    pub fn new(config: &config::Summarizers, upstream: &str, metrics: &Arc<Metrics>) -> Self {
        let one = |config: &config::Summarizer| {
            Arc::new(Summarizer::new(
                config.clone(),
                upstream,
                Arc::clone(metrics),
            ))
        };
        Summarizers {
            default: one(&config.default),
            others: config.others.iter().map(one).collect(),
        }
    }

    /// That of a policy.
    #[must_use]
    pub fn of(&self, policy: &Policy) -> &Arc<Summarizer> {
        let named = policy.delivery.summarizer.as_ref();
        let mut others = self.others.iter();
        named
            .and_then(|name| others.find(|other| other.config.name == *name))
            .unwrap_or(&self.default)
    }

    /// Ends the preparations that run, and waits for them.
    pub async fn close(&self) {
        let all = std::iter::once(&self.default).chain(&self.others);
        join_all(all.map(|summarizer| summarizer.background.close())).await;
    }
}

/// Makes summaries, by one model.
#[derive(Debug)]
pub struct Summarizer {
    config: config::Summarizer,
    /// Fingerprint of the service that is called and of its instructions.
    identity: Fingerprint,
    metrics: Arc<Metrics>,
    /// Its own series among them.
    series: SummarizerMetrics,
    limiter: Mutex<Limiter>,
    /// The preparations that run.
    pub background: Background,
}

/// The request that a summary is made for.
#[derive(Debug, Clone)]
pub struct SummaryOrigin {
    /// Its body.
    pub body: Bytes,
    /// Its address at the upstream.
    pub uri: Uri,
    /// Its credentials.
    pub credentials: HeaderMap,
    /// The model it names.
    pub model: Option<String>,
    /// Fingerprint of its credentials.
    pub tenant: Fingerprint,
    /// The context length of its model, tokens.
    pub window: u64,
    /// The upstream's tokens per token counted here.
    pub factor: f64,
    /// Its id, for log lines.
    pub request: String,
    /// The name of its policy.
    pub policy: String,
}

impl SummaryOrigin {
    fn encoding(&self) -> Encoding {
        Encoding::for_model(self.model.as_deref().unwrap_or_default())
    }
}

/// A summary that is due, and whose entry of the ledger it will be.
#[derive(Debug, Clone)]
pub(crate) struct DueSummary {
    pub scope: Scope,
    pub pending: PendingSummary,
}

/// Whether a summary that is due may be made now.
#[derive(Debug)]
pub(crate) enum Reserved {
    /// Yes: with this lease.
    Lease(Box<Lease>),
    /// It is being made already, or a shorter or longer one of the conversation is. The receiver
    /// signals its end.
    Running(watch::Receiver<()>),
    /// It was finished meanwhile.
    Ready,
    /// No; the reason was counted.
    Skipped,
}

/// The right to make one summary. A lease that is dropped before its summary was made counts as a
/// failure.
#[derive(Debug)]
pub(crate) struct Lease {
    summarizer: Arc<Summarizer>,
    scope: Scope,
    pending: PendingSummary,
    tenant: Fingerprint,
    /// Fingerprint of the service that is called, as the breaker knows it.
    called: Fingerprint,
    ended: Ended,
    /// Dropped with the lease, which its receivers notice.
    finished: watch::Sender<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let summarizer = &*self.summarizer;
        let reservation = Reservation {
            key: self.pending.key,
            prefixes: &[],
            tenant: self.tenant,
            summarizer: self.called,
            tokens: 0,
            allowance: 0,
        };
        let mut limiter = summarizer.limiter();
        limiter.ended(&reservation, self.ended, &summarizer.config);
        let open_breakers = limiter.open_breakers();
        SummaryReleased { open_breakers }.emit(&summarizer.metrics, &summarizer.series);
    }
}

impl Summarizer {
    /// Calls nothing yet. `upstream` is the upstream's name in fingerprints.
    #[must_use]
    pub fn new(config: config::Summarizer, upstream: &str, metrics: Arc<Metrics>) -> Self {
        let style: &[u8] = if config.suffix {
            b"suffix"
        } else {
            b"transcript"
        };
        let identity = Fingerprint::of_parts(&[
            b"summary",
            upstream.as_bytes(),
            config.url.as_deref().unwrap_or(upstream).as_bytes(),
            config.model.as_deref().unwrap_or_default().as_bytes(),
            style,
            config.instructions.as_bytes(),
        ]);
        Summarizer {
            series: metrics.summarizer(&config.name),
            config,
            identity,
            metrics,
            limiter: Mutex::default(),
            background: Background::default(),
        }
    }

    /// The first link of the keys of summaries: the tenant, the policy's identity, and this
    /// summariser's own.
    #[must_use]
    pub fn seed(
        &self,
        dialect: Dialect,
        tenant: &Fingerprint,
        policy: &Fingerprint,
    ) -> Fingerprint {
        let dialect = dialect.as_str().as_bytes();
        Fingerprint::of_parts(&[&self.identity.0, dialect, &tenant.0, &policy.0])
    }

    /// The longest that one summary takes, about: no other replica makes it meanwhile.
    fn longest(&self) -> Duration {
        2 * self.config.timeout + self.config.longest_wait
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        // The limiter is never left half-written.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the summary of a prefix.
    #[must_use]
    pub fn state(&self, ledger: &Ledger, key: &Fingerprint) -> Option<State> {
        if let Some(ready) = ledger.summary(key) {
            return Some(State::Ready(ready));
        }
        let limiter = self.limiter();
        if limiter.is_running(key) {
            Some(State::Running)
        } else if limiter.has_failed(key) {
            Some(State::Failed)
        } else {
            None
        }
    }

    /// Takes note of tokens that were forwarded: summaries may cost a share of them.
    pub fn forwarded(&self, tenant: Fingerprint, tokens: u64) {
        self.limiter().forwarded(tenant, tokens);
    }

    /// Decides whether the pending summary may be made now.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        DueSummary { scope, pending }: &DueSummary,
        origin: &SummaryOrigin,
        ledger: &Ledger,
    ) -> Reserved {
        if self.background.is_closing() {
            return self.skip(SkipReason::Stopping);
        }
        let called = self.service_for(origin);
        let earlier = pending.earlier.as_ref();
        let earlier_tokens = earlier.map_or(0, |(_, summary)| summary.tokens);
        let reservation = Reservation {
            key: pending.key,
            prefixes: &pending.prefixes,
            tenant: origin.tenant,
            summarizer: called,
            tokens: pending.tokens + earlier_tokens + pending.max_tokens,
            allowance: origin.window,
        };
        let mut limiter = self.limiter();
        if let Some(finished) = limiter.running(&reservation) {
            return Reserved::Running(finished);
        }
        // It may have been finished since it was found missing.
        if ledger.summary(&pending.key).is_some() {
            return Reserved::Ready;
        }
        let begun = limiter.begin(&reservation, &self.config);
        drop(limiter);
        let finished = match begun {
            Ok(finished) => finished,
            Err(reason) => return self.skip(reason),
        };
        SummaryStarted.emit(&self.metrics);
        Reserved::Lease(Box::new(Lease {
            summarizer: Arc::clone(self),
            scope: *scope,
            pending: pending.clone(),
            tenant: origin.tenant,
            called,
            ended: Ended::Refused,
            finished,
        }))
    }

    fn skip(&self, reason: SkipReason) -> Reserved {
        SummarySkipped { reason }.emit(&self.series);
        Reserved::Skipped
    }

    /// Fingerprint of the service that a request's summaries are made by: failures of one key or
    /// model are not another's.
    fn service_for(&self, origin: &SummaryOrigin) -> Fingerprint {
        let model = self.config.model.as_ref().or(origin.model.as_ref());
        let tenant: &[u8] = if self.config.url.is_none() {
            &origin.tenant.0
        } else {
            b""
        };
        let model = model.map(String::as_bytes).unwrap_or_default();
        Fingerprint::of_parts(&[&self.identity.0, model, tenant])
    }
}

impl Lease {
    /// Signals the end of this preparation.
    pub(crate) fn finished(&self) -> watch::Receiver<()> {
        self.finished.subscribe()
    }

    /// Makes the summary and keeps it.
    pub(crate) async fn run(
        mut self,
        upstream: &Upstream,
        ledger: &Ledger,
        options: &Options,
        origin: &SummaryOrigin,
    ) {
        let summarizer = Arc::clone(&self.summarizer);
        let (scope, key) = (self.scope, self.pending.key);
        if !ledger.lease_summary(scope, key, summarizer.longest()).await {
            self.ended = Ended::Neither;
            let reason = SkipReason::Elsewhere;
            SummarySkipped { reason }.emit(&summarizer.series);
            let end = Instant::now() + options.wait;
            ledger.await_summary(scope, key, end).await;
            return;
        }
        let mut spent = Spent::default();
        let trace = CallTrace::default();
        let caller = make::Caller {
            summarizer: &summarizer,
            upstream,
            origin,
            trace: &trace,
        };
        let made = caller.make(&self.pending, options, &mut spent).await;
        let cost = spent.prompt_tokens + spent.completion_tokens;
        summarizer.limiter().spent(origin.tenant, cost);
        let outcome = made
            .as_ref()
            .map_or_else(NoSummary::outcome, |_| SummaryOutcome::Made);
        let address = caller.address();
        let last = trace.last();
        SummaryEnded {
            id: &origin.request,
            policy: &origin.policy,
            summarizer: &summarizer.config.name,
            address: &address,
            status: last.status,
            cause: last.cause.as_deref(),
            calls: last.tries,
            outcome,
            covered: self.pending.covered,
            stands_for: self.pending.tokens,
            spent,
            summary: made.as_ref().ok(),
        }
        .emit(&summarizer.metrics, &summarizer.series);
        self.ended = made.as_ref().map_or_else(NoSummary::ended, |_| Ended::Made);
        if let Ok(summary) = made {
            ledger.keep_summary(scope, key, summary);
        } else {
            ledger.release_summary(scope, key);
        }
    }
}
