//! Edits of results as they arrive: what a policy asks for of every result, before any trigger.

use super::plan::Arrived;
use super::planner::Planner;
use super::session::Session;
use crate::core::conversation::Speaker;
use crate::core::edit::{Draft, Edit, Target};
use crate::core::strategy::{Descent, ExternalInputs, Stopped};
use crate::core::text::Failures;

impl Planner<'_> {
    /// Edits the results from message `base` on as the policy's steps do when they arrive; earlier
    /// ones arrived with former requests. Every request, in every replica, comes to the same edits.
    ///
    /// # Errors
    /// [`Stopped`] when nobody waits any more.
    pub(super) fn arrive(
        &self,
        session: &Session<'_>,
        base: usize,
        edits: &mut [Edit],
        external: &ExternalInputs<'_>,
    ) -> Result<Arrived, Stopped> {
        let Planner { policy, .. } = *self;
        if policy.least_arrival().is_none() {
            return Ok(Arrived::Nothing);
        }
        // Calls and results that do not match are nobody's to edit.
        let Ok(conversation) = self.view(session)? else {
            return Ok(Arrived::Nothing);
        };
        let budget = self.budget();
        let target = Target::of_tokens(budget.target, budget.prompt);
        let mut draft = Draft::new(
            conversation,
            edits.to_vec(),
            &policy.pin,
            &policy.keep,
            target,
        );
        let descent = Descent {
            ladder: &policy.ladder,
            target,
            window: self.window,
            failures: Failures::new(&policy.failures),
            external,
            writes: true,
            cancel: self.cancel,
        };
        descent.arrive(&mut draft)?;
        for (slot, edit) in edits.iter_mut().zip(draft.into_edits()).skip(base) {
            *slot = edit;
        }
        let last = edits
            .iter()
            .skip(base)
            .rposition(|edit| *edit != Edit::Keep);
        let answers = session.measures().iter();
        let answered = answers
            .clone()
            .rposition(|m| m.speaker == Speaker::Assistant);
        Ok(match last {
            None => Arrived::Nothing,
            Some(at) if Some(base + at) > answered => Arrived::Now,
            Some(_) => Arrived::Before,
        })
    }
}
