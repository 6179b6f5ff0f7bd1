//! Which item of a list an answer chooses: by its number, its letter, its place or its words.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, leading_number};
use crate::core::strategy::digest::lists::{
    is_bullet, is_item, is_listed, is_numbered_or_bullet, is_roman,
};
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{REFUSALS, words_of};
use crate::core::{Cancel, Cancelled};

/// The longest word before the number of a choice (bytes).
const CHOICE_BYTES: usize = 12;
/// The fewest words by which an answer names an item.
const LEAST_WORDS: usize = 2;
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
        "prima",
        "primo",
        "eerste",
        "pertama",
        "första",
        "первый",
        "первая",
        "первую",
        "birinci",
        "ilk",
        "primeira",
        "primeiro",
        "pierwsza",
        "pierwszy",
        "pierwszą",
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
        "secondo",
        "tweede",
        "kedua",
        "andra",
        "второй",
        "вторая",
        "вторую",
        "ikinci",
        "druga",
        "drugi",
        "drugą",
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
        "terzo",
        "derde",
        "ketiga",
        "tredje",
        "третий",
        "третья",
        "третью",
        "üçüncü",
        "terceira",
        "terceiro",
        "trzeci",
        "trzecia",
        "trzecią",
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
        "vierde",
        "keempat",
        "fjärde",
        "четвёртый",
        "четвертый",
        "dördüncü",
        "quarto",
        "czwarta",
        "czwarty",
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
const ARTICLES: [&str; 18] = [
    "a", "das", "de", "dem", "den", "der", "die", "el", "het", "il", "la", "le", "o", "ta", "ten",
    "the", "yang", "your",
];
/// The longest answer that may name an item by its place alone, and how much of a longer one is
/// looked at (characters).
const ORDINAL_CHARS: usize = 48;
const LOOKED_AT_CHARS: usize = 256;

/// Ends a clause that takes nothing, too: `D is out`.
const OUT: &str = " out";

/// Which of the lines that the user was shown his answer chooses, by its number, letter or place:
/// by the answer as a whole, or by one of its clauses. A clause that refuses something names what
/// is not chosen.
pub(super) fn item_of(offered: &[DigestLine], answer: &str) -> Option<usize> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    if !refuses(answer) {
        return chosen_item(offered, answer);
    }
    let mut clauses = answer.split([',', ';', '，', '、', '.']);
    let taken = |clause: &str| {
        let clause = clause.trim();
        (!refuses(clause)).then(|| chosen_item(offered, clause))?
    };
    clauses.find_map(taken)
}

/// Which of the lines that the user was shown some messages before his answer chooses, by a letter
/// that is no word of its own, or as an option: `Ambil C saja`.
pub(super) fn item_by_letter(offered: &[DigestLine], answer: &str) -> Option<usize> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    let is_short = answer.chars().count() <= ORDINAL_CHARS;
    let is_large = |mark: &String| {
        let letter = mark.to_uppercase();
        let mut words = answer.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == letter)
    };
    let letter = letter_of(answer).filter(|mark| is_short || is_large(mark));
    let mark = option_in(answer).or(letter)?;
    let is_it = |line: &DigestLine| {
        let is_of_model = line.part == Part::Assistant;
        is_of_model && is_numbered_or_bullet(&line.text) && is_item(&line.text, &mark)
    };
    offered.iter().rposition(is_it).filter(|_| !refuses(answer))
}

fn refuses(clause: &str) -> bool {
    let lower = clause.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let is_out = |clause: &str| clause.trim_end().ends_with(OUT);
    words.any(|word| REFUSALS.contains(word))
        || lower.contains('不')
        || lower.split([',', ';', '.', ':']).any(is_out)
}

fn chosen_item(offered: &[DigestLine], answer: &str) -> Option<usize> {
    let item = |choice: String| {
        let is_it = |line: &DigestLine| {
            is_item(&line.text, &choice)
                || is_listed(&line.text) && option_in(&line.text).as_ref() == Some(&choice)
        };
        offered.iter().rposition(is_it)
    };
    let place = choice_of(answer).and_then(item);
    let place = place.or_else(|| letter_of(answer).and_then(item));
    let by_place = |place: u32| item(place.to_string()).or_else(|| bullet_at(offered, place));
    place.or_else(|| ordinal_of(answer).and_then(by_place))
}

