//! The choice of a digest's lines: what is never to be missed first, each within a share of the
//! room, then whatever says most for its tokens.

mod answers;
mod around;
mod candidate;
mod density;
pub(super) mod fill;
mod gaps;
mod greedy;
mod parts;
mod room;
mod short;
pub(super) mod shorten;
mod tables;
pub(super) mod taken_back;
pub(super) mod text_tokens;
mod wanted;

use self::answers::Answers;
use self::parts::Parts;
use self::tables::Tables;
use self::taken_back::TakenBack;
use self::text_tokens::TextTokens;
use self::wanted::{
    is_at_hand, is_chosen_row, is_crumb, is_described, is_gone_through, is_in_question,
    is_meant_row, is_named_row, is_note, is_of_records, is_picked_row, is_record, is_written,
    newest_turn, says_more_than_help,
};
use crate::core::conversation::scale;
use crate::core::strategy::digest::body::gaps::is_gap;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::lists::{announces, leads_in};
use crate::core::strategy::digest::said::telling::note_findings;
use crate::core::strategy::digest::subject::at_hand::note_at_hand;
use crate::core::strategy::digest::subject::files::named_files;
use crate::core::strategy::digest::subject::in_question::note_in_question;
use crate::core::strategy::digest::subject::named::find_named;
use crate::core::strategy::digest::subject::regions::{Region, named_regions};
use crate::core::strategy::digest::subject::sections::weigh_numbered;
use crate::core::strategy::digest::texts::outline::heads;
use crate::core::strategy::digest::texts::printed::names_columns;
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::digest::weigh::weigh;
use crate::core::strategy::digest::weigh::weight::{Weighed, Weight};
use crate::core::strategy::digest::weigh::weights::share;
use crate::core::strategy::digest::weigh::word::Live;
use crate::core::strategy::digest::weigh::worth::{Worth, part_of_prose, worths};
use crate::core::strategy::maps::Map;
use crate::core::{Cancel, Cancelled};

/// The longest sentence that is a plain statement (characters).
const STATEMENT_CHARS: usize = 60;
/// Tokens below which nothing more is looked for.
const LEAST_LEFT: u64 = 6;

/// The choice out of the lines of a full digest.
pub(super) struct Choice<'t> {
    lines: &'t [DigestLine],
    of: Weighed,
    /// The words as they are now, and as they were before any line was taken.
    words: Vec<Live>,
    fresh: Vec<Live>,
    worth: Vec<Worth>,
    /// Tokens of each line, once they were counted.
    tokens: Vec<Option<u64>>,
    tables: Tables,
    /// Rows that were taken besides those that a party named, by the head of their table.
    rows: Map<usize, u32>,
    parts: Parts,
    answers: Answers,
    taken_back: TakenBack,
    /// Of the files that were read, what the newest messages name, and those that they name as
    /// wholes: the most wanted first.
    regions: Vec<Region>,
    files: Vec<Region>,
    /// The records that are talked about last.
    in_question: usize,
    /// The turn of the newest records, where no result stays besides the digest.
    newest: Option<u32>,
    /// The part of all that pages and mails are.
    prose: f32,
    of_texts: &'t TextTokens,
    cancel: &'t Cancel,
    pub taken: Vec<bool>,
}

impl<'t> Choice<'t> {
    /// Chooses anew, for another budget.
    pub(super) fn restart(&mut self, budget: u64) -> Result<(), Cancelled> {
        self.clear();
        self.spend(budget)
    }

    /// Chooses anew the lines of one text that stay within about `budget` tokens. Its beginning and
    /// its end stay in any case.
    pub(super) fn restart_within(&mut self, budget: u64) -> Result<(), Cancelled> {
        self.clear();
        let (mut left, all) = (budget, self.lines.len());
        for from_end in [false, true] {
            let mut edge = scale(budget, share::EDGE);
            for nth in 0..all {
                let at = if from_end { all - 1 - nth } else { nth };
                let cost = self.tokens_of(at);
                if cost > edge {
                    break;
                }
                edge -= cost;
                left = left.saturating_sub(cost);
                self.take(at);
            }
        }
        let failures = scale(budget, share::FAILURES);
        let spent = failures - self.fill(failures, |line, _| line.standing == Standing::Failure)?;
        self.fill(left.saturating_sub(spent), |_, _| true)?;
        Ok(())
    }

