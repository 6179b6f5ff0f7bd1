//! Lists in results: of scalars on shared lines, of like objects as tables, others item by item.

use super::{
    CHANGED_LATER, Known, Lines, MOST_COMPARED, MOST_OWN, Member, NAMES_BYTES, TOLD_LATER,
};
use crate::core::Cancelled;
use crate::core::json::Json;
use crate::core::strategy::digest::json_form::{
    has_ids, inline, is_id, is_spoken_id, is_title, naming,
};
use crate::core::strategy::digest::line::Standing;
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::results::addresses::with_patterns;
use crate::core::strategy::digest::results::records::is_flat;
use crate::core::strategy::digest::results::references::fold;
use crate::core::strategy::digest::results::rows::{Rows, rows_in, rows_of, without_single_lists};
use crate::core::strategy::digest::texts::quoted::LINE_BYTES;
use crate::core::strategy::maps::Set;
use crate::core::text::Table;

/// The most items that are a table although they have little in common. Reports of failures are
/// longer than other lines of a log.
const MOST_RAGGED: usize = 24;
/// The longest name of a row before what is told below it (bytes).
const ROW_NAME_BYTES: usize = 40;
/// The key of a row that has no name, and what stands before the key of the row's name in a table
/// of what the rows have.
const ROW: &str = "row";
const OF: &str = "of_";
/// Ends a part of a list that goes on.
const MORE: &str = ", …";

