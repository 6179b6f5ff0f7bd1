//! Which of the states of a record in results is the newest, and what of an older one has changed
//! since.

use super::named::mark_changed;
use super::record::Results;
use super::records::{RecordParts, denies};
use super::seen::Record;
use crate::core::json::Json;
use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::calls::names::is_among;
use crate::core::strategy::digest::json_form::{has_own_id, set_members};

/// Records in the answer of a change that are compared with older ones.
const MOST_CHANGED: usize = 16;

/// Members that tell the state of a thing.
const STATES: [&str; 4] = ["phase", "stage", "state", "status"];
/// Members and arguments by which a change is only tried, and those by which it is made, where they
/// are true.
const TRIED: [&str; 8] = [
    "dry_run",
    "dryRun",
    "preview",
    "simulate",
    "simulated",
    "simulation",
    "validate_only",
    "what_if",
];
const MADE: [&str; 6] = [
    "applied",
    "commit",
    "committed",
    "executed",
    "persisted",
    "saved",
];
/// What the state of a change says that somebody else has to allow, or that is still to come.
const TO_COME: [&str; 4] = ["approval", "awaiting", "queued", "scheduled for"];

type Member = (String, Json);

/// Whether a result is of a change that was tried or asked for, rather than made.
fn is_proposed(json: &Json, made: &Made) -> bool {
    let tells = |(key, value): &Member| {
        let is = |keys: &[&str]| is_among(keys, key);
        match value {
            Json::Bool(true) => is(&TRIED),
            Json::Bool(false) => is(&MADE) || (is_change(made.tool()) && denies(key)),
            Json::String(text) if is_change(made.tool()) && is(&STATES) => {
                let lower = text.to_ascii_lowercase();
                TO_COME.iter().any(|sign| lower.contains(sign))
            }
            _ => false,
        }
    };
    let of_result = match json {
        Json::Object(members) => members.as_slice(),
        _ => &[],
    };
    of_result.iter().chain(&made.arguments).any(tells)
}

/// Whether a result says in which state a thing is.
fn tells_state(json: &Json) -> bool {
    let is_state = |(key, value): &Member| is_among(&STATES, key) && value.is_scalar();
    matches!(json, Json::Object(members) if members.iter().any(is_state))
}

impl Results<'_> {
    /// Compares a record with its newer states: its parts, where it can be a row of the newest
    /// one. What has changed since is marked in it. `None` where a newer result tells all of it.
    pub(super) fn state(&mut self, json: &mut Json, made: &Made) -> Option<Option<RecordParts>> {
        self.is_proposed |= is_proposed(json, made);
        let changed = self.seen.changed(json, made);
        self.inner_state(json, made);
        let is_state = match self.failed {
            // What a refusal says of a thing is not its state; that a job failed is.
            true => tells_state(json) && !is_change(made.tool()),
            false => !self.is_proposed,
        };
        let state = match is_state {
            true => self.seen.record(json, made),
            false => Record::Unnamed,
        };
        let is_disputed = state != Record::Superseded && self.seen.is_disputed(json, made);
        let parts = match state {
            Record::Superseded => return None,
            // A row is of the newest state, and what stands below its call is of that time.
            Record::Newest if !is_disputed => {
                let now = changed
                    .iter()
                    .map(|since| (since.key.clone(), since.now.clone()));
                set_members(json, &now.collect::<Vec<_>>());
                let is_merged = !changed.is_empty();
                RecordParts::of(json, made, is_merged)
            }
            Record::Newest | Record::Older | Record::Unnamed => None,
        };
        mark_changed(json, changed);
        Some(parts)
    }

    /// Marks what has changed since in the records that are members of one, and takes note of
    /// these.
    fn inner_state(&mut self, json: &mut Json, made: &Made) {
        let Json::Object(members) = json else { return };
        for (key, inner) in members.iter_mut() {
            if let Json::List(items) = &inner
                && !self.failed
                && !self.is_proposed
                && is_change(made.tool())
            {
                // What a change came to, for each of several.
                for item in items.iter().take(MOST_CHANGED) {
                    if let Json::Object(members) = item
                        && has_own_id(key, members)
                    {
                        self.seen.note_inner(members, made);
                    }
                }
            }
            if !matches!(inner, Json::Object(_)) {
                continue;
            }
            let changed = self.seen.changed(inner, made);
            if let Json::Object(members) = &inner
                && !self.failed
                && !self.is_proposed
            {
                self.seen.note_inner(members, made);
            }
            mark_changed(inner, changed);
        }
    }
}
