//! The one caller of a model on Baler's own account: makes summaries beside requests, before anybody needs them.
//!
//! What to ask and what to make of an answer is `core::summary`; this is who is asked, when, how often, and what is done
//! when it fails. Nothing here can fail a request: whoever needs a summary that is not there goes on without it.
//!
//! INVARIANT: a request's own credentials go to its own upstream and nowhere else.

mod call;
mod limiter;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::background::Background;
use crate::config;
use crate::config::Key;
use crate::core::conversation::Fingerprint;
use crate::core::conversation::group;
use crate::core::conversation::scale;
use crate::core::models;
use crate::core::summary::{
    Answer, ChunkPlan, Options, PendingSummary, Rejected, Spent, State, Summary, SummaryModel,
    Terms, continued, request, validate,
};
use crate::core::tokens::Encoding;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Chat;
use crate::core::wire::own_call::{Manner, OutputLimit, Parameter};
use crate::ledger::Ledger;
use crate::observe::{Metrics, SummaryMade, summary_call};
use crate::upstream::{Outgoing, Upstream};

use call::Failed;
pub(crate) use limiter::Skipped;
use limiter::{Limiter, Reservation};

/// The wire format of Baler's own calls.
const OWN_DIALECT: Dialect = Dialect::ChatCompletions;
/// Questions for one summary at most, folds and second thoughts included.
const MOST_CALLS: u64 = 64;
/// Times that a summariser may find a piece too long before it is given up.
const MOST_OVERFLOWS: u32 = 3;
/// Parameters that a summariser may not know.
const MOST_ADAPTATIONS: u32 = 2;

/// Makes summaries.
#[derive(Debug)]
pub struct Summarizer {
    config: config::Summarizer,
    /// Digest of who is asked, and of what.
    identity: Fingerprint,
    metrics: Arc<Metrics>,
    bounds: Mutex<Limiter>,
    /// Those who ask.
    pub background: Background,
}

/// The request that a summary is made for.
#[derive(Debug, Clone)]
pub struct SummaryOrigin {
    /// Its body.
    pub body: Bytes,
    /// Where it goes.
    pub uri: Uri,
    /// Its credentials.
    pub credentials: HeaderMap,
    /// The model it names.
    pub model: Option<String>,
    /// Fingerprint of its credentials.
    pub tenant: Fingerprint,
    /// The context length of its model, tokens.
    pub window: u64,
    /// The upstream's tokens per token of ours.
    pub factor: f64,
}

impl SummaryOrigin {
    fn encoding(&self) -> Encoding {
        Encoding::for_model(self.model.as_deref().unwrap_or_default())
    }
}

/// A place for one preparation. What ends without a word has failed.
#[derive(Debug)]
pub(crate) struct Lease {
    summarizer: Arc<Summarizer>,
    due: PendingSummary,
    tenant: Fingerprint,
    asked: Fingerprint,
    fine: Option<bool>,
    /// Whoever waits hears when it is dropped.
    over: watch::Sender<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Summarizer {
            config, metrics, ..
        } = &*self.summarizer;
        let reservation = Reservation {
            key: self.due.key,
            prefixes: &[],
            tenant: self.tenant,
            summarizer: self.asked,
            tokens: 0,
            allowance: 0,
        };
        let mut bounds = self.summarizer.bounds();
        bounds.ended(&reservation, self.fine, config);
        metrics
            .summarizer_breakers
            .set(i64::try_from(bounds.open_breakers()).unwrap_or(i64::MAX));
        metrics.summaries_running.dec();
    }
}

/// Why there is no summary.
enum NoSummary {
    Failed(Failed),
    Rejected(Rejected),
    /// The request cannot be read, or the window holds no piece of it: nothing that another call would change.
    Impossible,
}

impl NoSummary {
    fn as_str(&self) -> &'static str {
        match self {
            NoSummary::Failed(failed) => failed.as_str(),
            NoSummary::Rejected(rejected) => rejected.as_str(),
            NoSummary::Impossible => "impossible",
        }
    }
}

