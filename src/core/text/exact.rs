//! Text in fewer tokens from which a reader can restore every line.
//!
//! Line numbers and exact lines matter: an edit quotes the lines that it replaces, a diff has
//! context lines of a single blank, and a Makefile lives by its tabs. So no line goes, and no blank
//! of one that is not a terminal's.

use std::borrow::Cow;

use super::lines::{LEAST_REPEATS, runs, split_lines};
use super::noise::{may_have_noise, settled, without_escapes};

/// Share of the lines with words, in percent, from which on a text counts as code.
const CODE_PERCENT: usize = 30;
/// Beginnings of lines that only stand in code, diffs and markup.
const CODE_STARTS: [&str; 22] = [
    "//",
    "/*",
    "#include",
    "#!",
    "# ",
    "- ",
    "* ",
    "| ",
    "<",
    "@",
    "+",
    "import ",
    "from ",
    "def ",
    "class ",
    "fn ",
    "func ",
    "function ",
    "const ",
    "let ",
    "var ",
    "return",
];
/// Ends of lines that mostly stand in code and in configuration.
const CODE_ENDS: [char; 11] = ['{', '}', ';', ',', ':', '(', ')', '[', ']', '\\', '>'];

/// The text as it can be restored: terminal escapes and overwritten versions of a line are removed,
/// and a line that is repeated at once gets a count, `line (×4)`. Code, diffs and markup only lose
/// escapes. Text without any of that stays byte for byte; borrowed if nothing changes.
#[must_use]
pub fn restorable(text: &str) -> Cow<'_, str> {
    let from_terminal = is_from_terminal(text);
    let plain = if from_terminal {
        without_escapes(text)
    } else {
        Cow::Borrowed(text)
    };
    if is_code(&plain) {
        return plain;
    }
    let settle = |line| if from_terminal { settled(line) } else { line };
    // A line that ends like a count already could not be told from one.
    let counts = !plain.contains(" (×");
    let may_change = from_terminal || (counts && has_repeats(&plain));
    if !may_change {
        return plain;
    }
    let mut out = String::with_capacity(plain.len());
    let mut first = true;
    for (line, times) in runs(split_lines(&plain).map(settle)) {
        let counted = counts && times >= LEAST_REPEATS && !line.trim().is_empty();
        for _ in 0..if counted { 1 } else { times } {
            if !first {
                out.push('\n');
            }
            first = false;
            out.push_str(line);
        }
        if counted {
            out.push_str(&format!(" (×{times})"));
        }
    }
    Cow::Owned(out)
}

/// Whether a line with words is repeated at once, often enough to be counted.
fn has_repeats(text: &str) -> bool {
    runs(split_lines(text)).any(|(line, times)| times >= LEAST_REPEATS && !line.trim().is_empty())
}

/// Whether a text was written for a terminal: it has escapes, or a line that overwrites itself. A
/// form feed stands in source files, and `\r\n` ends the lines of some.
fn is_from_terminal(text: &str) -> bool {
    let escapes = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}');
    (may_have_noise(text) && text.contains(escapes))
        || (text.contains('\r')
            && split_lines(text).any(|line| line.trim_end_matches('\r').contains('\r')))
}

/// Whether a text looks like code, a diff, configuration or markup.
fn is_code(text: &str) -> bool {
    let (mut lines, mut code) = (0, 0);
    for line in split_lines(text) {
        if is_mark(line) {
            return true;
        }
        let line = without_number(line);
        let inner = line.trim();
        if inner.is_empty() {
            continue;
        }
        lines += 1;
        let is_code = line.starts_with(['\t', ' '])
            || inner.ends_with(CODE_ENDS)
            || CODE_STARTS.iter().any(|start| inner.starts_with(start));
        code += usize::from(is_code);
    }
    code * 100 >= lines * CODE_PERCENT && code > 0
}

/// Whether a line only occurs in a diff or around code.
fn is_mark(line: &str) -> bool {
    let marks = ["diff --git ", "@@ -", "--- a/", "+++ b/", "```", "~~~"];
    let line = line.trim_start_matches(' ');
    marks.iter().any(|mark| line.starts_with(mark))
}

/// A line without the number that a tool for reading files puts in front of it.
fn without_number(line: &str) -> &str {
    let number = line.trim_start_matches(' ');
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == number.len() {
        return line;
    }
    rest.strip_prefix(['\t', ':', '|', '→']).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_of_a_terminal_goes_and_every_line_stays() {
        let log = "\u{1b}[31mred\u{1b}[0m\n10%\r50%\r100% done\r\nsame\nsame\nsame\n\n\n\nend";
        assert_eq!(restorable(log), "red\n100% done\nsame (×3)\n\n\n\nend");
        for exact in [
            "one\ntwo  \n\n\nthree\r\n",
            "tick (×2)\nsame\nsame\nsame",
            "int a;\n\u{c}\nint b;\n",
            "x\nx",
        ] {
            assert!(matches!(restorable(exact), Cow::Borrowed(_)), "{exact:?}");
        }
    }

    #[test]
    fn code_loses_nothing_but_colours() {
        let diff = "diff --git a/x b/x\n@@ -1,3 +1,3 @@\n \n-old  \n+new  \n \n \n \n";
        assert!(matches!(restorable(diff), Cow::Borrowed(_)));
        let coloured = diff.replace("-old  ", "\u{1b}[31m-old  \u{1b}[m");
        assert_eq!(restorable(&coloured), diff);
        let numbered = "  1\tdef f():\n  2\t    pass\n  3\t\n  4\t    pass\n  4\t    pass\n";
        assert!(is_code(numbered));
        assert!(!is_code(
            "12 passed\n3 failed\nretrying\nretrying\nretrying"
        ));
    }
}
