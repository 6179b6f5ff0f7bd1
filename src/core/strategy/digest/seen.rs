//! What newer messages say. Exchanges are read newest first; what an older one says again is told
//! by a reference.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::core::json::Json;

/// An object from this length on is told once (bytes of its JSON).
const LEAST_BYTES: usize = 40;

/// Whether a record is told by a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A newer result has the same record, with all its members.
    Superseded,
    Newest,
    /// It has no ids, so that nothing tells.
    Unnamed,
}

/// A record: its ids and all its keys.
#[derive(Debug)]
struct Named {
    ids: HashSet<u64>,
    keys: HashSet<String>,
}

/// What was seen in newer messages.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// One secret for all hashes: nobody can make two texts that are taken for one.
    hashes: RandomState,
    /// Objects, each with its key.
    objects: HashSet<u64>,
    /// Records, by each of their ids.
    records: HashMap<u64, Vec<Arc<Named>>>,
    sentences: HashSet<u64>,
    /// Calls with their results.
    made: HashSet<u64>,
    /// Heads of calls.
    calls: HashSet<u64>,
}

impl Seen {
    /// Whether a sentence is said for the last time.
    pub(super) fn say(&mut self, sentence: &str) -> bool {
        let hash = self.hashes.hash_one(sentence);
        self.sentences.insert(hash)
    }

    /// Whether a call is made with this result for the last time.
    pub(super) fn make(&mut self, made: (&str, Option<&str>, Option<&str>)) -> bool {
        let hash = self.hashes.hash_one(made);
        self.made.insert(hash)
    }

    /// Whether a call with this head is made for the last time.
    pub(super) fn call(&mut self, head: &str) -> bool {
        let hash = self.hashes.hash_one(head);
        self.calls.insert(hash)
    }

    /// Takes note of a text that stays as it is.
    pub(super) fn note(&mut self, text: &str) {
        if let Some(json) = Json::parse(text) {
            self.record(&json);
            self.remember(&json);
        }
    }

    /// Whether a newer result shows the same record; takes note of it.
    pub(super) fn record(&mut self, value: &Json) -> Record {
        let Json::Object(members) = value else {
            return Record::Unnamed;
        };
        let ids: HashSet<u64> = members
            .iter()
            .filter(|(key, value)| is_id(key) && value.is_scalar())
            .map(|(key, value)| self.hashes.hash_one((key, value.to_string())))
            .collect();
        // The id that fewest records share.
        let shared = |id: &&u64| self.records.get(id).map_or(0, Vec::len);
        let Some(rarest) = ids.iter().min_by_key(shared) else {
            return Record::Unnamed;
        };
        let keys: HashSet<String> = members.iter().map(|(key, _)| key.clone()).collect();
        let newer = self.records.get(rarest).into_iter().flatten();
        let known = |newer: &Arc<Named>| ids.is_subset(&newer.ids) && keys.is_subset(&newer.keys);
        if newer.into_iter().any(known) {
            return Record::Superseded;
        }
        let named = Arc::new(Named { ids, keys });
        for id in &named.ids {
            let records = self.records.entry(*id).or_default();
            records.push(Arc::clone(&named));
        }
        Record::Newest
    }

    /// Takes note of the objects inside a value.
    fn remember(&mut self, value: &Json) {
        match value {
            Json::Object(members) => {
                for (key, value) in members {
                    if let Json::Object(_) = value {
                        self.object(key, value);
                    }
                    self.remember(value);
                }
            }
            Json::List(items) => {
                for item in items {
                    self.object("", item);
                    self.remember(item);
                }
            }
            _ => {}
        }
    }

    /// Whether a newer result has this object under this key; takes note of it.
    pub(super) fn object(&mut self, key: &str, value: &Json) -> bool {
        let text = value.to_string();
        text.len() >= LEAST_BYTES && !self.objects.insert(self.hashes.hash_one((key, text)))
    }
}

/// Whether a member identifies the record that has it, by its key.
pub(super) fn is_id(key: &str) -> bool {
    let lower = key.to_lowercase();
    let last = lower.rsplit(['_', '-', ' ']).next().unwrap_or_default();
    matches!(last, "id" | "number" | "code" | "ref" | "key" | "uuid")
        || key.ends_with("Id")
        || key.ends_with("ID")
        || key.ends_with("编号")
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
