//! Signs in what people say: demands, refusals and limits; greetings and thanks.

use super::lexicon::{CORRECTIONS, DECIDES, DEMANDS, LIMITS, POLITE, PROPOSES, RETRACTS, SO};

/// Signs of demands where words are not told apart by blanks.
const DEMANDS_WITHIN: [&str; 32] = [
    "不",
    "别",
    "要",
    "必须",
    "只",
    "没",
    "禁",
    "过敏",
    "预算",
    "改",
    "换",
    "ない",
    "なく",
    "変更",
    "変わ",
    "やっぱり",
    "だけ",
    "必ず",
    "ไม่",
    "ต้อง",
    // Endings stand behind these in Korean.
    "지 마",
    "지 말",
    "지 않",
    "지말",
    "지마",
    "싫",
    "말고",
    "빼고",
    "빼 ",
    "안 돼",
    "알레르기",
    "대신",
];
/// How sentences that correct begin where words are not told apart by blanks.
const CORRECTIONS_BEGIN: [&str; 8] = ["不", "改", "换", "还是", "いや", "やっぱり", "違", "아니"];
/// What such sentences have wherever it stands.
const REPLACES: [&str; 41] = [
    " instead",
    "no longer",
    "not any more",
    "anymore",
    "no good",
    "moved it to",
    "moved to",
    "changed to",
    "changed my mind",
    "after all",
    "rather than",
    "statt ",
    "nicht mehr",
    "verschoben",
    "doch nicht",
    "à la place",
    "au lieu de",
    "n'est plus",
    "ya no",
    "en vez de",
    "en lugar de",
    "al final ",
    "invece di",
    "non più",
    "em vez de",
    "já não",
    "in plaats van",
    "niet meer",
    "zamiast",
    "już nie",
    "вместо",
    "больше не",
    "改成",
    "改为",
    "换成",
    "不要了",
    "ではなく",
    "に変更",
    "やめて",
    "대신",
    "아니라",
];
/// The same of what limits what was said before.
const LIMITS_WITHIN: [&str; 10] = [
    "但",
    "不过",
    "然而",
    "除非",
    "否则",
    "ただし",
    "しかし",
    "하지만",
    "그러나",
    "단,",
];
/// No such word is longer (bytes).
const LONGEST_LIMIT: usize = 32;
/// The same of what who answers suggests.
const PROPOSES_WITHIN: [&str; 10] = [
    "建议",
    "推荐",
    "首先",
    "然后",
    "总共",
    "一共",
    "提案",
    "おすすめ",
    "合計",
    "แนะนำ",
];

/// What a sentence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// It demands, refuses or limits something, or has a number.
    Demands,
    /// It greets, thanks or agrees, and says nothing else.
    Polite,
    /// Any other.
    Plain,
}

impl Speech {
    /// What a sentence is for, by its words.
    #[must_use]
    pub fn of(sentence: &str) -> Self {
        let lower = sentence.to_lowercase();
        if words(&lower).all(is_polite) {
            return Speech::Polite;
        }
        if demands(&lower) || lower.contains(|c: char| c.is_ascii_digit()) {
            Speech::Demands
        } else {
            Speech::Plain
        }
    }
}

/// Whether a sentence in small letters demands, refuses or limits something.
fn demands(lower: &str) -> bool {
    words(lower).any(|word| DEMANDS.contains(word)) || has_any(lower, &DEMANDS_WITHIN)
}

/// Whether a sentence of a text demands, refuses or limits something.
#[must_use]
pub fn limits(sentence: &str) -> bool {
    demands(&sentence.to_lowercase())
}

/// The same where words are not told apart by blanks.
const DECIDES_WITHIN: [&str; 10] = [
    "已付",
    "订了",
    "预订了",
    "决定",
    "那就",
    "所以",
    "予約し",
    "決め",
    "예약했",
    "결정",
];

/// Whether a sentence says what was decided, agreed or done, or what follows from that before it.
#[must_use]
pub fn decides(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let mut all = words(&lower);
    let begins = all.next().is_some_and(|first| SO.contains(first));
    begins || words(&lower).any(|word| DECIDES.contains(word)) || has_any(&lower, &DECIDES_WITHIN)
}

/// Whether a sentence takes back or replaces what was said before.
#[must_use]
pub fn corrects(sentence: &str) -> bool {
    let replaces = |lower: &str| REPLACES.iter().any(|sign| lower.contains(sign));
    begins_as_correction(sentence) || replaces(&sentence.to_lowercase())
}

/// How answers begin that deny what was said before, up to a mark or the end, in small letters; how
/// those do where more follows; and both where words are not told apart by blanks.
const NOES: [&str; 14] = [
    "bukan", "hayır", "nee", "nein", "nej", "nie", "no", "non", "nope", "não", "tidak", "yok",
    "không", "нет",
];
const HESITATIONS: [&str; 7] = [
    "actually",
    "correction",
    "halt",
    "moment",
    "oops",
    "sorry",
    "wait",
];
const DENIALS_BEGIN: [&str; 7] = ["不对", "不是", "不，", "いや", "違", "いいえ", "아니"];

