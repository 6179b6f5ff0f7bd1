//! Diffs in results, as tools that edit files answer with.

use super::made::HEADS;
use crate::core::json::Json;
use crate::core::strategy::digest::line::{DigestLine, Outcome, Part, Standing};
use crate::core::strategy::maps::{Set, hash_of};
use crate::core::text::{file_paths, is_same_file};

/// Files of a call whose names in diffs are looked for.
const MOST_FILES: usize = 8;

/// What stands before the text that an edit replaces, and before the new one.
const OLD: [&str; 3] = ["------- SEARCH", "<<<<<<< SEARCH", "<<<<<<< ORIGINAL"];
const NEW: &str = "=======";
/// What stands before the name of a file in a diff.
const NEW_FILE: &str = "+++ ";

/// Marks what says little of the diffs in a result: removed lines are no longer there, and the
/// names of a file stand in the `call` already.
pub(in super::super) fn note_diffs(lines: &mut [DigestLine], call: &str) {
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
            line.standing = Standing::Replaced;
        }
    }
}

/// Marks the lines of a patch in the arguments of a call: each needs the line with the name of its
/// file, where that is not on the call's own, and what a patch only shows to tell its place counts
/// less, and is told where it was read.
pub(in super::super) fn note_patch(lines: &mut [DigestLine]) {
    let is_head =
        |text: &str| text.starts_with(NEW_FILE) || HEADS.iter().any(|head| text.starts_with(head));
    let Some((call, lines)) = lines.split_first_mut() else {
        return;
    };
    let mut is_patch = HEADS.iter().any(|head| call.text.contains(head));
    let mut file: Option<usize> = None;
    for (at, line) in lines.iter_mut().enumerate() {
        if line.part != Part::Argument {
            (is_patch, file) = (is_patch && line.of_argument, None);
            continue;
        }
        if is_head(&line.text) {
            (is_patch, file) = (true, Some(at));
            continue;
        }
        if !is_patch || line.text.starts_with("*** ") {
            continue;
        }
        line.within = line.within.or(file.map(|file| at - file));
        if line.standing == Standing::Usual {
            line.standing = match line.text.bytes().next() {
                Some(b'-') => Standing::Replaced,
                Some(b' ' | b'\t') => Standing::Beside,
                _ => Standing::Usual,
            };
        }
    }
}

/// The arguments with the text that an edit replaces, each with that of the new text.
const SIDES: [(&str, &str); 11] = [
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("old_code", "new_code"),
    ("old_content", "new_content"),
    ("oldContent", "newContent"),
    ("old", "new"),
    ("search", "replace"),
    ("find", "replace"),
];
/// What stands before the name of an argument that has its lines below a call.
const WITH: &str = "with ";
/// The shortest line that is known wherever it stands (bytes).
const LEAST_LINE: usize = 24;

/// The lines that a call took out of a file, by their hashes: those of what it replaces that the
/// new text has not.
pub(in super::super) fn taken_out(arguments: &[(String, Json)], lines: &[DigestLine]) -> Vec<u64> {
    let sides = SIDES.iter().find(|(old, new)| {
        let has = |side: &str| arguments.iter().any(|(key, _)| key == side);
        has(old) && has(new)
    });
    let lines_of = |side: Option<&str>| -> Vec<u64> {
        let texts = arguments
            .iter()
            .filter(|(key, _)| Some(key.as_str()) == side);
        let texts = texts.filter_map(|(_, value)| match value {
            Json::String(text) => Some(text),
            _ => None,
        });
        texts
            .flat_map(|text| text.lines().filter_map(key_of))
            .collect()
    };
    let mut old = lines_of(sides.map(|(old, _)| *old));
    let is_old = |line: &&&DigestLine| line.standing.is_old();
    let written = lines.iter().filter(|line| line.part == Part::Argument);
    let written: Vec<&DigestLine> = written.collect();
    // In a patch, with a mark before it.
    let both = |line: &&DigestLine| {
        let unmarked = line.text.strip_prefix('-').and_then(key_of);
        key_of(&line.text)
            .into_iter()
            .chain(unmarked)
            .collect::<Vec<_>>()
    };
    old.extend(written.iter().filter(is_old).flat_map(both));
    if !old.is_empty() {
        let mut new: Set<u64> = lines_of(sides.map(|(_, new)| *new)).into_iter().collect();
        let added = written
            .iter()
            .filter_map(|line| line.text.strip_prefix('+'));
        new.extend(added.filter_map(key_of));
        old.retain(|line| !new.contains(line));
    }
    old
}

