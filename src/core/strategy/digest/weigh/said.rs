//! Which words the parties said, and which the user said lately.

use super::Reader;
use super::context::Context;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::text::sentences;
use crate::core::{Cancel, Cancelled};

/// The newest texts of the user's that stay of which the words count as said lately.
const SAID_LATELY: usize = 2;
/// The newest sentences that stay which are compared with rows.
const MOST_BESIDES: usize = 32;
/// The most ids of a message that are looked at.
const MOST_NAMED: usize = 16;

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
            self.for_meant(text, |_, word| word.note_said(*is_user));
            // What the model is at stands in its newest calls.
            for sentence in sentences(text) {
                if context.is_at_work || self.said_besides.len() >= MOST_BESIDES {
                    break;
                }
                let mut ids = Vec::new();
                self.for_known(sentence, |id, _| ids.push(id));
                self.for_meant(sentence, |id, _| ids.push(id));
                self.said_besides.push(ids);
            }
        }
        // Words between blanks were noted as the lines were read.
        let said = lines.iter().enumerate();
        let said = said.filter(|(_, line)| line.part.is_said());
        for (nth, (at, line)) in said.enumerate() {
            if nth.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let is_user = line.part == Part::User;
            let mut meant = Vec::new();
            self.for_meant(&line.text, |id, word| {
                word.note_said(is_user);
                meant.push(id);
            });
            if !meant.is_empty() {
                self.meant_in.insert(at, meant);
            }
        }
        self.note_said_lately(lines, context, cancel)
    }

    /// The ids with letters that the user's newest message has, and those of what the model said
    /// before it, as they are first named.
    pub(super) fn named_last(&mut self, lines: &[DigestLine], context: &Context) -> [Vec<u32>; 2] {
        let of_user = self.ids_in(context.said_last.iter().map(String::as_str));
        let newest = context.said.iter().position(|(is_user, _)| *is_user);
        let before = newest.and_then(|newest| context.said.get(newest + 1));
        let of_model = match before {
            Some((false, text)) => self.ids_in([text.as_str()].into_iter()),
            _ => self.ids_in(proposed_in(lines).map(|line| line.text.as_str())),
        };
        [of_user, of_model]
    }

    fn ids_in<'s>(&mut self, texts: impl Iterator<Item = &'s str>) -> Vec<u32> {
        let mut ids = Vec::new();
        for text in texts {
            self.for_known(text, |id, word| {
                if word.is_id && !ids.contains(&id) && ids.len() < MOST_NAMED {
                    ids.push(id);
                }
            });
        }
        ids
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

/// The lines of what the model said last before the user's newest message, where that does not
/// stay.
fn proposed_in(lines: &[DigestLine]) -> impl Iterator<Item = &DigestLine> {
    let is_said = |line: &DigestLine| {
        line.part == Part::Assistant && !line.user_below && line.standing != Standing::Aside
    };
    let end = lines.iter().rposition(is_said).map_or(0, |last| last + 1);
    let upto = lines.get(..end).unwrap_or_default();
    let begin = upto.iter().rposition(|line| line.depth == 0);
    let entry = upto.get(begin.unwrap_or_default()..).unwrap_or_default();
    entry.iter().filter(|line| line.part == Part::Assistant)
}
