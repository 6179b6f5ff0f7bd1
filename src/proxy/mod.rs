//! The data path: one request from the client to the upstream and back.
//!
//! [`handle`] is the life of a request, in order. Every decision in it comes from `core`.
//!
//! ```text
//! auth            who may use Baler
//! cached          what the upstream had in its prompt cache, for metrics
//! admission       permits, and bodies read within limits
//! routing         the endpoint of a path, and the policy of a request
//! tenant          fingerprints of credentials, models and conversations' seeds
//! signed          requests whose body must stay as it is
//! decode_body     bodies with a content encoding
//! read            a chat request, and everything known of it
//! gate            requests that need no plan
//! decide          what is sent for a request that needs a plan
//! plan            the core, run for one request within a budget of time
//! pool            the threads that plan
//! plan_request    one request as planning sees it
//! plan_run        one run of the planner
//! plan_open       the body, read as far as it is new
//! plan_keys       the keys of the ledger for one run
//! send            one request to the upstream
//! peek            the beginning of its answer
//! overflow_retry  a smaller request, sent once more
//! response        the answer on its way to the client
//! usage_tap       usage that the answer reports, read on the side
//! usage_filter    the answer without usage that only Baler requested
//! exchange        the record of one request
//! warning         what a request asks that Baler does not know
//! headers, error  what goes on to the upstream and back
//! ```

mod admission;
mod auth;
mod cached;
mod clock;
mod decide;
mod decode_body;
mod error;
mod exchange;
mod gate;
mod headers;
mod overflow_retry;
mod peek;
mod plan;
mod plan_keys;
mod plan_open;
mod plan_request;
mod plan_run;
mod pool;
mod read;
mod response;
mod routing;
mod send;
mod signed;
mod tenant;
mod usage_filter;
mod usage_tap;
mod warning;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use tokio::sync::watch;

use crate::background::Background;
use crate::config::Config;
use crate::core::conversation::Fingerprint;
use crate::core::wire::Dialect;
use crate::ledger::{Ledger, Secrets};
use crate::observe::Metrics;
use crate::summarizer::{DueSummary, Reserved, Summarizers};
use crate::upstream::Upstream;
use crate::upstream::discovery::Windows;

pub use error::ProxyError;

use admission::Admission;
use auth::Gatekeeper;
use cached::CachedPrompts;
use exchange::Exchange;
use gate::Gate;
use plan_request::PlanRequest;
use pool::PlanningPool;
use read::Read;
use routing::Routes;
use send::UpstreamResponse;
use tenant::Identities;
use usage_filter::ClientBody;

/// The body of an answer: the upstream's, or one of Baler's own.
pub type Body = Either<ClientBody, Full<Bytes>>;

/// The proxy of one worker: the state that all requests share, and upstream connections of its own,
/// so that a connection stays on its thread.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    upstream: Upstream,
}

/// The state that the requests of all workers share.
#[derive(Debug)]
pub struct Shared {
    snapshot: Arc<Snapshot>,
    gatekeeper: Gatekeeper,
    /// What was seen before: the first one of each kind is logged.
    seen: Seen,
    admission: Admission,
    pool: PlanningPool,
    identities: Identities,
    ledger: Ledger,
    cached: CachedPrompts,
    /// Context lengths that the upstream reports for its models.
    windows: Arc<Windows>,
    summarizers: Summarizers,
    /// Tasks that belong to nobody else.
    background: Background,
    metrics: Arc<Metrics>,
}

/// Requests of a kind that operators should know of.
#[derive(Debug, Default)]
struct Seen {
    /// A signed one.
    signed: AtomicBool,
    /// One to the Responses API.
    responses: AtomicBool,
    /// One to the Messages API.
    messages: AtomicBool,
    /// One whose policy's expression failed: the names of those policies.
    failed_conditions: Mutex<BTreeSet<String>>,
}

impl Seen {
    /// Whether this is the first time that the expression of this policy fails.
    fn is_first_failure(&self, policy: &str) -> bool {
        let policies = self.failed_conditions.lock();
        let mut policies = policies.unwrap_or_else(PoisonError::into_inner);
        !policies.contains(policy) && policies.insert(policy.to_owned())
    }
}

/// One configuration and what follows from it. A request keeps the snapshot it began with.
#[derive(Debug)]
struct Snapshot {
    config: Config,
    routes: Routes,
}

