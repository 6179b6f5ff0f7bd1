//! Which lines of a digest stay when not all can: those that say most of what is likely to be needed, per token.
//!
//! Lines are taken best first; what a taken line says makes other lines that say the same worth less. Part of the room is
//! for names of lines that have none.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use crate::core::conversation::scale;
use crate::core::strategy::digest::extract::{ALSO, DigestLine};
use crate::core::strategy::digest::weigh::{Context, Line, LineKind, Weighed, Word, weigh};
use crate::core::text::is_name;
use crate::core::text::tells_of_failure;
use crate::core::tokens::Encoding;

/// What a word is worth that is said elsewhere.
const SAID_AGAIN: f32 = 0.03;
/// Times worth more: a name that the model wrote itself, in a script or a file. It is likely to write it again.
const WRITTEN: f32 = 2.0;
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
const NAMES: f64 = 0.45;
/// The same for a name that stands alone.
const NAME_ON_TOPIC: f32 = 0.3;
/// What the line of names costs beside them.
const ALSO_TOKENS: u64 = 3;
/// A name costs so much at least.
const LEAST_NAME_TOKENS: u64 = 4;
/// Bytes that are a token, about.
const BYTES_PER_TOKEN: f32 = 3.5;
/// One in so many of the budget is the most that a line may cost before there are others.
const MOST_SHARE: u64 = 3;
/// Share of the budget that each end of a shortened text gets.
const EDGE: f64 = 0.2;

/// Of the lines of one text, of which the beginning and the end stay whatever they say, those that stay within about
/// `budget` tokens.
pub(super) fn choose_within(
    lines: &[DigestLine],
    context: &Context,
    budget: u64,
    encoding: Encoding,
) -> Vec<bool> {
    let mut choice = Choice::new(lines, context, encoding);
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
            choice.take(at);
        }
    }
    choice.fill(left, true, None);
    choice.taken
}

/// What is chosen of the lines of a full digest.
pub(super) struct Choice<'t> {
    of: Weighed<'t>,
    encoding: Encoding,
    taken: Vec<bool>,
    /// Words told by name alone, by the line that opens their entry.
    names: BTreeMap<usize, Vec<u32>>,
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
        self.density
            .total_cmp(&other.density)
            .then(self.line.cmp(&other.line))
    }
}

impl<'t> Choice<'t> {
    /// The best of `lines` that take about `budget` tokens together.
    pub(super) fn of(
        lines: &'t [DigestLine],
        context: &Context,
        budget: u64,
        encoding: Encoding,
    ) -> Self {
        let mut choice = Choice::new(lines, context, encoding);
        // What the user said is short as a rule, and cannot be looked up again.
        let for_user = scale(budget, USER);
        let budget = budget - for_user + choice.fill(for_user, true, Some(LineKind::User));
        choice.spend(budget);
        choice
    }

    /// Chooses more, in at most about so many tokens; whether there was something.
    pub(super) fn extend(&mut self, budget: u64) -> bool {
        self.spend(budget) < budget
    }

    /// Spends about so many tokens on lines and on names; what is left of them.
    fn spend(&mut self, budget: u64) -> u64 {
        let for_names = scale(budget, NAMES);
        let left = self.fill(budget - for_names, false, None);
        let left = self.name(left + for_names);
        self.fill(left, true, None)
    }

    fn new(lines: &'t [DigestLine], context: &Context, encoding: Encoding) -> Self {
        let taken = vec![false; lines.len()];
        Choice {
            of: weigh(lines, context),
            encoding,
            taken,
            names: BTreeMap::new(),
            headings: HashSet::new(),
        }
    }

    /// What taking a line would add.
    fn gain(&self, at: usize) -> f32 {
        let Some(line) = self.of.lines.get(at) else {
            return 0.0;
        };
        let own = match line.voice {
            LineKind::Call if is_command(line.text) => COMMAND,
            LineKind::Call => CALL,
            _ => LINE,
        };
        let (mut value, mut topic) = (own, 0.0_f32);
        for word in line
            .words
            .iter()
            .filter_map(|id| self.of.words.get(*id as usize))
        {
            value += if word.said {
                word.value * SAID_AGAIN
            } else {
                word.value
            };
            topic += word.topic;
        }
        let voice = match line.voice {
            LineKind::User => 1.5,
            LineKind::Assistant => 0.7,
            LineKind::Call | LineKind::Argument => 1.0,
            LineKind::Result if tells_of_failure(line.text) => 1.3,
            LineKind::Result => 1.0,
        };
        value * voice * line.length_prior * (1.0 + topic.min(12.0) * ON_TOPIC)
    }

