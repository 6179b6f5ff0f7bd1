//! What a call asks of which thing: by that it is told whether its result is the newer state of
//! what another call gave, or that of another system, of another time, or of a trial.

use super::changes::is_change;
use super::names::{is_among, words_in};
use crate::core::json::Json;
use crate::core::strategy::digest::json_form::is_id;
use crate::core::strategy::maps::hash_of;
use crate::core::text::{CHANGES, LOOKS};

/// The shortest word that is that of a thing, in the name of a tool (bytes), and the most of them.
const LEAST_THING: usize = 3;
const MOST_THINGS: usize = 8;
/// The most values that are compared with those of another call.
const MOST_GIVEN: usize = 32;
/// Words in the names of tools that tell what was, or what would be, or what something else is.
const OF_OTHER_TIMES: [&str; 26] = [
    "archive", "archived", "audit", "backup", "demo", "draft", "dry", "estimate", "event",
    "events", "example", "history", "mock", "old", "past", "preview", "previous", "quote",
    "sample", "sandbox", "simulate", "snapshot", "template", "test", "version", "versions",
];

/// What a call asks, as far as it is compared with another one.
#[derive(Debug)]
pub(in super::super) struct Scope {
    /// The tool, and the scalars that it was given, by their hashes.
    tool: u64,
    asked: u64,
    is_change: bool,
    is_of_other_times: bool,
    /// What the tool is about, by the words of its name.
    things: Vec<String>,
    /// The scalars that it was given, but for ids.
    given: Vec<(String, u64)>,
}

impl Scope {
    pub(super) fn of(tool: &str, arguments: &[(String, Json)]) -> Self {
        let scalars = || arguments.iter().filter(|(_, value)| value.is_scalar());
        let mut asked: Vec<(&str, String)> = scalars()
            .map(|(key, value)| (key.as_str(), value.to_string()))
            .collect();
        asked.sort_unstable();
        let given = scalars().filter(|(key, _)| !is_id(key)).take(MOST_GIVEN);
        // `mcp__shop__get_order` is the tool `get_order` of a server.
        let name = tool.rsplit(['.', ':']).next().unwrap_or(tool);
        let name = name.rsplit_once("__").map_or(name, |(_, name)| name);
        Scope {
            tool: hash_of(tool),
            asked: hash_of(&asked),
            is_change: is_change(tool),
            is_of_other_times: words_in(name).any(|word| is_among(&OF_OTHER_TIMES, word)),
            things: words_in(name)
                .filter_map(thing_of)
                .take(MOST_THINGS)
                .collect(),
            given: given
                .map(|(key, value)| (key.clone(), hash_of(&value.to_string())))
                .collect(),
        }
    }

    pub(in super::super) fn tool(&self) -> u64 {
        self.tool
    }

    /// The hash of the scalars that the tool was given.
    pub(in super::super) fn asked(&self) -> u64 {
        self.asked
    }

    pub(in super::super) fn is_same_tool(&self, other: &Self) -> bool {
        self.tool == other.tool
    }

    /// Whether it tells how things are, rather than how they were or would be.
    pub(in super::super) fn is_current(&self) -> bool {
        !self.is_of_other_times
    }

    pub(in super::super) fn is_same_call(&self, other: &Self) -> bool {
        self.is_same_tool(other) && self.asked == other.asked
    }

    /// Whether two tools are about the same kind of thing, by their names.
    pub(in super::super) fn is_about_same(&self, other: &Self) -> bool {
        self.is_same_tool(other) || self.things.iter().any(|thing| other.things.contains(thing))
    }

    /// Whether the tool is about what has its id under a key, and nothing else: `get_folio` about
    /// the `folio_id`.
    fn is_named_by(&self, key: &str) -> bool {
        let thing = words_in(key).next().and_then(thing_of);
        let mut things = self.things.iter();
        thing.is_some_and(|thing| !self.things.is_empty() && things.all(|of| *of == thing))
    }

    /// Whether another tool tells by this newer call what has become of what an older one gave, of
    /// the thing with the id under `key`: something was changed by one of them, or both only look
    /// it up. `is_own` says which keys are those of the thing.
    pub(in super::super) fn tells_state_of(
        &self,
        older: &Self,
        key: &str,
        is_own: impl Fn(&str) -> bool,
    ) -> bool {
        let is_elsewhere = |(key, value): &(String, u64)| {
            let there = older.given.iter().find(|(other, _)| other == key);
            there.is_some_and(|(_, there)| there != value) && !is_own(key)
        };
        if self.is_of_other_times || self.given.iter().any(is_elsewhere) {
            return false;
        }
        let is_about = |this: &Self, other: &Self| {
            let mut things = this.things.iter();
            !this.things.is_empty() && things.all(|thing| other.things.contains(thing))
        };
        match (self.is_change, older.is_change) {
            (true, _) => !older.is_of_other_times,
            (false, true) => is_about(self, older) || self.is_named_by(key),
            (false, false) => {
                let is_plain = |this: &Self| this.given.is_empty() && !this.is_of_other_times;
                is_about(self, older) && is_about(older, self) && is_plain(self) && is_plain(older)
            }
        }
    }
}

/// The thing that a word of a tool's name is, in small letters: what is done to it is none.
fn thing_of(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let is_verb = CHANGES.contains(word.as_str()) || LOOKS.contains(word.as_str());
    if word.len() < LEAST_THING || is_verb {
        return None;
    }
    Some(word.strip_suffix('s').unwrap_or(&word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(call: &str) -> Scope {
        let (tool, given) = call.split_once(' ').unwrap_or((call, "{}"));
        match Json::parse(given) {
            Some(Json::Object(arguments)) => Scope::of(tool, &arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_changed_or_is_looked_up_again_has_a_newer_state() {
        let get = r#"get_order {"order_id":"O-1"}"#;
        for (newer, older) in [
            (r#"update_order {"order_id":"O-1"}"#, get),
            (r#"cancelOrder {"order_id":"O-1","reason":"late"}"#, get),
            (get, r#"create_order {"customer":"Ann"}"#),
            (get, r#"mcp__shop__update_order_items {"order_id":"O-1"}"#),
            (r#"find_orders {"order_id":"O-1"}"#, get),
        ] {
            let is_state = scope(newer).tells_state_of(&scope(older), "order_id", |_| false);
            assert!(is_state, "{newer} of {older}");
        }
    }

    #[test]
    fn other_systems_times_and_trials_tell_nothing_of_it() {
        let get = r#"get_order {"order_id":"O-1"}"#;
        let get_there = r#"get_order {"order_id":"O-1","env":"prod"}"#;
        for (newer, older) in [
            (r#"get_order_version {"order_id":"O-1","version":1}"#, get),
            (r#"preview_cancel {"order_id":"O-1"}"#, get),
            (r#"supplier_get_order {"order_id":"O-1"}"#, get),
            (
                r#"update_order {"order_id":"O-1","env":"staging"}"#,
                get_there,
            ),
            (r#"price {"order_id":"O-1"}"#, get),
            (
                r#"get_user {"user_id":7}"#,
                r#"update_ticket {"ticket_id":7}"#,
            ),
        ] {
            let is_state = scope(newer).tells_state_of(&scope(older), "order_id", |_| false);
            assert!(!is_state, "{newer} of {older}");
        }
        let same = scope(r#"update_order {"order_id":"O-1","env":"staging"}"#);
        assert!(same.tells_state_of(&scope(get_there), "order_id", |key| key == "env"));
        assert!(scope("close_ticket").is_about_same(&scope("get_tickets")));
        assert!(!scope("close_ticket").is_about_same(&scope("get_user")));
    }
}
