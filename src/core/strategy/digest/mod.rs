//! `digest`: older exchanges become an extract of what a model needs to go on.
//!
//! The next compaction makes it anew from the originals, which clients send with every request.
//! Where some of them are not there, or the digest has room for everything, it is extended: its
//! lines are read back, followed by those of the newly aged exchanges.
//!
//! `entries` reads the exchanges into lines, of which nothing is left out yet, with `calls`,
//! `results`, `said` and `texts`; `weigh` says what each is worth, with what `subject` finds of the
//! newest messages; `choose` takes the best, each kind within its share of the room, has that
//! written by `body`, counts it, and takes more, or less.

// Exchanges become lines, newest first.
mod entries;
mod json_form;
mod line;
mod lists;

// What they are read from: calls, results that are JSON, other texts, what the parties said.
mod calls;
mod results;
mod said;
mod texts;

// What the newest messages are about; what lines are worth; which are taken, and how it is written.
mod body;
mod choose;
mod subject;
mod weigh;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::body::untold;
use self::body::write::body;
use self::calls::in_text::is_of_user;
use self::choose::Choice;
use self::choose::fill::filled;
pub(super) use self::choose::shorten::TextLines;
pub(super) use self::choose::text_tokens::TextTokens;
use self::entries::Reader;
use self::line::{DigestLine, Part, in_order};
use self::said::answers::note_agreed;
use self::said::users::turns_of;
pub(super) use self::weigh::context::{Context, context_besides};
use super::maps::Map;
use super::need::Stopped;
use super::options::{Options, Run};
use super::report::Done;
use super::scope::is_among;
use crate::core::Cancelled;
use crate::core::conversation::{Author, Exchange};
use crate::core::edit::{Draft, Edit, Replacement, Tag, Target, Zone, is_synthetic};

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

/// A digest of fewer tokens than this has no room for content. One without any takes less.
const LEAST_TOKENS: u64 = 48;
/// The share of the target that a digest may take where the rest of the list leaves nothing of it:
/// one in so many.
const LEAST_SHARE: u64 = 6;
/// Tokens of originals that are read for each token of the budget; and where those are more than
/// [`MOST_READ`] together.
const TOKENS_READ: u64 = 16;
const TOKENS_READ_OF_MANY: u64 = 6;
/// Tokens of originals: about a million bytes of English.
const MOST_READ: u64 = 1 << 18;

/// Bodies of earlier digests, by the message that each stands for.
type Bodies = Map<usize, String>;
/// Counts of a report, by their names.
type Counts = Vec<(&'static str, u64)>;

fn apply(run: &Run<'_>, draft: &mut Draft<'_>) -> Result<Done, Stopped> {
    let mut old = draft.in_zone(Zone::Condensed);
    let bodies = bodies_of(draft, &old);
    old.retain(|exchange| bodies.contains_key(&exchange.first));
    let span = run.scope.span(draft);
    let before = draft.tokens_of(&span) + draft.tokens_of(&old);
    let rest = draft.size().tokens - before;
    let budget = budget_of(rest, run.target).min(before);
    if budget < LEAST_TOKENS || (span.is_empty() && budget == before) {
        return Ok(Done::default());
    }

    let mut condensed = [old.as_slice(), &span].concat();
    condensed.sort_by_key(|exchange| exchange.first);
    // Whatever such a digest comes to hold, it saves tokens. It counts as all that it was given,
    // so that what is decided later does not depend on its text.
    let is_certain = draft.is_less(budget, &condensed);
    // It is written from the originals, which clients send with every request: what earlier digests
    // left out may matter now. One that had room for everything is extended, for as long as the
    // next has, too.
    let had_room = !old.iter().any(|exchange| is_in_room(draft, exchange));
    let is_extended = !originals_are_there(draft, &bodies) || (!is_certain && had_room);
    let whole = Whole {
        condensed: &condensed,
        earlier: is_extended.then_some(bodies),
        budget,
    };
    let (new, details) = if !is_certain {
        whole.written(run, draft)?
    } else if run.writes {
        let (new, details) = whole.less_one().written(run, draft)?;
        let new = match new {
            None => without_lines(run, draft, &condensed, budget)?,
            new => new,
        };
        (new.map(|new| new.in_room(budget)), details)
    } else {
        (Some(unwritten(draft, budget)), Vec::new())
    };
    let Some(new) = new else {
        return Ok(Done::default());
    };
    if !draft.condense(&condensed, vec![new]) {
        return Ok(Done::default());
    }
    Ok(Done {
        replaced: 0,
        details,
    })
}

/// The place of a digest that takes so many tokens.
fn unwritten(draft: &Draft<'_>, tokens: u64) -> Replacement {
    let empty = Tag::Digest.text("");
    draft.written_in(tokens, Author::User, &empty).unwritten()
}

/// A digest for which there is nothing to tell but the calls, or no room for more.
fn without_lines(
    run: &Run<'_>,
    draft: &Draft<'_>,
    condensed: &[Exchange],
    budget: u64,
) -> Result<Option<Replacement>, Cancelled> {
    let messages = draft.conversation().messages;
    let calls = untold::of_unread(messages, condensed, run.cancel)?;
    let calls = calls.and_then(|calls| untold::line_of([&calls].into_iter(), 0));
    let of = |body: &str| draft.written(Author::User, &Tag::Digest.text(body));
    let told = calls.and_then(|calls| of(&calls));
    Ok(told.filter(|new| new.tokens < budget).or_else(|| of("")))
}

/// Whether the digest that stands for an exchange counts as more than it takes.
fn is_in_room(draft: &Draft<'_>, exchange: &Exchange) -> bool {
    let mut new = draft.edit(exchange.first).new_messages().iter();
    new.any(Replacement::is_in_room)
}

/// What one digest is to stand for.
struct Whole<'w> {
    /// The exchanges that go.
    condensed: &'w [Exchange],
    /// The digests among them, where they are extended.
    earlier: Option<Bodies>,
    /// Tokens that it may take.
    budget: u64,
}

