//! Which sentences of a message tell most, which items of its lists what nothing else tells, and
//! what stands for what is no text.

use crate::core::conversation::Block;
use crate::core::strategy::digest::line::{DigestLine, Part, Standing};
use crate::core::strategy::digest::lists::{is_listed, is_numbered_or_bullet, is_table_row};
use crate::core::strategy::digest::weigh::weight::Weighed;
use crate::core::strategy::digest::weigh::weights::word as words_by;
use crate::core::strategy::digest::weigh::word::Word;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{is_question, shape, warns, words_of};

/// In a message of so many sentences one more tells more than others, up to so many.
const SENTENCES: usize = 5;
const MOST_TELLING: usize = 3;
/// The least score of the words of such a sentence, and the most words that are looked at.
const LEAST_TELLING: f32 = 1.5;
const MOST_WORDS: usize = 60;
/// The fewest names, numbers and dates that an item puts together.
const LEAST_TOGETHER: usize = 4;
const LEAST_PUT: f32 = 0.5;

/// The sentences that have most names, numbers and dates: a finding is seldom the first or the
/// last.
fn most_telling(lines: &[DigestLine]) -> Vec<usize> {
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

/// Notes what the model said to the user with a value that no result and no user told, and the
/// items of its lists that put together what stands in no result together: the slots that suit
/// three calendars.
pub(in super::super) fn note_findings(lines: &[DigestLine], of: &mut Weighed) {
    let is_new =
        |word: &Word| word.shape >= words_by::TELLING && !word.in_result && !word.said_by_user;
    let mut others: Vec<(usize, Vec<u32>)> = Vec::new();
    for (at, (line, weight)) in lines.iter().zip(&mut of.lines).enumerate() {
        let is_aside = line.within.is_none() && line.standing == Standing::Aside;
        if line.part != Part::Assistant || line.is_code || is_aside {
            continue;
        }
        let ids = of.mentions.get(weight.words.clone()).unwrap_or_default();
        let word = |id: &u32| Some((*id, of.words.get(*id as usize)?));
        weight.finds =
            warns(&line.text) || ids.iter().filter_map(word).any(|(_, word)| is_new(word));
        let tells = |(_, word): &(u32, &Word)| word.shape >= LEAST_PUT;
        let telling: Vec<u32> = ids
            .iter()
            .filter_map(word)
            .filter(tells)
            .map(|(id, _)| id)
            .collect();
        if !weight.finds && telling.len() >= LEAST_TOGETHER && is_numbered_or_bullet(&line.text) {
            others.push((at, telling));
        }
    }
    let entries = entries_with(others.iter().flat_map(|(_, words)| words), lines, of);
    for (at, words) in others {
        let mut with = words.iter().map(|word| entries.get(word));
        let first = with.next().flatten().cloned().unwrap_or_default();
        let together = with.fold(first, |mut left, with| {
            left.retain(|entry| with.is_some_and(|with| with.contains(entry)));
            left
        });
        if let Some(weight) = of.lines.get_mut(at) {
            weight.finds |= together.is_empty();
        }
    }
}

/// The entries with results that have each of these words.
fn entries_with<'w>(
    words: impl Iterator<Item = &'w u32>,
    lines: &[DigestLine],
    of: &Weighed,
) -> Map<u32, Set<usize>> {
    let mut entries: Map<u32, Set<usize>> = words.map(|word| (*word, Set::default())).collect();
    if entries.is_empty() {
        return entries;
    }
    let of_results = lines.iter().zip(&of.lines);
    for (_, weight) in of_results.filter(|(line, _)| !line.part.is_said()) {
        for id in of.mentions.get(weight.words.clone()).unwrap_or_default() {
            if let Some(entries) = entries.get_mut(id) {
                entries.insert(weight.entry);
            }
        }
    }
    entries
}

