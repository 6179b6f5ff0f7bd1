//! The answer of a summariser: taken as data, and only when it is a summary.

use std::collections::HashSet;

use crate::core::conversation::{ratio, scale};
use crate::core::text::{Pattern, is_invisible, words_of};
use crate::core::tokens::Encoding;
use crate::core::wire::own_call::NoCompletion;

/// A summary must save at least this share of the tokens that it replaces.
const LEAST_SAVING: f64 = 0.3;
/// Fewer ungrounded words than this prove nothing: a model may spell one or two in its own way.
const FEW_UNGROUNDED: usize = 3;
/// A longer text than this is not a refusal, bytes.
const REFUSAL_BYTES: usize = 600;

/// The text of an answer.
#[derive(Debug)]
pub struct Answer {
    /// The summary that the model wrote, harmless.
    pub text: String,
    /// Whether the summary stood inside the tags that were asked for.
    pub tagged: bool,
}

/// Why an answer is not a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe them")]
pub enum Rejected {
    #[error("the answer is not a completion")]
    NotAnAnswer,
    #[error("the answer is empty")]
    Empty,
    #[error("the answer was cut off")]
    CutOff,
    #[error("the model refused")]
    Refused,
    #[error("the summary is longer than allowed")]
    TooLong,
    #[error("the summary saves too little")]
    NotSmaller,
    #[error("the summary contains identifiers that its source does not")]
    Ungrounded,
    #[error("the answer has no summary in the tags that were asked for")]
    Untagged,
}

impl Rejected {
    /// Every value.
    pub const ALL: [Rejected; 8] = [
        Rejected::NotAnAnswer,
        Rejected::Empty,
        Rejected::CutOff,
        Rejected::Refused,
        Rejected::TooLong,
        Rejected::NotSmaller,
        Rejected::Ungrounded,
        Rejected::Untagged,
    ];

    /// Label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Rejected::NotAnAnswer => "not_an_answer",
            Rejected::Empty => "empty",
            Rejected::CutOff => "cut_off",
            Rejected::Refused => "refused",
            Rejected::TooLong => "too_long",
            Rejected::NotSmaller => "not_smaller",
            Rejected::Ungrounded => "ungrounded",
            Rejected::Untagged => "untagged",
        }
    }
}

/// The limits that a summary must keep to.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The longest it may be, tokens.
    pub max_tokens: u64,
    /// Tokens that it replaces.
    pub stands_for: u64,
    /// The share of identifiers and numbers that may be ungrounded.
    pub max_ungrounded: f64,
}

/// A summary that passed the checks.
#[derive(Debug)]
pub struct Accepted {
    /// Its text, harmless.
    pub text: String,
    /// Its tokens.
    pub tokens: u64,
    /// The share of its identifiers and numbers that its source does not have.
    pub ungrounded: f64,
}

impl From<NoCompletion> for Rejected {
    fn from(missing: NoCompletion) -> Self {
        match missing {
            NoCompletion::NotACompletion => Rejected::NotAnAnswer,
            NoCompletion::CutOff => Rejected::CutOff,
            NoCompletion::Refused => Rejected::Refused,
        }
    }
}

impl Answer {
    /// Reads the text of an answer.
    ///
    /// # Errors
    /// [`Rejected`] when there is no summary in it.
    pub fn read(written: &str) -> Result<Self, Rejected> {
        let (text, tagged) = inner(written);
        let text = harmless(text);
        if text.is_empty() {
            return Err(Rejected::Empty);
        }
        if is_refusal(&text) {
            return Err(Rejected::Refused);
        }
        Ok(Answer { text, tagged })
    }
}

/// The summary in a model's text: without its reasoning, from inside the tags where there are any,
/// without a fence.
fn inner(written: &str) -> (&str, bool) {
    let mut text = written;
    for closing in ["</think>", "</thinking>", "</analysis>", "</reasoning>"] {
        text = text.rsplit_once(closing).map_or(text, |(_, rest)| rest);
    }
    let mut tagged = false;
    if let Some((_, rest)) = text.split_once("<summary>") {
        (text, tagged) = (
            rest.rsplit_once("</summary>")
                .map_or(rest, |(inside, _)| inside),
            true,
        );
    }
    let text = text.trim();
    let fenced = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    (fenced.map_or(text, |(_, inside)| inside).trim(), tagged)
}

/// Markers of chat templates and tags of Baler's own.
pub(super) static MARKER: Pattern = Pattern::new(concat!(
    concat!(
        r"(?i)<(\s*/?\s*(?:conversation_|\||｜|im_|start_of_turn|end_of_turn|",
        r"start_header|eot|system|developer"
    ),
    r"|assistant|user|human|tool|function|think|summary|s>|bos>|eos>))",
    r"|\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS))\]",
    r"|(\|)>",
));

/// A line that begins like a turn of a transcript.
pub(super) static ROLE_LABEL: Pattern = Pattern::new(
    r"(?im)^([ \t#>*_]*)(system|developer|assistant|user|human|tool|function)([ \t*_]*):",
);

/// A text without anything that a chat template, or a reader of tags, could take for more than
/// text.
fn harmless(text: &str) -> String {
    let plain: String = text
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c)))
        .collect();
    let plain = MARKER
        .regex()
        .replace_all(&plain, |found: &regex::Captures<'_>| {
            match (found.get(1), found.get(2)) {
                (Some(tag), _) => format!("<\\{}", tag.as_str()),
                (_, Some(word)) => format!("[\\{}]", word.as_str()),
                _ => "|\\>".to_owned(),
            }
        });
    let plain = ROLE_LABEL.regex().replace_all(&plain, "$1$2$3 –");
    plain.trim().to_owned()
}

