//! The full form of a digest: older exchanges as short lines, before anything is left out.
//!
//! An entry is what a party said, or a call with its result. Newer exchanges are read first, so
//! that the newest state of a record and the newest mention of a value are shown in full.

mod results;

use std::borrow::Cow;

use super::body::read_back::read_back;
use super::calls::arguments::called;
use super::calls::changes::mark_changes;
use super::calls::commands::join_commands;
use super::calls::diffs::{note_diffs, note_gone, note_kept, note_patch, note_replaced, taken_out};
use super::calls::failures::{note_failures, note_made_good, note_refusal};
use super::calls::in_text::{
    TextCall, calls_before, calls_without_output, is_output, passages_of_user, words_beside,
    words_of_user,
};
use super::calls::made::{Made, keeps_plan};
use super::calls::outcomes::Outcomes;
use super::calls::pairs::{Repeats, key_of, made};
use super::calls::removed::Removed;
use super::choose::taken_back::takes_back_alone;
use super::line::{DigestLine, Heading, Outcome, Part, Standing, in_order};
use super::lists::to_do_of;
use super::results::pages::note_pages;
use super::results::record::OF_RESULT;
use super::results::records::{RecordParts, tables_of};
use super::results::seen::Seen;
use super::said::answers::{asks_in_short, note_answered, note_choices};
use super::said::needs::note_needs;
use super::said::replies::note_replies;
use super::said::restated::note_restated;
use super::said::telling::{says_it, told_of, word_of};
use super::said::to_do::ToDo;
use super::said::users::{has_names, note_name};
use super::texts::printed::note_rows;
use super::texts::quoted::{quoted_lines, sentences_of};
use crate::core::conversation::{Block, Call, Entry, Exchange, Kind, Text, ToolResult};
use crate::core::json::Json;
use crate::core::strategy::maps::{Map, Set, hash_of};
use crate::core::strategy::options::Run;
use crate::core::text::{Failures, MOST_COLUMNS, refers_back};
use crate::core::{Cancel, Cancelled};

/// Begins the passages that an application put beside what the user said, as a call does.
const PASSAGES: &str = "passages";
/// A line from this length on is told once (bytes).
const SAID_BYTES: usize = 40;
/// A column's name in an earlier digest is known up to this length (bytes).
const NAME_BYTES: usize = 256;

/// Reads exchanges into lines, newest first.
pub(super) struct Reader<'m, 'a> {
    messages: &'m [Entry<'a>],
    seen: Seen,
    /// The records that were read, newest first.
    records: Vec<RecordParts>,
    /// The number of the user's message at or before each message.
    turns: Vec<u32>,
    /// The calls that were made in texts, by the message with their output; none once it was read.
    in_texts: Map<usize, Vec<TextCall>>,
    repeats: Repeats,
    /// The tools that were called, by the hashes of their names.
    tools: Set<u64>,
    outcomes: Outcomes,
    /// The files that newer calls removed.
    removed: Removed,
    /// Rows of printed tables, each with the names of its columns, by their hashes.
    printed: Set<u64>,
    /// Users of several names speak.
    has_names: bool,
    /// The signs of failure in results.
    failures: Failures<'m>,
    cancel: &'m Cancel,
}

