//! The data path: one request from the client to the upstream and back.
//!
//! [`handle`] is the life of a request, in order. Everything it decides comes from `core`; everything it needs lives in
//! [`Proxy`], one per process.

mod ahead;
mod answer;
mod context;
mod error;
mod filtered;
mod inbound;
mod outbound;
mod rescue;
mod thinking;

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
use crate::core::chat::peek_model;
use crate::core::digest::Digest;
use crate::core::gate;
use crate::core::policy::{Mode, OnError, Policy, Source};
use crate::core::sse::UsageFilter;
use crate::core::strategy;
use crate::core::summary::Due;
use crate::core::when;
use crate::ledger::Ledger;
use crate::observe::{Action, Ending, Endpoint, Metrics, Phase, Traffic};
use crate::summarizer::{Occasion, Summarizer};
use crate::upstream::{Outgoing, Upstream};
use crate::windows::Windows;

use ahead::Arriving;
use answer::{Answer, Tap, is_encoded, is_event_stream};
use context::{Context, Finding};
pub use error::Refusal;
use filtered::Filtered;
use inbound::{Admission, Held, Wish};
use rescue::Again;
use thinking::{Failure, Question, Thought};

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
    traffic: Vec<Vec<Arc<Traffic>>>,
    /// Key of the tenants' fingerprints; new in every process, so that a dump of digests tells nothing about keys.
    tenant_key: [u8; 32],
}

impl Proxy {
    /// Prepares everything; connects to nothing yet.
    ///
    /// # Errors
    /// When the upstream's certificates cannot be read.
    pub fn new(config: Config, metrics: Arc<Metrics>) -> io::Result<Self> {
        let labels = || config.model_labels.iter().map(|(label, _)| label.as_str()).chain(["other"]);
        let traffic = config.policies.iter().map(|policy| labels().map(|label| Arc::new(metrics.traffic(&policy.name, label))).collect());
        let upstream_identity = format!("{}{}", config.upstream.origin, config.upstream.base_path.as_deref().unwrap_or_default());
        Ok(Proxy {
            traffic: traffic.collect(),
            ledger: Ledger::new(config.ledger_bytes, config.ledger_messages, config.window_lifetime),
            upstreams: (0..config.workers.max(1)).map(|_| Upstream::new(&config.upstream)).collect::<io::Result<_>>()?,
            summarizer: Arc::new(Summarizer::new(config.summarizer.clone(), &upstream_identity, Arc::clone(&metrics))),
            upstream_identity,
            windows: Arc::new(Windows::new(config.upstream.discover_windows, Arc::clone(&metrics))),
            admission: Admission::new(&config.limits, metrics.in_flight.clone()),
            tenant_key: crate::random::bytes(),
            config,
            metrics,
        })
    }

    /// Ends what runs beside requests, and waits until it has.
    pub async fn close(&self) {
        tokio::join!(self.windows.background.close(), self.summarizer.background.close());
    }

    /// Sees to it that the summary that is due is made, beside the request. Who wants to can wait for its end.
    fn prepare(
        self: &Arc<Self>,
        worker: usize,
        policy: usize,
        due: &Due,
        occasion: &Arc<Occasion>,
    ) -> Option<tokio::sync::watch::Receiver<()>> {
        let claim = match self.summarizer.claim(due, occasion, &self.ledger).ok()? {
            Ok(claim) => claim,
            Err(running) => return Some(running),
        };
        let (over, proxy, occasion) = (claim.over(), Arc::clone(self), Arc::clone(occasion));
        self.summarizer.background.spawn(async move {
            let options = proxy.config.policies.get(policy).and_then(Policy::summarize);
            if let (Some(upstream), Some((_, options))) = (proxy.upstreams.get(worker), options) {
                claim.run(upstream, &proxy.ledger, options, &occasion).await;
            }
        });
        Some(over)
    }

    /// Looks after the window of a model that just came up: asks the upstream if it is time, or says that nobody knows it.
    fn mind_window(self: &Arc<Self>, worker: usize, question: &Question, policy: &Policy, source: Source, headers: &HeaderMap) {
        let model = question.model.as_deref();
        if source == Source::Policy {
            return;
        }
        if source == Source::Default {
            self.windows.tell_unknown(&policy.name, model, question.window);
        }
        if let Some(claim) = self.windows.claim(model, question.tenant) {
            let credentials = headers.iter().filter(|(name, _)| CREDENTIALS.contains(&name.as_str()));
            let credentials: HeaderMap = credentials.map(|(name, value)| (name.clone(), value.clone())).collect();
            let proxy = Arc::clone(self);
            self.windows.background.spawn(async move {
                if let Some(upstream) = proxy.upstreams.get(worker) {
                    claim.ask(upstream, credentials).await;
                }
            });
        }
    }

