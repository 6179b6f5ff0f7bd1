//! What answers need: "yes" says nothing without the question, and "2" nothing without the list.

use std::ops::Range;

use super::line::{DigestLine, Part, Standing};
use super::lists::{is_item, is_listed};
use super::weigh::STRIDE;
use super::weights::word as words_by;
use crate::core::text::{asks, is_question, shape, words_of};
use crate::core::{Cancel, Cancelled};

/// The longest answer that says nothing without its question (characters), and the longest word
/// before the number of a choice (bytes).
const ANSWER_CHARS: usize = 14;
const CHOICE_BYTES: usize = 12;
/// What may stand before a choice in brackets (bytes), and the words in which one by its letter
/// stands.
const BEFORE_BYTES: usize = 24;
const MOST_WORDS: usize = 8;
/// Words before the number or the letter of a choice, or behind the word for its place.
const OPTIONS: [&str; 10] = [
    "option",
    "variant",
    "variante",
    "choice",
    "plan",
    "opción",
    "opzione",
    "opção",
    "вариант",
    "вариантом",
];

/// Letters of items that are no words of their own, and words for the places of items.
const LETTERS: [&str; 11] = ["b", "c", "d", "f", "g", "h", "B", "C", "D", "F", "G"];
const ORDINALS: [&[&str]; 4] = [
    &[
        "first",
        "erste",
        "ersten",
        "erstes",
        "premier",
        "première",
        "primero",
        "primera",
    ],
    &[
        "second",
        "zweite",
        "zweiten",
        "zweites",
        "deuxième",
        "segundo",
        "segunda",
        "seconda",
    ],
    &[
        "third",
        "dritte",
        "dritten",
        "drittes",
        "troisième",
        "tercero",
        "tercera",
        "terza",
    ],
    &[
        "fourth",
        "vierte",
        "vierten",
        "viertes",
        "quatrième",
        "cuarto",
        "cuarta",
        "quarta",
    ],
];
/// The same where no blank stands between words, and what is behind a number.
const COUNTED: [&str; 4] = ["一", "二", "三", "四"];
const COUNTERS: [&str; 6] = ["个", "個", "种", "種", "项", "番"];
/// What stands before such a word.
const ARTICLES: [&str; 11] = [
    "das", "dem", "den", "der", "die", "el", "il", "la", "le", "the", "your",
];
/// The longest answer that may name an item by its place alone, and how much of a longer one is
/// looked at (characters).
const ORDINAL_CHARS: usize = 48;
const LOOKED_AT_CHARS: usize = 256;

/// What the model said last, where nothing was done since, is what the user's newest message
/// answers: "yes" says nothing without it. Where it only asks for more, he still answers what it
/// said before: what it offered is what that is for.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn note_answered(lines: &mut [DigestLine], cancel: &Cancel) -> Result<(), Cancelled> {
    let Some(newest) = entry_before(lines, lines.len()) else {
        return Ok(());
    };
    mark_answered(lines, newest..lines.len());
    if !only_asks(lines.get(newest..).unwrap_or_default(), cancel)? {
        return Ok(());
    }
    let is_of = |at: &usize, part| lines.get(*at).is_some_and(|line| line.part == part);
    let user = entry_before(lines, newest).filter(|at| is_of(at, Part::User));
    let before = user.and_then(|user| Some(entry_before(lines, user)?..user));
    if let Some(before) = before.filter(|before| is_of(&before.start, Part::Assistant)) {
        mark_answered(lines, before);
    }
    Ok(())
}

/// Where the last entry before a line begins.
fn entry_before(lines: &[DigestLine], end: usize) -> Option<usize> {
    lines.get(..end)?.iter().rposition(|line| line.depth == 0)
}

fn mark_answered(lines: &mut [DigestLine], entry: Range<usize>) {
    for line in lines.get_mut(entry).into_iter().flatten() {
        if line.part == Part::Assistant && line.standing != Standing::Repeated {
            line.standing = Standing::Answered;
        }
    }
}

/// Whether what the model said asks for more and tells nothing by a name or a number.
fn only_asks(said: &[DigestLine], cancel: &Cancel) -> Result<bool, Cancelled> {
    let asked = asked(said, cancel)?;
    let tells = |line: &DigestLine| {
        let mut words = words_of(&line.text);
        words.any(|word| shape(word) >= words_by::TELLING)
    };
    let is_said = said
        .first()
        .is_some_and(|line| line.part == Part::Assistant);
    let mut said = said.iter().zip(&asked);
    Ok(is_said && asked.contains(&true) && said.all(|(line, asked)| *asked || !tells(line)))
}