/// Whether an answer begins with a no to what was said before: `No. Keep the lake view.` One that
/// only thanks besides does not.
#[must_use]
pub fn denies(sentence: &str) -> bool {
    let is_mark = |c: char| matches!(c, ',' | '.' | '!' | ';' | ':' | '–' | '—');
    let end = sentence.find(is_mark).unwrap_or(sentence.len());
    let (first, behind) = sentence.split_at_checked(end).unwrap_or((sentence, ""));
    let first = first.trim().to_lowercase();
    let more = behind.trim_matches(|c: char| is_mark(c) || c.is_whitespace());
    let says_more = !more.is_empty();
    let hesitates = says_more && HESITATIONS.contains(&first.as_str());
    let only_thanks = says_more && Speech::of(more) == Speech::Polite;
    (NOES.contains(&first.as_str()) || hesitates) && !only_thanks
        || DENIALS_BEGIN.iter().any(|sign| sentence.starts_with(sign))
}

/// How sentences begin by which a model says that it was wrong, in small letters.
const ADMISSIONS: [&str; 24] = [
    "apologies",
    "correction",
    "i apologi",
    "i was wrong",
    "my mistake",
    "my apologies",
    "oops",
    "sorry",
    "that was wrong",
    "you are right",
    "you're right",
    "entschuldigung",
    "sie haben recht",
    "du hast recht",
    "pardon",
    "vous avez raison",
    "tu as raison",
    "perdón",
    "tienes razón",
    "tiene razón",
    "抱歉",
    "对不起",
    "申し訳",
    "失礼",
];

/// Whether a model says by a sentence that it was wrong.
#[must_use]
pub fn admits(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    ADMISSIONS.iter().any(|known| lower.starts_with(known))
}

/// Words that begin a condition, in small letters, and the same where no blanks part words.
const CONDITIONS: [&str; 24] = [
    "if",
    "when",
    "unless",
    "wenn",
    "falls",
    "si",
    "se",
    "cuando",
    "quando",
    "quand",
    "als",
    "indien",
    "wanneer",
    "если",
    "когда",
    "jeśli",
    "gdy",
    "kiedy",
    "eğer",
    "jika",
    "kalau",
    "bila",
    "om",
    "nếu",
];
const CONDITIONS_BEGIN: [&str; 4] = ["如果", "若", "当", "もし"];

/// Whether a sentence begins with a condition that a colon ends: `If it is empty: nothing is read.`
/// What follows it is so then only.
#[must_use]
pub fn supposes(sentence: &str) -> bool {
    let said = sentence.trim_start_matches(IN_MARKS);
    if !said.contains([':', '：']) {
        return false;
    }
    let first = words(said)
        .next()
        .filter(|first| first.len() <= LONGEST_LIMIT);
    first.is_some_and(|first| CONDITIONS.contains(&first.to_lowercase().as_str()))
        || CONDITIONS_BEGIN.iter().any(|begin| said.starts_with(begin))
}

/// How sentences begin by which a model warns of doing something, in small letters, and what goes
/// on behind them where they are only polite.
const WARNINGS: [&str; 19] = [
    "do not ",
    "don't ",
    "don’t ",
    "must not ",
    "never ",
    "auf keinen fall ",
    "keinesfalls ",
    "niemals ",
    "nicht ",
    "ne pas ",
    "ne surtout ",
    "nunca ",
    "no hay que ",
    "mai ",
    "não ",
    "nie ",
    "не ",
    "不要",
    "切勿",
];
const NO_WARNINGS: [&str; 4] = ["hesitate", "worry", "mind", "know"];

/// Whether a model warns by a sentence of doing something, or takes back what it said before:
/// `**Do not apply it**: it would replace the database.`
#[must_use]
pub fn warns(sentence: &str) -> bool {
    let lower = sentence.trim_start_matches(IN_MARKS).to_lowercase();
    let behind = WARNINGS.iter().find_map(|begin| lower.strip_prefix(begin));
    behind.is_some_and(|behind| !NO_WARNINGS.iter().any(|word| behind.starts_with(word)))
        || lower.contains("i was wrong")
}

/// What may stand before the first word of a sentence: marks of emphasis, of items, of warnings.
const IN_MARKS: [char; 7] = ['*', '_', '-', '•', '⚠', '\u{fe0f}', ' '];

/// Whether a later sentence of a message takes back what the ones before it say: `The airline has
/// withdrawn it meanwhile.`
#[must_use]
pub fn retracts(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    words(&lower).any(|word| RETRACTS.contains(word))
        || RETRACTIONS.iter().any(|sign| sentence.contains(sign))
}

/// The same where words are not told apart by blanks, and what is no word.
const RETRACTIONS: [&str; 6] = ["must not", "但是", "不过", "しかし", "ただし", "하지만"];

fn begins_as_correction(sentence: &str) -> bool {
    let first = words(sentence)
        .next()
        .filter(|first| first.len() <= LONGEST_LIMIT);
    first.is_some_and(|first| CORRECTIONS.contains(first.to_lowercase().as_str()))
        || CORRECTIONS_BEGIN
            .iter()
            .any(|sign| sentence.starts_with(sign))
}

