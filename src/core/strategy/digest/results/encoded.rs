//! Results that stand in something else: JSON in a string, as where a tool's answer is put into a
//! text, the parts of a result of the Model Context Protocol, and objects that each have a line.
//! They are told as what they are.

use std::borrow::Cow;

use super::{blocks, xml, yaml};
use crate::core::json::Json;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::maps::Set;
use crate::core::text::ToolFailures;
use crate::core::wire::in_text::without_state;
use crate::core::wire::mcp::texts_of_parts;

/// How deep in a value strings are looked into, and how often one string may be in another.
const MOST_LEVELS: usize = 8;
/// Bytes of strings in one result that are looked into: a tree takes many times those of its text.
const MOST_BYTES: usize = 1 << 20;
/// The most values that a text has one after another.
const MOST_DOCUMENTS: usize = 64;
/// The keys of names and of their values in a list of these, and the longest name (bytes).
const NAMES: [&str; 4] = ["name", "Name", "key", "Key"];
const VALUES: [&str; 2] = ["value", "Value"];
const NAME_BYTES: usize = 64;
/// What the names of headers begin with that tell how a mail came.
const TRANSPORT: [&str; 12] = [
    "arc-",
    "authentication-results",
    "content-transfer-encoding",
    "delivered-to",
    "dkim-",
    "domainkey-",
    "mime-version",
    "received",
    "return-path",
    "x-google-",
    "x-ms-",
    "x-received",
];

/// How lines begin by which a runner of commands reports on one, those that say that it succeeded,
/// and the one behind which its output stands.
const REPORTS: [&str; 4] = [
    "Chunk ID: ",
    "Original token count: ",
    "Total output lines: ",
    "Wall time: ",
];
const SUCCEEDED: [&str; 2] = ["Exit code: 0", "Process exited with code 0"];
const OUTPUT: &str = "Output:";
/// The same in tags.
const SUCCEEDED_IN_TAGS: &str = "<returncode>0</returncode>";
const TAGS: (&str, &str) = ("<output>", "</output>");

/// The text of a result, read as a value where it is an object or a list.
pub(in super::super) struct ResultText<'t> {
    text: &'t str,
    pub content: Cow<'t, str>,
    pub json: Option<Json>,
    /// Whether each of its lines is an object.
    pub is_log: bool,
}

impl<'t> ResultText<'t> {
    pub(in super::super) fn of(text: &'t str) -> Self {
        let content = content_of(text);
        let whole = Json::parse(&content);
        let lines = match whole {
            Some(_) => None,
            None => objects_in_lines(&content),
        };
        let is_log = lines.is_some();
        let json = whole.or(lines).or_else(|| documents(&content));
        ResultText {
            text,
            content,
            json,
            is_log,
        }
    }

    /// The same of what a call gave, and whether that is a failure by these signs: also where it is
    /// a value in YAML, XML or blocks of lines, but for failures and for what stands in a file,
    /// which are told as they are.
    pub(in super::super) fn of_call(
        text: &'t str,
        made: &Made,
        signs: ToolFailures<'_>,
    ) -> (Self, bool) {
        let mut result = ResultText::of(text);
        let is_failure = result.is_failure(signs);
        if result.json.is_none() && !is_failure && !made.may_read_file() {
            let content = &result.content;
            let value = yaml::value_of(content).or_else(|| xml::value_of(content));
            result.json = value.or_else(|| blocks::value_of(content));
        }
        (result, is_failure)
    }

    /// Whether the text is a failure, by these signs.
    fn is_failure(&self, signs: ToolFailures<'_>) -> bool {
        match &self.content {
            Cow::Borrowed(_) if self.is_log => signs.are(self.text),
            Cow::Borrowed(_) => signs.are_as(self.text, self.json.as_ref()),
            // The content of a string is not the text, but that of parts is.
            Cow::Owned(_) if self.text.starts_with('"') => signs.are(self.text),
            Cow::Owned(content) => {
                signs.are(self.text) || signs.are_as(content, self.json.as_ref())
            }
        }
    }
}

