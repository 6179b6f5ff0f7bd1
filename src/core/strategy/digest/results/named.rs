//! Records by what identifies them, and how two of them bear on each other.

use std::rc::Rc;

use crate::core::json::Json;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::calls::names::is_among;
use crate::core::strategy::digest::calls::scope::Scope;
use crate::core::strategy::digest::json_form::{inline_bytes, is_short, set_members, tells_apart};
use crate::core::strategy::digest::line::SET_SINCE;
use crate::core::strategy::maps::{Map, Set};

/// The longest list or object that is compared with a newer one (bytes).
const STATE_BYTES: usize = 200;
/// Before what was asked for of a member, where no answer says that it was set.
const ASKED_SINCE: &str = "asked since: ";
/// Members that tell which part of a thing a record is about.
const PARTS: [&str; 10] = [
    "index",
    "leg",
    "line",
    "line_no",
    "line_number",
    "part",
    "pos",
    "position",
    "row",
    "segment",
];

/// A key that identifies, and its value.
pub(super) type Id = (String, String);

/// A record: its ids and all its keys.
#[derive(Debug)]
pub(super) struct Named {
    /// The first of its ids: its own, where others are those of what it refers to.
    pub first: Id,
    pub ids: Set<Id>,
    pub keys: Set<String>,
    /// Its short values.
    pub values: Map<String, Json>,
    /// Which part of the thing it tells of: the line of an order.
    pub places: Vec<Id>,
    /// The call that gave it.
    pub call: Rc<Scope>,
    /// It is what a call was given to set; and no answer says that it is so.
    pub of_arguments: bool,
    pub is_asked: bool,
    /// The number of its result: the less, the newer.
    pub result: usize,
}

impl Named {
    /// `None` for an object without an id.
    pub(super) fn of(members: &[(String, Json)], made: &Made, result: usize) -> Option<Self> {
        let is_id = |(key, value): &&(String, Json)| made.identifies(key, value);
        let ids = members.iter().filter(is_id);
        let mut ids = ids.map(|(key, value)| (key.clone(), value.to_string()));
        let first = ids.next()?;
        let values = members.iter().filter(|(_, value)| is_state(value));
        let ids: Set<Id> = std::iter::once(first.clone()).chain(ids).collect();
        let is_place = |(key, value): &&(String, Json)| is_among(&PARTS, key) && is_short(value);
        let places = members.iter().filter(is_place);
        Some(Named {
            places: places
                .map(|(key, value)| (key.clone(), value.to_string()))
                .collect(),
            ids,
            first,
            keys: members.iter().map(|(key, _)| key.clone()).collect(),
            values: values.cloned().collect(),
            call: Rc::clone(made.scope()),
            of_arguments: false,
            is_asked: false,
            result,
        })
    }

    /// Whether a newer one tells the state of the same thing: its ids are among these.
    pub(super) fn is_newer_of(&self, older: &Self) -> bool {
        self.first == older.first && self.ids.is_subset(&older.ids) && !self.is_other_part(older)
    }

    /// Whether the two tell of different parts of a thing.
    pub(super) fn is_other_part(&self, other: &Self) -> bool {
        let differs = |(key, value): &Id| {
            let same_key = |(known, _): &&Id| known == key;
            let there = other.places.iter().find(same_key);
            there.is_some_and(|(_, there)| there != value)
        };
        self.places.iter().any(differs)
    }

    /// Whether this newer one is of what the call that gave an older one did something to: the
    /// charge of `void_charge`, and not its account.
    pub(super) fn is_of_same(&self, older: &Self, made: &Made) -> bool {
        let others = older.ids.difference(&self.ids);
        !others.into_iter().any(|(key, _)| made.is_named_like(key))
    }

    /// Whether another tool tells of the same thing rather than of one that is counted alike: it
    /// has the same value of something else, too.
    pub(super) fn tells_same(&self, older: &Self) -> bool {
        let is_same = |(key, value): (&String, &Json)| {
            let is_id = older.ids.iter().any(|(of_id, _)| of_id == key);
            !is_id && self.values.get(key) == Some(value)
        };
        self.may_be(older) && older.values.iter().any(is_same)
    }

    /// Whether this newer one has the same short values.
    pub(super) fn has_values_of(&self, older: &Self) -> bool {
        let is_same = |(key, value)| self.values.get(key).is_none_or(|now| !is_other(value, now));
        older.values.iter().all(is_same)
    }

    /// Whether this newer one tells what has become of an older one, that a call of `made` gave.
    pub(super) fn tells_state_of(&self, older: &Self, made: &Made) -> bool {
        if self.call.is_same_tool(&older.call) {
            return self.call.is_same_call(&older.call) || made.overrides();
        }
        let is_own =
            |key: &str| older.keys.contains(key) || (!self.of_arguments && self.keys.contains(key));
        let key = &older.first.0;
        self.may_be(older) && self.call.tells_state_of(&older.call, key, is_own)
    }

    /// Whether the two may be the same thing: a user and a ticket may both have the number 7.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        tells_apart(&other.first.1) || self.call.is_about_same(&other.call)
    }

    /// Whether this newer one shows another value than an older one.
    pub(super) fn contradicts(&self, older: &Self) -> bool {
        let mut values = self.values.iter();
        values.any(|(key, now)| {
            let before = older.values.get(key);
            before.is_some_and(|before| is_other(before, now))
        })
    }
}

/// Whether a value tells the state of a record by itself: a scalar, or a few of them.
fn is_state(value: &Json) -> bool {
    let is_few = || inline_bytes(value, STATE_BYTES) <= STATE_BYTES;
    match value {
        Json::List(items) => items.iter().all(Json::is_scalar) && is_few(),
        Json::Object(members) => members.iter().all(|(_, value)| value.is_scalar()) && is_few(),
        scalar => is_short(scalar),
    }
}

/// Whether a member has another value now. An object with other members tells something else.
pub(super) fn is_other(value: &Json, now: &Json) -> bool {
    match (value, now) {
        (Json::Object(members), Json::Object(others)) => {
            let keys = members.iter().map(|(key, _)| key);
            keys.eq(others.iter().map(|(key, _)| key)) && members != others
        }
        (value, now) => value != now,
    }
}

/// A member of a record that has another value in newer results.
#[derive(Debug)]
pub(in super::super) struct Since {
    pub key: String,
    /// What it is now. Where that was only asked for, also what it was.
    pub now: Json,
    /// What is told where the record stands as it was.
    pub told: Json,
}

impl Since {
    pub(super) fn of(key: &str, before: &Json, set: Option<&Json>, asked: Option<&Json>) -> Self {
        let since = || Json::String(SET_SINCE.to_owned());
        let with = |value: &Json| {
            let (value, asked) = (text_of(value), asked.map(text_of).unwrap_or_default());
            Json::String(format!("{value} ({ASKED_SINCE}{asked})"))
        };
        let (now, told) = match (set, asked) {
            (Some(set), None) => (set.clone(), since()),
            (Some(set), Some(_)) => (with(set), since()),
            (None, _) => (with(before), with(before)),
        };
        Since {
            key: key.to_owned(),
            now,
            told,
        }
    }
}

/// A value as it is told within another text.
fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Marks the members of a record that have other values since.
pub(super) fn mark_changed(json: &mut Json, changed: Vec<Since>) {
    let told = changed.into_iter().map(|since| (since.key, since.told));
    set_members(json, &told.collect::<Vec<_>>());
}
