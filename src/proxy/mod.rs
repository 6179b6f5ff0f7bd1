//! The data path: one request from the client to the upstream and back.
//!
//! [`handle`] is the life of a request, in order. Everything it decides comes from `core`; everything it needs lives in
//! [`Proxy`], one per process.

mod error;
mod exchange;
mod filtered;
mod headers;
mod overflow_retry;
mod peek;
mod plan;
mod read;
mod response;

use crate::core::policy::RequestFacts;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_LENGTH;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response};

use crate::config::Config;
use crate::core::conversation::Fingerprint;
use crate::core::planner::gate;
use crate::core::policy::{Mode, OnError, Policy, Source};
use crate::core::strategy;
use crate::core::summary::PendingSummary;
use crate::core::wire::Dialect;
use crate::ledger::Ledger;
use crate::observe::{Action, Endpoint, Metrics, Phase, StreamEnd, TrafficMetrics};
use crate::summarizer::{Summarizer, SummaryOrigin};
use crate::upstream::discovery::Windows;
use crate::upstream::{Outgoing, Upstream};

pub use error::ProxyError;
use exchange::{Context, Decision};
use filtered::Filtered;
use overflow_retry::RetryableRequest;
use peek::PeekedBody;
use plan::{Failure, PlanRequest, Planned};
use read::{Admission, BufferedBody, ModeOverride};
use response::{ResponseBody, UsageTap, is_encoded, is_event_stream};

/// Headers that say who asks. All of them make the tenant: two requests share nothing unless all agree.
const CREDENTIALS: [&str; 10] = [
    "authorization",
    "proxy-authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "openai-organization",
    "openai-project",
    "x-forwarded-user",
    "cookie",
];

/// A request has its upstream for itself for so long, or until it is answered, before a summary is asked for.
const HEAD_START: Duration = Duration::from_secs(1);

/// The body of an answer: the upstream's, or one of our own.
pub type Body = Either<Filtered, Full<Bytes>>;

/// Everything that requests share.
#[derive(Debug)]
pub struct Proxy {
    config: Config,
    metrics: Arc<Metrics>,
    ledger: Ledger,
    /// One a worker: connections stay on their thread.
    upstreams: Vec<Upstream>,
    /// What the upstream is called in digests.
    upstream_identity: String,
    /// What the upstream says of its models.
    windows: Arc<Windows>,
    /// Who makes summaries.
    summarizer: Arc<Summarizer>,
    admission: Admission,
    /// By policy, then by model label; the last is `other`.
    traffic: Vec<Vec<Arc<TrafficMetrics>>>,
    /// Key of the tenants' fingerprints; new in every process, so that a dump of digests tells nothing about keys.
    tenant_key: [u8; 32],
}

impl Proxy {
    /// Prepares everything; connects to nothing yet.
    ///
    /// # Errors
    /// When the upstream's certificates cannot be read.
    pub fn new(config: Config, metrics: Arc<Metrics>) -> io::Result<Self> {
        let labels = || {
            config
                .model_labels
                .iter()
                .map(|(label, _)| label.as_str())
                .chain(["other"])
        };
        let traffic = config.policies.iter().map(|policy| {
            labels()
                .map(|label| Arc::new(metrics.traffic(&policy.name, label)))
                .collect()
        });
        let upstream_identity = format!(
            "{}{}",
            config.upstream.origin,
            config.upstream.base_path.as_deref().unwrap_or_default()
        );
        Ok(Proxy {
            traffic: traffic.collect(),
            ledger: Ledger::new(
                config.ledger_bytes,
                config.ledger_messages,
                config.window_lifetime,
            ),
            upstreams: (0..config.workers.max(1))
                .map(|_| Upstream::new(&config.upstream))
                .collect::<io::Result<_>>()?,
            summarizer: Arc::new(Summarizer::new(
                config.summarizer.clone(),
                &upstream_identity,
                Arc::clone(&metrics),
            )),
            upstream_identity,
            windows: Arc::new(Windows::new(
                config.upstream.discover_windows,
                Arc::clone(&metrics),
            )),
            admission: Admission::new(&config.limits, metrics.in_flight.clone()),
            tenant_key: crate::random::bytes(),
            config,
            metrics,
        })
    }

    /// Ends what runs beside requests, and waits until it has.
    pub async fn close(&self) {
        tokio::join!(
            self.windows.background.close(),
            self.summarizer.background.close()
        );
    }