    /// The line and those it needs that were not taken yet.
    fn chain(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(at), |at| self.of.lines.get(*at)?.needs)
            .filter(|at| !self.taken.get(*at).copied().unwrap_or(true))
    }

    fn density(&self, at: usize) -> f32 {
        let (mut gain, mut cost) = (0.0, 0.0);
        for at in self.chain(at) {
            gain += self.gain(at);
            cost += self.of.lines.get(at).map_or(0.0, |line| {
                self.shown(line).len() as f32 / BYTES_PER_TOKEN + LINE_COST
            });
        }
        gain / cost.max(1.0)
    }

    /// Spends about `budget` tokens on lines, best first, of one voice if `only` says which; what is left of it. To the brim
    /// means that dearer lines are passed over for cheaper ones at the end.
    fn fill(&mut self, budget: u64, to_the_brim: bool, only: Option<LineKind>) -> u64 {
        let mut left = budget;
        let mut heap: BinaryHeap<Candidate> = (0..self.of.lines.len())
            .filter(|at| {
                self.of
                    .lines
                    .get(*at)
                    .is_some_and(|line| !line.bare && only.is_none_or(|voice| line.voice == voice))
            })
            .map(|line| Candidate {
                density: self.density(line),
                line,
            })
            .collect();
        while let Some(best) = heap.pop() {
            if self.taken.get(best.line).copied().unwrap_or(true) {
                continue;
            }
            let density = self.density(best.line);
            if heap
                .peek()
                .is_some_and(|next| next.density > density * 1.001)
            {
                heap.push(Candidate { density, ..best });
                continue;
            }
            let chain: Vec<usize> = self.chain(best.line).collect();
            let cost: u64 = chain
                .iter()
                .filter_map(|at| self.of.lines.get(*at))
                .map(|line| self.encoding.count(&self.shown(line)) + 1)
                .sum();
            // One line of prose or code alone is no digest.
            let plain = self
                .of
                .lines
                .get(best.line)
                .is_some_and(|line| line.plain && line.voice != LineKind::Call);
            if plain && cost * MOST_SHARE > budget && !to_the_brim {
                continue;
            }
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

    /// Names that no line says, best first, each with the line that opens its entry.
    fn nameable(&self) -> Vec<(usize, u32)> {
        let mut best: Vec<(f32, usize, u32)> = Vec::new();
        let mut seen = HashSet::new();
        for line in self.of.lines.iter().filter(|line| {
            line.plain && matches!(line.voice, LineKind::Argument | LineKind::Result)
        }) {
            for id in &line.words {
                if let (Some(word), Some(text)) = (
                    self.of.words.get(*id as usize),
                    self.of.spelled.get(*id as usize),
                ) && !word.said
                    && is_name(text)
                    && seen.insert(*id)
                {
                    let (entry, length_prior) = self
                        .of
                        .lines
                        .get(word.last)
                        .map_or((0, 1.0), |line| (line.entry, line.length_prior));
                    let value = word.value
                        * if word.written { WRITTEN } else { length_prior }
                        * (1.0 + word.topic * NAME_ON_TOPIC);
                    best.push((
                        value / (text.len() as f32 / BYTES_PER_TOKEN + 1.0),
                        entry,
                        *id,
                    ));
                }
            }
        }
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        best.into_iter().map(|(_, entry, id)| (entry, id)).collect()
    }

    /// Spends about `budget` tokens on names that no line says; what is left of it.
    fn name(&mut self, budget: u64) -> u64 {
        let (mut left, mut named) = (budget, HashSet::new());
        for (entry, id) in self.nameable() {
            let Some(text) = self.of.spelled.get(id as usize).filter(|_| {
                self.of
                    .words
                    .get(id as usize)
                    .is_some_and(|word| !word.said)
            }) else {
                continue;
            };
            let mut cost = self.encoding.count(text)
                + if self.names.contains_key(&entry) {
                    0
                } else {
                    ALSO_TOKENS
                };
            if !self.taken.get(entry).copied().unwrap_or(true) {
                cost += self
                    .of
                    .lines
                    .get(entry)
                    .map_or(0, |line| self.encoding.count(line.text) + 1);
            }
            if cost > left {
                if left < LEAST_NAME_TOKENS {
                    break;
                }
                continue;
            }
            left -= cost;
            self.take(entry);
            say(id, &mut self.of.words, &self.of.within);
            let inside = self
                .of
                .within
                .get(id as usize)
                .map_or(&[][..], Vec::as_slice);
            let names = self.names.entry(entry).or_default();
            // What a longer name contains it tells as well.
            if inside.iter().any(|part| named.contains(part)) {
                for part in names.extract_if(.., |name| inside.contains(name)) {
                    left += self
                        .of
                        .spelled
                        .get(part as usize)
                        .map_or(0, |text| self.encoding.count(text));
                }
            }
            names.push(id);
            named.insert(id);
        }
        left
    }

    /// A line as it will be told, as far as can be said now.
    fn shown(&self, line: &Line<'t>) -> Cow<'t, str> {
        match &line.heading {
            Some(heading) if self.headings.contains(&(heading.name, heading.columns)) => {
                Cow::Owned(heading.again())
            }
            _ => Cow::Borrowed(line.text),
        }
    }

    fn take(&mut self, at: usize) {
        if let (Some(taken), Some(line)) = (self.taken.get_mut(at), self.of.lines.get(at)) {
            *taken = true;
            self.headings
                .extend(line.heading.map(|heading| (heading.name, heading.columns)));
            for id in &line.words {
                say(*id, &mut self.of.words, &self.of.within);
            }
        }
    }

    /// What was chosen, in the order of the lines.
    pub(super) fn told(&self) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        let mut above: HashMap<&str, &str> = HashMap::new();
        for (at, (line, taken)) in self.of.lines.iter().zip(&self.taken).enumerate() {
            if *taken {
                let again = line.heading.filter(|heading| {
                    above.insert(heading.name, heading.columns) == Some(heading.columns)
                });
                told.push(again.map_or_else(|| line.text.to_owned(), |heading| heading.again()));
            }
            let last = self
                .of
                .lines
                .get(at + 1)
                .is_none_or(|next| next.entry != line.entry);
            if last && let Some(names) = self.names.get(&line.entry) {
                let names: Vec<&str> = names
                    .iter()
                    .filter_map(|id| self.of.spelled.get(*id as usize).copied())
                    .collect();
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

/// Whether the line of a call is a short command: one argument that needs no key.
fn is_command(head: &str) -> bool {
    let first = head
        .split_once('(')
        .and_then(|(_, said)| said.split_once(' '));
    head.len() <= COMMAND_BYTES && first.is_some_and(|(first, _)| !first.contains('='))
}