/// Whether each line of the model's asks for something, or is below the head of a list that does.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn asked(lines: &[DigestLine], cancel: &Cancel) -> Result<Vec<bool>, Cancelled> {
    let mut asked = vec![false; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if line.part != Part::Assistant {
            continue;
        }
        let head = line.within.and_then(|above| at.checked_sub(above));
        let of_head = head.is_some_and(|head| asked.get(head) == Some(&true));
        if let Some(this) = asked.get_mut(at) {
            *this = of_head || asks(&line.text);
        }
    }
    Ok(asked)
}

/// What the user chose by its number says nothing without the item of the list that he was shown,
/// and a short answer nothing without the question.
pub(super) fn note_choices(lines: &mut [DigestLine]) {
    // The lines of the last message of the model before.
    let mut offered = 0..0;
    for at in 0..lines.len() {
        let Some(line) = lines.get(at).filter(|line| line.depth == 0) else {
            continue;
        };
        let is_next = |line: &DigestLine| line.depth == 0;
        let end = lines.iter().skip(at + 1).position(is_next);
        let end = end.map_or(lines.len(), |more| at + 1 + more);
        match line.part {
            Part::Assistant => offered = at..end,
            Part::User => {
                let asked = lines.get(offered.clone()).unwrap_or_default();
                let is_short = end == at + 1 && line.text.chars().count() <= ANSWER_CHARS;
                let place = item_of(asked, &line.text);
                // `Please confirm.` behind a question says nothing without it.
                let last =
                    |is_it: fn(&str) -> bool| asked.iter().rposition(|line| is_it(&line.text));
                let question = || last(is_question).or_else(|| last(asks));
                let place = place.or_else(|| is_short.then(question).flatten());
                let answered = place.map(|place| at - offered.start - place);
                if let Some(line) = lines.get_mut(at).filter(|_| answered.is_some()) {
                    line.within = answered;
                    // The same answer to another question is another answer.
                    line.standing = Standing::Usual;
                }
                offered = 0..0;
            }
            _ => {}
        }
    }
}

/// Which of the lines that the user was shown his answer chooses, by its number, letter or place.
fn item_of(offered: &[DigestLine], answer: &str) -> Option<usize> {
    let item = |choice: String| {
        let is_it = |line: &DigestLine| {
            is_item(&line.text, &choice)
                || is_listed(&line.text) && option_in(&line.text).as_ref() == Some(&choice)
        };
        offered.iter().rposition(is_it)
    };
    let place = choice_of(answer).and_then(item);
    let place = place.or_else(|| letter_of(answer).and_then(item));
    place.or_else(|| ordinal_of(answer).and_then(item))
}

/// The items of the model's lists that were chosen by their places, in lines and by what the user
/// said besides them.
pub(super) fn items_by_place<'t>(
    lines: &[DigestLine],
    said: impl DoubleEndedIterator<Item = &'t str>,
) -> Vec<usize> {
    let of_line = |(at, line): (usize, &DigestLine)| {
        let item = at.checked_sub(line.within.filter(|_| line.part == Part::User)?)?;
        let is_it = |line: &DigestLine| line.part == Part::Assistant && is_listed(&line.text);
        lines.get(item).is_some_and(is_it).then_some(item)
    };
    let mut items: Vec<usize> = lines.iter().enumerate().filter_map(of_line).collect();
    let is_answered = |line: &DigestLine| line.standing == Standing::Answered;
    let newest = lines.iter().position(is_answered);
    let newest = newest.and_then(|at| Some((at, lines.get(at..)?)));
    if let Some((at, newest)) = newest {
        let end = newest.iter().position(|line| !is_answered(line));
        let offered = newest.get(..end.unwrap_or(newest.len()));
        let mut answers = said.rev();
        let item = answers.find_map(|answer| item_of(offered.unwrap_or_default(), answer));
        items.extend(item.map(|item| at + item));
    }
    items
}

/// The number or the letter behind a word for a choice, in small letters: `Flight Option 2`.
fn option_in(text: &str) -> Option<String> {
    let mut words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(MOST_WORDS);
    words.find(|word| OPTIONS.contains(&word.to_lowercase().as_str()))?;
    let mark = words.next()?.to_lowercase();
    let is_number = mark.len() <= 2 && mark.bytes().all(|b| b.is_ascii_digit());
    let is_letter = mark.len() == 1 && mark.bytes().all(|b| b.is_ascii_lowercase());
    (is_number || is_letter).then_some(mark)
}

/// The number or the letter by which an answer chooses, in small letters: `2, please`, `Option 2`,
/// `#2`, `Then (a)`.
fn choice_of(answer: &str) -> Option<String> {
    let in_brackets = answer.split_once('(').and_then(|(before, rest)| {
        let (choice, _) = rest.split_once(')')?;
        let is_mark = choice.len() <= 2 && choice.chars().all(char::is_alphanumeric);
        (before.len() <= BEFORE_BYTES && is_mark && !choice.is_empty()).then_some(choice)
    });
    if let Some(choice) = in_brackets {
        return Some(choice.to_lowercase());
    }
    if let Some(choice) = option_in(answer) {
        return Some(choice);
    }
    let digit = answer.find(|c: char| c.is_ascii_digit())?;
    let (before, rest) = answer.split_at_checked(digit)?;
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (number, behind) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
    let ends = |c: char| !c.is_alphanumeric() || !c.is_ascii();
    let is_number = behind.chars().next().is_none_or(ends) && number.len() <= 2;
    let is_first = before.len() <= CHOICE_BYTES && before.split_whitespace().count() <= 1;
    let number: u32 = number.parse().ok()?;
    (is_number && is_first).then(|| number.to_string())
}