    /// Sees to it that the summary that is due is made, beside the request. Who wants to can wait for its end.
    fn prepare(
        self: &Arc<Self>,
        worker: usize,
        policy: usize,
        due: &PendingSummary,
        occasion: &Arc<SummaryOrigin>,
    ) -> Option<tokio::sync::watch::Receiver<()>> {
        let claim = match self.summarizer.claim(due, occasion, &self.ledger).ok()? {
            Ok(claim) => claim,
            Err(running) => return Some(running),
        };
        let (over, proxy, occasion) = (claim.over(), Arc::clone(self), Arc::clone(occasion));
        self.summarizer.background.spawn(async move {
            let options = proxy
                .config
                .policies
                .get(policy)
                .and_then(Policy::summarize);
            if let (Some(upstream), Some((_, options))) = (proxy.upstreams.get(worker), options) {
                claim.run(upstream, &proxy.ledger, options, &occasion).await;
            }
        });
        Some(over)
    }

    /// Looks after the window of a model that just came up: asks the upstream if it is time, or says that nobody knows it.
    fn refresh_window(
        self: &Arc<Self>,
        worker: usize,
        request: &PlanRequest,
        policy: &Policy,
        source: Source,
        headers: &HeaderMap,
    ) {
        let model = request.model.as_deref();
        if source == Source::Policy {
            return;
        }
        if source == Source::Default {
            self.windows
                .log_unknown_once(&policy.name, model, request.window);
        }
        if let Some(claim) = self.windows.claim(model, request.tenant) {
            let credentials = headers
                .iter()
                .filter(|(name, _)| CREDENTIALS.contains(&name.as_str()));
            let credentials: HeaderMap = credentials
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let proxy = Arc::clone(self);
            self.windows.background.spawn(async move {
                if let Some(upstream) = proxy.upstreams.get(worker) {
                    claim.ask(upstream, credentials).await;
                }
            });
        }
    }

    /// A fingerprint of who asks: a keyed hash of all credentials, whatever order they come in.
    fn tenant(&self, headers: &HeaderMap) -> Fingerprint {
        let mut credentials: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        credentials.retain(|(name, _)| CREDENTIALS.contains(name));
        credentials.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(&self.tenant_key);
        for part in credentials
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value])
        {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Fingerprint(*hasher.finalize().as_bytes())
    }

    /// The policy for a request: the one it names if that may be chosen, else the first that matches.
    fn policy_for(
        &self,
        model: Option<&str>,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<(usize, &Policy)> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let policies = || self.config.policies.iter().enumerate();
        let named = header(read::POLICY).and_then(|name| {
            policies().find(|(_, policy)| policy.delivery.selectable && policy.name == name)
        });
        named.or_else(|| policies().find(|(_, policy)| policy.matches(model, path, header)))
    }

    /// The metrics of a policy's traffic; the model's name where the configuration has one for it, else `other`.
    fn traffic(&self, policy: usize, model: Option<&str>) -> Option<Arc<TrafficMetrics>> {
        let known = model.and_then(|model| {
            self.config
                .model_labels
                .iter()
                .position(|(_, glob)| glob.is_match(model))
        });
        self.traffic
            .get(policy)?
            .get(known.unwrap_or(self.config.model_labels.len()))
            .cloned()
    }

    fn upstream(&self, context: &Context) -> Result<&Upstream, ProxyError> {
        self.upstreams
            .get(context.worker)
            .ok_or(ProxyError::Internal)
    }

    /// The wire format of a request that is to be inspected.
    fn route(&self, parts: &Parts) -> Option<Dialect> {
        if parts.method == Method::POST {
            Dialect::route(parts.uri.path(), &self.config.chat_suffixes)
        } else {
            None
        }
    }
}

/// The life of a request, on the worker of this number.
///
/// # Errors
/// Never: what goes wrong is answered.
pub async fn handle(
    proxy: Arc<Proxy>,
    worker: usize,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();

    // 1. Admit.
    let permit = match proxy.admission.admit() {
        Ok(permit) => permit,
        Err(refusal) => {
            return Ok(refuse(
                &proxy,
                Context::new(
                    Arc::clone(&proxy),
                    worker,
                    None,
                    read::request_id(&parts.headers),
                ),
                refusal,
            ));
        }
    };
    let mut context = Context::new(
        Arc::clone(&proxy),
        worker,
        Some(permit),
        read::request_id(&parts.headers),
    );

    // 2. Route: requests of a known dialect are inspected, all else is streamed through unread.
    context.dialect = proxy.route(&parts);
    let answered = if let Some(dialect) = context.dialect {
        context.endpoint = Endpoint::Chat;
        inspect(&proxy, &mut context, dialect, parts, body).await
    } else {
        pass(&proxy, &mut context, parts, body).await
    };
    Ok(match answered {
        Ok(answered) => respond(&proxy, context, answered),
        Err(refusal) => refuse(&proxy, context, refusal),
    })
}

