//! Tables that programs print: a row says little without the names of its columns, which stand once
//! above all of them.

use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::weigh::word::is_lettered_id;
use crate::core::strategy::maps::{Set, hash_of};

/// The most characters and words of a column's name.
const NAME_CHARS: usize = 32;
const NAME_WORDS: usize = 4;
/// Lines between the names of columns and the first row: a rule.
const MOST_BETWEEN: usize = 1;
/// The least columns that are told by blanks alone.
const LEAST_ALIGNED: usize = 3;
/// The most columns of a table of numbers, and of columns before them that only name its rows.
const MOST_COLUMNS: usize = 40;
const MOST_GROUPS: usize = 3;
/// What rules are drawn with, besides blanks, and what parts columns in them and in rows.
const RULES: [char; 7] = ['-', '=', '─', '━', '═', ':', '~'];
const BARS: [char; 4] = ['|', '│', '┃', '┆'];
const CROSSES: [char; 18] = [
    '+', '├', '┼', '┤', '┌', '┬', '┐', '└', '┴', '┘', '╞', '╪', '╡', '┡', '╇', '┩', '┝', '┥',
];

/// Types of columns of databases, and words that describe no column by themselves.
const TYPES: [&str; 26] = [
    "bigint",
    "bigserial",
    "bit",
    "blob",
    "bool",
    "boolean",
    "bytea",
    "char",
    "character",
    "date",
    "datetime",
    "decimal",
    "double",
    "float",
    "int",
    "integer",
    "json",
    "jsonb",
    "numeric",
    "real",
    "smallint",
    "text",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
];
const OF_COLUMNS: [&str; 8] = [
    "default", "extended", "main", "not", "null", "plain", "yes", "pri",
];

/// How the cells of a row are told from each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Bars, as below a ruled head.
    Bars,
    /// Blanks, as below a ruled head.
    Words,
    /// So many of a character.
    Marks(char, usize),
    /// Two blanks and more, as programs align columns.
    Aligned,
    /// Blanks before numbers that end where the names of their columns do.
    Numbers,
}

