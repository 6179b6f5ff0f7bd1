//! Which words the parties said, and which the user said lately.

use super::Reader;
use super::context::Context;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::{Cancel, Cancelled};

/// The newest texts of the user's that stay of which the words count as said lately.
const SAID_LATELY: usize = 2;

impl Reader<'_> {
    /// Notes the words that the parties said.
    pub(super) fn note_said(
        &mut self,
        lines: &[DigestLine],
        context: &Context,
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        for (is_user, text) in &context.said {
            cancel.check_budget()?;
            self.for_known(text, |_, word| {
                word.covered = true;
                word.note_said(*is_user);
            });
            self.for_meant(text, |word| word.note_said(*is_user));
        }
        // Words between blanks were noted as the lines were read.
        for (at, line) in lines.iter().filter(|line| line.part.is_said()).enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let is_user = line.part == Part::User;
            self.for_meant(&line.text, |word| word.note_said(is_user));
        }
        self.note_said_lately(lines, context, cancel)
    }

    /// Notes the words of the user's newest messages: those that stay, and the last that does not.
    fn note_said_lately(
        &mut self,
        lines: &[DigestLine],
        context: &Context,
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let of_user = context.said.iter().filter(|(is_user, _)| *is_user);
        for (_, text) in of_user.take(SAID_LATELY) {
            cancel.check_budget()?;
            self.for_said(text, |word| word.said_lately = true);
        }
        let is_his =
            |line: &&DigestLine| line.part == Part::User && line.standing != Standing::Pasted;
        let newest = lines.iter().filter(is_his).map(|line| line.turn).max();
        let last = lines.iter().filter(is_his);
        for line in last.filter(|line| Some(line.turn) == newest) {
            cancel.check_budget()?;
            self.for_said(&line.text, |word| word.said_lately = true);
        }
        Ok(())
    }
}
