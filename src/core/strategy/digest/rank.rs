//! Which lines of a digest stay when not all can: those that say most of what is likely to be needed, per token.
//!
//! A line is worth the words in it that nothing else in the list says: identifiers, numbers, dates and paths above
//! all, the more so when they are recent, were used in calls, or stand near what the newest messages speak of. Lines are
//! taken best first; what a taken line says makes other lines that say the same worth less.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::extract::{ALSO, Extract, Heading};
use super::words::{is_name, parts_of, shape, words_of};
use crate::core::size::scale;
use crate::core::text::tells_of_failure;
use crate::core::tokens::Encoding;

/// What a word of the oldest entry is worth, compared to one of the newest.
const OLDEST: f32 = 0.4;
/// What each further mention adds to a word's worth, and each call that says it once more.
const USED: f32 = 0.3;
/// What a word is worth that is said elsewhere.
const SAID_AGAIN: f32 = 0.03;
/// What a key is worth: its value counts.
const KEY: f32 = 0.1;
/// What the first word of a line is worth at most: its capital is grammar.
const FIRST: f32 = 0.25;
/// A key with so many digits is an id (`address1` is none).
const ID_DIGITS: usize = 3;
/// What the line of a call is worth beside its words: it says what was done.
const CALL: f32 = 0.7;
/// The same for a short command: it is likely to be run again as it is.
const COMMAND: f32 = 2.0;
/// The longest line of a call that is such a command (bytes).
const COMMAND_BYTES: usize = 90;
/// What a line is worth beside its words.
const LINE: f32 = 0.02;
/// What a line costs beside its text, in tokens: its blanks, its end, and the eye's way to one line more.
const LINE_COST: f32 = 2.0;
/// What it adds to a line's worth that the newest messages speak of its words.
const ON_TOPIC: f32 = 0.08;
/// Share of the budget that the user's words have before anything else.
const USER: f64 = 0.05;
/// Share of the budget that names may take which no line says.
const NAMES: f64 = 0.4;
/// Share of the budget that each end of a shortened text gets.
const EDGE: f64 = 0.2;

/// Who speaks in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    User,
    Assistant,
    Call,
    /// A line of an argument that has lines of its own.
    Argument,
    Result,
}

/// A line of the full digest.
struct Line<'t> {
    text: &'t str,
    /// The line without which this one would not be understood.
    needs: Option<usize>,
    voice: Voice,
    /// Its distinct words, as indices.
    words: Vec<u32>,
    /// The line that opens its entry.
    entry: usize,
    /// Whether names may stand for it.
    plain: bool,
    /// What it says as the head of a table.
    heading: Option<Heading<'t>>,
    /// Says nothing without the lines below it.
    bare: bool,
}

/// A word of the digest.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// What saying it once is worth.
    value: f32,
    /// Lines that say it.
    lines: u32,
    /// Lines of calls that say it.
    calls: u32,
    /// Entries that say it.
    entries: u32,
    /// The last entry that says it, counted from 1.
    entry: usize,
    /// The last line that says it.
    last: usize,
    /// Said by what stays anyway, or by a line that was taken.
    said: bool,
    /// How much the newest messages speak of it.
    topic: f32,
}

/// The text that stays beside the digest.
pub(super) struct Context<'t> {
    /// All of it.
    pub kept: &'t [String],
    /// The newest part of it: what the conversation is about now.
    pub recent: &'t [String],
}

/// The best of `lines` that take about `budget` tokens together, in their order.
pub(super) fn choose(lines: &[Extract], context: &Context<'_>, budget: u64, encoding: Encoding) -> Vec<String> {
    let mut ranking = Ranking::new(lines, context);
    // What the user said is short as a rule, and cannot be looked up again.
    let for_user = scale(budget, USER);
    let budget = budget - for_user + ranking.fill(for_user, true, Some(Voice::User), encoding);
    let for_names = scale(budget, NAMES);
    let left = ranking.fill(budget - for_names, false, None, encoding);
    let left = ranking.name(left + for_names, encoding);
    ranking.fill(left, true, None, encoding);
    ranking.told()
}

