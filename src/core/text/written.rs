//! Numbers, days and times as people write them, in the forms that data has them in: `17 850 ₽` is
//! `17850`, and `17/11` as well as `17 de novembro` stand in `2025-11-17T10:20`.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use super::lexicon::MONTHS_BY_NUMBER;

/// The most of a kind that is read of a text.
const MOST: usize = 64;
/// The part of a text that is read: its end (bytes).
const READ_BYTES: usize = 16 * 1_024;
/// Runs of digits in it that are looked at.
const MOST_RUNS: usize = 512;
/// The fewest digits of a number that tells something.
const LEAST_DIGITS: usize = 3;
/// The longest run of digits and separators that is a number, a day or a time (bytes).
const RUN_BYTES: usize = 24;
/// How far from its day a month stands: bytes, and words behind it.
const NEAR_BYTES: usize = 24;
const MOST_WORDS: usize = 3;
/// What stands between a day and its month, as in `17 de novembro` and `17th of May`.
const BETWEEN: [&str; 8] = ["de", "of", "di", "d", "th", "st", "nd", "rd"];
/// What stands before and behind an hour.
const AFTER_NOON_BEFORE: [&str; 4] = ["午後", "下午", "晚上", "오후"];
const AFTER_NOON: [&str; 2] = ["pm", "p.m"];
const HOURS: [&str; 7] = ["am", "a.m", "uhr", "hora", "heure", "o'clock", "час"];
const HOUR_SIGNS: [char; 6] = ['h', '時', '时', '点', '點', '시'];
const MONTH_SIGNS: [char; 2] = ['月', '월'];
const DAY_SIGNS: [char; 4] = ['日', '일', '号', '號'];
const BLANKS: [char; 3] = [' ', '\u{a0}', '\u{202f}'];

