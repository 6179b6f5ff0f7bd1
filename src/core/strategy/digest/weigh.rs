//! What the lines of a full digest are worth, before any of them is chosen.
//!
//! A line is worth the words in it: identifiers, numbers, dates and paths above all, the more so when they are recent, were
//! used in calls, stand under a key whose values calls take, come from a short result, or belong to what the newest
//! messages speak of.

use std::collections::{HashMap, HashSet};

use crate::core::strategy::digest::extract::{DigestLine, Heading};
use crate::core::text::{INFORMATIVE, parts_of, shape, words_of};

/// What a word of the oldest entry is worth, compared to one of the newest.
const OLDEST: f32 = 0.4;
/// What each further mention adds to a word's worth, and each call that says it once more.
const USED: f32 = 0.3;
/// Times worth more: a value under a key that calls take values of.
const ASKED: f32 = 4.0;
/// What a key is worth: its value counts.
const KEY: f32 = 0.1;
/// What the first word of a line is worth at most: its capital is grammar.
const FIRST: f32 = 0.25;
/// A key with so many digits is an id (`address1` is none).
const ID_DIGITS: usize = 3;
/// A result of this length is no reason to expect more or less of its lines (bytes).
const USUAL_BYTES: f32 = 400.0;
/// Lengths between which it makes a difference (bytes).
const SHORT_AND_LONG_BYTES: (f32, f32) = (40.0, 20_000.0);
/// How much it matters that a value is one of many: the power of the length.
const ONE_OF_MANY: f32 = 0.3;

/// Who speaks in a line.
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
    pub voice: LineKind,
    /// Its distinct words, as indices.
    pub words: Vec<u32>,
    /// The line that opens its entry.
    pub entry: usize,
    /// Whether names may stand for it.
    pub plain: bool,
    /// What it says as the head of a table.
    pub heading: Option<Heading<'t>>,
    /// Says nothing without the lines below it.
    pub bare: bool,
    /// What its worth is multiplied by: above 1 in the entry of a short result, below in that of a long one.
    pub length_prior: f32,
}

/// A word of the digest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Word {
    /// What saying it once is worth.
    pub value: f32,
    /// Lines that say it.
    lines: u32,
    /// Calls that say it.
    calls: u32,
    /// Entries that say it.
    entries: u32,
    /// The last entry that says it, counted from 1.
    entry: usize,
    /// The last line that says it.
    pub last: usize,
    /// Said in the lines of an argument: the model wrote it itself.
    pub written: bool,
    /// Said by what stays anyway, or by a line that was taken.
    pub said: bool,
    /// How much the newest messages speak of it.
    pub topic: f32,
}

/// The text that stays beside the digest.
#[derive(Debug, Default)]
pub(in crate::core::strategy) struct Context {
    /// What its messages say.
    pub said: Vec<String>,
    /// The arguments of its calls.
    pub calls: Vec<String>,
    /// The newest of both: what the conversation is about now.
    pub recent: Vec<String>,
}

/// The lines of a full digest and their words.
pub(super) struct Weighed<'t> {
    pub lines: Vec<Line<'t>>,
    pub words: Vec<Word>,
    pub spelled: Vec<&'t str>,
    /// The words that each word contains whole: who says the one says the others.
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
    /// The line that opened the entry at hand, and the last section in it.
    entry: Option<usize>,
    section: Option<usize>,
    voice: Option<LineKind>,
    entries: usize,
    /// The keys of the table at hand, by column.
    columns: Vec<Option<u32>>,
    /// Values in results, each with the key it stands under.
    values: Vec<(u32, u32)>,
    /// Keys whose values calls take.
    asked: HashSet<u32>,
}

