//! Which item of a list an answer chooses: by its number, its letter, its place or its words.

use std::ops::Range;

use super::cheapest::{cheapest, takes_cheapest};
use super::ordinals::{LOOKED_AT_CHARS, OPTIONS, ORDINAL_CHARS, Place, first_chars, ordinal_of};
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, entry_from, leading_number};
use crate::core::strategy::digest::lists::{
    is_bullet, is_item, is_letter_abroad, is_listed, is_numbered_or_bullet, is_roman,
};
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{REFUSALS, asks, is_question, words_of};
use crate::core::{Cancel, Cancelled};

/// The longest word before the number of a choice (bytes).
const CHOICE_BYTES: usize = 12;
/// The least score of the words by which an answer names an item, each by how few items have it:
/// of a short sentence one of two is enough; and how much more that is than the next best.
const LEAST_OF_SHORT: f32 = 0.6;
const LEAST_OF_WORDS: f32 = 1.38;
const NEXT_BEST: f32 = 1.5;
/// The shortest of them (bytes).
const LEAST_WORD: usize = 3;
/// Words that only join others: that one of two items has one of them says nothing.
const JOINING: [&str; 52] = [
    "also", "and", "are", "auf", "but", "can", "com", "con", "das", "dem", "den", "der", "des",
    "die", "does", "ein", "eine", "for", "from", "has", "have", "het", "ist", "les", "like", "los",
    "mit", "need", "non", "our", "para", "per", "por", "pour", "que", "sin", "sur", "that", "the",
    "then", "there", "this", "und", "une", "until", "von", "van", "want", "was", "will", "with",
    "you",
];
/// So many of the model's newest lists are looked at for what a newer message describes, the fewest
/// items of one, and so many parts of the message.
const MOST_LISTS: usize = 3;
const LEAST_ITEMS: usize = 2;
const MOST_PARTS: usize = 24;
/// What may stand before a choice in brackets (bytes), and the words in which one by its letter
/// stands.
const BEFORE_BYTES: usize = 24;
const MOST_WORDS: usize = 8;
/// Letters of items that are no words of their own.
const LETTERS: [&str; 11] = ["b", "c", "d", "f", "g", "h", "B", "C", "D", "F", "G"];

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
/// that is no word of its own, as an option, or by its place: `Ambil C saja`, `then the second`.
pub(super) fn item_by_letter(offered: &[DigestLine], answer: &str) -> Option<usize> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    let is_short = answer.chars().count() <= ORDINAL_CHARS;
    let is_large = |mark: &String| {
        let letter = mark.to_uppercase();
        let mut words = answer.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == letter)
    };
    let letter = letter_of(answer).filter(|mark| is_short || is_large(mark));
    let place = match ordinal_of(answer) {
        Some(Place::Nth(nth)) => Some(nth.to_string()),
        _ => None,
    };
    let mark = option_in(answer).or(letter).or(place)?;
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
    let by_place = |place: Place| match place {
        Place::Last => last_item(offered),
        Place::Nth(nth) => item(nth.to_string()).or_else(|| bullet_at(offered, nth)),
    };
    place.or_else(|| ordinal_of(answer).and_then(by_place))
}

/// The last item of a list.
fn last_item(offered: &[DigestLine]) -> Option<usize> {
    let mut items = offered.iter();
    items.rposition(|line| is_numbered_or_bullet(&line.text))
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

/// The item that an answer names by its words: by a short sentence of it, or else `by_all` of them.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn item_by_words(
    offered: &[DigestLine],
    answer: &[DigestLine],
    by_all: bool,
    cancel: &Cancel,
) -> Result<Option<usize>, Cancelled> {
    let items = Items::of(offered, cancel)?;
    let of_text = |said: &Set<String>, least: f32| items.named_by(said, least);
    let lowest = items.lowest;
    let mut all: Set<String> = Set::default();
    let (mut found, mut refused) = (None, None);
    for line in answer {
        cancel.check_budget()?;
        for clause in clauses_of(&line.text) {
            let mut parts = clause.split([',', '，', '、']);
            if lowest.is_some()
                && parts.any(|part| takes_cheapest(part) && !refuses(part) && !is_question(part))
            {
                return Ok(lowest);
            }
            let said: Set<String> = words_in(clause).collect();
            let is_short = clause.chars().count() <= ORDINAL_CHARS;
            match (is_short && !is_question(clause), refuses(clause)) {
                (true, false) if found.is_none() => found = of_text(&said, LEAST_OF_SHORT),
                (true, true) if refused.is_none() => refused = of_text(&said, LEAST_OF_SHORT),
                _ => {}
            }
            all.extend(said);
        }
    }
    if found.is_none() && by_all {
        found = of_text(&all, LEAST_OF_WORDS);
    }
    // Who does not want the one of two takes the other.
    if found.is_none()
        && let ([one, other], Some(refused)) = (items.words.as_slice(), refused)
    {
        found = Some(if one.0 == refused { other.0 } else { one.0 });
    }
    Ok(found)
}

