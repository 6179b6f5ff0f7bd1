//! Plans that the model told anew: the older one says what was meant before the user corrected it.

use std::ops::Range;

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing, entry_from};
use crate::core::strategy::maps::{Set, hash_of};
use crate::core::text::{TELLING, shape, words_of};
use crate::core::{Cancel, Cancelled};

/// The fewest labels that make a plan, the most that are looked at, and the part of them that a
/// newer one has, too.
const LEAST_LABELS: usize = 3;
const MOST_LABELS: usize = 64;
const SHARED: f32 = 0.75;
/// The part of the words of an older plan that one which tells it anew has, the shortest that count
/// (bytes), and the most that are looked at.
const SHARED_WORDS: f32 = 0.35;
const LEAST_WORD: usize = 4;
const MOST_WORDS: usize = 2_048;
/// The longest label (bytes).
const LABEL_BYTES: usize = 60;
/// Marks of items and of what is bold.
const MARKS: [char; 6] = ['-', '*', '•', '#', '_', ' '];
/// What parts a label from what is said of it.
const ENDS: [&str; 5] = [":", " – ", " — ", " - ", "："];

/// A line, and its label by a hash.
type Label = (usize, u64);
type Labels = Vec<Label>;

/// Marks the lines of plans that the model's next text tells anew, under the same dates or steps.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn note_restated(
    lines: &mut [DigestLine],
    cancel: &Cancel,
) -> Result<(), Cancelled> {
    let mut before: Option<(Range<usize>, Labels)> = None;
    let mut begin = 0;
    while begin < lines.len() {
        cancel.check_budget()?;
        let end = entry_from(lines, begin).end;
        let is_of_model = lines
            .get(begin)
            .is_some_and(|line| line.part == Part::Assistant);
        if is_of_model {
            let labels = labels_in(lines, begin..end, cancel)?;
            if labels.len() >= LEAST_LABELS {
                if let Some((older, of_older)) = before.take()
                    && has_most(&labels, &of_older)
                {
                    let first = of_older.first().map_or(older.end, |(at, _)| *at);
                    if mark_restated(lines, first..older.end, begin..end) {
                        forget_answers(lines, older, begin);
                    }
                }
                before = Some((begin..end, labels));
            }
        }
        begin = end;
    }
    Ok(())
}

/// Whether most labels of an older plan are those of a newer one.
fn has_most(newer: &[Label], older: &[Label]) -> bool {
    let newer: Set<u64> = newer.iter().map(|(_, label)| *label).collect();
    let shared = older.iter().filter(|(_, label)| newer.contains(label));
    shared.count() as f32 >= SHARED * older.len() as f32
}

/// Marks what an older plan has under its labels where a newer one is about the same, but for lines
/// with ids and numbers that are not there: those are told nowhere else. Returns whether it is.
fn mark_restated(lines: &mut [DigestLine], older: Range<usize>, newer: Range<usize>) -> bool {
    let words = |of: &DigestLine| -> Vec<u64> {
        let long = words_of(&of.text).filter(|word| word.len() >= LEAST_WORD);
        long.map(|word| hash_of(&word.to_lowercase())).collect()
    };
    let all = |range: Range<usize>| {
        let of_range = lines.get(range).unwrap_or_default().iter();
        of_range.flat_map(words).take(MOST_WORDS)
    };
    let known: Set<u64> = all(newer).collect();
    let own: Set<u64> = all(older.clone()).collect();
    let shared = own.iter().filter(|word| known.contains(word)).count();
    if (shared as f32) < SHARED_WORDS * own.len() as f32 {
        return false;
    }
    let tells = |line: &DigestLine| {
        let mut telling = words_of(&line.text).filter(|word| shape(word) >= TELLING);
        telling
            .any(|word| word.len() >= LEAST_WORD && !known.contains(&hash_of(&word.to_lowercase())))
    };
    for line in lines.get_mut(older).into_iter().flatten() {
        let may = line.part == Part::Assistant && line.standing != Standing::Answered;
        if may && !tells(line) {
            line.standing = Standing::Repeated;
        }
    }
    true
}

/// What the user said to an older plan, up to where it is told anew, needs none of its lines.
fn forget_answers(lines: &mut [DigestLine], older: Range<usize>, told_anew: usize) {
    for at in older.end..told_anew {
        let Some(line) = lines.get_mut(at).filter(|line| line.part == Part::User) else {
            continue;
        };
        let needs = line.within.and_then(|above| at.checked_sub(above));
        if needs.is_some_and(|needs| older.contains(&needs)) {
            line.within = None;
        }
    }
}