impl Summarizer {
    /// Asks nobody yet. `upstream` is what the upstream is called in digests.
    #[must_use]
    pub fn new(config: config::Summarizer, upstream: &str, metrics: Arc<Metrics>) -> Self {
        let style: &[u8] = if config.suffix {
            b"suffix"
        } else {
            b"transcript"
        };
        let (url, model) = (
            config.url.as_deref().unwrap_or(upstream),
            config.model.as_deref().unwrap_or_default(),
        );
        let identity = Fingerprint::of_parts(&[
            b"summary",
            upstream.as_bytes(),
            url.as_bytes(),
            model.as_bytes(),
            style,
            config.instructions.as_bytes(),
        ]);
        Summarizer {
            config,
            identity,
            metrics,
            bounds: Mutex::default(),
            background: Background::default(),
        }
    }

    /// The first link of the keys of summaries: for whom, and under which policy. Another summariser's are others.
    #[must_use]
    pub fn seed(
        &self,
        dialect: Dialect,
        tenant: &Fingerprint,
        policy: &Fingerprint,
    ) -> Fingerprint {
        Fingerprint::of_parts(&[
            &self.identity.0,
            dialect.as_str().as_bytes(),
            &tenant.0,
            &policy.0,
        ])
    }

    fn bounds(&self) -> MutexGuard<'_, Limiter> {
        // What it protects is written whole.
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the summary of a prefix.
    #[must_use]
    pub fn state(&self, ledger: &Ledger, key: &Fingerprint) -> Option<State> {
        if let Some(ready) = ledger.summary(key) {
            return Some(State::Ready(ready));
        }
        let bounds = self.bounds();
        match () {
            () if bounds.is_running(key) => Some(State::Running),
            () if bounds.has_failed(key) => Some(State::Failed),
            () => None,
        }
    }

    /// Takes note of tokens that were forwarded: summaries may cost a share of them.
    pub fn forwarded(&self, tenant: Fingerprint, tokens: u64) {
        self.bounds().forwarded(tenant, tokens);
    }

    /// A place for making the summary that is due, or where to wait for the one who has it.
    pub(crate) fn claim(
        self: &Arc<Self>,
        due: &PendingSummary,
        occasion: &SummaryOrigin,
        ledger: &Ledger,
    ) -> Result<Result<Lease, watch::Receiver<()>>, Skipped> {
        let claimed = self.try_claim(due, occasion, ledger);
        if let Err(skipped) = &claimed
            && *skipped != Skipped::Known
        {
            self.metrics
                .summaries
                .with_label_values(&[skipped.as_str()])
                .inc();
        }
        claimed
    }

    fn try_claim(
        self: &Arc<Self>,
        due: &PendingSummary,
        occasion: &SummaryOrigin,
        ledger: &Ledger,
    ) -> Result<Result<Lease, watch::Receiver<()>>, Skipped> {
        if self.background.is_closing() {
            return Err(Skipped::Stopping);
        }
        let own: &[u8] = if self.config.url.is_none() {
            &occasion.tenant.0
        } else {
            b""
        };
        let model = self
            .config
            .model
            .as_deref()
            .or(occasion.model.as_deref())
            .unwrap_or_default();
        let asked = Fingerprint::of_parts(&[&self.identity.0, model.as_bytes(), own]);
        let earlier = due
            .earlier
            .as_ref()
            .map_or(0, |(_, summary)| summary.tokens);
        let reservation = Reservation {
            key: due.key,
            prefixes: &due.prefixes,
            tenant: occasion.tenant,
            summarizer: asked,
            tokens: due.tokens + earlier + due.max_tokens,
            allowance: occasion.window,
        };
        let mut bounds = self.bounds();
        if let Some(over) = bounds.running(&reservation) {
            return Ok(Err(over));
        }
        // It may have been finished since it was found missing.
        if ledger.summary(&due.key).is_some() {
            return Err(Skipped::Known);
        }
        let over = bounds.begin(&reservation, &self.config)?;
        drop(bounds);
        self.metrics.summaries_running.inc();
        Ok(Ok(Lease {
            summarizer: Arc::clone(self),
            due: due.clone(),
            tenant: occasion.tenant,
            asked,
            fine: Some(false),
            over,
        }))
    }
}

impl Lease {
    /// Where to wait for its end.
    pub(crate) fn over(&self) -> watch::Receiver<()> {
        self.over.subscribe()
    }