/// The items of the model's newest lists that the user's newest messages describe in passing:
/// `we'll take the one with the balcony, and yes to the car`.
///
/// # Errors
/// [`Cancelled`].
pub(in super::super) fn items_described(
    lines: &[DigestLine],
    said: &[String],
    cancel: &Cancel,
) -> Result<Vec<usize>, Cancelled> {
    let mut lists: Vec<Range<usize>> = Vec::new();
    let mut end = lines.len();
    while lists.len() < MOST_LISTS {
        cancel.check_budget()?;
        let of_model = |line: &DigestLine| line.depth == 0 && line.part == Part::Assistant;
        let before = lines.get(..end).unwrap_or_default();
        let Some(begin) = before.iter().rposition(of_model) else {
            break;
        };
        let list = entry_from(lines, begin);
        let items = lines.get(list.clone()).unwrap_or_default().iter();
        if items
            .filter(|line| is_numbered_or_bullet(&line.text))
            .count()
            >= LEAST_ITEMS
        {
            lists.push(list);
        }
        end = begin;
    }
    let mut found = Vec::new();
    let clauses = said.iter().flat_map(|text| clauses_of(text));
    let clauses = clauses.filter(|clause| !is_question(clause));
    let parts = clauses.flat_map(|clause| clause.split([',', ':', '，', '、', '：']));
    for part in parts.take(MOST_PARTS) {
        let answer = [DigestLine::new(Part::User, 0, part.trim())];
        for list in &lists {
            let offered = lines.get(list.clone()).unwrap_or_default();
            let item = item_by_words(offered, &answer, false, cancel)?;
            if let Some(item) = item.filter(|item| !is_asked_for(offered, *item)) {
                found.push(list.start + item);
                break;
            }
        }
    }
    Ok(found)
}

/// Whether an item is of a list of what the model needs to know: an answer to it chooses nothing.
fn is_asked_for(offered: &[DigestLine], item: usize) -> bool {
    let above = offered.get(item).and_then(|line| line.within);
    let head = above.and_then(|above| offered.get(item.checked_sub(above)?));
    head.is_some_and(|head| asks(&head.text) && !is_question(&head.text))
}

/// The items of a list.
struct Items {
    /// Their places, each with the words of what is said of it.
    words: Vec<(usize, Set<String>)>,
    /// How many have a word.
    with: Map<String, u32>,
    /// The one with the lowest price.
    lowest: Option<usize>,
}