/// An upstream's answer and the place on the connection it came by.
type Answered = (
    Response<PeekedBody>,
    Option<crate::upstream::ConnectionSlot>,
);
/// The same before any of its body was read.
type Begun = (Response<Incoming>, Option<crate::upstream::ConnectionSlot>);

async fn pass(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    parts: Parts,
    body: Incoming,
) -> Result<Answered, ProxyError> {
    let head = headers::head(proxy.upstream(context)?, parts)?;
    Ok(unread(
        send(
            proxy,
            context,
            Request::from_parts(head, Outgoing::Stream(body)),
        )
        .await?,
    ))
}

fn unread((response, place): Begun) -> Answered {
    (response.map(PeekedBody::from), place)
}

async fn inspect(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    dialect: Dialect,
    parts: Parts,
    body: Incoming,
) -> Result<Answered, ProxyError> {
    // 3. Read.
    let held: BufferedBody = proxy.admission.read(body, &parts.headers).await?;
    let body = &held.bytes;
    let began = Instant::now();

    // 4. Gate: opt-outs, and the proof that nothing can trigger.
    let model = dialect.peek_model(body);
    let path = parts.uri.path();
    let mode_override = read::mode_override(&parts.headers);
    let Some((at, policy)) = proxy.policy_for(model.as_deref(), path, &parts.headers) else {
        return Err(ProxyError::Internal);
    };
    context.traffic = proxy.traffic(at, model.as_deref());
    let (window, source) =
        policy.window_by(model.as_deref(), proxy.windows.discovered(model.as_deref()));
    let opted_out = match () {
        () if mode_override == ModeOverride::Off => Some("header"),
        () if policy.delivery.mode == Mode::Off => Some("policy"),
        () if is_encoded(&parts.headers) => Some("encoded_body"),
        () => None,
    };
    let tenant = proxy.tenant(&parts.headers);
    let model_key = plan::model_key(proxy, dialect, &tenant, path, model.as_deref());
    context.model_key = Some(model_key);
    let mut request = PlanRequest {
        dialect,
        body: body.clone(),
        policy: at,
        window,
        model,
        path: path.to_owned(),
        tenant,
        model_key,
        force: mode_override == ModeOverride::Force,
        observe: mode_override == ModeOverride::Observe,
        sent: false,
        id: context.id.clone(),
        request: policy
            .when
            .as_ref()
            .map_or_else(RequestFacts::default, |when| {
                described(&parts.headers, when.reads_headers())
            }),
        answers: policy
            .webhooks()
            .map(|_| strategy::WebhookAnswer::Unasked)
            .collect(),
        occasion: None,
        may_ask: false,
        prior: read::prior(&parts.headers),
        overflow: None,
        narrowed: None,
    };
    request.request.model = request.model.clone().unwrap_or_default();
    let learned = proxy.ledger.learned(&model_key);
    let live = policy.budget(learned.window.map_or(window, |learned| learned.min(window)));
    let gated = !request.force
        && gate::nothing_can_trigger(dialect, body, policy, &live, learned.factor)
        && proxy
            .ledger
            .may_gate(&plan::checkpoint_seed(proxy, &request, policy, window));
    let injects = policy.delivery.include_usage
        && policy.delivery.mode == Mode::Enforce
        && mode_override != ModeOverride::Observe;
    let mut head = headers::head(proxy.upstream(context)?, parts)?;
    let summarize = policy.summarize().filter(|_| {
        policy.delivery.mode == Mode::Enforce
            && mode_override != ModeOverride::Observe
            && opted_out.is_none()
    });
    let forwarded = |decision: Option<&Decision>| {
        if let (Some(_), Some([_, after])) =
            (summarize, decision.and_then(|decision| decision.sizes))
        {
            proxy.summarizer.forwarded(tenant, after.tokens);
        }
    };
    let mut original = vec![body.clone()];

    if let Some(reason) = opted_out {
        context.decision = Some(Decision::without_a_look(Action::Bypassed, reason, window));
        proxy.metrics.passes.with_label_values(&[reason]).inc();
        spent(proxy, context, began);
        return Ok(unread(
            send(proxy, context, headers::with_body(head, original)).await?,
        ));
    }
    proxy.refresh_window(context.worker, &request, policy, source, &head.headers);
    if gated {
        // Sent at once. What is worth knowing about it is found out while the upstream thinks.
        request.sent = true;
        context.usage_included =
            injects && headers::include_usage(dialect, &mut head, body, &mut original);
        spent(proxy, context, began);
        let again = RetryableRequest {
            policy,
            head: head.clone(),
            sent: original.clone(),
            request: request.clone(),
        };
        let context_worker = context.worker;
        let learning = async {
            tokio::task::yield_now().await;
            plan::ask(proxy, context_worker, request).await
        };
        let (answered, thought) = tokio::join!(
            send(proxy, context, headers::with_body(head, original)),
            learning
        );
        let decision = thought.map_or_else(
            |_| Decision::without_a_look(Action::None, "gate", window),
            |thought| thought.decision,
        );
        forwarded(Some(&decision));
        context.decision = Some(decision);
        proxy.metrics.gated.inc();
        return answer_or_rescue(proxy, context, again, answered?).await;
    }

    // 5 to 8. View, replay, estimate, decide, compact.
    if let Some((_, options)) = summarize {
        let credentials = head
            .headers
            .iter()
            .filter(|(name, _)| CREDENTIALS.contains(&name.as_str()));
        request.may_ask = !options.wait.is_zero();
        request.occasion = Some(Arc::new(SummaryOrigin {
            body: body.clone(),
            uri: head.uri.clone(),
            credentials: credentials
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            model: request.model.clone(),
            tenant,
            window: learned.window.map_or(window, |learned| learned.min(window)),
            factor: learned.factor,
        }));
    }
    let on_error = policy.delivery.on_error;
    let spare = request.clone();
    let (mut waited_for_others, mut summary) = (Duration::ZERO, None);
    let mut pieces = match plan::ask(proxy, context.worker, request).await {
        Ok(Planned {
            decision,
            body: edited,
            refused,
            due,
            waited,
        }) => {
            waited_for_others = waited;
            if decision.action == Action::None {
                proxy
                    .metrics
                    .passes
                    .with_label_values(&[decision.reason])
                    .inc();
            }
            forwarded(Some(&decision));
            context.decision = Some(decision);
            summary = due.zip(spare.occasion.clone());
            if refused {
                // The next request may fit with it.
                if let Some((due, occasion)) = summary {
                    proxy.prepare(context.worker, at, &due, &occasion);
                }
                return Err(ProxyError::Unfit);
            }
            edited.unwrap_or(original)
        }
        Err(failure) => {
            fail_open(proxy, context, failure, window);
            if on_error == OnError::Reject {
                return Err(ProxyError::PlanningFailed);
            }
            original
        }
    };
    if let (Some(_), Some(known)) = (
        policy.idle,
        context
            .decision
            .as_ref()
            .and_then(|decision| decision.estimate),
    ) {
        proxy.ledger.sent(known.key);
    }
    let failed = context
        .decision
        .as_ref()
        .is_some_and(|decision| decision.action == Action::FailedOpen);
    context.usage_included =
        injects && !failed && headers::include_usage(dialect, &mut head, body, &mut pieces);
    spent(proxy, context, began + waited_for_others);

    // 9. Send.
    let again = RetryableRequest {
        policy,
        head: head.clone(),
        sent: pieces.clone(),
        request: spare,
    };
    let answered = send_first(
        proxy,
        context,
        headers::with_body(head, pieces),
        at,
        summary,
    )
    .await?;
    answer_or_rescue(proxy, context, again, answered).await
}

