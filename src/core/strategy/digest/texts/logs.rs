//! Logs: lines that differ from many others in their numbers only, and the reports of failures
//! between them.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use crate::core::strategy::digest::line::{DigestLine, Standing};
use crate::core::strategy::maps::Map;
use crate::core::text::{ByteKinds, ByteSet, is_routine, tells_of_failure};

/// So many lines that differ in their numbers only are repetitive; and so many rows of a printed
/// table, where numbers are what there is to tell.
const LEAST_ALIKE: usize = 8;
const LEAST_ALIKE_ROWS: usize = 40;
/// So many lines about what went as it should tell no more than that.
const LEAST_ROUTINE: usize = 4;
/// The part of a text that repetitive lines make it a log.
const LOG: f32 = 0.4;
/// The least length of a name in hexadecimal digits without a number (bytes).
const HEX_BYTES: usize = 5;
/// The bytes of names and numbers, by their kinds.
static OF_NAMES: ByteKinds = ByteKinds::of(&ByteSet::of(b"_").and_alphanumeric().and(0x80, 0xff))
    .with(&ByteSet::of(b"").and(b'0', b'9'), DIGIT)
    .with(&ByteSet::of(b"").and(b'a', b'f'), HEX_LETTER);
const DIGIT: u8 = 2;
const HEX_LETTER: u8 = 4;
/// Capital letters.
static CAPITALS: ByteSet = ByteSet::of(b"").and(b'A', b'Z');
/// Levels of lines in logs: of failures, and of others. They stand near the beginning (bytes).
const FAILS: [&str; 6] = ["ERROR", "FATAL", "CRITICAL", "SEVERE", "PANIC", "EMERG"];
const FINE: [&str; 7] = [
    "INFO", "DEBUG", "TRACE", "NOTICE", "WARN", "WARNING", "VERBOSE",
];
const LEVEL_BYTES: usize = 64;
const LEAST_LEVEL: usize = 4;
/// So many lines tell whether a text has levels.
const LEVEL_LINES: usize = 16;
/// Lines behind the report of a failure that explain it.
const EXPLAINS: usize = 5;
/// Lines above and below a failure that show what it came from and what came of it.
const BESIDE: usize = 2;

/// Finds the lines that differ from many others in their numbers only; where they make up much of a
/// text, also the reports of failures between them.
pub(super) fn mark_repetitive(lines: &mut [DigestLine]) {
    mark_routine(lines);
    if lines.len() < LEAST_ALIKE {
        return;
    }
    let forms: Vec<u64> = lines.iter().map(|line| form_of(&line.text)).collect();
    let mut groups: Map<u64, (usize, usize, usize)> =
        Map::with_capacity_and_hasher(forms.len(), FixedState::default());
    for (at, form) in forms.iter().enumerate() {
        let (count, _, last) = groups.entry(*form).or_insert((0, at, at));
        (*count, *last) = (*count + 1, at);
    }
    let group_of = |at: usize| forms.get(at).and_then(|form| groups.get(form));
    let is_repetitive = |(at, line): (usize, &DigestLine)| {
        let is_row = line.within.is_some();
        let least = if is_row {
            LEAST_ALIKE_ROWS
        } else {
            LEAST_ALIKE
        };
        group_of(at).is_some_and(|(count, ..)| *count >= least)
    };
    let repetitive: Vec<bool> = lines.iter().enumerate().map(is_repetitive).collect();
    let many = repetitive.iter().filter(|alike| **alike).count();
    let levels = levels_of(lines);
    let leveled = levels.iter().flatten().count();
    let is_log = many.max(leveled) as f32 >= LOG * lines.len() as f32;
    // What a log itself calls no failure is none.
    let quiet = repetitive.iter().zip(levels);
    let quiet: Vec<bool> = quiet
        .map(|(alike, level)| level.map_or(*alike, |fails| !fails))
        .collect();
    // The first and the last of each kind show what they are about.
    for (at, line) in lines.iter_mut().enumerate() {
        let ends = group_of(at).is_some_and(|(_, first, last)| *first == at || *last == at);
        if repetitive.get(at) == Some(&true) && !ends {
            line.standing = Standing::Alike;
        }
    }
    if !is_log {
        return;
    }
    mark_failures(lines, &quiet);
}

/// Marks the lines about what went as it should, where there are many of them, but for the last.
fn mark_routine(lines: &mut [DigestLine]) {
    let is_one = |(at, line): (usize, &DigestLine)| is_routine(&line.text).then_some(at);
    let mut routine: Vec<usize> = lines.iter().enumerate().filter_map(is_one).collect();
    if routine.len() < LEAST_ROUTINE {
        return;
    }
    routine.pop();
    for at in routine {
        if let Some(line) = lines.get_mut(at) {
            line.standing = Standing::Alike;
        }
    }
}

/// The levels of the lines of a log. Whether it has any, a few of its lines tell.
fn levels_of(lines: &[DigestLine]) -> Vec<Option<bool>> {
    let level = |line: &DigestLine| level_of(&line.text);
    let few = lines.iter().step_by((lines.len() / LEVEL_LINES).max(1));
    if few.filter_map(level).next().is_none() {
        return vec![None; lines.len()];
    }
    lines.iter().map(level).collect()
}

