//! The lines of one kind that add most for their tokens, one after another.

use std::collections::BinaryHeap;

use super::{Choice, LEAST_LEFT};
use crate::core::Cancelled;
use crate::core::conversation::scale;
use crate::core::strategy::digest::choose::candidate::Candidate;
use crate::core::strategy::digest::line::{DigestLine, STRIDE, Standing};
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::digest::weigh::weights::share;
use crate::core::strategy::maps::Map;

/// Lines that may be too long for what is left, one after another, before the choice is at its end.
const MOST_MISSES: usize = 64;
/// What the next line has to be better by to come first: it is not looked at again for less.
const BETTER: f32 = 1.001;

/// The lines that wait to be taken. Of the rows of a table one is among the others: each that is
/// taken lowers all that are left, and thousands of them would have to be looked at again.
#[derive(Default)]
struct Queue {
    best: BinaryHeap<Candidate>,
    /// By the head of their table: the rows that are not among them, by what they would add without
    /// the rows of it that were taken.
    rows: Map<usize, BinaryHeap<Candidate>>,
    /// The row of each such table that is among them.
    front: Map<usize, usize>,
}

impl Choice<'_> {
    /// Spends about `budget` tokens on the lines that are `wanted`, best first. Returns the tokens
    /// that are left.
    pub(super) fn fill(
        &mut self,
        budget: u64,
        wanted: impl Fn(&DigestLine, &Weight) -> bool,
    ) -> Result<u64, Cancelled> {
        let mut left = budget;
        let most = scale(budget, share::LINE);
        if budget < LEAST_LEFT {
            return Ok(budget);
        }
        let mut queue = self.candidates(&wanted)?;
        let mut looked: usize = 0;
        let mut misses: usize = 0;
        while let Some(best) = queue.best.pop() {
            looked += 1;
            if looked.is_multiple_of(STRIDE) {
                self.cancel.check_budget()?;
            }
            let line = best.line;
            let density = self.density(line);
            if self.is_taken(line) || density <= 0.0 {
                self.let_next_row_in(line, &mut queue);
                continue;
            }
            if self.gives_way(line, density, &mut queue) {
                continue;
            }
            if left < LEAST_LEFT {
                break;
            }
            let chain: Vec<usize> = self.chain(line).collect();
            let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
            let alone = budget > 4 * LEAST_LEFT && self.would_be_alone(line, most);
            if tokens > left || alone {
                misses += 1;
                if misses > MOST_MISSES {
                    break;
                }
                self.let_next_row_in(line, &mut queue);
                continue;
            }
            misses = 0;
            left -= tokens;
            let brings_others = chain.len() > 1;
            for at in chain {
                self.take(at);
            }
            if brings_others {
                self.weigh_rows_anew(line, &mut queue);
            }
            self.let_next_row_in(line, &mut queue);
            self.look_again_beside(line, &wanted, &mut queue.best);
        }
        Ok(left)
    }

    /// The lines that are `wanted` and may be taken.
    fn candidates(
        &self,
        wanted: impl Fn(&DigestLine, &Weight) -> bool,
    ) -> Result<Queue, Cancelled> {
        let mut others = Vec::new();
        let mut rows: Map<usize, Vec<Candidate>> = Map::default();
        for (at, (line, weight)) in self.lines.iter().zip(&self.of.lines).enumerate() {
            if at.is_multiple_of(STRIDE) {
                self.cancel.check_budget()?;
            }
            if !wanted(line, weight) || self.is_taken(at) || !self.says_something(at) {
                continue;
            }
            let candidate = self.candidate(at);
            match self.head_of_many(at) {
                Some(head) => rows.entry(head).or_default().push(Candidate {
                    density: candidate.density / self.one_of_many(at),
                    ..candidate
                }),
                None => others.push(candidate),
            }
        }
        let mut queue = Queue {
            best: BinaryHeap::from(others),
            ..Queue::default()
        };
        for (head, rows) in rows {
            queue.rows.insert(head, BinaryHeap::from(rows));
            self.let_row_in(head, &mut queue);
        }
        Ok(queue)
    }

    fn candidate(&self, line: usize) -> Candidate {
        Candidate {
            density: self.density(line),
            line,
        }
    }

    /// Puts a line back where one that waits is better by now.
    fn gives_way(&self, line: usize, density: f32, queue: &mut Queue) -> bool {
        if let Some(head) = self.head_in_front(line, queue)
            && let Some(rows) = queue.rows.get_mut(&head)
        {
            let alone = density / self.one_of_many(line);
            if rows
                .peek()
                .is_some_and(|next| next.density > alone * BETTER)
            {
                rows.push(Candidate {
                    density: alone,
                    line,
                });
                self.let_row_in(head, queue);
                return true;
            }
        }
        let next = queue.best.peek();
        let is_better = next.is_some_and(|next| next.density > density * BETTER);
        if is_better {
            queue.best.push(Candidate { density, line });
        }
        is_better
    }

    /// The head of the table of a row, where that is the row of it which is among the others.
    fn head_in_front(&self, line: usize, queue: &Queue) -> Option<usize> {
        let head = self.head_of_many(line)?;
        (queue.front.get(&head) == Some(&line)).then_some(head)
    }

    /// Once the head of a table is taken, its other rows no longer have to bring it.
    fn weigh_rows_anew(&self, row: usize, queue: &mut Queue) {
        let rows = self
            .head_of_many(row)
            .and_then(|head| queue.rows.get_mut(&head));
        let Some(rows) = rows else { return };
        let weighed = std::mem::take(rows).into_iter().map(|row| Candidate {
            density: self.density(row.line) / self.one_of_many(row.line),
            ..row
        });
        *rows = weighed.collect();
    }

    /// A row that left has the next one of its table take its place.
    fn let_next_row_in(&self, left: usize, queue: &mut Queue) {
        if let Some(head) = self.head_in_front(left, queue) {
            self.let_row_in(head, queue);
        }
    }

    /// Puts the best row of a table among the others.
    fn let_row_in(&self, head: usize, queue: &mut Queue) {
        queue.front.remove(&head);
        if let Some(next) = queue.rows.get_mut(&head).and_then(BinaryHeap::pop) {
            queue.front.insert(head, next.line);
            queue.best.push(Candidate {
                density: next.density * self.one_of_many(next.line),
                ..next
            });
        }
    }

    /// Whether a line of text takes more than the most that one may: it alone does not make a
    /// digest, unless it is a whole sentence.
    fn would_be_alone(&mut self, at: usize, most: u64) -> bool {
        let may = |line: &DigestLine| {
            line.part.is_quoted()
                && !matches!(line.standing, Standing::Prose | Standing::Conclusion)
        };
        self.lines.get(at).is_some_and(may) && self.tokens_of(at) > most
    }

    /// The neighbours of a line that was taken now need no mark of a gap, the last row of its
    /// table none of what is missing.
    fn look_again_beside(
        &self,
        line: usize,
        wanted: impl Fn(&DigestLine, &Weight) -> bool,
        best: &mut BinaryHeap<Candidate>,
    ) {
        let is_wanted = |at: usize| match (self.lines.get(at), self.of.lines.get(at)) {
            (Some(line), Some(weight)) => wanted(line, weight),
            _ => false,
        };
        let beside = [line.checked_sub(1), Some(line + 1)].into_iter().flatten();
        let quoted = beside.filter(|at| self.is_quoted(*at));
        let table = Some(line).filter(|line| self.tables.misses_one(*line));
        let last = table.map(|line| self.tables.rows_beside(line));
        let beside = quoted.chain(last.into_iter().flatten());
        let may = |at: &usize| !self.is_taken(*at) && is_wanted(*at);
        best.extend(beside.filter(may).map(|line| self.candidate(line)));
    }
}
