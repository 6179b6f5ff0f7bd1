//! What newer messages say. Exchanges are read newest first; what an older one says again is told
//! by a reference.

use std::borrow::Cow;
use std::rc::Rc;

use super::named::{Id, Named, Since, is_other};
use crate::core::json::Json;
use crate::core::strategy::digest::calls::made::{Made, stays_true};
use crate::core::strategy::digest::calls::names::is_among;
use crate::core::strategy::digest::json_form::{may_tell_anything, tells_apart};
use crate::core::strategy::digest::line::{Part, SET_SINCE};
use crate::core::strategy::maps::{Map, Set, hash_of};
use crate::core::text::write_cell;

/// An object from this length on is told once (bytes of its JSON).
const LEAST_BYTES: usize = 40;
/// Newer states of a record with the same id that an older one is compared to.
const MOST_STATES: usize = 16;
/// Levels of a value in which objects are taken note of: each is written out once a level.
pub(in super::super) const MOST_LEVELS: usize = 6;

/// Members that each thing has for itself.
const OF_EACH: [&str; 16] = [
    "amount",
    "created",
    "created_at",
    "currency",
    "date",
    "description",
    "kind",
    "name",
    "note",
    "ok",
    "reason",
    "state",
    "status",
    "title",
    "type",
    "updated_at",
];

/// Whether a record is told by a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Record {
    /// A newer result has the same record, with all its members.
    Superseded,
    Newest,
    /// There is a newer one, but of something else that was asked for.
    Older,
    /// It has no ids, so that nothing tells.
    Unnamed,
}

/// A record by the hash of the tool that gave it, and its id.
pub(in super::super) type Disputed = (u64, String);

/// What newer results tell of an item of a list.
#[derive(Debug)]
pub(in super::super) enum Item {
    /// All of it, with the same values.
    Known,
    /// All of it, with other values.
    KnownOtherwise,
    /// These members have other values now.
    Changed(Vec<Since>),
}

/// What was seen in newer messages.
#[derive(Debug, Default)]
pub(in super::super) struct Seen {
    /// Objects, each with its key, by their hashes; and those of the result that is being read:
    /// what is told of them stands above, not below.
    objects: Set<u64>,
    of_result: Vec<(u64, u64)>,
    /// The object under each key, by their hashes; `None` where there are several.
    by_key: Map<u64, Option<u64>>,
    /// Records, by each of their ids.
    records: Map<Id, Vec<Rc<Named>>>,
    /// Records inside of others, by the first of their ids, and those of the result that is being
    /// read: answers of changes often have the record that was changed.
    inner: Map<Id, Vec<Rc<Named>>>,
    inner_of_result: Vec<Rc<Named>>,
    /// The records by the values of their ids, as rows begin with them.
    rows: Map<String, Vec<Rc<Named>>>,
    /// Records that older results do not agree with, and whether those are of another tool.
    disputed: Map<Disputed, bool>,
    /// Items of lists, by the first of their ids, and those of the result that is being read.
    items: Map<Id, Vec<Rc<Named>>>,
    items_of_result: Vec<Rc<Named>>,
    /// Results that were read.
    results: usize,
    /// Sentences and lines, by their hashes.
    sentences: Set<u64>,
    /// Heads of calls, by their hashes.
    calls: Set<u64>,
    /// What was given to calls of each tool about each thing, by the hashes of both: the keys, each
    /// with the hash of its newest value.
    changes: Map<u64, Map<String, u64>>,
    /// Lines that were taken out of files, by their hashes.
    taken_out: Set<u64>,
    /// Whether there was a page of a browser.
    page: bool,
}

impl Seen {
    /// Whether a party, or none, says a sentence for the last time.
    pub(in super::super) fn say(&mut self, party: Option<Part>, sentence: &str) -> bool {
        let is_user = party.map(|part| part == Part::User);
        self.sentences.insert(hash_of(&(is_user, sentence)))
    }

    /// Whether a call with this head is made for the last time.
    pub(in super::super) fn call(&mut self, head: &str) -> bool {
        self.calls.insert(hash_of(head))
    }