/// The table that is open at a line of a text.
#[derive(Default)]
pub(in super::super) struct OpenTable<'t> {
    /// The line above, its place, and whether it may be the names of columns: it begins a part of
    /// the text.
    above: Option<(&'t str, usize, bool)>,
    /// The place of the names of columns.
    head: Option<(usize, Form)>,
    /// The line two above, where the one above may be the name of the first column only.
    names: Option<(&'t str, usize)>,
}

impl<'t> OpenTable<'t> {
    /// Reads the line at a place of a text: the place of the names of its columns, where it is the
    /// row of a table.
    pub(in super::super) fn read(&mut self, line: &'t str, at: usize) -> Option<usize> {
        let above = self.above;
        let begins = above.is_none_or(|(above, ..)| above.ends_with(':'));
        self.above = Some((line, at, begins));
        if is_rule(line) {
            // A rule between rows, or above the names, says nothing of them.
            let ruled = above.filter(|(above, ..)| !is_rule(above));
            let ruled = ruled.and_then(|(names, head, _)| Some((head, ruled_form(names, line)?)));
            self.head = self.head.or(ruled);
            self.names = above
                .filter(|(above, ..)| !is_rule(above))
                .map(|(names, head, _)| (names, head));
            return None;
        }
        if let Some((head, form)) = self.head {
            if form.has(line) {
                return Some(head);
            }
            self.head = None;
        }
        let two_above = self.names.take();
        let form = above
            .filter(|(_, _, begins)| *begins)
            .and_then(|(names, head, _)| Some((head, form_of(names, line)?)));
        let above = above.map(|(names, head, _)| (names, head));
        self.head = form.or_else(|| {
            let ends = ends_with_number(line);
            let numbers = |(names, head): (&str, usize)| {
                (ends && ends_below(names, line)).then_some((head, Form::Numbers))
            };
            two_above
                .and_then(numbers)
                .or_else(|| above.and_then(numbers))
        });
        if self.head.is_none() {
            // Of a grouped table, the names of the groups' columns stand below the others.
            let is_short = line.split_ascii_whitespace().nth(MOST_GROUPS).is_none();
            self.names = above.filter(|_| is_short);
        }
        self.head.map(|(head, _)| head)
    }

    /// Whether the line that was read last is the rule below the names of columns: it says nothing
    /// that these do not. Those of Markdown may be of a file that is edited.
    pub(in super::super) fn is_at_rule(&self) -> bool {
        let above = self.above.filter(|_| self.head.is_some());
        above.is_some_and(|(line, ..)| is_rule(line) && !line.trim_start().starts_with('|'))
    }

    /// A blank line ends every table.
    pub(in super::super) fn end(&mut self) {
        *self = OpenTable::default();
    }
}

impl Form {
    /// Whether a line is a row.
    fn has(self, line: &str) -> bool {
        match self {
            Form::Bars => line.contains(BARS),
            Form::Words => line.split_whitespace().nth(1).is_some(),
            // A cell in quotes may have more of them.
            Form::Marks(mark, columns) => {
                let marks = line.matches(mark).count();
                marks == columns || (marks > columns && line.contains('"'))
            }
            Form::Aligned => gaps(line) > 0,
            Form::Numbers => {
                line.split_whitespace().nth(1).is_some()
                    && line.contains(|c: char| c.is_ascii_digit())
            }
        }
    }
}

/// Whether the line above these has the names of their columns: it says nothing without a row.
pub(in super::super) fn names_columns(below: &[DigestLine]) -> bool {
    let mut near = below.iter().take(1 + MOST_BETWEEN).zip(1..);
    let is_row = |line: &DigestLine| line.is_printed_row || line.part == Part::Argument;
    near.any(|(line, above)| is_row(line) && line.within == Some(above))
}

/// What tells the row of a table from those of other ones: the names of its columns, and the words
/// up to its first number, with that where there are none.
/// Where no id is among these, the same row may have been asked for of something else: it is the
/// same one in a result of `call` only.
fn row_key(names: &str, row: &str, call: &str) -> u64 {
    let names: Vec<&str> = names.split_whitespace().collect();
    let ends = |c: char| c.is_whitespace() || BARS.contains(&c) || [',', ';'].contains(&c);
    let mut cells = row.split(ends).filter(|cell| !cell.is_empty());
    let begins = |cell: &&str| !cell.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let words: Vec<&str> = cells.clone().take_while(begins).take(MOST_GROUPS).collect();
    let number = words.is_empty().then(|| (cells.next(), cells.next()));
    let has_id = words.iter().any(|word| is_lettered_id(word));
    let call = (!has_id).then_some(call);
    hash_of(&(names, words, number, call))
}

/// Marks the rows of printed tables that a newer table with the same columns has, by what they
/// begin with.
pub(in super::super) fn note_rows(out: &mut [DigestLine], printed: &mut Set<u64>) {
    let call = out
        .first()
        .map(|line| line.text.clone())
        .unwrap_or_default();
    let row_of = |(at, line): (usize, &DigestLine)| {
        let above = line.within.filter(|_| line.is_printed_row)?;
        let head = out.get(at.checked_sub(above)?)?;
        Some((at, row_key(&head.text, &line.text, &call)))
    };
    let rows: Vec<(usize, u64)> = out.iter().enumerate().filter_map(row_of).collect();
    for (at, key) in &rows {
        let line = out
            .get_mut(*at)
            .filter(|line| line.standing == Standing::Usual);
        if let Some(line) = line.filter(|_| printed.contains(key)) {
            line.standing = Standing::Stale;
        }
    }
    printed.extend(rows.into_iter().map(|(_, key)| key));
}

/// Whether a line only parts others.
pub(in super::super) fn is_rule(line: &str) -> bool {
    let of_rule = |c: char| {
        c.is_whitespace() || RULES.contains(&c) || BARS.contains(&c) || CROSSES.contains(&c)
    };
    line.chars().all(of_rule) && line.chars().filter(|c| RULES.contains(c)).count() >= 3
}

/// Whether a line is the number of rows that stands below a table: `(12 rows)`.
pub(in super::super) fn is_row_count(line: &str) -> bool {
    let inner = line
        .trim_start()
        .strip_prefix('(')
        .and_then(|line| line.trim_end().strip_suffix(')'));
    let counted = inner.and_then(|inner| inner.split_once(' '));
    counted.is_some_and(|(number, of)| {
        number.bytes().all(|b| b.is_ascii_digit()) && matches!(of, "row" | "rows")
    })
}

/// The form of the rows below names with a rule below them.
fn ruled_form(names: &str, rule: &str) -> Option<Form> {
    if names.contains(BARS) {
        return Some(Form::Bars);
    }
    let columns = rule.split_whitespace().count();
    (columns >= 2 && names.split_whitespace().count() >= columns).then_some(Form::Words)
}

/// The form of a table without a rule whose first row stands directly below `names`.
fn form_of(names: &str, row: &str) -> Option<Form> {
    let by_mark = |mark: &char| {
        let columns = names.matches(*mark).count();
        let least = if *mark == '\t' { 1 } else { 2 };
        let form = Form::Marks(*mark, columns);
        let is_one = columns >= least && form.has(row) && are_names(names.split(*mark));
        is_one.then_some(form)
    };
    let by_mark = ['\t', ',', ';', '|'].iter().find_map(by_mark);
    by_mark.or_else(|| {
        let names = names.trim();
        let words = names.split_whitespace().count();
        // In small letters, words beside a single gap may be anything.
        let least = if names.chars().any(char::is_lowercase) {
            2
        } else {
            1
        };
        let is_one = words >= LEAST_ALIGNED
            && gaps(names) >= least
            && are_names(names.split("  ").filter(|name| !name.trim().is_empty()))
            && Form::Aligned.has(row.trim());
        is_one.then_some(Form::Aligned)
    })
}

/// Whether a line ends with a number, or one that is missing.
fn ends_with_number(line: &str) -> bool {
    let end = line.trim_end();
    end.ends_with(|c: char| c.is_ascii_digit() || c == 'N')
}

/// Whether the numbers of a row, which ends with one, end where the names of columns above it do:
/// most of them, and two at least.
fn ends_below(names: &str, row: &str) -> bool {
    // The last column ends both lines: few lines come further.
    let ends = |line: &str| line.trim_end().chars().count();
    if ends(names) != ends(row) {
        return false;
    }
    let words = ends_of(names);
    let is_name = |(_, name): &&(usize, &str)| name.starts_with(char::is_alphabetic);
    let columns: Vec<usize> = words.iter().filter(is_name).map(|(end, _)| *end).collect();
    let are_names = words.first().as_ref().is_some_and(is_name) && columns.len() * 2 > words.len();
    if words.len() > MOST_COLUMNS || !are_names {
        return false;
    }
    let cells = ends_of(row);
    let of_number = |c: char| c.is_ascii_digit() || "+-.,%e".contains(c);
    let is_number = |cell: &str| {
        let begins = cell.trim_start_matches(['+', '-', '.']);
        (begins.starts_with(|c: char| c.is_ascii_digit()) && cell.chars().all(of_number))
            || cell == "NaN"
    };
    let below = |(end, cell): &&(usize, &str)| is_number(cell) && columns.contains(end);
    let below = cells.iter().filter(below).count();
    let is_row = (words.len()..=words.len() + MOST_GROUPS).contains(&cells.len());
    is_row && below >= 2 && below * 2 >= columns.len()
}

/// The words of a line, each with the place where it ends (characters).
fn ends_of(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut begin = None;
    let mut characters = 0;
    for (at, c) in line.char_indices() {
        match (c.is_whitespace(), begin) {
            (false, None) => begin = Some(at),
            (true, Some(from)) => {
                found.extend(line.get(from..at).map(|word| (characters, word)));
                begin = None;
            }
            _ => {}
        }
        characters += 1;
        if found.len() > MOST_COLUMNS + MOST_GROUPS {
            return found;
        }
    }
    let last = begin.and_then(|from| line.get(from..));
    found.extend(last.map(|word| (characters, word)));
    found
}

/// Runs of blanks between words that are longer than one.
fn gaps(line: &str) -> usize {
    let wide = line
        .trim()
        .split("  ")
        .filter(|part| !part.trim().is_empty());
    wide.count().saturating_sub(1)
}

/// Whether these cells are names of columns: short, and no numbers.
fn are_names<'n>(mut cells: impl Iterator<Item = &'n str>) -> bool {
    cells.all(|cell| {
        let name = cell.trim().trim_matches('"');
        let of_name = |c: char| c.is_alphanumeric() || " _-./%#$€()".contains(c);
        name.chars().any(char::is_alphabetic)
            && name.chars().all(of_name)
            && name.chars().count() <= NAME_CHARS
            && name.split_whitespace().count() <= NAME_WORDS
    })
}

