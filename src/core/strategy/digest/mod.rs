//! `digest`: older exchanges become an extract of what a model needs to go on.
//!
//! The next compaction extends a digest: its lines are read back, followed by those of the newly
//! aged exchanges. Where there is more room than the earlier one had, it is made anew from the
//! originals, which clients send with every request.

mod answers;
mod arguments;
mod candidate;
mod choose;
mod diffs;
mod encoded;
mod entries;
mod failures;
mod fill;
mod json_form;
mod known;
mod line;
mod lists;
mod made;
mod named;
mod place;
mod printed;
mod quoted;
mod read_back;
mod record;
mod records;
mod regions;
mod rows;
mod seen;
mod series;
mod tables;
mod untold;
mod weigh;
mod weights;
mod worth;
mod write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::borrow::Cow;

use self::choose::Choice;
use self::encoded::ResultText;
use self::entries::{Reader, turns_of};
use self::fill::filled;
pub use self::known::KnownLines;
use self::line::{DigestLine, Part};
use self::made::Made;
use self::record::Results;
use self::seen::Seen;
pub(super) use self::weigh::Context;
use self::write::body;
use super::maps::Map;
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::is_among;
use crate::core::conversation::{Exchange, Kind, Speaker};
use crate::core::edit::{Draft, Edit, Tag, Target, Zone, is_synthetic};
use crate::core::{Cancel, Cancelled};

/// Older exchanges become an extract of the values that later calls are likely to need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Digest {}

impl Options for Digest {
    const NAME: &'static str = "digest";
    const COUNTS: &'static [&'static str] = &["lines", "lines_shown"];

    fn apply(&self, run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
        apply(run, draft)
    }
}

/// A digest of fewer tokens than this has no room for content.
const LEAST_TOKENS: u64 = 48;
/// The share of the target that a digest may take where the rest of the list leaves nothing of it:
/// one in so many.
const LEAST_SHARE: u64 = 8;
/// The newest exchanges, whose texts show the present subject of the conversation.
const RECENT: usize = 3;
/// A result with fewer lines than this leaves nothing to choose.
const LEAST_LINES: usize = 8;
/// The same for JSON, where each line is a value with its key: a value that is not a line of its
/// own is cut in the middle.
const LEAST_MEMBERS: usize = 3;
/// From so many times the tokens of an earlier digest on, there is more room than it had.
const MORE_ROOM: u64 = 2;
/// Tokens of originals that are read for each token of the budget.
const TOKENS_READ: u64 = 16;

/// Bodies of earlier digests, by the message that each stands for.
type Bodies = Map<usize, String>;

fn apply(run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
    let mut old = draft.in_zone(Zone::Condensed);
    let bodies = bodies_of(draft, &old);
    old.retain(|exchange| bodies.contains_key(&exchange.first));
    let span = run.scope.span(draft);
    let before = draft.tokens_of(&span) + draft.tokens_of(&old);
    let budget = budget_of(draft.size().tokens - before, run.target).min(before);
    if budget < LEAST_TOKENS || (span.is_empty() && budget == before) {
        return Ok(Done::default());
    }

    let mut condensed = [old.as_slice(), &span].concat();
    condensed.sort_by_key(|exchange| exchange.first);
    // An earlier digest that is about as large as there is room for now is extended; with more
    // room, what it left out for lack of it comes back from the originals.
    let extended =
        !originals_are_there(draft, &bodies) || budget < MORE_ROOM * draft.tokens_of(&old);
    let (sources, unread) = if extended {
        (condensed.clone(), Vec::new())
    } else {
        originals(draft, &condensed, budget)
    };
    let earlier = if extended { bodies } else { Bodies::default() };
    let mut lines = lines_of(run, draft, &sources, &earlier)?;
    let messages = draft.conversation().messages;
    if let Some(calls) = untold::of_unread(messages, &unread, run.cancel)? {
        lines.insert(0, calls);
    }
    find_users_below(draft, &condensed, &mut lines);
    let context = context_besides(draft, &condensed, run.cancel)?;
    let choice = Choice::new(&lines, &context, run.known, run.cancel)?;
    let Some((new, shown)) = filled(choice, &lines, budget, draft, run.known)? else {
        return Ok(Done::default());
    };
    if !draft.condense(&condensed, vec![new]) {
        return Ok(Done::default());
    }
    Ok(Done {
        replaced: 0,
        details: vec![("lines", lines.len() as u64), ("lines_shown", shown as u64)],
    })
}

