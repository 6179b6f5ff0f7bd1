//! Lists that people and models write: an item within another one says little without it, as
//! `- Price: $174` without the flight that has the price; and one below a head may say the
//! contrary without it, as below `Do not order:`.

use crate::core::text::{shape, words_of};

/// The most words of a line that only leads to what is below it.
const MOST_LEADING: usize = 9;
/// The least score of the form of a name such as `lib/menu.ts`.
const NAME: f32 = 2.5;

/// The items and heads that are open at a line of a text, outermost first.
#[derive(Default)]
pub(super) struct OpenItems {
    items: Vec<Item>,
    /// Lines before the next one.
    lines: usize,
    /// Blanks before the last line.
    indent: usize,
    /// The line with the names of the columns of the table that is open.
    table: Option<usize>,
    /// The item that the last line began with.
    item: Option<usize>,
}

/// What a line of a list is. Of lines with the same blanks before them, those of a higher rank are
/// within those of a lower one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// `## Costs`: up to the next one.
    Heading,
    /// `Costs:`, or a line in bold letters.
    Label,
    /// `1. Costs`
    Number,
    /// `- Costs`
    Bullet,
}

/// An item or a head that others may be within.
struct Item {
    /// Blanks before it.
    indent: usize,
    rank: Rank,
    line: usize,
}

impl OpenItems {
    /// Reads the next line, which has so many blanks before it: how many lines above it the item
    /// or the head stands that it is within, if there is one.
    pub(super) fn read(&mut self, indent: usize, line: &str) -> Option<usize> {
        let at = self.lines;
        self.lines += 1;
        self.indent = indent;
        self.item = None;
        if !is_table_row(line) {
            self.table = None;
        } else if let Some(names) = self.table {
            return Some(at - names);
        } else {
            self.table = Some(at);
        }
        let rank = rank_of(line);
        self.item = rank.filter(|rank| *rank > Rank::Label).map(|_| at);
        let stays = |item: &Item| match rank {
            Some(Rank::Heading) => false,
            _ if item.rank == Rank::Heading => true,
            Some(rank) => (item.indent, item.rank) < (indent, rank),
            None => item.indent < indent,
        };
        let open = self
            .items
            .iter()
            .rposition(stays)
            .map_or(0, |last| last + 1);
        self.items.truncate(open);
        // A paragraph says something without the head above it.
        let needs = |above: &&Item| rank.is_some() || above.rank > Rank::Label;
        let above = self.items.last().filter(needs);
        let above = above.map(|item| at - item.line);
        self.open(rank, at);
        above
    }

    /// Reads a sentence that follows another on its line: how many lines above it the item stands
    /// that the line began with. The last one may be the head of a list.
    pub(super) fn read_next(&mut self, sentence: &str) -> Option<usize> {
        let at = self.lines;
        self.lines += 1;
        if is_label(sentence) {
            self.open_label(at);
        }
        self.item.map(|item| at - item)
    }

    fn open_label(&mut self, at: usize) {
        let indent = self.indent;
        let is_item = |item: &Item| item.rank > Rank::Label && item.indent >= indent;
        // What is below an item that ends with a colon is within the item anyway.
        if self.items.last().is_some_and(is_item) {
            return;
        }
        self.items
            .pop_if(|item| item.rank == Rank::Label && item.indent >= indent);
        self.open(Some(Rank::Label), at);
    }

    fn open(&mut self, rank: Option<Rank>, line: usize) {
        let indent = self.indent;
        self.items
            .extend(rank.map(|rank| Item { indent, rank, line }));
    }
}

/// What an item with a box for a tick says, as in `- [x] 2. Call him`.
pub(super) fn to_do_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let boxed = line.strip_prefix(['-', '*', '+']).unwrap_or(line);
    let boxed = boxed.trim_start();
    let boxes = ["[ ]", "[x]", "[X]", "[-]", "[~]"];
    let item = boxes.iter().find_map(|tick| boxed.strip_prefix(tick))?;
    item.starts_with(' ').then(|| item.trim())
}

/// The number of an item of a numbered list.
pub(super) fn number_of(line: &str) -> Option<u32> {
    let line = without_gap(line);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, behind) = line.split_at_checked(digits)?;
    let is_numbered =
        (1..=3).contains(&digits) && (behind.starts_with(". ") || behind.starts_with(") "));
    number.parse().ok().filter(|_| is_numbered)
}

