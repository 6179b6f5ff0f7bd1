//! Lists of which a result has only a page: without what says that there are more, it would look
//! like the whole.

use crate::core::strategy::digest::line::{DigestLine, Heading, Part};

/// Keys that tell how many there are, and those that tell that there are more: small letters,
/// without `_`.
const TOTALS: [&str; 6] = [
    "count",
    "total",
    "totalcount",
    "totalitems",
    "totalresults",
    "totalsize",
];
const MORE: [&str; 2] = ["hasmore", "truncated"];
const NEXT: [&str; 4] = ["nextcursor", "nextpage", "nextpagetoken", "nextoffset"];
/// Values that say that there is no next page.
const NONE: [&str; 4] = ["null", "false", "\"\"", "none"];
/// No key and no value of such a member is longer (bytes), nor are there more members on a line.
const LONGEST: usize = 24;
const MOST_MEMBERS: usize = 16;

/// Notes for the heads of tables the line beside them without which they look like all that there
/// is.
pub(in super::super) fn note_pages(lines: &mut [DigestLine]) {
    let mut page: Option<(usize, u8, More)> = None;
    for (at, line) in lines.iter_mut().enumerate() {
        match line.part {
            Part::Record | Part::Member => {
                let more = More::of(&line.text);
                page = more.map(|more| (at, line.depth, more)).or(page);
            }
            Part::Head => {
                let rows = Heading::of(&line.text).map_or(0, |heading| heading.rows);
                let beside =
                    page.filter(|(_, depth, more)| *depth == line.depth && more.than(rows));
                line.within = line.within.or(beside.map(|(above, _, _)| at - above));
            }
            Part::Call => page = None,
            _ => {}
        }
    }
}

/// How many there are, or that there are more.
#[derive(Clone, Copy)]
enum More {
    Total(usize),
    Some,
}

impl More {
    /// What the members of a line tell of that.
    fn of(line: &str) -> Option<Self> {
        let members = line.split(", ").take(MOST_MEMBERS);
        let members = members.filter_map(|member| member.split_once(": "));
        members
            .filter_map(|(key, value)| Self::of_member(key, value))
            .last()
    }

    fn of_member(key: &str, value: &str) -> Option<Self> {
        if key.len() > LONGEST || value.len() > LONGEST {
            return None;
        }
        let key = key.rsplit('.').next()?.replace('_', "").to_lowercase();
        let is = |keys: &[&str]| keys.contains(&key.as_str());
        if is(&TOTALS) {
            return value.parse().ok().map(More::Total);
        }
        let is_more = (is(&MORE) && value == "true") || (is(&NEXT) && !NONE.contains(&value));
        is_more.then_some(More::Some)
    }

    fn than(self, rows: usize) -> bool {
        match self {
            More::Total(total) => total > rows,
            More::Some => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_needs_what_says_that_there_are_more() {
        let within = |members: &str| {
            let mut lines = [
                DigestLine::new(Part::Call, 0, "list()"),
                DigestLine::new(Part::Member, 1, members),
                DigestLine::new(Part::Head, 1, "invoices: [4]{id,amount}:"),
            ];
            note_pages(&mut lines);
            lines[2].within
        };
        for page in [
            "total_count: 34",
            "page: 1, has_more: true",
            "nextPageToken: x1",
        ] {
            assert_eq!(within(page), Some(1), "{page}");
        }
        for whole in [
            "total_count: 4",
            "has_more: false",
            "next_cursor: null",
            "status: open",
        ] {
            assert_eq!(within(whole), None, "{whole}");
        }
    }
}