/// The bullet at a place, counted from 1, of the only list that there is.
fn bullet_at(offered: &[DigestLine], place: u32) -> Option<usize> {
    let bullets = offered.iter().enumerate();
    let mut bullets = bullets.filter(|(_, line)| is_bullet(&line.text));
    let head =
        |(at, line): &(usize, &DigestLine)| line.within.and_then(|above| at.checked_sub(above));
    let first = bullets.clone().next();
    let is_list = first.is_some_and(|first| {
        let mut others = bullets.clone();
        others.all(|bullet| head(&bullet) == head(&first))
    });
    let at = usize::try_from(place).ok()?.checked_sub(1)?;
    bullets.nth(at).filter(|_| is_list).map(|(at, _)| at)
}

/// The item that has most of the words of an answer that no other item has.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn item_by_words(
    offered: &[DigestLine],
    answer: &[DigestLine],
    cancel: &Cancel,
) -> Result<Option<usize>, Cancelled> {
    let words = |line: &DigestLine| {
        words_of(&line.text)
            .map(str::to_lowercase)
            .collect::<Vec<_>>()
    };
    let mut said: Set<String> = Set::default();
    for line in answer {
        cancel.check_budget()?;
        said.extend(words(line));
    }
    // The only item with a word.
    let mut with_word: Map<String, Option<usize>> = Map::default();
    for (at, line) in offered.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        if is_numbered_or_bullet(&line.text) {
            for word in words(line).into_iter().filter(|word| said.contains(word)) {
                let only = with_word.entry(word).or_insert(Some(at));
                *only = only.filter(|only| *only == at);
            }
        }
    }
    let mut found: Map<usize, usize> = Map::default();
    for item in with_word.into_values().flatten() {
        *found.entry(item).or_default() += 1;
    }
    let most = found.values().copied().max().unwrap_or_default();
    let mut best = found.into_iter().filter(|(_, words)| *words == most);
    let item = best.next().map(|(item, _)| item);
    Ok(item.filter(|_| most >= LEAST_WORDS && best.next().is_none()))
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

/// The number of the item that a line is the answer to: `2: after five minutes`.
pub(super) fn answered_number(line: &str) -> Option<u32> {
    let (number, behind) = leading_number(line);
    let behind = behind.strip_prefix([':', ')'])?;
    let is_number = number.len() <= 2 && behind.starts_with([' ', '\t']);
    number.parse().ok().filter(|_| is_number)
}

/// The numbers that a short answer names, one after another: `now 3 and 4`, `1, 3 und 5 bitte`.
pub(super) fn numbers_in(answer: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    if answer.chars().count() > ORDINAL_CHARS {
        return numbers;
    }
    // Words that were passed since the last number.
    let mut passed: usize = 0;
    for word in answer.split(|c: char| c.is_whitespace() || matches!(c, ',' | '、' | '&' | '+')) {
        let word = word.trim_matches(['.', '!', '#', '(', ')']);
        if word.is_empty() {
            continue;
        }
        if !word.contains(|c: char| c.is_ascii_digit()) {
            passed += 1;
            continue;
        }
        let is_next = word.len() <= 2 && (numbers.is_empty() || passed <= 1);
        let Some(number) = word.parse().ok().filter(|_| is_next) else {
            return Vec::new();
        };
        numbers.push(number);
        passed = 0;
    }
    numbers
}

/// The letter that stands alone in an answer, as in `Nehmen Sie b, aber später`: none that is a
/// word somewhere.
fn letter_of(answer: &str) -> Option<String> {
    let marks = ['.', ',', ':', ';', ')', '!'];
    // At the beginning, a mark tells any letter from a word: `a. go.`
    let first = answer.trim_start_matches('(').split_whitespace().next();
    let alone = first.filter(|word| {
        let letter = word.trim_end_matches(marks);
        letter.len() == 1
            && letter.bytes().all(|b| b.is_ascii_alphabetic())
            && (letter.len() < word.len() || answer.trim().len() == 1)
    });
    let mut words = answer
        .split_whitespace()
        .map(|word| word.trim_end_matches(marks));
    let is_letter = |word: &&str| LETTERS.contains(word);
    let roman = first.map(|word| word.trim_end_matches(marks));
    let roman = roman.filter(|word| word.len() > 1 && is_roman(word));
    let letter = alone.map(|word| word.trim_end_matches(marks)).or(roman);
    letter
        .or_else(|| words.find(is_letter))
        .map(str::to_lowercase)
}