/// The text of a result: where it is one string of JSON with several lines, or with JSON in it, its
/// content.
fn content_of(text: &str) -> Cow<'_, str> {
    let text = output_of(text);
    let is_string = text.len() > 2 && text.starts_with('"') && text.ends_with('"');
    let inner = is_string.then(|| serde_json::from_str::<String>(text).ok());
    match inner.flatten() {
        Some(inner) if inner.contains('\n') || inner.starts_with(['{', '[']) => Cow::Owned(inner),
        _ => texts_of_parts(text).map_or_else(|| without_state(text), Cow::Owned),
    }
}

/// What a command printed, without the report above it that it succeeded.
fn output_of(text: &str) -> &str {
    if let Some(output) = output_in_tags(text) {
        return output;
    }
    let (mut rest, mut succeeded) = (text, false);
    while let Some((line, behind)) = rest.split_once('\n') {
        let line = line.trim_end();
        rest = behind;
        if line == OUTPUT {
            let is_all = succeeded && !rest.trim().is_empty();
            return if is_all { rest } else { text };
        }
        let succeeds = SUCCEEDED.contains(&line);
        if !succeeds && !REPORTS.iter().any(|begin| line.starts_with(begin)) {
            break;
        }
        succeeded |= succeeds;
    }
    text
}

/// The same of a command whose output stands in tags.
fn output_in_tags(text: &str) -> Option<&str> {
    let output = text.strip_prefix(SUCCEEDED_IN_TAGS)?.trim_start();
    let output = output
        .strip_prefix(TAGS.0)?
        .trim_end()
        .strip_suffix(TAGS.1)?;
    let output = output.strip_prefix('\n').unwrap_or(output);
    (!output.trim().is_empty()).then_some(output)
}

/// The objects of a text in which each line is one, as logs are written.
fn objects_in_lines(text: &str) -> Option<Json> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_object = |line: &str| line.starts_with('{') && line.ends_with('}');
    let may = text.len() <= MOST_BYTES && lines.clone().all(is_object);
    let items = may.then(|| lines.by_ref().map(Json::parse).collect::<Option<Vec<_>>>());
    let items = items.flatten().filter(|items| items.len() > 1);
    items.map(Json::List)
}

/// Several objects or lists, one after another, as a command prints that asks several times.
fn documents(text: &str) -> Option<Json> {
    if text.len() > MOST_BYTES || !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut documents = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Json>() {
        let value = value.ok().filter(|value| !value.is_scalar())?;
        documents.push(value);
        if documents.len() > MOST_DOCUMENTS {
            return None;
        }
    }
    (documents.len() > 1).then_some(Json::List(documents))
}

/// Replaces strings that are objects or lists by what they are, and lists of names with their
/// values by objects.
pub(in super::super) fn unfold(json: &mut Json) {
    unfold_value(json, MOST_LEVELS, &mut { MOST_BYTES });
}

/// Whether a header of a mail tells how it came rather than what it is.
fn is_transport(name: &str) -> bool {
    let begins = |with: &&str| {
        let begin = name.get(..with.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with))
    };
    name.len() <= NAME_BYTES && TRANSPORT.iter().any(begins)
}

/// The object that a list of names with their values is, as of tags, headers and variables.
fn named_values(items: &[Json]) -> Option<Json> {
    let mut members: Vec<(String, Json)> = Vec::with_capacity(items.len());
    let mut names: Set<&str> = Set::default();
    for item in items {
        let Json::Object(pair) = item else {
            return None;
        };
        let ([(name_key, Json::String(name)), (value_key, value)]
        | [(value_key, value), (name_key, Json::String(name))]) = pair.as_slice()
        else {
            return None;
        };
        if is_transport(name) {
            continue;
        }
        let is_pair = NAMES.contains(&name_key.as_str()) && VALUES.contains(&value_key.as_str());
        let is_new = !name.is_empty() && name.len() <= NAME_BYTES && names.insert(name);
        if !is_pair || !is_new || !value.is_scalar() {
            return None;
        }
        members.push((name.clone(), value.clone()));
    }
    (!members.is_empty()).then_some(Json::Object(members))
}

