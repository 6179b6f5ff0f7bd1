//! How reported usage enters decisions that every replica makes alike: as a [`FactorStep`] for each
//! conversation.
//!
//! A replica without a store knows only the answers that it saw itself. If it decided by them
//! exactly, two of them would never agree, and would rewrite a conversation that they serve in
//! turns again and again. So they decide by a step, which both know after one answer each, and a
//! conversation moves from one step to another only where that rewrites nothing that would not be
//! rewritten anyway.

use super::input::{CheckpointKey, PriorUsage};
use super::plan::Plan;
use crate::core::conversation::{Fingerprint, ratio};
use crate::core::strategy::Stopped;
use crate::core::tokens::FactorStep;

/// A report replaces an earlier one unless it is about a list shorter than this share of the other.
/// Tokens that the upstream adds to every prompt weigh less in a long one; just after a compaction
/// they would make the factor jump.
const LONG_ENOUGH: f64 = 0.8;

/// What a plan by a step goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The checkpoints of that step. All requests since are decided by it: every replica comes to
    /// the same.
    Derived,
    /// The list as it was sent by another step. Only the request itself is decided: no other
    /// replica comes to it.
    Sent(FactorStep),
}

/// What the upstream reported for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Prompt tokens as reported.
    pub reported: u64,
    /// Tokens counted for the same list.
    pub counted: u64,
    /// The step by which the last list was planned.
    pub step: FactorStep,
}

/// What is known of one conversation before a request of it is planned.
#[derive(Debug, Clone, Copy)]
pub struct Lesson {
    /// The key under which the next report is kept.
    key: Fingerprint,
    /// The last evidence, and whether it is about the request just before this one: if not, another
    /// replica served what lies between.
    known: Option<(Evidence, bool)>,
    /// The step that the request is planned by.
    step: FactorStep,
    /// How the upstream counts, as far as is known.
    factor: f64,
}

impl Lesson {
    /// How the upstream counts a conversation that nothing was reported for: as it counts others,
    /// or as the client was told. What a client says can make a compaction happen earlier, never
    /// prevent one, and only where it is about a request of this list and no more than a body of
    /// so many bytes can hold.
    #[must_use]
    pub fn elsewhere(
        learned: f64,
        prior: Option<PriorUsage>,
        prefixes: &[CheckpointKey],
        body_bytes: usize,
    ) -> f64 {
        let told = prior.and_then(|prior| {
            let counted = prior.counted?;
            let is_of_list = prefixes.iter().any(|key| key.messages == prior.messages);
            let most = counted.saturating_add(body_bytes as u64);
            let factor = ratio(prior.prompt_tokens, counted);
            (is_of_list && prior.prompt_tokens <= most).then_some(factor)
        });
        told.map_or(learned, |told| told.max(learned))
    }

    /// The lesson of a request with these prefixes, shortest first. `known` is the evidence for the
    /// longest prefix that has any, with its length; `elsewhere` is how the upstream counts other
    /// conversations, 1 if unknown.
    #[must_use]
    pub fn of(
        prefixes: &[CheckpointKey],
        known: Option<(usize, Evidence)>,
        elsewhere: f64,
    ) -> Option<Self> {
        let (last, earlier) = prefixes.split_last()?;
        let previous = earlier.last().map_or(0, |key| key.messages);
        let known = known.map(|(messages, evidence)| (evidence, messages >= previous));
        let (factor, step) = match known {
            None => (elsewhere, FactorStep::nearest(elsewhere)),
            Some((evidence, is_next)) => {
                let factor = evidence.factor();
                let stays = is_next || evidence.step.tolerates(factor);
                let step = if stays {
                    evidence.step
                } else {
                    FactorStep::nearest(factor)
                };
                (factor, step)
            }
        };
        Some(Lesson {
            key: last.prefix,
            known,
            step,
            factor,
        })
    }

    /// The step that the request is planned by.
    #[must_use]
    pub fn step(&self) -> FactorStep {
        self.step
    }

    /// Plans by the step that the conversation has, and by another one where that is due. `plan`
    /// plans by a step, from a basis. Returns the plan to be used and takes note of its step.
    ///
    /// # Errors
    /// [`Stopped`], as `plan` does.
    pub fn plan(
        &mut self,
        mut plan: impl FnMut(FactorStep, Basis) -> Result<Plan, Stopped>,
    ) -> Result<Plan, Stopped> {
        let mut planned = plan(self.step, Basis::Derived)?;
        // A replica that serves the conversation alone builds on what it sent, whatever another one
        // would derive: to begin anew costs more.
        let is_alone = self.known.is_some_and(|(_, is_next)| is_next);
        if is_alone && planned.replayed && planned.forced_by_size {
            return Ok(planned);
        }
        // A list that never was rewritten, or is rewritten now, moves to another step at no cost.
        let step = if !planned.edited() {
            FactorStep::nearest(self.factor)
        } else if planned.compaction.is_some() {
            self.step.renewed(self.factor)
        } else {
            self.step
        };
        if step != self.step {
            if is_alone && planned.replayed && planned.edited() {
                return self.move_to(step, plan);
            }
            self.step = step;
            planned = plan(step, Basis::Derived)?;
        }
        // A higher step that makes it fit is derived by other replicas, too; a forced compaction is
        // not.
        let above = self.step.above();
        if planned.forced_by_size && above != self.step {
            let higher = plan(above, Basis::Derived)?;
            if !higher.forced_by_size && higher.fits {
                self.step = above;
                planned = higher;
            }
        }
        Ok(planned)
    }

    /// Moves a compacted list to another step where nobody else serves the conversation. Derived
    /// from its start, the list could be left nearly as long as the trigger allows: it goes on from
    /// what was sent, so that this compaction lasts as long as any. Where the other step has no
    /// reason for one yet, nothing changes, the step included.
    fn move_to(
        &mut self,
        step: FactorStep,
        mut plan: impl FnMut(FactorStep, Basis) -> Result<Plan, Stopped>,
    ) -> Result<Plan, Stopped> {
        let planned = plan(step, Basis::Sent(self.step))?;
        if planned.compaction.is_some() {
            self.step = step;
        }
        Ok(planned)
    }

    /// The evidence after the upstream `reported` so many tokens for the list that was sent, which
    /// was `counted`; with the key to keep it under.
    #[must_use]
    pub fn learn(&self, reported: u64, counted: u64) -> (Fingerprint, Evidence) {
        let new = Evidence {
            reported,
            counted,
            step: self.step,
        };
        let outweighs = |known: &Evidence| ratio(counted, known.counted) < LONG_ENOUGH;
        let known = self.known.map(|(evidence, _)| evidence);
        let evidence = known.filter(outweighs).map_or(new, |known| Evidence {
            step: self.step,
            ..known
        });
        (self.key, evidence)
    }
}

impl Evidence {
    /// Reported tokens per counted token.
    #[must_use]
    pub fn factor(self) -> f64 {
        ratio(self.reported, self.counted)
    }
}
