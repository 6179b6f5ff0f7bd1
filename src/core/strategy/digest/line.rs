//! A line of the full digest, and the heads of tables among them.

use std::collections::HashMap;

use crate::core::text::{pieces, without_noise};

/// The longest line, roughly (bytes): longer ones are cut into pieces that stay or go on their own.
pub(super) const LINE_BYTES: usize = 240;
/// A line of the full digest.
#[derive(Debug)]
pub(super) struct DigestLine {
    /// The line, with the blanks that mark its place.
    pub text: String,
    /// Prose, code, output: its names have a meaning without the line.
    pub plain: bool,
    /// Belongs to a call's arguments.
    pub argument: bool,
}

impl DigestLine {
    /// The lines of an earlier digest.
    pub(super) fn read_back(body: &str) -> Vec<Self> {
        let mut above: HashMap<&str, &str> = HashMap::new();
        let line = |line| {
            let text = match Heading::of(line) {
                Some(heading) if heading.columns == AGAIN => [
                    heading.counted,
                    above.get(heading.name).copied().unwrap_or(AGAIN),
                ]
                .concat(),
                heading => {
                    above.extend(heading.map(|heading| (heading.name, heading.columns)));
                    line.to_owned()
                }
            };
            DigestLine {
                text,
                plain: false,
                argument: false,
            }
        };
        body.lines().map(line).collect()
    }

    /// Appends a line.
    pub(super) fn push(out: &mut Vec<DigestLine>, text: String, plain: bool, argument: bool) {
        let text = if text.contains(['\n', '\r']) {
            text.replace(['\n', '\r'], " ")
        } else {
            text
        };
        out.push(DigestLine {
            text,
            plain,
            argument,
        });
    }
}

/// Columns that equal those of the last table of the same name.
const AGAIN: &str = "{}:";

/// The head of a table: ` items: [2]{sku,count}:`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading<'t> {
    /// The line up to the columns.
    counted: &'t str,
    /// The name of the list.
    pub name: &'t str,
    /// The columns.
    pub columns: &'t str,
}

impl<'t> Heading<'t> {
    /// The head in a line, if it is one.
    pub(super) fn of(line: &'t str) -> Option<Self> {
        let (name, rest) = line.strip_suffix("}:")?.split_once('[')?;
        let (count, _) = rest.split_once("]{")?;
        let (counted, columns) = line.split_at_checked(name.len() + count.len() + 2)?;
        (line.starts_with(' ') && !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()))
            .then_some(Heading {
                counted,
                name,
                columns,
            })
    }

    /// The names of the cells of a row, without the columns in which all rows are equal.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'t str> {
        // A name before an opening bracket is that of a group.
        let leaf = |part: &&str| !part.is_empty() && !part.contains('=');
        self.columns
            .trim_end_matches(':')
            .split([',', '}'])
            .filter_map(|part| part.rsplit('{').next())
            .filter(leaf)
    }

    /// The line when the last table of this name had the same columns.
    pub(super) fn again(&self) -> String {
        [self.counted, AGAIN].concat()
    }
}

/// Whether a line is blank but for the number that a listing gave it.
fn is_only_numbered(line: &str) -> bool {
    let number = line.trim();
    line.starts_with([' ', '\t'])
        && number
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b':' || b == b'-' || b == b'|')
}

/// The lines of a text, without terminal noise, long ones in pieces.
pub(super) fn for_each_line(text: &str, line: &mut impl FnMut(&str)) {
    let numbered = text.lines().nth(1).is_some();
    for long in without_noise(text)
        .lines()
        .filter(|line| !(line.trim().is_empty() || (numbered && is_only_numbered(line))))
    {
        for piece in pieces(long, LINE_BYTES) {
            let piece = piece.trim_end();
            if !piece.trim_start().is_empty() {
                line(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_columns_is_read_back_with_those_above_and_a_list_of_texts_is_no_table() {
        let body = "→ stock()\n [2]{sku,count}:\n  A-1,3\n→ stock()\n [1]{}:\n  B-9,1\n\
            → notes()\n [0]:\n  a long text\n → [3]:";
        let lines: Vec<String> = DigestLine::read_back(body)
            .into_iter()
            .map(|line| line.text)
            .collect();
        assert_eq!(lines.join("\n"), body.replace("[1]{}:", "[1]{sku,count}:"));
        let cells: Vec<&str> = Heading::of(" f: [2]{id,name{first,last},kind=guest}:")
            .unwrap()
            .cells()
            .collect();
        assert_eq!(cells, ["id", "first", "last"]);
    }
}
