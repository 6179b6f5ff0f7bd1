//! `summarize`: old turns become a summary that a model wrote, with what no model may be trusted
//! with added by Baler: the files that were touched, and values that a digest would keep. The core
//! only looks whether there is a summary, and says which one is missing; who asks for it is the
//! shell's business.

use crate::core::wire::chat::cache_control;
use std::sync::Arc;

use crate::core::budget::Budget;
use crate::core::conversation::Exchange;
use crate::core::conversation::scale;
use crate::core::edit::Tag;
use crate::core::edit::{Draft, Target, Zone};
use crate::core::strategy::options;
use crate::core::strategy::options::{OptionCheck, Run};
use crate::core::strategy::scope::Scope;
use crate::core::strategy::{Done, ExternalInputs, Need, Stopped, digest};
pub use crate::core::summary::Options as Summarize;
use crate::core::summary::{Options, State, Summary, files, floor, next};

impl options::Options for Options {
    const NAME: &'static str = "summarize";

    /// Counts of messages, of the summary, of the calls that made it, and of the state in which it was needed.
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
        "ready",
        "late",
        "failed",
    ];

    fn check(&self, check: &mut OptionCheck<'_>) {
        check.positive_share("prepare_at", self.prepare_at);
        if let Some(ratio) = check.trigger.ratio
            && self.prepare_at >= ratio
            && self.wait.is_zero()
        {
            let problem = format!(
                "{} is not below the trigger at {ratio}, and no request waits: no summary would ever be ready",
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

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        apply(self, run.scope, draft, run.target, run.window, run.external)
    }
}

/// Share of the room that a summary must stand for to be worth waiting for.
const WORTH_ASKING: f64 = 0.05;
/// Lengths of the lists of files that are tried, the first that fits is taken.
const MOST_FILES: [usize; 4] = [100, 30, 10, 3];

pub(super) fn apply(
    options: &Options,
    scope: &Scope,
    draft: &mut Draft<'_>,
    goal: Target,
    window: u64,
    outside: &ExternalInputs<'_>,
) -> Result<Done, Stopped> {
    let Some(summaries) = outside.summaries else {
        return Ok(Done::default());
    };
    let floor = floor(draft);
    let tail = draft
        .standing(Zone::Tail)
        .first()
        .map_or(draft.conversation().messages.len(), |exchange| {
            exchange.first
        });
    let ends = draft
        .conversation()
        .exchanges
        .iter()
        .rev()
        .map(|exchange| exchange.end);
    let (mut found, mut stands) = (None, None);
    for end in ends
        .filter(|end| *end <= tail)
        .take_while(|end| *end > floor)
    {
        match summaries.of(end) {
            Some(State::Ready(summary)) => {
                found = Some((end, summary));
                break;
            }
            Some(State::Running) => stands = stands.or(Some("late")),
            Some(State::Failed) => stands = stands.or(Some("failed")),
            None => {}
        }
    }
    if let Some((end, summary)) = found
        && let Some(done) = put(&summary, end, options, scope, draft, goal)
    {
        return Ok(done);
    }
    if summaries.may_ask {
        let budget = Budget {
            window,
            room: goal.room,
            target: goal.target,
            min_gain: scale(goal.room, WORTH_ASKING),
        };
        // Whoever waits for a summary wants the one that leaves nothing more to do.
        if let Some(due) = next(
            draft,
            options,
            scope.older_than,
            budget,
            u64::MAX,
            0,
            summaries,
        ) {
            return Err(Stopped::Asks(Box::new(Need::Summary(Box::new(due)))));
        }
    }
    Ok(Done {
        replaced: 0,
        details: stands.map(|stands| (stands, 1)).into_iter().collect(),
    })
}

/// Lets `summary` stand for what it covers; `None` when that would be no smaller.
fn put(
    summary: &Arc<Summary>,
    end: usize,
    options: &Options,
    scope: &Scope,
    draft: &mut Draft<'_>,
    goal: Target,
) -> Option<Done> {
    let messages = draft.conversation().messages;
    let span = scope.span(draft);
    let mut covered: Vec<Exchange> = draft.standing(Zone::Condensed);
    covered.extend(&span);
    covered.retain(|exchange| exchange.end <= end);
    covered.sort_by_key(|exchange| exchange.first);
    if !covered.iter().any(|exchange| span.contains(exchange)) {
        return None;
    }
    let before: u64 = covered
        .iter()
        .map(|exchange| draft.tokens_in(exchange))
        .sum();
    let rest = draft.size().tokens - before;
    let mark = covered.iter().rev().find_map(|exchange| {
        messages
            .get(exchange.first..exchange.end)?
            .iter()
            .rev()
            .find_map(cache_control)
    });
    let encoding = draft.conversation().encoding;
    let message = |parts: &[&str]| {
        let body = parts
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join("\n");
        Tag::Summary.message_of(options.role.as_str(), &body, mark, encoding)
    };
    let mut new = message(&[&summary.text])?;
    // What Baler adds must neither make the list miss its target nor outgrow its share of it.
    let share = scale(goal.target, options.extract_share);
    let limit = new.tokens + share.min(goal.room.saturating_sub(rest + new.tokens));
    let touched = files(
        messages.get(..end).unwrap_or(messages),
        options.file_rules(),
    );
    let lists = MOST_FILES
        .iter()
        .map(|most| touched.told(*most))
        .find_map(|lists| {
            let with = message(&[&summary.text, &lists])
                .filter(|with| with.tokens <= limit && with.tokens < before)?;
            Some((lists, with))
        });
    let mut lists_told = String::new();
    if let Some((lists, with)) = lists {
        (lists_told, new) = (lists, with);
    }
    let room = limit
        .min(goal.target.saturating_sub(rest))
        .saturating_sub(new.tokens);
    let exchanges: Vec<Exchange> = draft
        .conversation()
        .exchanges
        .iter()
        .filter(|exchange| exchange.end <= end)
        .copied()
        .collect();
    let facts = digest::facts(
        draft,
        &exchanges,
        &covered,
        &[&summary.text, &lists_told],
        room,
    );
    if !facts.is_empty() {
        let facts = format!("## Extract of the same messages\n{facts}");
        if let Some(with) =
            message(&[&summary.text, &lists_told, &facts]).filter(|with| with.tokens <= limit)
        {
            new = with;
        }
    }
    if new.tokens >= before {
        return None;
    }
    let summarized: usize = exchanges
        .iter()
        .filter(|exchange| !draft_keeps(draft, exchange, &covered))
        .map(|e| e.end - e.first)
        .sum();
    let details = vec![
        ("messages_summarized", summarized as u64),
        ("messages_kept", (messages.len() - summarized) as u64),
        ("split_turn", u64::from(summary.split)),
        ("incremental", u64::from(summary.incremental)),
        ("generation", u64::from(summary.generation)),
        ("summary_tokens", summary.tokens),
        ("summary_chars", summary.text.chars().count() as u64),
        ("summarizer_calls", summary.spent.calls),
        ("summarizer_prompt_tokens", summary.spent.prompt_tokens),
        (
            "summarizer_completion_tokens",
            summary.spent.completion_tokens,
        ),
        (
            "summarizer_ms",
            u64::try_from(summary.spent.took.as_millis()).unwrap_or(u64::MAX),
        ),
        ("ready", 1),
    ];
    draft.condense(&covered, vec![new]);
    Some(Done {
        replaced: 0,
        details,
    })
}

/// Whether an exchange that the summary covers stays all the same.
fn draft_keeps(draft: &Draft<'_>, exchange: &Exchange, covered: &[Exchange]) -> bool {
    !covered.contains(exchange) && !draft.is_gone(exchange)
}
