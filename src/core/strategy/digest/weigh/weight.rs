//! What is known of the lines of a full digest, and of their words, once these are weighed.

use std::ops::Range;

use super::weights::line as lines_by;
use super::word::Word;
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::maps::Map;

/// What is known of a line of the full digest.
pub(in super::super) struct Weight {
    /// The line without which this one would not be understood.
    pub needs: Option<usize>,
    /// Its distinct words: where their indices stand among the mentions.
    pub words: Range<usize>,
    /// The line that opens its entry.
    pub entry: usize,
    /// Factor of its score: above 1 in a short result and in that of a call that took a value of an
    /// earlier one, below in a long one.
    pub length_prior: f32,
    /// The mentions that name the record or the item that it tells of.
    pub name: Range<usize>,
    /// Factor of its score: above 1 where it tells of a record that a party named, or of an item of
    /// the model's lists that the user named, below where he chose another; 1 until that was looked
    /// for.
    pub named: f32,
    /// It is an item of a list of the model's with a value that nothing else tells, or one that the
    /// user chose: what it found.
    pub finds: bool,
    /// It is a row that an older message of the user's describes.
    pub meant: bool,
    /// It is the only row with an id or a number that the user said lately: what he picked.
    pub picked: bool,
    /// It is a row that the user's newest message describes.
    pub described: bool,
    /// It is a row that was looked up since that message, of something that was known before.
    pub at_hand: bool,
    /// It is of a record that is talked about last: of the first one, or a later one of them.
    pub in_question: Option<usize>,
    /// The weight in the newest messages of the words of the line that opens its entry, or of the
    /// item that it is within.
    pub topic: f32,
}

impl Weight {
    pub(in super::super) fn is_named(&self) -> bool {
        self.named > 1.0
    }

    /// Whether the user chose another item of its list.
    pub(in super::super) fn is_passed_over(&self) -> bool {
        self.named < 1.0
    }

    /// The same by the newest messages.
    pub(in super::super) fn is_chosen(&self) -> bool {
        self.named >= lines_by::CHOSEN
    }
}

/// The weights of a full digest's lines, and its words.
pub(in super::super) struct Weighed {
    /// One per line.
    pub lines: Vec<Weight>,
    pub words: Vec<Word>,
    /// Indices of the distinct words of each line, line by line.
    pub mentions: Vec<u32>,
    /// The words that each word contains whole.
    pub within: Vec<Vec<u32>>,
    /// The words that sentences of the parties mean in another form, by line.
    pub meant_in: Map<usize, Vec<u32>>,
    /// All words of sentences that stay besides the digest, newest message first.
    pub said_besides: Vec<Vec<u32>>,
    /// The words of the user's newest messages, as they stand there.
    pub said_last: Vec<u32>,
    /// The ids with letters that the user's newest message has, and those of what the model said
    /// before it, as they are first named.
    pub named_last: [Vec<u32>; 2],
}

impl Weighed {
    /// The words of a sentence that a party said, and those that it means in another form.
    pub(in super::super) fn said_at(&self, at: usize) -> impl Iterator<Item = u32> {
        let words = self
            .lines
            .get(at)
            .map(|weight| self.words_at(&weight.words));
        let own = words.into_iter().flatten().map(|(id, _)| id);
        let meant = self.meant_in.get(&at).into_iter().flatten();
        own.chain(meant.copied())
    }

    /// The words at some mentions, each with its index.
    pub(in super::super) fn words_at(
        &self,
        mentions: &Range<usize>,
    ) -> impl Iterator<Item = (u32, &Word)> {
        let ids = self.mentions.get(mentions.clone());
        let word = |id: &u32| Some((*id, self.words.get(*id as usize)?));
        ids.into_iter().flatten().filter_map(word)
    }

    /// Of the name of a line, as `Hotel Alster`, the word that tells it from other hotels.
    pub(in super::super) fn name_of(&self, weight: &Weight) -> Option<(u32, &Word)> {
        most_telling(self.words_at(&weight.name))
    }
}

/// Of the words of a name the one that tells it from others.
pub(in super::super) fn most_telling<'w>(
    name: impl Iterator<Item = (u32, &'w Word)>,
) -> Option<(u32, &'w Word)> {
    name.max_by(|(_, a), (_, b)| {
        let by_form = a.shape.total_cmp(&b.shape);
        by_form.then(b.lines.cmp(&a.lines))
    })
}

/// Whether a line is the row of a table in a result, rather than of one of records.
pub(in super::super) fn is_plain_row(
    lines: &[DigestLine],
    line: &DigestLine,
    weight: &Weight,
) -> bool {
    let opens = lines.get(weight.entry);
    let is_row = line.part == Part::Row || line.is_printed_row;
    is_row && opens.is_some_and(|opens| opens.part != Part::Head)
}

/// Whether a line is the row of a table of records, or of their lists.
pub(in super::super) fn is_row_of_records(
    lines: &[DigestLine],
    line: &DigestLine,
    weight: &Weight,
) -> bool {
    let opens = lines.get(weight.entry);
    let is_row = line.part == Part::Row && !line.of_argument;
    is_row && opens.is_some_and(|opens| opens.part == Part::Head)
}