/// The same for the lines of one text, of which the beginning and the end stay whatever they say: which of them stay.
pub(super) fn choose_within(lines: &[Extract], context: &Context<'_>, budget: u64, encoding: Encoding) -> Vec<bool> {
    let mut ranking = Ranking::new(lines, context);
    let mut left = budget;
    for from_end in [false, true] {
        let mut edge = scale(budget, EDGE);
        for nth in 0..lines.len() {
            let at = if from_end { lines.len() - 1 - nth } else { nth };
            let Some(line) = lines.get(at) else { break };
            let cost = encoding.count(&line.text) + 1;
            if cost > edge {
                break;
            }
            edge -= cost;
            left = left.saturating_sub(cost);
            ranking.take(at);
        }
    }
    ranking.fill(left, true, None, encoding);
    ranking.taken
}

struct Ranking<'t> {
    lines: Vec<Line<'t>>,
    words: Vec<Word>,
    spelled: Vec<&'t str>,
    /// The words that each word contains whole: who says the one says the others.
    within: Vec<Vec<u32>>,
    taken: Vec<bool>,
    /// Words told by name alone, by the line that opens their entry.
    names: BTreeMap<usize, Vec<&'t str>>,
    /// Name and columns of the tables that were taken.
    headings: HashSet<(&'t str, &'t str)>,
}

/// A line that waits to be taken.
struct Candidate {
    density: f32,
    line: usize,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    /// Densest first; of equals the newer.
    fn cmp(&self, other: &Self) -> Ordering {
        self.density.total_cmp(&other.density).then(self.line.cmp(&other.line))
    }
}

