//! The lines of a tool result: of JSON the informative values with their keys; lists of like
//! objects as tables; anything else line by line.

use std::collections::{HashMap, HashSet};

use super::line::{DigestLine, LINE_BYTES, for_each_line};
use crate::core::conversation::ToolResult;
use crate::core::json::Json;
use crate::core::text::{INFORMATIVE, Table, shape, words_of, write_cell};

/// A text from this length on is more than a label (bytes).
const PROSE_BYTES: usize = 32;
/// An object or list up to this length is one line (bytes).
const INLINE_BYTES: usize = 120;

/// Appends the lines of the result of a call with these arguments.
pub(super) fn answered(
    result: &ToolResult<'_>,
    arguments: Option<&str>,
    known: &mut Option<Known>,
    out: &mut Vec<DigestLine>,
) {
    let asked = match arguments.and_then(Json::parse) {
        Some(Json::Object(members)) => members,
        _ => Vec::new(),
    };
    for text in result.decoded() {
        result_lines(&text, &asked, known, out);
    }
}

/// Appends the lines of a tool result to a call with these arguments.
pub(super) fn result_lines(
    text: &str,
    asked: &[(String, Json)],
    known: &mut Option<Known>,
    out: &mut Vec<DigestLine>,
) {
    match Json::parse(text) {
        Some(json) if is_empty(&json) => json_lines("", &json, out),
        Some(mut json) => {
            without_echo(&mut json, asked);
            let json = match known.as_mut() {
                Some(known) => essence("", json, known),
                None => json,
            };
            if !is_empty(&json) {
                json_lines("", &json, out);
            }
        }
        None => for_each_line(text, &mut |line| {
            DigestLine::push(out, format!(" {line}"), true, false)
        }),
    }
}

/// Takes away values that only repeat the call's arguments or the key above them; from a list of
/// objects, those that do so in all of them.
fn without_echo(value: &mut Json, asked: &[(String, Json)]) {
    let echoes = |(key, value): &(String, Json)| {
        value.is_scalar() && asked.iter().any(|(k, v)| k == key && v == value)
    };
    match value {
        Json::Object(members) => {
            members.retain(|member| !echoes(member));
            for (key, value) in members {
                // A map from ids to what has these ids.
                if let Json::Object(inner) = value {
                    inner.retain(|(_, value)| !matches!(value, Json::String(text) if text == key));
                }
                without_echo(value, asked);
            }
        }
        Json::List(items) => {
            let has = |item: &Json, wanted: &(String, Json)| match item {
                Json::Object(members) => members.contains(wanted),
                _ => false,
            };
            let in_all: Vec<(String, Json)> = asked
                .iter()
                .filter(|member| items.iter().all(|item| has(item, member)))
                .cloned()
                .collect();
            items
                .iter_mut()
                .for_each(|item| without_echo(item, &in_all));
        }
        _ => {}
    }
}

/// Values that are known with their key. Newer ones are noted first, so that the newest mention is
/// shown in full.
#[derive(Debug, Default)]
pub(super) struct Known(HashSet<String>);

impl Known {
    /// Whether this is the first mention.
    fn first(&mut self, key: &str, value: &Json) -> bool {
        self.0.insert(format!("{key}\0{value}"))
    }

    /// Takes note of the values in a text that stays as it is.
    pub(super) fn note(&mut self, text: &str) {
        if let Some(json) = Json::parse(text) {
            essence("", json, self);
        }
    }
}

/// A value without the members that say little (small numbers, times of day, plain words) or are
/// known.
fn essence(key: &str, value: Json, known: &mut Known) -> Json {
    match value {
        Json::Object(members) => Json::Object(
            members
                .into_iter()
                .filter_map(|(key, value)| {
                    if value.is_scalar() {
                        return (is_informative(&value) && known.first(&key, &value))
                            .then_some((key, value));
                    }
                    let value = essence(&key, value, known);
                    (!is_empty(&value)).then_some((key, value))
                })
                .collect(),
        ),
        Json::List(items) => Json::List(columns(
            items
                .into_iter()
                .filter(|item| known.first(key, item))
                .collect(),
        )),
        scalar => scalar,
    }
}

/// The same for a list: of its objects, members go or stay in all of them together, so that rows
/// stay alike.
fn columns(items: Vec<Json>) -> Vec<Json> {
    let mut tally = Tally::new();
    items
        .iter()
        .for_each(|item| tally_members("", item, &mut tally));
    items
        .into_iter()
        .map(|item| strip("", item, &tally))
        .collect()
}

/// Per path of a member: the number of objects in which its value is informative, and of those that
/// have it.
type Tally = HashMap<String, (usize, usize)>;

/// Counts the members of one object of a list.
fn tally_members(prefix: &str, item: &Json, tally: &mut Tally) {
    let Json::Object(members) = item else { return };
    for (key, value) in members {
        let path = format!("{prefix}.{key}");
        match value {
            Json::Object(_) => tally_members(&path, value, tally),
            Json::List(_) => {}
            scalar => {
                let (informative, all) = tally.entry(path).or_default();
                *informative += usize::from(is_informative(scalar));
                *all += 1;
            }
        }
    }
}

