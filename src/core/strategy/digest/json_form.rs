//! JSON values in few words: how keys and values are written on a line, and what they are.

use crate::core::json::Json;
use crate::core::text::{INFORMATIVE, Table, shape, write_cell};
pub(super) use crate::core::text::{is_party, shown_key};

/// A text from this length on has lines of its own (bytes).
const TEXT_BYTES: usize = 96;
/// The shortest number by which a thing is told from those of other tools (digits).
const LEAST_ID: usize = 4;

/// The keys of what an object is called, the best first.
const NAMING: [&str; 12] = [
    "name",
    "title",
    "login",
    "label",
    "subject",
    "username",
    "display_name",
    "displayName",
    "email",
    "key",
    "filename",
    "path",
];
/// Keys of ids that people use, where there is another one.
const SPOKEN: [&str; 3] = ["number", "key", "iid"];

/// The longest list of ids that belongs to the scalars of its record (bytes).
const IDS_BYTES: usize = 240;
/// The longest key that is no more than an id (bytes).
const WHOLE_ID_BYTES: usize = 4;
/// Names of lists that say nothing of what is in them.
const WRAPPERS: [&str; 9] = [
    "", "data", "entries", "hits", "items", "matches", "records", "results", "rows",
];

/// Whether a text has lines of its own.
pub(super) fn is_long_text(text: &str) -> bool {
    text.len() > TEXT_BYTES || text.contains('\n')
}

/// Whether a value is short enough for the line of a record's own scalars.
pub(super) fn is_short(value: &Json) -> bool {
    match value {
        Json::String(text) => !is_long_text(text),
        value => value.is_scalar(),
    }
}

/// What an object is called: by a key that names, or the first of its texts that is no address.
pub(super) fn naming(item: &Json) -> Option<String> {
    let Json::Object(members) = item else {
        return None;
    };
    let text = |value: &Json| match value {
        Json::String(text) if !text.is_empty() && !is_url(text) => Some(text.clone()),
        _ => None,
    };
    let mut by_name = NAMING.iter().filter_map(|name| text(item.get(name)?));
    by_name
        .next()
        .or_else(|| members.iter().find_map(|(_, value)| text(value)))
}

/// Whether a key is that of what an object is called.
pub(super) fn is_title(key: &str) -> bool {
    NAMING.contains(&key)
}

/// Whether a text begins as an address.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// A value on one line, with as few marks as stay readable.
pub(super) fn inline(value: &Json, out: &mut String) {
    let separated = |at: usize, out: &mut String| {
        if at > 0 {
            out.push_str(", ");
        }
    };
    match value {
        Json::List(items) if let Some(table) = Table::of(items) => {
            out.push('[');
            out.push_str(table.columns_head().trim_end());
            for (at, row) in table.rows().enumerate() {
                out.push_str(if at > 0 { "; " } else { " " });
                out.push_str(&row);
            }
            out.push(']');
        }
        Json::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separated(at, out);
                inline(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                separated(at, out);
                out.push_str(&shown_key(key));
                out.push_str(": ");
                inline(value, out);
            }
            out.push('}');
        }
        scalar => write_cell(scalar, out),
    }
}

/// A lower bound of the bytes that [`inline`] takes. Counting stops at `limit`.
pub(super) fn inline_bytes(value: &Json, limit: usize) -> usize {
    let mut sum = 2;
    match value {
        Json::String(text) => text.len(),
        Json::Number(text) => text.len(),
        Json::Null | Json::Bool(_) => 4,
        Json::List(items) => {
            for item in items {
                sum += 2 + inline_bytes(item, limit);
                if sum > limit {
                    break;
                }
            }
            sum
        }
        Json::Object(members) => {
            for (key, value) in members {
                sum += 4 + key.len() + inline_bytes(value, limit);
                if sum > limit {
                    break;
                }
            }
            sum
        }
    }
}

/// Gives members of an object other values.
pub(super) fn set_members(value: &mut Json, to: &[(String, Json)]) {
    let Json::Object(members) = value else {
        return;
    };
    for (key, value) in members {
        if let Some((_, now)) = to.iter().find(|(set, _)| set == key) {
            value.clone_from(now);
        }
    }
}

/// Whether it is a record, or a list of records, by itself.
pub(super) fn has_ids(value: &Json) -> bool {
    match value {
        Json::Object(members) => members.iter().any(|(key, _)| is_id(key)),
        Json::List(items) => !items.is_empty() && items.iter().all(has_ids),
        _ => false,
    }
}

/// Whether it is a short list of ids: words that each have a digit, without blanks.
pub(super) fn lists_ids(value: &Json) -> bool {
    let is_id = |item: &Json| match item {
        Json::String(text) => {
            text.bytes().any(|b| b.is_ascii_digit())
                && !text.contains(char::is_whitespace)
                && shape(text) > INFORMATIVE
        }
        Json::Number(text) => text.bytes().filter(u8::is_ascii_digit).count() > 2,
        _ => false,
    };
    match value {
        Json::List(items) => {
            !items.is_empty()
                && items.iter().all(is_id)
                && inline_bytes(value, IDS_BYTES) <= IDS_BYTES
        }
        _ => false,
    }
}

