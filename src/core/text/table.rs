//! JSON in fewer tokens: lists of like objects as tables, and values without quotes where they stay
//! unambiguous.

use std::collections::HashSet;

use foldhash::fast::FixedState;

use crate::core::json::{Json, is_number};

/// Least number of rows for which a table is shorter than the list.
const LEAST_ROWS: usize = 2;
/// Largest number of columns; wider tables are hard to read.
pub(in crate::core) const MOST_COLUMNS: usize = 40;
/// Cells in a hundred that have a value, at least: of any table, and of one of items that have less
/// in common.
const FILLED: usize = 60;
const FILLED_OF_RAGGED: usize = 40;
/// Levels of nested objects that become columns of their own.
const DEPTH: usize = 3;
/// Distinct values up to which a column tells kinds of rows apart, in so many rows for each.
const MOST_KINDS: usize = 6;
const ROWS_PER_KIND: usize = 3;
/// The longest cell of such a column (bytes).
const KIND_BYTES: usize = 24;
/// The same of one with the names of rows, where its key says so.
const NAME_BYTES: usize = 48;

/// The mean length of the labels of rows (bytes).
const LABEL_BYTES: usize = 40;

/// A list of like objects. Members of nested objects are columns with dotted names.
#[derive(Debug)]
pub struct Table<'j> {
    columns: Vec<String>,
    rows: Vec<Vec<Option<&'j Json>>>,
}

impl<'j> Table<'j> {
    /// Makes a table of `items`. `None` if there are too few of them, or if they are too unlike.
    #[must_use]
    pub fn of(items: &'j [Json]) -> Option<Self> {
        if items.len() < LEAST_ROWS {
            None
        } else {
            Table::of_any(items)
        }
    }

    /// Like [`Table::of`], for any number of rows.
    #[must_use]
    pub fn of_any(items: &'j [Json]) -> Option<Self> {
        Table::filled(items, FILLED)
    }

    /// The same, also of items that have fewer members in common.
    #[must_use]
    pub fn of_ragged(items: &'j [Json]) -> Option<Self> {
        Table::filled(items, FILLED_OF_RAGGED)
    }

    /// A table of which so many cells in a hundred are filled.
    fn filled(items: &'j [Json], least: usize) -> Option<Self> {
        let mut table = Table {
            columns: Vec::new(),
            rows: Vec::with_capacity(items.len()),
        };
        for item in items {
            let Json::Object(members) = item else {
                return None;
            };
            let mut row = vec![None; table.columns.len()];
            table.read(members, "", DEPTH, &mut row)?;
            table.rows.push(row);
        }
        let cells: usize = table
            .rows
            .iter()
            .map(|row| row.iter().flatten().count())
            .sum();
        let all = table.columns.len() * table.rows.len();
        (all > 0 && cells * 100 >= all * least).then_some(table)
    }

    /// Puts an object's members into `row` and adds missing columns. `None` if a member fits no
    /// table.
    fn read(
        &mut self,
        members: &'j [(String, Json)],
        prefix: &str,
        depth: usize,
        row: &mut Vec<Option<&'j Json>>,
    ) -> Option<()> {
        for (key, value) in members {
            if key.is_empty()
                || key.contains(|c: char| {
                    ".,:={}[]\"".contains(c) || c.is_control() || (c.is_whitespace() && c != ' ')
                })
                || key.trim().len() != key.len()
            {
                return None;
            }
            let name = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            match value {
                Json::Object(inner) if !inner.is_empty() && depth > 1 => {
                    self.read(inner, &name, depth - 1, row)?
                }
                value => {
                    let at = match self.columns.iter().position(|column| *column == name) {
                        Some(at) => at,
                        None if self.columns.len() < MOST_COLUMNS => {
                            self.add_column(prefix, name, row)
                        }
                        None => return None,
                    };
                    if row.len() <= at {
                        row.resize(at + 1, None);
                    }
                    let cell = row.get_mut(at)?;
                    if cell.is_some() {
                        return None;
                    }
                    *cell = Some(value);
                }
            }
        }
        Some(())
    }

    /// Adds a column beside those of the same object, in all rows. Returns its place.
    fn add_column(&mut self, prefix: &str, name: String, row: &mut Vec<Option<&'j Json>>) -> usize {
        let is_beside = |column: &String| {
            let behind = column.strip_prefix(prefix);
            !prefix.is_empty() && behind.is_some_and(|behind| behind.starts_with('.'))
        };
        let last = self.columns.iter().rposition(is_beside);
        let at = last.map_or(self.columns.len(), |last| last + 1);
        self.columns.insert(at, name);
        for row in self.rows.iter_mut().chain([row]) {
            if at < row.len() {
                row.insert(at, None);
            }
        }
        at
    }

