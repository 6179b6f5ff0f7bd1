//! The shares of the room that depend on how much there is room for.

use super::Choice;
use crate::core::strategy::digest::line::Part;
use crate::core::strategy::digest::weights::{cost, share};

impl Choice<'_> {
    /// The share of the room for what the model said: less of it where there is room for less of
    /// all. In a dialogue with few calls it is its own share, since the answers are what there is
    /// to keep.
    pub(super) fn share_of_the_model(&self, budget: u64) -> f64 {
        let all = self.bytes(|_| true);
        if self.bytes(Part::is_said) > share::DIALOGUE * all {
            return self.bytes(|part| part == Part::Assistant) / all;
        }
        let of_room = match self.records_compete() {
            true => share::MODEL_OF_ROOM,
            false => share::MODEL_OF_ROOM_ALONE,
        };
        share::MODEL.min(of_room * self.part_with_room(budget))
    }

    /// The part of the model's share for its long sentences: more of it where no records compete.
    pub(super) fn share_of_long(&self, model: f64) -> f64 {
        let (part, most) = match self.records_compete() {
            true => (share::LONG, share::MOST_LONG),
            false => (share::LONG_ALONE, share::MOST_LONG_ALONE),
        };
        (model * part).min(most)
    }

    /// Whether much of all lines is of records.
    fn records_compete(&self) -> bool {
        let of_records =
            |part| matches!(part, Part::Record | Part::Member | Part::Head | Part::Row);
        self.bytes(of_records) > share::RECORDS_COMPETE * self.bytes(|_| true)
    }

    /// The share of the room for rows that the newest messages name: none where there is room for
    /// little, since a row comes with the call that gave it.
    pub(super) fn share_of_the_chosen(&self, budget: u64) -> f64 {
        let (none, all) = share::ROOM_FOR_CHOSEN;
        let part = (self.part_with_room(budget) - none) / (all - none);
        share::CHOSEN * part.clamp(0.0, 1.0)
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