/// Whether a list may be a table: its rows are objects of more than one member.
pub(super) fn has_rows(value: &Json) -> bool {
    let is_row = |item: &Json| matches!(item, Json::Object(members) if members.len() > 1);
    matches!(value, Json::List(items) if items.len() > 1 && items.iter().all(is_row))
}

/// Whether a member identifies the record that has it, by its key.
pub(super) fn is_id(key: &str) -> bool {
    const IDS: [&str; 12] = [
        "id", "number", "code", "ref", "key", "uuid", "sku", "no", "nr", "numero", "codigo",
        "nummer",
    ];
    let last = key.rsplit(['_', '-', ' ']).next().unwrap_or_default();
    // As in `idCuenta` and `id_cuenta`.
    let first = key.strip_prefix("id").and_then(|rest| rest.chars().next());
    IDS.iter().any(|id| last.eq_ignore_ascii_case(id))
        || ["Id", "ID", "Number", "Code", "Ref", "Key", "No", "Nr"]
            .iter()
            .any(|id| key.ends_with(id))
        || first.is_some_and(|c| c == '_' || c.is_ascii_uppercase())
        || key.ends_with("编号")
}

/// Whether the items of a list under a key have an id of their own, rather than only that of what
/// they refer to, as payments have that of the card: `id` alone, or one that is named like the
/// list. A list without a name of its own may have the items of any.
pub(super) fn has_own_id(list: &str, item: &[(String, Json)]) -> bool {
    let name = list.rsplit(['_', '-', ' ']).next().unwrap_or_default();
    let is_any = WRAPPERS.iter().any(|any| list.eq_ignore_ascii_case(any));
    let is_own = |(key, _): &(String, Json)| {
        let stem = without_id(key);
        let begins = name.get(..stem.trim_end_matches('y').len());
        let is_named = stem.len() > 2
            && begins.is_some_and(|begins| begins.eq_ignore_ascii_case(stem.trim_end_matches('y')));
        is_id(key) && !may_tell_anything(key) && (is_any || is_named || stem.is_empty())
    };
    item.iter().any(is_own)
}

/// A key without what makes it that of an id: the `ticket` of `ticket_id`, `ticketID` and
/// `id_ticket`; nothing is left of `id`, `uuid` and `sku`.
fn without_id(key: &str) -> &str {
    if !key.contains(['_', '-', ' ']) && key.len() <= WHOLE_ID_BYTES {
        return "";
    }
    let joins = ['_', '-', ' '];
    let ends = ["uuid", "UUID", "id", "Id", "ID", "no", "nr", "sku"];
    let stem = ends.iter().find_map(|end| key.strip_suffix(end));
    let stem = stem.or_else(|| key.strip_prefix("id")).unwrap_or(key);
    stem.trim_matches(joins)
}

/// Whether a key is that of an id that people use in what they say.
pub(super) fn is_spoken_id(key: &str) -> bool {
    SPOKEN.contains(&key)
}

/// Whether a key that may identify often tells something else: an exit code, a page number.
pub(super) fn may_tell_anything(key: &str) -> bool {
    let last = key.rsplit(['_', '-', ' ']).next().unwrap_or_default();
    const KEYS: [&str; 4] = ["number", "code", "ref", "key"];
    let ends = ["Number", "Code", "Ref", "Key"];
    KEYS.iter().any(|id| last.eq_ignore_ascii_case(id)) || ends.iter().any(|id| key.ends_with(id))
}

/// Whether an id, as it is spelled in JSON, is that of one thing: many are counted from 1.
pub(super) fn tells_apart(id: &str) -> bool {
    let id = id.trim_matches('"');
    id.len() >= LEAST_ID || id.chars().any(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_has_an_id_of_its_own_or_that_of_what_it_refers_to() {
        let has = |list: &str, item: &str| match Json::parse(item).unwrap() {
            Json::Object(members) => has_own_id(list, &members),
            _ => panic!("no object"),
        };
        for (list, item) in [
            ("payments", r#"{"amount":5,"id":"T-1"}"#),
            ("containers", r#"{"Command":"sh","ID":"9f8e"}"#),
            ("jobs", r#"{"status":"done","uuid":"9f8e-11"}"#),
            ("order_items", r#"{"name":"Lamp","item_id":"77","price":5}"#),
            ("tickets", r#"{"status":"open","ticketID":"T-9"}"#),
            ("pedidos", r#"{"estado":"abierto","id_pedido":"P-9"}"#),
            ("categories", r#"{"active":true,"category_id":"C-9"}"#),
            ("results", r#"{"status":"open","order_id":"W1"}"#),
            ("", r#"{"status":"open","order_id":"W1"}"#),
        ] {
            assert!(has(list, item), "{list} {item}");
        }
        for (list, item) in [
            (
                "payment_history",
                r#"{"kind":"refund","amount":5,"payment_method_id":"card_9"}"#,
            ),
            (
                "payments",
                r#"{"card_id":"card_9","kind":"refund","amount":5}"#,
            ),
            (
                "card_payments",
                r#"{"kind":"refund","amount":5,"card_id":"card_9"}"#,
            ),
            ("order_items", r#"{"name":"Lamp","order_id":"W1"}"#),
            (
                "payments",
                r#"{"number":1,"kind":"refund","card_id":"card_9"}"#,
            ),
        ] {
            assert!(!has(list, item), "{list} {item}");
        }
    }
}