    /// The number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The names of the columns that are as `is_wanted` says of their names and cells.
    pub fn names_of(&self, is_wanted: impl Fn(&str, &[Option<&Json>]) -> bool) -> Vec<String> {
        let named = self.columns.iter().enumerate();
        let wanted = named.filter(|(at, name)| is_wanted(name, &self.cells(*at)));
        wanted.map(|(_, name)| name.clone()).collect()
    }

    /// Whether there is a column of such a name.
    pub fn has_name(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        self.columns.iter().any(|name| is_wanted(name))
    }

    fn cells(&self, column: usize) -> Vec<Option<&Json>> {
        let cell = |row: &Vec<Option<&'j Json>>| row.get(column).copied().flatten();
        self.rows.iter().map(cell).collect()
    }

    /// Drops the columns of such names.
    pub fn drop_named(&mut self, is_dropped: impl Fn(&str) -> bool) {
        for at in (0..self.columns.len()).rev() {
            if self.columns.get(at).is_some_and(|name| is_dropped(name)) {
                self.drop_column(at);
            }
        }
    }

    fn drop_column(&mut self, at: usize) {
        self.columns.remove(at);
        for row in self.rows.iter_mut().filter(|row| at < row.len()) {
            row.remove(at);
        }
    }

    /// The same table with the columns that decisions are made by: one that names each row, if
    /// possible by a key that `is_id` or `is_title`, and those that tell kinds of rows apart.
    /// `None` where there are no such columns.
    #[must_use]
    pub fn in_short(
        &self,
        is_id: impl Fn(&str) -> bool,
        is_title: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let columns = 0..self.columns.len();
        let key = |at: &usize| self.columns.get(*at).is_some_and(|key| is_id(key));
        let ids = columns.clone().filter(key);
        let titles = columns.clone().filter(|at| {
            let title = self.columns.get(*at);
            title.is_some_and(|title| is_title(title)) && self.names(*at, NAME_BYTES)
        });
        // Numbers that happen to differ are measures.
        let texts = columns.clone().filter(|at| self.is_of_texts(*at));
        let is_short = |at: &usize| self.names(*at, KIND_BYTES);
        let texts = texts.filter(is_short);
        let naming = ids.filter(is_short).chain(titles).chain(texts).next()?;
        // An id alone says nothing of what it is.
        let label = self.label(&is_id).filter(|label| *label != naming);
        let is_kind = |at: &usize| *at != naming && Some(*at) != label && self.tells_kinds(*at);
        let kinds: Vec<usize> = columns.filter(is_kind).collect();
        if kinds.is_empty() {
            return None;
        }
        let named = std::iter::once(naming).chain(label);
        let kept: Vec<usize> = named.chain(kinds).collect();
        let cell = |row: &Vec<Option<&'j Json>>, at: &usize| row.get(*at).copied().flatten();
        let name = |at: &usize| self.columns.get(*at).cloned();
        Some(Table {
            columns: kept.iter().filter_map(name).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| kept.iter().map(|at| cell(row, at)).collect())
                .collect(),
        })
    }

    /// The column with the short words that tell most rows apart, as their descriptions.
    fn label(&self, is_id: &impl Fn(&str) -> bool) -> Option<usize> {
        let mut best = None;
        for (at, name) in self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, name)| !is_id(name))
        {
            let cells = self.cells(at);
            let mut distinct: HashSet<&str, FixedState> = HashSet::default();
            let (mut bytes, mut words) = (0, 0);
            for cell in &cells {
                if let Some(Json::String(text)) = cell {
                    distinct.insert(text);
                    bytes += text.len();
                    words += usize::from(is_of_words(text));
                }
            }
            let is_label = words * 4 >= cells.len() * 3
                && distinct.len() * 2 > cells.len()
                && bytes <= LABEL_BYTES * cells.len();
            let is_better = best.is_none_or(|(most, _)| distinct.len() > most);
            if is_label && is_better && !name.is_empty() {
                best = Some((distinct.len(), at));
            }
        }
        best.map(|(_, at)| at)
    }

    fn is_of_texts(&self, column: usize) -> bool {
        let cells = self.cells(column);
        cells
            .into_iter()
            .all(|cell| matches!(cell, Some(Json::String(_))))
    }

    /// Whether each row has another short value in a column.
    fn names(&self, column: usize, most: usize) -> bool {
        let mut seen: HashSet<String, FixedState> = HashSet::default();
        self.cells(column).into_iter().all(|cell| match cell {
            Some(value) if value.is_scalar() => {
                let text = value.to_string();
                text.len() <= most && seen.insert(text)
            }
            _ => false,
        })
    }

    /// Whether a column has few different short values, which are not all the same.
    fn tells_kinds(&self, column: usize) -> bool {
        let most = MOST_KINDS.min(self.rows.len() / ROWS_PER_KIND);
        let mut kinds: Vec<Option<&Json>> = Vec::new();
        let cells = self.cells(column);
        let told = cells.iter().copied().flatten();
        let told: Vec<&Json> = told.filter(|cell| !matches!(cell, Json::Null)).collect();
        let are_numbers = told.iter().all(|cell| matches!(cell, Json::Number(_)));
        // What a few have a number of, as the replies to a message, tells no kinds.
        if are_numbers && told.len() * 2 < cells.len() {
            return false;
        }
        for cell in cells {
            if kinds.contains(&cell) {
                continue;
            }
            let is_short =
                cell.is_none_or(|value| value.is_scalar() && value.to_string().len() <= KIND_BYTES);
            if !is_short || kinds.len() == most {
                return false;
            }
            kinds.push(cell);
        }
        kinds.len() > 1
    }

    /// The head of the table: `[3]{id,name{first,last},kind=guest}:`. A column with the same value
    /// in every row has that value here.
    #[must_use]
    pub fn head(&self) -> String {
        format!("[{}]{}", self.rows.len(), self.columns_head())
    }

    /// The head without the number of rows.
    #[must_use]
    pub fn columns_head(&self) -> String {
        let mut head = String::from("{");
        let mut open: Vec<&str> = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let mut parts: Vec<&str> = column.split('.').collect();
            let name = parts.pop().unwrap_or_default();
            let shared = open.iter().zip(&parts).take_while(|(a, b)| a == b).count();
            head.extend(std::iter::repeat_n('}', open.len() - shared));
            if at > 0 {
                head.push(',');
            }
            for part in parts.iter().skip(shared) {
                head.push_str(part);
                head.push('{');
            }
            head.push_str(name);
            if let Some(value) = self.common(at) {
                head.push('=');
                write_cell(value, &mut head);
            }
            open = parts;
        }
        head.extend(std::iter::repeat_n('}', open.len()));
        head.push_str("}:");
        head
    }

    /// The value of a column, if it is the same in every row.
    fn common(&self, column: usize) -> Option<&'j Json> {
        if self.rows.len() < LEAST_ROWS {
            return None;
        }
        let mut cells = self
            .rows
            .iter()
            .map(|row| row.get(column).copied().flatten());
        let first = cells.next()??;
        cells.all(|cell| cell == Some(first)).then_some(first)
    }

    /// The rows, each as one line without line break. Commas separate the cells; a cell is empty
    /// where its row lacks the column.
    pub fn rows(&self) -> impl Iterator<Item = String> + '_ {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|at| self.common(*at).is_none())
            .collect();
        self.rows.iter().map(move |row| {
            let mut line = String::new();
            for (nth, at) in shown.iter().enumerate() {
                if nth > 0 {
                    line.push(',');
                }
                if let Some(Some(value)) = row.get(*at) {
                    write_cell(value, &mut line);
                }
            }
            line
        })
    }
}

