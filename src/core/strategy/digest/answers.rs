//! What answers need: "yes" says nothing without the question, and "2" nothing without the list.

use super::line::{DigestLine, Part, Standing};
use super::lists::is_item;
use crate::core::text::{asks, is_question};

/// The longest answer that says nothing without its question (characters), and the longest word
/// before the number of a choice (bytes).
const ANSWER_CHARS: usize = 14;
const CHOICE_BYTES: usize = 12;
/// What may stand before a choice in brackets (bytes), and the words in which one by its letter
/// stands.
const BEFORE_BYTES: usize = 24;
const MOST_WORDS: usize = 8;
/// Words before the letter of a choice.
const OPTIONS: [&str; 8] = [
    "option", "variant", "variante", "choice", "plan", "opción", "opzione", "opção",
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
/// What stands before such a word.
const ARTICLES: [&str; 11] = [
    "das", "dem", "den", "der", "die", "el", "il", "la", "le", "the", "your",
];
/// The longest answer that may name an item by its place (characters).
const ORDINAL_CHARS: usize = 48;

/// What the model said last, where nothing was done since, is what the user's newest message
/// answers: "yes" says nothing without it.
pub(super) fn note_answered(lines: &mut [DigestLine]) {
    let newest = lines.iter().rposition(|line| line.depth == 0);
    let entry = newest.and_then(|at| lines.get_mut(at..));
    for line in entry.into_iter().flatten() {
        if line.part == Part::Assistant && line.standing != Standing::Repeated {
            line.standing = Standing::Answered;
        }
    }
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
                let item = |choice: String| {
                    let is_it = |line: &DigestLine| is_item(&line.text, &choice);
                    asked.iter().rposition(is_it)
                };
                let place = choice_of(&line.text).and_then(item);
                let place = place.or_else(|| letter_of(&line.text).and_then(item));
                let place = place.or_else(|| ordinal_of(&line.text).and_then(item));
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
    let mut words = answer
        .split(|c: char| !c.is_alphanumeric())
        .take(MOST_WORDS);
    let is_option = |word: &str| OPTIONS.contains(&word.to_lowercase().as_str());
    words.find(|word| is_option(word));
    if let Some(letter) = words.next()
        && let Ok(c @ 'a'..='z') = letter.to_lowercase().parse::<char>()
    {
        return Some(c.to_string());
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

/// The number of the item that a short answer names by its place: `Take the second.`
fn ordinal_of(answer: &str) -> Option<String> {
    if answer.chars().count() > ORDINAL_CHARS {
        return None;
    }
    let lower = answer.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    // `Wait a second` names none.
    let names = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        before.is_some_and(|before| ARTICLES.contains(before))
    };
    let place = |word: &str| ORDINALS.iter().position(|places| places.contains(&word));
    let mut named = words.iter().enumerate().filter(|(at, _)| names(*at));
    named
        .find_map(|(_, word)| place(word))
        .map(|place| (place + 1).to_string())
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
