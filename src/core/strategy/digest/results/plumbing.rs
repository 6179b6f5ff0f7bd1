//! What records have of the API that gave them, and nobody needs: addresses that go on from another
//! one in the same record, with pictures and handles of another API beside them, and counters that
//! are all zero. A mark stands for them.

use crate::core::json::Json;
use crate::core::strategy::digest::json_form::is_url;

/// How deep in a value this is looked for.
const MOST_LEVELS: usize = 6;
/// The fewest addresses that a mark stands for, and the most that are compared with each other.
const LEAST_URLS: usize = 2;
const MOST_URLS: usize = 32;
/// The fewest counters.
const LEAST_COUNTERS: usize = 3;
/// Members that are left out with them, and the least length of their values (bytes).
const OPAQUE: [&str; 3] = ["avatar_url", "gravatar_id", "node_id"];
const OPAQUE_BYTES: usize = 12;
/// Slashes of an address that has a path.
const OF_PATH: usize = 4;
/// What a record that another one refers to has of its own address: the key, and those of pictures.
const SELF: &str = "self";
const PICTURES: [&str; 2] = ["avatarUrls", "iconUrl"];
/// Keys of pictures, without `url`.
const PICTURE: [&str; 10] = [
    "avatar",
    "icon",
    "image",
    "img",
    "logo",
    "photo",
    "picture",
    "thumb",
    "thumbnail",
    "image_src",
];
/// Keys of checksums and of handles of an API, in small letters without `_`, and what others have.
const CHECKSUMS: [&str; 4] = ["diffid", "etag", "icaluid", "md5"];
const OF_CHECKSUMS: [&str; 2] = ["checksum", "fingerprint"];
/// The key of the beginning of a text, the bytes of it that are compared, the fewest, and how deep
/// the text may be.
const SNIPPET: &str = "snippet";
const SNIPPET_BYTES: usize = 60;
const LEAST_SNIPPET: usize = 20;
const LEVELS_OF_SNIPPET: usize = 2;
/// The name of the mark, its value for addresses without a number, and for counters.
pub(super) const MARK: &str = "…";
pub(super) const URLS: &str = "URLs";
const ALL_ZERO: &str = "(all 0)";

/// Keys of what tells of a list or a request, and of members that hold what a record has; small
/// letters, without `_`.
const OF_LISTS: [&str; 15] = [
    "cursor",
    "etag",
    "expand",
    "hasmore",
    "htmllink",
    "majordimension",
    "nextcursor",
    "nextpage",
    "nextpagetoken",
    "nextsynctoken",
    "perpage",
    "requestid",
    "selflink",
    "totalcount",
    "truncated",
];
/// Those that also may tell of the thing, as the total of an invoice.
const OF_EITHER: [&str; 8] = [
    "count", "kind", "limit", "object", "offset", "page", "pages", "total",
];
/// Those of a record's own address, and of what may be asked for with it.
const OF_ADDRESS: [&str; 3] = ["expand", "selfLink", "self"];
const OF_CONTENT: [&str; 6] = [
    "attributes",
    "data",
    "fields",
    "properties",
    "record",
    "result",
];
/// No such key is longer (bytes).
const LONGEST_KEY: usize = 24;

/// Whether a key is that of a page, a count and their like.
pub(super) fn is_plumbing(key: &str) -> bool {
    is_one_of(&OF_LISTS, key)
}

/// The same where there is nothing else beside what was asked for.
pub(super) fn is_of_envelope(key: &str) -> bool {
    is_plumbing(key) || is_one_of(&OF_EITHER, key)
}

/// Whether keys with dots are those of an own address, of a handle of another API, or of what may
/// be asked for with it.
pub(super) fn is_own_address(keys: &str) -> bool {
    let key = keys.rsplit('.').next().unwrap_or(keys);
    OF_ADDRESS.contains(&key) || OPAQUE.contains(&key)
}

/// Whether keys with dots are those of a picture.
pub(super) fn is_picture(keys: &str) -> bool {
    let key = keys.rsplit('.').next().unwrap_or(keys).to_lowercase();
    let key = key.trim_end_matches("url").trim_end_matches('_');
    PICTURE.contains(&key)
}

/// Whether keys with dots are those of a checksum, or of a handle of an API.
pub(super) fn is_checksum(keys: &str) -> bool {
    let keys = keys.to_lowercase().replace('_', "");
    let last = keys.rsplit('.').next().unwrap_or(&keys);
    CHECKSUMS.contains(&last) || OF_CHECKSUMS.iter().any(|sign| keys.contains(sign))
}

