//! Sentences of who answers that ask for something, and those that only say that one helps.

use super::lexicon::{BESIDES, SERVES};
use super::speech::{is_polite, words};
use super::words::{TELLING, shape, words_of};

/// How sentences begin, in small letters, that ask the user for what he says next.
const BEGINNINGS: [&str; 17] = [
    "please ",
    "kindly ",
    "say ",
    "just say ",
    "tell me ",
    "confirm ",
    "waiting for your ",
    "let me know ",
    "bitte ",
    "sagen sie mir ",
    "veuillez ",
    "merci de ",
    "por favor",
    "dígame ",
    "per favore",
    "mi dica ",
    "пожалуйста",
];
/// How sentences begin, in small letters, that tell what is done once the user has answered.
const CONDITIONS: [&str; 20] = [
    "once you",
    "once i ",
    "once i'",
    "once we",
    "as soon as you",
    "as soon as i ",
    "after you",
    "when you are ready",
    "when you're ready",
    "to proceed",
    "to help you",
    "to assist you",
    "this will help me",
    "sobald ",
    "una vez que",
    "en cuanto",
    "une fois",
    "dès que",
    "non appena",
    "assim que",
];
/// Signs of that anywhere in a sentence.
const SIGNS: [&str; 16] = [
    "say go",
    "say the word",
    "please let me know",
    "please provide",
    "please confirm",
    "could you please",
    "i'll need your",
    "i need your",
    "i'll need the following",
    "i need the following",
    "provide the following",
    "请告诉",
    "请提供",
    "请确认",
    "教えてください",
    "알려 주세요",
];
/// How sentences begin that tell something as a request.
const NOTES: [&str; 8] = [
    "please note",
    "please be ",
    "please keep",
    "please remember",
    "please do not",
    "please don't",
    "bitte beachten",
    "veuillez noter",
];

/// How sentences begin, in small letters, that say what one helps with: the user has asked for it.
const OFFERS: [&str; 17] = [
    "i can assist you ",
    "i can assist with ",
    "i can help you ",
    "i can help with ",
    "i can certainly help ",
    "i can certainly assist ",
    "i'd be happy to help ",
    "i'd be happy to assist ",
    "i would be happy to help ",
    "i would be happy to assist ",
    "i'll be happy to help ",
    "i'm happy to help ",
    "i'm here to help ",
    "i have retrieved your ",
    "ich helfe ihnen gerne ",
    "puedo ayudarle ",
    "je peux vous aider ",
];
/// Words of such a sentence that says more: what it does not do.
const LIMITED: [&str; 10] = [
    "but", "cannot", "can't", "not", "only", "unless", "nur", "nicht", "solo", "pas",
];

/// Whether a sentence is a question.
#[must_use]
pub fn is_question(sentence: &str) -> bool {
    sentence.ends_with(['?', '？'])
}

/// Whether a sentence of who answers asks for something: what the user said next has answered it.
#[must_use]
pub fn asks(sentence: &str) -> bool {
    if is_question(sentence) {
        return true;
    }
    let lower = sentence.to_lowercase();
    let begins = |beginning: &str| lower.starts_with(beginning);
    let is_request = BEGINNINGS.iter().any(|beginning| begins(beginning))
        || SIGNS.iter().any(|sign| lower.contains(sign));
    is_request && !NOTES.iter().any(|note| begins(note)) && !only_serves(sentence)
}

/// Whether a sentence of who answers only tells that he goes on once the user has said what is
/// asked for: it is past when that was said.
#[must_use]
pub fn waits(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let begins = CONDITIONS
        .iter()
        .any(|beginning| lower.starts_with(beginning));
    begins && !words_of(sentence).any(|word| shape(word) >= TELLING)
}

/// Whether a sentence of who answers says nothing but that one helps, looks or waits.
#[must_use]
pub fn only_serves(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let serves = |word: &str| SERVES.contains(word);
    let all_serve = words(&lower).any(serves)
        && words(&lower).all(|word| serves(word) || BESIDES.contains(word) || is_polite(word));
    all_serve || offers(&lower) && !words_of(sentence).any(|word| shape(word) >= TELLING)
}

/// Whether a sentence, in small letters, says what one helps with, and no more.
fn offers(lower: &str) -> bool {
    OFFERS.iter().any(|beginning| lower.starts_with(beginning))
        && !is_question(lower)
        && !lower.contains(|c: char| c.is_ascii_digit())
        && !words(lower).any(|word| LIMITED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_from_notes() {
        for request in [
            "Which of them?",
            "Please confirm with a \"yes\" to proceed.",
            "To proceed, I'll need your user ID.",
            "Bitte nennen Sie mir die Nummer.",
        ] {
            assert!(asks(request), "{request}");
        }
        for note in [
            "Please note that it cannot be changed.",
            "Please hold on for a moment.",
            "W-3 was cancelled.",
            "It pleases them.",
        ] {
            assert!(!asks(note), "{note}");
        }
    }

    #[test]
    fn what_is_done_once_the_user_has_answered_is_past_when_he_has() {
        for waiting in [
            "Once you confirm, I'll proceed with the booking.",
            "To proceed with the booking, I need to look up the profile.",
            "Sobald Sie das bestätigen, buche ich.",
        ] {
            assert!(waits(waiting), "{waiting}");
        }
        for other in [
            "Once you confirm, I'll charge $348 to card_4196779.",
            "I'll cancel both.",
            "Once upon a time.",
        ] {
            assert!(!waits(other), "{other}");
        }
    }

    #[test]
    fn offers_of_help_say_nothing_else() {
        for offer in [
            "I can help you with that.",
            "No problem!",
            "Please hold on for a moment.",
            "If you need any further assistance, feel free to ask!",
            "I can assist you with downgrading your business class flights to economy.",
            "I have retrieved your reservation details.",
        ] {
            assert!(only_serves(offer), "{offer}");
        }
        for other in [
            "I can help you with W-3.",
            "I can help you with the exchange, but not with the refund.",
            "I can help you with that for $50.",
            "I'd be happy to waive the fee.",
            "It can be cancelled.",
            "I need two rooms.",
            "No.",
            "It is.",
            "No refund is due.",
        ] {
            assert!(!only_serves(other), "{other}");
        }
    }
}
