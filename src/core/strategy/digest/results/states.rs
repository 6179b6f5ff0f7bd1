//! Which of the states of a record in results is the newest, and what of an older one has changed
//! since.

use super::record::Results;
use super::records::RecordParts;
use super::seen::Record;
use crate::core::json::Json;
use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::json_form::{has_own_id, set_members};
use crate::core::strategy::digest::line::SET_SINCE;

/// Records in the answer of a change that are compared with older ones.
const MOST_CHANGED: usize = 16;

type Member = (String, Json);

impl Results<'_> {
    /// Compares a record with its newer states: its parts, where it can be a row of the newest
    /// one. What has changed since is marked in it. `None` where a newer result tells all of it.
    pub(super) fn state(&mut self, json: &mut Json, made: &Made) -> Option<Option<RecordParts>> {
        let changed = self.seen.changed(json, made);
        self.inner_state(json, made);
        let state = match self.failed {
            // What a refusal says of a thing is not its state.
            true => Record::Unnamed,
            false => self.seen.record(json, made),
        };
        let parts = match state {
            Record::Superseded => return None,
            // A row is of the newest state, and what stands below its call is of that time.
            Record::Newest => {
                set_members(json, &changed);
                RecordParts::of(json, made)
            }
            Record::Older | Record::Unnamed => None,
        };
        let since = |(key, _): &Member| (key.clone(), Json::String(SET_SINCE.to_owned()));
        set_members(json, &changed.iter().map(since).collect::<Vec<_>>());
        Some(parts)
    }

    /// Marks what has changed since in the records that are members of one, and takes note of
    /// these.
    fn inner_state(&mut self, json: &mut Json, made: &Made) {
        let Json::Object(members) = json else { return };
        for (key, inner) in members.iter_mut() {
            if let Json::List(items) = &inner
                && !self.failed
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
            {
                self.seen.note_inner(members, made);
            }
            let since = |(key, _): Member| (key, Json::String(SET_SINCE.to_owned()));
            set_members(inner, &changed.into_iter().map(since).collect::<Vec<_>>());
        }
    }
}