/// Whether a line is the item of a list that has this number or letter, in small letters, or has it
/// in brackets as one of several.
pub(super) fn is_item(line: &str, mark: &str) -> bool {
    let lower = line.to_lowercase();
    let marked = without_gap(&lower).trim_start_matches(['-', '*', '•', ' ', '(']);
    let behind = marked.strip_prefix(mark);
    let ends = [
        ". ", ") ", "** ", ".** ", ")** ", ":** ", "**: ", ": ", " – ", " — ",
    ];
    let begins = behind.is_some_and(|behind| ends.iter().any(|end| behind.starts_with(end)));
    begins || lower.contains(&format!("({mark})"))
}

/// Whether a line is the head of what is below it, and says nothing without that.
pub(super) fn is_label(line: &str) -> bool {
    matches!(rank_of(line), Some(Rank::Heading | Rank::Label))
}

/// Whether a line is the row of a table in Markdown. The first one has the names of the columns.
pub(super) fn is_table_row(line: &str) -> bool {
    let line = without_gap(line);
    line.len() > 1 && line.starts_with('|') && line.ends_with('|')
}

/// Whether a line is the one between the names of the columns of such a table and its rows.
pub(super) fn is_rule_of_table(line: &str) -> bool {
    line.starts_with('|') && line.contains('-') && line.bytes().all(|b| b"|-: ".contains(&b))
}

/// Whether a line is the head of what is below it, or an item that is, such as `- **Return**:`, or
/// may have the names of a table's columns.
pub(super) fn announces(line: &str) -> bool {
    is_label(line)
        || is_table_row(line)
        || line
            .trim_end()
            .trim_end_matches(['*', '_'])
            .ends_with([':', '：'])
}

/// Whether a line says nothing but what comes below it: a heading, or a few words with a colon. A
/// sentence with a name says what was done there: `I've ported lib/menu.ts to the new theme:`.
pub(super) fn leads_in(line: &str) -> bool {
    let is_sentence = line.starts_with(char::is_alphabetic);
    is_label(line)
        && line.split_whitespace().nth(MOST_LEADING).is_none()
        && !(is_sentence && words_of(line).any(|word| shape(word) >= NAME))
}

/// Whether a line is the heading of a part, as in Markdown.
pub(super) fn is_heading(line: &str) -> bool {
    rank_of(line) == Some(Rank::Heading)
}

/// Whether a line is an item of a list, or the head of one.
pub(super) fn is_listed(line: &str) -> bool {
    rank_of(line).is_some()
}

/// Whether a line is an item with a mark that does not tell its place.
pub(super) fn is_bullet(line: &str) -> bool {
    rank_of(line) == Some(Rank::Bullet)
}

/// Whether a line is an item, rather than the head of a list.
pub(super) fn is_numbered_or_bullet(line: &str) -> bool {
    rank_of(line) >= Some(Rank::Number)
}

/// Whether a line is an item with a letter or a Roman number: `a) x`, `(b) x`, `C. x`, `ii. x`. A
/// name may begin with a small letter and a full stop.
fn is_lettered(line: &str) -> bool {
    let marked = line.strip_prefix('(').unwrap_or(line);
    let Some((mark, behind)) = marked.split_once([')', '.']) else {
        return false;
    };
    let ends_with_stop = marked.as_bytes().get(mark.len()) == Some(&b'.');
    let is_letter = |byte: u8| !ends_with_stop || byte.is_ascii_uppercase();
    let is_mark = match mark.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => is_letter(*letter) || is_roman(mark),
        _ => is_roman(mark) || is_letter_abroad(mark),
    };
    is_mark && behind.starts_with(' ')
}

/// Whether a mark is one of the first letters of another alphabet.
pub(super) fn is_letter_abroad(mark: &str) -> bool {
    const LETTERS: &str = "أابجدهабвгдАБВГДαβγδΑΒΓΔ가나다라마アイウエオאבגד";
    let mut letters = mark.chars();
    let letter = letters.next().filter(|letter| !letter.is_ascii());
    letters.next().is_none() && letter.is_some_and(|letter| LETTERS.contains(letter))
}

/// Whether a mark is one of the first numbers, in small Roman letters.
pub(super) fn is_roman(mark: &str) -> bool {
    ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"].contains(&mark)
}

fn rank_of(line: &str) -> Option<Rank> {
    let line = without_gap(line).trim_start_matches("> ");
    if ["- ", "* ", "• ", "+ "]
        .iter()
        .any(|mark| line.starts_with(mark))
    {
        return Some(Rank::Bullet);
    }
    if number_of(line).is_some() || is_lettered(line) {
        return Some(Rank::Number);
    }
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return Some(Rank::Heading);
    }
    let plain = line.trim_end_matches(['*', '_']);
    let is_bold = line.len() > 4 && line.starts_with("**") && line.ends_with("**");
    (is_bold || plain.ends_with([':', '：'])).then_some(Rank::Label)
}

