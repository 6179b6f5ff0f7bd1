//! The run down a ladder: each step makes the span smaller until the target is met.

use super::clear_results::ClearResults;
use super::need::{ExternalInputs, Stopped};
use super::options::{Options, Run};
use super::oversize;
use super::report::{Done, Report};
use super::role_alternation;
use super::scope::Scope;
use super::step::Step;
use super::table::Strategy;
use super::token_budget::TokenBudget;
use super::trim_results::TrimResults;
use super::webhook::Webhook;
use crate::core::Cancel;
use crate::core::edit::{Draft, Target};
use crate::core::text::Failures;

/// One run down a ladder.
#[derive(Debug, Clone, Copy)]
pub struct Descent<'d> {
    /// The steps.
    pub ladder: &'d [Step],
    /// Where the run is to end.
    pub target: Target,
    /// The context length, tokens.
    pub window: u64,
    /// The signs of failure in results.
    pub failures: Failures<'d>,
    /// Answers that were fetched for the ladder.
    pub external: &'d ExternalInputs<'d>,
    /// Whether digests are written now. Otherwise one whose size is certain is only counted.
    pub writes: bool,
    /// Bounds the time of the run.
    pub cancel: &'d Cancel,
}

impl Descent<'_> {
    /// Runs the ladder down to the target. Where a list exceeds the room because of its newest
    /// exchange alone, that is cut (`oversize`): the one edit that reaches into the tail. It runs
    /// first where head and tail alone are too much, and last where nothing else helped.
    ///
    /// Once the time for planning is spent, only quick steps run; where a list then exceeds the
    /// room, old results become placeholders and the oldest exchanges go.
    ///
    /// # Errors
    /// [`Stopped`]: cancelled, or in need of an answer; with the answer, the same call comes to its
    /// end.
    pub fn run(mut self, draft: &mut Draft<'_>) -> Result<Vec<Report>, Stopped> {
        let mut reports = Vec::with_capacity(self.ladder.len() + 2);
        let alternates = draft.conversation().family.alternates;
        let whole = self.target;
        if alternates {
            let with_fillers = draft.size().tokens;
            role_alternation::remove_fillers(draft);
            // About as many fillers will be needed again.
            let fillers = with_fillers.saturating_sub(draft.size().tokens);
            self.target = whole.less_fillers(fillers);
        }
        let first = reported(oversize::NAME, &[], draft, |draft| {
            Ok(oversize::apply_first(draft, self.target, self.cancel)?.into())
        })?;
        if first.acted() {
            reports.push(first);
        }
        let skipped = self.steps(draft, &mut reports)?;
        if skipped && draft.size().tokens > self.target.prompt {
            self.shortcuts(draft, &mut reports)?;
        }
        if alternates {
            let fillers = insert_fillers(draft);
            if draft.size().tokens > whole.prompt {
                self.target = whole.less_fillers(fillers);
                self.make_room(draft, &mut reports)?;
            }
            self.target.prompt = whole.prompt;
        }
        if draft.size().tokens > self.target.prompt {
            reports.push(reported(oversize::NAME, &[], draft, |draft| {
                Ok(oversize::apply_last(draft, self.target, self.cancel)?.into())
            })?);
        }
        Ok(reports)
    }

    /// Runs the steps that act on results as they arrive. What they make of a result depends on it
    /// alone, so that it is the same in every later request.
    ///
    /// # Errors
    /// [`Stopped`]: cancelled. Results that there was no time for stay as they are.
    pub fn arrive(&self, draft: &mut Draft<'_>) -> Result<(), Stopped> {
        for step in self.ladder.iter().filter(|step| acts_on_arrival(step)) {
            match step.strategy.apply(&self.of_step(&step.scope, 0), draft) {
                Err(Stopped::Cancelled) if self.cancel.check().is_ok() => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// One run of a step with this scope, behind so many `webhook` steps.
    fn of_step<'r>(&'r self, scope: &'r Scope, webhook: usize) -> Run<'r> {
        Run {
            scope,
            target: self.target,
            window: self.window,
            webhook,
            failures: self.failures,
            external: self.external,
            writes: self.writes,
            cancel: self.cancel,
        }
    }

    /// The steps in their order. Reports whether there was no time for some of them.
    fn steps(&self, draft: &mut Draft<'_>, reports: &mut Vec<Report>) -> Result<bool, Stopped> {
        let mut skipped = false;
        for (at, step) in self.ladder.iter().enumerate() {
            self.cancel.check()?;
            if self.target.met(draft.size()) {
                break;
            }
            let strategy = &step.strategy;
            if !strategy.is_quick() && self.cancel.is_late() {
                skipped = true;
                continue;
            }
            let before = self.ladder.get(..at).unwrap_or_default();
            let run = self.of_step(&step.scope, webhooks(before).count());
            draft.begin_step(strategy.keeps_its_own());
            let apply = |draft: &mut Draft<'_>| match strategy.apply(&run, draft) {
                // Its time is spent, and the request is still waited for.
                Err(Stopped::Cancelled) if self.cancel.check().is_ok() => {
                    skipped = true;
                    Ok(Done::default())
                }
                done => done,
            };
            let report = reported(strategy.name(), strategy.counts(), draft, apply)?;
            reports.push(Report {
                shortcut: skipped,
                ..report
            });
        }
        draft.begin_step(false);
        Ok(skipped)
    }

    /// Where more fillers were needed than before, and the request does not fit with them: the
    /// oldest exchanges go as far as the ladder lets them.
    fn make_room(&self, draft: &mut Draft<'_>, reports: &mut Vec<Report>) -> Result<(), Stopped> {
        role_alternation::remove_fillers(draft);
        for step in self.ladder {
            if step.strategy.name() == TokenBudget::NAME {
                let run = self.of_step(&step.scope, 0);
                reports.push(reported(TokenBudget::NAME, &[], draft, |draft| {
                    step.strategy.apply(&run, draft)
                })?);
            }
        }
        insert_fillers(draft);
        Ok(())
    }

    /// The quick steps that stand for those that there was no time for.
    fn shortcuts(&self, draft: &mut Draft<'_>, reports: &mut Vec<Report>) -> Result<(), Stopped> {
        let everything = Scope::default();
        let names = [ClearResults::NAME, TokenBudget::NAME];
        for strategy in names.into_iter().filter_map(Strategy::named) {
            let run = self.of_step(&everything, 0);
            let apply = |draft: &mut Draft<'_>| strategy.apply(&run, draft);
            reports.push(Report {
                shortcut: true,
                ..reported(strategy.name(), strategy.counts(), draft, apply)?
            });
        }
        Ok(())
    }
}

/// Puts fillers where roles need them, and returns the tokens that the list then has more.
fn insert_fillers(draft: &mut Draft<'_>) -> u64 {
    let without = draft.size().tokens;
    role_alternation::insert_fillers(draft);
    draft.size().tokens.saturating_sub(without)
}

/// The steps of a ladder that act on results as they arrive: none that leaves the newest messages
/// alone.
pub fn on_arrival(ladder: &[Step]) -> impl Iterator<Item = &TrimResults> {
    ladder.iter().filter_map(|step| match &step.strategy {
        Strategy::TrimResults(options) if acts_on_arrival(step) => Some(options),
        _ => None,
    })
}

fn acts_on_arrival(step: &Step) -> bool {
    let newest = matches!(&step.strategy, Strategy::TrimResults(options) if options.newest);
    newest && step.scope.older_than == 0
}

/// Whether nothing but digests stands for messages after the steps of a ladder. Then each of them
/// can be written from the originals, and none needs the text of the one before it.
pub fn writes_digests_only(ladder: &[Step]) -> bool {
    ladder.iter().all(|step| {
        !matches!(
            step.strategy,
            Strategy::Coalesce(_) | Strategy::Summarize(_) | Strategy::Webhook(_)
        )
    })
}

/// The options of the `webhook` steps of a ladder, in order.
pub fn webhooks(ladder: &[Step]) -> impl Iterator<Item = &Webhook> {
    ladder.iter().filter_map(|step| match &step.strategy {
        Strategy::Webhook(webhook) => Some(webhook),
        _ => None,
    })
}

/// Runs one step, and reports it.
fn reported<'a>(
    strategy: &'static str,
    details: &[&'static str],
    draft: &mut Draft<'a>,
    apply: impl FnOnce(&mut Draft<'a>) -> Result<Done, Stopped>,
) -> Result<Report, Stopped> {
    let before = draft.sent_size();
    let done = apply(draft)?;
    let after = draft.sent_size();
    let count = |name: &str| {
        done.details
            .iter()
            .find(|(key, _)| *key == name)
            .map_or(0, |(_, count)| *count)
    };
    Ok(Report {
        strategy,
        before,
        after,
        dropped: before.messages.saturating_sub(after.messages),
        replaced: done.replaced,
        details: details.iter().map(|name| (*name, count(name))).collect(),
        shortcut: false,
    })
}
