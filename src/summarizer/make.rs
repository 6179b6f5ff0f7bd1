//! Makes one summary: prompt, calls, checked text.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Error as ClientError;
use tokio::time::Instant;

use crate::config;
use crate::config::Key;
use crate::core::conversation::{group, scale};
use crate::core::models;
use crate::core::summary::{
    Accepted, Answer, Chunk, ChunkPlan, Limit, Manner, Options, PendingSummary, Rejected, Spent,
    Summary, Terms, continued, request, validate,
};
use crate::core::wire::chat::{Chat, Usage};
use crate::observe::event::{SummarizerCalled, SummaryChecked, SummaryOutcome};
use crate::summarizer::call::{self, Failed, Parameter};
use crate::summarizer::{Summarizer, SummaryOrigin};
use crate::upstream::{RequestBody, Upstream};

/// Calls for one summary at most, refinements and adapted retries included.
const MAX_CALLS: u64 = 64;
/// Times that a summariser may find a chunk too long before the summary is given up.
const MAX_OVERFLOWS: u32 = 3;
/// Parameters that a summariser may not know.
const MAX_ADAPTATIONS: u32 = 2;

/// Why there is no summary.
pub(super) enum NoSummary {
    /// A call failed.
    Failed(Failed),
    /// The answer was not accepted.
    Rejected(Rejected),
    /// The request is unreadable, the window holds no chunk of it, or there is no readable key: another call would change
    /// nothing.
    Impossible,
}

impl NoSummary {
    pub(super) fn outcome(&self) -> SummaryOutcome {
        match self {
            NoSummary::Failed(failed) => SummaryOutcome::CallFailed(failed.outcome()),
            NoSummary::Rejected(rejected) => SummaryOutcome::Rejected(*rejected),
            NoSummary::Impossible => SummaryOutcome::Impossible,
        }
    }
}

/// The result of everything that is computed before the first call.
struct Prepared {
    plan: ChunkPlan,
    /// The client's own list continued, where the configuration wants that.
    continued: Option<String>,
    key: Option<HeaderValue>,
}

/// Makes summaries for one request.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub summarizer: &'a Summarizer,
    pub upstream: &'a Upstream,
    pub origin: &'a SummaryOrigin,
}

impl Caller<'_> {
    /// Makes the pending summary; `spent` counts what it costs, also when it fails.
    pub(super) async fn make(
        self,
        pending: &PendingSummary,
        options: &Options,
        spent: &mut Spent,
    ) -> Result<Summary, NoSummary> {
        let began = Instant::now();
        let config = &self.summarizer.config;
        let model = config.model.clone().or_else(|| self.origin.model.clone());
        let takes_temperature = model.as_deref().is_none_or(models::takes_temperature);
        let manner = Manner {
            limit: config.limit,
            max_tokens: pending.max_tokens,
            temperature: config.temperature.filter(|_| takes_temperature),
            parameters: config.parameters.clone(),
            model,
        };
        let window = self.window(manner.model.as_deref());
        let Prepared {
            plan,
            continued,
            key,
        } = self.prepare(pending, options, &manner, window).await?;
        let calls = Calls { caller: self, key };
        let text = match continued {
            Some(body) => calls.ask_continued(body, pending.tokens, spent).await?,
            None => None,
        };
        let (text, plan) = match text {
            Some(text) => (text, plan),
            None => calls.refine(plan, manner, window, spent).await?,
        };
        let (split, incremental, generation) = (plan.split(), plan.incremental, plan.generation);
        let terms = Terms {
            max_tokens: pending.max_tokens,
            stands_for: pending.tokens,
            max_ungrounded: options.max_ungrounded,
        };
        let accepted = self.check(text, plan.source, terms).await?;
        let took = began.elapsed();
        Ok(Summary {
            text: accepted.text.into(),
            tokens: accepted.tokens,
            generation,
            incremental,
            split,
            spent: Spent { took, ..*spent },
        })
    }

    /// Checks a text against the conversation that it summarises.
    async fn check(
        self,
        text: String,
        source: String,
        terms: Terms,
    ) -> Result<Accepted, NoSummary> {
        let encoding = self.origin.encoding();
        let checked = off_the_loop(move || validate(text, &source, terms, encoding)).await?;
        let metrics = &self.summarizer.metrics;
        match checked {
            Ok(accepted) => {
                let ungrounded = accepted.ungrounded;
                SummaryChecked { ungrounded }.emit(metrics);
                Ok(accepted)
            }
            Err((rejected, ungrounded)) => {
                if rejected == Rejected::Ungrounded {
                    SummaryChecked { ungrounded }.emit(metrics);
                }
                Err(NoSummary::Rejected(rejected))
            }
        }
    }

    /// The context length of the summariser, in tokens counted here.
    fn window(self, model: Option<&str>) -> u64 {
        let config = &self.summarizer.config;
        let own = self.origin.window;
        if config.url.is_none() && config.model.is_none() {
            let window = config.window.unwrap_or(own);
            return scale(window, 1.0 / self.origin.factor.max(1.0));
        }
        let known = || model.and_then(models::known).map(|known| known.window);
        config.window.or_else(known).unwrap_or(own)
    }

    async fn prepare(
        self,
        pending: &PendingSummary,
        options: &Options,
        manner: &Manner,
        window: u64,
    ) -> Result<Prepared, NoSummary> {
        let config = self.summarizer.config.clone();
        let origin = self.origin.clone();
        let pending = pending.clone();
        let options = options.clone();
        let manner = manner.clone();
        let preparing = off_the_loop(move || {
            let chat = Chat::parse(&origin.body).map_err(|_| NoSummary::Impossible)?;
            let exchanges = group(&chat.messages).map_err(|_| NoSummary::Impossible)?;
            let instructions = &config.instructions;
            let plan = ChunkPlan::new(
                &chat.messages,
                &exchanges,
                &pending,
                &options,
                instructions,
                window,
                origin.encoding(),
            );
            // The upstream's cache does not hold the originals that a summary is made anew from.
            let is_anew = pending.earlier.is_some() && !plan.incremental;
            let continued = if config.suffix && !is_anew {
                continued(&chat, &pending.edits, &manner, instructions, plan.split())
            } else {
                None
            };
            Ok(Prepared {
                plan,
                continued,
                key: bearer(&config.key)?,
            })
        });
        preparing.await?
    }
}