impl Lines<'_> {
    pub(super) fn list(
        &mut self,
        path: &str,
        mut items: Vec<Json>,
        own: bool,
    ) -> Result<(), Cancelled> {
        if items.iter().all(Json::is_scalar) {
            self.scalars(path, &items);
            return Ok(());
        }
        if !self.is_deep()
            && let Some(rows) = rows_in(&items)
        {
            return self.list(path, rows, false);
        }
        let all = items.len();
        let is_compared = all <= MOST_COMPARED;
        let known = |item: &mut Json| self.is_known_item(path, item, is_compared);
        let is_known: Vec<Known> = items.iter_mut().map(known).collect();
        let left = is_known.iter().filter(|known| **known == Known::No).count();
        let references = fold(&mut items, self.is_deep(), self.seen);
        if left > 1 {
            without_single_lists(&mut items);
        }
        // What its head says is true of all of its rows.
        let mut rows = (left > 1).then(|| table_of(&items)).flatten();
        if let Some(rows) = &mut rows {
            rows.retain(|at| is_known.get(at) == Some(&Known::No));
        }
        let items = items.into_iter().enumerate();
        let (items, known): (Vec<_>, Vec<_>) =
            items.partition(|(at, _)| is_known.get(*at) == Some(&Known::No));
        let (newer, known): (Vec<_>, Vec<_>) = known
            .into_iter()
            .partition(|(at, _)| is_known.get(*at) == Some(&Known::Otherwise));
        let from = self.out.len();
        let mut aside = Vec::new();
        if let Some(rows) = &rows {
            self.rows(path, rows, &items);
            aside = items;
        } else {
            self.items(path, items, own && all == 1)?;
        }
        self.note_later(path, &known, TOLD_LATER);
        self.note_later(path, &newer, CHANGED_LATER);
        if let Some(rows) = rows {
            if let Some((head, short)) = rows.short {
                self.rows_in_short(path, &head, &short, from);
            }
            self.below_rows(path, &aside, &rows.apart)?;
        }
        for (keys, references) in references {
            self.list(&format!("{path}[].{keys}"), references, false)?;
        }
        Ok(())
    }

    /// Items that are no rows, each on its own.
    fn items(&mut self, path: &str, items: Vec<(usize, Json)>, own: bool) -> Result<(), Cancelled> {
        self.level += 1;
        for (at, item) in items {
            self.item(&format!("{path}[{at}]"), item, own)?;
        }
        self.level -= 1;
        Ok(())
    }

    /// The rows of a table of these items.
    fn rows(&mut self, path: &str, rows: &Rows, items: &[(usize, Json)]) {
        self.push(Part::Head, path, &rows.head);
        // A few records inside of one belong to it: what it can be paid with.
        let own = !path.is_empty()
            && items.len() <= MOST_OWN
            && items.iter().all(|(_, item)| has_ids(item));
        for row in &rows.whole {
            let mut line = DigestLine::new(Part::Row, self.depth + 1, row);
            if own {
                line.standing = Standing::Own;
            }
            self.out.push(line);
        }
    }

    /// What items have that is no column of their table: their lists of like objects side by side,
    /// all else by item, each with the name of its row.
    fn below_rows(
        &mut self,
        path: &str,
        items: &[(usize, Json)],
        apart: &[String],
    ) -> Result<(), Cancelled> {
        let named = naming_key(items);
        let (lists, others): (Vec<&String>, Vec<&String>) =
            apart.iter().partition(|keys| has_lists(items, keys));
        for keys in lists {
            let rows: Vec<Json> = items
                .iter()
                .flat_map(|(at, item)| with_row_name(row_name(*at, item, named), item, keys))
                .collect();
            self.list(&format!("{path}[].{keys}"), rows, false)?;
        }
        for (at, item) in items.iter().filter(|_| !others.is_empty()) {
            self.step()?;
            let mut row = String::new();
            inline(&row_name(*at, item, named).1, &mut row);
            let member = |keys: &&String| Some(((*keys).clone(), at_keys(item, keys)?.clone()));
            let told: Vec<Member> = others.iter().filter_map(member).collect();
            // What lists are about is told with them; texts tell it themselves.
            let has_lists = told.iter().any(|(_, value)| !value.is_scalar());
            let title = title_of(item).filter(|title| has_lists && *title != row);
            if let Some(title) = title {
                row.push_str(", ");
                row.push_str(title);
            }
            self.members(&format!("{path}[{row}]"), told, (false, false))?;
        }
        Ok(())
    }

    /// Names the items of a list that newer results show.
    fn note_later(&mut self, path: &str, known: &[(usize, Json)], how: &str) {
        if known.is_empty() {
            return;
        }
        let names: Vec<String> = known.iter().filter_map(|(_, item)| naming(item)).collect();
        let list = names.join("; ");
        let mut text = format!("… {} {how}", known.len());
        if names.len() == known.len() && list.len() <= NAMES_BYTES {
            text.push_str(&format!(": {list}"));
        }
        if self.out.last().is_some_and(|line| line.part == Part::Row) {
            let depth = self.depth + 1;
            self.out.push(DigestLine::new(Part::Row, depth, &text));
        } else {
            self.push(Part::Member, path, &text);
        }
    }

    /// The rows of the table at line `from` once more, each by what decisions are made by.
    fn rows_in_short(&mut self, path: &str, head: &str, short: &[String], from: usize) {
        let at = self.out.len();
        self.push(Part::Head, path, head);
        let rows = short.iter();
        let rows = rows.map(|row| DigestLine::new(Part::Row, self.depth + 1, row));
        self.out.extend(rows);
        for line in self.out.iter_mut().skip(at) {
            line.whole = Some(at - from);
        }
    }

    /// A list of scalars: on one line, or a long one in parts that each have the key.
    fn scalars(&mut self, path: &str, items: &[Json]) {
        let mut parts: Vec<String> = Vec::new();
        for item in items {
            let mut text = String::new();
            inline(item, &mut text);
            match parts.last_mut() {
                Some(part) if part.len() + text.len() <= LINE_BYTES => {
                    part.push_str(", ");
                    part.push_str(&text);
                }
                _ => parts.push(text),
            }
        }
        let (first, last) = (self.out.len(), parts.len().saturating_sub(1));
        for (nth, part) in parts.iter().enumerate() {
            // One part alone would look like all.
            let more = if nth < last { MORE } else { "" };
            self.push(Part::Member, path, &format!("[{part}{more}]"));
            // A list is told from its beginning.
            let above = self.out.len() - 1 - first;
            if let Some(line) = self.out.last_mut().filter(|_| above > 0) {
                line.within = Some(above);
            }
        }
    }
}