static MONTHS: LazyLock<HashMap<&str, u8, FixedState>> = LazyLock::new(|| {
    let months = MONTHS_BY_NUMBER
        .lines()
        .filter(|line| !line.starts_with('#'));
    let names = |(line, month): (&'static str, u8)| line.split(' ').map(move |name| (name, month));
    months.zip(1..).flat_map(names).collect()
});

/// A month and its day, both from 1.
pub(in crate::core) type Day = (u8, u8);
/// An hour and a minute.
pub(in crate::core) type Time = (u8, u8);

/// What a text has of them.
#[derive(Debug, Default)]
pub(in crate::core) struct Written {
    /// The forms in which data may have its numbers.
    pub numbers: Vec<String>,
    pub days: Vec<Day>,
    pub times: Vec<Time>,
}

impl Written {
    /// Reads a text.
    pub(in crate::core) fn of(text: &str) -> Self {
        let mut written = Written::default();
        let from = text.ceil_char_boundary(text.len().saturating_sub(READ_BYTES));
        let text = text.get(from..).unwrap_or_default();
        let mut end = 0;
        // Of `12月19日`.
        let mut month = None;
        for _ in 0..MOST_RUNS {
            let Some(run) = Run::next(text, end) else {
                break;
            };
            end = text.len() - run.behind.len();
            if !run.is_in_name() && run.run.len() <= RUN_BYTES {
                written.read(run, &mut month);
            }
        }
        written
    }

    fn read(&mut self, run: Run<'_>, month: &mut Option<u8>) {
        if let Some(time) = run.time() {
            return push(&mut self.times, time);
        }
        let number = small(run.run);
        if run.behind.starts_with(MONTH_SIGNS) {
            *month = number;
            return;
        }
        let is_day = run.behind.starts_with(DAY_SIGNS);
        let named = if is_day { *month } else { run.month() };
        if let Some(day) = number {
            return self.note_day(named, Some(day));
        }
        self.read_day(run.run);
        if !run.run.contains(['/', '-', ':']) {
            self.read_number(run.run);
        }
    }

    /// `17/11`, `11/17/2025`, `17.11.`, `2025-11-17`.
    fn read_day(&mut self, run: &str) {
        let parts: Vec<&str> = run.split(['/', '-', '.']).collect();
        match *parts.as_slice() {
            [first, second] | [first, second, _] if small(first).is_some() => {
                let (first, second) = (small(first), small(second));
                self.note_day(first, second);
                self.note_day(second, first);
            }
            [_, month, day] => self.note_day(small(month), small(day)),
            _ => {}
        }
    }

    fn note_day(&mut self, month: Option<u8>, day: Option<u8>) {
        if let (Some(month @ 1..=12), Some(day @ 1..=31)) = (month, day) {
            push(&mut self.days, (month, day));
        }
    }

    /// A single separator before three digits may be of a fraction or of thousands.
    fn read_number(&mut self, run: &str) {
        let is_separator = |c: char| !c.is_ascii_digit();
        let mut digits = run.to_owned();
        digits.retain(|c| c.is_ascii_digit());
        let last = run.rfind(['.', ',']).filter(|last| {
            let separator = run.get(*last..=*last).unwrap_or_default();
            run.matches(separator).count() == 1
        });
        let behind = last.map_or(0, |last| run.len() - last - 1);
        let is_grouped = behind == 0 || behind == LEAST_DIGITS;
        if is_grouped {
            self.note_number(&digits, "");
        }
        let is_fraction = behind > 0 && (!is_grouped || run.matches(is_separator).count() == 1);
        if let Some((whole, fraction)) = digits.split_at_checked(digits.len() - behind)
            && is_fraction
        {
            self.note_number(whole, fraction);
        }
    }

    fn note_number(&mut self, whole: &str, fraction: &str) {
        if whole.len() + fraction.len() < LEAST_DIGITS {
            return;
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.is_empty() {
            push(&mut self.numbers, whole.to_owned());
        }
        for zeros in ["", "0", "00"] {
            let digits = fraction.len() + zeros.len();
            if digits > 0 && (digits <= 2 || zeros.is_empty()) {
                push(&mut self.numbers, format!("{whole}.{fraction}{zeros}"));
            }
        }
    }
}

/// Digits with separators between them, and the text on both sides.
#[derive(Clone, Copy)]
struct Run<'t> {
    before: &'t str,
    run: &'t str,
    behind: &'t str,
}

impl<'t> Run<'t> {
    /// The next one at `from` or behind.
    fn next(text: &'t str, from: usize) -> Option<Self> {
        let rest = text.get(from..)?;
        let begin = from + rest.find(|c: char| c.is_ascii_digit())?;
        let run = text.get(begin..)?;
        let mut end = 0;
        loop {
            let behind = run.get(end..).unwrap_or_default();
            end += behind.bytes().take_while(u8::is_ascii_digit).count();
            match separator(run.get(end..).unwrap_or_default()) {
                Some(bytes) => end += bytes,
                None => break,
            }
        }
        Some(Run {
            before: text.get(..begin)?,
            run: run.get(..end)?,
            behind: run.get(end..)?,
        })
    }

    /// Whether it is a part of a name, as in `SL-9072` and `v2`, rather than behind the `T` of a
    /// date.
    fn is_in_name(self) -> bool {
        let is_joined = |c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '_' | '#');
        let date = self.before.strip_suffix('T');
        let is_time = date.is_some_and(|date| date.ends_with(|c: char| c.is_ascii_digit()));
        self.before.ends_with(is_joined) && !is_time
    }

    /// `14:10`, `14h10`, `3 pm`, `17時`, `14 Uhr`.
    fn time(self) -> Option<Time> {
        let behind = self.behind.trim_start_matches(BLANKS);
        let before = self.before.trim_end_matches(BLANKS);
        let follows = |name: &&str| {
            let begin = behind.get(..name.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        };
        let is_late = AFTER_NOON.iter().any(follows)
            || AFTER_NOON_BEFORE.iter().any(|name| before.ends_with(name));
        let is_hour = is_late || HOURS.iter().any(follows) || self.behind.starts_with(HOUR_SIGNS);
        let parted = self.run.split_once([':', 'h']);
        let parted = parted.or_else(|| self.run.split_once('.').filter(|_| is_hour));
        let (hour, minute) = match parted {
            Some((hour, minute)) => (hour, minute.get(..2)?),
            None => (self.run, "0"),
        };
        let is_time = is_hour || self.run.contains([':', 'h']);
        let hour = small(hour).filter(|hour| is_time && *hour < 24)?;
        let minute = small(minute).filter(|minute| *minute < 60)?;
        let since_noon = if is_late && hour < 12 { 12 } else { 0 };
        Some((hour + since_noon, minute))
    }

    /// The month beside the number of a day.
    fn month(self) -> Option<u8> {
        let is_between = |c: char| !c.is_alphabetic();
        let near = self
            .behind
            .ceil_char_boundary(NEAR_BYTES.min(self.behind.len()));
        let behind = self.behind.get(..near).unwrap_or_default();
        let words = behind.split(is_between).filter(|word| !word.is_empty());
        let next = words.take(MOST_WORDS).find(|word| !BETWEEN.contains(word));
        let near = self.before.len().saturating_sub(NEAR_BYTES);
        let near = self.before.floor_char_boundary(near);
        let before = self.before.get(near..).unwrap_or_default();
        let before = before.trim_end_matches(is_between);
        next.and_then(month_of)
            .or_else(|| month_of(before.rsplit(is_between).next()?))
    }
}

/// The bytes of what separates digits at the beginning of a text, if digits follow.
fn separator(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let bytes = first.len_utf8();
    let behind = text.get(bytes..).unwrap_or_default();
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    let is_separator = match first {
        '.' | ',' | '/' | '-' | ':' | 'h' => digits > 0,
        '\'' | '’' => digits == LEAST_DIGITS,
        blank if BLANKS.contains(&blank) => digits == LEAST_DIGITS,
        _ => false,
    };
    is_separator.then_some(bytes)
}

fn small(digits: &str) -> Option<u8> {
    digits.parse().ok()
}

fn month_of(word: &str) -> Option<u8> {
    MONTHS.get(word.to_lowercase().as_str()).copied()
}

fn push<T: PartialEq>(to: &mut Vec<T>, new: T) {
    if to.len() < MOST && !to.contains(&new) {
        to.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_data_has_them() {
        for (text, form) in [
            ("総額90,200円です", "90200"),
            ("Заказ SPL-2207, 17 850 ₽.", "17850"),
            ("R$ 1.234,50 no total", "1234.5"),
            ("it is $1,234.50 now", "1234.50"),
            ("всего 2231,0 кг", "2231.0"),
            ("CHF 12’400", "12400"),
            ("the 1850 EUR", "1850.0"),
            ("1,234,567 rows", "1234567"),
            ("4,180", "4180"),
        ] {
            let numbers = Written::of(text).numbers;
            assert!(
                numbers.iter().any(|number| number == form),
                "{text}: {numbers:?}"
            );
        }
        for none in ["SL-9072", "v2", "at 3 of 5", "x_100"] {
            assert_eq!(Written::of(none).numbers, [""; 0], "{none}");
        }
    }

    #[test]
    fn days_and_times_are_found_as_people_write_them() {
        for text in [
            "17/11 às 10:20",
            "on 17 November at 10:20 am",
            "November 17th, 10:20",
            "17. November, 10.20 Uhr",
            "17 de novembro, 10h20",
            "11月17日の10:20",
            "2025-11-17T10:20",
            "17.11.2025 в 10:20",
        ] {
            let written = Written::of(text);
            assert!(written.days.contains(&(11, 17)), "{text}: {written:?}");
            assert_eq!(written.times, [(10, 20)], "{text}");
        }
        for (text, time) in [
            ("at 3 pm", (15, 0)),
            ("17時返却", (17, 0)),
            ("午後3時", (15, 0)),
            ("um 14 Uhr", (14, 0)),
            ("às 11 horas", (11, 0)),
        ] {
            assert_eq!(Written::of(text).times, [time], "{text}");
        }
        assert!(Written::of("3 people of 12 came").days.is_empty());
    }
}