impl<'m, 'a> Reader<'m, 'a> {
    /// A reader of `exchanges`. `turns` is the number of the user's message at or before each
    /// message.
    pub(super) fn new(
        messages: &'m [Entry<'a>],
        exchanges: &[Exchange],
        turns: Vec<u32>,
        run: &Run<'m>,
    ) -> Result<Self, Cancelled> {
        let mut repeats = Repeats::default();
        let mut in_texts = Map::default();
        for exchange in exchanges {
            run.cancel.check_budget()?;
            let calls = calls_before(messages, exchange.first);
            for call in &calls {
                let made = call.call();
                repeats.count(&made, key_of(&made, call.result().as_ref()));
            }
            if !calls.is_empty() {
                in_texts.insert(exchange.first, calls);
            }
            for (call, result) in made(messages, exchange) {
                repeats.count(call, key_of(call, result));
            }
        }
        repeats.read_back();
        Ok(Reader {
            messages,
            seen: Seen::default(),
            records: Vec::new(),
            turns,
            in_texts,
            repeats,
            tools: Set::default(),
            outcomes: Outcomes::default(),
            removed: Removed::default(),
            printed: Set::default(),
            has_names: has_names(messages),
            failures: run.failures,
            cancel: run.cancel,
        })
    }

    /// Takes note of an exchange that stays as it is.
    pub(super) fn note(&mut self, exchange: &Exchange) -> Result<(), Cancelled> {
        self.read(exchange)?;
        self.records.clear();
        Ok(())
    }

    /// The lines of an exchange. Exchanges are to be read newest first.
    pub(super) fn read(&mut self, exchange: &Exchange) -> Result<Vec<DigestLine>, Cancelled> {
        self.cancel.check_budget()?;
        let Some(first) = self.messages.get(exchange.first) else {
            return Ok(Vec::new());
        };
        let mut calls: Vec<Vec<DigestLine>> = Vec::new();
        for (call, result) in made(self.messages, exchange).into_iter().rev() {
            let mut out = Vec::new();
            self.cancel.check_budget()?;
            self.read_call(call, result, &mut out)?;
            calls.push(out);
        }
        for call in self.calls_in_texts(exchange).into_iter().rev() {
            let mut out = Vec::new();
            self.cancel.check_budget()?;
            self.read_call(&call.call(), call.result().as_ref(), &mut out)?;
            calls.push(out);
        }
        let is_called = is_output(self.messages, exchange.first + 1);
        let mut lines = match exchange.kind {
            Kind::User => self.said_by_user(exchange.first)?,
            Kind::Assistant if !is_called => self.said_by_model(Standing::Edge, first)?,
            Kind::Assistant | Kind::Calls => self.said_by_model(Standing::Aside, first)?,
            Kind::Instruction | Kind::Unanswered | Kind::Other => Vec::new(),
        };
        let turn_of = |at: usize| self.turns.get(at).copied().unwrap_or_default();
        let turn = turn_of(exchange.first);
        lines.iter_mut().for_each(|line| line.turn = turn);
        let mut of_calls: Vec<DigestLine> = in_order(calls);
        if exchange.kind == Kind::User {
            // What the user said to what a command gave comes behind that.
            let before = turn_of(exchange.first.saturating_sub(1));
            of_calls.iter_mut().for_each(|line| line.turn = before);
            of_calls.append(&mut lines);
            return Ok(of_calls);
        }
        of_calls.iter_mut().for_each(|line| line.turn = turn);
        lines.append(&mut of_calls);
        Ok(lines)
    }

    /// The calls that were made in texts, with their output where an exchange is that.
    fn calls_in_texts(&mut self, exchange: &Exchange) -> Vec<TextCall> {
        let output = exchange.first + 1;
        match exchange.kind {
            Kind::User => match self.in_texts.get_mut(&exchange.first) {
                Some(calls) => std::mem::take(calls),
                None => calls_before(self.messages, exchange.first),
            },
            Kind::Assistant if !self.in_texts.contains_key(&output) => {
                calls_without_output(self.messages, output)
            }
            _ => Vec::new(),
        }
    }

    /// The lines of an earlier digest, without the records of which newer ones are known.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub(super) fn read_back(&self, body: &str) -> Result<Vec<DigestLine>, Cancelled> {
        let mut lines = read_back(body, self.cancel)?;
        let mut columns: Vec<String> = Vec::new();
        lines.retain(|line| {
            if let Some(heading) = Heading::of(&line.text) {
                // A table of ours has no more; each row is looked up by all of them.
                // Nor are its names longer than this: each row hashes all of them.
                let names = heading.names().take(MOST_COLUMNS);
                let start = |name: &str| {
                    let end = name.floor_char_boundary(NAME_BYTES);
                    name.get(..end).unwrap_or_default().to_owned()
                };
                columns = names.map(start).collect();
            }
            let id = line.text.split(',').next().unwrap_or_default();
            line.standing != Standing::Own
                || line.part == Part::Head
                || !self.seen.has_record(id, &columns)
        });
        Ok(lines)
    }

    /// All lines, given those of all exchanges in their order. The tables of like records come
    /// last, as the newest.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub(super) fn finish(self, mut lines: Vec<DigestLine>) -> Result<Vec<DigestLine>, Cancelled> {
        // Lines go here, so that what counts lines comes after it.
        let disputed = self.seen.disputed();
        let mut tables = tables_of(&self.records, disputed, &mut lines, self.cancel)?;
        note_made_good(&mut lines);
        note_replies(&mut lines, self.cancel)?;
        note_answered(&mut lines, self.cancel)?;
        note_choices(&mut lines, self.cancel)?;
        note_restated(&mut lines, self.cancel)?;
        lines.append(&mut tables);
        Ok(lines)
    }

    /// What the user said in message `at`, which may be the output of a command that passes it on.
    fn said_by_user(&mut self, at: usize) -> Result<Vec<DigestLine>, Cancelled> {
        let texts: Vec<_> = words_of_user(self.messages, at)
            .into_iter()
            .map(Cow::Owned)
            .collect();
        let entry = self.messages.get(at);
        let own = entry.filter(|_| !is_output(self.messages, at));
        let blocks = own.map_or(&[][..], |entry| entry.blocks.as_slice());
        let mut lines = self.said(Part::User, Standing::Usual, &texts, blocks)?;
        if self.has_names
            && let Some(first) = lines.first_mut()
        {
            note_name(own, first);
        }
        for passages in passages_of_user(self.messages, at) {
            let from = lines.len();
            called(PASSAGES, None, None, self.cancel, &mut lines)?;
            quoted_lines(&passages, OF_RESULT, self.cancel, &mut lines)?;
            let told = lines.iter_mut().skip(from + 1);
            for line in told.filter(|line| line.text.len() >= SAID_BYTES) {
                if !self.seen.say(None, &line.text) {
                    line.standing = Standing::Repeated;
                }
            }
        }
        Ok(lines)
    }

    /// What the model said, without the commands that it made in its text.
    fn said_by_model(
        &mut self,
        ends: Standing,
        entry: &Entry<'_>,
    ) -> Result<Vec<DigestLine>, Cancelled> {
        let has_commands = ends == Standing::Aside && !entry.is_call();
        let mut texts = entry.texts();
        if has_commands {
            for text in &mut texts {
                *text = Cow::Owned(words_beside(text));
            }
        }
        self.said(Part::Assistant, ends, &texts, &entry.blocks)
    }

    /// What a party said, sentence by sentence; `ends` is the standing of the first and the last.
    fn said(
        &mut self,
        part: Part,
        ends: Standing,
        texts: &[Cow<'_, str>],
        blocks: &[Block<'_>],
    ) -> Result<Vec<DigestLine>, Cancelled> {
        let mut out = Vec::new();
        for text in texts {
            sentences_of(text, part, self.cancel, &mut out)?;
        }
        let words = blocks.iter().filter_map(word_of);
        out.extend(words.map(|word| DigestLine::new(part, 1, &word)));
        if let Some(first) = out.first_mut() {
            (first.depth, first.joins) = (0, false);
        }
        let at_edges = told_of(&out, part, ends);
        let mut to_do = ToDo::default();
        for (at, line) in out.iter_mut().enumerate() {
            let is_own = line.standing != Standing::Pasted;
            if is_own && at_edges.contains(&at) {
                line.standing = ends;
            }
            // What is to be done is told as it stands last: a newer message may have it as done.
            if let Some(item) = to_do_of(&line.text) {
                let is_newest = to_do.is_newest(part, item, &mut self.seen);
                line.standing = if is_newest { ends } else { Standing::Repeated };
                continue;
            }
            // The items of a list are of that list.
            let may_repeat = line.joins || line.within.is_none();
            if may_repeat && !self.seen.say(Some(part), &line.text) {
                // What the user says again in short may be another answer, or one thing more.
                let is_short = part == Part::User && line.text.len() < SAID_BYTES;
                line.standing = match is_short {
                    true => Standing::Alike,
                    false => Standing::Repeated,
                };
                continue;
            }
            // `That replaces it.` says nothing without the sentence before.
            let refers = line.joins
                && match part {
                    Part::User => takes_back_alone(&line.text) || says_it(&line.text),
                    _ => refers_back(&line.text) || asks_in_short(&line.text),
                };
            if refers && line.within.is_none() {
                line.within = Some(1);
            }
        }
        if part == Part::Assistant {
            note_needs(&mut out, ends);
        }
        Ok(out)
    }

    /// A call and its result.
    fn read_call(
        &mut self,
        call: &Call<'_>,
        result: Option<&ToolResult<'_>>,
        out: &mut Vec<DigestLine>,
    ) -> Result<(), Cancelled> {
        let arguments = match (call.legacy, call.arguments) {
            (None, arguments) => arguments.map(Text::decode_or_raw),
            (Some(_), arguments) => arguments.and_then(Text::decode),
        };
        let arguments = arguments.as_deref();
        // Made again with the same result, it is told once, with a count.
        let Some(times) = self.repeats.times(call, key_of(call, result)) else {
            return Ok(());
        };
        let (asked, other) = match arguments.and_then(Json::parse) {
            Some(Json::Object(members)) => (Some(members), None),
            other => (None, other),
        };
        let is_named = asked.is_some();
        let mut asked = asked.unwrap_or_default();
        join_commands(&mut asked);
        let made = Made::new(&call.name, asked);
        let (told, is_overridden) = self.seen.told_of(&made);
        let told_of_call = is_named.then_some(told.as_ref());
        called(&call.name, arguments, told_of_call, self.cancel, out)?;
        note_replaced(out);
        note_patch(out);
        note_kept(out);
        let head = out.first().map(|line| line.text.clone());
        let stale = head.as_ref().is_some_and(|head| !self.seen.call(head));
        if let (Some(head), 2..) = (out.first_mut(), times) {
            head.text.push_str(&format!(" ×{times}"));
        }
        let from = out.len();
        let is_last = self.tools.insert(hash_of(call.name.as_ref()));
        let is_old_plan = !is_last && keeps_plan(&call.name);
        let failures = self.failures.of(Some(&call.name));
        let (outcome, is_doubtful) = self.read_result(result, &made, failures, out)?;
        let failed = outcome == Outcome::Failed;
        let lines = out.get_mut(from..).unwrap_or_default();
        note_pages(lines);
        note_diffs(lines, head.as_deref().unwrap_or_default());
        note_failures(lines, failures, is_last && failed);
        note_refusal(lines);
        mark_changes(out);
        drop(told);
        self.note_outcome(out, (&made, times), (outcome, is_doubtful), is_overridden);
        self.note_taken_out(out);
        if !failed {
            self.seen.note_taken_out(taken_out(&made.arguments, out));
            note_gone(out);
        }
        let is_gone = self.note_removed(out, &made);
        self.seen
            .note(&other.unwrap_or(Json::Object(made.arguments)));
        self.note_repeated(out, stale || is_overridden || is_gone, is_old_plan);
        Ok(())
    }

    /// Marks the lines of a call that are told elsewhere: those of an old plan by a newer one.
    fn note_repeated(&mut self, out: &mut [DigestLine], stale: bool, is_old_plan: bool) {
        let usual = [Standing::Usual, Standing::Prose, Standing::Conclusion];
        for line in out.iter_mut().skip(1) {
            let said = line.part.is_quoted()
                && line.text.len() >= SAID_BYTES
                && !matches!(line.standing, Standing::Beside | Standing::Gone);
            if is_old_plan || (said && !self.seen.say(None, &line.text)) {
                line.standing = Standing::Repeated;
            } else if stale && usual.contains(&line.standing) {
                line.standing = Standing::Stale;
            }
        }
        note_rows(out, &mut self.printed);
    }
}
