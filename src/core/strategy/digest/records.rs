//! Like records side by side: the results of calls that fetched one record each become one table
//! of the newest state of all, and one for each list that they have. Keys and calls are then said
//! once.

use super::json_form::{inline_bytes, is_id, is_short};
use super::line::{DigestLine, Part, Standing};
use crate::core::json::Json;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::Table;

/// Begins a table of records.
pub(super) const RECORDS: &str = "records, ";
/// Names the one of what records themselves have.
pub(super) const NEWEST: &str = "newest state";
/// Scalars from which on a record may be a row.
const LEAST_SCALARS: usize = 3;
/// The part of their keys that records of one kind share.
const LIKE: f32 = 0.6;
/// Kinds that are told apart; records of further ones stay with their calls.
const MOST_KINDS: usize = 16;
/// The longest list of scalars in a row (bytes).
const LIST_BYTES: usize = 60;

type Member = (String, Json);

/// A record, taken apart.
#[derive(Debug)]
pub(super) struct RecordParts {
    /// What identifies it: the first of its ids.
    id: Member,
    /// Scalars, and short lists of scalars.
    own: Vec<Member>,
    /// Lists of objects.
    lists: Vec<(String, Vec<Json>)>,
}

impl RecordParts {
    /// The parts of a record that can be told by rows alone; `None` for any other.
    pub(super) fn of(value: &Json) -> Option<Self> {
        let Json::Object(members) = value else {
            return None;
        };
        let is_own = |(_, value): &&Member| is_short(value);
        let id = members.iter().filter(is_own).find(|(key, _)| is_id(key))?;
        let mut parts = RecordParts {
            id: id.clone(),
            own: Vec::new(),
            lists: Vec::new(),
        };
        for (key, value) in members {
            match value {
                value if is_short(value) => parts.own.push((key.clone(), value.clone())),
                // Long texts stay with the call.
                Json::String(_) => {}
                Json::List(items) if items.is_empty() => {}
                Json::List(items) if items.iter().all(Json::is_scalar) => {
                    if inline_bytes(value, LIST_BYTES) > LIST_BYTES {
                        return None;
                    }
                    parts.own.push((key.clone(), value.clone()));
                }
                Json::List(items) if items.iter().all(is_flat) => {
                    parts.lists.push((key.clone(), items.clone()));
                }
                _ => return None,
            }
        }
        (parts.own.len() >= LEAST_SCALARS).then_some(parts)
    }

    /// These members as a row that begins with the record's id.
    fn with_id<'m>(&'m self, members: impl Iterator<Item = &'m Member>) -> Json {
        let rest = members.filter(|member| **member != self.id);
        Json::Object(std::iter::once(&self.id).chain(rest).cloned().collect())
    }

    fn keys(&self) -> Set<&str> {
        let lists = self.lists.iter().map(|(key, _)| key.as_str());
        self.own
            .iter()
            .map(|(key, _)| key.as_str())
            .chain(lists)
            .collect()
    }
}

/// Whether an object has short scalars only.
fn is_flat(value: &Json) -> bool {
    matches!(value, Json::Object(members) if members.iter().all(|(_, value)| is_short(value)))
}

/// Takes like records out of the entries of their calls. `records` are in the order in which they
/// were read, newest first.
pub(super) fn tables_of(records: &[RecordParts], lines: &mut Vec<DigestLine>) -> Vec<DigestLine> {
    let mut out = Vec::new();
    let mut told: Set<usize> = Set::default();
    for members in kinds_of(records) {
        let of_kind: Vec<&RecordParts> = members.iter().filter_map(|at| records.get(*at)).collect();
        let own = of_kind
            .iter()
            .map(|record| record.with_id(record.own.iter()));
        let own: Vec<Json> = own.collect();
        if !push_table(NEWEST, &own, Standing::Own, &mut out) {
            continue;
        }
        told.extend(members);
        for (key, rows) in lists_of(&of_kind) {
            push_table(key, &rows, Standing::Usual, &mut out);
        }
    }
    remove(lines, &told);
    out
}

/// The indices of the records of each kind that has several, oldest first.
fn kinds_of(records: &[RecordParts]) -> Vec<Vec<usize>> {
    let mut kinds: Vec<(Set<&str>, Vec<usize>)> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        let keys = record.keys();
        let is_full = kinds.len() >= MOST_KINDS;
        let like = kinds.iter_mut().find(|(others, _)| {
            let shared = keys.intersection(others).count();
            shared as f32 >= LIKE * keys.union(others).count() as f32
        });
        match like {
            Some((_, members)) => members.push(at),
            None if !is_full => kinds.push((keys, vec![at])),
            None => {}
        }
    }
    let several = kinds.into_iter().map(|(_, members)| members);
    several
        .filter(|members| members.len() > 1)
        .map(|mut members| {
            members.reverse();
            members
        })
        .collect()
}

/// The items of the lists of records by the lists' keys, each with its record's id.
fn lists_of<'r>(records: &[&'r RecordParts]) -> Vec<(&'r str, Vec<Json>)> {
    let mut lists: Vec<(&str, Vec<Json>)> = Vec::new();
    let mut places: Map<&str, usize> = Map::default();
    for record in records {
        for (key, items) in &record.lists {
            let next = lists.len();
            let place = *places.entry(key).or_insert(next);
            if place == next {
                lists.push((key, Vec::new()));
            }
            let with_id = items.iter().filter_map(|item| match item {
                Json::Object(members) => Some(record.with_id(members.iter())),
                _ => None,
            });
            if let Some((_, rows)) = lists.get_mut(place) {
                rows.extend(with_id);
            }
        }
    }
    lists
}

/// Appends a table. `false` where the items are too unlike.
fn push_table(name: &str, items: &[Json], standing: Standing, out: &mut Vec<DigestLine>) -> bool {
    let Some(table) = Table::of(items) else {
        return false;
    };
    let head = format!("{RECORDS}{name} {}", table.head());
    out.push(DigestLine::new(Part::Head, 0, &head));
    for row in table.rows() {
        let mut line = DigestLine::new(Part::Row, 1, &row);
        line.standing = standing;
        out.push(line);
    }
    true
}

/// Removes the lines of the results that tables tell; their calls then end with `…`, and are shown
/// only where more belongs to them.
fn remove(lines: &mut Vec<DigestLine>, told: &Set<usize>) {
    let is_told = |line: &DigestLine| line.record.is_some_and(|record| told.contains(&record));
    let mut call = None;
    for at in 0..lines.len() {
        let Some(line) = lines.get(at) else { break };
        if line.depth == 0 {
            call = Some(at);
        } else if is_told(line)
            && let Some(call) = call.take().and_then(|call| lines.get_mut(call))
        {
            call.text.push_str(" …");
            call.standing = Standing::Repeated;
        }
    }
    lines.retain(|line| !is_told(line));
}