impl<'t> Reader<'t> {
    fn read(
        &mut self,
        at: usize,
        DigestLine {
            text,
            plain,
            argument,
        }: &'t DigestLine,
    ) {
        let blanks = text.len() - text.trim_start_matches(' ').len();
        let needs = match blanks {
            0 => {
                (self.entry, self.section, self.voice) = (Some(at), None, Some(voice_of(text)));
                self.entries += 1;
                None
            }
            1 => {
                self.section = text.ends_with(':').then_some(at);
                self.entry
            }
            _ => self.section.or(self.entry),
        };
        let voice = match self.voice {
            Some(LineKind::Call) if *argument => LineKind::Argument,
            Some(LineKind::Call) if blanks > 0 => LineKind::Result,
            voice => voice.unwrap_or(LineKind::Result),
        };
        let heading = if *plain { None } else { Heading::of(text) };
        if blanks < 2 {
            self.columns.clear();
        }
        let cells = if *plain || self.columns.is_empty() {
            Vec::new()
        } else {
            commas(text)
        };
        let (mut own, mut under): (Vec<u32>, Option<u32>) = (Vec::new(), None);
        for word in words_of(text) {
            let offset = word.as_ptr() as usize - text.as_ptr() as usize;
            let behind = text.as_bytes().get(offset + word.len());
            let assigned =
                offset.checked_sub(1).and_then(|at| text.as_bytes().get(at)) == Some(&b'=');
            let numbering = *plain
                && text.trim_start().as_ptr() == word.as_ptr()
                && word.bytes().all(|b| b.is_ascii_digit());
            let names_value = match behind {
                Some(b':') => !plain,
                Some(b'=') => !plain || voice == LineKind::Call,
                _ => false,
            };
            // A map from ids: what stands there as a key is needed like a value.
            let id_as_key = behind == Some(&b':')
                && word.bytes().filter(u8::is_ascii_digit).count() >= ID_DIGITS;
            let key =
                numbering || ((names_value || (heading.is_some() && !assigned)) && !id_as_key);
            let id = self.id_of(word);
            match voice {
                LineKind::Call if names_value => _ = self.asked.insert(id),
                LineKind::Result if names_value && !id_as_key => under = Some(id),
                LineKind::Result if heading.is_none() || assigned => {
                    let column = self
                        .columns
                        .get(cells.partition_point(|comma| *comma < offset))
                        .copied()
                        .flatten();
                    self.values.extend(column.or(under).map(|key| (id, key)));
                }
                _ => {}
            }
            let first = own.is_empty();
            let again = own.contains(&id);
            if let Some(known) = self.words.get_mut(id as usize) {
                known.value = known.value.max(match shape(word) {
                    _ if key => KEY,
                    worth if *plain && first && only_begins_large(word) => worth.min(FIRST),
                    worth => worth,
                });
                if !again {
                    known.lines += 1;
                    known.calls += u32::from(matches!(voice, LineKind::Call | LineKind::Argument));
                    known.written |= voice == LineKind::Argument;
                    known.last = at;
                    if known.entry != self.entries {
                        known.entry = self.entries;
                        known.entries += 1;
                    }
                }
            }
            if !again {
                own.push(id);
            }
        }
        if let Some(heading) = &heading {
            self.columns = heading
                .cells()
                .map(|name| self.index.get(name).copied())
                .collect();
        }
        self.lines.push(Line {
            text,
            needs,
            voice,
            words: own,
            entry: self.entry.unwrap_or_default(),
            plain: *plain,
            heading,
            bare: blanks == 1 && !plain && text.ends_with(':'),
            length_prior: 1.0,
        });
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
        for text in context.said.iter().chain(&context.calls) {
            self.for_known(text, |_, word| word.said = true);
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
        // Where a call took a value from, it may take another.
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
            .filter(|line| line.voice == LineKind::Result)
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

/// Where the cells of a row end.
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

fn voice_of(head: &str) -> LineKind {
    match head.split_once(' ').map_or(head, |(first, _)| first) {
        "user:" => LineKind::User,
        "assistant:" => LineKind::Assistant,
        "→" => LineKind::Call,
        _ => LineKind::Result,
    }
}