    /// A fingerprint of who asks: a keyed hash of all credentials, whatever order they come in.
    fn tenant(&self, headers: &HeaderMap) -> Digest {
        let mut credentials: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        credentials.retain(|(name, _)| CREDENTIALS.contains(name));
        credentials.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(&self.tenant_key);
        for part in credentials.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// The policy for a request: the one it names if that may be chosen, else the first that matches.
    fn policy_for(&self, model: Option<&str>, path: &str, headers: &HeaderMap) -> Option<(usize, &Policy)> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let policies = || self.config.policies.iter().enumerate();
        let named = header(inbound::POLICY).and_then(|name| policies().find(|(_, policy)| policy.selectable && policy.name == name));
        named.or_else(|| policies().find(|(_, policy)| policy.matches(model, path, header)))
    }

    /// The metrics of a policy's traffic; the model's name where the configuration has one for it, else `other`.
    fn traffic(&self, policy: usize, model: Option<&str>) -> Option<Arc<Traffic>> {
        let known = model.and_then(|model| self.config.model_labels.iter().position(|(_, glob)| glob.is_match(model)));
        self.traffic.get(policy)?.get(known.unwrap_or(self.config.model_labels.len())).cloned()
    }

    fn upstream(&self, context: &Context) -> Result<&Upstream, Refusal> {
        self.upstreams.get(context.worker).ok_or(Refusal::Internal)
    }

    fn is_chat(&self, parts: &Parts) -> bool {
        parts.method == Method::POST && self.config.chat_suffixes.iter().any(|suffix| parts.uri.path().ends_with(suffix.as_str()))
    }
}

/// The life of a request, on the worker of this number.
///
/// # Errors
/// Never: what goes wrong is answered.
pub async fn handle(proxy: Arc<Proxy>, worker: usize, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();

    // 1. Admit.
    let permit = match proxy.admission.admit() {
        Ok(permit) => permit,
        Err(refusal) => {
            return Ok(refuse(&proxy, Context::new(Arc::clone(&proxy), worker, None, inbound::request_id(&parts.headers)), refusal));
        }
    };
    let mut context = Context::new(Arc::clone(&proxy), worker, Some(permit), inbound::request_id(&parts.headers));

    // 2. Route: chat completions are looked at, all else is streamed through unread.
    let answered = if proxy.is_chat(&parts) {
        context.endpoint = Endpoint::Chat;
        inspect(&proxy, &mut context, parts, body).await
    } else {
        pass(&proxy, &mut context, parts, body).await
    };
    Ok(match answered {
        Ok(answered) => respond(&proxy, context, answered),
        Err(refusal) => refuse(&proxy, context, refusal),
    })
}

/// An upstream's answer and the place on the connection it came by.
type Answered = (Response<Arriving>, Option<crate::upstream::Place>);
/// The same before any of its body was read.
type Begun = (Response<Incoming>, Option<crate::upstream::Place>);

async fn pass(proxy: &Arc<Proxy>, context: &mut Context, parts: Parts, body: Incoming) -> Result<Answered, Refusal> {
    let head = outbound::head(proxy.upstream(context)?, parts)?;
    Ok(unread(send(proxy, context, Request::from_parts(head, Outgoing::Stream(body))).await?))
}

fn unread((response, place): Begun) -> Answered {
    (response.map(Arriving::from), place)
}

