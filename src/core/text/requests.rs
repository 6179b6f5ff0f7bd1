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
    words(&lower).any(serves)
        && words(&lower).all(|word| serves(word) || BESIDES.contains(word) || is_polite(word))
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
        ] {
            assert!(only_serves(offer), "{offer}");
        }
        for other in [
            "I can help you with W-3.",
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
