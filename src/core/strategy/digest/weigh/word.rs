//! What is known of a word of the full digest.

use super::weights::word as words_by;

/// The shortest id with letters that is told by its form (bytes).
const ID_BYTES: usize = 5;

/// A word of the digest.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Word {
    /// The score of one mention.
    pub value: f32,
    /// Lines that have it.
    pub lines: u32,
    /// Calls that have it.
    pub calls: u32,
    /// A call that stays besides the digest has it.
    pub called_last: bool,
    /// Entries that have it.
    pub entries: u32,
    /// The last entry that has it, counted from 1.
    pub entry: u32,
    /// The last line that has it, counted from 1.
    pub line: u32,
    /// The score of its form.
    pub shape: f32,
    /// In a text that stays anyway, or in a line that was taken.
    pub covered: bool,
    /// A result has it.
    pub in_result: bool,
    /// A party said it.
    pub said: bool,
    /// The user said it.
    pub said_by_user: bool,
    /// The user's newest message has it.
    pub said_last: bool,
    /// The user said it lately, or in the message that stays besides the newest ones.
    pub said_lately: bool,
    /// Its weight in the newest messages.
    pub topic: f32,
    /// It is an id with letters: a row that has it tells what belongs to that.
    pub is_id: bool,
    /// A line that has it may report a failure, or sum up what was done.
    pub reports: bool,
}

impl Word {
    /// Takes note of a line that has the word, in the last of `entries`.
    pub(in super::super) fn note(&mut self, of_call: bool, entries: u32) {
        self.lines += 1;
        self.calls += u32::from(of_call);
        if self.entry != entries {
            self.entry = entries;
            self.entries += 1;
        }
    }

    /// Takes note that a party said the word.
    pub(in super::super) fn note_said(&mut self, is_user: bool) {
        self.said = true;
        self.said_by_user |= is_user;
    }
}

/// What a word adds to the score of a line, as lines are taken: the little of [`Word`] that is
/// looked at each time that a line is weighed anew.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Live {
    /// The score of one mention where nothing that is told has the word, and as it is now.
    pub value: f32,
    pub now: f32,
    pub covered: bool,
    pub is_id: bool,
}

impl Live {
    /// Takes note that something that is told has the word.
    pub(in super::super) fn cover(&mut self) {
        (self.covered, self.now) = (true, self.value * words_by::COVERED);
    }
}

impl From<&Word> for Live {
    fn from(word: &Word) -> Self {
        let mut live = Live {
            value: word.value,
            now: word.value,
            covered: false,
            is_id: word.is_id,
        };
        if word.covered {
            live.cover();
        }
        live
    }
}

/// Whether a word is an id with letters, rather than a number or a time.
pub(in super::super) fn is_lettered_id(word: &str) -> bool {
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let has_digit = word.bytes().any(|b| b.is_ascii_digit());
    word.len() >= ID_BYTES && letters > 1 && has_digit && !word.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_letters_are_told_from_numbers_and_times() {
        for id in ["card_4196779", "BOH180", "CTA-9913"] {
            assert!(is_lettered_id(id), "{id}");
        }
        for other in [
            "9525117",
            "2024-05-14T10:44:24",
            "Davis",
            "x1",
            "2024-05-14",
        ] {
            assert!(!is_lettered_id(other), "{other}");
        }
    }
}
