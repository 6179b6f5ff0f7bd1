//! The scores of a full digest's lines, before any of them is chosen.
//!
//! The score of a line is that of its words: identifiers, numbers, dates and paths above all, the
//! more so when they are recent, were used in calls, are under a key whose values calls take, come
//! from a short result, or belong to the topic of the newest messages.

use std::collections::{HashMap, HashSet};

use super::line::{DigestLine, Heading};
use crate::core::text::{INFORMATIVE, parts_of, shape, words_of};

/// The score of a word of the oldest entry, compared to one of the newest.
const OLDEST: f32 = 0.4;
/// The growth of a word's score by each further mention, and by each further call with it.
const USED: f32 = 0.3;
/// Factor for a value under a key whose values calls take.
const ASKED: f32 = 4.0;
/// The score of a key: its value counts.
const KEY: f32 = 0.1;
/// The highest score of a line's first word with a capital, which is grammar.
const FIRST: f32 = 0.25;
/// A key with so many digits is an id (`address1` is not).
const ID_DIGITS: usize = 3;
/// The length of a result that changes the scores of its lines neither way (bytes).
const USUAL_BYTES: f32 = 400.0;
/// The lengths between which the length makes a difference (bytes).
const SHORT_AND_LONG_BYTES: (f32, f32) = (40.0, 20_000.0);
/// The weight of the length: the power to which it is raised.
const ONE_OF_MANY: f32 = 0.3;

/// The origin of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    User,
    Assistant,
    Call,
    /// A line of an argument that has lines of its own.
    Argument,
    Result,
}

/// A line of the full digest.
pub(super) struct Line<'t> {
    pub text: &'t str,
    /// The line without which this one would not be understood.
    pub needs: Option<usize>,
    pub kind: LineKind,
    /// Its distinct words, as indices.
    pub words: Vec<u32>,
    /// The line that opens its entry.
    pub entry: usize,
    /// Whether names may be listed in its place.
    pub plain: bool,
    /// Its parts, where it is the head of a table.
    pub heading: Option<Heading<'t>>,
    /// Has no meaning without the lines below it.
    pub bare: bool,
    /// Factor of its score: above 1 in the entry of a short result, below in that of a long one.
    pub length_prior: f32,
}

/// A word of the digest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Word {
    /// The score of one mention.
    pub value: f32,
    /// Lines that have it.
    lines: u32,
    /// Calls that have it.
    calls: u32,
    /// Entries that have it.
    entries: u32,
    /// The last entry that has it, counted from 1.
    entry: usize,
    /// The last line that has it.
    pub last: usize,
    /// In the lines of an argument: the model wrote it itself.
    pub written: bool,
    /// In a text that stays anyway, or in a line that was taken.
    pub covered: bool,
    /// Its weight in the newest messages.
    pub topic: f32,
}

impl Word {
    /// Takes note of a line that has the word, in the last of `entries`.
    fn note(&mut self, line: &Current<'_>, entries: usize) {
        self.lines += 1;
        self.calls += u32::from(matches!(line.kind, LineKind::Call | LineKind::Argument));
        self.written |= line.kind == LineKind::Argument;
        self.last = line.at;
        if self.entry != entries {
            self.entry = entries;
            self.entries += 1;
        }
    }
}

impl Current<'_> {
    /// The part of `word`, a slice of the line's text.
    fn part_of(&self, word: &str) -> Part {
        let bytes = self.text.as_bytes();
        let offset = word.as_ptr() as usize - self.text.as_ptr() as usize;
        let after = bytes.get(offset + word.len());
        let before = offset.checked_sub(1).and_then(|at| bytes.get(at));
        let assigned = before == Some(&b'=');
        let numbering = self.plain
            && self.text.trim_start().as_ptr() == word.as_ptr()
            && word.bytes().all(|b| b.is_ascii_digit());
        let names_value = match after {
            Some(b':') => !self.plain,
            Some(b'=') => !self.plain || self.kind == LineKind::Call,
            _ => false,
        };
        // A map from ids: an id as a key is needed like a value.
        let id_as_key =
            after == Some(&b':') && word.bytes().filter(u8::is_ascii_digit).count() >= ID_DIGITS;
        let in_heading = self.heading.is_some() && !assigned;
        Part {
            offset,
            assigned,
            names_value,
            id_as_key,
            key: numbering || ((names_value || in_heading) && !id_as_key),
        }
    }
}

