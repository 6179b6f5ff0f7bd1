//! The scores of a full digest's lines, before any of them is chosen.
//!
//! The score of a line is that of its words: identifiers, numbers, dates and paths above all, the
//! more so when they are recent, were used in calls, are under a key whose values calls take, come
//! from a short result, or belong to the topic of the newest messages.

pub(super) mod context;
mod dated;
mod joined;
pub(super) mod place;
mod policy_keys;
mod said;
mod unspaced;
pub(super) mod weight;
pub(super) mod weights;
pub(super) mod word;
pub(super) mod worth;

use std::ops::Range;

use foldhash::fast::FixedState;

use self::context::Context;
use self::dated::Dated;
use self::joined::find_joined;
use self::place::Current;
use self::unspaced::Unspaced;
use self::weight::{Weighed, Weight};
use self::weights::{line as lines_by, word as words_by};
use self::word::{Word, is_lettered_id};
use crate::core::strategy::digest::line::{DigestLine, Heading, Part, STRIDE, Standing};
use crate::core::strategy::maps::{Map, Set, hash_of};
use crate::core::text::{
    INFORMATIVE, PATH, Stem, may_report, may_sum_up, parts_of, shape, stem_of, words_of,
};
use crate::core::{Cancel, Cancelled};

/// Words of one line that are weighed: more is data. It bounds the time that a line takes each time
/// another one that needs it is looked at.
const MOST_WORDS: usize = 240;
/// Words that a line has, about.
const WORDS_OF_LINE: usize = 8;
/// The most lines with a word that counts as one of the user's newest message by its stem.
const MOST_LINES: u32 = 8;
/// Weighs all lines.
pub(super) fn weigh(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<Weighed, Cancelled> {
    let mut reader = Reader {
        index: Map::with_capacity_and_hasher(lines.len() * 2, FixedState::default()),
        lines: Vec::with_capacity(lines.len()),
        mentions: Vec::with_capacity(lines.len() * WORDS_OF_LINE),
        ..Reader::default()
    };
    for (at, line) in lines.iter().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        reader.read(at, line);
    }
    reader.weighed(lines, context, cancel)
}

/// Reads lines in their order.
#[derive(Default)]
struct Reader<'t> {
    /// Indices of words, by their hashes: two words with the same one would share their score.
    index: Map<u64, u32>,
    lines: Vec<Weight>,
    words: Vec<Word>,
    mentions: Vec<u32>,
    spelled: Vec<&'t str>,
    unspaced: Unspaced,
    dated: Dated,
    /// The line that opened the present entry, and that with its record.
    entry: Option<usize>,
    record: Option<usize>,
    /// The lines that deeper ones belong to, each with its depth.
    open: Vec<(u8, usize)>,
    entries: u32,
    /// The keys of the present table, by column.
    columns: Vec<Option<u32>>,
    /// Values in results, each with its key.
    values: Vec<(u32, u32)>,
    /// Keys whose values calls take.
    asked: Vec<u32>,
    /// The lines of calls that took a value of an earlier result, in their order.
    followed: Vec<usize>,
    /// The words that sentences of the parties mean in another form, by line; and all words of
    /// those that stay, newest first.
    meant_in: Map<usize, Vec<u32>>,
    said_besides: Vec<Vec<u32>>,
    /// The words of the user's newest messages, as they stand there.
    said_last: Vec<u32>,
}

impl<'t> Reader<'t> {
    fn read(&mut self, at: usize, line: &'t DigestLine) {
        let needs = self.place(at, line);
        if !line.is_whole() {
            // Its words are those of the whole line.
            let none = self.mentions.len();
            self.push(needs, none, none..none);
            return;
        }
        if line.part != Part::Row {
            self.columns.clear();
        }
        let mut current = Current::new(line, self.mentions.len());
        for word in words_of(&line.text) {
            if self.mentions.len() - current.from >= MOST_WORDS {
                break;
            }
            self.read_word(word, &mut current);
        }
        if line.part == Part::Head
            && let Some(heading) = Heading::of(&line.text)
        {
            self.columns = heading
                .cells()
                .map(|name| self.index.get(&hash_of(name)).copied())
                .collect();
        }
        self.push(needs, current.from, current.name);
    }