/// Sends a request, and behind it has the summary made that is due: an upstream that answers one at a time would let the
/// request wait for it, and one with a prompt cache has read by then what the summary may begin with.
async fn send_first(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    request: Request<Outgoing>,
    policy: usize,
    summary: Option<(PendingSummary, Arc<SummaryOrigin>)>,
) -> Result<Begun, ProxyError> {
    let worker = context.worker;
    let Some((due, occasion)) = summary else {
        return send(proxy, context, request).await;
    };
    let mut sending = pin!(send(proxy, context, request));
    let early = tokio::time::timeout(HEAD_START, &mut sending).await.ok();
    if !matches!(early, Some(Err(_))) {
        proxy.prepare(worker, policy, &due, &occasion);
    }
    match early {
        Some(answered) => answered,
        None => sending.await,
    }
}

/// 10. Looks whether the upstream refused the request as too long, and makes the best of it.
async fn answer_or_rescue(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    again: RetryableRequest<'_>,
    begun: Begun,
) -> Result<Answered, ProxyError> {
    let observed = again.request.observe || again.policy.delivery.mode == Mode::Observe;
    let thought = context
        .decision
        .as_ref()
        .is_some_and(|decision| decision.sizes.is_some());
    if observed || !thought {
        return Ok(unread(begun));
    }
    let (response, place) = begun;
    match peek::look(again.request.dialect, response).await {
        (response, None) => Ok((response, place)),
        (response, Some(overflow)) => {
            overflow_retry::rescue(proxy, context, again, (response, place), overflow).await
        }
    }
}