fn is_refusal(text: &str) -> bool {
    const NO: [&str; 10] = [
        "i'm sorry",
        "i’m sorry",
        "i am sorry",
        "sorry, ",
        "i can't ",
        "i can’t ",
        "i cannot ",
        "i won't ",
        "i'm unable",
        "as an ai ",
    ];
    let start = text
        .trim_start()
        .get(..text.floor_char_boundary(24))
        .unwrap_or(text)
        .to_lowercase();
    text.len() <= REFUSAL_BYTES && NO.iter().any(|no| start.starts_with(no))
}

/// Checks a text against its source (in lower case).
///
/// # Errors
/// [`Rejected`], and in the case of [`Rejected::Ungrounded`] the share.
pub fn validate(
    text: String,
    source: &str,
    terms: Terms,
    encoding: Encoding,
) -> Result<Accepted, (Rejected, f64)> {
    let tokens = encoding.count(&text);
    if tokens > terms.max_tokens {
        return Err((Rejected::TooLong, 0.0));
    }
    if tokens > scale(terms.stands_for, 1.0 - LEAST_SAVING) {
        return Err((Rejected::NotSmaller, 0.0));
    }
    let stated: HashSet<String> = words_of(&text)
        .filter(|word| is_specific(word))
        .map(str::to_lowercase)
        .collect();
    let ungrounded = stated
        .iter()
        .filter(|word| !source.contains(word.as_str()))
        .count();
    let share = ratio(ungrounded as u64, stated.len() as u64);
    if ungrounded >= FEW_UNGROUNDED && share > terms.max_ungrounded {
        return Err((Rejected::Ungrounded, share));
    }
    Ok(Accepted {
        text,
        tokens,
        ungrounded: share,
    })
}

/// Whether a word is an identifier, a path or a number: a word that must not be invented.
fn is_specific(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let mut before = ' ';
    let hump = word
        .chars()
        .any(|c| std::mem::replace(&mut before, c).is_lowercase() && c.is_uppercase());
    let path = word.contains('/') && (word.starts_with('/') || word.contains('.'));
    // Small numbers only count things or list items.
    (digits > 0 && word.len() > 2) || word.contains('_') || path || hump
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(content: &str) -> Result<Answer, Rejected> {
        Answer::read(content)
    }

    #[test]
    fn thinking_tags_and_fences_are_taken_off() {
        for (written, text, tagged) in [
            ("Plain.", "Plain.", false),
            ("<summary>\nInside.\n</summary>", "Inside.", true),
            ("Well: <summary>Inside.", "Inside.", true),
            (
                "<think>Hm <summary>no</summary></think>\n<summary>Yes.</summary> Bye.",
                "Yes.",
                true,
            ),
            ("```markdown\n## Goal\nx\n```", "## Goal\nx", false),
        ] {
            let answer = read(written).unwrap();
            assert_eq!(
                (answer.text.as_str(), answer.tagged),
                (text, tagged),
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_ungrounded_is_counted() {
        let source = "order o-1802 of 2026-03-02 in src/parser.rs, call get_order".to_owned();
        let terms = Terms {
            max_tokens: 1_000,
            stands_for: 10_000,
            max_ungrounded: 0.3,
        };
        let check = |text: &str| validate(text.to_owned(), &source, terms, Encoding::O200K);
        let fine = check(
            "Order O-1802 of 2026-03-02: get_order was called for src/parser.rs. 12 \
                follow-up and/or no i.e. others.",
        )
        .unwrap();
        assert!(fine.ungrounded < 1e-9, "{}", fine.ungrounded);
        let some = check("O-1802, 2026-03-02, get_order, src/parser.rs; O-9999.").unwrap();
        assert!((some.ungrounded - 0.2).abs() < 1e-9, "{}", some.ungrounded);
        let (rejected, share) = check("O-9999, INV-123, /etc/passwd, get_order").unwrap_err();
        assert_eq!(rejected, Rejected::Ungrounded);
        assert!((share - 0.75).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_summary_must_be_short_and_save_something() {
        let check = |max_tokens, stands_for| {
            let terms = Terms {
                max_tokens,
                stands_for,
                max_ungrounded: 1.0,
            };
            validate("word ".repeat(100), "", terms, Encoding::O200K)
                .map(|_| ())
                .map_err(|(rejected, _)| rejected)
        };
        assert_eq!(check(50, 10_000), Err(Rejected::TooLong));
        assert_eq!(check(500, 140), Err(Rejected::NotSmaller));
        assert_eq!(check(500, 150), Ok(()));
    }

    proptest! {
        #[test]
        fn no_answer_does_harm(text in "(<\\||\\|>|</?(conversation_summary|system|summary)>|\
            \\[/?INST\\]|\n(System|user):|[a-z ]|\u{202e}|é){0,60}") {
            if let Ok(answer) = read(&text) {
                for marker in [
                    "<|", "|>", "[INST]", "[/INST]", "<system", "</conversation", "<conversation_",
                    "\nSystem:", "\nuser:", "\u{202e}",
                ] {
                    prop_assert!(!answer.text.contains(marker), "{marker} in {}", answer.text);
                }
                prop_assert_eq!(&harmless(&answer.text), &answer.text, "once is enough");
            }
        }
    }
}
