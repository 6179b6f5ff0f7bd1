//! Results of the Model Context Protocol: a list of parts, which clients hand on as JSON in a text.

use crate::core::json::Json;

/// Bytes within which a result that has parts shows it.
const BEGIN_BYTES: usize = 256;
/// What a part has besides its content.
const BESIDE: [&str; 3] = ["_meta", "annotations", "type"];

/// The texts in the parts of a result; `None` where a text is something else, or has a part that is
/// no text, no picture and no resource with a text, or more than parts.
pub(in crate::core) fn texts_of_parts(text: &str) -> Option<String> {
    let beginning = text.get(..text.floor_char_boundary(BEGIN_BYTES))?;
    let may = beginning.starts_with(['{', '[']) && beginning.contains("\"type\"");
    let parts = match may.then(|| Json::parse(text)).flatten()? {
        Json::List(parts) => parts,
        Json::Object(mut members) => {
            members.retain(|(key, _)| !matches!(key.as_str(), "_meta" | "isError"));
            match (members.pop(), members.pop()) {
                (Some((key, Json::List(parts))), None) if key == "content" => parts,
                _ => return None,
            }
        }
        _ => return None,
    };
    let texts: Option<Vec<String>> = parts.iter().map(text_of).collect();
    let text = texts?.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

fn text_of(part: &Json) -> Option<String> {
    let Json::Object(members) = part else {
        return None;
    };
    let has_only = |keys: &[&str]| {
        let mut own = members.iter().map(|(key, _)| key.as_str());
        own.all(|key| BESIDE.contains(&key) || keys.contains(&key))
    };
    let text = |of: &Json, key: &str| match of.get(key)? {
        Json::String(text) => Some(text.clone()),
        _ => None,
    };
    match text(part, "type")?.as_str() {
        "text" if has_only(&["text"]) => text(part, "text"),
        "resource" if has_only(&["resource"]) => {
            let resource = part.get("resource")?;
            let content = text(resource, "text")?;
            let name = text(resource, "uri").map(|uri| format!("{uri}\n"));
            Some(name.unwrap_or_default() + &content)
        }
        kind @ ("image" | "audio") if has_only(&["data", "mimeType"]) => Some(format!("[{kind}]")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_texts() {
        for (result, text) in [
            (r#"{"content":[{"type":"text","text":"[1]"}]}"#, "[1]"),
            (
                concat!(
                    r#"[{"type":"text","text":"a","annotations":null},"#,
                    r#"{"type":"image","data":"x","mimeType":"image/png"}]"#
                ),
                "a\n[image]",
            ),
            (
                r#"{"content":[{"type":"text","text":"No such issue"}],"isError":true}"#,
                "No such issue",
            ),
            (
                concat!(
                    r#"[{"type":"resource","resource":{"uri":"repo://a.yml","#,
                    r#""mimeType":"text/plain","text":"on: push"}}]"#
                ),
                "repo://a.yml\non: push",
            ),
        ] {
            assert_eq!(texts_of_parts(result).as_deref(), Some(text), "{result}");
        }
    }

    #[test]
    fn records_that_look_alike_are_no_parts() {
        for result in [
            r#"[{"type":"text","text":"Name","id":"f1","required":true}]"#,
            r#"[{"type":"image","url":"https://x/7.png","id":17}]"#,
            r#"{"content":[{"type":"text","text":"3 rows"}],"structuredContent":{"rows":[1,2,3]}}"#,
            r#"{"content":[{"type":"text","text":"a"}],"next_cursor":"x"}"#,
            r#"{"type":"text","text":"a"}"#,
            r#"[{"type":"text","text":""}]"#,
            "[]",
        ] {
            assert_eq!(texts_of_parts(result), None, "{result}");
        }
    }
}
