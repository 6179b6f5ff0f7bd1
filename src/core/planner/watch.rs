//! The triggers at one request point.

use super::plan::TriggerErrors;
use super::planner::Planner;
use super::session::Session;
use crate::core::budget::Budget;
use crate::core::conversation::{Author, Measure, Shape, Size, scale};
use crate::core::edit::{Edit, Replacement};
use crate::core::policy::{ConditionView, Reason, SeenMessage};
use crate::core::wire::Dialect;

/// The trigger of a policy whose expression fails: a share of window − reserve.
const FALLBACK_RATIO: f64 = 0.8;

/// Up to so many messages an expression over them is evaluated at every request point.
const ALWAYS_EVALUATED: usize = 256;
/// From there on it is evaluated each time the list has grown by one part in so many, so that a
/// long list costs no more than a few times its length. The points follow from their place alone,
/// so that every process comes to the same.
const EVALUATION_STEP: usize = 16;

/// One request point at which triggers are evaluated.
pub(super) struct Watch<'w, 'p, 'b> {
    pub session: &'w Session<'b>,
    pub planner: &'w Planner<'p>,
    pub budget: Budget,
    /// The request point before it.
    pub previous: usize,
    /// Whether it is the request itself, and not one that was made earlier.
    pub now: bool,
}

impl Watch<'_, '_, '_> {
    /// The trigger that fires for the list that `edits` leave of the messages with these
    /// `measures`.
    pub(super) fn fires(
        &self,
        measures: &[Measure],
        edits: &[Edit],
        size: Size,
        errors: &mut TriggerErrors,
    ) -> Option<Reason> {
        let Budget { window, prompt, .. } = self.budget;
        let policy = self.planner.policy;
        let others = policy.trigger.fires(size, &self.budget);
        let Some(condition) = &policy.when else {
            return others;
        };
        // Headers are known of this request only: a decision by them is not derived.
        if others.is_some() || (condition.reads_headers() && !self.now) {
            return others;
        }
        if condition.reads_messages() && !self.now && !is_evaluated(self.previous, measures.len()) {
            return others;
        }
        let tools: &[Box<str>] = if condition.reads_tools() {
            self.session.tools()
        } else {
            &[]
        };
        let dialect = self.session.dialect();
        let messages = || seen(dialect, measures, edits, tools);
        let view = ConditionView {
            total_tokens: size.tokens,
            budget: prompt,
            window,
            messages: &messages,
            request: self.planner.request,
        };
        match condition.evaluate(&view) {
            Ok(fires) => fires.then_some(Reason::Condition),
            Err(why) => {
                errors.add(why);
                (size.tokens >= scale(prompt, FALLBACK_RATIO)).then_some(Reason::Ratio)
            }
        }
    }
}

/// Whether an expression over messages is evaluated at the request point after `previous`.
fn is_evaluated(previous: usize, point: usize) -> bool {
    let mut next = ALWAYS_EVALUATED;
    while next <= previous {
        next += next / EVALUATION_STEP;
    }
    point <= ALWAYS_EVALUATED || next <= point
}

/// The messages that an expression sees of the list that `edits` leave.
/// `tools` has the name of each message's tool, as far as names are asked for; a list that was
/// continued by a forecast has its newest messages twice.
fn seen<'s>(
    dialect: Dialect,
    measures: &[Measure],
    edits: &[Edit],
    tools: &'s [Box<str>],
) -> Vec<SeenMessage<'s>> {
    let mut seen = Vec::with_capacity(measures.len());
    let added = measures.len().saturating_sub(tools.len());
    for (seq, (measure, edit)) in measures.iter().zip(edits).enumerate() {
        let shape_of = |new: &Replacement| dialect.shape(&new.json).unwrap_or(measure.shape);
        let one = |shape: Shape| SeenMessage {
            seq,
            role: measure.role,
            tokens: measure.tokens,
            tool: tools
                .get(seq)
                .or_else(|| tools.get(seq.checked_sub(added)?))
                .map_or("", |tool| tool),
            kind: shape.kind,
            chars: u64::from(shape.chars),
        };
        match edit {
            Edit::Keep => seen.push(one(measure.shape)),
            Edit::Replace(new) => seen.push(SeenMessage {
                tokens: new.tokens,
                ..one(shape_of(new))
            }),
            edit => seen.extend(edit.new_messages().iter().map(|new| SeenMessage {
                role: dialect.role_of(Author::User),
                tokens: new.tokens,
                tool: "",
                ..one(shape_of(new))
            })),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::is_evaluated;

    /// Messages that evaluations over a list of this length look at, in all.
    fn looked_at(length: usize) -> usize {
        let points = (1..=length).filter(|point| is_evaluated(point - 1, *point));
        points.sum()
    }

    #[test]
    fn a_list_four_times_as_long_costs_four_times_as_much() {
        assert!((1..=256).all(|point| is_evaluated(point - 1, point)));
        let (short, long) = (looked_at(10_000), looked_at(40_000));
        assert!(long < 5 * short, "{short}, {long}");
    }

    #[test]
    fn points_follow_from_their_place_alone() {
        // A walk that begins in the middle evaluates where one from the start does.
        assert_eq!(is_evaluated(300, 310), is_evaluated(301, 310));
        assert!(is_evaluated(256, 272) && !is_evaluated(272, 280));
    }
}