/// Whether a key is that of the member that holds what a record has.
pub(super) fn is_content(key: &str) -> bool {
    is_one_of(&OF_CONTENT, key)
}

fn is_one_of(known: &[&str], key: &str) -> bool {
    key.len() <= LONGEST_KEY && known.contains(&key.replace('_', "").to_lowercase().as_str())
}

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
            let has_self = has_self(members);
            for (key, value) in members.iter_mut() {
                in_value(value, levels);
                if has_self {
                    without_self(value, levels);
                }
                if is_all_zero(key, value) {
                    *value = Json::String(ALL_ZERO.to_owned());
                }
            }
            without_urls(members);
            without_snippet(members);
        }
        _ => {}
    }
}

/// Takes out the beginning of a text that stands beside that.
fn without_snippet(members: &mut Vec<(String, Json)>) {
    let is_snippet = |(key, _): &(String, Json)| key == SNIPPET;
    let Some((_, Json::String(snippet))) = members.iter().find(|member| is_snippet(member)) else {
        return;
    };
    let begin = snippet.get(..snippet.floor_char_boundary(SNIPPET_BYTES));
    let begin = begin
        .filter(|begin| begin.len() >= LEAST_SNIPPET)
        .map(str::to_owned);
    let goes_on = |begin: String| {
        let mut others = members.iter().filter(|member| !is_snippet(member));
        others.any(|(_, value)| has_text(value, &begin, LEVELS_OF_SNIPPET))
    };
    if begin.is_some_and(goes_on) {
        members.retain(|member| !is_snippet(member));
    }
}

/// Whether a text in a value begins so.
fn has_text(value: &Json, begin: &str, levels: usize) -> bool {
    let inner = |value: &Json| levels > 0 && has_text(value, begin, levels - 1);
    match value {
        Json::String(text) => text.starts_with(begin),
        Json::Object(members) => members.iter().any(|(_, value)| inner(value)),
        _ => false,
    }
}

fn has_self(members: &[(String, Json)]) -> bool {
    members
        .iter()
        .any(|(key, value)| key == SELF && url(value).is_some())
}

/// Takes the addresses out of what a record refers to: each such object is told by its names.
fn without_self(value: &mut Json, levels: usize) {
    let Some(levels) = levels.checked_sub(1) else {
        return;
    };
    match value {
        Json::List(items) => items.iter_mut().for_each(|item| without_self(item, levels)),
        Json::Object(members) if has_self(members) && members.len() > 2 => {
            members.retain(|(key, _)| key != SELF && !PICTURES.contains(&key.as_str()));
            members.push((MARK.to_owned(), Json::String(URLS.to_owned())));
        }
        Json::Object(members) => members
            .iter_mut()
            .for_each(|(_, value)| without_self(value, levels)),
        _ => {}
    }
}