    /// No line is chosen any more.
    fn clear(&mut self) {
        self.taken.fill(false);
        self.words.clone_from(&self.fresh);
        self.tables.clear();
        self.rows.clear();
    }

    /// Chooses the best lines that take about `budget` tokens together.
    pub(super) fn spend(&mut self, budget: u64) -> Result<(), Cancelled> {
        let mut left = budget;
        self.first((&mut left, budget), self.share_of_the_user(), |line, _| {
            line.part == Part::User && line.standing != Standing::Pasted
        })?;
        let before = left;
        self.first((&mut left, budget), share::ANSWERED, |line, weight| {
            line.standing == Standing::Answered && !weight.is_passed_over()
        })?;
        let told = before - left;
        self.first((&mut left, budget), share::TO_MEND, |line, _| {
            line.standing == Standing::ToMend
        })?;
        self.first((&mut left, budget), share::FAILURES, |line, _| {
            line.standing == Standing::Failure
        })?;
        left -= self.take_named(budget, left)?;
        self.first((&mut left, budget), share::DONE, |line, _| {
            line.changes && line.standing == Standing::Usual
        })?;
        let room = Self::room_for_picked(budget).min(left);
        left -= room - self.fill(room, is_picked_row)?;
        left -= self.take_at_hand(budget, left)?;
        left -= self.take_in_question(budget, left)?;
        left = self.take_of_the_model((left, budget))?;
        self.first((&mut left, budget), self.share_of_notes(), |line, _| {
            is_note(line)
        })?;
        self.first((&mut left, budget), self.share_of_prose(), |line, _| {
            matches!(line.standing, Standing::Prose | Standing::Conclusion)
        })?;
        left -= self.take_newest(scale(budget, share::NEWEST).saturating_sub(told).min(left))?;
        let chosen = self.share_of_the_chosen(budget);
        self.first((&mut left, budget), chosen, is_chosen_row)?;
        self.first((&mut left, budget), share::DESCRIBED, is_described)?;
        let room = Self::room_for_meant(budget).min(left);
        left -= room - self.fill(room, is_meant_row)?;
        self.first((&mut left, budget), share::RECORDS, is_record)?;
        self.first((&mut left, budget), share::NAMED, |line, weight| {
            is_record(line, weight) || is_named_row(line, weight)
        })?;
        self.first((&mut left, budget), share::WITHIN, |line, _| {
            line.standing == Standing::Own
        })?;
        let asides = self.share_of_asides();
        self.first((&mut left, budget), asides, |line, _| {
            line.standing == Standing::Aside
        })?;
        let room = Self::share_of_written(budget).min(left);
        left -= room - self.take_written(room)?;
        let held = scale(budget, share::SHORT)
            .min(self.tokens_in_short())
            .min(left);
        let rest = self.fill(left - held, |line, _| line.is_whole())?;
        self.take_in_short(held + rest)?;
        self.close_gaps();
        Ok(())
    }

    /// Spends a share of `budget`, of which `left` tokens are left, on the lines that are `wanted`.
    fn first(
        &mut self,
        (left, budget): (&mut u64, u64),
        most: f64,
        wanted: fn(&DigestLine, &Weight) -> bool,
    ) -> Result<(), Cancelled> {
        let room = scale(budget, most).min(*left);
        *left -= room - self.fill(room, wanted)?;
        Ok(())
    }