impl<'t> Ranking<'t> {
    fn new(lines: &'t [Extract], context: &Context<'_>) -> Self {
        let mut index: HashMap<&'t str, u32> = HashMap::with_capacity(lines.len() * 4);
        let (mut words, mut spelled): (Vec<Word>, Vec<&'t str>) = (Vec::new(), Vec::new());
        let mut ranked: Vec<Line<'t>> = Vec::with_capacity(lines.len());
        let (mut entry, mut section, mut voice, mut entries) = (None, None, Voice::Result, 0);
        for (at, Extract { text, plain, argument }) in lines.iter().enumerate() {
            let blanks = text.len() - text.trim_start_matches(' ').len();
            let needs = match blanks {
                0 => {
                    (entry, section, voice) = (Some(at), None, voice_of(text));
                    entries += 1;
                    None
                }
                1 => {
                    section = text.ends_with(':').then_some(at);
                    entry
                }
                _ => section.or(entry),
            };
            let voice = match voice {
                Voice::Call if *argument => Voice::Argument,
                Voice::Call if blanks > 0 => Voice::Result,
                voice => voice,
            };
            let mut own = Vec::new();
            let head = text.ends_with("}:");
            for word in words_of(text) {
                let behind = text.as_bytes().get(word.as_ptr() as usize - text.as_ptr() as usize + word.len());
                let numbering = *plain && text.trim_start().as_ptr() == word.as_ptr() && word.bytes().all(|b| b.is_ascii_digit());
                let key = match behind {
                    _ if numbering => true,
                    // A map from ids: what stands there as a key is needed like a value.
                    Some(b':') if word.bytes().filter(u8::is_ascii_digit).count() >= ID_DIGITS => false,
                    Some(b':') => !plain,
                    Some(b'=') => !plain || voice == Voice::Call,
                    _ => head,
                };
                let id = *index.entry(word).or_insert_with(|| {
                    words.push(Word::default());
                    spelled.push(word);
                    u32::try_from(words.len() - 1).unwrap_or(u32::MAX)
                });
                if let Some(word_) = words.get_mut(id as usize) {
                    word_.value = word_.value.max(match shape(word) {
                        _ if key => KEY,
                        worth if *plain && own.is_empty() && only_begins_large(word) => worth.min(FIRST),
                        worth => worth,
                    });
                }
                if !own.contains(&id) {
                    own.push(id);
                    if let Some(word) = words.get_mut(id as usize) {
                        word.lines += 1;
                        word.calls += u32::from(matches!(voice, Voice::Call | Voice::Argument));
                        word.last = at;
                        if word.entry != entries {
                            word.entry = entries;
                            word.entries += 1;
                        }
                    }
                }
            }
            ranked.push(Line {
                text,
                needs,
                voice,
                words: own,
                entry: entry.unwrap_or(at),
                plain: *plain,
                heading: if *plain { None } else { Heading::of(text) },
                bare: blanks == 1 && !plain && text.ends_with(':'),
            });
        }
        let inside = |word: &&'t str| parts_of(word).filter_map(|part| index.get(part).copied()).collect();
        let mut ranking = Ranking {
            within: spelled.iter().map(inside).collect(),
            taken: vec![false; ranked.len()],
            lines: ranked,
            words,
            spelled,
            names: Default::default(),
            headings: Default::default(),
        };
        let known = |text: &str, f: &mut dyn FnMut(&mut Word), words: &mut Vec<Word>| {
            for word in words_of(text) {
                if let Some(word) = index.get(word).and_then(|id| words.get_mut(*id as usize)) {
                    f(word);
                }
            }
        };
        for text in context.kept {
            known(text, &mut |word| word.said = true, &mut ranking.words);
        }
        let total = ranking.lines.len() as f32;
        for text in context.recent {
            known(text, &mut |word| word.topic = (total / word.lines as f32).ln().max(0.0), &mut ranking.words);
        }
        for word in &mut ranking.words {
            let recency = OLDEST + (1.0 - OLDEST) * (word.entry as f32 / entries.max(1) as f32);
            let used = 1.0 + USED * (word.calls.min(3) + word.entries.saturating_sub(1).min(3)) as f32;
            word.value *= recency * used;
        }
        ranking
    }

    /// What taking a line would add.
    fn gain(&self, at: usize) -> f32 {
        let Some(line) = self.lines.get(at) else { return 0.0 };
        let own = match line.voice {
            Voice::Call if is_command(line.text) => COMMAND,
            Voice::Call => CALL,
            _ => LINE,
        };
        let (mut value, mut topic) = (own, 0.0_f32);
        for word in line.words.iter().filter_map(|id| self.words.get(*id as usize)) {
            value += if word.said { word.value * SAID_AGAIN } else { word.value };
            topic += word.topic;
        }
        let voice = match line.voice {
            Voice::User => 1.5,
            Voice::Assistant => 0.7,
            Voice::Call | Voice::Argument => 1.0,
            Voice::Result if tells_of_failure(line.text) => 1.3,
            Voice::Result => 1.0,
        };
        value * voice * (1.0 + topic.min(12.0) * ON_TOPIC)
    }

    /// The line and those it needs that were not taken yet.
    fn chain(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.lines.get(*at)?.needs).filter(|at| !self.taken.get(*at).copied().unwrap_or(true))
    }

    fn density(&self, at: usize) -> f32 {
        let (mut gain, mut cost) = (0.0, 0.0);
        for at in self.chain(at) {
            gain += self.gain(at);
            cost += self.lines.get(at).map_or(0.0, |line| self.shown(line).len() as f32 / 3.5 + LINE_COST);
        }
        gain / cost.max(1.0)
    }

    fn fill(&mut self, budget: u64, to_the_brim: bool, only: Option<Voice>, encoding: Encoding) -> u64 {
        let mut left = budget;
        let mut heap: BinaryHeap<Candidate> = (0..self.lines.len())
            .filter(|at| self.lines.get(*at).is_some_and(|line| !line.bare && only.is_none_or(|voice| line.voice == voice)))
            .map(|line| Candidate { density: self.density(line), line })
            .collect();
        while let Some(best) = heap.pop() {
            if self.taken.get(best.line).copied().unwrap_or(true) {
                continue;
            }
            let density = self.density(best.line);
            if heap.peek().is_some_and(|next| next.density > density * 1.001) {
                heap.push(Candidate { density, ..best });
                continue;
            }
            let chain: Vec<usize> = self.chain(best.line).collect();
            let cost: u64 = chain.iter().filter_map(|at| self.lines.get(*at)).map(|line| encoding.count(&self.shown(line)) + 1).sum();
            if cost > left {
                if !to_the_brim || left < 8 {
                    break;
                }
                continue;
            }
            left -= cost;
            for at in chain {
                self.take(at);
            }
        }
        left
    }

