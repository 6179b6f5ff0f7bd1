//! Diffs in results, as tools that edit files answer with.

use super::line::{DigestLine, Part, Standing};
use crate::core::text::names_file;

/// Marks what says little of the diffs in a result: removed lines are no longer there, and the
/// names of a file stand in the `call` already.
pub(super) fn note_diffs(lines: &mut [DigestLine], call: &str) {
    let mut is_diff = false;
    let of_text = lines.iter_mut().filter(|line| line.part == Part::Text);
    for line in of_text.filter(|line| line.standing == Standing::Usual) {
        let text = line.text.as_str();
        let named = ["--- ", "+++ "]
            .iter()
            .find_map(|mark| text.strip_prefix(mark))
            .and_then(|file| file.split_whitespace().next());
        is_diff |= text.starts_with("@@ ");
        if named.is_some_and(|file| names_file(call, file)) {
            line.standing = Standing::Repeated;
        } else if is_diff && named.is_none() && text.starts_with('-') {
            line.standing = Standing::Stale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_lines_and_the_names_of_the_file_in_the_call_count_less() {
        let text = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2";
        let standings = |call: &str| -> Vec<Standing> {
            let mut lines: Vec<DigestLine> = text
                .lines()
                .map(|line| DigestLine::new(Part::Text, 1, line))
                .collect();
            note_diffs(&mut lines, call);
            lines.iter().map(|line| line.standing).collect()
        };
        use Standing::{Repeated, Stale, Usual};
        assert_eq!(
            standings("edit(path=src/a.py)"),
            [Repeated, Repeated, Usual, Usual, Stale, Usual]
        );
        assert_eq!(
            standings("run(command=git diff)"),
            [Usual, Usual, Usual, Usual, Stale, Usual]
        );
    }
}
