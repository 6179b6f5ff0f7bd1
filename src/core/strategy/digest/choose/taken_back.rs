//! What the user took back: it is not told without what he said instead.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE};
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::maps::Map;
use crate::core::text::{corrects, words_of};
use crate::core::{Cancel, Cancelled};

/// Words that both have, one of them with digits: `29 August`.
const LEAST_SHARED: usize = 2;
/// Words of a sentence that are looked at, and the newest sentences with each of them.
const MOST_WORDS: usize = 60;
const MOST_SENTENCES: usize = 4;

/// The most words of a sentence that takes back the one before it, and says no more.
const MOST_TAKING_BACK: usize = 5;

/// Whether a sentence takes back what the one before it says, as `Forget that one.` does.
pub(in super::super) fn takes_back_alone(sentence: &str) -> bool {
    corrects(sentence) && sentence.split_whitespace().nth(MOST_TAKING_BACK).is_none()
}

/// Sentences of the user's that a later one of him takes back, each with the last that does.
#[derive(Debug, Default)]
pub(in super::super) struct TakenBack(Map<usize, usize>);

impl TakenBack {
    /// Those among these lines.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub(in super::super) fn of(
        lines: &[DigestLine],
        weights: &[Weight],
        cancel: &Cancel,
    ) -> Result<Self, Cancelled> {
        // Of the sentences behind the present one, those that take something back, by their words.
        let mut corrections: Map<&str, Vec<usize>> = Map::default();
        let mut found = TakenBack::default();
        let entry = |at: usize| weights.get(at).map(|weight| weight.entry);
        let is_of_user = |line: &DigestLine| line.part == Part::User && !line.is_code;
        let users = lines.iter().enumerate().rev();
        for (nth, (at, line)) in users.filter(|(_, line)| is_of_user(line)).enumerate() {
            if nth.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let words = telling_words(&line.text);
            // Within a message, the next sentence stands beside it anyway.
            let later = taken_back_by(&words, &corrections);
            if let Some(later) = later.filter(|later| entry(*later) != entry(at)) {
                found.0.insert(at, later);
            }
            if corrects(&line.text) {
                for word in words {
                    let sentences = corrections.entry(word).or_default();
                    if sentences.len() < MOST_SENTENCES {
                        sentences.push(at);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The sentence that takes back another one.
    pub(in super::super) fn instead_of(&self, at: usize) -> Option<usize> {
        self.0.get(&at).copied()
    }
}

/// The last sentence that takes back one with these words.
fn taken_back_by(words: &[&str], corrections: &Map<&str, Vec<usize>>) -> Option<usize> {
    let mut shared: Map<usize, (usize, bool)> = Map::default();
    for word in words {
        for later in corrections.get(word).into_iter().flatten() {
            let (count, has_number) = shared.entry(*later).or_default();
            (*count, *has_number) = (*count + 1, *has_number || is_number(word));
        }
    }
    let is_same =
        |(_, (count, has_number)): &(usize, (usize, bool))| *count >= LEAST_SHARED && *has_number;
    let same = shared.into_iter().filter(is_same);
    same.map(|(later, _)| later).max()
}

/// The numbers and names of a sentence, each once.
fn telling_words(sentence: &str) -> Vec<&str> {
    let tells = |word: &&str| is_number(word) || word.starts_with(char::is_uppercase);
    let mut words: Vec<&str> = words_of(sentence).take(MOST_WORDS).filter(tells).collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn is_number(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::weigh::context::Context;
    use crate::core::strategy::digest::weigh::weigh;

    #[test]
    fn what_was_taken_back_needs_what_was_said_instead() {
        let said = [
            "We want the barn, on 29 August.",
            "Seats for 29 people.",
            "So 29 August is no good, we've moved it to 12 September.",
            "Book 29 August for the dinner.",
        ];
        let line = |text: &&str| DigestLine::new(Part::User, 0, text);
        let lines: Vec<DigestLine> = said.iter().map(line).collect();
        let cancel = Cancel::default();
        let weights = weigh(&lines, &Context::default(), &cancel).unwrap().lines;
        let taken_back = TakenBack::of(&lines, &weights, &cancel).unwrap();
        let instead: Vec<Option<usize>> = (0..said.len())
            .map(|at| taken_back.instead_of(at))
            .collect();
        assert_eq!(instead, [Some(2), None, None, None]);
    }
}
