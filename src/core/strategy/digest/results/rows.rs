//! Rows: values of JSON that are told side by side, as a table.

use super::plumbing::{is_checksum, is_own_address, is_picture};
use super::records::is_flat;
use super::series::tells_of_points;
use crate::core::json::Json;
use crate::core::strategy::digest::json_form::{
    inline, inline_bytes, is_id, is_title, is_url, set_members,
};
use crate::core::strategy::digest::texts::quoted::LINE_BYTES;
use crate::core::strategy::maps::Set;
use crate::core::text::Table;

/// The mean length of cells from which a column of texts or lists is dropped from a table that
/// others would keep readable (bytes).
const WIDE_BYTES: usize = 60;
/// The same of single words, as of addresses of servers.
const WIDE_WORD: usize = 100;
/// The mean length of the texts of items without a title that stay in their rows, as of messages.
const CONTENT_BYTES: usize = 200;
/// Words from which on a cell is a text, and the longest one (bytes).
const LEAST_WORDS: usize = 3;
const LONGEST_CONTENT: usize = 600;
/// The mean length of rows from which a list is told item by item (bytes).
const ROW_BYTES: usize = 400;
/// Columns from which on a table stays worth reading without its lists and long texts.
const LEAST_COLUMNS: usize = 3;
/// Members from which on an object of objects is a table.
const LEAST_KEYED: usize = 3;
/// The most items with texts or lists of their own that are told one by one.
const MOST_ITEMS: usize = 12;
/// The same where they have lists of objects: these are told side by side.
const MOST_LISTED: usize = 200;
/// The same where texts are all that tells what the items are.
const MOST_TEXTS: usize = 40;
/// Rows from which on a table is told in short as well, and the most of its bytes that this takes.
const LEAST_IN_SHORT: usize = 8;
const MOST_IN_SHORT: f32 = 0.6;
/// The most lists of one object in each item that become columns.
const MOST_SINGLE: usize = 32;
/// Lists of names that are tried for the rows beside them.
const MOST_NAMES: usize = 4;
/// The longest name of a column that each row of a list of lists gets (bytes).
const NAME_BYTES: usize = 80;
/// The longest list or object in a cell (bytes).
const CELL_BYTES: usize = 240;
/// The most columns of a sheet that is told as a table.
const SHEET_COLUMNS: usize = 40;
/// The name of the column with the keys of such an object.
const KEY_COLUMN: &str = "key";
/// The name of the column with the number of a row's list in a list of lists.
const GROUP_COLUMN: &str = "group";
/// Follows the numbers of the columns that a table shows and has: `(3 of 8 columns) [40]{…}:`.
pub(in super::super) const COLUMNS: &str = " columns) [";

type Member = (String, Json);

/// The objects in an object that has nothing else, each with its key; the members of any other
/// object as they came.
pub(in super::super) fn keyed_rows(members: Vec<Member>) -> Result<Vec<Json>, Vec<Member>> {
    let is_row = |(_, value): &Member| matches!(value, Json::Object(row) if row.len() > 1);
    if members.len() < LEAST_KEYED || !members.iter().all(is_row) {
        return Err(members);
    }
    let with_key = |(key, value): Member| match value {
        Json::Object(row) => {
            let key = (KEY_COLUMN.to_owned(), Json::String(key));
            Json::Object(std::iter::once(key).chain(row).collect())
        }
        other => other,
    };
    Ok(members.into_iter().map(with_key).collect())
}

/// The rows that lists in a list are.
pub(in super::super) fn rows_in(items: &[Json]) -> Option<Vec<Json>> {
    let rows = grouped_rows(items).or_else(|| sheet_rows(items));
    rows.or_else(|| listed_rows(items, None))
}

/// Takes the one object out of each list that all items have under a key, as of the records of a
/// name: its members are columns then.
pub(in super::super) fn without_single_lists(items: &mut [Json]) {
    let single = |item: &'_ Json, key: &str| match item.get(key) {
        Some(Json::List(inner)) => match inner.as_slice() {
            [object @ Json::Object(_)] => Some(object.clone()),
            _ => None,
        },
        _ => None,
    };
    let Some(Json::Object(first)) = items.first() else {
        return;
    };
    let is_single = |(_, value): &&Member| matches!(value, Json::List(inner) if inner.len() == 1);
    let keys = first.iter().filter(is_single).map(|(key, _)| key.clone());
    // Each is looked for in all items.
    let keys: Vec<String> = keys.take(MOST_SINGLE).collect();
    for key in keys {
        let objects = items.iter().map(|item| single(item, &key));
        let Some(objects) = objects.collect::<Option<Vec<Json>>>() else {
            continue;
        };
        for (item, object) in items.iter_mut().zip(objects) {
            set_members(item, &[(key.clone(), object)]);
        }
    }
}

