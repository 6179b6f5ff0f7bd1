//! Words that stand in another form where they are said: the user's `17/11, 11:20` is the row with
//! `2025-11-17T11:20`, and the model's `90,200円` the one with `90200`.

use crate::core::strategy::maps::Map;
use crate::core::text::{Day, Time, Written};

/// The most words with a day or a time that one which is said may mean.
const MOST_MEANT: usize = 64;
/// The most words of one day that are kept.
const MOST_OF_DAY: usize = 256;
/// The most words of one time of day that it means where no day is said.
const MOST_AT_TIME: usize = 3;

/// The known words that begin with a date, by day.
#[derive(Default)]
pub(super) struct Dated {
    days: Map<Day, Vec<(u32, Option<Time>)>>,
    /// The same by their times, one more than may be meant at most.
    times: Map<Time, Vec<u32>>,
}

impl Dated {
    /// Notes a known word.
    pub(super) fn note(&mut self, word: &str, id: u32) {
        if let Some((day, time)) = date_in(word) {
            let words = self.days.entry(day).or_default();
            if words.len() < MOST_OF_DAY {
                words.push((id, time));
            }
            let at = time.map(|time| self.times.entry(time).or_default());
            if let Some(at) = at.filter(|at| at.len() <= MOST_AT_TIME) {
                at.push(id);
            }
        }
    }

    /// Finds the words that a text may mean. `find` returns the known word of that form.
    pub(super) fn find(&self, text: &str, find: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
        let Written {
            numbers,
            days,
            times,
        } = Written::of(text);
        let mut found: Vec<u32> = numbers.iter().filter_map(|number| find(number)).collect();
        // `The train at 08:36.`
        let at = |time| self.times.get(time).map_or(&[][..], Vec::as_slice);
        let at_times = times.iter().map(at).filter(|at| at.len() <= MOST_AT_TIME);
        found.extend(at_times.filter(|_| days.is_empty()).flatten());
        for day in days {
            let words = self.days.get(&day).map_or(&[][..], Vec::as_slice);
            let is_at =
                |(_, time): &&(u32, Option<Time>)| time.is_some_and(|time| times.contains(&time));
            let any_time = !words.iter().any(|word| is_at(&word));
            let meant = words.iter().filter(|word| any_time || is_at(word));
            let meant: Vec<u32> = meant.map(|(id, _)| *id).collect();
            if meant.len() <= MOST_MEANT {
                found.extend(meant);
            }
        }
        found
    }
}

/// The day and the time of `2025-11-17T10:20`.
fn date_in(word: &str) -> Option<(Day, Option<Time>)> {
    let number = |from: usize| word.get(from..from + 2)?.parse().ok();
    let mark = |at: usize, mark: u8| word.as_bytes().get(at) == Some(&mark);
    let is_date = mark(4, b'-') && mark(7, b'-') && word.starts_with(|c: char| c.is_ascii_digit());
    if !is_date {
        return None;
    }
    let day = (number(5)?, number(8)?);
    let has_time = mark(10, b'T') && mark(13, b':');
    let time = has_time.then(|| number(11).zip(number(14))).flatten();
    Some((day, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_means_the_words_that_begin_with_its_date() {
        let mut dated = Dated::default();
        let words = [
            "2025-11-17T10:20",
            "2025-11-17T11:20:00Z",
            "2025-11-18",
            "1-2-3",
        ];
        for (id, word) in (0..).zip(words) {
            dated.note(word, id);
        }
        let find = |text: &str| dated.find(text, |_| None);
        assert_eq!(find("17/11 11:20, perfeito"), [1]);
        assert_eq!(find("on November 17"), [0, 1]);
        assert_eq!(find("18. November um 9 Uhr"), [2]);
        assert_eq!(find("11:20"), [1]);
        assert_eq!(find("12:20"), [0; 0]);
    }
}