/// The letter that stands alone in an answer, as in `Nehmen Sie b, aber später`: none that is a
/// word somewhere.
fn letter_of(answer: &str) -> Option<String> {
    let mut words = answer
        .split_whitespace()
        .map(|word| word.trim_end_matches(['.', ',', ':', ';', ')', '!']));
    let is_letter = |word: &&str| LETTERS.contains(word);
    words.find(is_letter).map(str::to_lowercase)
}

/// The number of the item that an answer names by its place: `Take the second.`, where it is short,
/// or `the second option`, `第二个`.
fn ordinal_of(answer: &str) -> Option<String> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    let is_short = answer.chars().count() <= ORDINAL_CHARS;
    let behind = answer.split_once("第").map_or("", |(_, behind)| behind);
    let is_counted = |number: &str| {
        let behind = behind.strip_prefix(number);
        behind.is_some_and(|behind| COUNTERS.iter().any(|counter| behind.starts_with(counter)))
    };
    if let Some(at) = COUNTED.iter().position(|number| is_counted(number)) {
        return Some((at + 1).to_string());
    }
    let lower = answer.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    // `Wait a second` names none.
    let names = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let is_option = words.get(at + 1).is_some_and(|word| OPTIONS.contains(word));
        before.is_some_and(|before| ARTICLES.contains(before)) && (is_short || is_option)
    };
    let place = |word: &str| ORDINALS.iter().position(|places| places.contains(&word));
    let mut named = words.iter().enumerate().filter(|(at, _)| names(*at));
    named
        .find_map(|(_, word)| place(word))
        .map(|place| (place + 1).to_string())
}

/// At most so many characters of a text, from its beginning.
fn first_chars(text: &str, most: usize) -> &str {
    let end = text
        .char_indices()
        .nth(most)
        .map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_may_stand_within_an_answer() {
        for (answer, letter) in [
            ("Nehmen Sie b, aber später", Some("b")),
            ("Then C.", Some("c")),
            ("I need a car", None),
            ("D'accord, c'est bon", None),
        ] {
            assert_eq!(letter_of(answer).as_deref(), letter, "{answer}");
        }
        for (answer, number) in [
            ("Take the second one.", Some("2")),
            ("Die erste bitte", Some("1")),
            ("Wait a second.", None),
            (
                "Let it be the second option, HAT136 and HAT039, as it is the cheaper one.",
                Some("2"),
            ),
            (
                "On the second day my daughter comes along, so that we need a larger room.",
                None,
            ),
            ("我选第二个。", Some("2")),
            ("第二天我要带女儿去玩。", None),
            ("Yes.", None),
        ] {
            assert_eq!(ordinal_of(answer).as_deref(), number, "{answer}");
        }
    }

    #[test]
    fn a_choice_is_told_by_its_number() {
        for (answer, number) in [
            ("2, please.", Some("2")),
            ("Option 12", Some("12")),
            ("#3", Some("3")),
            ("3にします。", Some("3")),
            ("Dann (a), bitte", Some("a")),
            ("Then option B.", Some("b")),
            ("I would like to book Flight Option 2, please.", Some("2")),
            ("A new one (if there is any)", None),
            ("What are my options?", None),
            ("2nd", None),
            ("I would take 2", None),
            ("1500", None),
            ("Yes.", None),
        ] {
            assert_eq!(choice_of(answer).as_deref(), number, "{answer}");
        }
    }

    #[test]
    fn answers_need_what_they_answer() {
        let said = |part, depth, text| DigestLine::new(part, depth, text);
        let mut lines = vec![
            said(Part::Assistant, 0, "Two are left:"),
            said(Part::Assistant, 1, "1. HAT1"),
            said(Part::Assistant, 1, "2. HAT2"),
            said(Part::User, 0, "2, but in economy."),
            said(Part::Assistant, 0, "Is it for you?"),
            said(Part::Assistant, 1, "I ask for the name."),
            said(Part::Call, 0, "look_up()"),
            said(Part::User, 0, "Yes."),
            said(Part::User, 0, "No."),
        ];
        note_choices(&mut lines);
        let within: Vec<Option<usize>> = lines.iter().map(|line| line.within).collect();
        let none = None;
        assert_eq!(
            within,
            [none, none, none, Some(1), none, none, none, Some(3), none]
        );
    }
}