/// Whether a sentence only greets or thanks somebody by name. Of a customer, "OK, Tuesday" is a
/// choice: it is for those who answer.
#[must_use]
pub fn greets_by_name(sentence: &str) -> bool {
    let mut all = words(sentence);
    let is_name = |word: &str| word.chars().next().is_some_and(char::is_uppercase);
    all.next()
        .is_some_and(|first| is_polite(&first.to_lowercase()))
        && all.all(|word| is_name(word) || is_polite(&word.to_lowercase()))
}

/// Whether a sentence of who answers suggests, offers, promises or decides something.
#[must_use]
pub fn proposes(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    words(&lower).any(|word| PROPOSES.contains(word)) || has_any(&lower, &PROPOSES_WITHIN)
}

/// Whether a text begins with a sentence that limits the one before it: said without it, that would
/// promise too much.
#[must_use]
pub fn limits_what_is_before(text: &str) -> bool {
    let text = text.trim_start();
    if LIMITS_WITHIN.iter().any(|sign| text.starts_with(sign)) {
        return true;
    }
    let first = words(
        text.get(..text.floor_char_boundary(LONGEST_LIMIT))
            .unwrap_or_default(),
    )
    .next();
    first.is_some_and(|first| LIMITS.contains(first.to_lowercase().as_str()))
}

/// Whether a text has one of these signs, none of which is of ASCII.
fn has_any(text: &str, signs: &[&str]) -> bool {
    !text.is_ascii() && signs.iter().any(|sign| text.contains(sign))
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')))
        .filter(|word| !word.is_empty())
}

/// Whether a word in small letters is one of greetings and thanks.
pub(super) fn is_polite(word: &str) -> bool {
    POLITE.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_denies_and_one_that_thanks_does_not() {
        for answer in [
            "No.",
            "no",
            "Nein, die andere.",
            "Wait, the blue one",
            "不对，是120号",
        ] {
            assert!(denies(answer), "{answer}");
        }
        for other in [
            "No, thanks.",
            "wait",
            "No insurance please",
            "Note 12, please",
            "Change it",
        ] {
            assert!(!denies(other), "{other}");
        }
    }

    #[test]
    fn a_model_admits_that_it_was_wrong() {
        assert!(admits("You are right: 24 months.") && admits("Sorry, that was B4."));
        assert!(!admits("Right away: 24 months.") && !admits("I'm sorry to hear that."));
    }

    #[test]
    fn sentences_that_limit_what_was_said_are_known_by_their_first_word() {
        for limit in [
            " But only by card.",
            "However, not today.",
            "不过要加钱。",
            "Sauf le lundi.",
        ] {
            assert!(limits_what_is_before(limit), "{limit}");
        }
        for other in ["Butter is out.", "It is open, but late.", "", "…"] {
            assert!(!limits_what_is_before(other), "{other}");
        }
    }

    #[test]
    fn what_was_decided_is_told_from_what_is_only_said() {
        for decided in [
            "So we go with the house in Ascheberg.",
            "I've already reserved it: RK-2026-117.",
            "Dann lieber Freitag.",
            "Ya pagué la señal.",
            "那就周五吧",
        ] {
            assert!(decides(decided), "{decided}");
        }
        for other in [
            "Bad news: the owner writes that it's only free from Saturday.",
            "Sofas are not included.",
            "那里有停车场吗",
            "",
        ] {
            assert!(!decides(other), "{other}");
        }
    }

    #[test]
    fn thanks_by_name_say_nothing_else() {
        for polite in ["Thank you, Mia Li!", "Hello, Omar.", "You're welcome!"] {
            assert!(greets_by_name(polite), "{polite}");
        }
        for plain in ["Mia, thank you.", "Thank you for waiting, Mia.", "W-3."] {
            assert!(!greets_by_name(plain), "{plain}");
        }
    }

    #[test]
    fn corrections_are_known_by_their_words() {
        for correction in [
            "No, hold that.",
            "Scrap the premium.",
            "Ganti.",
            "还是不要了",
            "So May is no good, we've moved it to June.",
            "Lieber zwei statt drei.",
        ] {
            assert!(corrects(correction), "{correction}");
        }
        for other in ["Nowhere else.", "Add a premium.", ""] {
            assert!(!corrects(other), "{other}");
        }
    }

    #[test]
    fn demands_are_told_from_thanks() {
        for demand in [
            "Do not cancel W-3.",
            "The budget is 1,200 euros.",
            "Bitte nicht stornieren.",
            "我丈夫对海鲜过敏，不要订海鲜餐厅。",
        ] {
            assert_eq!(Speech::of(demand), Speech::Demands, "{demand}");
        }
        for polite in ["Thank you so much!", "Hello!", "谢谢！", "OK, bye."] {
            assert_eq!(Speech::of(polite), Speech::Polite, "{polite}");
        }
        assert_eq!(Speech::of("We sat outside."), Speech::Plain);
        assert!(limits("Please do not quote it.") && !limits("We sat outside."));
    }
}