/// The number of the item that an answer names by its place: `Take the second.`, where it is short,
/// or `the second option`, `第二个`.
fn ordinal_of(answer: &str) -> Option<u32> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    let is_short = answer.chars().count() <= ORDINAL_CHARS;
    let behind = answer.split_once("第").map_or("", |(_, behind)| behind);
    let is_counted = |number: &str| {
        let behind = behind.strip_prefix(number);
        behind.is_some_and(|behind| COUNTERS.iter().any(|counter| behind.starts_with(counter)))
    };
    let number = |at: usize| u32::try_from(at + 1).ok();
    if let Some(at) = COUNTED.iter().position(|number| is_counted(number)) {
        return number(at);
    }
    let lower = answer.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    // `Wait a second` names none.
    let names = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let is_of_article = |article: &&&str| {
            article.len() > 1 || words.get(at).is_some_and(|word| word.ends_with(**article))
        };
        let before = before.filter(is_of_article);
        let is_option = words.get(at + 1).is_some_and(|word| OPTIONS.contains(word));
        before.is_some_and(|before| ARTICLES.contains(before)) && (is_short || is_option)
    };
    let place = |word: &str| ORDINALS.iter().position(|places| places.contains(&word));
    let mut named = words.iter().enumerate().filter(|(at, _)| names(*at));
    named.find_map(|(_, word)| place(word)).and_then(number)
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
            ("a. go.", Some("a")),
            ("A", Some("a")),
            ("A table, please", None),
            ("I. think so", Some("i")),
            ("Then C.", Some("c")),
            ("I need a car", None),
            ("D'accord, c'est bon", None),
        ] {
            assert_eq!(letter_of(answer).as_deref(), letter, "{answer}");
        }
        for (answer, number) in [
            ("Take the second one.", Some(2)),
            ("Die erste bitte", Some(1)),
            ("Wait a second.", None),
            (
                "Let it be the second option, HAT136 and HAT039, as it is the cheaper one.",
                Some(2),
            ),
            (
                "On the second day my daughter comes along, so that we need a larger room.",
                None,
            ),
            ("我选第二个。", Some(2)),
            ("第二天我要带女儿去玩。", None),
            ("Yes.", None),
        ] {
            assert_eq!(ordinal_of(answer), number, "{answer}");
        }
    }

    #[test]
    fn a_step_of_an_older_plan_is_named_by_its_letter_or_number() {
        let line = |text: &&str| DigestLine::new(Part::Assistant, 1, text);
        let plan = ["Plan:", "A. import it", "B. one rule", "3. clean up"];
        let plan: Vec<DigestLine> = plan.iter().map(line).collect();
        for (answer, item) in [
            (
                "lol yes, that is a separate ticket. ok, write B now, in main.tf",
                Some(2),
            ),
            (
                "Take option 3 before you apply anything, since it needs the room.",
                Some(3),
            ),
            ("take b", Some(2)),
            (
                "I would like to see it all once more before we go on, b or not",
                None,
            ),
            ("not B", None),
        ] {
            assert_eq!(item_by_letter(&plan, answer), item, "{answer}");
        }
    }

    #[test]
    fn what_is_refused_is_not_chosen() {
        let items = [
            "Options:",
            "- **A** a table",
            "- **B** a file",
            "3. nothing",
        ];
        let line = |text: &&str| {
            DigestLine::new(
                crate::core::strategy::digest::line::Part::Assistant,
                1,
                text,
            )
        };
        let items: Vec<DigestLine> = items.iter().map(line).collect();
        for (answer, item) in [
            ("A. Leave the limits alone.", Some(1)),
            ("Not 3, never. B, but later.", Some(2)),
            ("Option B", Some(2)),
            ("A primeira não, a terceira sim", Some(3)),
            ("Not 3.", None),
        ] {
            assert_eq!(item_of(&items, answer), item, "{answer}");
        }
    }

    #[test]
    fn several_items_are_told_by_their_numbers() {
        for (answer, numbers) in [
            ("Now 3 and 4.", &[3, 4][..]),
            ("1, 3 und 5 bitte", &[1, 3, 5]),
            ("We are 2 adults and have 3 bags", &[]),
            ("at 10:30 or 11", &[]),
            ("The rest, please", &[]),
        ] {
            assert_eq!(numbers_in(answer), numbers, "{answer}");
        }
        assert_eq!(answered_number("2: after five minutes"), Some(2));
        assert_eq!(answered_number("2. buy a table"), None);
        assert_eq!(answered_number("09:30: standup"), None);
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
}