    /// Adds the weight of a line whose words are the mentions from `from` on.
    fn push(&mut self, needs: Option<usize>, from: usize, name: Range<usize>) {
        self.lines.push(Weight {
            needs,
            words: from..self.mentions.len(),
            entry: self.entry.unwrap_or_default(),
            length_prior: 1.0,
            name,
            named: 1.0,
            finds: false,
            meant: false,
            picked: false,
            described: false,
            at_hand: false,
            in_question: None,
            topic: 0.0,
        });
    }

    /// Finds the place of a line among the others: the line without which it would not be
    /// understood.
    fn place(&mut self, at: usize, line: &DigestLine) -> Option<usize> {
        let within = line.within.and_then(|above| at.checked_sub(above));
        match line.depth {
            0 => {
                (self.entry, self.record) = (Some(at), None);
                self.open.clear();
                self.entries += 1;
                // An answer may need what it answers.
                within
            }
            // What was said before and after shows the place of a sentence.
            _ if line.part.is_said() || (within.is_some() && line.part != Part::Head) => within,
            _ => {
                let above = self.open.iter().rfind(|(depth, _)| *depth < line.depth);
                let above = match (above, line.part) {
                    (Some((_, above)), _) => Some(*above),
                    // A record is told before what is in it.
                    (None, Part::Member | Part::Head) => self.record.or(self.entry),
                    _ => self.entry,
                };
                if line.opens || line.is_section() {
                    self.open.retain(|(depth, _)| *depth < line.depth);
                    self.open.push((line.depth, at));
                }
                if line.part == Part::Record {
                    self.record = self.record.or(Some(at));
                }
                // A page of a list needs what says so.
                within.or(above)
            }
        }
    }

    fn read_word(&mut self, word: &'t str, line: &mut Current<'t>) {
        let place = line.place_of(word);
        let id = self.id_of(word);
        match line.part {
            Part::Call if place.names_value => self.asked.push(id),
            Part::Head if line.of_call && !place.assigned => self.asked.push(id),
            Part::User | Part::Assistant => {}
            _ if line.of_call => {}
            _ if place.names_value && !place.id_as_key => line.key = Some(id),
            Part::Head if !place.assigned => {}
            _ => {
                let column = self.columns.get(line.cell_of(&place)).copied().flatten();
                self.values.extend(column.or(line.key).map(|key| (id, key)));
            }
        }
        let first = self.mentions.len() == line.from;
        let number = u32::try_from(self.lines.len() + 1).unwrap_or(u32::MAX);
        let entries = self.entries;
        let Some(known) = self.words.get_mut(id as usize) else {
            return;
        };
        if line.part == Part::Call && known.in_result && known.shape >= words_by::TELLING {
            self.followed.extend(self.entry);
        }
        known.in_result |= !line.of_call && !line.part.is_said();
        known.said |= line.part.is_said();
        known.said_by_user |= line.part == Part::User;
        if known.value < known.shape {
            let score = if place.key {
                words_by::KEY
            } else if line.part.is_plain() && first && only_begins_large(word) {
                known.shape.min(words_by::FIRST)
            } else {
                known.shape
            };
            known.value = known.value.max(score);
        }
        if known.line != number {
            known.line = number;
            known.note(line.of_call, entries);
            self.mentions.push(id);
            if place.is_name {
                if line.name.is_empty() {
                    line.name.start = self.mentions.len() - 1;
                }
                line.name.end = self.mentions.len();
            }
        }
    }

    fn id_of(&mut self, word: &'t str) -> u32 {
        *self.index.entry(hash_of(word)).or_insert_with(|| {
            self.words.push(Word {
                shape: shape(word),
                is_id: is_lettered_id(word),
                reports: may_report(word) || may_sum_up(word),
                ..Word::default()
            });
            self.spelled.push(word);
            self.unspaced.note(word);
            let id = u32::try_from(self.words.len() - 1).unwrap_or(u32::MAX);
            self.dated.note(word, id);
            id
        })
    }

    fn for_known(&mut self, text: &str, mut f: impl FnMut(u32, &mut Word)) {
        for word in words_of(text) {
            if let Some(id) = self.index.get(&hash_of(word))
                && let Some(word) = self.words.get_mut(*id as usize)
            {
                f(*id, word);
            }
        }
    }

    /// The same, also for words within a run without blanks, or in another form.
    fn for_said(&mut self, text: &str, mut f: impl FnMut(&mut Word)) {
        self.for_known(text, |_, word| f(word));
        self.for_meant(text, |_, word| f(word));
    }