/// The objects in a list of lists of like ones, each with the number of its list: side by side they
/// are a table.
fn grouped_rows(items: &[Json]) -> Option<Vec<Json>> {
    let mut rows = Vec::new();
    for (at, group) in items.iter().enumerate() {
        let Json::List(group) = group else {
            return None;
        };
        for item in group {
            let Json::Object(members) = item else {
                return None;
            };
            let number = (GROUP_COLUMN.to_owned(), Json::Number(at.to_string().into()));
            let members = std::iter::once(number).chain(members.iter().cloned());
            rows.push(Json::Object(members.collect()));
        }
    }
    let all = rows.len();
    let table = Table::of(&rows)?;
    rows_of(table, all)?;
    Some(rows)
}

/// Lists of as many scalars each as the rows of a table. Its columns have the names that are given,
/// or numbers.
fn listed_rows(items: &[Json], names: Option<&[Json]>) -> Option<Vec<Json>> {
    let width = match items.first()? {
        Json::List(first) => first.len(),
        _ => return None,
    };
    // Where columns have names, a cell may be a list or an object.
    let is_cell = |cell: &Json| {
        cell.is_scalar() || (names.is_some() && inline_bytes(cell, CELL_BYTES) <= CELL_BYTES)
    };
    let is_row = |item: &Json| match item {
        Json::List(cells) => cells.len() == width && cells.iter().all(is_cell),
        _ => false,
    };
    let least = if names.is_some() { 1 } else { 2 };
    if names.is_some_and(|names| names.len() != width) {
        return None;
    }
    if width < 2 || items.len() < least || !items.iter().all(is_row) {
        return None;
    }
    let name_of = |at: usize| match names.map(|names| names.get(at)) {
        None => Some((at + 1).to_string()),
        Some(Some(Json::String(name))) if name.len() <= NAME_BYTES => Some(name.clone()),
        Some(_) => None,
    };
    let row = |item: &Json| {
        let Json::List(cells) = item else { return None };
        let cells = cells.iter().enumerate();
        let members = cells.map(|(at, cell)| Some((name_of(at)?, on_one_line(cell))));
        Some(Json::Object(members.collect::<Option<Vec<_>>>()?))
    };
    items.iter().map(row).collect()
}

/// A cell as a scalar.
fn on_one_line(cell: &Json) -> Json {
    if cell.is_scalar() {
        return cell.clone();
    }
    let mut text = String::new();
    inline(cell, &mut text);
    Json::String(text)
}

/// Rows of a sheet: lists of scalars, of which blanks at the end may be left out, with the names of
/// the columns in the first one where another row has a number below a name.
fn sheet_rows(items: &[Json]) -> Option<Vec<Json>> {
    let cells = |item: &'_ Json| match item {
        Json::List(cells) if cells.iter().all(Json::is_scalar) => Some(cells.clone()),
        _ => None,
    };
    let mut rows: Vec<Vec<Json>> = items.iter().map(cells).collect::<Option<_>>()?;
    let width = rows.iter().map(Vec::len).max()?;
    let is_ragged = rows.iter().any(|row| row.len() < width);
    let are_rows = rows.iter().filter(|row| row.len() > 1).count() * 2 >= rows.len();
    if !(2..=SHEET_COLUMNS).contains(&width) || rows.len() < 3 || !are_rows {
        return None;
    }
    for row in &mut rows {
        row.resize(width, Json::String(String::new()));
    }
    let (head, below) = rows.split_first()?;
    let names: Option<Set<&str>> = head.iter().map(text_of).collect();
    let names = names.filter(|names| names.len() == width && !names.contains(""));
    let is_named = names.is_some_and(|names| {
        let is_number = |cell: &Json| match cell {
            Json::Number(_) => true,
            Json::String(text) => text.parse::<f64>().is_ok(),
            _ => false,
        };
        let has_number = |at| {
            below
                .iter()
                .filter_map(|row: &Vec<Json>| row.get(at))
                .any(is_number)
        };
        names.iter().all(|name| name.parse::<f64>().is_err()) && (0..width).any(has_number)
    });
    let head = Some(head.as_slice()).filter(|_| is_named);
    if head.is_none() && !is_ragged {
        return None;
    }
    let below = if is_named { below } else { rows.as_slice() };
    let below: Vec<Json> = below.iter().cloned().map(Json::List).collect();
    listed_rows(&below, head)
}