/// Whether the level of a line in a log, near its beginning, is that of a failure; `None` where it
/// has none.
fn level_of(line: &str) -> Option<bool> {
    let near = line.get(..line.floor_char_boundary(LEVEL_BYTES))?;
    let mut rest = near;
    loop {
        let (_, begun) = rest.split_at_checked(CAPITALS.run(rest.as_bytes(), false))?;
        let (word, behind) = begun.split_at_checked(CAPITALS.run(begun.as_bytes(), true))?;
        if word.is_empty() {
            return None;
        }
        rest = behind;
        if word.len() < LEAST_LEVEL || behind.starts_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        let fails = FAILS.contains(&word);
        if fails || FINE.contains(&word) {
            return Some(fails);
        }
    }
}

/// Marks the reports of failures among repetitive lines with what explains them. The lines beside
/// them tell more than others of their kind.
fn mark_failures(lines: &mut [DigestLine], repetitive: &[bool]) {
    let mut left = 0;
    for (at, line) in lines.iter_mut().enumerate() {
        if repetitive.get(at) == Some(&true) {
            left = 0;
            continue;
        }
        if tells_of_failure(&line.text) || level_of(&line.text) == Some(true) {
            left = EXPLAINS + 1;
        }
        if left > 0 {
            line.standing = Standing::Failure;
            left -= 1;
        }
    }
    for at in 0..lines.len() {
        let beside = at.saturating_sub(BESIDE)..(at + BESIDE + 1).min(lines.len());
        let near = lines.get(beside).into_iter().flatten();
        let is_near = near
            .into_iter()
            .any(|line| line.standing == Standing::Failure);
        if let Some(line) = lines
            .get_mut(at)
            .filter(|line| is_near && line.standing == Standing::Alike)
        {
            line.standing = Standing::Usual;
        }
    }
}

/// A number for a line with every number, and every name that has one, as `#`: lines that differ
/// only in these have the same. Lines without any are told by their text. It is of no use beyond
/// the text: two forms may happen to have the same.
fn form_of(line: &str) -> u64 {
    let mut form = FixedState::default().build_hasher();
    let bytes = line.as_bytes();
    // Where what was not hashed yet begins, and where what was not looked at does.
    let (mut begin, mut at) = (0, 0);
    while let Some(behind) = bytes.get(at..).filter(|behind| !behind.is_empty()) {
        let gap = OF_NAMES.gap(behind);
        let (len, kinds) = OF_NAMES.run(behind.get(gap..).unwrap_or_default());
        let end = at + gap + len;
        // Random names in hexadecimal digits may happen to have letters only.
        if kinds & DIGIT != 0 || (kinds == HEX_LETTER && len >= HEX_BYTES) {
            form.write(bytes.get(begin..at + gap).unwrap_or_default());
            form.write_u8(b'#');
            begin = end;
        }
        at = end;
    }
    form.write(bytes.get(begin..).unwrap_or_default());
    form.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Cancel;
    use crate::core::strategy::digest::results::record::OF_RESULT;
    use crate::core::strategy::digest::texts::quoted::quoted_lines;

    fn quoted(text: &str) -> Vec<DigestLine> {
        let mut lines = Vec::new();
        quoted_lines(text, OF_RESULT, &Cancel::default(), &mut lines).unwrap();
        lines
    }

    #[test]
    fn what_a_log_calls_a_failure_is_one_however_few_lines_are_alike() {
        let paths = ["GET /cart", "POST /pay", "GET /health"];
        let line = |n: usize| format!("03:00:{n:02} INFO http {} 200 {n}ms", paths[n % 3]);
        let mut log: Vec<String> = (0..12).map(line).collect();
        log.push("03:01:02 ERROR client: too many open connections (max=40)".to_owned());
        log.push("03:01:03 FATAL health: pool exhausted, exiting".to_owned());
        let lines = quoted(&log.join("\n"));
        let failures = lines
            .iter()
            .filter(|line| line.standing == Standing::Failure);
        assert_eq!(failures.count(), 2);
    }

    #[test]
    fn rows_of_a_short_table_are_not_repetitive() {
        let table = |rows: u32| {
            let row = |n| format!("| {} | {} |\n", 1_900 + n, n * 37_111 % 9_973);
            let rows: String = (0..rows).map(row).collect();
            quoted(&format!("| year | units |\n|---|---|\n{rows}")).into_iter()
        };
        let alike = |line: &DigestLine| line.standing == Standing::Alike;
        assert_eq!(table(30).filter(alike).count(), 0);
        assert_eq!(table(60).filter(alike).count(), 58);
    }

    #[test]
    fn repetitive_lines_are_told_from_the_failure_between_them() {
        let mut text: Vec<String> = (0..20)
            .map(|n| format!("10:{n} GET /orders/{} 200 {n}ms", n * 17))
            .collect();
        text.insert(
            9,
            "ERROR failed to reserve stock\n  at Stock.java".to_owned(),
        );
        let lines = quoted(&text.join("\n"));
        let standing = |at: usize| lines[at].standing;
        assert_eq!(
            (standing(0), standing(21)),
            (Standing::Usual, Standing::Usual)
        );
        assert_eq!(
            (standing(3), standing(15)),
            (Standing::Alike, Standing::Alike)
        );
        // Those beside the failure tell what it came from and what came of it.
        let beside = [6, 7, 8, 11, 12, 13].map(standing);
        let usual = Standing::Usual;
        let alike = Standing::Alike;
        assert_eq!(beside, [alike, usual, usual, usual, usual, alike]);
        assert_eq!(
            (standing(9), standing(10)),
            (Standing::Failure, Standing::Failure)
        );
    }
}