/// A line without the mark of a gap before it.
fn without_gap(line: &str) -> &str {
    line.strip_prefix("… ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Option<usize>> {
        let mut open = OpenItems::default();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let lines = text.lines();
        lines
            .map(|line| open.read(indent(line), line.trim_start()))
            .collect()
    }

    #[test]
    fn an_item_is_known_by_its_number_or_letter() {
        for (line, mark) in [
            ("2. HAT2", "2"),
            ("B) in cash", "b"),
            ("Now (a) x, (b) y", "b"),
        ] {
            assert!(is_item(line, mark), "{line}");
        }
        for (line, mark) in [("12. HAT2", "2"), ("2.5 kg", "2"), ("by card", "b")] {
            assert!(!is_item(line, mark), "{line}");
        }
    }

    #[test]
    fn items_have_letters_and_roman_numbers_too() {
        for item in [
            "a) x", "(b) x", "C. x", "ii. x", "iv) x", "i. x", "ب) x", "б) x",
        ] {
            assert!(is_numbered_or_bullet(item), "{item}");
        }
        for other in ["a. x", "Mr. X", "mix. x", "C.x", "I said x", ") x", "é) x"] {
            assert!(!is_numbered_or_bullet(other), "{other}");
        }
    }

    #[test]
    fn a_row_of_a_table_is_within_the_names_of_its_columns() {
        let text = "Both:\n| a | b |\n| 1 | 2 |\n| 3 | 4 |\nThen:\n| c |\n| 5 |";
        let within = [None, None, Some(1), Some(2), None, None, Some(1)];
        assert_eq!(read(text), within);
        for rule in ["|---|:--:|", "| --- | --- |"] {
            assert!(is_rule_of_table(rule), "{rule}");
        }
        for other in ["| 1 | - |", "||", "---"] {
            assert!(!is_rule_of_table(other), "{other}");
        }
    }

    #[test]
    fn items_with_a_box_are_to_do() {
        for item in [
            "- [ ] 2. Call",
            "* [x] 2. Call",
            "  + [X]  2. Call",
            "[-] 2. Call",
        ] {
            assert_eq!(to_do_of(item), Some("2. Call"), "{item}");
        }
        for other in ["- [a](b) 2. Call", "[1] Call", "- Call", "- [ ]"] {
            assert_eq!(to_do_of(other), None, "{other}");
        }
    }

    #[test]
    fn an_item_is_within_the_one_above_it() {
        let text = "Two are left:\n1. HAT1\n   - at 7\n   - $9\n     per seat\n2. HAT2\n- at 8\n\
            Which one?";
        let within = [
            None,
            Some(1),
            Some(1),
            Some(2),
            Some(1),
            Some(5),
            Some(1),
            None,
        ];
        assert_eq!(read(text), within);
        assert_eq!(
            read("- a\n  - b\n    - c\n  - d\n- e"),
            [None, Some(1), Some(1), Some(3), None]
        );
    }

    #[test]
    fn an_item_is_within_the_head_above_it() {
        let text = "Keep:\n- parquet\n\nDo not order:\n- tiles\n  - grout\nWe sat outside.\n- oven";
        let within = [None, Some(1), None, None, Some(1), Some(1), None, None];
        assert_eq!(read(text), within);
        let text = "## Risks\nThere are two.\n1. rain\n**Gains**\n- sun\n## Next\n- go";
        let within = [None, None, Some(2), Some(3), Some(1), None, Some(1)];
        assert_eq!(read(text), within);
    }

    #[test]
    fn the_last_sentence_of_a_paragraph_may_be_a_head() {
        let mut open = OpenItems::default();
        assert_eq!(open.read(0, "I looked."), None);
        open.read_next("Two are left:");
        assert_eq!(open.read(0, "- HAT1"), Some(1));
        assert_eq!(open.read(0, "- HAT2"), Some(2));
    }

    #[test]
    fn a_sentence_is_within_the_item_that_its_line_began_with() {
        let mut open = OpenItems::default();
        assert_eq!(open.read(0, "- La Rance: 860 ha."), None);
        assert_eq!(open.read_next("A thesis has 950."), Some(1));
        assert_eq!(open.read_next("They disagree."), Some(2));
        assert_eq!(open.read(0, "That is all."), None);
        assert_eq!(open.read_next("Go on?"), None);
    }
}
