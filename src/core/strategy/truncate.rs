//! Head and tail of a text that is too large, and of JSON, which stays JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::placeholder::Placeholder;
use super::weighed::{Weighed, width, written};
use crate::core::conversation::level;
use crate::core::json::Json;
use crate::core::tokens::Encoding;

/// The words in every cut, unless the operator has other ones; a text that contains them is not cut
/// again.
const MARK: &str = "removed by trim_results";
/// The member that marks a cut in an object.
pub(super) const MARK_KEY: &str = "__truncated__";

/// The most characters that a mark takes inside JSON besides its words, with those that separate it
/// from its neighbours.
const MARK_CHARS: u64 = 49;
/// A member of JSON is not cut below this many characters: a mark, and enough to see what it was.
const LEAST_CHARS: u64 = 120;
/// Items of a list stay whole up to this share of it: a few whole ones tell more than the
/// beginnings of all.
const WHOLE_ITEM_SHARE: u64 = 4;
/// Tries to meet a size in tokens, which characters follow only on the average.
const TRIES: usize = 4;

/// The size from which on a result is large, and the part of a large result that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Truncate {
    /// Whether `size`, `head` and `tail` are characters or tokens.
    pub unit: Unit,
    /// Results above this size are large.
    pub size: u64,
    /// The beginning of a large text that stays. Of JSON about head and tail together stay, in the
    /// same proportion, and with its marks never more than `size`: small members whole, the rest
    /// shortened. With 0 here and in `tail` only the mark stays.
    pub head: u64,
    /// The end that stays.
    pub tail: u64,
}

impl Default for Truncate {
    fn default() -> Self {
        Truncate {
            unit: Unit::Chars,
            size: 4_000,
            head: 1_200,
            tail: 800,
        }
    }
}

/// The unit of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Characters.
    Chars,
    /// Tokens.
    Tokens,
}

/// What cuts: to which size, how the cut is marked, and how tokens are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutter<'m> {
    pub(super) to: Truncate,
    /// The words in every mark.
    mark: &'m str,
    encoding: Encoding,
}

impl<'m> Cutter<'m> {
    /// Marks cuts with the operator's words, if there are any.
    pub(super) fn new(to: Truncate, words: Option<&'m Placeholder>, encoding: Encoding) -> Self {
        let mark = words.map_or(MARK, Placeholder::fixed);
        Cutter { to, mark, encoding }
    }

    /// The same with other sizes.
    pub(super) fn with(self, to: Truncate) -> Self {
        Cutter { to, ..self }
    }

    /// The mark for so many of these.
    pub(super) fn mark(&self, removed: &str) -> String {
        format!("{removed} {}", self.mark)
    }

    /// Whether a text was cut before.
    pub(super) fn has_cut(&self, text: &str) -> bool {
        text.contains(self.mark)
    }

    fn marked(&self, head: &str, tail: &str, removed: usize) -> String {
        let mark = format!("[… {} …]", self.mark(&format!("{removed} characters")));
        if head.is_empty() && tail.is_empty() {
            mark
        } else {
            format!("{head}\n{mark}\n{tail}")
        }
    }

    /// Characters that a mark takes inside JSON at most, with its separators.
    fn mark_chars(&self) -> u64 {
        MARK_CHARS + self.mark.chars().count() as u64
    }

    pub(super) fn measure(&self, text: &str) -> u64 {
        if self.to.unit == Unit::Tokens {
            self.encoding.count(text)
        } else {
            text.chars().count() as u64
        }
    }

    /// Head and tail of a text, cut between characters, with a mark in between.
    pub(super) fn text(&self, text: &str) -> Option<String> {
        let total = self.measure(text);
        let (head, tail) = (
            self.bytes(text, self.to.head, total, false),
            self.bytes(text, self.to.tail, total, true),
        );
        if head + tail >= text.len() {
            return None;
        }
        let (head, tail) = (text.get(..head)?, text.get(text.len() - tail..)?);
        Some(self.marked(
            head,
            tail,
            text.chars().count() - head.chars().count() - tail.chars().count(),
        ))
    }

    /// Bytes that `amount` of a text's beginning (or end) takes; for tokens, by the text's average.
    fn bytes(&self, text: &str, amount: u64, total: u64, from_end: bool) -> usize {
        let amount = usize::try_from(amount).unwrap_or(usize::MAX);
        if self.to.unit == Unit::Tokens {
            let bytes =
                usize::try_from(text.len() as u128 * amount as u128 / u128::from(total.max(1)))
                    .unwrap_or(text.len())
                    .min(text.len());
            return if from_end {
                text.len() - text.ceil_char_boundary(text.len() - bytes)
            } else {
                text.floor_char_boundary(bytes)
            };
        }
        match amount.checked_sub(1) {
            None => 0,
            Some(last) if from_end => text
                .char_indices()
                .rev()
                .nth(last)
                .map_or(text.len(), |(at, _)| text.len() - at),
            Some(_) => text
                .char_indices()
                .nth(amount)
                .map_or(text.len(), |(at, _)| at),
        }
    }

    /// JSON of about head and tail together, with its marks no more than the size: small members
    /// stay, large ones share the rest, and where there are too many, the first and the last stay.
    pub(super) fn json(&self, value: &Json) -> Json {
        let value = Weighed::of(value);
        let total = self.measure(&value.value.to_string()).max(1);
        let chars = |amount: u64| {
            u64::try_from(u128::from(amount) * u128::from(value.chars) / u128::from(total))
                .unwrap_or(u64::MAX)
        };
        let mut room = chars(self.to.size).min(
            chars(self.to.head.saturating_add(self.to.tail)).saturating_add(self.mark_chars()),
        );
        let mut new = self.cut(&value, room);
        for _ in 1..TRIES {
            let over = self.measure(&new.to_string()).saturating_sub(self.to.size);
            if over == 0 {
                break;
            }
            room = room.saturating_sub(chars(over) + 1);
            new = self.cut(&value, room);
        }
        new
    }

