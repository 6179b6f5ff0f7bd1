//! Tables in short: of each row what names it, and what tells it from others of its kind.

use std::collections::HashSet;

use foldhash::fast::FixedState;

use super::Table;
use crate::core::json::Json;

/// Distinct values up to which a column tells kinds of rows apart, in so many rows for each.
const MOST_KINDS: usize = 6;
const ROWS_PER_KIND: usize = 3;
/// The longest cell of such a column (bytes).
const KIND_BYTES: usize = 24;
/// The same of one with the names of rows, where its key says so.
const NAME_BYTES: usize = 48;

/// Fewer rows than so many have the same label, on average: several payments go to one shop.
const ROWS_OF_LABEL: usize = 4;
/// The mean length of the labels of rows (bytes).
const LABEL_BYTES: usize = 40;

impl<'j> Table<'j> {
    /// The same table with the columns that decisions are made by: one that names each row, if
    /// possible by a key that `is_id` or `is_title`, the words and, `with_amount`, the amount that
    /// people know it by, and those that tell kinds of rows apart. `None` where there are no such
    /// columns.
    #[must_use]
    pub fn in_short(
        &self,
        is_id: impl Fn(&str) -> bool,
        is_title: impl Fn(&str) -> bool,
        with_amount: bool,
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
        let mut amounts = columns.clone().filter(|at| self.is_of_amounts(*at));
        let amount = amounts.next().filter(|_| with_amount);
        let is_named = |at: &usize| *at == naming || Some(*at) == label || Some(*at) == amount;
        let is_kind = |at: &usize| !is_named(at) && self.tells_kinds(*at);
        let kinds: Vec<usize> = columns.filter(is_kind).collect();
        if kinds.is_empty() && (label.is_none() || amount.is_none()) {
            return None;
        }
        let named = std::iter::once(naming).chain(label).chain(amount);
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
                && distinct.len() * ROWS_OF_LABEL > cells.len()
                && bytes <= LABEL_BYTES * cells.len();
            let is_better = best.is_none_or(|(most, _)| distinct.len() > most);
            if is_label && is_better && !name.is_empty() {
                best = Some((distinct.len(), at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Whether a column has amounts: numbers of at most two decimals, most of which differ.
    fn is_of_amounts(&self, column: usize) -> bool {
        let cells = self.cells(column);
        let mut distinct: HashSet<&str, FixedState> = HashSet::default();
        let mut fractions = 0;
        for cell in &cells {
            let Some(Json::Number(number)) = cell else {
                return false;
            };
            let decimals = number.split_once('.').map_or(0, |(_, part)| part.len());
            if decimals > 2 {
                return false;
            }
            fractions += usize::from(decimals > 0);
            distinct.insert(number);
        }
        fractions * 2 > cells.len() && distinct.len() * 2 > cells.len()
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
}

/// Whether a text has a word rather than codes and numbers alone.
fn is_of_words(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    let has_blank = text.contains(' ');
    let is_word = |word: &str| has_blank || word.chars().any(char::is_lowercase);
    words.any(|word| word.chars().count() > 3 && is_word(word))
        || text
            .chars()
            .any(|c| c.is_alphabetic() && !c.is_uppercase() && !c.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_short_a_table_has_the_columns_that_name_rows_and_tell_their_kinds() {
        let in_short = |row: fn(usize) -> String| {
            let rows: Vec<String> = (0..9).map(row).collect();
            let Some(Json::List(items)) = Json::parse(&format!("[{}]", rows.join(","))) else {
                panic!("no list");
            };
            let table = Table::of(&items).unwrap();
            let short = table.in_short(|key| key == "id", |key| key == "name", true)?;
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
        // People name a payment by its shop, which others went to as well, and its amount.
        let payment = |n: usize| {
            let shop = ["ZARA ESPAÑA", "FARMACIA GOYA", "RENFE VIAJEROS"][n % 3];
            let arn = 736_700 + n;
            format!(r#"{{"id":"OP-{n}","shop":"{shop}","arn":"{arn}","at":"2{n}","eur":{n}.5}}"#)
        };
        assert_eq!(
            in_short(payment).unwrap(),
            "{id,shop,eur}: OP-1,FARMACIA GOYA,1.5"
        );
    }
}