    /// Takes what the model found and promised, and what it asked. Returns the tokens left.
    fn take_of_the_model(&mut self, (mut left, budget): (u64, u64)) -> Result<u64, Cancelled> {
        let model = self.share_of_the_model(budget);
        let long = self.share_of_long(model);
        let replies = share::REPLIES.min(model * share::REPLIES_OF_MODEL);
        if self.lines.iter().any(|line| line.replies) {
            self.first((&mut left, budget), replies, |line, _| {
                line.replies && line.standing == Standing::Edge && says_more_than_help(line)
            })?;
        }
        self.first((&mut left, budget), model, |line, _| {
            line.standing == Standing::Edge
                && line.text.chars().count() <= STATEMENT_CHARS
                && says_more_than_help(line)
                && !is_crumb(&line.text)
        })?;
        self.first((&mut left, budget), long, |line, _| {
            line.standing == Standing::Edge && says_more_than_help(line)
        })?;
        let findings = share::FINDINGS.min(model * share::FINDINGS_OF_MODEL);
        self.first((&mut left, budget), findings, |_, weight| weight.finds)?;
        self.first((&mut left, budget), share::QUESTIONS, |line, _| {
            line.standing == Standing::Edge
        })?;
        Ok(left)
    }

    /// Takes what the model is at: the lists that it goes through, and rows that it looked up.
    /// Returns the tokens spent.
    fn take_at_hand(&mut self, budget: u64, left: u64) -> Result<u64, Cancelled> {
        let room = scale(budget, share::GOES_THROUGH).min(left);
        let lists = room - self.fill(room, is_gone_through)?;
        let room = Self::room_at_hand(budget).min(left - lists);
        Ok(lists + room - self.fill(room, is_at_hand)?)
    }

    /// Takes the rows of the records that are talked about last, one after another. Returns the
    /// tokens spent.
    fn take_in_question(&mut self, budget: u64, left: u64) -> Result<u64, Cancelled> {
        let room = Self::room_in_question(budget).min(left);
        let mut rest = room;
        for nth in 0..self.in_question {
            rest = self.fill(rest, |line, weight| is_in_question(line, weight, nth))?;
        }
        Ok(room - rest)
    }

    /// Takes what the newest records have, in at most so many tokens. Returns those spent.
    fn take_newest(&mut self, room: u64) -> Result<u64, Cancelled> {
        let newest = self.newest;
        let is_newest = |line: &DigestLine| Some(line.turn) == newest && is_of_records(line);
        Ok(room - self.fill(room, |line, _| is_newest(line))?)
    }

    /// Takes the long arguments of calls, and the edits that have room on one line, newest first,
    /// each from its beginning: crumbs of them are no use to those who edit. Returns the tokens
    /// that are left.
    fn take_written(&mut self, budget: u64) -> Result<u64, Cancelled> {
        let mut left = budget;
        let mut end = self.lines.len();
        while left >= LEAST_LEFT && end > 0 {
            self.cancel.check_budget()?;
            let begin = self.of.lines.get(end - 1).map_or(0, |weight| weight.entry);
            for at in begin..end {
                let is_written = self.lines.get(at).is_some_and(is_written);
                if !is_written || self.is_taken(at) {
                    continue;
                }
                let chain: Vec<usize> = self.chain(at).collect();
                let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
                if tokens > left {
                    break;
                }
                left -= tokens;
                chain.into_iter().for_each(|at| self.take(at));
            }
            end = begin.min(end - 1);
        }
        Ok(left)
    }

    /// Chooses more, in at most about so many tokens. Returns whether there was any.
    pub(super) fn extend(&mut self, budget: u64) -> Result<bool, Cancelled> {
        let left = self.fill(budget, is_record)?;
        let left = self.fill(left, |line, _| line.is_whole())?;
        Ok(self.take_in_short(left)? < budget)
    }

