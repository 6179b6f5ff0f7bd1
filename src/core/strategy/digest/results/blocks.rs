//! Results in blocks of lines `Key: value`, with a blank line or a rule between them, as values: a
//! list of records, under the line above it where there is one.

use super::yaml::is_key;
use crate::core::json::Json;
use crate::core::strategy::maps::Set;

/// The longest text that is read, and the longest line above the blocks (bytes).
const MOST_BYTES: usize = 1 << 18;
const HEAD_BYTES: usize = 80;
/// The fewest records, and the fewest keys of one: lines with two are what people say in turns.
const LEAST_RECORDS: usize = 2;
const LEAST_MEMBERS: usize = 3;
/// Signs that a rule is drawn with, and the fewest of them.
const RULES: [char; 4] = ['-', '=', '*', '─'];
const RULE_SIGNS: usize = 3;

/// The value that a text of blocks is.
pub(super) fn value_of(text: &str) -> Option<Json> {
    if text.len() > MOST_BYTES {
        return None;
    }
    let mut lines = text.lines().map(str::trim_end).peekable();
    while lines.next_if(|line| is_between(line)).is_some() {}
    let head = lines.next_if(|line| is_head(line));
    let mut records: Vec<Vec<(String, Json)>> = Vec::new();
    let mut is_inside = false;
    for line in lines {
        if is_between(line) {
            is_inside = false;
            continue;
        }
        if !is_inside {
            records.push(Vec::new());
            is_inside = true;
        }
        records.last_mut()?.push(member_of(line)?);
    }
    if records.len() < LEAST_RECORDS || !records.iter().all(|record| has_one_each(record)) {
        return None;
    }
    let first = |record: &Vec<(String, Json)>| record.first().map(|(key, _)| key.clone());
    let named = records.first().and_then(first);
    if !records.iter().all(|record| first(record) == named) {
        return None;
    }
    let list = Json::List(records.into_iter().map(Json::Object).collect());
    Some(match head {
        Some(head) => Json::Object(vec![(head.trim_end_matches(':').to_owned(), list)]),
        None => list,
    })
}

/// Whether a line stands between two blocks.
fn is_between(line: &str) -> bool {
    line.is_empty() || (line.chars().count() >= RULE_SIGNS && line.chars().all(is_rule))
}

fn is_rule(c: char) -> bool {
    RULES.contains(&c)
}

/// Whether a line above the blocks says what they are: `3 assets found`.
fn is_head(line: &str) -> bool {
    line.len() <= HEAD_BYTES && !line.trim_end_matches(':').contains(':')
}

fn member_of(line: &str) -> Option<(String, Json)> {
    let (key, value) = line.split_once(':')?;
    let is_value = value.is_empty() || value.starts_with([' ', '\t']);
    let is_name = is_value && !key.starts_with([' ', '\t', '-']) && is_key(key.trim_end(), true);
    is_name.then(|| {
        (
            key.trim_end().to_owned(),
            Json::unquoted(value.trim_start()),
        )
    })
}

/// Whether a record has enough members, each once.
fn has_one_each(record: &[(String, Json)]) -> bool {
    let keys: Set<&str> = record.iter().map(|(key, _)| key.as_str()).collect();
    record.len() >= LEAST_MEMBERS && keys.len() == record.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        value_of(text).map(|value| value.to_string())
    }

    #[test]
    fn blocks_are_records() {
        let text = "2 assets found:\n\nAsset : LT-4\nOwner : Mia Chen\nNote  : see: B\n\n\
                    Asset : LT-5\nOwner :\nDue   : 2026-02-01\nCost  : 12.50\n";
        assert_eq!(
            told(text).as_deref(),
            Some(concat!(
                r#"{"2 assets found":[{"Asset":"LT-4","Owner":"Mia Chen","Note":"see: B"},"#,
                r#"{"Asset":"LT-5","Owner":"","Due":"2026-02-01","Cost":12.50}]}"#
            ))
        );
        let ruled = "=====\nID: 1\nName: a\nOn: true\n-----\nID: 2\nName: b\nOn: false\n=====";
        assert_eq!(
            told(ruled).as_deref(),
            Some(r#"[{"ID":1,"Name":"a","On":true},{"ID":2,"Name":"b","On":false}]"#)
        );
    }

    #[test]
    fn what_is_no_list_of_like_records_stays_as_it_is() {
        for text in [
            "ID: 1\nName: a\nOn: true",
            "ID: 1\nName: a\nOn: true\n\nTotal: 2\nOpen: 1\nDone: 1",
            "ID: 1\nName: a\nOn: true\n\nID: 2\nName: b\nOn: false\n\n2 rows",
            "ID: 1\nName: a\n  b\nOn: true\n\nID: 2\nName: b\nOn: no",
            "ID: 1\nName: a\nName: b\n\nID: 2\nName: b\nOn: no",
            "Ann: Ship it?\nBob: No.\n\nAnn: Why?\nBob: Tests.",
            "src/a.rs:1: a\nsrc/b.rs:2: b\nc: d\n\nsrc/a.rs:1: a\nsrc/b.rs:2: b\nc: d",
            "",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