    fn for_meant(&mut self, text: &str, mut f: impl FnMut(u32, &mut Word)) {
        let (index, words) = (&self.index, &mut self.words);
        let known = |form: &str| index.get(&hash_of(form)).copied();
        let mut tell = |id: u32| words.get_mut(id as usize).map(|word| f(id, word)).is_some();
        for id in self.dated.find(text, known) {
            tell(id);
        }
        find_joined(text, |value| {
            known(value).map(&mut tell);
        });
        self.unspaced
            .find(text, |part| known(part).is_some_and(&mut tell));
    }

    fn weighed(
        mut self,
        lines: &[DigestLine],
        context: &Context,
        cancel: &Cancel,
    ) -> Result<Weighed, Cancelled> {
        for text in context.texts.iter().chain(&context.calls) {
            cancel.check_budget()?;
            self.for_known(text, |_, word| word.covered = true);
        }
        self.note_said(lines, context, cancel)?;
        let wanted = self.wanted(context, cancel)?;
        self.find_topic(lines, context, cancel)?;
        let named_last = self.named_last(lines, context);
        for (word, wanted) in self.words.iter_mut().zip(wanted) {
            let age = word.entry as f32 / self.entries.max(1) as f32;
            let recency = words_by::OLDEST + (1.0 - words_by::OLDEST) * age;
            let mentions = word.calls.min(3) + word.entries.saturating_sub(1).min(3);
            let used = 1.0 + words_by::USED * mentions as f32;
            let asked = match wanted {
                true if word.shape >= PATH => words_by::ASKED_PATH,
                true => words_by::ASKED,
                false => 1.0,
            };
            word.value *= recency * used * asked;
        }
        cancel.check_budget()?;
        self.weigh_lengths(lines);
        self.weigh_followed(lines);
        cancel.check_budget()?;
        self.weigh_topics(lines);
        cancel.check_budget()?;
        let has_parts = |word: &&str| word.bytes().any(|b| matches!(b, b'/' | b'.'));
        let inside = |word: &&'t str| {
            let parts = Some(*word).filter(has_parts).into_iter().flat_map(parts_of);
            let known = parts.filter_map(|part| self.index.get(&hash_of(part)).copied());
            known.collect()
        };
        let within = self.spelled.iter().map(inside).collect();
        Ok(Weighed {
            named_last,
            lines: self.lines,
            words: self.words,
            mentions: self.mentions,
            within,
            meant_in: self.meant_in,
            said_besides: self.said_besides,
            said_last: self.said_last,
        })
    }

    /// Whether each word is a value under a key whose values calls take.
    fn wanted(&mut self, context: &Context, cancel: &Cancel) -> Result<Vec<bool>, Cancelled> {
        // Keys whose values calls take.
        let mut asked = vec![false; self.words.len()];
        let note = |asked: &mut Vec<bool>, id: u32| {
            if let Some(asked) = asked.get_mut(id as usize) {
                *asked = true;
            }
        };
        for id in std::mem::take(&mut self.asked) {
            note(&mut asked, id);
        }
        for text in &context.calls {
            cancel.check_budget()?;
            self.for_known(text, |id, word| {
                word.calls += 1;
                word.called_last = true;
                note(&mut asked, id);
            });
        }
        let named = context
            .keys
            .iter()
            .filter_map(|key| self.index.get(&hash_of(key.as_str())));
        named.for_each(|id| note(&mut asked, *id));
        cancel.check_budget()?;
        // A call may take another value under the key whose value an earlier call took.
        for (value, key) in &self.values {
            let word = self.words.get(*value as usize);
            if word.is_some_and(|word| word.calls > 0 && word.value >= INFORMATIVE) {
                note(&mut asked, *key);
            }
        }
        let mut wanted = vec![false; self.words.len()];
        for (value, key) in &self.values {
            if asked.get(*key as usize) == Some(&true) {
                note(&mut wanted, *value);
            }
        }
        Ok(wanted)
    }

    /// The topic is in the newest messages, and in what the first of them answers.
    fn find_topic(
        &mut self,
        lines: &[DigestLine],
        context: &Context,
        cancel: &Cancel,
    ) -> Result<(), Cancelled> {
        let total = self.lines.len() as f32;
        let rarity = |word: &Word| (total / word.lines as f32).ln().max(0.0);
        let is_answered = |line: &&DigestLine| line.standing == Standing::Answered;
        for line in lines.iter().filter(is_answered) {
            self.for_said(&line.text, |word| {
                word.topic = words_by::ANSWERED * rarity(word);
            });
        }
        for text in &context.recent {
            cancel.check_budget()?;
            self.for_said(text, |word| word.topic = rarity(word));
        }
        let mut said_last = Vec::new();
        for text in &context.said_last {
            cancel.check_budget()?;
            self.for_known(text, |id, word| {
                word.said_last = true;
                said_last.push(id);
            });
            self.for_meant(text, |id, word| {
                word.said_last = true;
                said_last.push(id);
            });
        }
        self.said_last = said_last;
        // `toallas` is about a `Toalla`, where hardly a line has that.
        let said = context.said_last.iter();
        let said = said.flat_map(|text| words_of(text).filter_map(stem_of));
        let stems: Set<Stem> = said.collect();
        let firsts: Set<char> = stems
            .iter()
            .flat_map(|stem| stem.first())
            .copied()
            .collect();
        for (at, (word, spelled)) in self.words.iter_mut().zip(&self.spelled).enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            let first = spelled.chars().next().map(|c| c.to_ascii_lowercase());
            let may = first.is_some_and(|first| !first.is_ascii() || firsts.contains(&first));
            if may && !word.said_last && word.lines <= MOST_LINES {
                word.said_last = stem_of(spelled).is_some_and(|stem| stems.contains(&stem));
            }
        }
        Ok(())
    }

    /// What a call asked for tells the topic of its result, and an item of a list that of what is
    /// within it.
    fn weigh_topics(&mut self, lines: &[DigestLine]) {
        let of_line = |weight: &Weight| {
            let mentions = self.mentions.get(weight.words.clone());
            let words = mentions.into_iter().flatten();
            words
                .filter_map(|id| self.words.get(*id as usize))
                .map(|word| word.topic)
                .sum::<f32>()
        };
        let own: Vec<f32> = self.lines.iter().map(of_line).collect();
        for (weight, line) in self.lines.iter_mut().zip(lines) {
            let is_item = line.within.is_some() && line.part.is_said();
            let above = match weight.needs.filter(|_| is_item) {
                Some(item) => item,
                None => weight.entry,
            };
            weight.topic = own.get(above).copied().unwrap_or_default();
        }
    }

    /// One value among many is less likely to be the one that is asked for.
    fn weigh_lengths(&mut self, lines: &[DigestLine]) {
        let in_result = |line: &DigestLine| !line.part.is_said() && !line.is_of_call();
        // Bytes of each entry, by the line that opens it.
        let mut bytes = vec![0_usize; lines.len()];
        // A table of records has the results of many calls.
        let of_call = |at: usize| lines.get(at).is_some_and(|line| line.part == Part::Call);
        for (line, weight) in lines.iter().zip(&self.lines) {
            if in_result(line)
                && line.is_whole()
                && of_call(weight.entry)
                && let Some(bytes) = bytes.get_mut(weight.entry)
            {
                *bytes += line.text.len() + 1;
            }
        }
        let (short, long) = lines_by::SHORT_AND_LONG_BYTES;
        // The lines of an entry follow each other.
        let mut last = (usize::MAX, 1.0);
        for weight in &mut self.lines {
            let bytes = bytes.get(weight.entry).copied().unwrap_or_default();
            if bytes > 0 {
                if last.0 != bytes {
                    let length = (bytes as f32).clamp(short, long);
                    last = (
                        bytes,
                        (lines_by::USUAL_BYTES / length).powf(lines_by::ONE_OF_MANY),
                    );
                }
                weight.length_prior = last.1;
            }
        }
    }

    /// The result of a call that took its value from an earlier result was chosen there.
    fn weigh_followed(&mut self, lines: &[DigestLine]) {
        let mut followed = self.followed.iter().peekable();
        for (weight, line) in self.lines.iter_mut().zip(lines) {
            while followed.next_if(|call| **call < weight.entry).is_some() {}
            let is_followed = followed.peek() == Some(&&weight.entry);
            if is_followed && !line.is_of_call() && !line.part.is_said() {
                weight.length_prior *= lines_by::FOLLOWED;
            }
        }
    }
}

fn only_begins_large(word: &str) -> bool {
    word.chars().skip(1).all(char::is_lowercase)
}