/// Gives the rows among members the names that a list beside them has, as the results of queries
/// come.
pub(in super::super) fn name_columns(members: &mut Vec<Member>) {
    let are_names = |(at, (_, value)): (usize, &Member)| {
        let Json::List(names) = value else {
            return None;
        };
        let distinct: Set<&str> = names.iter().map(text_of).collect::<Option<_>>()?;
        (names.len() >= 2 && distinct.len() == names.len()).then_some(at)
    };
    let named = |at: usize| {
        let Some((_, Json::List(names))) = members.get(at) else {
            return None;
        };
        let rows = |(of, (_, value)): (usize, &Member)| match value {
            Json::List(items) => Some((of, listed_rows(items, Some(names))?)),
            _ => None,
        };
        let (of, rows) = members.iter().enumerate().find_map(rows)?;
        Some((at, of, rows))
    };
    let names = members.iter().enumerate().filter_map(are_names);
    let Some((names, of, rows)) = names.take(MOST_NAMES).find_map(named) else {
        return;
    };
    if let Some((_, value)) = members.get_mut(of) {
        *value = Json::List(rows);
    }
    members.remove(names);
}

fn text_of(value: &Json) -> Option<&str> {
    match value {
        Json::String(text) => Some(text),
        _ => None,
    }
}

/// A table, written.
pub(in super::super) struct Rows {
    pub head: String,
    pub whole: Vec<String>,
    /// The head and the rows in short, where that is much less.
    pub short: Option<(String, Vec<String>)>,
    /// The columns of what is told below the rows: the keys that lead to it, with dots.
    pub apart: Vec<String>,
}

impl Rows {
    /// Leaves out the rows whose place `stays` does not want.
    pub(in super::super) fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let short = self.short.as_mut().map(|(_, rows)| rows);
        for rows in std::iter::once(&mut self.whole).chain(short) {
            let mut places = 0..;
            rows.retain(|_| places.next().is_some_and(&stays));
        }
    }
}

/// A table of `all` rows. `None` where its rows are too long to be read side by side.
pub(in super::super) fn rows_of(mut table: Table<'_>, all: usize) -> Option<Rows> {
    let columns = table.width();
    let content = content_of(&table);
    let is_content = |name: &str| content.as_deref() == Some(name);
    drop_handles(&mut table);
    let wide = table.names_of(|name, cells| !is_content(name) && is_wide(cells));
    let is_untitled = content.is_none() && !table.has_name(is_title);
    // What lists, objects and texts say is told below the rows, unless there are many.
    let most = if is_untitled { MOST_TEXTS } else { MOST_ITEMS };
    let apart = apart_in(&table, &wide, (all, most));
    let are_listed = are_lists(&table, &apart);
    table.drop_named(|name| wide.iter().any(|wide| wide == name));
    // Nothing else tells what the items are, as of long comments; what has lists has ids.
    let is_known = !is_untitled || (are_listed && table.has_name(is_id));
    if !apart.is_empty() && (!is_known || table.width() < LEAST_COLUMNS) {
        return None;
    }
    let kept = table.width();
    if kept < 2 {
        return None;
    }
    let rows: Vec<String> = table.rows().collect();
    let bytes: usize = rows.iter().map(String::len).sum();
    if bytes > ROW_BYTES * rows.len() {
        return None;
    }
    let head = |table: &Table<'_>| {
        let head = table.columns_head();
        match table.width() {
            kept if kept + apart.len() < columns => {
                format!("({kept} of {columns}{COLUMNS}{all}]{head}")
            }
            _ => format!("[{all}]{head}"),
        }
    };
    // Messages without their texts tell nothing.
    let is_named = content.is_none() || table.has_name(is_id);
    let has_short = rows.len() >= LEAST_IN_SHORT && is_named;
    let written = |table: Table<'_>| (head(&table), table.rows().collect::<Vec<_>>());
    let is_less = |(_, short): &(String, Vec<String>)| {
        short.iter().map(String::len).sum::<usize>() as f32 <= MOST_IN_SHORT * bytes as f32
    };
    // With what people know rows by, if that leaves enough out.
    let in_short = |with_amount: bool| {
        let short = table.in_short(is_id, is_title, with_amount).map(written);
        short.filter(is_less)
    };
    let short = has_short.then(|| in_short(true).or_else(|| in_short(false)));
    Some(Rows {
        head: head(&table),
        whole: rows,
        short: short.flatten(),
        apart,
    })
}

