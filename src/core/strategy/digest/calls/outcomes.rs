//! What came of calls in the end: which were undone by the tool that does the opposite, and which
//! of those that failed were made good: by the same call, made again, by a newer one of its tool
//! about the same thing, or by the next one that was given mostly the same. What came out in the
//! end is told by that.

use super::made::Made;
use super::names::{is_among, words_in};
use crate::core::strategy::digest::line::Outcome;
use crate::core::strategy::maps::{Map, Set, hash_of};

/// The fewest values that a failed call shares with the one that made it good.
const LEAST_SHARED: usize = 2;

/// Words in the names of tools that undo what others do, besides those that begin with `un`, and
/// the shortest word that is undone by that (bytes).
const OPPOSITES: [(&str, &str); 11] = [
    ("activate", "deactivate"),
    ("add", "remove"),
    ("attach", "detach"),
    ("enable", "disable"),
    ("open", "close"),
    ("pause", "resume"),
    ("start", "stop"),
    ("suspend", "reactivate"),
    ("suspend", "resume"),
    ("archive", "restore"),
    ("grant", "revoke"),
];
const LEAST_DONE: usize = 3;
/// Words in the names of tools that undo what the rest of the name says: `undo_return`.
const UNDOES: [&str; 3] = ["undo", "revert", "rollback"];

/// What newer calls did without a failure.
#[derive(Debug, Default)]
pub(in super::super) struct Outcomes {
    /// What came of calls when they were made last, by hashes.
    calls: Map<u64, Outcome>,
    /// The tools with the ids that they were given, by hashes.
    succeeded: Set<u64>,
    /// How often they undid calls, by the hashes of these.
    undone: Map<u64, u32>,
    /// What the call of each tool that succeeded next was given, by hashes.
    next: Map<String, Set<u64>>,
}

impl Outcomes {
    /// Takes note of a call that succeeded, so many times.
    pub(in super::super) fn note(&mut self, made: &Made, times: u32) {
        if let Some(call) = made.hash() {
            self.calls.entry(call).or_insert(Outcome::Done);
        }
        self.succeeded.extend(made.about());
        let given = made.scope().asked();
        let opposites = opposites_of(made.tool()).into_iter();
        let undone = opposites.chain(undone_by(made.tool()));
        for tool in undone {
            *self.undone.entry(hash_of(&(tool, given))).or_default() += times;
        }
        self.next.insert(made.tool().to_owned(), made.values());
    }

    /// Whether a call that did not fail was undone each of so many times, by the tool that does the
    /// opposite, given the same.
    pub(in super::super) fn is_undone(&mut self, done: &Made, times: u32) -> bool {
        if self.undone.is_empty() {
            return false;
        }
        let (tool, given) = (done.tool().to_lowercase(), done.scope().asked());
        // What `undo_return` undid is a return, and not the undoing of one.
        let words = words_in(&tool).filter(|_| !undoes(&tool));
        for name in std::iter::once(tool.as_str()).chain(words) {
            let left = self.undone.get_mut(&hash_of(&(name, given)));
            if let Some(left) = left.filter(|left| **left >= times) {
                *left -= times;
                return true;
            }
        }
        false
    }

    /// What came of a call that failed.
    pub(in super::super) fn of_failed(&mut self, failed: &Made) -> Outcome {
        let call = failed.hash();
        match call.and_then(|call| self.calls.get(&call).copied()) {
            Some(Outcome::Done) => Outcome::MadeGood,
            // What came of it when it failed again came of it now.
            Some(last) => last,
            None => {
                let outcome = self.of_failed_last(failed);
                self.calls.extend(call.map(|call| (call, outcome)));
                outcome
            }
        }
    }

    /// The same of one that was not made again.
    fn of_failed_last(&self, failed: &Made) -> Outcome {
        let values = failed.values();
        let next = self.next.get(failed.tool());
        let shared = next.map_or(0, |next| next.intersection(&values).count());
        let is_same = shared == values.len() && shared > 0;
        let is_all = next.is_some_and(|next| next.len() == values.len());
        if is_same && is_all && failed.is_short() {
            return Outcome::MadeGood;
        }
        // Another order or course is another thing, whatever else is the same.
        let names_other = next.is_some_and(|next| !failed.names().is_subset(next));
        let is_mostly_same =
            is_same || shared >= LEAST_SHARED && shared * 2 >= values.len() && !names_other;
        let is_about_same = failed.about().any(|about| self.succeeded.contains(&about));
        // A part of a payment is not the payment.
        let is_less = next.is_some_and(|next| !failed.amounts().is_subset(next));
        if !is_less && (is_mostly_same || is_about_same) {
            Outcome::DoneOtherwise
        } else {
            Outcome::Failed
        }
    }
}

/// Whether the name of a tool says that it undoes something.
fn undoes(tool: &str) -> bool {
    words_in(tool).any(|word| is_among(&UNDOES, word))
}

