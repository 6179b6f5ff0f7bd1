//! `summarize`: old turns become a summary that a model wrote. Baler adds the parts that no model
//! can be trusted with: the files that were touched, and values that a digest would keep. The core
//! only looks whether there is a summary, and reports which one is missing; the shell asks for it.

use std::sync::Arc;

use super::digest;
use super::need::{Need, Stopped};
use super::options::{self, OptionCheck, Run};
use super::report::Done;
use super::scope::{Scope, is_among};
use crate::core::Cancelled;
use crate::core::budget::Budget;
use crate::core::conversation::{Exchange, scale};
use crate::core::edit::{Draft, Replacement, Tag, Zone};
pub use crate::core::summary::Options as Summarize;
use crate::core::summary::{Forecast, Recent, State, Summaries, Summary, files, floor, next};

impl options::Options for Summarize {
    const NAME: &'static str = "summarize";
    const QUICK: bool = true;

    /// Counts of messages, of the summary, of the calls that made it, and of the state in which it
    /// was needed.
    const COUNTS: &'static [&'static str] = &[
        "messages_summarized",
        "messages_kept",
        "split_turn",
        "incremental",
        "generation",
        "summary_tokens",
        "summary_chars",
        "summarizer_calls",
        "summarizer_prompt_tokens",
        "summarizer_completion_tokens",
        "summarizer_ms",
        "files",
        "ready",
        "late",
        "failed",
    ];

    fn check(&self, check: &mut OptionCheck<'_>) {
        check.positive_share("prepare_at", self.prepare_at);
        // The default is a share of whichever trigger the policy has.
        if let Some(ratio) = check.trigger.ratio
            && self.prepare_at >= ratio
            && self.prepare_at > Summarize::default().prepare_at
            && self.wait.is_zero()
        {
            let problem = format!(
                "{} is not below the trigger at {ratio}, and no request waits: no \
                summary would ever be ready",
                self.prepare_at
            );
            check.fail("prepare_at", problem);
        }
        check.share("extract_share", self.extract_share);
        check.share("max_ungrounded", self.max_ungrounded);
        check.at_least("refresh_every", self.refresh_every.into(), 1);
        check.at_least("max_tokens", self.max_tokens, 64);
        check.at_least("result_limit", self.result_limit as u64, 64);
        for (at, rule) in self.files.iter().flatten().enumerate() {
            if rule.argument.is_empty() {
                check.fail(&format!("files.{at}.argument"), "is empty");
            }
        }
    }

    fn keeps_its_own(&self) -> bool {
        self.keep != Recent::default()
    }

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        apply(self, run, draft)
    }
}

/// The least share of the room that a summary must stand for to be worth waiting for.
const WORTH_ASKING: f64 = 0.05;
/// A summary that stands for so many tokens is worth waiting for in any window.
const LEAST_ASKING: u64 = 256;
/// Lengths of the lists of files to try; the first that fits is taken.
const MOST_FILES: [usize; 4] = [100, 30, 10, 3];

/// Begins the part of a body that Baler extracted.
const EXTRACT_HEAD: &str = "## Extract of the same messages";

/// A summary that is ready.
struct Found {
    /// The number of messages that it covers.
    end: usize,
    summary: Arc<Summary>,
}

fn apply(options: &Summarize, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
    let Some(summaries) = run.external.summaries else {
        return Ok(Done::default());
    };
    let (scope, target) = (run.scope, run.target);
    let (found, state) = newest(draft, summaries);
    if let Some(found) = found
        && let Some(covered) = covered(scope, draft, found.end)
        && let Some(done) = put(&found, &covered, options, draft, run)?
    {
        return Ok(done);
    }
    if summaries.may_ask {
        let forecast = Forecast {
            budget: Budget {
                window: run.window,
                prompt: target.prompt,
                target: target.target,
                min_gain: scale(target.prompt, WORTH_ASKING).min(LEAST_ASKING),
            },
            // A request that waits for a summary wants the one that leaves nothing more to do.
            tokens: u64::MAX,
            growth: 0,
        };
        if let Some(pending) = next(draft, options, scope.older_than, forecast, summaries) {
            return Err(Stopped::Asks(Box::new(Need::Summary(Box::new(pending)))));
        }
    }
    Ok(Done {
        replaced: 0,
        details: state.map(|state| (state, 1)).into_iter().collect(),
    })
}

/// The summary of most messages that is ready, and the state of the ones of more messages.
fn newest(draft: &Draft<'_>, summaries: &Summaries) -> (Option<Found>, Option<&'static str>) {
    let conversation = draft.conversation();
    let floor = floor(draft);
    let tail = draft
        .in_zone(Zone::Tail)
        .first()
        .map_or(conversation.messages.len(), |exchange| exchange.first);
    let ends = conversation
        .exchanges
        .iter()
        .rev()
        .map(|exchange| exchange.end)
        .filter(|end| *end <= tail)
        .take_while(|end| *end > floor);
    let mut state = None;
    for end in ends {
        match summaries.of(end) {
            Some(State::Ready(summary)) => {
                let summary = Arc::clone(summary);
                return (Some(Found { end, summary }), state);
            }
            Some(State::Running) => state = state.or(Some("late")),
            Some(State::Failed) => state = state.or(Some("failed")),
            None => {}
        }
    }
    (None, state)
}

