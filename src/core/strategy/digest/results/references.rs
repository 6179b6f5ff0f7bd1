//! References in the items of a list: an object with an address of its own stands for another
//! resource, as the person whom an issue is assigned to. Its name stands in the item; what else
//! there is to know of it is told once, below the list.

use std::collections::BTreeMap;

use super::plumbing::{MARK, URLS, is_content};
use super::seen::Seen;
use crate::core::json::Json;
use crate::core::strategy::digest::json_form::{is_url, naming};
use crate::core::strategy::maps::Map;

/// The most items of a list of references in an item.
const MOST_LISTED: usize = 16;
/// How deep in a reference addresses are looked for.
const MOST_LEVELS: usize = 4;
/// The longest name of a reference (bytes).
const NAME_BYTES: usize = 80;

/// References at one place of a list's items, without their addresses, by their names.
#[derive(Default)]
struct Named {
    /// All references, the same one as often as it stands there.
    all: usize,
    /// Each with the place of its first.
    distinct: Map<String, (usize, Json)>,
    /// Two that differ have the same name.
    is_ambiguous: bool,
}

/// Puts the names of references in their place, where some of them stand in several items. Returns
/// those that no newer result tells, in the order in which they came, with the keys to their place.
pub(super) fn fold(items: &mut [Json], is_deep: bool, seen: &mut Seen) -> Vec<(String, Vec<Json>)> {
    let mut found: BTreeMap<String, Named> = BTreeMap::new();
    if is_deep {
        return Vec::new();
    }
    for item in items.iter_mut() {
        each_reference(item, &mut |path, value| {
            note(found.entry(path.to_owned()).or_default(), value);
        });
    }
    found.retain(|_, named| !named.is_ambiguous && named.distinct.len() < named.all);
    if found.is_empty() {
        return Vec::new();
    }
    for item in items.iter_mut() {
        each_reference(item, &mut |path, value| {
            if let Some(name) = naming(value).filter(|_| found.contains_key(path)) {
                *value = Json::String(name);
            }
        });
    }
    let mut unknown = |(path, named): (String, Named)| {
        let mut told: Vec<(usize, Json)> = named.distinct.into_values().collect();
        told.sort_by_key(|(at, _)| *at);
        let has_more = |one: &Json| matches!(one, Json::Object(members) if members.len() > 1);
        let told = told.into_iter().map(|(_, one)| one).filter(has_more);
        let told = told.filter(|one| !seen.reference(&path, one)).collect();
        (path, told)
    };
    let told = found.into_iter().map(&mut unknown);
    told.filter(|(_, told): &(String, Vec<Json>)| !told.is_empty())
        .collect()
}

/// Takes note of a reference; of one that was folded before, of nothing.
fn note(named: &mut Named, value: &Json) {
    let Some(name) = naming(value) else {
        return;
    };
    named.all += 1;
    let told = without_addresses(value);
    match named.distinct.get(&name) {
        Some((_, known)) => named.is_ambiguous |= *known != told,
        None => {
            named.distinct.insert(name, (named.all, told));
        }
    }
}

/// Calls `with` for each reference in an item, with the keys that lead to it: those of its own
/// members, and of the member that holds what it has.
fn each_reference(item: &mut Json, with: &mut impl FnMut(&str, &mut Json)) {
    let Json::Object(members) = item else {
        return;
    };
    for (key, value) in members {
        match value {
            Json::Object(inner) if is_content(key) && !is_reference_of(inner) => {
                for (inner_key, value) in inner {
                    in_member(&format!("{key}.{inner_key}"), value, with);
                }
            }
            value => in_member(key, value, with),
        }
    }
}

fn in_member(path: &str, value: &mut Json, with: &mut impl FnMut(&str, &mut Json)) {
    match value {
        Json::List(items) if items.len() <= MOST_LISTED && items.iter().all(is_reference) => {
            items.iter_mut().for_each(|item| with(path, item));
        }
        value if is_reference(value) => with(path, value),
        _ => {}
    }
}