    /// The arguments of a call without the values that newer calls set anew, and whether these are
    /// all: what was set before would look like what is there now.
    pub(in super::super) fn told_of<'m>(
        &self,
        made: &'m Made,
    ) -> (Cow<'m, [(String, Json)]>, bool) {
        let target = made.target();
        let later = target.and_then(|(key, target)| Some((key, self.changes.get(&target)?)));
        let Some((target, later)) = later else {
            return (Cow::Borrowed(&made.arguments), false);
        };
        let is_old = |(key, value): &(String, Json)| {
            let newest = later.get(key).filter(|_| key != target && !stays_true(key));
            newest.is_some_and(|newest| *newest != hash_of(&value.to_string()))
        };
        let told = made.arguments.iter().map(|member| match member {
            (key, _) if is_old(member) => (key.clone(), Json::String(SET_SINCE.to_owned())),
            member => member.clone(),
        });
        let mut all = made.arguments.iter();
        let is_overridden = all.all(|member| member.0 == target || is_old(member));
        (told.collect(), is_overridden)
    }

    /// Takes note of what a call sets; not `is_set` where its answer may mean that it did not.
    pub(in super::super) fn note_change(&mut self, made: &Made, is_set: bool) {
        if let Some((_, target)) = made.target().filter(|_| is_set) {
            let set = self.changes.entry(target).or_default();
            for (key, value) in &made.arguments {
                let given = || hash_of(&value.to_string());
                set.entry(key.clone()).or_insert_with(given);
            }
        }
        if made.overrides() && !made.is_long() {
            // The thing has these values now, whatever else the answer says of it.
            let set = made.arguments.iter().filter(|(key, _)| !stays_true(key));
            let set: Vec<(String, Json)> = set.cloned().collect();
            let named = self.inner_of(&set, made).map(|named| Named {
                of_arguments: true,
                is_asked: !is_set,
                ..named
            });
            self.inner_of_result.extend(named.map(Rc::new));
        }
    }

    /// Takes note of lines that a call took out of a file.
    pub(in super::super) fn note_taken_out(&mut self, lines: Vec<u64>) {
        self.taken_out.extend(lines);
    }

    /// The hashes of the lines that newer calls took out of files.
    pub(in super::super) fn taken_out(&self) -> &Set<u64> {
        &self.taken_out
    }

    /// Whether the page of a browser is an older one; takes note of it.
    pub(in super::super) fn page(&mut self) -> bool {
        std::mem::replace(&mut self.page, true)
    }

    /// Takes note of the objects in a value.
    pub(in super::super) fn note(&mut self, value: &Json) {
        self.remember(value, MOST_LEVELS);
        self.end_result();
    }

    /// What older results say again from here on stands in one that was read.
    pub(in super::super) fn end_result(&mut self) {
        self.results += 1;
        for item in self.items_of_result.drain(..) {
            self.items.entry(item.first.clone()).or_default().push(item);
        }
        for record in self.inner_of_result.drain(..) {
            let known = self.inner.entry(record.first.clone()).or_default();
            known.push(record);
        }
        for (key, object) in self.of_result.drain(..) {
            self.objects.insert(object);
            let only = self.by_key.entry(key).or_insert(Some(object));
            *only = only.filter(|only| *only == object);
        }
    }

    /// Whether a newer result shows the record that a call gave; takes note of it.
    pub(in super::super) fn record(&mut self, value: &Json, made: &Made) -> Record {
        let Json::Object(members) = value else {
            return Record::Unnamed;
        };
        let Some(named) = Named::of(members, made, self.results) else {
            return Record::Unnamed;
        };
        // The id that fewest records share.
        let shared = |id: &&Id| self.records.get(*id).map_or(0, Vec::len);
        let rarest = named.ids.iter().min_by_key(shared);
        let newer = rarest.and_then(|rarest| self.records.get(rarest));
        let newer = newer.map_or(&[][..], Vec::as_slice);
        let same = |newer: &&Rc<Named>| {
            named.ids.is_subset(&newer.ids)
                && named.keys.is_subset(&newer.keys)
                && !newer.is_other_part(&named)
        };
        // Asked for something else, a tool tells something else of it, and so may another tool.
        let known = |newer: &Rc<Named>| match newer.call.is_same_tool(&named.call) {
            true => newer.tells_state_of(&named, made),
            false => {
                let is_same = newer.tells_state_of(&named, made) || newer.has_values_of(&named);
                newer.tells_same(&named) && is_same
            }
        };
        let mut newer = newer.iter().rev().take(MOST_STATES).filter(same).peekable();
        let is_newest = newer.peek().is_none();
        if newer.any(known) {
            return Record::Superseded;
        }
        let named = Rc::new(named);
        for (_, value) in members.iter().filter(|(k, v)| made.identifies(k, v)) {
            let mut id = String::new();
            write_cell(value, &mut id);
            if !tells_apart(&id) {
                continue;
            }
            self.rows.entry(id).or_default().push(Rc::clone(&named));
        }
        for id in &named.ids {
            let records = self.records.entry(id.clone()).or_default();
            records.push(Rc::clone(&named));
        }
        if is_newest {
            Record::Newest
        } else {
            Record::Older
        }
    }

    /// Takes note of a record inside of another one.
    pub(in super::super) fn note_inner(&mut self, members: &[(String, Json)], made: &Made) {
        let named = self.inner_of(members, made);
        self.inner_of_result.extend(named.map(Rc::new));
    }

    fn inner_of(&self, members: &[(String, Json)], made: &Made) -> Option<Named> {
        let is_certain = |named: &Named| !may_tell_anything(&named.first.0);
        Named::of(members, made, self.results).filter(is_certain)
    }

    /// Whether a newer result shows other values of a record, without telling what has become of
    /// it: as it was before, as it would be, or as another system has it. Neither is then its
    /// newest state; takes note of that.
    pub(in super::super) fn is_disputed(&mut self, value: &Json, made: &Made) -> bool {
        let older = match value {
            Json::Object(members) => Named::of(members, made, self.results),
            _ => None,
        };
        let Some(older) = older else { return false };
        let of_records = self.records.get(&older.first).into_iter().flatten();
        let of_records = of_records.take(MOST_STATES).map(|newer| (newer, false));
        let of_lists = self.items.get(&older.first).into_iter().flatten();
        let of_lists = of_lists.take(MOST_STATES).map(|newer| (newer, true));
        let others = of_records.chain(of_lists).filter(|(newer, is_item)| {
            newer.is_newer_of(&older)
                && newer.may_be(&older)
                && (*is_item || !newer.tells_state_of(&older, made))
                && newer.contradicts(&older)
        });
        let others: Vec<(Disputed, bool)> = others
            .map(|(newer, _)| newer)
            .map(|newer| {
                let named = (newer.call.tool(), newer.first.1.clone());
                (named, !newer.call.is_same_tool(&older.call))
            })
            .collect();
        let is_disputed = !others.is_empty();
        for (newer, by_other) in others {
            *self.disputed.entry(newer).or_default() |= by_other;
        }
        is_disputed
    }

    /// The records that older results do not agree with, and whether those are of another tool.
    pub(in super::super) fn disputed(&self) -> &Map<Disputed, bool> {
        &self.disputed
    }

    /// The members of a record that have other values in newer results, with the newest of these.
    pub(in super::super) fn changed(&self, value: &Json, made: &Made) -> Vec<Since> {
        let named = match value {
            Json::Object(members) => Named::of(members, made, self.results),
            _ => None,
        };
        named.map_or_else(Vec::new, |named| self.changed_of(&named, made))
    }

    fn changed_of<'s>(&'s self, older: &Named, made: &Made) -> Vec<Since> {
        let of = |records: &'s Map<Id, Vec<Rc<Named>>>| {
            let newest = records.get(&older.first).into_iter().flatten();
            newest.take(MOST_STATES)
        };
        let is_newer =
            |newer: &&Rc<Named>| newer.is_newer_of(older) && newer.tells_state_of(older, made);
        let newest = of(&self.records).chain(of(&self.inner)).filter(is_newer);
        let mut newest: Vec<&Rc<Named>> = newest.collect();
        newest.sort_by_key(|newer| newer.result);
        let of_same = |newer: &Rc<Named>| newer.is_of_same(older, made);
        let newest: Vec<_> = newest
            .into_iter()
            .map(|newer| (newer, of_same(newer)))
            .collect();
        let changed = |(key, value): (&String, &Json)| {
            // A charge has a state of its own, but the answer may tell the account's balance.
            let of_each = is_among(&OF_EACH, key);
            let told = newest.iter().filter(|(_, same)| *same || !of_each);
            let mut told = told.filter_map(|(newer, _)| Some((newer, newer.values.get(key)?)));
            let (first, newest) = told.next()?;
            let asked = Some(newest).filter(|_| first.is_asked);
            let set = match asked {
                Some(_) => told.find(|(newer, _)| !newer.is_asked).map(|(_, now)| now),
                None => Some(newest),
            };
            let set = set.filter(|now| is_other(value, now));
            // What another tool shows since is so.
            let shown = asked.filter(|asked| self.shows(older, key, asked));
            let set = shown.or(set);
            let asked = asked.filter(|now| is_other(set.unwrap_or(value), now));
            (set.is_some() || asked.is_some()).then(|| Since::of(key, value, set, asked))
        };
        older.values.iter().filter_map(changed).collect()
    }

    /// Whether any newer result has a value of the thing that an older record is of.
    fn shows(&self, older: &Named, key: &str, value: &Json) -> bool {
        let newer = self.others_of(&older.first);
        let of_same = newer.filter(|newer| newer.is_newer_of(older) && newer.may_be(older));
        let mut of_same = of_same.filter(|newer| !newer.of_arguments);
        of_same.any(|newer| newer.values.get(key) == Some(value))
    }

    /// The newer records and items of lists whose first id is this.
    fn others_of(&self, id: &Id) -> impl Iterator<Item = &Rc<Named>> {
        let records = self.records.get(id).into_iter().flatten().take(MOST_STATES);
        let items = self.items.get(id).into_iter().flatten().take(MOST_STATES);
        records.chain(items)
    }

    /// What newer results tell of an item of a list, or the same call gave since; takes note of it.
    pub(in super::super) fn item(&mut self, members: &[(String, Json)], made: &Made) -> Item {
        let is_certain = |named: &Named| !may_tell_anything(&named.first.0);
        let Some(item) = Named::of(members, made, self.results).filter(is_certain) else {
            return Item::Changed(Vec::new());
        };
        let is_state = |newer: &Rc<Named>| {
            newer.call.is_same_tool(&item.call)
                || (newer.tells_same(&item)
                    && (newer.tells_state_of(&item, made) || newer.has_values_of(&item)))
        };
        let has_all = |newer: &Rc<Named>| {
            newer.is_newer_of(&item)
                && is_state(newer)
                && item.ids.len() == newer.ids.len()
                && item.keys.is_subset(&newer.keys)
        };
        let of_lists = self.items.get(&item.first).map_or(&[][..], Vec::as_slice);
        let of_lists = of_lists.iter().rev().take(MOST_STATES);
        let records = self.records.get(&item.first).map_or(&[][..], Vec::as_slice);
        let records = records.iter().rev().take(MOST_STATES);
        let of_call = |newer: &&Rc<Named>| newer.call.is_same_call(&item.call) && has_all(newer);
        let known = of_lists.clone().find(of_call);
        let known = known.or_else(|| records.clone().find(|newer| has_all(newer)));
        let is_same = known.map(|newer| newer.has_values_of(&item));
        let changed = self.changed_of(&item, made);
        self.items_of_result.push(Rc::new(item));
        match is_same {
            Some(true) => Item::Known,
            Some(false) => Item::KnownOtherwise,
            None => Item::Changed(changed),
        }
    }

    /// Whether a newer result shows the record of a row that begins with `id` and has these
    /// columns.
    pub(in super::super) fn has_record(&self, id: &str, columns: &[String]) -> bool {
        let newer = self.rows.get(id).map_or(&[][..], Vec::as_slice);
        let newest = newer.iter().rev().take(MOST_STATES);
        newest
            .into_iter()
            .any(|newer| columns.iter().all(|column| newer.keys.contains(column)))
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
    pub(in super::super) fn object(&mut self, key: &str, value: &Json) -> bool {
        let text = value.to_string();
        text.len() >= LEAST_BYTES && self.is_told(key, &text)
    }

    /// The same of what records refer to, however little is known of it.
    pub(in super::super) fn reference(&mut self, keys: &str, value: &Json) -> bool {
        self.is_told(keys, &value.to_string())
    }

    fn is_told(&mut self, key: &str, text: &str) -> bool {
        let hash = hash_of(&(key, text));
        self.of_result.push((hash_of(key), hash));
        self.objects.contains(&hash)
    }

    /// Whether newer results have several objects under this key.
    pub(in super::super) fn has_several(&self, key: &str) -> bool {
        self.by_key.get(&hash_of(key)) == Some(&None)
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
        let get = Made::new("get", Vec::new());
        assert_eq!(seen.record(&order("cancelled"), &get), Record::Newest);
        assert_eq!(seen.record(&order("pending"), &get), Record::Superseded);
        let other = json(r#"{"order_id":"W2","user_id":"ann"}"#);
        assert_eq!(seen.record(&other, &get), Record::Newest);
        let more = json(r#"{"order_id":"W1","user_id":"ann","items":[]}"#);
        assert_eq!(seen.record(&more, &get), Record::Newest, "it has more");
        assert_eq!(seen.record(&json(r#"{"count":1}"#), &get), Record::Unnamed);
        let columns = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<_>>();
        assert!(seen.has_record("W1", &columns(&["order_id", "status"])));
        assert!(!seen.has_record("W1", &columns(&["order_id", "paid"])));
        let with = r#"{"a":{"street":"Chestnut Street 474","town":"Fort Worth"}}"#;
        let address = json(with);
        let address = address.get("a").unwrap();
        assert!(!seen.object("a", address));
        assert!(!seen.object("a", address), "it stands above");
        seen.end_result();
        assert!(seen.object("a", address));
        seen.note(&json(
            r#"[{"town":"Fort Worth","street":"Sunset Drive 967"}]"#,
        ));
        let row = json(r#"{"town":"Fort Worth","street":"Sunset Drive 967"}"#);
        assert!(seen.object("", &row));
    }

    #[test]
    fn what_was_asked_for_otherwise_is_another_state() {
        let json = |text: &str| Json::parse(text).unwrap();
        let made = |tool: &str, arguments: &str| {
            let Json::Object(arguments) = json(arguments) else {
                panic!("{arguments}")
            };
            Made::new(tool, arguments)
        };
        let mut seen = Seen::default();
        let hours = json(r#"{"employee_id":"E-4","hours":160}"#);
        let june = made("hours", r#"{"employee":"E-4","month":"June"}"#);
        let may = made("hours", r#"{"employee":"E-4","month":"May"}"#);
        assert_eq!(seen.record(&hours, &june), Record::Newest);
        assert_eq!(seen.record(&hours, &may), Record::Older);
        assert_eq!(seen.record(&hours, &may), Record::Superseded);
        // Codes and numbers are ids where they look like ones, or were asked for.
        for (tool, arguments, result) in [
            (
                "run",
                r#"{"command":"make"}"#,
                r#"{"exit_code":0,"stdout":"ok"}"#,
            ),
            ("sql", r#"{"query":"select 1"}"#, r#"{"code":0,"data":[]}"#),
            (
                "get",
                r#"{"url":"x"}"#,
                r#"{"status_code":200,"page_number":1}"#,
            ),
        ] {
            let made = made(tool, arguments);
            assert_eq!(
                seen.record(&json(result), &made),
                Record::Unnamed,
                "{result}"
            );
        }
        let flight = made("status", r#"{"flight_number":"17"}"#);
        let result = json(r#"{"flight_number":"17","status":"late"}"#);
        assert_eq!(seen.record(&result, &flight), Record::Newest);
        let paid = json(r#"{"booking_code":"X7","paid":true}"#);
        assert_eq!(seen.record(&paid, &made("pay", "{}")), Record::Newest);
    }

    #[test]
    fn the_record_inside_of_an_answer_is_the_newer_state() {
        let json = |text: &str| Json::parse(text).unwrap();
        let changed = |seen: &Seen, text: &str, made: &Made| {
            let changed = seen.changed(&json(text), made).into_iter();
            changed.map(|since| since.key).collect::<Vec<_>>()
        };
        let mut seen = Seen::default();
        let change = Made::new("change_group", Vec::new());
        let inner = json(r#"{"enrolment_id":"E-7","group":"WG3","room":"B7"}"#);
        let Json::Object(inner) = inner else {
            panic!("no object")
        };
        seen.note_inner(&inner, &change);
        let get = Made::new("get_enrolment", Vec::new());
        let older = r#"{"enrolment_id":"E-7","group":"WG2"}"#;
        assert!(changed(&seen, older, &get).is_empty(), "it stands above");
        seen.end_result();
        assert_eq!(changed(&seen, older, &get), ["group"]);
        let other = r#"{"enrolment_id":"E-8","group":"WG2"}"#;
        assert!(changed(&seen, other, &get).is_empty());
    }

    #[test]
    fn what_a_call_did_to_one_thing_is_no_state_of_what_that_is_in() {
        let json = |text: &str| Json::parse(text).unwrap();
        let mut seen = Seen::default();
        let folio = json(r#"{"folio_id":"F-2","status":"OPEN","balance":387.5}"#);
        seen.record(&folio, &Made::new("get_folio", Vec::new()));
        seen.end_result();
        let voided = r#"{"folio_id":"F-2","charge_id":"C-9","status":"VOIDED","balance":393.5}"#;
        let voided = json(voided);
        let by = |tool: &str| {
            let changed = seen
                .changed(&voided, &Made::new(tool, Vec::new()))
                .into_iter();
            changed.map(|since| since.key).collect::<Vec<_>>()
        };
        assert_eq!(by("void_charge"), ["balance"]);
        assert_eq!(by("close_folio").len(), 2);
    }
}
