//! What newer messages say. Exchanges are read newest first; what an older one says again is told
//! by a reference.

use std::rc::Rc;

use super::json_form::is_id;
use crate::core::strategy::maps::{Map, Set, hash_of};

use crate::core::json::Json;
use crate::core::text::write_cell;

/// An object from this length on is told once (bytes of its JSON).
const LEAST_BYTES: usize = 40;
/// Newer states of a record with the same id that an older one is compared to.
const MOST_STATES: usize = 16;
/// Levels of a value in which objects are taken note of: each is written out once a level.
const MOST_LEVELS: usize = 6;

/// Whether a record is told by a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A newer result has the same record, with all its members.
    Superseded,
    Newest,
    /// It has no ids, so that nothing tells.
    Unnamed,
}

/// A key that identifies, and its value.
type Id = (String, String);

/// A record: its ids and all its keys.
#[derive(Debug)]
struct Named {
    ids: Set<Id>,
    keys: Set<String>,
}

/// What was seen in newer messages.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Objects, each with its key, by their hashes.
    objects: Set<u64>,
    /// Records, by each of their ids.
    records: Map<Id, Vec<Rc<Named>>>,
    /// The values of their first ids, as rows begin with them.
    ids: Set<String>,
    /// Sentences and lines, by their hashes.
    sentences: Set<u64>,
    /// Heads of calls, by their hashes.
    calls: Set<u64>,
}

impl Seen {
    /// Whether a sentence is said for the last time.
    pub(super) fn say(&mut self, sentence: &str) -> bool {
        self.sentences.insert(hash_of(sentence))
    }

    /// Whether a call with this head is made for the last time.
    pub(super) fn call(&mut self, head: &str) -> bool {
        self.calls.insert(hash_of(head))
    }

    /// Takes note of a text that stays as it is.
    pub(super) fn note(&mut self, text: &str) {
        if let Some(json) = Json::parse(text) {
            self.record(&json);
            self.remember(&json, MOST_LEVELS);
        }
    }

    /// Whether a newer result shows the same record; takes note of it.
    pub(super) fn record(&mut self, value: &Json) -> Record {
        let Json::Object(members) = value else {
            return Record::Unnamed;
        };
        let ids: Set<Id> = members
            .iter()
            .filter(|(key, value)| is_id(key) && value.is_scalar())
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect();
        // The id that fewest records share.
        let shared = |id: &&Id| self.records.get(*id).map_or(0, Vec::len);
        let Some(rarest) = ids.iter().min_by_key(shared) else {
            return Record::Unnamed;
        };
        let keys: Set<String> = members.iter().map(|(key, _)| key.clone()).collect();
        let newer = self.records.get(rarest).map_or(&[][..], Vec::as_slice);
        let known = |newer: &Rc<Named>| ids.is_subset(&newer.ids) && keys.is_subset(&newer.keys);
        if newer.iter().rev().take(MOST_STATES).any(known) {
            return Record::Superseded;
        }
        for (_, value) in members
            .iter()
            .filter(|(key, value)| is_id(key) && value.is_scalar())
        {
            let mut id = String::new();
            write_cell(value, &mut id);
            self.ids.insert(id);
        }
        let named = Rc::new(Named { ids, keys });
        for id in &named.ids {
            let records = self.records.entry(id.clone()).or_default();
            records.push(Rc::clone(&named));
        }
        Record::Newest
    }

    /// Whether a newer result shows the record of a row that begins with `id`.
    pub(super) fn has_record(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Takes note of the objects inside a value.
    fn remember(&mut self, value: &Json, levels: usize) {
        let Some(levels) = levels.checked_sub(1) else {
            return;
        };
        match value {
            Json::Object(members) => {
                for (key, value) in members {
                    if let Json::Object(_) = value {
                        self.object(key, value);
                    }
                    self.remember(value, levels);
                }
            }
            Json::List(items) => {
                for item in items {
                    self.object("", item);
                    self.remember(item, levels);
                }
            }
            _ => {}
        }
    }

    /// Whether a newer result has this object under this key; takes note of it.
    pub(super) fn object(&mut self, key: &str, value: &Json) -> bool {
        let text = value.to_string();
        text.len() >= LEAST_BYTES && !self.objects.insert(hash_of(&(key, text.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_by_its_ids_and_an_object_by_its_content() {
        let json = |text: &str| Json::parse(text).unwrap();
        let mut seen = Seen::default();
        let order = |status: &str| {
            json(&format!(
                r#"{{"order_id":"W1","user_id":"ann","status":"{status}"}}"#
            ))
        };
        assert_eq!(seen.record(&order("cancelled")), Record::Newest);
        assert_eq!(seen.record(&order("pending")), Record::Superseded);
        let other = json(r#"{"order_id":"W2","user_id":"ann"}"#);
        assert_eq!(seen.record(&other), Record::Newest);
        let more = json(r#"{"order_id":"W1","user_id":"ann","items":[]}"#);
        assert_eq!(seen.record(&more), Record::Newest, "it has more");
        assert_eq!(seen.record(&json(r#"{"count":1}"#)), Record::Unnamed);
        let with = r#"{"a":{"street":"Chestnut Street 474","town":"Fort Worth"}}"#;
        let address = json(with);
        let address = address.get("a").unwrap();
        assert!(!seen.object("a", address) && seen.object("a", address));
        seen.note(r#"[{"town":"Fort Worth","street":"Sunset Drive 967"}]"#);
        let row = json(r#"{"town":"Fort Worth","street":"Sunset Drive 967"}"#);
        assert!(seen.object("", &row));
    }
}