async fn inspect(proxy: &Arc<Proxy>, context: &mut Context, parts: Parts, body: Incoming) -> Result<Answered, Refusal> {
    // 3. Read.
    let held: Held = proxy.admission.read(body, &parts.headers).await?;
    let body = &held.bytes;
    let began = Instant::now();

    // 4. Gate: opt-outs, and the proof that nothing can trigger.
    let model = peek_model(body);
    let path = parts.uri.path();
    let wish = inbound::wish(&parts.headers);
    let Some((at, policy)) = proxy.policy_for(model.as_deref(), path, &parts.headers) else { return Err(Refusal::Internal) };
    context.traffic = proxy.traffic(at, model.as_deref());
    let (window, source) = policy.window_by(model.as_deref(), proxy.windows.discovered(model.as_deref()));
    let opted_out = match () {
        () if wish == Wish::Off => Some("header"),
        () if policy.mode == Mode::Off => Some("policy"),
        () if is_encoded(&parts.headers) => Some("encoded_body"),
        () => None,
    };
    let tenant = proxy.tenant(&parts.headers);
    let model_key = thinking::model_key(proxy, &tenant, path, model.as_deref());
    context.model_key = Some(model_key);
    let mut question = Question {
        body: body.clone(),
        policy: at,
        window,
        model,
        path: path.to_owned(),
        tenant,
        model_key,
        force: wish == Wish::Force,
        observe: wish == Wish::Observe,
        sent: false,
        id: context.id.clone(),
        request: policy.when.as_ref().map_or_else(when::Request::default, |when| described(&parts.headers, when.reads_headers())),
        answers: policy.webhooks.iter().map(|_| strategy::Answer::Unasked).collect(),
        occasion: None,
        may_ask: false,
        prior: inbound::prior(&parts.headers),
        overflow: None,
        narrowed: None,
    };
    question.request.model = question.model.clone().unwrap_or_default();
    let learned = proxy.ledger.learned(&model_key);
    let live = policy.budget(learned.window.map_or(window, |learned| learned.min(window)));
    let gated = !question.force
        && gate::nothing_can_trigger(body, policy, &live, learned.factor)
        && proxy.ledger.may_gate(&thinking::checkpoint_seed(proxy, &question, policy, window));
    let injects = policy.inject_usage && policy.mode == Mode::Enforce && wish != Wish::Observe;
    let mut head = outbound::head(proxy.upstream(context)?, parts)?;
    let summarize = policy.summarize().filter(|_| policy.mode == Mode::Enforce && wish != Wish::Observe && opted_out.is_none());
    let forwarded = |finding: Option<&Finding>| {
        if let (Some(_), Some([_, after])) = (summarize, finding.and_then(|finding| finding.sizes)) {
            proxy.summarizer.forwarded(tenant, after.tokens);
        }
    };
    let mut original = vec![body.clone()];

    if let Some(reason) = opted_out {
        context.finding = Some(Finding::without_a_look(Action::Bypassed, reason, window));
        proxy.metrics.passes.with_label_values(&[reason]).inc();
        spent(proxy, context, began);
        return Ok(unread(send(proxy, context, outbound::with_body(head, original)).await?));
    }
    proxy.mind_window(context.worker, &question, policy, source, &head.headers);
    if gated {
        // Sent at once. What is worth knowing about it is found out while the upstream thinks.
        question.sent = true;
        context.usage_injected = injects && outbound::inject_usage(&mut head, body, &mut original);
        spent(proxy, context, began);
        let again = Again { policy, head: head.clone(), sent: original.clone(), question: question.clone() };
        let context_worker = context.worker;
        let learning = async {
            tokio::task::yield_now().await;
            thinking::ask(proxy, context_worker, question).await
        };
        let (answered, thought) = tokio::join!(send(proxy, context, outbound::with_body(head, original)), learning);
        let finding = thought.map_or_else(|_| Finding::without_a_look(Action::None, "gate", window), |thought| thought.finding);
        forwarded(Some(&finding));
        context.finding = Some(finding);
        proxy.metrics.gated.inc();
        return answer_or_rescue(proxy, context, again, answered?).await;
    }

    // 5 to 8. View, replay, estimate, decide, compact.
    if let Some((_, options)) = summarize {
        let credentials = head.headers.iter().filter(|(name, _)| CREDENTIALS.contains(&name.as_str()));
        question.may_ask = !options.wait.is_zero();
        question.occasion = Some(Arc::new(Occasion {
            body: body.clone(),
            uri: head.uri.clone(),
            credentials: credentials.map(|(name, value)| (name.clone(), value.clone())).collect(),
            model: question.model.clone(),
            tenant,
            window: learned.window.map_or(window, |learned| learned.min(window)),
            factor: learned.factor,
        }));
    }
    let on_error = policy.on_error;
    let spare = question.clone();
    let (mut waited_for_others, mut summary) = (Duration::ZERO, None);
    let mut pieces = match thinking::ask(proxy, context.worker, question).await {
        Ok(Thought { finding, body: edited, refused, due, waited }) => {
            waited_for_others = waited;
            if finding.action == Action::None {
                proxy.metrics.passes.with_label_values(&[finding.reason]).inc();
            }
            forwarded(Some(&finding));
            context.finding = Some(finding);
            summary = due.zip(spare.occasion.clone());
            if refused {
                // The next request may fit with it.
                if let Some((due, occasion)) = summary {
                    proxy.prepare(context.worker, at, &due, &occasion);
                }
                return Err(Refusal::Unfit);
            }
            edited.unwrap_or(original)
        }
        Err(failure) => {
            fail_open(proxy, context, failure, window);
            if on_error == OnError::Reject {
                return Err(Refusal::ThinkingFailed);
            }
            original
        }
    };
    if let (Some(_), Some(known)) = (policy.idle, context.finding.as_ref().and_then(|finding| finding.estimate)) {
        proxy.ledger.sent(known.key);
    }
    let failed = context.finding.as_ref().is_some_and(|finding| finding.action == Action::FailedOpen);
    context.usage_injected = injects && !failed && outbound::inject_usage(&mut head, body, &mut pieces);
    spent(proxy, context, began + waited_for_others);

    // 9. Send.
    let again = Again { policy, head: head.clone(), sent: pieces.clone(), question: spare };
    let answered = send_first(proxy, context, outbound::with_body(head, pieces), at, summary).await?;
    answer_or_rescue(proxy, context, again, answered).await
}