/// Appends a value so that it is unambiguous between commas, colons and brackets: a string without
/// quotes if it cannot be mistaken for anything else, any other value as JSON without white space.
pub fn write_cell(value: &Json, out: &mut String) {
    match value {
        Json::String(text) if is_plain(text) => out.push_str(text),
        value => value.write(out),
    }
}

/// Whether a text has a word rather than codes and numbers alone.
fn is_of_words(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    words.any(|word| word.chars().count() > 3 && word.chars().any(char::is_lowercase))
        || text
            .chars()
            .any(|c| c.is_alphabetic() && !c.is_uppercase() && !c.is_lowercase())
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.trim().len() == text.len()
        && !text.contains(|c: char| ",{}[]\"\\".contains(c) || c.is_control())
        && !matches!(text, "null" | "true" | "false")
        && !is_number(text)
}

/// The shortest lossless form of a JSON text: without white space, and with lists of like objects
/// as tables. `None` if the text is not an object or a list.
#[must_use]
pub fn shortest(text: &str) -> Option<String> {
    let json = Json::parse(text)?;
    let compact = json.to_string();
    Some(
        tabular(&json)
            .filter(|tables| tables.len() < compact.len())
            .unwrap_or(compact),
    )
}

/// The value with its lists of like objects as tables. `None` if there are none near the top.
fn tabular(json: &Json) -> Option<String> {
    let mut out = String::new();
    match json {
        Json::List(items) => {
            if let Some(table) = Table::of(items) {
                write_table(&table, " ", &mut out);
                return Some(out);
            }
            // A list of lists of like objects becomes one block for each inner list.
            if items.is_empty() {
                return None;
            }
            out.push('[');
            for item in items {
                let Json::List(inner) = item else { return None };
                let table = Table::of(inner)?;
                out.push('\n');
                write_table(&table, " ", &mut out);
            }
            out.push(']');
            Some(out)
        }
        Json::Object(members) => {
            let mut found = false;
            for (key, value) in members {
                if !out.is_empty() {
                    out.push('\n');
                }
                crate::core::json::write_string(key, &mut out);
                match value {
                    Json::List(items) if let Some(table) = Table::of(items) => {
                        found = true;
                        out.push(' ');
                        write_table(&table, " ", &mut out);
                    }
                    value => {
                        out.push(':');
                        value.write(&mut out);
                    }
                }
            }
            found.then_some(out)
        }
        _ => None,
    }
}