/// Whether a value is an object of counters that are zero, with its own address at most.
fn is_all_zero(key: &str, value: &Json) -> bool {
    let Json::Object(members) = value else {
        return false;
    };
    let is_zero = |value: &Json| matches!(value, Json::Number(number) if &**number == "0");
    let is_own = |value: &Json| {
        let last = url(value).and_then(|url| url.rsplit('/').next());
        last == Some(key)
    };
    let zeros = members.iter().filter(|(_, value)| is_zero(value)).count();
    zeros >= LEAST_COUNTERS
        && members
            .iter()
            .all(|(_, value)| is_zero(value) || is_own(value))
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
    if urls.len() > MOST_URLS || urls.len() <= LEAST_URLS {
        return;
    }
    let has_path = |url: &&&str| url.matches('/').count() >= OF_PATH;
    let goes_on = |longer: &str| {
        urls.iter().filter(has_path).any(|shorter| {
            let behind = longer.strip_prefix(shorter);
            behind.is_some_and(|behind| behind.starts_with(['/', '{']))
        })
    };
    let follows = |(_, value): &(String, Json)| url(value).is_some_and(goes_on);
    let is_opaque = |(key, value): &(String, Json)| {
        let is_handle = |text: &str| {
            let of_handle = |c: char| c.is_ascii_alphanumeric() || "_-=".contains(c);
            text.is_empty() || (text.len() >= OPAQUE_BYTES && text.chars().all(of_handle))
        };
        OPAQUE.contains(&key.as_str())
            && (url(value).is_some() || matches!(value, Json::String(text) if is_handle(text)))
    };
    if members.iter().filter(|member| follows(member)).count() < LEAST_URLS {
        return;
    }
    let left_out: Vec<bool> = members
        .iter()
        .map(|member| follows(member) || is_opaque(member))
        .collect();
    let number = left_out.iter().filter(|is_out| **is_out).count();
    let mut left_out = left_out.into_iter();
    members.retain(|_| !left_out.next().unwrap_or_default());
    let mark = format!("{number} URLs and the like");
    members.push((MARK.to_owned(), Json::String(mark)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(text: &str) -> String {
        let mut json = Json::parse(text).unwrap();
        without_plumbing(&mut json);
        json.to_string()
    }

    #[test]
    fn what_follows_from_another_address_is_marked() {
        let text = r#"{"url":"https://api.x/i/7","comments_url":"https://api.x/i/7/comments",
            "labels_url":"https://api.x/i/7/labels{/name}","node_id":"I_kwDOCx8Q7c6g","number":7,
            "reactions":{"url":"https://api.x/i/7/reactions","+1":0,"-1":0,"laugh":0},
            "votes":{"up":0,"down":1,"all":1},"page":"https://x/7"}"#;
        let expected = concat!(
            r#"{"url":"https://api.x/i/7","number":7,"reactions":"(all 0)","#,
            r#""votes":{"up":0,"down":1,"all":1},"page":"https://x/7","…":"3 URLs and the like"}"#
        );
        assert_eq!(tidied(text), expected);
    }

    #[test]
    fn what_a_record_refers_to_is_told_without_its_address() {
        let text = concat!(
            r#"{"self":"https://x/i/7","key":"A-7","fields":{"status":{"self":"https://x/s/3","#,
            r#""iconUrl":"https://x/s.png","name":"Done"},"files":[{"self":"https://x/f/1","#,
            r#""filename":"a.pdf","content":"https://x/f/1/a.pdf"}]}}"#
        );
        let expected = concat!(
            r#"{"self":"https://x/i/7","key":"A-7","fields":{"status":{"name":"Done","…":"URLs"},"#,
            r#""files":[{"filename":"a.pdf","content":"https://x/f/1/a.pdf","…":"URLs"}]}}"#
        );
        assert_eq!(tidied(text), expected);
        let of_none = r#"{"page":1,"files":[{"self":"https://x/f/1","name":"a","size":3}]}"#;
        assert_eq!(tidied(of_none), of_none);
    }

    #[test]
    fn checksums_are_known_by_their_keys() {
        for keys in [
            "Layer.DiffID",
            "etag",
            "iCalUID",
            "partialFingerprints.primary",
            "md5",
        ] {
            assert!(is_checksum(keys), "{keys}");
        }
        for other in ["target_agent", "asset_age", "id", "digest", "commit"] {
            assert!(!is_checksum(other), "{other}");
        }
    }

    #[test]
    fn the_beginning_of_a_text_that_stands_beside_it_goes() {
        let mail = concat!(
            r#"{"snippet":"Dear Ann, the crane is re","#,
            r#""payload":{"body":"Dear Ann, the crane is ready."}}"#
        );
        assert_eq!(
            tidied(mail),
            r#"{"payload":{"body":"Dear Ann, the crane is ready."}}"#
        );
        for other in [
            r#"{"snippet":"Dear Ann, the crane is re","subject":"Dear"}"#,
            r#"{"snippet":"Dear","body":"Dear Ann"}"#,
        ] {
            assert_eq!(tidied(other), other);
        }
    }

    #[test]
    fn addresses_that_are_the_content_stay() {
        for text in [
            r#"{"url":"https://x/a/b","next":"https://x/a/b?at=9","last":"https://x/a/b?at=1"}"#,
            r#"{"site":"https://x","a":"https://x/a","b":"https://x/b","node_id":"n-42"}"#,
            r#"{"url":"https://x/a/b","one":"https://x/a/b/c","n":{"a":0,"b":0}}"#,
        ] {
            assert_eq!(tidied(text), text);
        }
    }

    #[test]
    fn many_addresses_are_not_compared_with_each_other() {
        let url = |n: usize| format!(r#""u{n}":"https://x/a/b/{}""#, "c/".repeat(n % 90));
        let urls: Vec<String> = (0..50_000).map(url).collect();
        let text = format!("{{{}}}", urls.join(","));
        assert_eq!(tidied(&text), text);
    }
}
