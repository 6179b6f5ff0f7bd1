//! What records have of the API that gave them, and nobody needs: addresses that follow from another
//! one in the same record, those of pictures, handles of another API, and counters that are all zero.
//! A mark stands for them.

use super::json_form::is_url;
use crate::core::json::Json;

/// How deep in a value this is looked for.
const MOST_LEVELS: usize = 6;
/// The fewest addresses that a mark stands for, and the most that are compared with each other.
const LEAST_URLS: usize = 2;
const MOST_URLS: usize = 32;
/// The fewest counters.
const LEAST_COUNTERS: usize = 3;
/// Members that are left out with them.
const OPAQUE: [&str; 3] = ["avatar_url", "gravatar_id", "node_id"];
/// The name of the mark, and its value for counters.
pub(super) const MARK: &str = "…";
const ALL_ZERO: &str = "(all 0)";

/// Takes them out of all records in a value.
pub(super) fn without_plumbing(value: &mut Json) {
    in_value(value, MOST_LEVELS);
}

fn in_value(value: &mut Json, levels: usize) {
    let Some(levels) = levels.checked_sub(1) else {
        return;
    };
    match value {
        Json::List(items) => items.iter_mut().for_each(|item| in_value(item, levels)),
        Json::Object(members) => {
            for (_, value) in members.iter_mut() {
                in_value(value, levels);
                if is_all_zero(value) {
                    *value = Json::String(ALL_ZERO.to_owned());
                }
            }
            without_urls(members);
        }
        _ => {}
    }
}

/// Whether a value is an object of counters that are zero; its address says nothing.
fn is_all_zero(value: &Json) -> bool {
    let Json::Object(members) = value else {
        return false;
    };
    let is_zero = |value: &Json| matches!(value, Json::Number(number) if &**number == "0");
    let zeros = members.iter().filter(|(_, value)| is_zero(value)).count();
    let others = members.iter().filter(|(_, value)| !is_zero(value));
    zeros >= LEAST_COUNTERS && others.into_iter().all(|(_, value)| url(value).is_some())
}

fn url(value: &Json) -> Option<&str> {
    match value {
        Json::String(text) if is_url(text) => Some(text),
        _ => None,
    }
}

/// Takes the addresses out of a record that go on from another one in it.
fn without_urls(members: &mut Vec<(String, Json)>) {
    let urls: Vec<&str> = members.iter().filter_map(|(_, value)| url(value)).collect();
    let goes_on = |longer: &str| {
        urls.iter().any(|shorter| {
            let behind = longer.strip_prefix(shorter);
            behind.is_some_and(|behind| behind.starts_with(['/', '{', '?']))
        })
    };
    let follows = |(key, value): &(String, Json)| {
        OPAQUE.contains(&key.as_str()) || url(value).is_some_and(goes_on)
    };
    let follow: Vec<bool> = members.iter().map(follows).collect();
    let number = follow.iter().filter(|follows| **follows).count();
    if urls.len() > MOST_URLS || number < LEAST_URLS {
        return;
    }
    let mut follow = follow.into_iter();
    members.retain(|_| !follow.next().unwrap_or_default());
    members.push((
        MARK.to_owned(),
        Json::String(format!("{number} URLs and the like")),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_another_address_is_marked() {
        let mut json = Json::parse(
            r#"{"url":"https://api.x/i/7","comments_url":"https://api.x/i/7/comments",
            "node_id":"I_kwDO","labels_url":"https://api.x/i/7/labels{/name}","number":7,
            "reactions":{"url":"https://api.x/i/7/reactions","+1":0,"-1":0,"laugh":0},
            "votes":{"up":0,"down":1,"all":1},"page":"https://x/7"}"#,
        )
        .unwrap();
        without_plumbing(&mut json);
        assert_eq!(
            json.to_string(),
            r#"{"url":"https://api.x/i/7","number":7,"reactions":"(all 0)","votes":{"up":0,"down":1,"all":1},"page":"https://x/7","…":"3 URLs and the like"}"#
        );
    }

    #[test]
    fn addresses_that_are_the_content_stay() {
        let text =
            r#"{"url":"https://x/a","next":"https://x/a/b","home":"https://y","n":{"a":0,"b":0}}"#;
        let mut json = Json::parse(text).unwrap();
        without_plumbing(&mut json);
        assert_eq!(json.to_string(), text);
    }
}