/// The lines of a text that begin with the label of a day, a date or a step, and these labels.
fn labels_in(
    lines: &[DigestLine],
    text: Range<usize>,
    cancel: &Cancel,
) -> Result<Labels, Cancelled> {
    let mut labels: Labels = Vec::new();
    for at in text {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let line = lines.get(at).filter(|line| !line.joins && !line.is_code);
        if labels.len() == MOST_LABELS {
            break;
        }
        if let Some(label) = line.and_then(|line| label_of(&line.text))
            && labels.iter().all(|(_, known)| *known != label)
        {
            labels.push((at, label));
        }
    }
    Ok(labels)
}

/// The label of a line by its beginning: the first letters of its first word and its first number.
/// `Fri 19` and `Friday 19 June` are one. A number alone is that of an item, and a word alone that
/// of a field.
fn label_of(line: &str) -> Option<u64> {
    let is_bold = line.trim_start_matches(['-', '•', ' ']).starts_with("**");
    let begun = line.trim_start_matches(MARKS);
    let near = begun.get(..begun.floor_char_boundary(LABEL_BYTES))?;
    let bold = is_bold.then(|| near.split("**").next()).flatten();
    let ends = ENDS.iter().filter_map(|end| near.find(end)).min();
    let label = match (bold, ends) {
        (Some(bold), _) => bold,
        (None, Some(end)) => near.get(..end)?,
        (None, None) => return None,
    };
    let mut words = label
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let first = words
        .next()
        .filter(|word| word.starts_with(char::is_alphabetic))?;
    let number = words.find(|word| word.bytes().all(|b| b.is_ascii_digit()))?;
    let start: String = first.chars().take(3).flat_map(char::to_lowercase).collect();
    (!OPTIONS.contains(&start.as_str())).then(|| hash_of(&(start, number)))
}

/// How words for what is offered begin: with each offer they are counted anew.
const OPTIONS: [&str; 12] = [
    "alt", "ang", "cho", "fli", "off", "opc", "opç", "opt", "opz", "pas", "var", "вар",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn standings(said: &[(Part, &[&str])]) -> Vec<Standing> {
        let mut lines = Vec::new();
        for (part, texts) in said {
            let of = texts.iter().enumerate();
            lines.extend(of.map(|(nth, text)| DigestLine::new(*part, u8::from(nth > 0), text)));
        }
        note_restated(&mut lines, &Cancel::default()).unwrap();
        lines.iter().map(|line| line.standing).collect()
    }

    #[test]
    fn a_plan_that_is_told_anew_is_not_told_where_it_stood_before() {
        let draft: &[&str] = &[
            "Here's a first draft.",
            "**Friday 19 June**",
            "- 15:00 arrival",
            "**Saturday 20 June (midsummer)**",
            "- 09:30 birthday breakfast",
            "**Sunday 21 June**",
            "- 12:30 lunch",
        ];
        let revised: &[&str] = &[
            "Revised:",
            "**Fri 19**: arrival at 15:00",
            "**Sat 20**: nothing",
            "**Sun 21**: birthday lunch at 12:30",
        ];
        let other: &[&str] = &[
            "In Rome:",
            "Friday 19: ref ROM123",
            "Saturday 20: museum",
            "Sunday 21: home",
        ];
        let user: &[&str] = &["The birthday is on Sunday!"];
        let said = [
            (Part::Assistant, draft),
            (Part::User, user),
            (Part::Assistant, revised),
        ];
        let found = standings(&said);
        // Another plan for the same days takes its place.
        let unlike = standings(&[(Part::Assistant, other), (Part::Assistant, revised)]);
        assert!(unlike.iter().all(|one| *one == Standing::Usual));
        assert_eq!(found[0], Standing::Usual);
        assert!(found[1..7].iter().all(|one| *one == Standing::Repeated));
        assert!(found[7..].iter().all(|one| *one == Standing::Usual));
    }

    #[test]
    fn other_offers_are_not_those_before() {
        for [first, next] in [
            ["Option 1: a", "Option 1: d"],
            ["Price: 10", "Price: 20"],
            ["1. Sylt - far", "1. Eisvogel - near"],
        ] {
            let list = |one: &str| [1, 2, 3].map(|n| one.replace('1', &n.to_string()));
            let (first, next) = (list(first), list(next));
            let first: Vec<&str> = first.iter().map(String::as_str).collect();
            let next: Vec<&str> = next.iter().map(String::as_str).collect();
            let said = [(Part::Assistant, &*first), (Part::Assistant, &*next)];
            let found = standings(&said);
            assert!(found.iter().all(|one| *one == Standing::Usual), "{first:?}");
        }
    }
}