/// What a line of a file is known by, without the name of the file and its number before it.
pub(in super::super) fn key_of_listed(line: &str) -> Option<u64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbered = |text| -> Option<&str> {
        let (number, behind) = str::split_once(text, ['\t', ':', '|'])?;
        is_number(number.trim()).then_some(behind)
    };
    let named = || {
        line.split_once(':')
            .and_then(|(_, behind)| numbered(behind))
    };
    key_of(numbered(line).or_else(named).unwrap_or(line))
}

fn key_of(line: &str) -> Option<u64> {
    let line = line.trim();
    (line.len() >= LEAST_LINE).then(|| hash_of(line))
}

/// Marks what a call that succeeded replaced: it is in its file no longer, unless that was undone.
pub(in super::super) fn note_gone(lines: &mut [DigestLine]) {
    if lines
        .first()
        .is_some_and(|head| head.outcome == Outcome::Undone)
    {
        return;
    }
    let is_old = |line: &&mut DigestLine| line.part == Part::Argument && line.standing.is_old();
    let gone = lines.iter_mut().filter(is_old);
    gone.for_each(|line| line.standing = Standing::Gone);
}

/// Marks the lines of what an edit replaces that the new text has, too: beside them, what was
/// changed would not be seen.
pub(in super::super) fn note_kept(lines: &mut [DigestLine]) {
    let side = |line: &DigestLine, side: &str| {
        let name = line.text.strip_prefix(WITH);
        line.of_argument && name.and_then(|name| name.strip_suffix(':')) == Some(side)
    };
    let place = |name: &str| lines.iter().position(|line| side(line, name));
    let old = SIDES.iter().find_map(|(old, new)| {
        let replaces = place(new).is_some()
            || lines
                .first()
                .is_some_and(|call| call.text.contains(&format!("{new}=")));
        place(old).filter(|_| replaces)
    });
    let Some(old) = old else { return };
    let is_argument = |line: &DigestLine| line.part == Part::Argument;
    let end = |from: usize| {
        let rest = lines.get(from..).unwrap_or_default();
        let end = rest.iter().position(|line| !is_argument(line));
        end.map_or(lines.len(), |end| from + end)
    };
    let end = end(old + 1);
    let new = lines.get(end..).unwrap_or_default();
    let new: Set<u64> = new
        .iter()
        .filter(|line| is_argument(line))
        .map(|line| hash_of(&line.text))
        .collect();
    for line in lines.get_mut(old + 1..end).into_iter().flatten() {
        if new.contains(&hash_of(&line.text)) {
            line.standing = Standing::Repeated;
        } else if line.standing == Standing::Usual {
            line.standing = Standing::Replaced;
        }
    }
}

