//! Short answers to calls that change something. Without its answer such a call looks as if it had
//! been done.

use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::results::answer::says_done;
use crate::core::strategy::maps::Map;

/// The longest answer that is told with its call (bytes).
const ANSWER_BYTES: usize = 80;

/// The answers that are told with their calls, by the lines of these.
pub(super) struct Answers(Map<usize, usize>);

impl Answers {
    pub(super) fn of(lines: &[DigestLine]) -> Self {
        let of_call = |(at, call): (usize, &DigestLine)| {
            let mut below = lines.get(at + 1..)?.iter();
            let answer = below.next().filter(|_| call.part == Part::Call)?;
            let is_all = below.next().is_none_or(|next| next.depth == 0);
            let is_answer = matches!(answer.part, Part::Text | Part::Record | Part::Member);
            let is_short = is_answer && !answer.of_argument && answer.text.len() <= ANSWER_BYTES;
            // Of commands, what they print tells whether they failed.
            let may = is_change(&call.text) && answer.depth > 0 && is_all && is_short;
            (may && !says_done(&answer.text)).then_some((at, at + 1))
        };
        Answers(lines.iter().enumerate().filter_map(of_call).collect())
    }

    /// The answer that is told with a call.
    pub(super) fn to(&self, call: usize) -> Option<usize> {
        self.0.get(&call).copied()
    }
}
