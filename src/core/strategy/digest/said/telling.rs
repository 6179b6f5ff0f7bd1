//! Which sentences of a message tell most, and which items of its lists what nothing else tells.

use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::lists::is_table_row;
use crate::core::strategy::digest::weigh::weight::Weighed;
use crate::core::strategy::digest::weigh::weights::word as words_by;
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::text::{shape, words_of};

/// In a message of so many sentences one more tells more than others, up to so many.
const SENTENCES: usize = 5;
const MOST_TELLING: usize = 3;
/// The least score of the words of such a sentence, and the most words that are looked at.
const LEAST_TELLING: f32 = 1.5;
const MOST_WORDS: usize = 60;

/// The sentences that have most names, numbers and dates: a finding is seldom the first or the
/// last.
pub(in super::super) fn most_telling(lines: &[DigestLine]) -> Vec<usize> {
    let most = (lines.len() / SENTENCES).clamp(1, MOST_TELLING);
    let score = |line: &DigestLine| -> f32 {
        let words = words_of(&line.text).take(MOST_WORDS);
        words.map(|word| shape(word).min(1.0)).sum()
    };
    let own = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.within.is_none() && !line.is_code);
    let scored = own.map(|(at, line)| (score(line), at));
    let mut telling: Vec<(f32, usize)> =
        scored.filter(|(score, _)| *score > LEAST_TELLING).collect();
    telling.sort_by(|(one, at), (other, later)| other.total_cmp(one).then(at.cmp(later)));
    telling.into_iter().take(most).map(|(_, at)| at).collect()
}

/// Notes the items of the model's lists with a value that no result and no user told.
pub(in super::super) fn note_findings(lines: &[DigestLine], of: &mut Weighed) {
    let is_new =
        |word: &Word| word.shape >= words_by::TELLING && !word.in_result && !word.said_by_user;
    for (line, weight) in lines.iter().zip(&mut of.lines) {
        if line.part == Part::Assistant && line.within.is_some() && !line.is_code {
            let words = of.mentions.get(weight.words.clone());
            let mut words = words.into_iter().flatten();
            weight.finds = words.any(|id| of.words.get(*id as usize).is_some_and(is_new));
        }
    }
}

/// The first and the last line of what was said that say something by themselves: lines of code and
/// rows of tables do not.
pub(in super::super) fn edges_of(said: &[DigestLine]) -> Vec<usize> {
    let is_sentence = |line: &DigestLine| !line.is_code && !is_table_row(&line.text);
    let (first, last) = (
        said.iter().position(is_sentence),
        said.iter().rposition(is_sentence),
    );
    first.into_iter().chain(last).collect()
}