/// The text that stays besides the digest.
#[derive(Debug, Default)]
pub(in crate::core::strategy) struct Context {
    /// Texts of messages.
    pub texts: Vec<String>,
    /// Arguments of calls.
    pub calls: Vec<String>,
    /// The newest of both: the present topic of the conversation.
    pub recent: Vec<String>,
}

/// The lines of a full digest and their words.
pub(super) struct Weighed<'t> {
    pub lines: Vec<Line<'t>>,
    pub words: Vec<Word>,
    pub spelled: Vec<&'t str>,
    /// The words that each word contains whole.
    pub within: Vec<Vec<u32>>,
}

/// Weighs all lines.
pub(super) fn weigh<'t>(lines: &'t [DigestLine], context: &Context) -> Weighed<'t> {
    let mut reader = Reader {
        index: HashMap::with_capacity(lines.len() * 4),
        ..Reader::default()
    };
    for (at, line) in lines.iter().enumerate() {
        reader.read(at, line);
    }
    reader.weighed(context)
}

/// Reads lines in their order.
#[derive(Default)]
struct Reader<'t> {
    index: HashMap<&'t str, u32>,
    lines: Vec<Line<'t>>,
    words: Vec<Word>,
    spelled: Vec<&'t str>,
    /// The line that opened the present entry, and the last section in it.
    entry: Option<usize>,
    section: Option<usize>,
    kind: Option<LineKind>,
    entries: usize,
    /// The keys of the present table, by column.
    columns: Vec<Option<u32>>,
    /// Values in results, each with its key.
    values: Vec<(u32, u32)>,
    /// Keys whose values calls take.
    asked: HashSet<u32>,
}

/// The line that is being read.
struct Current<'t> {
    at: usize,
    text: &'t str,
    plain: bool,
    kind: LineKind,
    heading: Option<Heading<'t>>,
    /// The ends of its cells, where it is the row of a table.
    cells: Vec<usize>,
    /// Its distinct words so far.
    words: Vec<u32>,
    /// The last key in it.
    key: Option<u32>,
}

/// The part of a word in its line.
struct Part {
    /// Bytes before it.
    offset: usize,
    /// It is assigned to the name before it, as in `key=value`.
    assigned: bool,
    /// It names a value.
    names_value: bool,
    /// It names a value, but is an id itself: a map from ids.
    id_as_key: bool,
    /// Its score is that of a key.
    key: bool,
}

impl<'t> Reader<'t> {
    fn read(&mut self, at: usize, line: &'t DigestLine) {
        let text = line.text.as_str();
        let blanks = text.len() - text.trim_start_matches(' ').len();
        let needs = self.place(at, text, blanks);
        let kind = match self.kind {
            Some(LineKind::Call) if line.argument => LineKind::Argument,
            Some(LineKind::Call) if blanks > 0 => LineKind::Result,
            kind => kind.unwrap_or(LineKind::Result),
        };
        if blanks < 2 {
            self.columns.clear();
        }
        let is_row = !line.plain && !self.columns.is_empty();
        let mut current = Current {
            at,
            text,
            plain: line.plain,
            kind,
            heading: if line.plain { None } else { Heading::of(text) },
            cells: if is_row { commas(text) } else { Vec::new() },
            words: Vec::new(),
            key: None,
        };
        for word in words_of(text) {
            self.read_word(word, &mut current);
        }
        if let Some(heading) = &current.heading {
            self.columns = heading
                .cells()
                .map(|name| self.index.get(name).copied())
                .collect();
        }
        self.lines.push(Line {
            text,
            needs,
            kind,
            words: current.words,
            entry: self.entry.unwrap_or_default(),
            plain: line.plain,
            heading: current.heading,
            bare: blanks == 1 && !line.plain && text.ends_with(':'),
            length_prior: 1.0,
        });
    }

    /// Finds the place of a line among the others: the line without which it would not be
    /// understood.
    fn place(&mut self, at: usize, text: &str, blanks: usize) -> Option<usize> {
        match blanks {
            0 => {
                (self.entry, self.section) = (Some(at), None);
                self.kind = Some(kind_of(text));
                self.entries += 1;
                None
            }
            1 => {
                self.section = text.ends_with(':').then_some(at);
                self.entry
            }
            _ => self.section.or(self.entry),
        }
    }