fn write_table(table: &Table<'_>, indent: &str, out: &mut String) {
    out.push_str(&table.head());
    for row in table.rows() {
        out.push('\n');
        out.push_str(indent);
        out.push_str(&row);
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, shortest};
    use crate::core::json::Json;

    #[test]
    fn like_objects_become_a_table() {
        let text = concat!(
            r#"[ {"id": "007", "n": 1.0, "at": {"x": null, "y": "a, b"}}, {"id": "b", "#,
            r#""n": "2", "at": {"x": "", "y": "null"}} ]"#
        );
        let table = "[2]{id,n,at{x,y}}:\n 007,1.0,null,\"a, b\"\n b,\"2\",\"\",\"null\"";
        assert_eq!(shortest(text).unwrap(), table);
    }

    #[test]
    fn what_all_rows_say_stands_in_the_head() {
        let text = concat!(
            r#"[{"id":1,"a":{"b":{"c":"x","d":2}},"e":"same"},{"id":2,"#,
            r#""a":{"b":{"c":"y","d":3}},"e":"same"}]"#
        );
        assert_eq!(
            shortest(text).unwrap(),
            "[2]{id,a{b{c,d}},e=same}:\n 1,x,2\n 2,y,3"
        );
    }

    #[test]
    fn columns_of_one_object_stand_side_by_side_though_a_later_row_has_more_of_them() {
        let text = concat!(
            r#"[{"id":1,"at":{"day":3},"note":"a"},{"id":2,"at":{"day":4,"hour":9},"note":"b"},"#,
            r#"{"id":3,"at":{"day":5,"hour":8},"note":"c"}]"#
        );
        assert_eq!(
            shortest(text).unwrap(),
            "[3]{id,at{day,hour},note}:\n 1,3,,a\n 2,4,9,b\n 3,5,8,c"
        );
    }

    #[test]
    fn in_short_a_table_has_the_columns_that_name_rows_and_tell_their_kinds() {
        let in_short = |row: fn(usize) -> String| {
            let rows: Vec<String> = (0..9).map(row).collect();
            let Some(Json::List(items)) = Json::parse(&format!("[{}]", rows.join(","))) else {
                panic!("no list");
            };
            let table = Table::of(&items).unwrap();
            let short = table.in_short(|key| key == "id", |key| key == "name")?;
            Some([short.columns_head(), short.rows().nth(1).unwrap()].join(" "))
        };
        let order = |n: usize| {
            format!(
                r#"{{"page":1,"total":{n},"id":"A-{n}","paid":{},"state":"{}","memo":"{}"}}"#,
                n == 1,
                ["new", "sent"][n % 2],
                "long ".repeat(n % 2 * 8)
            )
        };
        assert_eq!(in_short(order).unwrap(), "{id,paid,state}: A-1,true,sent");
        // Nothing names the rows, or nothing tells kinds of them.
        assert_eq!(
            in_short(|n| format!(r#"{{"n":{},"ok":{}}}"#, n / 2, n < 4)),
            None
        );
        assert_eq!(in_short(|n| format!(r#"{{"id":{n},"at":"{n}"}}"#)), None);
        let counted = |n| {
            let replies = if n == 0 { "17" } else { "null" };
            format!(r#"{{"id":{n},"replies":{replies}}}"#)
        };
        assert_eq!(in_short(counted), None);
    }

    #[test]
    fn what_is_no_table_loses_its_white_space_only() {
        assert_eq!(
            shortest("{ \"a\" : [1, {\"b\": 2}] }").unwrap(),
            r#"{"a":[1,{"b":2}]}"#
        );
        assert_eq!(
            shortest(r#"[{"a":1},{"b":2},{"c":3}]"#).unwrap(),
            r#"[{"a":1},{"b":2},{"c":3}]"#
        );
        assert_eq!(shortest("no json"), None);
    }
}