/// One object of a list without the members that are informative in less than half of them.
fn strip(prefix: &str, item: Json, tally: &Tally) -> Json {
    match item {
        Json::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| {
                let path = format!("{prefix}.{key}");
                if tally
                    .get(&path)
                    .is_some_and(|(informative, all)| informative * 2 < *all)
                {
                    return None;
                }
                let value = strip(&path, value, tally);
                (!is_empty(&value)).then_some((key, value))
            });
            Json::Object(kept.collect())
        }
        Json::List(items) => Json::List(columns(items)),
        scalar => scalar,
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Object(members) => members.is_empty(),
        Json::List(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether a value is likely to be needed later.
fn is_informative(scalar: &Json) -> bool {
    match scalar {
        Json::Null | Json::Bool(_) => false,
        // Prose is ranked by its lines.
        Json::String(text) if text.len() > PROSE_BYTES => true,
        scalar => {
            let mut text = String::new();
            write_cell(scalar, &mut text);
            words_of(&text).map(shape).fold(0.0, f32::max) >= INFORMATIVE
        }
    }
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
                out.push_str(key);
                out.push_str(": ");
                inline(value, out);
            }
            out.push('}');
        }
        scalar => write_cell(scalar, out),
    }
}

/// A lower bound of the bytes that [`inline`] takes. Counting stops at `limit`.
fn inline_bytes(value: &Json, limit: usize) -> usize {
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

/// Whether a list may be a table: its rows are objects of more than one member.
fn has_rows(value: &Json) -> bool {
    let is_row = |item: &Json| matches!(item, Json::Object(members) if members.len() > 1);
    matches!(value, Json::List(items) if !items.is_empty() && items.iter().all(is_row))
}

/// Appends the lines of the JSON value at `path` of a result.
fn json_lines(path: &str, value: &Json, out: &mut Vec<DigestLine>) {
    let named = |text: &str| {
        if path.is_empty() {
            format!(" {text}")
        } else {
            format!(" {path}: {text}")
        }
    };
    let table = if let Json::List(items) = value {
        Table::of_any(items)
    } else {
        None
    };
    let short = inline_bytes(value, INLINE_BYTES) <= INLINE_BYTES;
    if short && !(table.is_some() && has_rows(value)) {
        let mut text = String::new();
        inline(value, &mut text);
        DigestLine::push(out, named(&text), false, false);
        return;
    }
    match value {
        Json::String(text) => {
            DigestLine::push(out, format!(" {path}:"), false, false);
            for_each_line(text, &mut |line| {
                DigestLine::push(out, format!("  {line}"), true, false)
            });
        }
        Json::List(items) => {
            let rows = table.map(|table| (table.head(), table.rows().collect::<Vec<_>>()));
            match rows {
                Some((head, rows)) if rows.iter().all(|row| row.len() <= 2 * LINE_BYTES) => {
                    DigestLine::push(out, named(&head), false, false);
                    rows.into_iter()
                        .for_each(|row| DigestLine::push(out, format!("  {row}"), false, false));
                }
                _ => list_lines(path, items, out),
            }
        }
        Json::Object(members) => object_lines(path, members, out),
        scalar => DigestLine::push(out, named(&scalar.to_string()), false, false),
    }
}

fn list_lines(path: &str, items: &[Json], out: &mut Vec<DigestLine>) {
    let scalars = items.iter().all(Json::is_scalar);
    let mut line = String::new();
    for (at, item) in items.iter().enumerate() {
        if !scalars {
            json_lines(&format!("{path}[{at}]"), item, out);
            continue;
        }
        if line.is_empty() {
            line = format!(" {path}[{at}]: ");
        } else {
            line.push_str(", ");
        }
        inline(item, &mut line);
        if line.len() >= INLINE_BYTES {
            DigestLine::push(out, std::mem::take(&mut line), false, false);
        }
    }
    if !line.is_empty() {
        DigestLine::push(out, line, false, false);
    }
}

/// Small members of an object share lines, larger ones have their own.
fn object_lines(path: &str, members: &[(String, Json)], out: &mut Vec<DigestLine>) {
    let mut line = String::new();
    let flush = |line: &mut String, out: &mut Vec<DigestLine>| {
        if !line.is_empty() {
            DigestLine::push(out, std::mem::take(line), false, false);
        }
    };
    for (key, value) in members {
        if inline_bytes(value, INLINE_BYTES) > INLINE_BYTES / 2 || has_rows(value) {
            flush(&mut line, out);
            json_lines(
                &if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                },
                value,
                out,
            );
            continue;
        }
        if line.is_empty() {
            line = if path.is_empty() {
                " ".to_owned()
            } else {
                format!(" {path}: ")
            };
        } else {
            line.push_str(", ");
        }
        line.push_str(key);
        line.push_str(": ");
        inline(value, &mut line);
        if line.len() >= INLINE_BYTES {
            flush(&mut line, out);
        }
    }
    flush(&mut line, out);
}
