//! Lists that people and models write: an item within another one says little without it, as
//! `- Price: $174` without the flight that has the price.

/// The items that are open at a line of a text, outermost first.
#[derive(Default)]
pub(super) struct OpenItems {
    items: Vec<Item>,
    /// Lines before the next one.
    lines: usize,
}

/// An item that others may be within.
struct Item {
    /// Blanks before it.
    indent: usize,
    /// Whether it has a bullet: bullets below a number are within it.
    has_bullet: bool,
    line: usize,
}

impl OpenItems {
    /// Reads the next line, which has so many blanks before it: how many lines above it the item
    /// stands that it is within, if there is one.
    pub(super) fn read(&mut self, indent: usize, line: &str) -> Option<usize> {
        let at = self.lines;
        self.lines += 1;
        let bullet = is_item(line);
        let within = |item: &Item| match bullet {
            Some(has_bullet) => (item.indent, item.has_bullet) < (indent, has_bullet),
            None => item.indent < indent,
        };
        let open = self
            .items
            .iter()
            .rposition(within)
            .map_or(0, |last| last + 1);
        self.items.truncate(open);
        let above = self.items.last().map(|item| at - item.line);
        if let Some(has_bullet) = bullet {
            self.items.push(Item {
                indent,
                has_bullet,
                line: at,
            });
        }
        above
    }

    /// Passes a sentence that follows another on its line.
    pub(super) fn pass(&mut self) {
        self.lines += 1;
    }
}

/// Whether a line is an item of a list, and if so, whether it has a bullet rather than a number.
fn is_item(line: &str) -> Option<bool> {
    let line = line.strip_prefix("… ").unwrap_or(line);
    if ["- ", "* ", "• ", "+ "]
        .iter()
        .any(|mark| line.starts_with(mark))
    {
        return Some(true);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let behind = line.get(digits..)?;
    let is_numbered =
        (1..=3).contains(&digits) && (behind.starts_with(". ") || behind.starts_with(") "));
    is_numbered.then_some(false)
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
    fn an_item_is_within_the_one_above_it() {
        let text = "Two are left:\n1. HAT1\n   - at 7\n   - $9\n     per seat\n2. HAT2\n- at 8\n\
            Which one?";
        let within = [None, None, Some(1), Some(2), Some(1), None, Some(1), None];
        assert_eq!(read(text), within);
        assert_eq!(
            read("- a\n  - b\n    - c\n  - d\n- e"),
            [None, Some(1), Some(1), Some(3), None]
        );
    }
}