fn unfold_value(value: &mut Json, levels: usize, room: &mut usize) {
    let Some(levels) = levels.checked_sub(1) else {
        return;
    };
    match value {
        Json::String(text) => {
            if let Some(left) = room.checked_sub(text.len())
                && let Some(mut inner) = Json::parse(text)
            {
                *room = left;
                unfold_value(&mut inner, levels, room);
                *value = inner;
            }
        }
        Json::List(items) => {
            if let Some(object) = named_values(items) {
                *value = object;
                return;
            }
            let items = items.iter_mut();
            items.for_each(|item| unfold_value(item, levels, room));
        }
        Json::Object(members) => {
            let values = members.iter_mut().map(|(_, value)| value);
            values.for_each(|value| unfold_value(value, levels, room));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Json> {
        let mut json = Json::parse(text)?;
        unfold(&mut json);
        Some(json)
    }

    #[test]
    fn lists_of_names_with_values_are_objects() {
        let headers = concat!(
            r#"{"headers":[{"name":"Received","value":"by a"},{"name":"Received","value":"by b"},"#,
            r#"{"name":"From","value":"Ann <a@x>"},{"name":"Date","value":"16 Nov"}],"#,
            r#""Tags":[{"Key":"Env","Value":"prod"}]}"#
        );
        let told = r#"{"headers":{"From":"Ann <a@x>","Date":"16 Nov"},"Tags":{"Env":"prod"}}"#;
        assert_eq!(parsed(headers).unwrap().to_string(), told);
        for other in [
            r#"{"a":[{"name":"x","value":1},{"name":"x","value":2}]}"#,
            r#"{"a":[{"name":"x","value":[1]}]}"#,
            r#"{"a":[{"name":"x","value":1,"unit":"kg"}]}"#,
        ] {
            assert_eq!(parsed(other).unwrap().to_string(), other);
        }
    }

    #[test]
    fn what_a_command_printed_is_told_without_the_tags_around_it() {
        let inside = |text: &'static str| ResultText::of(text).content;
        let text = "<returncode>0</returncode>\n<output>\n  a\n  b\n</output>";
        assert_eq!(inside(text).trim_end(), "  a\n  b");
        for other in [
            "<returncode>1</returncode>\n<output>\na\n</output>",
            "<returncode>0</returncode>\n<output>\n</output>",
            "<returncode>0</returncode>\n<output>\na",
        ] {
            assert_eq!(inside(other), other);
        }
    }

    #[test]
    fn several_documents_are_a_list() {
        let text = "{\n \"id\": 1\n}\n{\n \"id\": 2\n}\n";
        let result = ResultText::of(text);
        assert_eq!(result.json.unwrap().to_string(), r#"[{"id":1},{"id":2}]"#);
        for other in ["{\"id\": 1} and more", "{\"id\": 1}\n7", "[1] [2"] {
            assert!(ResultText::of(other).json.is_none(), "{other}");
        }
    }

    #[test]
    fn strings_that_are_json_are_told_as_what_they_are() {
        let once = r#"{"id":"W-7","items":"[{\"sku\":\"A\"}]","note":"[sic"}"#;
        let told = r#"{"id":"W-7","items":[{"sku":"A"}],"note":"[sic"}"#;
        assert_eq!(parsed(once).unwrap().to_string(), told);
        let twice = serde_json::to_string(once).unwrap();
        assert_eq!(content_of(&twice), once);
        assert_eq!(content_of(r#""id,n\nA,4""#), "id,n\nA,4");
        for text in [r#""done""#, r#"""#, r#""a" or "b""#, "7"] {
            assert_eq!(content_of(text), text);
        }
    }

    #[test]
    fn strings_in_strings_are_looked_into_so_deep_only() {
        let mut text = r#"{"n":1}"#.to_owned();
        for _ in 0..8 {
            text = format!(r#"{{"in":{}}}"#, serde_json::to_string(&text).unwrap());
        }
        assert!(parsed(&text).unwrap().to_string().contains('\\'));
    }

    #[test]
    fn so_much_of_a_result_is_looked_into_only() {
        let long = format!("[{}7]", " ".repeat(MOST_BYTES / 2));
        let all = serde_json::to_string(&[&long, &long, "[8]"]).unwrap();
        let Some(Json::List(items)) = parsed(&all) else {
            panic!("a list")
        };
        let told: Vec<bool> = items
            .iter()
            .map(|item| matches!(item, Json::List(_)))
            .collect();
        assert_eq!(told, [true, false, true]);
    }
}