fn is_reference(value: &Json) -> bool {
    let has_name = || naming(value).is_some_and(|name| name.len() <= NAME_BYTES);
    matches!(value, Json::Object(members) if is_reference_of(members) && has_name())
}

fn is_reference_of(members: &[(String, Json)]) -> bool {
    members.len() > 1 && members.iter().any(is_linked)
}

fn is_address(value: &Json) -> bool {
    matches!(value, Json::String(text) if is_url(text))
}

/// Whether it has an address, or had one.
fn is_linked((key, value): &(String, Json)) -> bool {
    key == MARK || is_address(value)
}

/// A reference without its addresses, the pictures and the resources of its own, and what it does
/// not have.
fn without_addresses(value: &Json) -> Json {
    let Json::Object(members) = value else {
        return value.clone();
    };
    let is_told = |(key, value): &&(String, Json)| match value {
        Json::Null => false,
        Json::String(text) => key != MARK && !text.is_empty() && !is_url(text),
        value => value.is_scalar() || !has_address(value, MOST_LEVELS),
    };
    let mut told: Vec<(String, Json)> = members.iter().filter(is_told).cloned().collect();
    if told.len() > 1 {
        told.push((MARK.to_owned(), Json::String(URLS.to_owned())));
    }
    Json::Object(told)
}

fn has_address(value: &Json, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else {
        return false;
    };
    match value {
        Json::Object(members) => members
            .iter()
            .any(|member| is_linked(member) || has_address(&member.1, levels)),
        Json::List(items) => items.iter().any(|item| has_address(item, levels)),
        value => is_address(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> (String, Vec<(String, String)>) {
        let Some(Json::List(mut items)) = Json::parse(text) else {
            panic!("{text}")
        };
        let told = fold(&mut items, false, &mut Seen::default());
        let told = told
            .into_iter()
            .map(|(path, told)| (path, Json::List(told).to_string()));
        let told = told.collect();
        (Json::List(items).to_string(), told)
    }

    #[test]
    fn what_several_items_refer_to_is_told_once() {
        let jens = concat!(
            r#"{"self":"https://x/u/7","id":"u7","name":"Jens","#,
            r#""pictures":{"s":"https://x/p"},"active":true}"#
        );
        let issue = |key: &str, labels: &str| {
            format!(r#"{{"key":"{key}","fields":{{"assignee":{jens},"labels":{labels}}}}}"#)
        };
        let label = r#"[{"url":"https://x/l/bug","name":"bug"}]"#;
        let text = format!(
            "[{},{},{}]",
            issue("A-1", label),
            issue("A-2", "[]"),
            issue("A-3", label)
        );
        let (items, told) = folded(&text);
        let item = |key: &str, labels: &str| {
            format!(r#"{{"key":"{key}","fields":{{"assignee":"Jens","labels":[{labels}]}}}}"#)
        };
        let (one, two, three) = (
            item("A-1", r#""bug""#),
            item("A-2", ""),
            item("A-3", r#""bug""#),
        );
        assert_eq!(items, format!("[{one},{two},{three}]"));
        let person = r#"[{"id":"u7","name":"Jens","active":true,"…":"URLs"}]"#;
        assert_eq!(told, [("fields.assignee".to_owned(), person.to_owned())]);
    }

    #[test]
    fn what_is_no_reference_or_stands_once_or_has_the_name_of_another_stays() {
        let by = |one: &str, other: &str| format!(r#"[{{"by":{one}}},{{"by":{other}}}]"#);
        let unlinked = r#"{"name":"Ann","phone":"1"}"#;
        let ann = r#"{"id":1,"name":"Ann","url":"https://x/1"}"#;
        let bob = r#"{"id":2,"name":"Bob","url":"https://x/2"}"#;
        let namesake = r#"{"id":2,"name":"Ann","url":"https://x/2"}"#;
        let items = r#"[{"url":"https://x/1","title":"one"},{"url":"https://x/1","title":"one"}]"#;
        for text in [
            by(unlinked, unlinked),
            by(ann, bob),
            by(ann, namesake),
            items.to_owned(),
        ] {
            assert_eq!(folded(&text), (text.clone(), Vec::new()));
        }
    }
}
