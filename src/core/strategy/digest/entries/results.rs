//! What came of calls: their results, and what newer calls made of what they did.

use super::Reader;
use crate::core::Cancelled;
use crate::core::conversation::ToolResult;
use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::calls::diffs::key_of_listed;
use crate::core::strategy::digest::calls::made::{Made, edited};
use crate::core::strategy::digest::calls::removed::written_in;
use crate::core::strategy::digest::line::{DigestLine, Outcome, Part, Standing};
use crate::core::strategy::digest::results::answer::Answer;
use crate::core::strategy::digest::results::encoded::ResultText;
use crate::core::strategy::digest::results::record::Results;
use crate::core::text::ToolFailures;

impl Reader<'_, '_> {
    /// Marks a call about a file that newer ones removed, or restored, and takes note of what it
    /// removed. Returns whether its file is gone.
    pub(super) fn note_removed(&mut self, out: &mut [DigestLine], made: &Made) -> bool {
        let is_gone = self.removed.has(made);
        let head = out.first();
        let edits = head.is_some_and(|head| edited(&head.text).is_some());
        let is_done = head.is_some_and(|head| head.outcome == Outcome::Done);
        let came_of_it = match is_gone {
            _ if edits && (is_gone || self.removed.has_restored(made)) => Some(Outcome::Undone),
            true if is_done && written_in(made).next().is_some() => Some(Outcome::Removed),
            _ => None,
        };
        if let Some(head) = out.first_mut()
            && let Some(outcome) = came_of_it
        {
            (head.standing, head.outcome) = (Standing::Gone, outcome);
        }
        if came_of_it == Some(Outcome::Removed) {
            let written = out.iter_mut().filter(|line| line.part == Part::Argument);
            written.for_each(|line| line.standing = Standing::Gone);
        }
        // What a command that failed was to remove is not there either.
        self.removed.note(made);
        is_gone
    }

    /// Marks the lines of a call by what came of it, as its result tells, and takes note of what it
    /// did.
    pub(super) fn note_outcome(
        &mut self,
        out: &mut [DigestLine],
        (made, times): (&Made, u32),
        (told, is_doubtful): (Outcome, bool),
        is_overridden: bool,
    ) {
        if is_overridden {
            let of_call = out.iter_mut().filter(|line| line.changes);
            of_call.for_each(|line| line.standing = Standing::Stale);
        }
        let outcome = match told {
            Outcome::Failed => self.outcomes.of_failed(made),
            Outcome::Done if is_change(made.tool()) && self.outcomes.is_undone(made, times) => {
                Outcome::Undone
            }
            told => told,
        };
        match told {
            Outcome::Done => {
                self.seen.note_change(made, true);
                self.outcomes.note(made, times);
            }
            Outcome::Proposed if is_doubtful => self.seen.note_change(made, false),
            _ => {}
        }
        if let Some(head) = out.first_mut() {
            head.outcome = outcome;
        }
        if outcome == Outcome::Undone {
            out.iter_mut()
                .for_each(|line| line.standing = Standing::Replaced);
        } else if told == Outcome::Failed && outcome != Outcome::Failed {
            // What came out in the end is told by the call that succeeded.
            for line in out {
                (line.changes, line.standing) = (false, Standing::Replaced);
            }
        }
    }

    /// Reads what a call gave. Returns what came of it by that alone, and whether its answer may
    /// mean that what it was to change was not changed.
    pub(super) fn read_result(
        &mut self,
        result: Option<&ToolResult<'_>>,
        made: &Made,
        failures: ToolFailures<'_>,
        out: &mut Vec<DigestLine>,
    ) -> Result<(Outcome, bool), Cancelled> {
        let mut failed = false;
        let mut results = Results {
            seen: &mut self.seen,
            records: &mut self.records,
            failed: false,
            is_proposed: false,
            is_doubtful: false,
            cancel: self.cancel,
        };
        for text in result.into_iter().flat_map(ToolResult::decoded) {
            let (text, failed_now) = ResultText::of_call(&text, made, failures);
            let answer = is_change(made.tool()).then(|| Answer::of(&text, made));
            results.failed = failed_now || answer == Some(Answer::Declined);
            results.is_doubtful |= answer == Some(Answer::Doubtful);
            results.is_proposed |= results.is_doubtful;
            failed |= results.failed;
            results.read(text, made, out)?;
        }
        let outcome = match failed {
            true => Outcome::Failed,
            false if results.is_proposed => Outcome::Proposed,
            false => Outcome::Done,
        };
        Ok((outcome, results.is_doubtful))
    }

    /// Marks the lines of a result, or of what was written, that newer calls took out of their
    /// files: they would look like what is there.
    pub(super) fn note_taken_out(&self, out: &mut [DigestLine]) {
        let gone = self.seen.taken_out();
        if gone.is_empty() {
            return;
        }
        let is_of_file = |line: &&mut DigestLine| {
            let is_new = line.part == Part::Argument
                && matches!(line.standing, Standing::Usual | Standing::Beside);
            line.part == Part::Text || is_new
        };
        for line in out.iter_mut().filter(is_of_file) {
            if key_of_listed(&line.text).is_some_and(|key| gone.contains(&key)) {
                line.standing = Standing::Gone;
            }
        }
    }
}