    /// No line is chosen yet.
    pub(super) fn new(
        lines: &'t [DigestLine],
        context: &Context,
        of_texts: &'t TextTokens,
        cancel: &'t Cancel,
    ) -> Result<Self, Cancelled> {
        let mut of = weigh(lines, context, cancel)?;
        note_findings(lines, &mut of);
        note_at_hand(lines, &mut of, cancel)?;
        find_named(lines, &mut of, context, cancel)?;
        let in_question = note_in_question(lines, &mut of, cancel)?;
        weigh_numbered(lines, &mut of.lines, context, cancel)?;
        let fresh: Vec<Live> = of.words.iter().map(Live::from).collect();
        let worth = worths(lines, &of, cancel)?;
        Ok(Choice {
            tables: Tables::new(lines, &of.lines),
            rows: Map::default(),
            parts: Parts::of(lines, &of),
            answers: Answers::of(lines),
            taken_back: TakenBack::of(lines, &of.lines, cancel)?,
            regions: named_regions(lines, &of.lines, context, cancel)?,
            files: named_files(lines, context, cancel)?,
            words: fresh.clone(),
            fresh,
            of,
            worth,
            in_question,
            newest: newest_turn(lines, context),
            prose: part_of_prose(lines),
            tokens: vec![None; lines.len()],
            of_texts,
            cancel,
            taken: vec![false; lines.len()],
            lines,
        })
    }

    /// The tokens of a line with what shows its place.
    fn tokens_of(&mut self, at: usize) -> u64 {
        let (Some(line), Some(known)) = (self.lines.get(at), self.tokens.get_mut(at)) else {
            return 0;
        };
        let tokens = |text| self.of_texts.of(text);
        *known.get_or_insert_with(|| {
            let marks = match line.part {
                _ if line.joins => 0,
                // It stands below its item, without a role of its own.
                _ if line.within.is_some() && line.depth > 0 => 2,
                Part::User | Part::Assistant => 6,
                Part::Call => 4,
                _ => 2,
            };
            tokens(&line.text) + marks
        })
    }

    /// Whether a line says something on its own, without lines below it.
    fn says_something(&self, at: usize) -> bool {
        let line = self.lines.get(at);
        if line.is_some_and(|line| line.part == Part::Untold || is_gap(&line.text)) {
            return false;
        }
        let below = self.lines.get(at + 1);
        let is_within = below.is_some_and(|below| below.within == Some(1));
        if is_within && line.is_some_and(|line| line.part.is_said() && announces(&line.text)) {
            return false;
        }
        let goes_on = below.is_some_and(|below| below.depth > 0);
        let leads = |line: &DigestLine| line.part.is_said() && leads_in(&line.text);
        let is_of_user = line.is_some_and(|line| line.part == Part::User);
        let is_code_below = below.is_some_and(|below| below.is_code);
        if goes_on && line.is_some_and(leads) && (!is_of_user || is_code_below) {
            return false;
        }
        if line.is_some_and(|line| line.part == Part::Text && heads(line, below)) {
            return false;
        }
        if names_columns(self.lines.get(at + 1..).unwrap_or_default()) {
            return false;
        }
        let is_section = line.is_some_and(DigestLine::is_section);
        let depth = line.map_or(0, |line| line.depth);
        !is_section || below.is_none_or(|below| below.depth <= depth)
    }

    /// Whether a line is one of a quoted text.
    fn is_quoted(&self, at: usize) -> bool {
        self.lines.get(at).is_some_and(|line| line.part.is_quoted())
    }

    /// Whether a line is of a text in a result.
    fn is_result(&self, at: usize) -> bool {
        self.lines
            .get(at)
            .is_some_and(|line| line.part == Part::Text)
    }

    fn is_taken(&self, at: usize) -> bool {
        self.taken.get(at).copied().unwrap_or(true)
    }

    fn take(&mut self, at: usize) {
        if !self.is_taken(at) {
            self.tables.take(at);
            if let Some(head) = self.head_of_many(at) {
                *self.rows.entry(head).or_default() += 1;
            }
        }
        if let (Some(taken), Some(weight)) = (self.taken.get_mut(at), self.of.lines.get(at)) {
            *taken = true;
            let mentions = self.of.mentions.get(weight.words.clone());
            for id in mentions.into_iter().flatten() {
                let inside = self.of.within.get(*id as usize).into_iter().flatten();
                for id in std::iter::once(id).chain(inside) {
                    if let Some(word) = self.words.get_mut(*id as usize) {
                        word.cover();
                    }
                }
            }
        }
    }
}
