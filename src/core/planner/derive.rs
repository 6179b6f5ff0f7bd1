//! Decisions that any replica can make again: the walk over the points at which the conversation
//! was once a request.

use super::attempt::{Attempt, calls_in};
use super::chains::is_request_point;
use super::compact::{Outcome, Task};
use super::input::{KnownCheckpoint, UsageKey};
use super::plan::{Arrived, Compaction, Deferred, TriggerErrors};
use super::planner::Planner;
use super::session::Session;
use super::unwritten::{self, Start, Unwritten};
use super::usage_keys::usage_keys;
use super::watch::Watch;
use crate::core::budget::Budget;
use crate::core::conversation::{Size, scale};
use crate::core::edit::{Edit, size_of, size_of_edited};
use crate::core::policy::{Condition, Reason};
use crate::core::strategy::{ExternalInputs, Stopped, writes_digests_only};

/// Request points without a decision after which the walk is worth remembering.
const WORTH_REMEMBERING: usize = 64;

/// The outcome of the walk.
#[derive(Debug)]
pub struct Derived {
    /// One per message.
    pub(super) edits: Vec<Edit>,
    /// Whether a checkpoint of the ledger was used.
    pub(super) replayed: bool,
    /// The last compaction that the walk made.
    pub(super) compaction: Option<Compaction>,
    /// Length of the list at that compaction.
    pub(super) made_at: Option<usize>,
    /// The last attempt, by the walk or before it.
    pub(super) attempt: Option<Attempt>,
    /// Why the last compaction that a trigger asked for was not made.
    pub(super) deferred: Option<Deferred>,
    /// Failures of the policy's expression.
    pub(super) trigger_errors: TriggerErrors,
    /// Whether results were edited as they arrived.
    pub(super) arrived: Arrived,
    /// Whether a later walk may begin at the end of this one as if it had begun at the start.
    pub(super) can_resume: bool,
}

impl Derived {
    /// The keys of all usage that may have been reported for prefixes of the list to be sent,
    /// shortest first.
    #[must_use]
    pub fn usage_keys(&self, planner: &Planner<'_>, session: &Session<'_>) -> Vec<UsageKey> {
        usage_keys(planner, session, Some(&self.edits))
    }
}

impl Planner<'_> {
    /// Replays `known`, the longest checkpoint in the ledger for [`Session::checkpoint_keys`], and
    /// decides again what was decided at each later request point.
    ///
    /// # Errors
    /// [`Stopped`] when nobody waits any more, or an answer from outside is needed first.
    pub fn derive(
        &self,
        session: &Session<'_>,
        known: Option<&KnownCheckpoint>,
        external: &ExternalInputs<'_>,
    ) -> Result<Derived, Stopped> {
        let measures = session.measures();
        let budget = self.budget();
        let counted = budget.in_counted(self.step.factor());
        let known = known.filter(|known| self.goes_on || !self.exceeds(session, known, counted));
        let (base, mut edits) = match known {
            Some(known) => (known.messages, known.checkpoint.thaw(measures)),
            None => (0, vec![Edit::Keep; measures.len()]),
        };
        let before = measures.get(..base).unwrap_or(measures);
        let size = size_of_edited(before, session.fixed_tokens(), &edits);
        let condition = self.policy.when.as_ref();
        let reads_messages = condition.is_some_and(Condition::reads_messages);
        let mut walk = Walk {
            planner: self,
            session,
            budget,
            counted,
            size,
            retry_at: 0,
            previous: base,
            calls: calls_in(before),
            may_count: !reads_messages && writes_digests_only(&self.policy.ladder),
            unwritten: None,
            derived: Derived {
                arrived: self.arrive(session, base, &mut edits, external)?,
                edits,
                replayed: known.is_some(),
                compaction: None,
                made_at: None,
                attempt: known.map(|known| {
                    let at = base.saturating_sub(known.checkpoint.messages_since());
                    Attempt::made(measures, at, size.tokens > counted.target)
                }),
                deferred: None,
                trigger_errors: TriggerErrors::default(),
                can_resume: false,
            },
        };
        // The answers of others cannot be derived: with any to ask, only this request is decided.
        let walks = external.is_silent() && !self.goes_on;
        walk.go(base, walks, external)?;
        let far = measures.len().saturating_sub(base) >= WORTH_REMEMBERING;
        let in_vain = walk.derived.attempt.is_some_and(|attempt| attempt.in_vain);
        walk.derived.can_resume = reads_messages && far && walk.retry_at == 0 && !in_vain && walks;
        Ok(walk.derived)
    }

    /// Whether a checkpoint leaves the whole request over its budget. Its key leaves instructions
    /// out, which may have grown since. Then there is no later point at which to make it fit.
    fn exceeds(&self, session: &Session<'_>, known: &KnownCheckpoint, counted: Budget) -> bool {
        let measures = session.measures();
        known.messages == measures.len() && {
            let edits = known.checkpoint.thaw(measures);
            let size = size_of_edited(measures, session.fixed_tokens(), &edits);
            size.tokens > counted.prompt
        }
    }

    /// The keys of usage for prefixes of the client's own list, shortest first: for a request that
    /// is sent as it came.
    #[must_use]
    pub fn usage_keys(&self, session: &Session<'_>) -> Vec<UsageKey> {
        usage_keys(self, session, None)
    }
}