impl Shared {
    /// Prepares the state, and opens the ledger.
    ///
    /// # Errors
    /// When the ledger cannot be opened, or the system has no threads to give.
    pub fn new(config: Config, metrics: Arc<Metrics>) -> io::Result<Self> {
        let ledger = Ledger::open(&config.ledger, Arc::clone(&metrics))?;
        let tenant_key = ledger.secrets().tenant_key();
        let identities = Identities::new(&config.upstream, config.tenant.clone(), tenant_key);
        let summarizers = Summarizers::new(&config.summarizers, identities.upstream(), &metrics);
        let windows = Windows::new(config.upstream.discover_windows, Arc::clone(&metrics));
        Ok(Shared {
            pool: PlanningPool::new(config.workers)?,
            seen: Seen::default(),
            cached: CachedPrompts::default(),
            gatekeeper: Gatekeeper::new(config.auth_tokens.as_ref()),
            admission: Admission::new(&config.limits, Arc::clone(&metrics)),
            identities,
            ledger,
            windows: Arc::new(windows),
            summarizers,
            background: Background::default(),
            snapshot: Arc::new(Snapshot {
                routes: Routes::new(&config, &metrics),
                config,
            }),
            metrics,
        })
    }

    /// What answers a request whose handling panicked.
    #[must_use]
    pub fn after_panic(&self) -> fn() -> Response<Full<Bytes>> {
        if self.snapshot.config.response_headers {
            after_panic
        } else {
            after_panic_bare
        }
    }

    /// Ends the background tasks and waits for them.
    pub async fn close(&self) {
        tokio::join!(
            self.windows.background.close(),
            self.summarizers.close(),
            self.background.close()
        );
    }

    /// Waits until everything that was recorded is written, but not for ever.
    pub async fn flush(&self) {
        self.ledger.flush().await;
    }
}

impl Proxy {
    /// A worker's proxy. It connects to nothing yet.
    ///
    /// # Errors
    /// When the upstream's certificates cannot be read.
    pub fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let upstream = Upstream::new(&shared.snapshot.config.upstream)?;
        Ok(Proxy { shared, upstream })
    }

    /// Has the pending summary made in the background, unless limits forbid it. The receiver
    /// signals its end.
    fn spawn_summary(
        self: &Arc<Self>,
        request: &Arc<PlanRequest>,
        due: &DueSummary,
    ) -> Option<watch::Receiver<()>> {
        let origin = request.origin.as_ref()?;
        let summarizer = self.shared.summarizers.of(&request.policy);
        let lease = match summarizer.reserve(due, origin, &self.shared.ledger) {
            Reserved::Lease(lease) => lease,
            Reserved::Running(finished) => return Some(finished),
            Reserved::Ready | Reserved::Skipped => return None,
        };
        let finished = lease.finished();
        let proxy = Arc::clone(self);
        let request = Arc::clone(request);
        summarizer.background.spawn(async move {
            let summarize = request.policy.summarize();
            if let (Some((_, options)), Some(origin)) = (summarize, &request.origin) {
                let ledger = &proxy.shared.ledger;
                lease.run(&proxy.upstream, ledger, options, origin).await;
            }
        });
        Some(finished)
    }
}

/// The fingerprint of the tenant whose requests have these headers and this query.
#[must_use]
pub fn tenant_of(
    config: &Config,
    secrets: &Secrets,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Fingerprint {
    let tenant_key = secrets.tenant_key();
    Identities::new(&config.upstream, config.tenant.clone(), tenant_key).tenant(headers, query)
}

/// The answer to a request whose handling panicked.
#[must_use]
pub fn after_panic() -> Response<Full<Bytes>> {
    ProxyError::Internal.response(Dialect::default())
}

/// The same without headers of Baler's.
fn after_panic_bare() -> Response<Full<Bytes>> {
    let mut response = after_panic();
    headers::strip_own(response.headers_mut());
    response
}

/// Answers one request.
///
/// # Errors
/// Never: a failure is answered with an error of Baler's own.
pub async fn handle(
    proxy: Arc<Proxy>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let mut exchange = Exchange::new(proxy, headers::request_id(request.headers()));
    let served = serve(&mut exchange, request).await;
    Ok(match served {
        Ok(response) => exchange.respond(response),
        Err(error) => exchange.refuse(error),
    })
}

/// The life of a request, as `src/README.md` has it. Step 11, *record*, follows when the response
/// body ends.
async fn serve(
    x: &mut Exchange,
    request: Request<Incoming>,
) -> Result<UpstreamResponse, ProxyError> {
    // 1. Admit.
    x.authenticate(request.headers())?;
    x.admit()?;
    headers::check(&request)?;
    // 2. Route.
    let Some(dialect) = x.route(&request) else {
        return x.stream_through(request).await;
    };
    // 3. Read.
    let request = match x.read(request, dialect).await? {
        Read::Chat(request) => request,
        Read::Unread(request) => return x.stream_unread(*request).await,
    };
    // 4. Gate.
    let outgoing = match x.gate(&request) {
        Gate::Bypass(reason) => x.forward(request, reason),
        Gate::CannotTrigger => x.forward_and_assess(request),
        // 5 to 8. View, replay, estimate, decide.
        Gate::Open => x.plan(request).await?,
    };
    // 9. Send.
    let sent = x.send(outgoing).await?;
    // 10. Peek at the answer; on an overflow learn, compact harder, retry once.
    x.recover_from_overflow(sent).await
}