    fn read_word(&mut self, word: &'t str, line: &mut Current<'t>) {
        let part = line.part_of(word);
        let id = self.id_of(word);
        match line.kind {
            LineKind::Call if part.names_value => _ = self.asked.insert(id),
            LineKind::Result if part.names_value && !part.id_as_key => line.key = Some(id),
            LineKind::Result if line.heading.is_none() || part.assigned => {
                let column = line.cells.partition_point(|comma| *comma < part.offset);
                let column = self.columns.get(column).copied().flatten();
                self.values.extend(column.or(line.key).map(|key| (id, key)));
            }
            _ => {}
        }
        let first = line.words.is_empty();
        let again = line.words.contains(&id);
        let entries = self.entries;
        if let Some(known) = self.words.get_mut(id as usize) {
            let score = match shape(word) {
                _ if part.key => KEY,
                score if line.plain && first && only_begins_large(word) => score.min(FIRST),
                score => score,
            };
            known.value = known.value.max(score);
            if !again {
                known.note(line, entries);
            }
        }
        if !again {
            line.words.push(id);
        }
    }

    fn id_of(&mut self, word: &'t str) -> u32 {
        *self.index.entry(word).or_insert_with(|| {
            self.words.push(Word::default());
            self.spelled.push(word);
            u32::try_from(self.words.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn for_known(&mut self, text: &str, mut f: impl FnMut(u32, &mut Word)) {
        for word in words_of(text) {
            if let Some(id) = self.index.get(word)
                && let Some(word) = self.words.get_mut(*id as usize)
            {
                f(*id, word);
            }
        }
    }

    fn weighed(mut self, context: &Context) -> Weighed<'t> {
        for text in context.texts.iter().chain(&context.calls) {
            self.for_known(text, |_, word| word.covered = true);
        }
        let mut asked = std::mem::take(&mut self.asked);
        for text in &context.calls {
            self.for_known(text, |id, word| {
                word.calls += 1;
                asked.insert(id);
            });
        }
        let total = self.lines.len() as f32;
        for text in &context.recent {
            self.for_known(text, |_, word| {
                word.topic = (total / word.lines as f32).ln().max(0.0)
            });
        }
        // A call may take another value under the key whose value an earlier call took.
        let taken = |id: &u32| {
            self.words
                .get(*id as usize)
                .is_some_and(|word| word.calls > 0 && word.value >= INFORMATIVE)
        };
        asked.extend(
            self.values
                .iter()
                .filter(|(value, _)| taken(value))
                .map(|(_, key)| *key),
        );
        let wanted: HashSet<u32> = self
            .values
            .iter()
            .filter(|(_, key)| asked.contains(key))
            .map(|(value, _)| *value)
            .collect();
        for (id, word) in (0..).zip(&mut self.words) {
            let recency =
                OLDEST + (1.0 - OLDEST) * (word.entry as f32 / self.entries.max(1) as f32);
            let used =
                1.0 + USED * (word.calls.min(3) + word.entries.saturating_sub(1).min(3)) as f32;
            word.value *= recency * used * if wanted.contains(&id) { ASKED } else { 1.0 };
        }
        self.weigh_lengths();
        let inside = |word: &&'t str| {
            parts_of(word)
                .filter_map(|part| self.index.get(part).copied())
                .collect()
        };
        let within = self.spelled.iter().map(inside).collect();
        Weighed {
            lines: self.lines,
            words: self.words,
            spelled: self.spelled,
            within,
        }
    }

    /// One value among many is less likely to be the one that is asked for.
    fn weigh_lengths(&mut self) {
        let mut bytes: HashMap<usize, usize> = HashMap::new();
        for line in self
            .lines
            .iter()
            .filter(|line| line.kind == LineKind::Result)
        {
            *bytes.entry(line.entry).or_default() += line.text.len();
        }
        let (short, long) = SHORT_AND_LONG_BYTES;
        for line in &mut self.lines {
            if let Some(bytes) = bytes.get(&line.entry) {
                line.length_prior =
                    (USUAL_BYTES / (*bytes as f32).clamp(short, long)).powf(ONE_OF_MANY);
            }
        }
    }
}

/// The ends of a row's cells.
fn commas(row: &str) -> Vec<usize> {
    let mut quoted = false;
    row.bytes()
        .enumerate()
        .filter(|(_, byte)| {
            quoted ^= *byte == b'"';
            *byte == b',' && !quoted
        })
        .map(|(at, _)| at)
        .collect()
}

fn only_begins_large(word: &str) -> bool {
    word.chars().skip(1).all(char::is_lowercase)
}

fn kind_of(head: &str) -> LineKind {
    match head.split_once(' ').map_or(head, |(first, _)| first) {
        "user:" => LineKind::User,
        "assistant:" => LineKind::Assistant,
        "→" => LineKind::Call,
        _ => LineKind::Result,
    }
}