/// The exchanges to read: those that went into digests, and `condensed`. Once [`TOKENS_READ`] times
/// `budget` tokens are read, of older ones only the user's messages. Also those that are not.
fn originals(
    draft: &Draft<'_>,
    condensed: &[Exchange],
    budget: u64,
) -> (Vec<Exchange>, Vec<Exchange>) {
    let conversation = draft.conversation();
    let most = budget.saturating_mul(TOKENS_READ);
    let mut tokens: u64 = 0;
    let mut sources: Vec<Exchange> = Vec::new();
    let mut unread = Vec::new();
    for exchange in conversation.exchanges.iter().rev() {
        if !draft.is_gone(exchange) && !is_among(condensed, exchange) {
            continue;
        }
        let measures = conversation.measures.get(exchange.first..exchange.end);
        tokens += measures
            .into_iter()
            .flatten()
            .map(|m| m.tokens)
            .sum::<u64>();
        if tokens <= most || exchange.kind == Kind::User {
            sources.push(*exchange);
        } else {
            unread.push(*exchange);
        }
    }
    sources.reverse();
    unread.reverse();
    (sources, unread)
}

/// Whether all that was condensed went into digests: then their originals are among the messages.
/// What went into a summary is told by that.
fn originals_are_there(draft: &Draft<'_>, bodies: &Bodies) -> bool {
    draft.in_zone(Zone::Condensed).iter().all(|exchange| {
        !matches!(draft.edit(exchange.first), Edit::Stand(_))
            || bodies.contains_key(&exchange.first)
    })
}

/// Tokens that a digest may take where the rest of the list takes `rest`. Where that leaves next to
/// nothing of the target, a small digest is still worth its room: as much of it whether fillers are
/// set aside or, in a list that came back, part of the rest.
fn budget_of(rest: u64, target: Target) -> u64 {
    let share = (target.target + target.fillers) / LEAST_SHARE;
    let least = match target.prompt.checked_sub(rest) {
        Some(left) if left > 0 => share.min(left),
        _ => share,
    };
    target.target.saturating_sub(rest).max(least)
}

/// The lines of exchanges, in their order. What the tail says, and what newer ones of them say, is
/// told by reference.
fn lines_of(
    run: &Run<'_>,
    draft: &Draft<'_>,
    exchanges: &[Exchange],
    earlier: &Bodies,
) -> Result<Vec<DigestLine>, Cancelled> {
    let messages = draft.conversation().messages;
    let turns = turns_of(messages);
    let mut reader = Reader::new(messages, exchanges, turns, run)?;
    for exchange in draft.in_zone(Zone::Tail).iter().rev() {
        reader.note(exchange)?;
    }
    let mut by_exchange: Vec<Vec<DigestLine>> = Vec::with_capacity(exchanges.len());
    for exchange in exchanges.iter().rev() {
        by_exchange.push(match messages.get(exchange.first) {
            _ if let Some(body) = earlier.get(&exchange.first) => reader.read_back(body)?,
            Some(entry) if is_synthetic(entry) => match Tag::Digest.body_of(entry) {
                Some(body) => reader.read_back(&body)?,
                None => Vec::new(),
            },
            _ => reader.read(exchange)?,
        });
    }
    reader.finish(by_exchange.into_iter().rev().flatten().collect())
}

/// Marks the lines that follow a message of the user which stays in the conversation, after the
/// digest of `condensed`: the user's last message is pinned, whatever was done after it.
fn find_users_below(draft: &Draft<'_>, condensed: &[Exchange], lines: &mut [DigestLine]) {
    let first = condensed.first().map_or(0, |exchange| exchange.first);
    let mut stay = draft.remaining().map(|(exchange, _)| exchange);
    let below = stay.find(|exchange| {
        exchange.kind == Kind::User && exchange.first > first && !is_among(condensed, exchange)
    });
    let messages = draft.conversation().messages;
    let turn = below.and_then(|exchange| turns_of(messages.get(..=exchange.first)?).pop());
    for line in lines {
        line.user_below = line.part != Part::User && turn.is_some_and(|turn| line.turn >= turn);
    }
}