/// Drops the columns of own addresses, pictures and checksums, where an id tells as much.
fn drop_handles(table: &mut Table<'_>) {
    if !table.has_name(is_id) {
        return;
    }
    let is_left_out = |name: &str, cells: &[Option<&Json>]| {
        let is_handle = is_own_address(name) || is_checksum(name);
        is_handle || (is_picture(name) && are_urls(cells))
    };
    let left_out = table.names_of(is_left_out);
    table.drop_named(|name| left_out.iter().any(|left_out| left_out == name));
}

/// Whether the cells of a column are too long to be read side by side.
fn is_wide(column: &[Option<&Json>]) -> bool {
    let bytes = bytes_of(column);
    let is_common = || {
        let first = column.first().copied().flatten();
        bytes <= ROW_BYTES * column.len() && column.iter().all(|cell| *cell == first)
    };
    let are_words = || {
        let may = |text: &str| !text.contains(' ') && !is_url(text);
        let is_word = |value: &&Json| matches!(value, Json::String(text) if may(text));
        bytes <= WIDE_WORD * column.len() && column.iter().flatten().all(is_word)
    };
    bytes > WIDE_BYTES * column.len()
        && !are_words()
        && !column.iter().flatten().all(|v| tells_of_points(v))
        && !is_common()
}

/// Which of the wide columns of a table of `all` rows are told below these: those that are no
/// addresses where there are at `most` so many rows, else those of lists that are tables.
fn apart_in(table: &Table<'_>, wide: &[String], (all, most): (usize, usize)) -> Vec<String> {
    let is_wide = |name: &str| wide.iter().any(|wide| wide == name);
    if all <= most {
        table.names_of(|name, cells| is_wide(name) && !are_urls(cells))
    } else if all <= MOST_LISTED {
        table.names_of(|name, cells| is_wide(name) && cells.iter().flatten().all(is_table))
    } else {
        Vec::new()
    }
}

/// Whether a cell is a list of objects that can be told side by side.
fn is_table(cell: &&Json) -> bool {
    matches!(cell, Json::List(items) if items.iter().all(is_flat))
}

/// Whether the cells of these columns are lists of objects.
fn are_lists(table: &Table<'_>, columns: &[String]) -> bool {
    let is_object = |item: &Json| matches!(item, Json::Object(_));
    let is_list = |cell: &&Json| matches!(cell, Json::List(items) if items.iter().all(is_object));
    let is_other = |name: &str, cells: &[Option<&Json>]| {
        columns.iter().any(|column| column == name) && !cells.iter().flatten().all(is_list)
    };
    table.names_of(is_other).is_empty()
}

/// The bytes of a column's cells.
fn bytes_of(column: &[Option<&Json>]) -> usize {
    let cells = column.iter().flatten();
    cells.map(|value| inline_bytes(value, LINE_BYTES)).sum()
}

fn are_urls(column: &[Option<&Json>]) -> bool {
    let mut cells = column.iter().flatten();
    cells.all(|cell| matches!(cell, Json::String(text) if is_url(text)))
}

