//! Texts whose lines say little without a line above them: a key of YAML, or of blocks as those of
//! Terraform, without those that it is within, and the item of an article's list without its
//! heading.

use crate::core::strategy::digest::line::{DigestLine, leading_number};
use crate::core::strategy::digest::lists::{OpenItems, announces, is_heading, is_listed};
use crate::core::text::is_prose;

/// The least lines of an outline.
const LEAST_LINES: usize = 4;
/// The most that an outline has of lines that are neither keys nor items: so many of so many.
const OTHERS: (usize, usize) = (2, 5);
/// The part of what is below the headings of an article that sentences and items make.
const ARTICLE: f32 = 0.5;
/// The least lines of an article for each heading: comments of scripts look like headings.
const LEAST_BELOW: usize = 2;
/// The most keys within each other that a line brings.
const MOST_OPEN: usize = 5;
/// What each element of a browser's page has: its lines are no keys.
const HANDLE: &str = "[ref=";
/// The longest key (bytes), and its most words.
const KEY_BYTES: usize = 48;
const KEY_WORDS: usize = 4;

/// Notes of each line the one that it is within, in a text where that is told by indentation or by
/// headings. Rows of tables stay with the names of their columns.
pub(in super::super) fn note_outline(lines: &mut [DigestLine]) {
    if lines.len() < LEAST_LINES {
        return;
    }
    let form = Form::of(lines);
    if is_outline(lines, form) {
        note_keys(lines, form);
    } else if is_article(lines) {
        note_items(lines);
    }
}

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `key: value`
    Colons,
    /// `key = value` in `kind "name" {`, with `}` at its end.
    Blocks,
}

impl Form {
    fn of(lines: &[DigestLine]) -> Self {
        let opens = |line: &DigestLine| {
            let begins = |line: &str| line.trim_start().starts_with(char::is_alphabetic);
            line.text.trim_end().ends_with("\" {") && begins(without_number(&line.text))
        };
        if lines.iter().any(opens) {
            Form::Blocks
        } else {
            Form::Colons
        }
    }
}

/// A line by its place.
struct Place<'t> {
    /// Blanks before it, and before its mark.
    indent: usize,
    /// What stands behind the mark.
    text: &'t str,
    /// It has the mark of an item.
    is_item: bool,
}

impl<'t> Place<'t> {
    fn of(line: &'t str) -> Self {
        let line = without_number(line);
        let text = line.trim_start();
        let blanks = line.len() - text.len();
        let inner = text.strip_prefix("- ").map(str::trim_start);
        Place {
            indent: blanks,
            text: inner.unwrap_or(text),
            is_item: inner.is_some_and(|inner| !inner.contains(HANDLE)),
        }
    }

    /// Whether it is a key with its value, or that of what is below it.
    fn is_keyed(&self, form: Form) -> bool {
        let mark = match form {
            Form::Colons => ':',
            Form::Blocks if self.text.ends_with(" {") && !self.text.contains('=') => '{',
            Form::Blocks => '=',
        };
        let Some((key, behind)) = self.text.split_once(mark) else {
            return false;
        };
        let key = key.trim_end();
        let of_key = |c: char| c.is_alphanumeric() || " _-./\"'$@%".contains(c);
        (behind.is_empty() || behind.starts_with([' ', '\t']))
            && (1..=KEY_BYTES).contains(&key.len())
            && key.chars().all(of_key)
            && key.contains(char::is_alphabetic)
            && key.split_whitespace().count() <= KEY_WORDS
    }
}

/// A line without the number that a listing gave it.
fn without_number(line: &str) -> &str {
    let (number, behind) = leading_number(line);
    let marked = behind
        .strip_prefix('\t')
        .or_else(|| behind.strip_prefix('→'));
    marked.filter(|_| !number.is_empty()).unwrap_or(line)
}

/// Whether most lines are keys and items, and some are within others.
fn is_outline(lines: &[DigestLine], form: Form) -> bool {
    let others = || lines.iter().filter(|line| !line.is_printed_row);
    let (part, whole) = OTHERS;
    let mut may_miss = others().count() * part / whole;
    let mut is_deep = false;
    for line in others() {
        let place = Place::of(&line.text);
        let is_key = place.is_keyed(form);
        if !is_key && !place.is_item && place.text != "}" {
            // Most texts are code, and are soon known as such.
            let Some(left) = may_miss.checked_sub(1) else {
                return false;
            };
            may_miss = left;
        }
        is_deep |= is_key && place.indent > 0;
    }
    is_deep
}

/// Whether a text is an article with headings.
fn is_article(lines: &[DigestLine]) -> bool {
    let may_head = |line: &DigestLine| line.text.trim_start().starts_with('#');
    if !lines.iter().any(may_head) {
        return false;
    }
    let (mut headings, mut said) = (0, 0);
    for line in lines {
        let text = line.text.trim_start();
        let heads = is_heading(text);
        headings += usize::from(heads);
        said += usize::from(!heads && (is_listed(text) || is_prose(text)));
    }
    let below = lines.len() - headings;
    below >= headings * LEAST_BELOW && said as f32 >= ARTICLE * below as f32
}