impl Whole<'_> {
    /// The same with less to take: so that a digest which counts as all that it was given can be
    /// told from one that had room for everything.
    fn less_one(self) -> Self {
        Whole {
            budget: self.budget - 1,
            ..self
        }
    }

    /// The digest, and the counts of its lines.
    fn written(
        self,
        run: &Run<'_>,
        draft: &Draft<'_>,
    ) -> Result<(Option<Replacement>, Counts), Cancelled> {
        let Whole {
            condensed, budget, ..
        } = self;
        let (sources, unread) = match self.earlier {
            Some(_) => (condensed.to_vec(), Vec::new()),
            None => originals(run, draft, condensed, budget),
        };
        let earlier = self.earlier.unwrap_or_default();
        let mut lines = lines_of(run, draft, &sources, &earlier)?;
        let messages = draft.conversation().messages;
        if let Some(calls) = untold::of_unread(messages, &unread, run.cancel)? {
            lines.insert(0, calls);
        }
        find_users_below(draft, condensed, &mut lines);
        let context = context_besides(draft, condensed, run.cancel)?;
        note_agreed(&mut lines, &context.said, run.cancel)?;
        let tokens = TextTokens::new(draft.conversation().encoding);
        let choice = Choice::new(&lines, &context, &tokens, run.cancel)?;
        let Some((new, shown)) = filled(choice, &lines, budget, draft, &tokens)? else {
            return Ok((None, Vec::new()));
        };
        let counts = vec![("lines", lines.len() as u64), ("lines_shown", shown as u64)];
        Ok((Some(new), counts))
    }
}

/// The exchanges to read: those that are gone, as far as the step may touch them, and `condensed`.
/// Once so many times the tokens of `budget` are read, of older ones only the user's messages. Also
/// those that are not.
fn originals(
    run: &Run<'_>,
    draft: &Draft<'_>,
    condensed: &[Exchange],
    budget: u64,
) -> (Vec<Exchange>, Vec<Exchange>) {
    let conversation = draft.conversation();
    let most = budget.saturating_mul(TOKENS_READ).min(MOST_READ);
    let most = most.max(budget.saturating_mul(TOKENS_READ_OF_MANY));
    let mut tokens: u64 = 0;
    let mut sources: Vec<Exchange> = Vec::new();
    let mut unread = Vec::new();
    for exchange in conversation.exchanges.iter().rev() {
        let is_gone = draft.is_gone(exchange) && run.scope.covers_all_of(draft, exchange);
        if !is_gone && !is_among(condensed, exchange) {
            continue;
        }
        let measures = conversation.measures.get(exchange.first..exchange.end);
        tokens += measures
            .into_iter()
            .flatten()
            .map(|m| m.tokens)
            .sum::<u64>();
        if tokens <= most || is_of_user(conversation.messages, exchange.first) {
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
    reader.finish(in_order(by_exchange))
}

/// Marks the lines that follow a message of the user which stays in the conversation, after the
/// digest of `condensed`: the user's last message is pinned, whatever was done after it.
fn find_users_below(draft: &Draft<'_>, condensed: &[Exchange], lines: &mut [DigestLine]) {
    let first = condensed.first().map_or(0, |exchange| exchange.first);
    let messages = draft.conversation().messages;
    let mut stay = draft.remaining().map(|(exchange, _)| exchange);
    let below = stay.find(|exchange| {
        exchange.first > first
            && is_of_user(messages, exchange.first)
            && !is_among(condensed, exchange)
    });
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
    let tokens = TextTokens::new(draft.conversation().encoding);
    let mut choice = Choice::new(&lines, &context, &tokens, run.cancel)?;
    choice.spend(budget)?;
    Ok(body(&lines, &choice.taken).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tokens::Encoding;
    use crate::core::wire::Dialect;

    #[test]
    fn a_digest_without_content_has_room_in_the_smallest() {
        let dialect = Dialect::ChatCompletions;
        let empty = dialect.synthetic(Author::User, &Tag::Digest.text(""));
        for encoding in [Encoding::O200K, Encoding::CL100K] {
            let tokens = dialect.count(&empty, encoding).unwrap();
            assert!(tokens < LEAST_TOKENS, "{tokens}");
        }
    }
}