/// Marks the sides of edits in the arguments of a call that say what to replace: what is there now
/// is the other one.
pub(in super::super) fn note_replaced(lines: &mut [DigestLine]) {
    let mut is_old = false;
    for line in lines.iter_mut() {
        match line.part {
            // The mark may stand on the call's own line.
            Part::Call => is_old = OLD.iter().any(|mark| line.text.contains(mark)),
            Part::Argument => {
                let text = line.text.trim();
                if OLD.iter().any(|mark| text.starts_with(mark)) {
                    is_old = true;
                } else if text == NEW {
                    is_old = false;
                } else if is_old && line.standing == Standing::Usual {
                    line.standing = Standing::Replaced;
                }
            }
            // The name of the argument.
            _ if line.of_argument => {}
            _ => is_old = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_taken_out_is_known_where_it_is_listed() {
        let arguments = Json::parse(
            r#"{"path":"a.go",
            "old_string":"l := &Lease{id: id, granted: now()}\nreturn l, nil // done",
            "new_string":"l := &Lease{id: id, granted: clock()}\nreturn l, nil // done"}"#,
        );
        let Some(Json::Object(arguments)) = arguments else {
            panic!("no object")
        };
        let out = taken_out(&arguments, &[]);
        assert_eq!(out.len(), 1);
        for (line, is_out) in [
            (
                "internal/a.go:27:\tl := &Lease{id: id, granted: now()}",
                true,
            ),
            ("    27\tl := &Lease{id: id, granted: now()}", true),
            ("27: l := &Lease{id: id, granted: now()}", true),
            ("l := &Lease{id: id, granted: clock()}", false),
            ("return l, nil // done", false),
        ] {
            let key = key_of_listed(line);
            assert_eq!(key.is_some_and(|key| out.contains(&key)), is_out, "{line}");
        }
    }

    #[test]
    fn lines_that_an_edit_keeps_are_told_with_the_new_text() {
        let named = |text: &str| DigestLine {
            of_argument: true,
            ..DigestLine::new(Part::Member, 1, text)
        };
        let text = |text: &str| DigestLine::new(Part::Argument, 2, text);
        let mut lines = vec![
            DigestLine::new(Part::Call, 0, "edit(path=a, old_string=…, new_string=…)"),
            named("with old_string:"),
            text("if a {"),
            text("    b();"),
            text("}"),
            named("with new_string:"),
            text("if a {"),
            text("    c();"),
            text("}"),
        ];
        note_kept(&mut lines);
        use Standing::{Repeated, Replaced, Usual};
        let standings: Vec<Standing> = lines.iter().map(|line| line.standing).collect();
        let (old, new) = ([Repeated, Replaced, Repeated], [Usual; 4]);
        assert_eq!(standings, [&[Usual; 2][..], &old, &new].concat());
    }

    #[test]
    fn what_an_edit_replaced_is_told_no_more_once_it_succeeded() {
        let named = |text: &str| DigestLine {
            of_argument: true,
            ..DigestLine::new(Part::Member, 1, text)
        };
        let text = |text: &str| DigestLine::new(Part::Argument, 2, text);
        let standings = |outcome: Outcome| -> Vec<Standing> {
            let mut lines = vec![
                DigestLine::new(Part::Call, 0, "edit(path=a.ts, old=a();…, new=b();…)"),
                named("with old:"),
                text("a();"),
                text("}"),
                named("with new:"),
                text("b();"),
                text("}"),
            ];
            lines[0].outcome = outcome;
            note_kept(&mut lines);
            note_gone(&mut lines);
            lines.iter().map(|line| line.standing).collect()
        };
        use Standing::{Gone, Repeated, Replaced, Usual};
        let told = |old| [Usual, Usual, old, Repeated, Usual, Usual, Usual];
        assert_eq!(standings(Outcome::Done), told(Gone));
        // What was undone is there again.
        assert_eq!(standings(Outcome::Undone), told(Replaced));
    }

    #[test]
    fn what_an_edit_replaces_counts_less() {
        let mut lines = vec![
            DigestLine::new(Part::Call, 0, "edit(path=a, diff=------- SEARCH…)"),
            DigestLine::new(Part::Argument, 2, "a = 1"),
            DigestLine::new(Part::Argument, 2, "======="),
            DigestLine::new(Part::Argument, 2, "a = 2"),
            DigestLine::new(Part::Argument, 2, "+++++++ REPLACE"),
            DigestLine::new(Part::Argument, 2, "<<<<<<< SEARCH"),
            DigestLine::new(Part::Argument, 2, "b = 1"),
        ];
        note_replaced(&mut lines);
        let stale = |line: &DigestLine| line.standing == Standing::Replaced;
        let stale: Vec<bool> = lines.iter().map(stale).collect();
        assert_eq!(stale, [false, true, false, false, false, false, true]);
    }

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
        use Standing::{Repeated, Replaced, Usual};
        assert_eq!(
            standings("edit(path=src/a.py)"),
            [
                Repeated, Repeated, Usual, Usual, Replaced, Usual, Usual, Usual
            ]
        );
        assert_eq!(
            standings("run(command=git diff)")[..5],
            [Usual, Usual, Usual, Usual, Replaced]
        );
    }
}
