//! Like records side by side: the results of calls that fetched one record each become one table
//! of the newest state of all, and one for each list that they have. Keys and calls are then said
//! once.

use std::rc::Rc;

use super::seen::Disputed;
use crate::core::json::Json;
use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::calls::made::{Made, overrides};
use crate::core::strategy::digest::calls::scope::Scope;
use crate::core::strategy::digest::json_form::{inline_bytes, is_id, is_short, tells_apart};
use crate::core::strategy::digest::line::{ALSO, DigestLine, Outcome, Part, SINCE, Standing};
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{Table, words_of, write_cell};
use crate::core::{Cancel, Cancelled};

/// Begins a table of records.
pub(in super::super) const RECORDS: &str = "records, ";
/// Names the one of what records themselves have.
pub(in super::super) const NEWEST: &str = "newest state";
/// Before what a change was asked to set, where its result shows another value.
const ASKED: &str = "asked: ";
/// Scalars from which on a record may be a row.
const LEAST_SCALARS: usize = 3;
/// The part of their keys that records of one kind share.
const LIKE: f32 = 0.6;
/// Kinds that are told apart; records of further ones stay with their calls.
const MOST_KINDS: usize = 16;
/// The longest key of an id (bytes): each item of the record's lists gets a copy of it.
const ID_KEY_BYTES: usize = 80;
/// The most long texts of records that are named, and the longest key of one (bytes).
const MOST_TEXTS: usize = 12;
const TEXT_KEY_BYTES: usize = 40;
/// The most calls that are named which changed a record since.
const MOST_SINCE: usize = 6;
/// The longest list of scalars in a row (bytes).
const LIST_BYTES: usize = 60;

/// Keys of what is told of a change rather than of the record: that it was made.
const ACKNOWLEDGES: [&str; 12] = [
    "accepted",
    "acknowledged",
    "applied",
    "created",
    "deleted",
    "done",
    "ok",
    "saved",
    "sent",
    "success",
    "succeeded",
    "updated",
];

type Member = (String, Json);

/// A record, taken apart.
#[derive(Debug)]
pub(in super::super) struct RecordParts {
    /// What identifies it: the first of its ids.
    id: Member,
    /// Scalars, and short lists of scalars.
    own: Vec<Member>,
    /// Lists of objects.
    lists: Vec<(String, Vec<Json>)>,
    /// The keys of texts that are too long for a row.
    texts: Vec<String>,
    /// What the call was given that the record does not tell.
    asked: Vec<Member>,
    /// The call was given more than has room in a row.
    asked_more: bool,
    /// The call was given its id.
    asked_by_id: bool,
    /// The call that gave it.
    call: Rc<Scope>,
    /// The call looked it up. What a change gives may tell of the change only.
    was_looked_up: bool,
    /// It has what newer calls set.
    is_merged: bool,
}