/// The bodies of the digests that stand for exchanges, by the first message of each.
fn bodies_of(draft: &Draft<'_>, exchanges: &[Exchange]) -> Bodies {
    let body = |exchange: &Exchange| draft.body_of(Tag::Digest, exchange.first);
    let found = |exchange: &Exchange| Some((exchange.first, body(exchange)?));
    exchanges.iter().filter_map(found).collect()
}

/// The lines that a digest of `exchanges` would keep besides `texts`, which stand for them: at most
/// about `budget` tokens. `condensed` are the exchanges that go.
///
/// # Errors
/// [`Cancelled`].
#[expect(
    clippy::too_many_arguments,
    reason = "the step, what is told, what stays besides it, and its size"
)]
pub(super) fn extract_besides(
    run: &Run<'_>,
    draft: &Draft<'_>,
    exchanges: &[Exchange],
    condensed: &[Exchange],
    texts: &[&str],
    budget: u64,
) -> Result<String, Cancelled> {
    if budget < LEAST_TOKENS {
        return Ok(String::new());
    }
    let mut lines = lines_of(run, draft, exchanges, &Bodies::default())?;
    find_users_below(draft, condensed, &mut lines);
    let mut context = context_besides(draft, condensed, run.cancel)?;
    context
        .texts
        .extend(texts.iter().map(|text| (*text).to_owned()));
    let mut choice = Choice::new(&lines, &context, run.known, run.cancel)?;
    choice.spend(budget)?;
    Ok(body(&lines, &choice.taken).join("\n"))
}

/// The texts that stay when `condensed` go.
///
/// # Errors
/// [`Cancelled`], also once there is no time left for a choice.
pub(super) fn context_besides(
    draft: &Draft<'_>,
    condensed: &[Exchange],
    cancel: &Cancel,
) -> Result<Context, Cancelled> {
    let mut context = Context::default();
    let stay: Vec<Exchange> = draft
        .remaining()
        .map(|(exchange, _)| exchange)
        .filter(|exchange| !is_among(condensed, exchange))
        .collect();
    for (age, exchange) in stay.iter().rev().enumerate() {
        cancel.check_budget()?;
        for entry in (exchange.first..exchange.end).flat_map(|at| draft.entries(at)) {
            let texts = entry.texts().into_iter().map(Cow::into_owned);
            let calls = entry.calls().filter(|call| call.legacy.is_none());
            let arguments = calls.filter_map(|call| call.arguments?.decode());
            let texts: Vec<String> = texts.collect();
            let arguments: Vec<String> = arguments.map(Cow::into_owned).collect();
            if age < RECENT {
                let recent = texts.iter().chain(&arguments);
                context.recent.extend(recent.cloned());
            }
            if entry.speaker == Speaker::Tool {
                context.texts.extend(texts);
            } else {
                let is_user = entry.speaker == Speaker::User;
                context
                    .said
                    .extend(texts.into_iter().map(|text| (is_user, text)));
            }
            context.calls.extend(arguments);
        }
    }
    Ok(context)
}

/// The lines of one text that is to become shorter.
pub(super) struct TextLines(Vec<DigestLine>);

impl TextLines {
    /// `None` where there are too few lines to choose from.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(super) fn of(text: &str, cancel: &Cancel) -> Result<Option<Self>, Cancelled> {
        let mut lines = Vec::new();
        let mut results = Results {
            seen: &mut Seen::default(),
            records: &mut Vec::new(),
            cancel,
        };
        results.read(ResultText::of(text), &Made::default(), &mut lines)?;
        lines.retain(DigestLine::is_whole);
        let least = if lines.iter().all(|line| line.part == Part::Text) {
            LEAST_LINES
        } else {
            LEAST_MEMBERS
        };
        Ok((lines.len() >= least).then_some(TextLines(lines)))
    }

    /// Weighs them by the texts of `context`.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(super) fn weighed<'t>(
        &'t self,
        context: &Context,
        known: &'t KnownLines,
        cancel: &'t Cancel,
    ) -> Result<Shortening<'t>, Cancelled> {
        Ok(Shortening {
            lines: &self.0,
            choice: Choice::new(&self.0, context, known, cancel)?,
        })
    }
}

/// A text that is cut to one size after another; its lines are weighed once.
pub(super) struct Shortening<'t> {
    lines: &'t [DigestLine],
    choice: Choice<'t>,
}