/// The rows of all items of a list.
fn table_of(items: &[Json]) -> Option<Rows> {
    let with_patterns = with_patterns(items);
    let told = with_patterns.as_deref().unwrap_or(items);
    let table = if items.len() <= MOST_RAGGED {
        Table::of_ragged(told)
    } else {
        Table::of_any(told)
    };
    table.and_then(|table| rows_of(table, items.len()))
}

/// The key of the ids that tell the items of a list from each other, where those under the first
/// such key do not: of two rooms of a house the id of the offer, and not that of the house.
fn naming_key(items: &[(usize, Json)]) -> Option<&str> {
    let tell = |key: &&str| {
        let mut told: Set<String> = Set::default();
        let values = items.iter().map(|(_, item)| item.get(key));
        values.into_iter().all(|value| {
            value.is_some_and(|value| is_word(value) && told.insert(value.to_string()))
        })
    };
    let mut usual: Set<String> = Set::default();
    let mut usual_names = items.iter().map(|(at, item)| row_name(*at, item, None));
    if usual_names.all(|(_, name)| usual.insert(name.to_string())) {
        return None;
    }
    let (_, first) = items.first()?;
    let mut keys = names_in(members_of(first)).map(|(key, _)| key.as_str());
    keys.find(tell)
}

/// What an object may be known by: its ids, what it is called.
fn names_in(members: &[Member]) -> impl Iterator<Item = &Member> {
    let kinds: [fn(&str) -> bool; 3] = [is_spoken_id, is_id, is_title];
    kinds.into_iter().flat_map(move |is_wanted| {
        let members = members.iter();
        members.filter(move |(key, value)| is_wanted(key) && is_word(value))
    })
}

fn members_of(item: &Json) -> &[Member] {
    match item {
        Json::Object(members) => members.as_slice(),
        _ => &[],
    }
}

fn is_word(value: &Json) -> bool {
    match value {
        Json::String(text) => text.len() <= ROW_NAME_BYTES && !text.contains(char::is_whitespace),
        value => matches!(value, Json::Number(_)),
    }
}

/// What the row of an item is known by, with its key: what it has under the key that names the
/// items of its list, its id, what it is called, or its place.
fn row_name(at: usize, item: &Json, named: Option<&str>) -> Member {
    let members = members_of(item);
    let by_key = members.iter().find(|(key, _)| Some(key.as_str()) == named);
    let name = by_key.or_else(|| names_in(members).next());
    let place = || (ROW.to_owned(), Json::Number(at.to_string().into()));
    name.cloned().unwrap_or_else(place)
}

/// What an item is called, in few bytes.
fn title_of(item: &Json) -> Option<&str> {
    let Json::Object(members) = item else {
        return None;
    };
    let titles = members.iter().filter(|(key, _)| is_title(key));
    let mut texts = titles.filter_map(|(_, value)| match value {
        Json::String(text) => Some(text.as_str()),
        _ => None,
    });
    texts
        .find(|text| (1..=ROW_NAME_BYTES).contains(&text.len()) && !text.contains(['[', ']', '\n']))
}

/// Whether all items have a list of flat objects at some keys, or nothing.
fn has_lists(items: &[(usize, Json)], keys: &str) -> bool {
    let is_list = |value: &Json| match value {
        Json::List(rows) => rows.iter().all(is_flat),
        value => matches!(value, Json::Null),
    };
    items
        .iter()
        .all(|(_, item)| at_keys(item, keys).is_none_or(is_list))
}

/// The objects of an item's list, each with the name of the item's row.
fn with_row_name((key, row): Member, item: &Json, keys: &str) -> Vec<Json> {
    let of_row = |inner: &Json| match inner {
        Json::Object(members) => {
            let of = (format!("{OF}{key}"), row.clone());
            let members = members.iter().cloned();
            Some(Json::Object(std::iter::once(of).chain(members).collect()))
        }
        _ => None,
    };
    match at_keys(item, keys) {
        Some(Json::List(rows)) => rows.iter().filter_map(of_row).collect(),
        _ => Vec::new(),
    }
}

/// The value to which keys with dots lead.
fn at_keys<'j>(item: &'j Json, keys: &str) -> Option<&'j Json> {
    keys.split('.').try_fold(item, |value, key| value.get(key))
}