/// The exchanges that a summary of the first `end` messages takes the place of; `None` when none of
/// them is of the span.
fn covered(scope: &Scope, draft: &Draft<'_>, end: usize) -> Option<Vec<Exchange>> {
    let span = scope.span(draft);
    let mut covered: Vec<Exchange> = draft.in_zone(Zone::Condensed);
    covered.extend(&span);
    covered.retain(|exchange| exchange.end <= end);
    covered.sort_by_key(|exchange| exchange.first);
    covered
        .iter()
        .any(|exchange| is_among(&span, exchange))
        .then_some(covered)
}

/// Puts a summary in the place of the exchanges that it covers; `None` when that would be no
/// smaller.
fn put(
    found: &Found,
    covered: &[Exchange],
    options: &Summarize,
    draft: &mut Draft<'_>,
    run: &Run<'_>,
) -> Result<Option<Done>, Cancelled> {
    let Some(new) = message(found, covered, options, draft, run)? else {
        return Ok(None);
    };
    let mut details = details(found, covered, draft);
    let messages = draft.conversation().messages;
    let summarized = messages.get(..found.end).unwrap_or(messages);
    let touched = files(summarized, options.file_rules()).len();
    details.push(("files", touched as u64));
    Ok(draft.condense(covered, vec![new]).then_some(Done {
        replaced: 0,
        details,
    }))
}

/// The message with a summary, and as much of Baler's own additions as there is room for.
fn message(
    found: &Found,
    covered: &[Exchange],
    options: &Summarize,
    draft: &Draft<'_>,
    run: &Run<'_>,
) -> Result<Option<Replacement>, Cancelled> {
    let target = run.target;
    let messages = draft.conversation().messages;
    let before = draft.tokens_of(covered);
    let rest = draft.size().tokens - before;
    let written = |parts: &[&str]| {
        let parts = parts.iter().filter(|part| !part.is_empty());
        let body = parts.copied().collect::<Vec<_>>().join("\n");
        draft.written(options.role.author(), &Tag::Summary.text(&body))
    };
    let text: &str = &found.summary.text;
    let Some(plain) = written(&[text]) else {
        return Ok(None);
    };
    // Baler's additions must neither make the list miss its target nor outgrow their share of it.
    let share = scale(target.target, options.extract_share);
    let limit = plain.tokens + share.min(target.prompt.saturating_sub(rest + plain.tokens));
    let touched = files(
        messages.get(..found.end).unwrap_or(messages),
        options.file_rules(),
    );
    let with_lists = MOST_FILES.iter().find_map(|most| {
        let lists = touched.listed(*most);
        let new = written(&[text, &lists])?;
        (new.tokens <= limit && new.tokens < before).then_some((lists, new))
    });
    let (lists, new) = with_lists.unwrap_or((String::new(), plain));
    let room = limit
        .min(target.target.saturating_sub(rest))
        .saturating_sub(new.tokens);
    let source = summarized(found, draft);
    let known = [text, &lists];
    let extract = digest::extract_besides(run, draft, &source, covered, &known, room);
    // A summary goes without an extract when there is no time for one.
    let extract = match extract {
        Err(Cancelled) if run.cancel.check().is_ok() => String::new(),
        extract => extract?,
    };
    if extract.is_empty() {
        return Ok(Some(new));
    }
    let extract = format!("{EXTRACT_HEAD}\n{extract}");
    let with_extract = written(&[text, &lists, &extract]).filter(|with| with.tokens <= limit);
    Ok(Some(with_extract.unwrap_or(new)))
}

/// The exchanges that a summary was made from.
fn summarized(found: &Found, draft: &Draft<'_>) -> Vec<Exchange> {
    draft
        .conversation()
        .exchanges
        .iter()
        .filter(|exchange| exchange.end <= found.end)
        .copied()
        .collect()
}

fn details(found: &Found, covered: &[Exchange], draft: &Draft<'_>) -> Vec<(&'static str, u64)> {
    let Found { summary, .. } = found;
    // Some of the exchanges in a summary stay all the same.
    let gone: usize = summarized(found, draft)
        .iter()
        .filter(|exchange| is_among(covered, exchange) || draft.is_gone(exchange))
        .map(|exchange| exchange.end - exchange.first)
        .sum();
    let messages = draft.conversation().messages.len();
    let spent = &summary.spent;
    let milliseconds = u64::try_from(spent.took.as_millis()).unwrap_or(u64::MAX);
    vec![
        ("messages_summarized", gone as u64),
        ("messages_kept", (messages - gone) as u64),
        ("split_turn", u64::from(summary.split)),
        ("incremental", u64::from(summary.incremental)),
        ("generation", u64::from(summary.generation)),
        ("summary_tokens", summary.tokens),
        ("summary_chars", summary.text.chars().count() as u64),
        ("summarizer_calls", spent.calls),
        ("summarizer_prompt_tokens", spent.prompt_tokens),
        ("summarizer_completion_tokens", spent.completion_tokens),
        ("summarizer_ms", milliseconds),
        ("ready", 1),
    ]
}