impl RecordParts {
    /// The parts of a record that a call gave, if it can be told by rows alone; `None` for any
    /// other. It `is_merged` where it has what newer calls set.
    pub(in super::super) fn of(value: &Json, made: &Made, is_merged: bool) -> Option<Self> {
        let members = match value {
            Json::Object(members) if !made.is_long() => members,
            _ => return None,
        };
        let is_answer = |(key, value): &Member| {
            matches!(value, Json::Bool(_)) && ACKNOWLEDGES.contains(&key.as_str())
        };
        if members.iter().any(is_answer) {
            return None;
        }
        let id = members
            .iter()
            .find(|(key, value)| made.identifies(key, value))?;
        if id.0.len() > ID_KEY_BYTES {
            return None;
        }
        let tells = |(key, given): &&Member| {
            let same = |(other, value): &Member| {
                value == given && (other == key || is_id(other) || is_id(key))
            };
            members.iter().any(same)
        };
        let asked = made.arguments.iter().filter(|member| !tells(member));
        let (asked, more): (Vec<&Member>, Vec<&Member>) = asked.partition(|(key, given)| {
            is_short(given) && members.iter().all(|(other, _)| other != key)
        });
        let mut parts = RecordParts {
            id: id.clone(),
            own: Vec::new(),
            lists: Vec::new(),
            texts: Vec::new(),
            asked: asked.into_iter().cloned().collect(),
            asked_more: !more.is_empty(),
            asked_by_id: made.has(&id.1),
            call: Rc::clone(made.scope()),
            was_looked_up: !is_change(made.tool()),
            is_merged,
        };
        for (key, value) in members {
            match value {
                value if is_short(value) => parts.own.push(with_asked(key, value, made)),
                // Long texts stay with the call.
                Json::String(_) => parts.texts.push(key.clone()),
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

    /// Its own members as a row, with what the call was given.
    fn row(&self, with_asked: bool) -> Json {
        let asked = self.asked.iter().filter(|_| with_asked);
        self.with_id(self.own.iter().chain(asked))
    }

    fn is_asked_alike(&self, other: &Self) -> bool {
        let keys = |parts: &'_ Self| {
            let keys = parts.asked.iter().map(|(key, _)| key.clone());
            keys.collect::<Set<String>>()
        };
        keys(self) == keys(other)
    }

    /// Whether two may stand in one table: what tools look up is of one kind where they are the
    /// same, and what was changed where the ids tell it apart. A user and a group may both be 2.
    fn is_told_from(&self, other: &Self) -> bool {
        let tells = |record: &Self| tells_apart(&record.id.1.to_string());
        let is_current = self.call.is_current() && other.call.is_current();
        let is_changed = is_current && !(self.was_looked_up && other.was_looked_up);
        let is_apart = (tells(self) && tells(other)) || self.call.is_about_same(&other.call);
        self.call.is_same_tool(&other.call) || (is_changed && is_apart)
    }

    /// Whether older results do not agree with it: those of another tool, or of the same one where
    /// its row would not tell what was asked.
    fn is_disputed(&self, disputed: &Map<Disputed, bool>) -> bool {
        let by_other = disputed.get(&(self.call.tool(), self.id.1.to_string()));
        by_other.is_some_and(|by_other| *by_other || self.asked.is_empty())
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

/// A scalar of a result. Where the call was given another one under its key, that is told with it:
/// some tools answer with the state before the change, which looks as if nothing was done.
fn with_asked(key: &str, value: &Json, made: &Made) -> Member {
    let told = |value: &Json| match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_it = |(other, given): &&Member| other == key && is_short(given);
    let given = made.arguments.iter().find(is_it).map(|(_, it)| told(it));
    let shown = told(value);
    let other = given.filter(|given| is_change(made.tool()) && !given.eq_ignore_ascii_case(&shown));
    let value = match other {
        Some(given) => Json::String(format!("{shown} ({ASKED}{given})")),
        None => value.clone(),
    };
    (key.to_owned(), value)
}

/// Whether a member only says that what was asked for was done.
pub(in super::super) fn acknowledges(key: &str, value: &Json) -> bool {
    *value == Json::Bool(true) && ACKNOWLEDGES.contains(&key)
}

/// Whether a member that is false says that what was asked for was not done.
pub(super) fn denies(key: &str) -> bool {
    ACKNOWLEDGES.contains(&key)
}

/// Whether an object has short scalars only.
pub(in super::super) fn is_flat(value: &Json) -> bool {
    matches!(value, Json::Object(members) if members.iter().all(|(_, value)| is_short(value)))
}

/// Takes like records out of the entries of their calls. `records` are in the order in which they
/// were read, newest first.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn tables_of(
    records: &[RecordParts],
    disputed: &Map<Disputed, bool>,
    lines: &mut Vec<DigestLine>,
    cancel: &Cancel,
) -> Result<Vec<DigestLine>, Cancelled> {
    let mut out = Vec::new();
    let mut told: Map<usize, Call> = Map::default();
    for mut members in kinds_of(records, disputed, cancel)? {
        cancel.check_budget()?;
        let in_rows = tell_calls(records, &mut members, &mut told);
        let of_kind: Vec<&RecordParts> = members.iter().filter_map(|at| records.get(*at)).collect();
        let own: Vec<Json> = of_kind.iter().map(|record| record.row(in_rows)).collect();
        let head = out.len();
        if own.len() < 2 || !push_table(NEWEST, &own, Standing::Own, &mut out) {
            members.iter().for_each(|at| {
                told.remove(at);
            });
            continue;
        }
        let rows = out.iter_mut().skip(head + 1).zip(&members);
        rows.for_each(|(row, record)| row.record = Some(*record));
        let since = changed_since(lines, &members, &of_kind);
        out.extend(since.map(|since| DigestLine::new(Part::Untold, 1, &since)));
        let mut texts: Vec<&str> = Vec::new();
        for text in of_kind.iter().flat_map(|record| &record.texts) {
            if !texts.contains(&text.as_str())
                && texts.len() < MOST_TEXTS
                && text.len() <= TEXT_KEY_BYTES
            {
                texts.push(text);
            }
        }
        if !texts.is_empty() {
            let also = format!("{ALSO}{}", texts.join(", "));
            out.push(DigestLine::new(Part::Untold, 1, &also));
        }
        for (key, rows) in lists_of(&of_kind) {
            push_table(key, &rows, Standing::Usual, &mut out);
        }
    }
    remove(lines, &told);
    Ok(out)
}

/// What becomes of the call of a record that a table tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// The row tells what it was given.
    Told,
    Stays,
}

/// Finds what becomes of the calls of records of one kind. Those that would say nothing without
/// their call stay with it: they are taken out of `members`. Returns whether the rows tell what the
/// calls were given.
fn tell_calls(
    records: &[RecordParts],
    members: &mut Vec<usize>,
    told: &mut Map<usize, Call>,
) -> bool {
    let get = |at: &usize| records.get(*at);
    let first = members.first().and_then(get);
    let alike = |record: &RecordParts| {
        !record.asked_more && first.is_some_and(|first| first.is_asked_alike(record))
    };
    let in_rows = members.iter().filter_map(get).all(alike);
    if !in_rows {
        members.retain(|at| {
            get(at).is_some_and(|record| {
                let is_all = record.asked.is_empty() && !record.asked_more;
                // Looked up of another place or time, it is another state.
                is_all || (record.asked_by_id && !record.was_looked_up)
            })
        });
    }
    for at in members.iter() {
        let is_told = get(at)
            .is_some_and(|record| in_rows || (record.asked.is_empty() && !record.asked_more));
        told.insert(*at, if is_told { Call::Told } else { Call::Stays });
    }
    in_rows
}

/// The indices of the records of each kind that has several, oldest first.
fn kinds_of(
    records: &[RecordParts],
    disputed: &Map<Disputed, bool>,
    cancel: &Cancel,
) -> Result<Vec<Vec<usize>>, Cancelled> {
    let mut kinds: Vec<(Set<&str>, Vec<usize>)> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        cancel.check_budget()?;
        if record.is_disputed(disputed) {
            continue;
        }
        let keys = record.keys();
        let is_full = kinds.len() >= MOST_KINDS;
        let like = kinds.iter_mut().find(|(others, members)| {
            let shared = keys.intersection(others).count();
            let others_of_kind = || members.iter().filter_map(|at| records.get(*at));
            let looked_up = others_of_kind().find(|other| other.was_looked_up);
            let first = others_of_kind().next();
            let mut compared = first.into_iter().chain(looked_up);
            shared as f32 >= LIKE * keys.union(others).count() as f32
                && compared.all(|other| other.is_told_from(record))
        });
        match like {
            Some((_, members)) => members.push(at),
            None if !is_full => kinds.push((keys, vec![at])),
            None => {}
        }
    }
    let is_state = |at: &usize| records.get(*at).is_some_and(|record| record.was_looked_up);
    let several = kinds.into_iter().map(|(_, members)| members);
    let several = several.filter(|members| members.len() > 1 && members.iter().any(is_state));
    let oldest_first = several.map(|mut members| {
        members.reverse();
        members
    });
    Ok(oldest_first.collect())
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
    // A single row is all that is told of its list.
    let Some(table) = Table::of_any(items) else {
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

/// Removes the lines of the results that tables tell; their calls then end with `…`. Those that the
/// tables tell, too, are shown only where more belongs to them, or where they changed something.
fn remove(lines: &mut Vec<DigestLine>, told: &Map<usize, Call>) {
    let told = |line: &DigestLine| Some((line.record?, *told.get(&line.record?)?));
    let stays: Vec<bool> = lines.iter().map(|line| told(line).is_none()).collect();
    let mut call = None;
    for at in 0..lines.len() {
        let Some(line) = lines.get(at) else { break };
        if line.depth == 0 {
            call = Some(at);
        } else if let Some((record, told)) = told(line)
            && let Some(call) = call.take().and_then(|call| lines.get_mut(call))
        {
            call.text.push_str(" …");
            // A row shows what a thing is like, not that this was done to it.
            if told == Call::Told && !call.changes {
                (call.standing, call.record) = (Standing::Told, Some(record));
            }
        }
    }
    let mut stays = stays.into_iter();
    lines.retain(|_| stays.next().unwrap_or(true));
}

/// Names the calls that changed records after these were read, and gave no newer state: a row would
/// look like what is there now.
fn changed_since(
    lines: &[DigestLine],
    members: &[usize],
    of_kind: &[&RecordParts],
) -> Option<String> {
    let mut places: Map<usize, usize> = Map::default();
    for (at, line) in lines.iter().enumerate() {
        places.extend(line.record.map(|record| (record, at)));
    }
    let mut ids: Map<String, (usize, usize)> = Map::default();
    for (nth, (member, record)) in members.iter().zip(of_kind).enumerate() {
        let mut id = String::new();
        write_cell(&record.id.1, &mut id);
        if let Some(place) = places.get(member).filter(|_| tells_apart(&id)) {
            ids.insert(id, (nth, *place));
        }
    }
    let mut since: Vec<(usize, String)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_change = line.part == Part::Call && line.changes && line.outcome == Outcome::Done;
        let gives_none = || lines.get(at + 1).is_none_or(|below| below.record.is_none());
        if !is_change || since.len() >= MOST_SINCE || !gives_none() {
            continue;
        }
        let (tool, given) = line.text.split_once('(').unwrap_or((&line.text, ""));
        let changed = words_of(given).filter_map(|word| Some((word, *ids.get(word)?)));
        for (id, (nth, read)) in changed {
            // What such a call sets is in the row.
            let is_merged = of_kind.get(nth).is_some_and(|record| record.is_merged);
            if read < at && !(is_merged && overrides(tool)) {
                since.push((nth, format!("{id} by {tool}")));
            }
        }
    }
    since.sort_by_key(|(nth, _)| *nth);
    let names: Vec<String> = since.into_iter().map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| format!("{SINCE}{}", names.join(", ")))
}