    /// Makes the summary and keeps it.
    pub(crate) async fn run(
        mut self,
        upstream: &Upstream,
        ledger: &Ledger,
        options: &Options,
        occasion: &SummaryOrigin,
    ) {
        let summarizer = Arc::clone(&self.summarizer);
        let mut spent = Spent::default();
        let made = make(
            &summarizer,
            &self.due,
            upstream,
            options,
            occasion,
            &mut spent,
        )
        .await;
        summarizer.bounds().spent(
            occasion.tenant,
            spent.prompt_tokens + spent.completion_tokens,
        );
        let event = SummaryMade {
            outcome: made.as_ref().map_or_else(NoSummary::as_str, |_| "made"),
            covered: self.due.covered,
            stands_for: self.due.tokens,
            spent,
            summary: made.as_ref().ok(),
        };
        event.emit(&summarizer.metrics);
        self.fine = match &made {
            Ok(_) => Some(true),
            // No more calls this minute, that is all.
            Err(NoSummary::Failed(Failed::Rate)) => None,
            Err(_) => Some(false),
        };
        if let Ok(summary) = made {
            ledger.keep_summary(self.due.key, summary);
        }
    }
}

/// Everything that takes computing before the first question.
struct Prepared {
    material: ChunkPlan,
    /// The client's own list continued, where that is wanted.
    continued: Option<String>,
    key: Option<HeaderValue>,
}

async fn make(
    summarizer: &Summarizer,
    due: &PendingSummary,
    upstream: &Upstream,
    options: &Options,
    occasion: &SummaryOrigin,
    spent: &mut Spent,
) -> Result<Summary, NoSummary> {
    let began = Instant::now();
    let config = &summarizer.config;
    let model = config.model.clone().or_else(|| occasion.model.clone());
    let manner = Manner {
        limit: config.limit,
        max_tokens: due.max_tokens,
        temperature: config
            .temperature
            .filter(|_| model.as_deref().is_none_or(models::takes_temperature)),
        parameters: config.parameters.clone(),
        model,
    };
    let window = window(config, occasion, manner.model.as_deref());
    let prepared = prepare(
        config,
        due.clone(),
        options.clone(),
        occasion.clone(),
        manner.clone(),
        window,
    )
    .await?;
    let Prepared {
        material,
        continued,
        key,
    } = prepared;
    let asking = Asking {
        summarizer,
        upstream,
        occasion,
        key,
    };

    let of_continued = match continued {
        Some(body) => asking.continued(body, due.tokens, spent).await?,
        None => None,
    };
    let (text, material) = match of_continued {
        Some(text) => (text, material),
        None => asking.folded(material, manner, window, spent).await?,
    };
    let terms = Terms {
        max_tokens: due.max_tokens,
        stands_for: due.tokens,
        max_ungrounded: options.max_ungrounded,
    };
    let (split, incremental, generation) =
        (material.split(), material.incremental, material.generation);
    let encoding = occasion.encoding();
    let accepted =
        match off_the_loop(move || validate(text, &material.source, terms, encoding)).await? {
            Ok(accepted) => accepted,
            Err((rejected, ungrounded)) => {
                if rejected == Rejected::Ungrounded {
                    summarizer.metrics.summary_ungrounded.observe(ungrounded);
                }
                return Err(NoSummary::Rejected(rejected));
            }
        };
    summarizer
        .metrics
        .summary_ungrounded
        .observe(accepted.ungrounded);
    let spent = Spent {
        took: began.elapsed(),
        ..*spent
    };
    Ok(Summary {
        text: accepted.text.into(),
        tokens: accepted.tokens,
        generation,
        incremental,
        split,
        spent,
    })
}

/// The context length of whoever is asked, in our tokens.
fn window(config: &config::Summarizer, occasion: &SummaryOrigin, model: Option<&str>) -> u64 {
    if config.url.is_none() && config.model.is_none() {
        return scale(
            config.window.unwrap_or(occasion.window),
            1.0 / occasion.factor.max(1.0),
        );
    }
    let known = || model.and_then(models::known).map(|known| known.window);
    config.window.or_else(known).unwrap_or(occasion.window)
}