/// What an expression may know of a request beside its messages.
fn described(headers: &HeaderMap, reads_headers: bool) -> RequestFacts {
    let shown = headers
        .iter()
        .filter(|(name, _)| reads_headers && !CREDENTIALS.contains(&name.as_str()));
    let headers = shown
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    RequestFacts {
        headers,
        ..RequestFacts::default()
    }
}

fn fail_open(proxy: &Proxy, context: &mut Context, failure: Failure, window: u64) {
    proxy
        .metrics
        .fail_open
        .with_label_values(&[failure.as_str()])
        .inc();
    context.decision = Some(Decision::without_a_look(
        Action::FailedOpen,
        failure.as_str(),
        window,
    ));
}

fn spent(proxy: &Proxy, context: &mut Context, began: Instant) {
    context.overhead = Instant::now().saturating_duration_since(began);
    proxy.metrics.spent(Phase::Total, context.overhead);
}

async fn send(
    proxy: &Proxy,
    context: &mut Context,
    request: Request<Outgoing>,
) -> Result<Begun, ProxyError> {
    let upstream = proxy.upstream(context)?;
    let began = Instant::now();
    let answered = match tokio::time::timeout(
        proxy.config.upstream.response_timeout,
        upstream.send(request),
    )
    .await
    {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) if error.is_connect() => return Err(ProxyError::UpstreamUnreachable),
        Ok(Err(error)) if is_clients_fault(&error) => return Err(ProxyError::BodyBroken),
        Ok(Err(_)) => return Err(ProxyError::UpstreamBroke),
        Err(_) => return Err(ProxyError::UpstreamTimeout),
    };
    context.first_byte = Some(began.elapsed());
    Ok(answered)
}

/// Whether sending failed because the client's body did.
fn is_clients_fault(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(|error| error.is_user() || error.is_body_write_aborted())
}

/// 10 and 11. The answer streams through; its end writes the request down.
fn respond(proxy: &Proxy, mut context: Context, (response, place): Answered) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers::strip_hop_by_hop(&mut parts.headers);
    parts.version = hyper::Version::default();
    context.status = parts.status.as_u16();
    // Only an answer to a prompt that was read and taken tells its size.
    let teaches = parts.status.is_success()
        && context
            .decision
            .as_ref()
            .is_some_and(|decision| decision.estimate.is_some());
    let tap = if teaches {
        UsageTap::for_answer(
            context.dialect.unwrap_or_default(),
            &parts.headers,
            &proxy.config.upstream.usage_headers,
        )
    } else {
        UsageTap::default()
    };
    context.told = tap.told();
    let filters = context.usage_included
        && parts.status.is_success()
        && is_event_stream(&parts.headers)
        && !is_encoded(&parts.headers);
    if filters {
        parts.headers.remove(CONTENT_LENGTH);
    }
    if context.usage_included {
        proxy.metrics.usage_included.inc();
    }
    context.set_headers(&mut parts.headers);
    let filter = context
        .dialect
        .filter(|_| filters)
        .map(Dialect::usage_filter);
    let answer = ResponseBody::new(
        body,
        tap,
        proxy.config.upstream.idle_timeout,
        place,
        Box::new(context),
    );
    Response::from_parts(parts, Either::Left(Filtered::new(answer, filter)))
}

fn refuse(proxy: &Proxy, mut context: Context, refusal: ProxyError) -> Response<Body> {
    let mut response = refusal.response(context.dialect.unwrap_or_default());
    proxy
        .metrics
        .refusals
        .with_label_values(&[refusal.kind()])
        .inc();
    context.status = response.status().as_u16();
    context.set_headers(response.headers_mut());
    context.end(StreamEnd::Complete, None);
    response.map(Either::Right)
}