/// The state of the walk at one request point.
struct Walk<'w, 'p, 'b> {
    planner: &'w Planner<'p>,
    session: &'w Session<'b>,
    /// In the upstream's tokens, as far as the planner's step says how it counts.
    budget: Budget,
    /// The same in counted tokens.
    counted: Budget,
    /// Size of the edited list at this point, counted.
    size: Size,
    /// Below this many tokens another attempt is not worth its time: the last one found too little
    /// to save.
    retry_at: u64,
    /// The request point before this one.
    previous: usize,
    /// Calls of tools in the client's list up to this point.
    calls: u64,
    /// Whether a digest may be counted and written later.
    may_count: bool,
    /// The digest that stands in the list, where it is only counted.
    unwritten: Option<Unwritten>,
    derived: Derived,
}

impl Walk<'_, '_, '_> {
    /// Visits the request points behind the first `base` messages: all of them, or the request
    /// itself alone.
    fn go(&mut self, base: usize, all: bool, external: &ExternalInputs<'_>) -> Result<(), Stopped> {
        let measures = self.session.measures();
        for (at, measure) in measures.iter().enumerate().skip(base) {
            let edit = self.derived.edits.get(at).unwrap_or(&Edit::Keep);
            self.size += size_of(measure, edit);
            self.calls += u64::from(measure.shape.calls);
            let point = at + 1;
            if (point == measures.len() || all) && is_request_point(measures, point) {
                self.visit(point, external)?;
                self.previous = point;
            }
        }
        self.write(external)
    }

    /// Why a list that fits is not tried at this point, where the last attempt says so.
    fn waits(&self, reason: Reason, point: usize) -> Option<Deferred> {
        if self.size.tokens > self.counted.prompt {
            return None;
        }
        if self.size.tokens < self.retry_at {
            return Some(Deferred::BelowMinGain);
        }
        let last = self.derived.attempt?;
        let too_near = last.is_too_near(reason, (point, self.calls), self.planner);
        too_near.then_some(Deferred::TooSoon)
    }

    /// Decides as the request of the first `point` messages was decided.
    fn visit(&mut self, point: usize, external: &ExternalInputs<'_>) -> Result<(), Stopped> {
        self.planner.cancel.check()?;
        let watch = Watch {
            previous: self.previous,
            session: self.session,
            planner: self.planner,
            budget: self.budget,
            now: false,
        };
        let measures = self.session.measures().get(..point).unwrap_or_default();
        let edits = self.derived.edits.get(..point).unwrap_or_default();
        let errors = &mut self.derived.trigger_errors;
        let size = Size {
            tokens: scale(self.size.tokens, self.planner.step.factor()),
            ..self.size
        };
        let fired = watch.fires(measures, edits, size, errors);
        let Some(reason) = fired else { return Ok(()) };
        // A list that exceeds its budget after each compaction is compacted at every point: once
        // the time is spent, only what this request needs is.
        if point < self.session.len() && self.planner.cancel.is_late() {
            return Ok(());
        }
        if let Some(why) = self.waits(reason, point) {
            self.derived.deferred = Some(why);
            return Ok(());
        }
        let writes = point == self.session.len() || !self.may_count;
        let edits = edits.to_vec();
        let Some(outcome) = self.compact(point, reason, &edits, (writes, external))? else {
            self.derived.deferred = Some(Deferred::BrokenPairing);
            return Ok(());
        };
        if let Outcome::Made(compacted) = &outcome {
            let measures = self.session.measures().get(..point).unwrap_or_default();
            self.size = size_of_edited(measures, self.session.fixed_tokens(), &compacted.edits);
            let is_left = unwritten::place_in(&compacted.edits).is_some();
            self.unwritten = match self.unwritten.take() {
                // A later step may have dropped it.
                _ if !is_left => None,
                last if !compacted.left_unwritten => last,
                last => Some(Unwritten {
                    point,
                    reason,
                    before: edits,
                    start: last.map_or_else(|| self.start(), |last| last.start),
                }),
            };
        }
        self.take(outcome, reason, point);
        Ok(())
    }

    /// Compacts the first `point` messages under `edits`; `None` where calls and results do not
    /// match. With what is asked outside, says whether digests are written.
    fn compact(
        &self,
        point: usize,
        reason: Reason,
        edits: &[Edit],
        (writes, external): (bool, &ExternalInputs<'_>),
    ) -> Result<Option<Outcome>, Stopped> {
        let Ok(conversation) = self.planner.view(self.session)? else {
            return Ok(None);
        };
        let then = conversation.prefix(point);
        let task = Task {
            planner: self.planner,
            budget: self.counted,
            reason,
            external,
            writes,
        };
        task.compact(&then, edits).map(Some)
    }

    /// Writes the digest that stands in the list, if it is only counted so far. Where there is no
    /// time left for it, this request is decided alone, by what is quick.
    fn write(&mut self, external: &ExternalInputs<'_>) -> Result<(), Stopped> {
        let Some(digest) = self.unwritten.take() else {
            return Ok(());
        };
        let (point, reason) = (digest.point, digest.reason);
        let again = self.compact(point, reason, &digest.before, (true, external))?;
        if let Some(Outcome::Made(made)) = again
            && unwritten::write(&mut self.derived.edits, &made.edits)
        {
            if let Some(compaction) = &mut self.derived.compaction
                && self.derived.made_at == Some(point)
            {
                compaction.reports = made.reports;
            }
            return Ok(());
        }
        let Start {
            edits,
            compaction,
            made_at,
            attempt,
            deferred,
            retry_at,
        } = digest.start;
        let session = self.session;
        self.size = size_of_edited(session.measures(), session.fixed_tokens(), &edits);
        self.retry_at = retry_at;
        let derived = &mut self.derived;
        (derived.edits, derived.compaction, derived.made_at) = (edits, compaction, made_at);
        (derived.attempt, derived.deferred) = (attempt, deferred);
        self.visit(session.len(), external)
    }

    /// What the walk has come to.
    fn start(&self) -> Start {
        Start {
            edits: self.derived.edits.clone(),
            compaction: self.derived.compaction.clone(),
            made_at: self.derived.made_at,
            attempt: self.derived.attempt,
            deferred: self.derived.deferred,
            retry_at: self.retry_at,
        }
    }

    /// Goes on from an attempt at this point.
    fn take(&mut self, outcome: Outcome, reason: Reason, point: usize) {
        let mut attempt = Attempt {
            at: point,
            calls: self.calls,
            in_vain: true,
            fell_short: false,
        };
        match outcome {
            Outcome::Made(compacted) => {
                attempt.in_vain = false;
                attempt.fell_short = self.size.tokens > self.counted.target;
                for (slot, edit) in self.derived.edits.iter_mut().zip(compacted.edits) {
                    *slot = edit;
                }
                self.derived.compaction = Some(Compaction {
                    reason,
                    reports: compacted.reports,
                });
                self.derived.made_at = Some(point);
                self.derived.deferred = None;
                self.retry_at = 0;
            }
            Outcome::Deferred(why) => {
                self.derived.deferred = why;
                if matches!(reason, Reason::Ratio | Reason::Tokens) {
                    self.retry_at = self.size.tokens + self.counted.min_gain;
                }
            }
        }
        self.derived.attempt = Some(attempt);
    }
}
