//! Which failed calls were made good: by a newer call of the same tool about the same thing, or by
//! the next one that was given mostly the same. What came out in the end is told by that.

use super::made::Made;
use crate::core::strategy::maps::{Map, Set};

/// The fewest values that a failed call shares with the one that made it good.
const LEAST_SHARED: usize = 2;

/// What newer calls did without a failure.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// The tools with the ids that they were given, by hashes.
    succeeded: Set<u64>,
    /// What the call of each tool that succeeded next was given, by hashes.
    next: Map<String, Set<u64>>,
}

impl Outcomes {
    /// Takes note of a call that succeeded.
    pub(super) fn note(&mut self, made: &Made) {
        self.succeeded.extend(made.about());
        self.next.insert(made.tool().to_owned(), made.values());
    }

    /// Whether a newer call made good one that failed.
    pub(super) fn is_overcome(&self, failed: &Made) -> bool {
        if failed.about().any(|about| self.succeeded.contains(&about)) {
            return true;
        }
        let values = failed.values();
        let next = self.next.get(failed.tool());
        let shared = next.map_or(0, |next| next.intersection(&values).count());
        let is_same = shared == values.len() && shared > 0;
        // Another order or course is another thing, whatever else is the same.
        let names_other = next.is_some_and(|next| !failed.names().is_subset(next));
        is_same || (shared >= LEAST_SHARED && shared * 2 >= values.len() && !names_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::json::Json;

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
            ("pay", r#"{"order_id":"O-1","card":"gift"}"#, true),
            ("pay", r#"{"order_id":"O-2","card":"visa"}"#, false),
            ("refund", r#"{"order_id":"O-1"}"#, false),
            (
                "create_schedule",
                r#"{"name":"Vacuum","target":"cover.west","time":"25:00"}"#,
                true,
            ),
            (
                "enrol",
                r#"{"student":"s21","course":"AI4401","group":"G1"}"#,
                false,
            ),
            (
                "enrol",
                r#"{"student":"s21","course":"TW4505","group":"G2"}"#,
                true,
            ),
            ("look_up", r#"{"plate":"GK 417 RT"}"#, true),
            (
                "create_schedule",
                r#"{"name":"Lights","target":"light.hall","time":"10:00"}"#,
                false,
            ),
            (
                "run",
                r#"{"command":"make lint","cwd":"/src","timeout":60}"#,
                false,
            ),
        ] {
            let failed = made(tool, arguments);
            assert_eq!(
                outcomes.is_overcome(&failed),
                overcome,
                "{tool} {arguments}"
            );
        }
    }
}
