//! The shares of the room that depend on how much there is room for.

use super::Choice;
use crate::core::conversation::scale;
use crate::core::strategy::digest::line::Part;
use crate::core::strategy::digest::weigh::weights::{cost, share};
use crate::core::strategy::digest::weigh::worth::pages_are_most;

impl Choice<'_> {
    /// The share of the room for what the user said. In a dialogue with few calls it grows with
    /// his part: he says what cannot be looked up, and the answers follow from it.
    pub(super) fn share_of_the_user(&self) -> f64 {
        if !self.is_dialogue() {
            return share::USER;
        }
        let own = self.bytes(|part| part == Part::User) / self.bytes(|_| true);
        (own * share::USER_OF_OWN).clamp(share::USER, share::USER_OF_DIALOGUE)
    }

    fn is_dialogue(&self) -> bool {
        self.bytes(Part::is_said) > share::DIALOGUE * self.bytes(|_| true)
    }

    /// The share of the room for what the model said: less of it where there is room for less of
    /// all. In a dialogue with few calls it is its own share, since the answers are what there is
    /// to keep.
    pub(super) fn share_of_the_model(&self, budget: u64) -> f64 {
        if self.is_dialogue() {
            return self.bytes(|part| part == Part::Assistant) / self.bytes(|_| true);
        }
        let alone = self.part_without_records();
        let of_room = between(share::MODEL_OF_ROOM, share::MODEL_OF_ROOM_ALONE, alone);
        share::MODEL.min(of_room * self.part_with_room(budget))
    }

    /// The part of the model's share for its long sentences: more of it where no records compete.
    pub(super) fn share_of_long(&self, model: f64) -> f64 {
        let alone = self.part_without_records();
        let part = between(share::LONG, share::LONG_ALONE, alone);
        (model * part).min(between(share::MOST_LONG, share::MOST_LONG_ALONE, alone))
    }

    /// The share of the room for what the model said beside calls.
    pub(super) fn share_of_asides(&self) -> f64 {
        let alone = self.part_without_records();
        between(share::ASIDES, share::ASIDES_ALONE, alone)
    }

    /// The share of the room for the sentences of pages and mails: more of it where these are most
    /// of what there is.
    pub(super) fn share_of_prose(&self) -> f64 {
        (f64::from(self.prose) * share::PROSE_OF_ALL).clamp(share::PROSE, share::MOST_PROSE)
    }

    /// The share of the room for what the model noted of pages and mails, where these are most of
    /// what there is: it read them for that.
    pub(super) fn share_of_notes(&self) -> f64 {
        share::NOTES * f64::from(pages_are_most(self.prose))
    }

    /// The tokens for what was written last: whole scripts, where the room is not large.
    pub(super) fn share_of_written(budget: u64) -> u64 {
        let least = scale(budget, share::WRITTEN);
        scale(budget, share::MOST_WRITTEN).min(least.max(share::WRITTEN_TOKENS))
    }

    /// 0 where records compete for the room with what was said, 1 where there are few of them.
    pub(super) fn part_without_records(&self) -> f64 {
        let of_records =
            |part| matches!(part, Part::Record | Part::Member | Part::Head | Part::Row);
        let (few, many) = share::RECORDS_COMPETE;
        let records = self.bytes(of_records) / self.bytes(|_| true);
        1.0 - ((records - few) / (many - few)).clamp(0.0, 1.0)
    }

    /// The share of the room for rows that the newest messages name: none where there is room for
    /// little, since a row comes with the call that gave it.
    pub(super) fn share_of_the_chosen(&self, budget: u64) -> f64 {
        let (none, all) = share::ROOM_FOR_CHOSEN;
        let part = (self.part_with_room(budget) - none) / (all - none);
        share::CHOSEN * part.clamp(0.0, 1.0)
    }

    /// The tokens for the rows that the user picked.
    pub(super) fn room_for_picked(budget: u64) -> u64 {
        for_rows(budget, share::PICKED, share::PICKED_TOKENS)
    }

    /// The tokens for the rows that were looked up since his newest message.
    pub(super) fn room_at_hand(budget: u64) -> u64 {
        for_rows(budget, share::AT_HAND, share::AT_HAND_TOKENS)
    }

    /// The tokens for the records in question.
    pub(super) fn room_in_question(budget: u64) -> u64 {
        for_rows(budget, share::IN_QUESTION, share::IN_QUESTION_TOKENS)
    }

    /// The tokens for the rows that older messages of his describe.
    pub(super) fn room_for_meant(budget: u64) -> u64 {
        for_rows(budget, share::MEANT, share::MEANT_TOKENS)
    }

    /// The part of all lines that there is room for, about.
    fn part_with_room(&self, budget: u64) -> f64 {
        budget as f64 * f64::from(cost::BYTES_PER_TOKEN) / self.bytes(|_| true)
    }

    /// Bytes of the lines of some parts, at least 1.
    fn bytes(&self, wanted: impl Fn(Part) -> bool) -> f64 {
        let lines = self.lines.iter().filter(|line| wanted(line.part));
        let bytes: usize = lines.map(|line| line.text.len() + 1).sum();
        bytes.max(1) as f64
    }
}

/// A share of the room for rows: no less than `tokens`, where that is no large part of the room.
fn for_rows(budget: u64, share: f64, tokens: u64) -> u64 {
    let least = tokens.min(scale(budget, share::MOST_FOR_ROW));
    scale(budget, share).max(least)
}

/// The value at a part of the way from one to another.
fn between(from: f64, to: f64, part: f64) -> f64 {
    from + (to - from) * part
}