async fn prepare(
    config: &config::Summarizer,
    due: PendingSummary,
    options: Options,
    occasion: SummaryOrigin,
    manner: Manner,
    window: u64,
) -> Result<Prepared, NoSummary> {
    let config = config.clone();
    let preparing = off_the_loop(move || {
        let chat = Chat::parse(&occasion.body).map_err(|_| NoSummary::Impossible)?;
        let exchanges = group(&chat.messages).map_err(|_| NoSummary::Impossible)?;
        let material = ChunkPlan::new(
            &chat.messages,
            &exchanges,
            &due,
            &options,
            SummaryModel {
                instructions: &config.instructions,
                window,
                encoding: occasion.encoding(),
            },
        );
        // What is made anew from the originals is not what the upstream has in its cache.
        let anew = due.earlier.is_some() && !material.incremental;
        let suffix = config.suffix && !anew;
        let continued = if suffix {
            continued(
                &chat,
                &due.edits,
                &manner,
                &config.instructions,
                material.split(),
            )
        } else {
            None
        };
        let key = match &config.key {
            Key::None => None,
            Key::Value(key) => Some(key.clone()),
            Key::File(file) => {
                Some(std::fs::read_to_string(file).map_err(|_| NoSummary::Impossible)?)
            }
        };
        let key = key
            .map(|key| HeaderValue::try_from(format!("Bearer {}", key.trim())))
            .transpose()
            .map_err(|_| NoSummary::Impossible)?;
        Ok(Prepared {
            material,
            continued,
            key,
        })
    });
    preparing.await?
}

/// Computes where no request waits for it: conversations are long.
async fn off_the_loop<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoSummary> {
    // What panics in there is a defect, and no summary.
    tokio::task::spawn_blocking(compute)
        .await
        .map_err(|_| NoSummary::Impossible)
}

/// Whom to ask.
struct Asking<'a> {
    summarizer: &'a Summarizer,
    upstream: &'a Upstream,
    occasion: &'a SummaryOrigin,
    key: Option<HeaderValue>,
}

