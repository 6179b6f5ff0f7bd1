//! What a party took back: it is not told without what was said instead. The user takes back what
//! he said before by its numbers and names, or answers with a no; the model admits an error.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE};
use crate::core::strategy::digest::lists::is_listed;
use crate::core::strategy::digest::weigh::weight::Weight;
use crate::core::strategy::maps::Map;
use crate::core::text::{REFUSALS, admits, corrects, denies, retracts, words_of};
use crate::core::{Cancel, Cancelled};

/// Words that both have, one of them with digits: `29 August`. Of a model that says that it was
/// wrong, a number is enough.
const LEAST_SHARED: usize = 2;
const LEAST_ADMITTED: usize = 1;
/// Words of a sentence that are looked at, and the newest sentences with each of them.
const MOST_WORDS: usize = 60;
const MOST_SENTENCES: usize = 4;

/// So many sentences behind one of the model's are looked at for what takes it back.
const MOST_BEHIND: usize = 3;

/// The most words of a sentence that takes back the one before it, and says no more.
const MOST_TAKING_BACK: usize = 5;

/// Whether a sentence takes back what the one before it says, as `Forget that one.` does.
pub(in super::super) fn takes_back_alone(sentence: &str) -> bool {
    corrects(sentence) && sentence.split_whitespace().nth(MOST_TAKING_BACK).is_none()
}

/// Sentences that a later one of the same party takes back, each with the last that does; and those
/// by which the model admits that it was wrong, each with the next, which tells what is right.
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
        let mut found = TakenBack::default();
        for party in [Part::User, Part::Assistant] {
            let least = match party {
                Part::User => LEAST_SHARED,
                _ => LEAST_ADMITTED,
            };
            found.find(&said_by(party, lines, weights), least, cancel)?;
        }
        Ok(found)
    }

    /// Finds those of one party. A sentence shares at least so many words with the one that takes
    /// it back.
    fn find(
        &mut self,
        said: &[Sentence<'_>],
        least: usize,
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let mut later = Later::default();
        for (nth, this) in said.iter().enumerate().rev() {
            if nth.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let words = telling_words(this.text);
            let next = said.get(nth + 1);
            let beside = next.filter(|next| next.entry == this.entry);
            let by_words = later.that_takes_back(&words, least);
            let by_answer = later.answer.filter(|_| beside.is_none());
            // Within a message, the next sentence stands beside it anyway.
            let by = [by_words, by_answer].into_iter().flatten();
            let by = by.filter(|(entry, _)| *entry != this.entry).max();
            let admitted = beside.filter(|_| this.admits);
            let behind = said.get(nth + 1..).unwrap_or_default().iter();
            let mut behind = behind
                .take(MOST_BEHIND)
                .take_while(|next| next.entry == this.entry && !next.is_item);
            let retracting = behind.find(|next| next.retracts && !this.is_item);
            let within = admitted.or(retracting).map(|next| next.at);
            if let Some(by) = by.map(|(_, at)| at).or(within) {
                self.0.insert(this.at, by);
            }
            later.note(this, beside, words);
        }
        Ok(())
    }

    /// The sentence that takes back another one.
    pub(in super::super) fn instead_of(&self, at: usize) -> Option<usize> {
        self.0.get(&at).copied()
    }
}

/// A sentence of a party.
struct Sentence<'t> {
    at: usize,
    /// The line that opens its message.
    entry: usize,
    text: &'t str,
    /// It takes back what was said before.
    corrects: bool,
    /// It begins its message with a no.
    denies: bool,
    /// The model says by it that it was wrong.
    admits: bool,
    /// The model takes back by it what its message says before.
    retracts: bool,
    /// It is an item of a list.
    is_item: bool,
}

/// What a party said, in its order.
fn said_by<'t>(party: Part, lines: &'t [DigestLine], weights: &[Weight]) -> Vec<Sentence<'t>> {
    let mut said: Vec<Sentence<'t>> = Vec::new();
    for (at, (line, weight)) in lines.iter().zip(weights).enumerate() {
        if line.part != party || line.is_code {
            continue;
        }
        let before = said.last().filter(|before| before.entry == weight.entry);
        let is_model = party == Part::Assistant;
        let admits = is_model && admits(&line.text);
        let goes_on = before.is_some_and(|before| is_model && before.corrects);
        said.push(Sentence {
            at,
            entry: weight.entry,
            text: &line.text,
            corrects: admits || goes_on || (!is_model && corrects(&line.text)),
            denies: !is_model && before.is_none() && denies(&line.text),
            admits,
            retracts: is_model && before.is_some() && retracts(&line.text),
            is_item: line.within.is_some() || is_listed(&line.text),
        });
    }
    said
}

/// The sentences behind the present one that take something back, each with its message.
#[derive(Default)]
struct Later<'t> {
    /// By their words.
    corrections: Map<&'t str, Vec<(usize, usize)>>,
    /// By the numbers that are not so: `40, not 30`.
    denied: Map<&'t str, (usize, usize)>,
    /// The one that answers what stands before its message.
    answer: Option<(usize, usize)>,
}