/// Whether a row describes a column of a database: with its type, and what it is.
pub(in super::super) fn describes_column(row: &str) -> bool {
    let separated = row.matches('|').count() > 1;
    let cells: Vec<&str> = if separated {
        row.split('|').map(str::trim).collect()
    } else {
        let cells = row.split("  ").flat_map(|cell| cell.split('\t'));
        cells
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    let is_type = |cell: &str| {
        let word = cell
            .split(['(', ' ', '['])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        TYPES.contains(&word.as_str())
    };
    let is_typed = cells.iter().skip(1).take(2).any(|cell| is_type(cell));
    let says = |cell: &str| {
        let lower = cell.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| word.len() > 2 && !OF_COLUMNS.contains(word))
            .count()
            > 0
    };
    is_typed
        && cells
            .iter()
            .skip(2)
            .any(|cell| !is_type(cell) && says(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Option<usize>> {
        let mut table = OpenTable::default();
        let mut heads = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() {
                table.end();
                heads.push(None);
            } else {
                heads.push(table.read(line, at));
            }
        }
        heads
    }

    #[test]
    fn rows_below_a_rule_have_the_names_above_it() {
        let psql = " id | state \n----+-------\n  7 | open\n  8 | sent\n(2 rows)\n\nDone | so";
        assert_eq!(read(psql), [None, None, Some(0), Some(0), None, None, None]);
        let mysql =
            "+----+-------+\n| id | state |\n+----+-------+\n|  7 | open  |\n+----+-------+";
        assert_eq!(read(mysql), [None, None, None, Some(1), None]);
        let markdown = "Left:\n| id | n |\n|:---|--:|\n| A | 4 |\n| B | 5 |\nThat is all.";
        let expected = [None, None, None, Some(1), Some(1), None];
        assert_eq!(read(markdown), expected);
        let pip = "Package Version\n------- -------\nattrs   23.1\nidna    3.4";
        assert_eq!(read(pip), [None, None, Some(0), Some(0)]);
    }

    #[test]
    fn rows_without_a_rule_are_told_by_their_columns() {
        let csv = "id,state,total\n7,open,3.50\n8,\"sent, late\",4\nthat was it";
        assert_eq!(read(csv), [None, Some(0), Some(0), None]);
        let pods = "NAME    READY   STATUS\nweb-1   1/1     Running\nweb-2   0/1     Failed";
        assert_eq!(read(pods), [None, Some(0), Some(0)]);
        let ps = "    PID TTY          TIME CMD\n   4711 pts/0    00:00:00 bash";
        assert_eq!(read(ps), [None, Some(0)]);
        let df = "Filesystem     1K-blocks    Used Mounted on\n/dev/sda1      30000  20000 /";
        assert_eq!(read(df), [None, Some(0)]);
    }

    #[test]
    fn numbers_below_the_ends_of_names_are_rows() {
        let head =
            "   order_id customer amount\n0    100001     C012   12.5\n1    100002     C013    7.0";
        assert_eq!(read(head), [None, Some(0), Some(0)]);
        let fit = "=====\n        coef  std err      t\n--------------------\n\
            x     0.0056    0.001  6.025";
        assert_eq!(read(fit), [None, None, None, Some(1)]);
        let grouped = "          count  sum   mean\nplan\nbasic       458   71  0.155\n\
            business    245   35  0.143";
        assert_eq!(read(grouped), [None, None, Some(0), Some(0)]);
    }

    #[test]
    fn rows_are_told_apart_by_what_they_begin_with() {
        let key = |row: &str| row_key("name  total", row, "");
        assert_eq!(key("web-1  17"), key("web-1  18"));
        assert_ne!(key("New York  17"), key("New Jersey  17"));
        assert_ne!(key("1  Ann"), key("1  Bo"));
        assert_ne!(key("web-1  17"), row_key("name  age", "web-1  17", ""));
    }

    #[test]
    fn columns_are_described_by_a_type_and_words() {
        for row in [
            " net_c | bigint | not null | POSITIVE = money back",
            "ended_at        timestamptz(3)        exclusive",
            "kind | text | recurring|one_off|credit",
        ] {
            assert!(describes_column(row), "{row}");
        }
        for row in [
            " dbt_id | jsonb | not null |        ",
            " 5234381 | content | pl | 8 | duo-24-b",
            "2025-03-01 | credit | 76456",
        ] {
            assert!(!describes_column(row), "{row}");
        }
    }

    #[test]
    fn other_texts_are_no_tables() {
        for text in [
            "First, we look; then, we go.\nSecond, we sit; last, we rest.",
            "fn sum(a: u32, b: u32, c: u32) {\n    max(a, b, c)\n}",
            "1,2,3\n4,5,6",
            "Title\n=====\nSome words follow",
            "a = 1\n---\nb = 2",
            "let a1 = foo(1);\nlet b1 = foo(2);",
            "worker-1 shard-1 started\nworker-2 shard-2 started",
            "2026-01-01  10:00  start\n2026-01-01  10:01  stop",
            "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@",
        ] {
            assert!(read(text).iter().all(Option::is_none), "{text}");
        }
    }
}
