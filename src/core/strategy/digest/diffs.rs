//! Diffs in results, as tools that edit files answer with.

use super::line::{DigestLine, Part, Standing};
use crate::core::text::{file_paths, is_same_file};

/// Files of a call whose names in diffs are looked for.
const MOST_FILES: usize = 8;

/// Marks what says little of the diffs in a result: removed lines are no longer there, and the
/// names of a file stand in the `call` already.
pub(super) fn note_diffs(lines: &mut [DigestLine], call: &str) {
    let files: Vec<&str> = file_paths(call).take(MOST_FILES).collect();
    let mut is_hunk = false;
    for line in lines.iter_mut().filter(|line| line.part == Part::Text) {
        let text = line.text.as_str();
        let named = ["--- ", "+++ "]
            .iter()
            .find_map(|mark| text.strip_prefix(mark))
            .and_then(|file| file.split_whitespace().next());
        is_hunk = text.starts_with("@@ ")
            || (is_hunk && named.is_none() && text.starts_with([' ', '\t', '+', '-', '\\']));
        if line.standing != Standing::Usual {
            continue;
        }
        if named.is_some_and(|named| files.iter().any(|file| is_same_file(file, named))) {
            line.standing = Standing::Repeated;
        } else if is_hunk && text.starts_with('-') {
            line.standing = Standing::Stale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_lines_and_the_names_of_the_file_in_the_call_count_less() {
        let text = concat!(
            "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n",
            "+    return 2\nTo do:\n- test it"
        );
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
            [Repeated, Repeated, Usual, Usual, Stale, Usual, Usual, Usual]
        );
        assert_eq!(
            standings("run(command=git diff)")[..5],
            [Usual, Usual, Usual, Usual, Stale]
        );
    }
}