impl<'t> Later<'t> {
    /// Takes note of a sentence with these words, and with the next one of its message.
    fn note(&mut self, this: &Sentence<'t>, beside: Option<&Sentence<'t>>, words: Vec<&'t str>) {
        let place = (this.entry, this.at);
        // A no alone says less than what follows it.
        let is_bare = this.text.split_whitespace().nth(1).is_none();
        let told = beside.filter(|_| is_bare).map_or(this.at, |next| next.at);
        self.answer = this.denies.then_some((this.entry, told));
        for number in denied_in(this.text) {
            self.denied.entry(number).or_insert(place);
        }
        if this.corrects {
            for word in words {
                let sentences = self.corrections.entry(word).or_default();
                if sentences.len() < MOST_SENTENCES {
                    sentences.push(place);
                }
            }
        }
    }

    /// The last sentence that takes back one with these words, of which it has at least so many.
    fn that_takes_back(&self, words: &[&str], least: usize) -> Option<(usize, usize)> {
        let mut shared: Map<(usize, usize), (usize, bool)> = Map::default();
        for word in words {
            for later in self.corrections.get(word).into_iter().flatten() {
                let (count, has_number) = shared.entry(*later).or_default();
                (*count, *has_number) = (*count + 1, *has_number || is_number(word));
            }
        }
        let is_same = |(_, (count, has_number)): &((usize, usize), (usize, bool))| {
            *count >= least && *has_number
        };
        let same = shared.into_iter().filter(is_same).map(|(later, _)| later);
        let denied = words
            .iter()
            .filter_map(|word| self.denied.get(word))
            .copied();
        same.chain(denied).max()
    }
}

/// The numbers that a sentence says are not so: `not 30`, `instead of 7`.
fn denied_in(sentence: &str) -> Vec<&str> {
    let words: Vec<&str> = words_of(sentence).take(MOST_WORDS).collect();
    let is_denied = |pair: &[&'_ str]| match pair {
        [before, number] => {
            is_number(number)
                && (REFUSALS.contains(before.to_lowercase().as_str())
                    || (*before == "of" && sentence.contains("instead of "))
                    || (*before == "than" && sentence.contains("rather than "))
                    || before.eq_ignore_ascii_case("statt"))
        }
        _ => false,
    };
    let pairs = words.windows(2).filter(|pair| is_denied(pair));
    pairs.filter_map(|pair| pair.last().copied()).collect()
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

    /// What stands instead of each line.
    fn taken_back(lines: &[DigestLine]) -> Vec<Option<usize>> {
        let cancel = Cancel::default();
        let weights = weigh(lines, &Context::default(), &cancel).unwrap().lines;
        let found = TakenBack::of(lines, &weights, &cancel).unwrap();
        (0..lines.len()).map(|at| found.instead_of(at)).collect()
    }

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
        assert_eq!(taken_back(&lines), [Some(2), None, None, None]);
    }

    #[test]
    fn a_no_and_a_number_that_is_not_so_take_back_what_was_said_before() {
        let said = [
            "Dim the hall to 30 %.",
            "Only on weekdays, and 40 not 30.",
            "Change to the family room.",
            "No.",
            "Keep the lake view.",
            "Anything on 4 July?",
            "No, thanks.",
        ];
        let mut lines: Vec<DigestLine> = said
            .iter()
            .map(|text| DigestLine::new(Part::User, 0, text))
            .collect();
        lines[4].depth = 1;
        let instead = taken_back(&lines);
        assert_eq!(instead, [Some(1), None, Some(4), None, None, None, None]);
    }

    #[test]
    fn what_a_message_takes_back_of_itself_comes_with_that() {
        let said = [
            (0, "The backup of db-3 is complete: 88 GB."),
            (1, "It is in bucket cold-2."),
            (1, "On second reading it is wrong, so it must not be used."),
            (1, "- Tell Ann."),
        ];
        let lines: Vec<DigestLine> = said
            .iter()
            .map(|(depth, text)| DigestLine::new(Part::Assistant, *depth, text))
            .collect();
        assert_eq!(taken_back(&lines), [Some(2), Some(2), None, None]);
    }

    #[test]
    fn what_the_model_had_wrong_needs_what_is_right() {
        let said = [
            (0, "The table has 144 rows, 36 months in 4 stores."),
            (0, "Oops: I muted p-5510."),
            (1, "I take that back."),
            (0, "You are right."),
            (1, "It is 24 months in 6 stores, 144 rows."),
        ];
        let lines: Vec<DigestLine> = said
            .iter()
            .map(|(depth, text)| DigestLine::new(Part::Assistant, *depth, text))
            .collect();
        let instead = taken_back(&lines);
        assert_eq!(instead, [Some(4), Some(2), None, Some(4), None]);
    }
}