/// The authorization header for the configured key.
fn bearer(key: &Key) -> Result<Option<HeaderValue>, NoSummary> {
    let key = match key {
        Key::None => return Ok(None),
        Key::Value(key) => key.clone(),
        Key::File(file) => std::fs::read_to_string(file).map_err(|_| NoSummary::Impossible)?,
    };
    let value = HeaderValue::try_from(format!("Bearer {}", key.trim()));
    value.map(Some).map_err(|_| NoSummary::Impossible)
}

/// Computes on a thread where no request waits for it: conversations are long.
async fn off_the_loop<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoSummary> {
    // A panic in there is a defect; it costs the summary only.
    tokio::task::spawn_blocking(compute)
        .await
        .map_err(|_| NoSummary::Impossible)
}

/// The calls for one summary.
struct Calls<'a> {
    caller: Caller<'a>,
    key: Option<HeaderValue>,
}

impl Calls<'_> {
    /// The summary as the continuation of the client's own list. `None` when the model continued the conversation instead,
    /// or has no room: a transcript is sent then.
    async fn ask_continued(
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

    /// The summary of all chunks, each of which updates the summary of those before it.
    async fn refine(
        &self,
        mut plan: ChunkPlan,
        mut manner: Manner,
        mut window: u64,
        spent: &mut Spent,
    ) -> Result<(String, ChunkPlan), NoSummary> {
        let encoding = self.caller.origin.encoding();
        let mut overflows = 0;
        let mut adaptations = 0;
        loop {
            let (composed, kept) = self.compose(plan, &manner, window).await?;
            plan = kept;
            let Composed {
                body,
                tokens,
                is_last,
                exchanges,
            } = composed.ok_or(NoSummary::Impossible)?;
            let text = match self.ask(body, tokens, spent).await {
                Ok(answer) => answer.text,
                Err(NoSummary::Failed(Failed::TooLong(reported))) if overflows < MAX_OVERFLOWS => {
                    overflows += 1;
                    // Half as much as before when the error does not state the summariser's window.
                    let narrower = reported.filter(|reported| *reported < window);
                    window = narrower.unwrap_or(window / 2);
                    continue;
                }
                Err(NoSummary::Failed(Failed::Parameter(parameter)))
                    if adaptations < MAX_ADAPTATIONS =>
                {
                    adaptations += 1;
                    adapt(&mut manner, parameter);
                    continue;
                }
                Err(other) => return Err(other),
            };
            if is_last {
                return Ok((text, plan));
            }
            // The text becomes part of the next prompt, so it must not exceed its limit.
            if encoding.count(&text) > manner.max_tokens {
                return Err(NoSummary::Rejected(Rejected::TooLong));
            }
            plan.taken(exchanges, text);
        }
    }

    /// The prompt for the next chunk that a summariser of this window holds; `None` when it holds none.
    async fn compose(
        &self,
        plan: ChunkPlan,
        manner: &Manner,
        window: u64,
    ) -> Result<(Option<Composed>, ChunkPlan), NoSummary> {
        let encoding = self.caller.origin.encoding();
        let instructions = Arc::clone(&self.caller.summarizer.config.instructions);
        let manner = manner.clone();
        off_the_loop(move || {
            let compose = |(chunk, exchanges): (Chunk, usize)| {
                let (task, previous) = (plan.task.as_deref(), plan.previous.as_deref());
                let body = request(&manner, &instructions, task, previous, &chunk);
                Composed {
                    tokens: encoding.count(&body),
                    body,
                    is_last: chunk.last,
                    exchanges,
                }
            };
            (plan.piece(window).map(compose), plan)
        })
        .await
    }

    /// Calls the summariser and reads its answer. `counted` are the prompt tokens, for summarisers that report none.
    async fn ask(
        &self,
        body: String,
        counted: u64,
        spent: &mut Spent,
    ) -> Result<Answer, NoSummary> {
        let summarizer = self.caller.summarizer;
        let config = &summarizer.config;
        if spent.calls >= MAX_CALLS {
            return Err(NoSummary::Impossible);
        }
        spent.calls += 1;
        let bytes = Bytes::from(body);
        let send = || {
            let allowed = summarizer.limiter().take_call(config);
            let bytes = bytes.clone();
            async move {
                if allowed {
                    self.send(bytes).await
                } else {
                    Err(Failed::Rate)
                }
            }
        };
        let report = |outcome, took| SummarizerCalled { outcome, took }.emit(&summarizer.metrics);
        let answered = call::with_retry(config.timeout, config.longest_wait, send, report)
            .await
            .map_err(NoSummary::Failed)?;
        let usage = Usage::find(&answered);
        spent.prompt_tokens += usage.map_or(counted, |usage| usage.prompt_tokens);
        // Answers that are rejected cost tokens as well.
        spent.completion_tokens += usage.map_or(0, |usage| usage.completion_tokens);
        off_the_loop(move || Answer::read(&answered))
            .await?
            .map_err(NoSummary::Rejected)
    }

    async fn send(&self, body: Bytes) -> Result<Bytes, Failed> {
        let Caller {
            summarizer,
            upstream,
            origin,
        } = self.caller;
        let config = &summarizer.config;
        let uri = match &config.url {
            Some(url) => url.parse().map_err(|_| Failed::Unreachable)?,
            None => origin.uri.clone(),
        };
        let request = self.request(uri, body)?;
        // The slot on a connection is kept until the answer is read.
        let (response, _slot) = if config.url.is_some() {
            let response = upstream.send_elsewhere(request).await;
            (response.map_err(|error| send_failure(&error))?, None)
        } else {
            let sent = upstream.send(request).await;
            sent.map_err(|error| send_failure(&error))?
        };
        call::body(response, config.max_bytes).await
    }

    fn request(&self, uri: Uri, body: Bytes) -> Result<Request<RequestBody>, Failed> {
        let config = &self.caller.summarizer.config;
        let request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            // Another Baler on the way leaves the call alone.
            .header(HeaderName::from_static("x-baler-mode"), "off")
            .body(RequestBody::pieces(vec![body]));
        let mut request = request.map_err(|_| Failed::Unreachable)?;
        self.authorize(request.headers_mut(), config);
        Ok(request)
    }

    /// INVARIANT: the request's own credentials go to its own upstream only, not to a configured URL.
    fn authorize(&self, headers: &mut HeaderMap, config: &config::Summarizer) {
        if config.url.is_none() {
            headers.extend(self.caller.origin.credentials.clone());
        }
        if let Some(key) = &self.key {
            headers.remove("api-key");
            headers.insert(AUTHORIZATION, key.clone());
        }
        for (name, value) in &config.headers {
            headers.insert(name, value.clone());
        }
    }
}

/// A prompt for one chunk.
struct Composed {
    body: String,
    tokens: u64,
    is_last: bool,
    /// Exchanges that the chunk covers.
    exchanges: usize,
}

/// Leaves out, or renames, a parameter that the summariser does not know.
fn adapt(manner: &mut Manner, parameter: Parameter) {
    match parameter {
        Parameter::Temperature => manner.temperature = None,
        Parameter::MaxCompletionTokens => manner.limit = Limit::MaxTokens,
        Parameter::MaxTokens => manner.limit = Limit::MaxCompletionTokens,
    }
}

fn send_failure(error: &ClientError) -> Failed {
    if error.is_connect() {
        Failed::Unreachable
    } else {
        Failed::Broken
    }
}