impl Shortening<'_> {
    /// The text cut to about `budget` tokens: its beginning, its end, and the lines in between that
    /// a digest would keep. `mark`, given the number of lines left out and of all, fills the first
    /// gap. `None` where no line has room.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(super) fn within(
        &mut self,
        budget: u64,
        mark: impl FnOnce(usize, usize) -> String,
    ) -> Result<Option<String>, Cancelled> {
        self.choice.restart_within(budget)?;
        let taken = &self.choice.taken;
        let left_out = taken.iter().filter(|taken| !**taken).count();
        if left_out == self.lines.len() {
            return Ok(None);
        }
        let mut out = Shortened {
            lines: Vec::new(),
            mark: Some(mark(left_out, self.lines.len())),
            gap: false,
            rows: None,
        };
        for (line, taken) in self.lines.iter().zip(taken) {
            out.read(line, *taken);
        }
        Ok(Some(out.finish()))
    }
}

/// A text with the lines that stay, and marks of what was left out.
struct Shortened {
    lines: Vec<String>,
    /// The mark for the first gap.
    mark: Option<String>,
    /// Lines were left out before the next one.
    gap: bool,
    /// Depth and number of the rows that were left out of the present table.
    rows: Option<(u8, usize)>,
}

impl Shortened {
    fn read(&mut self, line: &DigestLine, taken: bool) {
        match (line.part, taken, &mut self.rows) {
            (Part::Row, false, Some((_, missing))) => {
                *missing += 1;
                return;
            }
            (Part::Row, ..) => {}
            _ => self.end_table(),
        }
        if !taken {
            self.gap = true;
            return;
        }
        self.close_gap();
        if line.part == Part::Head {
            self.rows = Some((line.depth, 0));
        }
        let blanks = " ".repeat(usize::from(line.depth) - 1);
        self.lines.push([&blanks, line.text.as_str()].concat());
    }

    /// Says how many rows are missing, among the others, so that the table does not look complete.
    fn end_table(&mut self) {
        if let Some((depth, missing @ 1..)) = self.rows.take() {
            let blanks = " ".repeat(usize::from(depth));
            self.lines.push(format!("{blanks}… {missing} more"));
        }
    }

    fn close_gap(&mut self) {
        if std::mem::take(&mut self.gap) {
            let mark = self.mark.take().unwrap_or_else(|| "…".to_owned());
            self.lines.push(mark);
        }
    }

    fn finish(mut self) -> String {
        self.end_table();
        // The mark says that something was left out, even where only rows were.
        self.gap |= self.mark.is_some();
        self.close_gap();
        self.lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::core::tokens::Encoding;

    /// A text of lines that differ.
    fn numbered(lines: usize) -> String {
        let lines = (0..lines).map(|n| format!("line {n} has {}", n * 7919));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_texts_of_the_context_are_read_once_for_all_sizes_of_a_text() {
        let lines = TextLines::of(&numbered(60), &Cancel::default());
        let lines = lines.unwrap().unwrap();
        let context = Context {
            texts: vec!["It was line 7.".to_owned(); 500],
            ..Context::default()
        };
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        });
        let known = KnownLines::new(Encoding::O200K);
        let mut shortening = lines.weighed(&context, &known, &cancel).unwrap();
        let weighed = looked.load(Ordering::Relaxed);
        assert!(weighed >= 500, "{weighed} looks for 500 texts");
        let mut cut = |budget| {
            let short = shortening.within(budget, |left_out, all| format!("{left_out} of {all}"));
            short.unwrap().unwrap()
        };
        let (long, short, again) = (cut(300), cut(100), cut(300));
        assert!(short.len() < long.len(), "{short}");
        assert_eq!(long, again, "a size does not depend on those before it");
        let tried = looked.load(Ordering::Relaxed) - weighed;
        assert!(tried < 50, "{tried} looks for three sizes");
    }

    #[test]
    fn a_context_is_not_read_on_when_nobody_waits_any_more() {
        let lines = TextLines::of(&numbered(20), &Cancel::default());
        let lines = lines.unwrap().unwrap();
        let context = Context {
            texts: vec!["It was line 7.".to_owned(); 500],
            ..Context::default()
        };
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= 100);
        let known = KnownLines::new(Encoding::O200K);
        assert!(lines.weighed(&context, &known, &cancel).is_err());
        assert!(looked.load(Ordering::Relaxed) <= 101);
    }
}
