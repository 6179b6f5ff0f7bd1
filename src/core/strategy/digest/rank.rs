//! The choice of a digest's lines when not all can stay: those with the most that is likely to be
//! needed, per token.
//!
//! Lines are taken best first; the words of a taken line lower the score of other lines that have
//! them. Part of the room is for names out of lines that were not taken.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::line::DigestLine;
use super::weigh::{Context, Line, LineKind, Weighed, Word, weigh};
use crate::core::conversation::scale;
use crate::core::text::{is_name, tells_of_failure};
use crate::core::tokens::Encoding;

/// Begins the line that lists the names of lines that were left out.
const ALSO: &str = "also:";

/// The share of its score that a word keeps which a taken line covers.
const COVERED: f32 = 0.03;
/// Factor for a name that the model wrote itself, in a script or a file. It is likely to write it
/// again.
const WRITTEN: f32 = 2.0;
/// The score of a call's line besides its words: it shows what was done.
const CALL: f32 = 0.7;
/// The same for a short command: it is likely to be run again as it is.
const COMMAND: f32 = 2.0;
/// The longest line of a call that is such a command (bytes).
const COMMAND_BYTES: usize = 90;
/// The score of any other line besides its words.
const LINE: f32 = 0.02;
/// The cost of a line besides its text, in tokens: its blanks, its end, and one line more to read.
const LINE_COST: f32 = 2.0;
/// Factor by which a line's score grows with the part of its words that the newest messages
/// contain.
const ON_TOPIC: f32 = 0.08;
/// Share of the budget that goes to the user's words before anything else.
const USER: f64 = 0.05;
/// Share of the budget that names may take which no taken line has.
const NAMES: f64 = 0.45;
/// The same factor for a name on its own.
const NAME_ON_TOPIC: f32 = 0.3;
/// The cost of the line of names besides them.
const ALSO_TOKENS: u64 = 3;
/// The least cost of a name.
const LEAST_NAME_TOKENS: u64 = 4;
/// Bytes of a token, about.
const BYTES_PER_TOKEN: f32 = 3.5;
/// The share of the budget that a line may cost at most before there are others: one in so many.
const MOST_SHARE: u64 = 3;
/// Share of the budget that each end of a shortened text gets.
const EDGE: f64 = 0.2;

/// The lines of one text that stay within about `budget` tokens. Its beginning and its end stay in
/// any case.
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

/// The choice out of the lines of a full digest.
pub(super) struct Choice<'t> {
    of: Weighed<'t>,
    encoding: Encoding,
    taken: Vec<bool>,
    /// Words that are listed by name alone, by the line that opens their entry.
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
        // The user's words are short as a rule, and cannot be looked up again.
        let for_user = scale(budget, USER);
        let budget = budget - for_user + choice.fill(for_user, true, Some(LineKind::User));
        choice.spend(budget);
        choice
    }

    /// Chooses more, in at most about so many tokens. Returns whether there was any.
    pub(super) fn extend(&mut self, budget: u64) -> bool {
        self.spend(budget) < budget
    }

    /// Spends about so many tokens on lines and on names. Returns the tokens that are left.
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

    /// The score that taking a line would add.
    fn gain(&self, at: usize) -> f32 {
        let Some(line) = self.of.lines.get(at) else {
            return 0.0;
        };
        let own = match line.kind {
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
            value += if word.covered {
                word.value * COVERED
            } else {
                word.value
            };
            topic += word.topic;
        }
        let factor = match line.kind {
            LineKind::User => 1.5,
            LineKind::Assistant => 0.7,
            LineKind::Call | LineKind::Argument => 1.0,
            LineKind::Result if tells_of_failure(line.text) => 1.3,
            LineKind::Result => 1.0,
        };
        value * factor * line.length_prior * (1.0 + topic.min(12.0) * ON_TOPIC)
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

    /// Spends about `budget` tokens on lines, best first, of one kind if `only` is given. Returns
    /// the tokens that are left. To the brim means that dearer lines are passed over for cheaper
    /// ones at the end.
    fn fill(&mut self, budget: u64, to_the_brim: bool, only: Option<LineKind>) -> u64 {
        let mut left = budget;
        let mut heap: BinaryHeap<Candidate> = (0..self.of.lines.len())
            .filter(|at| {
                self.of
                    .lines
                    .get(*at)
                    .is_some_and(|line| !line.bare && only.is_none_or(|kind| line.kind == kind))
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
            // One line of prose or code alone does not make a digest.
            let plain = self
                .of
                .lines
                .get(best.line)
                .is_some_and(|line| line.plain && line.kind != LineKind::Call);
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

    /// Names that no taken line has, best first, each with the line that opens its entry.
    fn nameable(&self) -> Vec<(usize, u32)> {
        let mut best: Vec<(f32, usize, u32)> = Vec::new();
        let mut seen = HashSet::new();
        for line in
            self.of.lines.iter().filter(|line| {
                line.plain && matches!(line.kind, LineKind::Argument | LineKind::Result)
            })
        {
            for id in &line.words {
                if let (Some(word), Some(text)) = (
                    self.of.words.get(*id as usize),
                    self.of.spelled.get(*id as usize),
                ) && !word.covered
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

    /// Spends about `budget` tokens on names that no taken line has. Returns the tokens that are
    /// left.
    fn name(&mut self, budget: u64) -> u64 {
        let (mut left, mut named) = (budget, HashSet::new());
        for (entry, id) in self.nameable() {
            let Some(text) = self.of.spelled.get(id as usize).filter(|_| {
                self.of
                    .words
                    .get(id as usize)
                    .is_some_and(|word| !word.covered)
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
            cover(id, &mut self.of.words, &self.of.within);
            let inside = self
                .of
                .within
                .get(id as usize)
                .map_or(&[][..], Vec::as_slice);
            let names = self.names.entry(entry).or_default();
            // A longer name covers the names inside it.
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

    /// A line as it will be shown, as far as is known now.
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
                cover(*id, &mut self.of.words, &self.of.within);
            }
        }
    }

    /// The chosen lines, in their order.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut shown: Vec<String> = Vec::new();
        let mut above: HashMap<&str, &str> = HashMap::new();
        for (at, (line, taken)) in self.of.lines.iter().zip(&self.taken).enumerate() {
            if *taken {
                let again = line.heading.filter(|heading| {
                    above.insert(heading.name, heading.columns) == Some(heading.columns)
                });
                shown.push(again.map_or_else(|| line.text.to_owned(), |heading| heading.again()));
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
                shown.push(format!(" {ALSO} {}", names.join(" ")));
            }
        }
        shown
    }
}

/// Marks a word, and the words inside it, as covered.
fn cover(id: u32, words: &mut [Word], within: &[Vec<u32>]) {
    let inside = within.get(id as usize).into_iter().flatten();
    for id in std::iter::once(&id).chain(inside) {
        if let Some(word) = words.get_mut(*id as usize) {
            word.covered = true;
        }
    }
}

/// Whether the line of a call is a short command: one argument that needs no key.
fn is_command(head: &str) -> bool {
    let first = head
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(' '));
    head.len() <= COMMAND_BYTES && first.is_some_and(|(first, _)| !first.contains('='))
}
