//! The account that `baler compact --explain` gives: what became of each message, and why nothing
//! was done.

use std::fmt::Write as _;

use crate::core::conversation::Measure;
use crate::core::edit::{Edit, Replacement};
use crate::core::planner::{Deferred, Plan};
use crate::core::wire::Dialect;

/// Characters of a new message that are shown.
const EXCERPT: usize = 60;

/// Why a plan changes nothing.
pub(super) fn reason_for_nothing(plan: &Plan, wanted_summary: bool) -> String {
    let (tokens, budget) = (plan.before.tokens, plan.budget.prompt);
    let failed = plan.trigger_errors.first.as_ref();
    let failed = failed.map_or_else(String::new, |why| {
        format!(", and the policy's expression failed ({why}), so that its ratio decided")
    });
    let (word, meaning) = match plan.deferred {
        Some(Deferred::BelowMinGain) => (
            Deferred::BelowMinGain.as_str(),
            format!(
                "less than the minimum gain of {} tokens would be saved",
                plan.budget.min_gain
            ),
        ),
        Some(Deferred::BreakEven) => (
            Deferred::BreakEven.as_str(),
            "the tokens saved are not worth those that the API would have to read again".to_owned(),
        ),
        Some(Deferred::BrokenPairing) => (
            Deferred::BrokenPairing.as_str(),
            "calls and results do not match".to_owned(),
        ),
        Some(Deferred::TooSoon) => (
            Deferred::TooSoon.as_str(),
            "a count or an expression triggers again too soon after the last compaction".to_owned(),
        ),
        None if !plan.fits => (
            "unfit",
            format!("it exceeds the {budget} tokens that there is room for, and no step helps"),
        ),
        None if wanted_summary => (
            "summary_missing",
            "there is no summary, and no other step makes it smaller; the lines above say why"
                .to_owned(),
        ),
        None => (
            "below_trigger",
            format!("{tokens} of {budget} tokens that there is room for"),
        ),
    };
    format!("nothing to do ({word}: {meaning}{failed})")
}

/// A line for each message: kept, dropped, or replaced, by what, and its tokens before and after.
pub(super) fn of_messages(dialect: Dialect, measures: &[Measure], edits: &[Edit]) -> String {
    let mut lines = String::from("   message  role       tokens            what became of it");
    let mut stands = None;
    for (at, (measure, edit)) in measures.iter().zip(edits).enumerate() {
        let new: u64 = edit
            .new_messages()
            .iter()
            .map(Replacement::own_tokens)
            .sum();
        let (after, fate) = match edit {
            Edit::Keep => (measure.tokens, "kept".to_owned()),
            Edit::Drop => (0, dropped(stands)),
            Edit::Replace(by) => (new, format!("replaced by {}", excerpt(dialect, by))),
            Edit::Stand(by) => {
                stands = Some(at + 1);
                let by: Vec<String> = by.iter().map(|new| excerpt(dialect, new)).collect();
                let count = by.len();
                (
                    new,
                    format!("replaced by {count} new: {}", by.join(" and ")),
                )
            }
        };
        if matches!(edit, Edit::Keep | Edit::Replace(_)) {
            stands = None;
        }
        let (role, before) = (measure.role, measure.tokens);
        let number = at + 1;
        let _ = write!(
            lines,
            "\n   {number:>7}  {role:<9} {before:>7} -> {after:<7}  {fate}"
        );
    }
    lines
}

fn dropped(stands: Option<usize>) -> String {
    stands.map_or_else(
        || "dropped".to_owned(),
        |at| format!("dropped: what replaced message {at} stands for it too"),
    )
}

/// The role of a new message, and the beginning of its text on one line.
fn excerpt(dialect: Dialect, new: &Replacement) -> String {
    let Ok(entry) = dialect.entry(&new.json) else {
        return "a new message".to_owned();
    };
    let role = dialect
        .measure(&new.json, crate::core::tokens::Encoding::O200K)
        .map_or("", |measure| measure.role);
    let text = entry.texts().join(" ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let shown: String = text.chars().take(EXCERPT).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    let calls = entry.calls().count();
    let calls = match calls {
        0 => String::new(),
        calls => format!(" with {calls} calls"),
    };
    format!("{role}{calls} \"{shown}{more}\"")
}
