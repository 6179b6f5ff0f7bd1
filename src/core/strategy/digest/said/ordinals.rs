//! Words for the place of an item in a list: `the second one`, `第二个`, `die letzte`.

/// The place of an item in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Counted from 1.
    Nth(u32),
    Last,
}

/// Words before the number or the letter of a choice, or behind the word for its place.
pub(super) const OPTIONS: [&str; 10] = [
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
/// The longest answer that may name an item by its place alone, and how much of a longer one is
/// looked at (characters).
pub(super) const ORDINAL_CHARS: usize = 48;
pub(super) const LOOKED_AT_CHARS: usize = 256;
/// Words for the places of items.
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
const COUNTERS: [&str; 17] = [
    "个", "個", "家", "种", "種", "款", "项", "項", "間", "间", "套", "条", "班", "趟", "番", "候",
    "案",
];
/// Words for places that need no article before them.
const PLACES: [&[&str]; 4] = [
    &[
        "الأول",
        "الأولى",
        "الاول",
        "الاولى",
        "הראשון",
        "הראשונה",
        "첫",
        "첫번째",
        "पहला",
        "पहली",
    ],
    &[
        "الثاني",
        "الثانية",
        "השני",
        "השנייה",
        "השניה",
        "두번째",
        "दूसरा",
        "दूसरी",
    ],
    &[
        "الثالث",
        "الثالثة",
        "השלישי",
        "השלישית",
        "세번째",
        "तीसरा",
        "तीसरी",
    ],
    &[
        "الرابع",
        "الرابعة",
        "הרביעי",
        "הרביעית",
        "네번째",
        "चौथा",
        "चौथी",
    ],
];
/// Words for the last item.
const LAST: [&str; 19] = [
    "last",
    "latter",
    "letzte",
    "letzten",
    "letztes",
    "laatste",
    "dernier",
    "dernière",
    "último",
    "última",
    "ultimo",
    "ultima",
    "последний",
    "последняя",
    "последнюю",
    "sista",
    "ostatni",
    "ostatnia",
    "ostatnią",
];
/// What may stand behind a word for a place that ends a clause.
const BEHIND: [&str; 8] = [
    "one", "please", "bitte", "then", "por", "favor", "svp", "uno",
];
/// What stands before such a word.
const ARTICLES: [&str; 18] = [
    "a", "das", "de", "dem", "den", "der", "die", "el", "het", "il", "la", "le", "o", "ta", "ten",
    "the", "yang", "your",
];
/// The longest clause that begins with a word for a place (characters).
const CLAUSE_CHARS: usize = 24;

/// The number of the item that an answer names by its place: `Take the second.`, where it is short,
/// or `the second option`, `第二个`.
pub(super) fn ordinal_of(answer: &str) -> Option<Place> {
    let answer = first_chars(answer, LOOKED_AT_CHARS);
    let is_short = answer.chars().count() <= ORDINAL_CHARS;
    let behind = answer.split_once("第").map_or("", |(_, behind)| behind);
    let is_counted = |number: &str| {
        let behind = behind.strip_prefix(number);
        behind.is_some_and(|behind| COUNTERS.iter().any(|counter| behind.starts_with(counter)))
    };
    let number = |at: usize| u32::try_from(at + 1).ok().map(Place::Nth);
    if let Some(at) = COUNTED.iter().position(|number| is_counted(number)) {
        return number(at);
    }
    let lower = answer.to_lowercase();
    let words_of = |clause| {
        let words = str::split(clause, |c: char| !c.is_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<&str>>()
    };
    let place = |word: &str, of: &[&[&str]; 4]| of.iter().position(|places| places.contains(&word));
    for clause in lower.split([',', ';', '.', '!', '?', '،', '؟']) {
        let words = words_of(clause);
        if let Some(at) = words
            .iter()
            .find_map(|word| place(word, &PLACES).filter(|_| is_short))
        {
            return number(at);
        }
        let named = |(at, word): (usize, &&str)| {
            let behind = words.get(at + 1..).unwrap_or_default();
            let ends = behind.iter().all(|word| BEHIND.contains(word));
            let is_option = behind.first().is_some_and(|word| OPTIONS.contains(word));
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            // `O segundo`, but not `wait a second`.
            let is_of = |article: &str| article.len() > 1 || word.ends_with(article);
            let has_article =
                before.is_some_and(|article| ARTICLES.contains(article) && is_of(article));
            let names = match before {
                None => ends && clause.chars().count() <= CLAUSE_CHARS,
                Some(_) => has_article && (is_short || is_option || ends),
            };
            let found = place(word, &ORDINALS).and_then(number);
            let last = (LAST.contains(word) && ends && has_article).then_some(Place::Last);
            found.or(last).filter(|_| names)
        };
        if let Some(place) = words.iter().enumerate().find_map(named) {
            return Some(place);
        }
    }
    None
}

/// The place of the item that a sentence of the model's begins with: `The first can't go out.`
pub(super) fn begins_with_place(sentence: &str) -> Option<Place> {
    let begin = first_chars(sentence.trim_start_matches(['*', '_']), CLAUSE_CHARS).to_lowercase();
    let mut words = begin.split(|c: char| !c.is_alphanumeric());
    words.next().filter(|article| ARTICLES.contains(article))?;
    let word = words.next()?;
    let nth = ORDINALS.iter().position(|places| places.contains(&word));
    let nth = nth.and_then(|at| u32::try_from(at + 1).ok());
    let last = LAST.contains(&word).then_some(Place::Last);
    nth.map(Place::Nth).or(last)
}

/// At most so many characters of a text, from its beginning.
pub(super) fn first_chars(text: &str, most: usize) -> &str {
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
    fn an_item_is_named_by_its_place() {
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
            ("选第一家，协议价。", Some(1)),
            (
                "First one. But he cannot drive further than the port of Dublin.",
                Some(1),
            ),
            (
                "Ja bitte, dann nehmen wir die zweite, wenn es dort am Tisch klappt.",
                Some(2),
            ),
            ("الثانية. والطالب اسمه أنس.", Some(2)),
            ("第二天我要带女儿去玩。", None),
            ("Yes.", None),
        ] {
            assert_eq!(ordinal_of(answer), number.map(Place::Nth), "{answer}");
        }
        let begins = |sentence| begins_with_place(sentence);
        assert_eq!(
            begins("The first can't go out as it stands."),
            Some(Place::Nth(1))
        );
        assert_eq!(
            begins("**Die zweite** liegt am Fluss."),
            Some(Place::Nth(2))
        );
        assert_eq!(begins("First I look at it."), None);
        let last = ordinal_of("Dann die letzte, bitte.");
        assert_eq!(last, Some(Place::Last));
        assert_eq!(ordinal_of("At last. The last train left."), None);
    }
}