/// The column with the texts of items that have no title, as of messages, where these are short
/// enough for rows.
fn content_of(table: &Table<'_>) -> Option<String> {
    if table.has_name(is_title) {
        return None;
    }
    let are_texts = |cells: &[Option<&Json>]| {
        let is_text = |cell: &&Json| matches!(cell, Json::String(text) if !is_url(text));
        let has_words = |cell: &&&Json| {
            let words = |text: &str| text.split(' ').filter(|word| is_word(word)).count();
            matches!(cell, Json::String(text) if words(text) >= LEAST_WORDS)
        };
        let told = || cells.iter().flatten();
        told().all(is_text) && told().filter(has_words).count() * 2 > cells.len()
    };
    let texts = table.names_of(|_, cells| are_texts(cells));
    let [text] = texts.as_slice() else {
        return None;
    };
    let is_short = |name: &str, cells: &[Option<&Json>]| {
        let is_long = |value: &&Json| inline_bytes(value, LONGEST_CONTENT) > LONGEST_CONTENT;
        let is_short = bytes_of(cells) <= CONTENT_BYTES * cells.len();
        name == text && is_short && !cells.iter().flatten().any(is_long)
    };
    let is_kept = !table.names_of(is_short).is_empty();
    is_kept.then(|| text.clone())
}

fn is_word(word: &str) -> bool {
    word.chars().any(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        let Some(Json::Object(mut members)) = Json::parse(text) else {
            panic!("{text}")
        };
        name_columns(&mut members);
        Json::Object(members).to_string()
    }

    #[test]
    fn the_first_row_of_a_sheet_names_its_columns() {
        let told = |text: &str| {
            let Some(Json::List(items)) = Json::parse(text) else {
                panic!("{text}")
            };
            sheet_rows(&items).map(|rows| Json::List(rows).to_string())
        };
        let sheet = r#"[["Item","Plan"],["Light","1500"],["Sum"]]"#;
        let rows = r#"[{"Item":"Light","Plan":"1500"},{"Item":"Sum","Plan":""}]"#;
        assert_eq!(told(sheet).as_deref(), Some(rows));
        let unnamed = told(r#"[["a","b"],["c","d"],["e"]]"#).unwrap();
        assert!(unnamed.starts_with(r#"[{"1":"a","2":"b"}"#), "{unnamed}");
        for other in [r#"[["a","b"],["c","d"],["e","f"]]"#, r#"[[1],[2],[3]]"#] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn of_many_lists_of_one_object_few_are_columns() {
        let list = |n: usize| format!(r#""k{n}":[{{"a":{n}}}]"#);
        let lists: Vec<String> = (0..40_000).map(list).collect();
        let item = Json::parse(&format!("{{{}}}", lists.join(","))).unwrap();
        let mut items = [item.clone(), item];
        without_single_lists(&mut items);
        let is_object = |key: &str| matches!(items[1].get(key), Some(Json::Object(_)));
        assert!(is_object("k0") && !is_object("k39999"));
    }

    #[test]
    fn a_cell_of_named_columns_may_be_a_list() {
        let rows = r#"{"fields":["a","b"],"rows":[[1,[2,3]],[4,{"c":5}]]}"#;
        let expected = r#"{"rows":[{"a":1,"b":"[2, 3]"},{"a":4,"b":"{c: 5}"}]}"#;
        assert_eq!(named(rows), expected);
        let long = format!(
            r#"{{"fields":["a","b"],"rows":[[1,[{}]]]}}"#,
            "1,".repeat(200) + "1"
        );
        assert_eq!(named(&long), long);
    }

    #[test]
    fn rows_take_the_names_of_as_many_columns() {
        let rows = r#"{"fields":["a","b"],"n":1,"rows":[[1,"x"],[2,"y"]]}"#;
        let expected = r#"{"n":1,"rows":[{"a":1,"b":"x"},{"a":2,"b":"y"}]}"#;
        assert_eq!(named(rows), expected);
        for other in [
            r#"{"fields":["a","b","c"],"rows":[[1,"x"],[2,"y"]]}"#,
            r#"{"fields":["a","a"],"rows":[[1,"x"],[2,"y"]]}"#,
            r#"{"fields":["a",1],"rows":[[1,"x"],[2,"y"]]}"#,
            r#"{"fields":["a","b"],"rows":[[1,"x"],[2]]}"#,
        ] {
            assert_eq!(named(other), other);
        }
        // Each row would have a copy of it.
        let long = "a".repeat(NAME_BYTES + 1);
        let other = format!(r#"{{"fields":["{long}","b"],"rows":[[1,"x"],[2,"y"]]}}"#);
        assert_eq!(named(&other), other);
    }
}