/// By indentation. A mark of an item may stand below its key without more blanks.
fn note_keys(lines: &mut [DigestLine], form: Form) {
    // Twice the blanks of each open key, one more for an item: `- a:` is within a key with as many
    // blanks.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter_mut().enumerate() {
        let place = Place::of(&line.text);
        let rank = 2 * place.indent + usize::from(place.is_item);
        let opens = place.is_item || place.is_keyed(form);
        if opens {
            while open.pop_if(|(above, _)| *above >= rank).is_some() {}
        }
        // A comment, or a piece of a long line, may stand further to the left: it ends no key.
        let above = open.iter().rfind(|(above, _)| *above < rank);
        line.within = line.within.or(above.map(|(_, above)| at - above));
        if opens && open.len() < MOST_OPEN {
            open.push((rank, at));
        }
    }
}

/// By headings, and heads of lists.
fn note_items(lines: &mut [DigestLine]) {
    let mut items = OpenItems::default();
    for line in lines {
        let text = line.text.trim_start();
        let within = items.read(line.text.len() - text.len(), text);
        line.within = line.within.or(within);
    }
}

/// Whether a line is the head of the one below it, without which it says nothing.
pub(in super::super) fn heads(line: &DigestLine, below: Option<&DigestLine>) -> bool {
    let is_within = below.is_some_and(|below| below.within == Some(1) && !below.is_printed_row);
    is_within && announces(&line.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Cancel;
    use crate::core::strategy::digest::line::Part;
    use crate::core::strategy::digest::texts::quoted::{Quote, quoted_lines};

    fn outline(text: &str) -> Vec<Option<usize>> {
        let lines = text
            .lines()
            .map(|line| DigestLine::new(Part::Text, 1, line));
        let mut lines: Vec<DigestLine> = lines.collect();
        note_outline(&mut lines);
        lines.iter().map(|line| line.within).collect()
    }

    #[test]
    fn a_key_of_a_block_is_within_it() {
        let text = "# sizes\nvariable \"a\" {\n  type    = string\n  default = \"m5\"\n}\n\
            variable \"b\" {\n  default = 4\n  validation {\n    condition = true\n  }\n}";
        let within = [
            None,
            None,
            Some(1),
            Some(2),
            None,
            None,
            Some(1),
            Some(2),
            Some(1),
            Some(4),
            None,
        ];
        assert_eq!(outline(text), within);
        let code = "fn f() {\n  let a = 1;\n  b = 2;\n  c = 3;\n}";
        assert_eq!(outline(code), [None; 5]);
    }

    #[test]
    fn a_key_is_within_the_keys_above_it() {
        let pod = "Name:  api-1\nLabels:  app=api\n         tier=web\nContainers:\n  api:\n    \
            Limits:\n      cpu:  1\n    Requests:\n      cpu:  500m\nQoS:  Burstable";
        let within = [
            None,
            None,
            Some(1),
            None,
            Some(1),
            Some(1),
            Some(1),
            Some(3),
            Some(1),
            None,
        ];
        assert_eq!(outline(pod), within);
        // Items may stand below their key without more blanks; a listing may number the lines.
        let yaml = "1\tenv:\n2\t- name: A\n3\t  value: x\n4\t- name: B\n5\t  value: y\n6\tport: 80";
        assert_eq!(
            outline(yaml),
            [None, Some(1), Some(1), Some(3), Some(1), None]
        );
    }

    #[test]
    fn a_long_value_and_a_comment_end_no_key() {
        let long = "x".repeat(600);
        let yaml = format!("spec:\n  image: a\n  args: {long}\n# here\n  port: 80\n  name: b\n");
        let quote = Quote {
            part: Part::Text,
            depth: 1,
            first: None,
        };
        let mut lines = Vec::new();
        quoted_lines(&yaml, quote, &Cancel::default(), &mut lines).unwrap();
        for key in ["  port: 80", "  name: b"] {
            let at = lines.iter().position(|line| line.text == key).unwrap();
            assert_eq!(lines[at].within, Some(at), "{key}");
        }
    }

    #[test]
    fn a_line_brings_few_of_many_keys() {
        let deep: String = (0..40)
            .map(|n| format!("{}k{n}:\n", " ".repeat(n)))
            .collect();
        let within = outline(&deep);
        let depth =
            |at: usize| std::iter::successors(Some(at), |at| Some(at - within[*at]?)).count();
        assert_eq!((depth(3), depth(39)), (4, MOST_OPEN + 1));
    }

    #[test]
    fn code_hits_and_pages_are_no_outlines() {
        for text in [
            "def f(x):\n    if x:\n        return 1\n    else:\n        return g(x)\n",
            "12:   a: int\n13:   b: int\n19:   c: int\n25:   d: int\n",
            "- main [ref=e1]:\n  - link \"A\" [ref=e2]:\n    - /url: /a\n  - text: b [ref=e3]\n",
            "# Builds it.\nset -e\n# Then it runs.\nmake\n./run\n- x\n",
        ] {
            assert!(outline(text).iter().all(Option::is_none), "{text}");
        }
    }

    #[test]
    fn an_item_of_an_article_is_within_its_heading() {
        let article = "# Returns\nWithin thirty days all articles may be sent back by the buyer.\n\
            - unworn\n## Not returned\n- gift cards\n- hemp";
        let within = [None, None, Some(2), None, Some(1), Some(2)];
        assert_eq!(outline(article), within);
    }
}
