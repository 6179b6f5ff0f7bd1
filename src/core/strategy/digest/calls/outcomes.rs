//! Which failed calls were made good: by the same call, made again, by a newer one of its tool
//! about the same thing, or by the next one that was given mostly the same. What came out in the
//! end is told by that.

use super::made::Made;
use crate::core::strategy::digest::line::Outcome;
use crate::core::strategy::maps::{Map, Set};

/// The fewest values that a failed call shares with the one that made it good.
const LEAST_SHARED: usize = 2;

/// What newer calls did without a failure.
#[derive(Debug, Default)]
pub(in super::super) struct Outcomes {
    /// The calls that succeeded, by hashes.
    calls: Set<u64>,
    /// The tools with the ids that they were given, by hashes.
    succeeded: Set<u64>,
    /// What the call of each tool that succeeded next was given, by hashes.
    next: Map<String, Set<u64>>,
}

impl Outcomes {
    /// Takes note of a call that succeeded.
    pub(in super::super) fn note(&mut self, made: &Made) {
        self.calls.extend(made.hash());
        self.succeeded.extend(made.about());
        self.next.insert(made.tool().to_owned(), made.values());
    }

    /// What came of a call that failed.
    pub(in super::super) fn of_failed(&self, failed: &Made) -> Outcome {
        let values = failed.values();
        let next = self.next.get(failed.tool());
        let shared = next.map_or(0, |next| next.intersection(&values).count());
        let is_same = shared == values.len() && shared > 0;
        let is_again = failed.hash().is_some_and(|call| self.calls.contains(&call));
        if is_again || (is_same && failed.is_short()) {
            return Outcome::MadeGood;
        }
        // Another order or course is another thing, whatever else is the same.
        let names_other = next.is_some_and(|next| !failed.names().is_subset(next));
        let is_mostly_same =
            is_same || shared >= LEAST_SHARED && shared * 2 >= values.len() && !names_other;
        let is_about_same = failed.about().any(|about| self.succeeded.contains(&about));
        if is_mostly_same || is_about_same {
            Outcome::DoneOtherwise
        } else {
            Outcome::Failed
        }
    }
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
        outcomes.note(&made("pay", r#"{"order_id":"O-1","card":"visa"}"#));
        let next = r#"{"name":"Vacuum","target":"cover.west","time":"10:00"}"#;
        outcomes.note(&made("create_schedule", next));
        outcomes.note(&made("look_up", r#"{"plate":"GK 417 RT"}"#));
        outcomes.note(&made(
            "enrol",
            r#"{"student":"s21","course":"TW4505","group":"G1"}"#,
        ));
        outcomes.note(&made(
            "run",
            r#"{"command":"make test","cwd":"/src","timeout":60}"#,
        ));
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
    }
}