/// What a tool undoes by its name, in small letters: of `undo_return`, tools with a `return`.
fn undone_by(tool: &str) -> Vec<String> {
    if !undoes(tool) {
        return Vec::new();
    }
    let words = words_in(tool).filter(|word| word.len() >= LEAST_DONE && !is_among(&UNDOES, word));
    words.map(str::to_lowercase).collect()
}

/// The names of tools that do the opposite, in small letters: of `unfreeze_card` `freeze_card`.
fn opposites_of(tool: &str) -> Vec<String> {
    let tool = tool.to_lowercase();
    let mut found = Vec::new();
    for word in words_in(&tool) {
        let other = |one: &str| found_as(&tool, word, one);
        match word.strip_prefix("un") {
            Some(rest) if rest.len() >= LEAST_DONE => found.push(other(rest)),
            _ => found.push(other(&format!("un{word}"))),
        }
        for (one, opposite) in OPPOSITES {
            if word == one {
                found.push(other(opposite));
            } else if word == opposite {
                found.push(other(one));
            }
        }
    }
    found
}

/// The name of a tool with another word in the place of one.
fn found_as(tool: &str, word: &str, other: &str) -> String {
    tool.replacen(word, other, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::json::Json;
    use Outcome::{DoneOtherwise, Failed, MadeGood};

    #[test]
    fn a_failure_is_made_good_by_a_call_about_the_same() {
        let made = |tool: &str, arguments: &str| match Json::parse(arguments) {
            Some(Json::Object(arguments)) => Made::new(tool, arguments),
            _ => panic!("{arguments}"),
        };
        let mut outcomes = Outcomes::default();
        outcomes.note(&made("pay", r#"{"order_id":"O-1","card":"visa"}"#), 1);
        let next = r#"{"name":"Vacuum","target":"cover.west","time":"10:00"}"#;
        outcomes.note(&made("create_schedule", next), 1);
        outcomes.note(&made("look_up", r#"{"plate":"GK 417 RT"}"#), 1);
        outcomes.note(
            &made(
                "enrol",
                r#"{"student":"s21","course":"TW4505","group":"G1"}"#,
            ),
            1,
        );
        outcomes.note(
            &made(
                "run",
                r#"{"command":"make test","cwd":"/src","timeout":60}"#,
            ),
            1,
        );
        for (tool, arguments, overcome) in [
            ("pay", r#"{"order_id":"O-1","card":"gift"}"#, DoneOtherwise),
            ("pay", r#"{"order_id":"O-2","card":"visa"}"#, Failed),
            ("refund", r#"{"order_id":"O-1"}"#, Failed),
            (
                "create_schedule",
                r#"{"name":"Vacuum","target":"cover.west","time":"25:00"}"#,
                DoneOtherwise,
            ),
            (
                "enrol",
                r#"{"student":"s21","course":"AI4401","group":"G1"}"#,
                Failed,
            ),
            (
                "enrol",
                r#"{"student":"s21","course":"TW4505","group":"G2"}"#,
                DoneOtherwise,
            ),
            ("look_up", r#"{"plate":"GK 417 RT"}"#, MadeGood),
            (
                "create_schedule",
                r#"{"name":"Lights","target":"light.hall","time":"10:00"}"#,
                Failed,
            ),
            (
                "run",
                r#"{"command":"make lint","cwd":"/src","timeout":60}"#,
                Failed,
            ),
            (
                "run",
                r#"{"command":"make test","cwd":"/src","timeout":60}"#,
                MadeGood,
            ),
        ] {
            let failed = made(tool, arguments);
            assert_eq!(outcomes.of_failed(&failed), overcome, "{tool} {arguments}");
        }
        // Another invoice is another thing.
        let paid = r#"{"invoice":"882","account":"main","currency":"EUR"}"#;
        outcomes.note(&made("settle", paid), 1);
        let refused = r#"{"invoice":"881","account":"main","currency":"EUR"}"#;
        assert_eq!(outcomes.of_failed(&made("settle", refused)), Failed);
    }

    #[test]
    fn what_failed_again_last_is_not_made_good() {
        let test = || match Json::parse(r#"{"name":"unit","seed":7}"#) {
            Some(Json::Object(arguments)) => Made::new("run_test", arguments),
            other => panic!("{other:?}"),
        };
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.of_failed(&test()), Failed);
        outcomes.note(&test(), 1);
        assert_eq!(outcomes.of_failed(&test()), Failed);
    }

    #[test]
    fn a_change_is_undone_as_often_as_the_opposite_was_done() {
        let made = |tool: &str| Made::new(tool, vec![("sku".to_owned(), Json::unquoted("D-7"))]);
        let mut outcomes = Outcomes::default();
        outcomes.note(&made("remove_item"), 1);
        assert!(!outcomes.is_undone(&made("add_item"), 3));
        assert!(outcomes.is_undone(&made("add_item"), 1));
        assert!(!outcomes.is_undone(&made("add_item"), 1));
    }
}