impl Items {
    fn of(offered: &[DigestLine], cancel: &Cancel) -> Result<Self, Cancelled> {
        // With what is said of each in the lines within it.
        let mut texts: Vec<(usize, String)> = Vec::new();
        for (at, line) in offered.iter().enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            if is_numbered_or_bullet(&line.text) {
                texts.push((at, line.text.clone()));
            } else if let Some((_, text)) = texts.last_mut().filter(|_| line.within.is_some()) {
                text.push(' ');
                text.push_str(&line.text);
            }
        }
        let lowest = cheapest(texts.iter().map(|(_, text)| text.as_str()));
        let mut items = Items {
            lowest: lowest.and_then(|nth| texts.get(nth)).map(|(at, _)| *at),
            words: Vec::with_capacity(texts.len()),
            with: Map::default(),
        };
        for (at, text) in texts {
            let words: Set<String> = words_in(&text).collect();
            for word in &words {
                *items.with.entry(word.clone()).or_default() += 1;
            }
            items.words.push((at, words));
        }
        Ok(items)
    }

    /// The item that has most of some words, by how few items have each of them: no less than
    /// `least`.
    fn named_by(&self, said: &Set<String>, least: f32) -> Option<usize> {
        let rarity = |word: &String| {
            let count = self.with.get(word).copied().unwrap_or(1);
            (self.words.len() as f32 / count as f32).ln()
        };
        let score = |words: &Set<String>| -> f32 {
            let shared = words.iter().filter(|word| said.contains(*word));
            shared.map(rarity).sum()
        };
        let items = self.words.iter();
        let mut scores: Vec<(f32, usize)> = items.map(|(at, words)| (score(words), *at)).collect();
        scores.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let (best, at) = *scores.first()?;
        let next = scores.get(1).map_or(0.0, |(next, _)| *next);
        (best >= least && best >= NEXT_BEST * next).then_some(at)
    }
}

/// The sentences of a line, also short ones: `The ten years one. Not the paint.`
fn clauses_of(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let ends = |(at, c): &(usize, char)| match c {
            '。' | '；' | '！' | '？' => true,
            '.' | ';' | '!' | '?' => rest
                .get(at + 1..)
                .is_some_and(|behind| behind.starts_with(char::is_whitespace)),
            _ => false,
        };
        let end = rest.char_indices().find(ends);
        let end = end.map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (clause, behind) = rest.split_at_checked(end)?;
        rest = behind;
        (!clause.is_empty()).then_some(clause)
    })
}

/// The words by which an item is named, in small letters. Where no blanks stand between words, runs
/// of signs that names are written in.
fn words_in(text: &str) -> impl Iterator<Item = String> {
    let is_sign = |c: char| matches!(c, '\u{30a1}'..='\u{30fc}' | '\u{4e00}'..='\u{9fff}');
    let runs = text.split(move |c: char| !is_sign(c));
    let runs = runs
        .filter(|run| run.chars().nth(1).is_some())
        .map(str::to_owned);
    let words = words_of(text).filter(|word| word.len() >= LEAST_WORD);
    let words = words.map(str::to_lowercase);
    words
        .filter(|word| !JOINING.contains(&word.as_str()))
        .chain(runs)
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
    // `А` begins a Russian sentence, too.
    let abroad = first.filter(|word| {
        let letter = word.trim_end_matches(marks);
        is_letter_abroad(letter) && (letter.len() < word.len() || answer.trim() == letter)
    });
    if let Some(letter) = abroad {
        return Some(letter.trim_end_matches(marks).to_lowercase());
    }
    let roman = first.map(|word| word.trim_end_matches(marks));
    let roman = roman.filter(|word| word.len() > 1 && is_roman(word));
    let letter = alone.map(|word| word.trim_end_matches(marks)).or(roman);
    letter
        .or_else(|| words.find(is_letter))
        .map(str::to_lowercase)
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
    }

    #[test]
    fn a_newer_message_describes_an_item_of_a_list() {
        let line = |text: &str, depth, within| DigestLine {
            depth,
            within,
            ..DigestLine::new(Part::Assistant, 1, text)
        };
        let list = |head| {
            vec![
                line(head, 0, None),
                line("- Quinta Jasmineiro, €1,186.40", 1, Some(1)),
                line("- Varandas, €1,042.75.", 1, Some(2)),
                line("It has a balcony.", 1, Some(1)),
                line("- Casa Pombal, €874.00", 1, Some(4)),
            ]
        };
        let told = |head, said: &str| {
            let said = [said.to_owned()];
            items_described(&list(head), &said, &Cancel::default()).unwrap()
        };
        let picks = "My three picks:";
        let balcony = "We'll take the one with the balcony, and yes to the car.";
        assert_eq!(told(picks, balcony), [2]);
        assert_eq!(told(picks, "The cheaper one, please."), [4]);
        assert!(told(picks, "Has one of them a balcony?").is_empty());
        assert!(told("I'll need the following information:", balcony).is_empty());
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