/// Sends a request, and behind it has the summary made that is due: an upstream that answers one at a time would let the
/// request wait for it, and one with a prompt cache has read by then what the summary may begin with.
async fn send_first(
    proxy: &Arc<Proxy>,
    context: &mut Context,
    request: Request<Outgoing>,
    policy: usize,
    summary: Option<(Due, Arc<Occasion>)>,
) -> Result<Begun, Refusal> {
    let worker = context.worker;
    let Some((due, occasion)) = summary else { return send(proxy, context, request).await };
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
async fn answer_or_rescue(proxy: &Arc<Proxy>, context: &mut Context, again: Again<'_>, begun: Begun) -> Result<Answered, Refusal> {
    let observed = again.question.observe || again.policy.mode == Mode::Observe;
    let thought = context.finding.as_ref().is_some_and(|finding| finding.sizes.is_some());
    if observed || !thought {
        return Ok(unread(begun));
    }
    let (response, place) = begun;
    match ahead::look(response).await {
        (response, None) => Ok((response, place)),
        (response, Some(overflow)) => rescue::rescue(proxy, context, again, (response, place), overflow).await,
    }
}

/// What an expression may know of a request beside its messages.
fn described(headers: &HeaderMap, reads_headers: bool) -> when::Request {
    let shown = headers.iter().filter(|(name, _)| reads_headers && !CREDENTIALS.contains(&name.as_str()));
    let headers = shown.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))).collect();
    when::Request { headers, ..when::Request::default() }
}

fn fail_open(proxy: &Proxy, context: &mut Context, failure: Failure, window: u64) {
    proxy.metrics.fail_open.with_label_values(&[failure.as_str()]).inc();
    context.finding = Some(Finding::without_a_look(Action::FailedOpen, failure.as_str(), window));
}

fn spent(proxy: &Proxy, context: &mut Context, began: Instant) {
    context.overhead = Instant::now().saturating_duration_since(began);
    proxy.metrics.spent(Phase::Total, context.overhead);
}

async fn send(proxy: &Proxy, context: &mut Context, request: Request<Outgoing>) -> Result<Begun, Refusal> {
    let upstream = proxy.upstream(context)?;
    let began = Instant::now();
    let answered = match tokio::time::timeout(proxy.config.upstream.response_timeout, upstream.send(request)).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) if error.is_connect() => return Err(Refusal::UpstreamUnreachable),
        Ok(Err(error)) if is_clients_fault(&error) => return Err(Refusal::BodyBroken),
        Ok(Err(_)) => return Err(Refusal::UpstreamBroke),
        Err(_) => return Err(Refusal::UpstreamTimeout),
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
    outbound::strip_hop_by_hop(&mut parts.headers);
    parts.version = hyper::Version::default();
    context.status = parts.status.as_u16();
    // Only an answer to a prompt that was read and taken tells its size.
    let teaches = parts.status.is_success() && context.finding.as_ref().is_some_and(|finding| finding.estimate.is_some());
    let tap = if teaches { Tap::for_answer(&parts.headers, &proxy.config.upstream.usage_headers) } else { Tap::default() };
    context.told = tap.told();
    let filters = context.usage_injected && parts.status.is_success() && is_event_stream(&parts.headers) && !is_encoded(&parts.headers);
    if filters {
        parts.headers.remove(CONTENT_LENGTH);
    }
    if context.usage_injected {
        proxy.metrics.usage_injected.inc();
    }
    context.explain(&mut parts.headers);
    let answer = Answer::new(body, tap, proxy.config.upstream.idle_timeout, place, Box::new(context));
    Response::from_parts(parts, Either::Left(Filtered::new(answer, filters.then(UsageFilter::default))))
}

fn refuse(proxy: &Proxy, mut context: Context, refusal: Refusal) -> Response<Body> {
    let mut response = refusal.response();
    proxy.metrics.refusals.with_label_values(&[refusal.kind()]).inc();
    context.status = response.status().as_u16();
    context.explain(response.headers_mut());
    context.end(Ending::Complete, None);
    response.map(Either::Right)
}
