//! Rows in short: what decisions turn on of rows that have no room as a whole.

use super::{Choice, LEAST_LEFT};
use crate::core::Cancelled;
use crate::core::conversation::scale;
use crate::core::strategy::digest::line::Part;
use crate::core::strategy::digest::weigh::weights::cost;

impl Choice<'_> {
    /// About what all rows in short take.
    pub(super) fn tokens_in_short(&self) -> u64 {
        let short = self.lines.iter().filter(|line| !line.is_whole());
        let bytes: usize = short.map(|line| line.text.len()).sum();
        scale(bytes as u64, 1.0 / f64::from(cost::BYTES_PER_TOKEN))
    }

    /// Takes rows in short for those that are not shown as a whole: the newest tables first.
    /// Returns the tokens that are left.
    pub(super) fn take_in_short(&mut self, budget: u64) -> Result<u64, Cancelled> {
        let mut left = budget;
        let lines = self.lines;
        let is_head = |at: &usize| {
            let line = lines.get(*at);
            line.is_some_and(|line| !line.is_whole() && line.part == Part::Head)
        };
        for head in (0..lines.len()).rev().filter(is_head) {
            self.cancel.check_budget()?;
            let below = lines.iter().enumerate().skip(head + 1);
            let rows = below.take_while(|(_, line)| !line.is_whole() && line.part == Part::Row);
            for (row, _) in rows {
                if left < LEAST_LEFT {
                    break;
                }
                left -= self.take_row_in_short(row, left);
            }
        }
        self.leave_doubles();
        Ok(left)
    }

    /// Takes a row in short where it has room. Returns the tokens that it takes.
    fn take_row_in_short(&mut self, at: usize, left: u64) -> u64 {
        let above = self.lines.get(at).and_then(|line| line.whole);
        let whole = above.and_then(|above| at.checked_sub(above));
        if self.is_taken(at) || whole.is_none_or(|whole| self.is_taken(whole)) {
            return 0;
        }
        let chain: Vec<usize> = self.chain(at).collect();
        let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
        if tokens > left {
            return 0;
        }
        chain.into_iter().for_each(|at| self.take(at));
        tokens
    }

    /// Takes back the rows in short that are shown as a whole by now, and heads without any.
    fn leave_doubles(&mut self) {
        let mut rows = 0;
        for (at, line) in self.lines.iter().enumerate().rev() {
            let Some(whole) = line.whole.and_then(|above| at.checked_sub(above)) else {
                continue;
            };
            let stays = match line.part {
                Part::Head => std::mem::take(&mut rows) > 0,
                _ => self.is_taken(at) && !self.is_taken(whole),
            };
            rows += usize::from(stays && line.part == Part::Row);
            if let Some(taken) = self.taken.get_mut(at) {
                *taken = stays;
            }
        }
    }
}
