//! Addresses in the items of a list that another member of the same object makes: of a page by its
//! number, of a person by the name. One pattern stands for all of them, in the head of the table.

use crate::core::json::Json;
use crate::core::strategy::digest::json_form::is_url;

/// The most objects in an item, and addresses and other members of each, that are compared.
const MOST_COMPARED: usize = 32;

type Member = (String, Json);
/// The keys that lead to an object in an item: none, or that of one of its members.
type Place = Option<String>;

/// An address in an object of each item.
struct Pattern {
    place: Place,
    key: String,
    /// The address with the key of the other member in place of its value.
    text: String,
}

/// The items with patterns for such addresses. `None` where there are none.
pub(super) fn with_patterns(items: &[Json]) -> Option<Vec<Json>> {
    let [Json::Object(first), _, ..] = items else {
        return None;
    };
    let inner = first.iter().filter_map(|(key, value)| match value {
        Json::Object(members) => Some((Some(key.clone()), members)),
        _ => None,
    });
    // Each is looked for in all items.
    let places = std::iter::once((None, first)).chain(inner.take(MOST_COMPARED));
    let found = places.flat_map(|(place, members)| patterns_of(&place, members, items));
    let found: Vec<Pattern> = found.take(MOST_COMPARED).collect();
    if found.is_empty() {
        return None;
    }
    let mut items = items.to_vec();
    for pattern in found {
        for item in &mut items {
            if let Some(value) = member_mut(item, &pattern.place, &pattern.key) {
                *value = Json::String(pattern.text.clone());
            }
        }
    }
    Some(items)
}

/// The patterns of one object of the first item, as far as they are those of all items.
fn patterns_of(place: &Place, members: &[Member], items: &[Json]) -> Vec<Pattern> {
    let addresses = members.iter().filter_map(|(key, value)| match value {
        Json::String(text) if is_url(text) => Some((key, text)),
        _ => None,
    });
    let others = || {
        let others = members.iter().filter(|(key, _)| is_name(key));
        others
            .filter_map(|(key, value)| Some((key, scalar(value)?)))
            .take(MOST_COMPARED)
    };
    let pattern = |(key, url): (&String, &String)| {
        others().find_map(|(other, told)| {
            let at = url.rfind(&told)?;
            let (before, after) = (url.get(..at)?, url.get(at + told.len()..)?);
            let fits = |item: &Json| {
                let object = object(item, place);
                let told = object.and_then(|o| scalar(o.get(other)?));
                let Some((told, Json::String(url))) = told.zip(object.and_then(|o| o.get(key)))
                else {
                    return false;
                };
                let middle = url.strip_prefix(before);
                middle.and_then(|rest| rest.strip_suffix(after)) == Some(&told)
            };
            items.iter().all(fits).then(|| Pattern {
                place: place.clone(),
                key: key.clone(),
                text: format!("{before}<{other}>{after}"),
            })
        })
    };
    addresses.take(MOST_COMPARED).filter_map(pattern).collect()
}

/// What a member says, if it is no address itself.
fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) if !text.is_empty() && !is_url(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_name(key: &str) -> bool {
    key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn object<'j>(item: &'j Json, place: &Place) -> Option<&'j Json> {
    match place {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

fn member_mut<'j>(item: &'j mut Json, place: &Place, key: &str) -> Option<&'j mut Json> {
    let object = match place {
        Some(place) => in_object(item, place)?,
        None => item,
    };
    in_object(object, key)
}

fn in_object<'j>(value: &'j mut Json, key: &str) -> Option<&'j mut Json> {
    let Json::Object(members) = value else {
        return None;
    };
    members
        .iter_mut()
        .find_map(|(k, value)| (k == key).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        let Some(Json::List(items)) = Json::parse(text) else {
            panic!("{text}")
        };
        with_patterns(&items).map(|items| Json::List(items).to_string())
    }

    #[test]
    fn an_address_that_another_member_makes_is_a_pattern() {
        let list = |pull: &dyn Fn(u32) -> String, person: &dyn Fn(&str) -> String| {
            let item = |number: u32, login: &str| {
                let (pull, person) = (pull(number), person(login));
                let user = format!(r#"{{"login":"{login}","page":"{person}"}}"#);
                format!(r#"{{"number":{number},"url":"{pull}","user":{user}}}"#)
            };
            format!("[{},{}]", item(7, "ann"), item(12, "bob"))
        };
        let given = list(&|n| format!("https://x/pull/{n}"), &|login| {
            format!("https://x/{login}")
        });
        let expected = list(&|_| "https://x/pull/<number>".to_owned(), &|_| {
            "https://x/<login>".to_owned()
        });
        assert_eq!(told(&given), Some(expected));
    }

    #[test]
    fn other_addresses_stay() {
        for list in [
            r#"[{"n":7,"url":"https://x/7"},{"n":8,"url":"https://x/9"}]"#,
            r#"[{"n":7,"url":"https://x/7"},{"n":8}]"#,
            r#"[{"n":7,"url":"https://x/7"}]"#,
            r#"[{"n":7,"page":"x/7"},{"n":8,"page":"x/8"}]"#,
        ] {
            assert_eq!(told(list), None, "{list}");
        }
    }
}
