//! Makes one summary: prompt, calls, checked text.

use hyper::Uri;
use hyper::header::HeaderValue;
use tokio::time::Instant;

use crate::config::Key;
use crate::core::conversation::{group, scale};
use crate::core::models;
use crate::core::summary::{
    Accepted, ChunkPlan, Options, PendingSummary, Rejected, Spent, Summary, SummaryModel, Terms,
    continued, validate,
};
use crate::core::wire::chat::Chat;
use crate::core::wire::own_call::Manner;
use crate::observe::event::{SummaryChecked, SummaryOutcome};
use crate::summarizer::call::{CallTrace, Failed};
use crate::summarizer::limiter::Ended;
use crate::summarizer::refine::Calls;
use crate::summarizer::{Summarizer, SummaryOrigin, refine};
use crate::upstream::{Upstream, address_of};

/// Why there is no summary.
pub(super) enum NoSummary {
    /// A call failed.
    Failed(Failed),
    /// The answer was not accepted.
    Rejected(Rejected),
    /// The request is unreadable, the window holds no chunk of it, or there is no readable key:
    /// another call would change nothing.
    Impossible,
}

impl NoSummary {
    /// What it says of the summariser. Only failures of transport say that it is not there: all
    /// others may come of what one tenant's conversation says.
    pub(super) fn ended(&self) -> Ended {
        match self {
            NoSummary::Failed(failed) => match failed {
                Failed::Unreachable | Failed::Broken | Failed::Timeout | Failed::Overloaded(_) => {
                    Ended::Unavailable
                }
                // Only this minute's calls are used up.
                Failed::Rate => Ended::Neither,
                Failed::TooLong(_) | Failed::Parameter(_) | Failed::Refused | Failed::TooLarge => {
                    Ended::Refused
                }
            },
            NoSummary::Rejected(_) => Ended::Refused,
            NoSummary::Impossible => Ended::Impossible,
        }
    }

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
    /// What the calls came to, for the log.
    pub trace: &'a CallTrace,
}

impl Caller<'_> {
    /// Where the summariser is called, for the log.
    pub(super) fn address(self) -> String {
        let own = || refine::own_uri(self.upstream, &self.origin.uri);
        let uri = match &self.summarizer.config.url {
            Some(url) => url.parse().ok(),
            None => own().ok(),
        };
        uri.map_or_else(String::new, |uri: Uri| address_of(&uri))
    }

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
        let metrics = &self.summarizer.series;
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
        let known = || {
            let known = model.and_then(models::known)?;
            Some(known.max_input.unwrap_or(known.window))
        };
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
                SummaryModel {
                    instructions,
                    window,
                    encoding: origin.encoding(),
                },
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
pub(super) async fn off_the_loop<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoSummary> {
    // A panic in there is a defect; it costs the summary only.
    tokio::task::spawn_blocking(compute)
        .await
        .map_err(|_| NoSummary::Impossible)
}
