//! JSON in fewer tokens: lists of like objects as tables, and values without quotes where they stay
//! unambiguous.

mod in_short;

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

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.trim().len() == text.len()
        && !text.starts_with('…')
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
    use super::shortest;

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