    /// Spends what is left on names that no line says.
    fn name(&mut self, budget: u64, encoding: Encoding) -> u64 {
        let mut left = budget;
        let mut best: Vec<(f32, usize, u32)> = Vec::new();
        for line in self.lines.iter().filter(|line| line.plain && matches!(line.voice, Voice::Argument | Voice::Result)) {
            for id in &line.words {
                if let (Some(word), Some(text)) = (self.words.get(*id as usize), self.spelled.get(*id as usize))
                    && !word.said
                    && is_name(text)
                {
                    let line = self.lines.get(word.last).map_or(0, |line| line.entry);
                    best.push((word.value * (1.0 + word.topic * 0.3) / (text.len() as f32 / 3.5 + 1.0), line, *id));
                }
            }
        }
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        for (_, entry, id) in best {
            let (Some(word), Some(text)) = (self.words.get(id as usize), self.spelled.get(id as usize)) else { continue };
            if word.said {
                continue;
            }
            let mut cost = encoding.count(text) + if self.names.contains_key(&entry) { 0 } else { 3 };
            if !self.taken.get(entry).copied().unwrap_or(true) {
                cost += self.lines.get(entry).map_or(0, |line| encoding.count(line.text) + 1);
            }
            if cost > left {
                if left < 4 {
                    break;
                }
                continue;
            }
            left -= cost;
            say(id, &mut self.words, &self.within);
            self.names.entry(entry).or_default().push(text);
            if !self.taken.get(entry).copied().unwrap_or(true) {
                self.take(entry);
            }
        }
        left
    }

    /// A line as it will be told, as far as can be said now.
    fn shown(&self, line: &Line<'t>) -> Cow<'t, str> {
        match &line.heading {
            Some(heading) if self.headings.contains(&(heading.name, heading.columns)) => Cow::Owned(heading.again()),
            _ => Cow::Borrowed(line.text),
        }
    }

    fn take(&mut self, at: usize) {
        if let (Some(taken), Some(line)) = (self.taken.get_mut(at), self.lines.get(at)) {
            *taken = true;
            self.headings.extend(line.heading.map(|heading| (heading.name, heading.columns)));
            for id in &line.words {
                say(*id, &mut self.words, &self.within);
            }
        }
    }

    /// What was taken, in order.
    fn told(&self) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        let mut above: HashMap<&str, &str> = HashMap::new();
        for (at, (line, taken)) in self.lines.iter().zip(&self.taken).enumerate() {
            if *taken {
                let again = line.heading.filter(|heading| above.insert(heading.name, heading.columns) == Some(heading.columns));
                told.push(again.map_or_else(|| line.text.to_owned(), |heading| heading.again()));
            }
            let last = self.lines.get(at + 1).is_none_or(|next| next.entry != line.entry);
            if last && let Some(names) = self.names.get(&line.entry) {
                told.push(format!(" {ALSO} {}", names.join(" ")));
            }
        }
        told
    }
}

/// Takes note that a word is said, and what it contains.
fn say(id: u32, words: &mut [Word], within: &[Vec<u32>]) {
    let inside = within.get(id as usize).into_iter().flatten();
    for id in std::iter::once(&id).chain(inside) {
        if let Some(word) = words.get_mut(*id as usize) {
            word.said = true;
        }
    }
}

fn only_begins_large(word: &str) -> bool {
    word.chars().skip(1).all(char::is_lowercase)
}

/// Whether the line of a call is a short command: one argument that needs no key.
fn is_command(head: &str) -> bool {
    let first = head.split_once('(').and_then(|(_, said)| said.split_once(' '));
    head.len() <= COMMAND_BYTES && first.is_some_and(|(first, _)| !first.contains('='))
}

fn voice_of(head: &str) -> Voice {
    match head.split_once(' ').map_or(head, |(first, _)| first) {
        "user:" => Voice::User,
        "assistant:" => Voice::Assistant,
        "→" => Voice::Call,
        _ => Voice::Result,
    }
}