    fn keeps_nothing(&self) -> bool {
        self.to.head == 0 && self.to.tail == 0
    }

    /// The part of `room` that the beginning gets.
    fn head_of(&self, room: u64) -> u64 {
        let both = u128::from(self.to.head) + u128::from(self.to.tail);
        u64::try_from(u128::from(room) * u128::from(self.to.head) / both.max(1)).unwrap_or(room)
    }

    fn cut(&self, value: &Weighed<'_>, room: u64) -> Json {
        if value.chars <= room {
            return value.value.clone();
        }
        let room = room.saturating_sub(2);
        match value.value {
            Json::String(text) => Json::String(self.short(text, room)),
            Json::Number(spelling) => Json::String(self.short(spelling, room)),
            Json::List(_) => self.cut_list(&value.inner, room),
            Json::Object(members) => self.cut_object(members, &value.inner, room),
            short => short.clone(),
        }
    }

    fn cut_list(&self, items: &[Weighed<'_>], room: u64) -> Json {
        let least = LEAST_CHARS.max(room / WHOLE_ITEM_SHARE);
        let sizes: Vec<(u64, u64)> = items.iter().map(|item| (1, item.chars)).collect();
        let (first, last, each) = self.share(&sizes, room, least);
        let (head, tail) = ends(items, first, last);
        let removed = items.len() - first - last;
        let mark = || {
            Json::String(format!(
                "… {}",
                self.mark(&format!("{removed} of {} items", items.len()))
            ))
        };
        let cut = |item: &Weighed<'_>| self.cut(item, each);
        Json::List(
            head.iter()
                .map(cut)
                .chain((removed > 0).then(mark))
                .chain(tail.iter().map(cut))
                .collect(),
        )
    }

    fn cut_object(&self, members: &[(String, Json)], values: &[Weighed<'_>], room: u64) -> Json {
        let all: Vec<(&String, &Weighed<'_>)> =
            members.iter().map(|(key, _)| key).zip(values).collect();
        let sizes: Vec<(u64, u64)> = all
            .iter()
            .map(|(key, value)| (written(key) + 2, value.chars))
            .collect();
        let (first, last, each) = self.share(&sizes, room, LEAST_CHARS);
        let (head, tail) = ends(&all, first, last);
        let removed = members.len() - first - last;
        let mark = || {
            let mark = self.mark(&format!("{removed} of {} members", members.len()));
            (MARK_KEY.to_owned(), Json::String(mark))
        };
        let cut = |(key, value): &(&String, &Weighed<'_>)| ((*key).clone(), self.cut(value, each));
        Json::Object(
            head.iter()
                .map(cut)
                .chain((removed > 0).then(mark))
                .chain(tail.iter().map(cut))
                .collect(),
        )
    }

    /// The text inside of a JSON string, in `room` characters as they are written.
    fn short(&self, text: &str, room: u64) -> String {
        let room = if self.keeps_nothing() {
            0
        } else {
            room.saturating_sub(self.mark_chars())
        };
        let taken = |mut left: u64, chars: &mut dyn Iterator<Item = char>| {
            let fit = chars.take_while(|c| {
                left.checked_sub(width(*c))
                    .map(|less| left = less)
                    .is_some()
            });
            fit.map(char::len_utf8).sum::<usize>()
        };
        let head_room = self.head_of(room);
        let head = taken(head_room, &mut text.chars());
        let tail = taken(room - head_room, &mut text.chars().rev()).min(text.len() - head);
        let (head, tail) = (
            text.get(..head).unwrap_or_default(),
            text.get(text.len() - tail..).unwrap_or_default(),
        );
        self.marked(
            head,
            tail,
            text.chars().count() - head.chars().count() - tail.chars().count(),
        )
    }

    /// The number of first entries that stay, that of last ones, and the characters that the value
    /// of each may take. An entry is its characters besides its value, and those of the value.
    fn share(&self, entries: &[(u64, u64)], room: u64, least: u64) -> (usize, usize, u64) {
        let besides: u64 = entries.iter().map(|(besides, _)| besides).sum();
        let each = level(
            entries.iter().map(|(_, value)| *value).collect(),
            room.saturating_sub(besides),
        );
        if !self.keeps_nothing() && besides <= room && each >= least {
            return (entries.len(), 0, each);
        }
        let room = room.saturating_sub(self.mark_chars());
        let mut used = 0;
        let mut fits = |room: u64, (besides, value): &(u64, u64)| {
            let more = used + besides + least.min(*value);
            (more <= room).then(|| used = more).is_some()
        };
        let first = entries
            .iter()
            .take_while(|entry| fits(self.head_of(room), entry))
            .count();
        // The room that the first ones left is for the last ones.
        let last_room = if self.to.tail > 0 { room } else { 0 };
        let last = entries
            .iter()
            .skip(first)
            .rev()
            .take_while(|entry| fits(last_room, entry))
            .count();
        (first, last, least)
    }
}

/// The `first` first and the `last` last of a list.
fn ends<T>(all: &[T], first: usize, last: usize) -> (&[T], &[T]) {
    (
        all.get(..first).unwrap_or_default(),
        all.get(all.len() - last..).unwrap_or_default(),
    )
}