impl Asking<'_> {
    /// The summary behind the client's own list; `None` when the model goes on with the conversation instead, or has no
    /// room: then it is asked about a transcript.
    async fn continued(
        &self,
        body: String,
        counted: u64,
        spent: &mut Spent,
    ) -> Result<Option<String>, NoSummary> {
        match self.ask(body, counted, spent).await {
            Ok(answer) => Ok(answer.tagged.then_some(answer.text)),
            Err(
                NoSummary::Failed(Failed::TooLong(_) | Failed::Refused | Failed::Parameter(_))
                | NoSummary::Rejected(Rejected::Empty),
            ) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The summary of all pieces, each updating that of those before it.
    async fn folded(
        &self,
        mut material: ChunkPlan,
        mut manner: Manner,
        mut window: u64,
        spent: &mut Spent,
    ) -> Result<(String, ChunkPlan), NoSummary> {
        let (encoding, config) = (self.occasion.encoding(), &self.summarizer.config);
        let (mut overflows, mut adaptations) = (0, 0);
        loop {
            let (instructions, how) = (Arc::clone(&config.instructions), manner.clone());
            let composed = off_the_loop(move || {
                let composed = material.piece(window).map(|(piece, count)| {
                    let body = request(
                        &how,
                        &instructions,
                        material.task.as_deref(),
                        material.previous.as_deref(),
                        &piece,
                    );
                    (encoding.count(&body), body, piece.last, count)
                });
                (composed, material)
            });
            let (composed, kept) = composed.await?;
            material = kept;
            let (tokens, body, last, count) = composed.ok_or(NoSummary::Impossible)?;
            let text = match self.ask(body, tokens, spent).await {
                Ok(answer) => answer.text,
                Err(NoSummary::Failed(Failed::TooLong(told))) if overflows < MOST_OVERFLOWS => {
                    overflows += 1;
                    // Half as much as before where it does not say how much it takes.
                    window = told.filter(|told| *told < window).unwrap_or(window / 2);
                    continue;
                }
                Err(NoSummary::Failed(Failed::Parameter(parameter)))
                    if adaptations < MOST_ADAPTATIONS =>
                {
                    adaptations += 1;
                    match parameter {
                        Parameter::Temperature => manner.temperature = None,
                        Parameter::Limit(OutputLimit::MaxCompletionTokens) => {
                            manner.limit = OutputLimit::MaxTokens
                        }
                        Parameter::Limit(OutputLimit::MaxTokens) => {
                            manner.limit = OutputLimit::MaxCompletionTokens
                        }
                    }
                    continue;
                }
                Err(other) => return Err(other),
            };
            if last {
                return Ok((text, material));
            }
            // What a fold leaves is prompt again: it must not outgrow what it may be.
            if encoding.count(&text) > manner.max_tokens {
                return Err(NoSummary::Rejected(Rejected::TooLong));
            }
            material.taken(count, text);
        }
    }

    /// Asks, and reads the answer. `counted` are the prompt tokens, for those who do not report any.
    async fn ask(
        &self,
        body: String,
        counted: u64,
        spent: &mut Spent,
    ) -> Result<Answer, NoSummary> {
        let Summarizer {
            config, metrics, ..
        } = self.summarizer;
        if spent.calls >= MOST_CALLS {
            return Err(NoSummary::Impossible);
        }
        let bytes = Bytes::from(body);
        let ask = || {
            let (allowed, bytes) = (self.summarizer.bounds().call(config), bytes.clone());
            async move {
                allowed.map_err(|_| Failed::Rate)?;
                self.send(bytes).await
            }
        };
        spent.calls += 1;
        let told = |outcome: Result<(), &Failed>, took| {
            summary_call(
                metrics,
                outcome.map_or_else(Failed::as_str, |()| "answered"),
                took,
            )
        };
        let answered = call::with_retry(config.timeout, config.longest_wait, ask, told)
            .await
            .map_err(NoSummary::Failed)?;
        let usage = OWN_DIALECT.usage(&answered);
        spent.prompt_tokens += usage.map_or(counted, |usage| usage.prompt_tokens);
        // What was refused or cut off was paid for as well.
        spent.completion_tokens += usage.map_or(0, |usage| usage.completion_tokens);
        off_the_loop(move || {
            let written = OWN_DIALECT.completion(&answered)?;
            Answer::read(&written)
        })
        .await?
        .map_err(NoSummary::Rejected)
    }

    async fn send(&self, body: Bytes) -> Result<Bytes, Failed> {
        let config = &self.summarizer.config;
        let mut head = Request::builder()
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/json");
        // Should it come by another Baler, that one leaves it alone.
        head = head.header(HeaderName::from_static("x-baler-mode"), "off");
        if let Some(headers) = head.headers_mut() {
            if config.url.is_none() {
                headers.extend(self.occasion.credentials.clone());
            }
            if let Some(key) = &self.key {
                headers.remove("api-key");
                headers.insert(AUTHORIZATION, key.clone());
            }
            for (name, value) in &config.headers {
                headers.insert(name, value.clone());
            }
        }
        let body = Outgoing::pieces(vec![body]);
        // The place on a connection is kept until the answer is read.
        let (response, _place) = match &config.url {
            Some(url) => {
                let request = head.uri(url).body(body).map_err(|_| Failed::Unreachable)?;
                (
                    self.upstream
                        .send_elsewhere(request)
                        .await
                        .map_err(|error| unreached(&error))?,
                    None,
                )
            }
            None => {
                let request = head
                    .uri(own_uri(self.upstream, &self.occasion.uri)?)
                    .body(body)
                    .map_err(|_| Failed::Unreachable)?;
                self.upstream
                    .send(request)
                    .await
                    .map_err(|error| unreached(&error))?
            }
        };
        call::body(response, config.max_bytes).await
    }
}

/// Where the upstream takes Baler's own calls, when `requested` is where the client's request goes: a path of Baler's own
/// choosing, and the client's query, in which gateways expect an API version or a key.
fn own_uri(upstream: &Upstream, requested: &Uri) -> Result<Uri, Failed> {
    let mut target = OWN_DIALECT.own_path(requested.path());
    if let Some(query) = requested.query() {
        target.push('?');
        target.push_str(query);
    }
    upstream.uri(&target).map_err(|_| Failed::Unreachable)
}

fn unreached(error: &hyper_util::client::legacy::Error) -> Failed {
    if error.is_connect() {
        Failed::Unreachable
    } else {
        Failed::Broken
    }
}