/// The sentences of a message that are told before others: the first and the last, and of what the
/// model said to the user, rather than beside calls, those that tell most. Of what it only supposes
/// they would look like what was done: there, only that they are not so.
pub(in super::super) fn told_of(said: &[DigestLine], part: Part, ends: Standing) -> Vec<usize> {
    if part == Part::Assistant {
        let not_so = said
            .iter()
            .enumerate()
            .filter(|(_, line)| is_not_so(&line.text));
        let not_so: Vec<usize> = not_so.map(|(at, _)| at).collect();
        if !not_so.is_empty() {
            return not_so;
        }
    }
    let mut told = edges_of(said);
    if part == Part::Assistant && ends == Standing::Edge {
        told.extend(most_telling(said));
        told.extend(asked_about(said));
        let warnings = said
            .iter()
            .enumerate()
            .filter(|(_, line)| warns(&line.text));
        told.extend(warnings.map(|(at, _)| at));
    }
    told
}

/// The sentence before the question that a message ends with: what the user answers by a part of.
/// `I'd write the values to G6:H9. Should I comment them?`
fn asked_about(said: &[DigestLine]) -> Option<usize> {
    said.last().filter(|last| is_question(&last.text))?;
    let at = said.iter().rposition(|line| !is_question(&line.text))?;
    let line = said.get(at)?;
    let is_sentence = line.within.is_none() && !line.is_code && !is_listed(&line.text);
    is_sentence.then_some(at)
}

/// What begins sentences which say that what stands beside them is not so: small letters.
const NOT_SO: [&str; 18] = [
    "here is a simulation",
    "here's a simulation",
    "hypothetically",
    "if we did",
    "nada de esto",
    "nada disso",
    "nichts davon",
    "none of that",
    "none of these",
    "none of this",
    "nothing has been",
    "nothing of this",
    "nothing was",
    "rien de tout cela",
    "this is a hypothetical",
    "this is a simulation",
    "this is just a simulation",
    "this is only a simulation",
];
const NOT_SO_BYTES: usize = 32;

/// Whether a sentence says that what stands beside it is not so.
fn is_not_so(sentence: &str) -> bool {
    if !sentence.starts_with(['*', '_', 'H', 'I', 'N', 'R', 'T', 'h', 'i', 'n', 'r', 't']) {
        return false;
    }
    let begin = sentence.get(..sentence.floor_char_boundary(NOT_SO_BYTES));
    let begin = begin.unwrap_or_default().trim_start_matches(['*', '_']);
    let begin = begin.replace('’', "'").to_lowercase();
    NOT_SO.iter().any(|known| begin.starts_with(known))
}

/// The first and the last line of what was said that say something by themselves: lines of code and
/// rows of tables do not.
fn edges_of(said: &[DigestLine]) -> Vec<usize> {
    let is_sentence = |line: &DigestLine| !line.is_code && !is_table_row(&line.text);
    let (first, last) = (
        said.iter().position(is_sentence),
        said.iter().rposition(is_sentence),
    );
    first.into_iter().chain(last).collect()
}

/// The longest sentence of the user's that says nothing without the one before (bytes), and the
/// words that stand for something among the first of it.
const IT_BYTES: usize = 60;
const IT_WORDS: usize = 4;
const IT: [&str; 8] = ["it", "them", "this", "these", "those", "both", "lo", "es"];

/// Whether a short sentence of the user's has a word that stands for something named before, and no
/// name or number: `Delete it, please.`
pub(in super::super) fn says_it(sentence: &str) -> bool {
    let is_it = |word: &str| IT.iter().any(|it| word.eq_ignore_ascii_case(it));
    let mut words = words_of(sentence);
    sentence.len() <= IT_BYTES
        && words.clone().take(IT_WORDS).any(is_it)
        && !words.any(|word| shape(word) >= words_by::TELLING)
}

/// What stands for a block that is no text.
pub(in super::super) fn word_of(block: &Block<'_>) -> Option<String> {
    match block {
        Block::Media(media) => Some(format!("[{}]", media.words())),
        Block::Other(Some(kind)) => Some(format!("[{kind}]")),
        _ => None,
    }
}
