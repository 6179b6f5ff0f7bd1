//! What lines are worth for their tokens, given those that were taken.

use super::Choice;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::digest::weigh::weights::{cost, line as lines_by, word as words_by};

/// Lines in a row of which each needs the one before. It bounds what is done for a line, and what
/// is taken with it.
const MOST_NEEDED: usize = 8;

impl Choice<'_> {
    /// The score that taking a line would add.
    fn gain(&self, at: usize) -> f32 {
        let (Some(worth), Some(weight)) = (self.worth.get(at), self.of.lines.get(at)) else {
            return 0.0;
        };
        let line = self.lines.get(at);
        let is_row = line.is_some_and(|line| line.part == Part::Row || line.is_printed_row);
        let value = if is_row {
            self.with_words_of_row(worth.own, at, weight)
        } else {
            let words = self.of.mentions.get(weight.words.clone());
            let known = |id: &u32| self.words.get(*id as usize);
            let words = words.into_iter().flatten().filter_map(known);
            words.fold(worth.own, |value, word| value + word.now)
        };
        let is_json = line.is_some_and(|line| !line.part.is_plain());
        let own = match line.map(|line| line.standing) {
            _ if is_json => lines_by::RECORD_ON_TOPIC,
            Some(Standing::Answered) => lines_by::ANSWERED_ON_TOPIC,
            _ => lines_by::ON_TOPIC,
        };
        // A key of a text is not about what the key above it is about.
        let is_of_item = |line: &DigestLine| {
            line.within.is_some() && (line.part != Part::Text || line.is_printed_row)
        };
        let above = if is_json || line.is_some_and(is_of_item) {
            weight.topic.min(lines_by::MOST_TOPIC) * lines_by::ASKED_ON_TOPIC
        } else {
            0.0
        };
        let on_topic = 1.0 + worth.topic.min(lines_by::MOST_TOPIC) * own + above;
        let one = value.max(worth.least) * worth.factor * weight.length_prior;
        one * on_topic * weight.named * self.one_of_many(at)
    }

    /// A value with those of the words of a row: of an id that was told, some is left, as the row
    /// tells what belongs to it.
    fn with_words_of_row(&self, mut value: f32, at: usize, weight: &Weight) -> f32 {
        let told = self.parts.told_above(at);
        let mentions = self.of.mentions.get(weight.words.clone());
        for (nth, id) in mentions.into_iter().flatten().enumerate() {
            let Some(word) = self.words.get(*id as usize) else {
                continue;
            };
            let names = || weight.name.contains(&(weight.words.start + nth));
            value += if told.is_some_and(|told| told.contains(id)) {
                word.value * words_by::COVERED
            } else if word.covered && word.is_id && !names() {
                word.value * words_by::RELATED
            } else {
                word.now
            };
        }
        value
    }

    /// The head of the table of a row that no party named: it is one of many.
    pub(super) fn head_of_many(&self, at: usize) -> Option<usize> {
        let (line, weight) = (self.lines.get(at)?, self.of.lines.get(at)?);
        let is_row = line.is_printed_row || (line.part == Part::Row && line.is_whole());
        let is_alone = matches!(line.standing, Standing::Own | Standing::Failure);
        let is_one = is_row && !is_alone && !weight.is_named() && !weight.described;
        weight.needs.filter(|_| is_one)
    }

    /// The factor of a row by how many others of its table were taken: each tells less of what the
    /// table is about.
    pub(super) fn one_of_many(&self, at: usize) -> f32 {
        if self.rows.is_empty() {
            return 1.0;
        }
        let rows = self.head_of_many(at).and_then(|head| self.rows.get(&head));
        rows.map_or(1.0, |rows| 1.0 / (1.0 + *rows as f32 / lines_by::ROWS))
    }

    /// The line and those that it needs or is taken together with, of those that were not taken
    /// yet.
    pub(super) fn chain(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.of.lines.get(*at)?.needs)
            .take(MOST_NEEDED)
            .flat_map(move |needed| {
                let answer = self.answers.to(needed).filter(|answer| *answer != at);
                std::iter::once(needed).chain(answer)
            })
            .chain(self.parts.beside(at))
            .chain(self.taken_back.instead_of(at))
            .filter(|at| !self.is_taken(*at))
    }

    /// What taking a line saves or costs in marks of what is left out: lines of text that follow
    /// each other need none, nor does a table that has all its rows.
    fn mark_cost(&self, at: usize) -> f32 {
        if self.tables.misses_one(at) {
            return -cost::COUNT;
        }
        if !self.is_quoted(at) {
            return 0.0;
        }
        let above = at
            .checked_sub(1)
            .is_none_or(|above| !self.is_quoted(above) || self.is_taken(above));
        let below = !self.is_quoted(at + 1) || self.is_taken(at + 1);
        match (above, below) {
            (true, true) => -cost::GAP,
            (false, false) if self.is_result(at) => cost::ALONE,
            (false, false) => cost::GAP,
            _ => 0.0,
        }
    }

    /// What taking a line, with those that come with it, adds for each of its tokens.
    pub(super) fn density(&self, at: usize) -> f32 {
        let (mut gain, mut tokens) = (0.0, self.mark_cost(at));
        // The rows of a printed table are short beside what they need: several share that.
        let is_printed = self.lines.get(at).is_some_and(|line| line.is_printed_row);
        let shared_by = if is_printed { cost::ROWS } else { 1.0 };
        for needed in self.chain(at) {
            gain += self.gain(needed);
            let own = self.lines.get(needed).map_or(0.0, |line| {
                line.text.len() as f32 / cost::BYTES_PER_TOKEN + cost::LINE
            });
            tokens += if needed == at { own } else { own / shared_by };
        }
        gain / tokens.max(1.0)
    }
}
