//! The calls for one summary: each chunk of a conversation updates the summary of those before it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Error as ClientError;

use crate::config;
use crate::core::summary::{Answer, Chunk, ChunkPlan, Rejected, Spent, request};
use crate::core::wire::own_call::{Manner, OutputLimit, Parameter};
use crate::observe::event::SummarizerCalled;
use crate::summarizer::OWN_DIALECT;
use crate::summarizer::call::{self, CallTrace, Failed};
use crate::summarizer::make::{Caller, NoSummary, off_the_loop};
use crate::upstream::{ConnectError, RequestBody, Upstream};

/// Calls for one summary at most, refinements and adapted retries included.
const MAX_CALLS: u64 = 64;
/// Times that a summariser may find a chunk too long before the summary is given up.
const MAX_OVERFLOWS: u32 = 3;
/// Parameters that a summariser may not know.
const MAX_ADAPTATIONS: u32 = 2;

/// The calls for one summary.
pub(super) struct Calls<'a> {
    pub caller: Caller<'a>,
    /// The authorization header for the configured key.
    pub key: Option<HeaderValue>,
}

impl Calls<'_> {
    /// The summary as the continuation of the client's own list. `None` when the model continued
    /// the conversation instead, or has no room: a transcript is sent then.
    pub(super) async fn ask_continued(
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
    pub(super) async fn refine(
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

    /// The prompt for the next chunk that a summariser of this window holds; `None` when it holds
    /// none.
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

    /// Calls the summariser and reads its answer. `counted` are the prompt tokens, for summarisers
    /// that report none.
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
        let tenant = self.caller.origin.tenant;
        let send = || {
            let allowed = summarizer.limiter().take_call(tenant, config);
            let bytes = bytes.clone();
            async move {
                if allowed {
                    self.send(bytes).await
                } else {
                    Err(Failed::Rate)
                }
            }
        };
        let report = |outcome, took| {
            SummarizerCalled {
                id: &self.caller.origin.request,
                summarizer: &config.name,
                outcome,
                status: self.caller.trace.last().status,
                took,
            }
            .emit(&summarizer.series);
        };
        let answered = call::with_retry(config.timeout, config.longest_wait, send, report)
            .await
            .map_err(NoSummary::Failed)?;
        let usage = OWN_DIALECT.usage(&answered);
        spent.prompt_tokens += usage.map_or(counted, |usage| usage.prompt_tokens);
        // Answers that are rejected cost tokens as well.
        spent.completion_tokens += usage.map_or(0, |usage| usage.completion_tokens);
        let read = move || Answer::read(&OWN_DIALECT.completion(&answered)?);
        off_the_loop(read).await?.map_err(NoSummary::Rejected)
    }

    async fn send(&self, body: Bytes) -> Result<Bytes, Failed> {
        let Caller {
            summarizer,
            upstream,
            origin,
            trace,
        } = self.caller;
        trace.begins();
        let config = &summarizer.config;
        let uri = match &config.url {
            Some(url) => url.parse().map_err(|_| Failed::Unreachable)?,
            None => own_uri(upstream, &origin.uri)?,
        };
        let request = self.request(uri, body)?;
        let failed = |error: ClientError| send_failure(&error, trace);
        // The slot on a connection is kept until the answer is read.
        let (response, _slot) = if config.url.is_some() {
            let response = upstream.send_elsewhere(request).await;
            (response.map_err(failed)?, None)
        } else {
            upstream.send(request).await.map_err(failed)?
        };
        trace.answered(response.status().as_u16());
        call::body(response, config.max_bytes).await
    }

    fn request(&self, uri: Uri, body: Bytes) -> Result<Request<RequestBody>, Failed> {
        let config = &self.caller.summarizer.config;
        let request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            .body(RequestBody::pieces(vec![body]));
        let mut request = request.map_err(|_| Failed::Unreachable)?;
        self.authorize(request.headers_mut(), config);
        Ok(request)
    }

    /// INVARIANT: the request's own credentials go to its own upstream only, not to a configured
    /// URL.
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
        Parameter::Limit(OutputLimit::MaxCompletionTokens) => {
            manner.limit = OutputLimit::MaxTokens;
        }
        Parameter::Limit(OutputLimit::MaxTokens) => {
            manner.limit = OutputLimit::MaxCompletionTokens;
        }
    }
}

/// The place where the upstream takes Baler's own calls, when `requested` is the place of the
/// client's request: a path of Baler's own choosing, and the client's query, in which gateways
/// expect an API version or a key.
pub(super) fn own_uri(upstream: &Upstream, requested: &Uri) -> Result<Uri, Failed> {
    let mut target = OWN_DIALECT.own_path(requested.path());
    if let Some(query) = requested.query() {
        target.push('?');
        target.push_str(query);
    }
    upstream.uri(&target).map_err(|_| Failed::Unreachable)
}

fn send_failure(error: &ClientError, trace: &CallTrace) -> Failed {
    if let Some(failed) = ConnectError::in_causes_of(error) {
        trace.unreachable(failed.cause());
    }
    if error.is_connect() {
        Failed::Unreachable
    } else {
        Failed::Broken
    }
}
