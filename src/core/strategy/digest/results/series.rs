//! Series of numbers, as monitoring and measuring return them: told by their ends and extremes.

use crate::core::json::Json;
use crate::core::text::write_cell;

/// Points from which on a list of them with their times is a series.
const LEAST_POINTS: usize = 4;
/// The same of objects.
const LEAST_DATED: usize = 12;
/// The most numbers of a point.
const MOST_CELLS: usize = 6;
/// Unix times that points have, in seconds: 2001 to 2286. The same in thousandths.
const TIMES: std::ops::Range<f64> = 1e9..1e10;
const TIMES_MS: std::ops::Range<f64> = 1e12..1e13;
/// The least seconds between points: numbers that follow each other are ids.
const LEAST_STEP: f64 = 5.0;
/// How much a step may differ from the usual one.
const JITTER: f64 = 0.05;
/// Numbers from which on a list of nothing else is a series: nobody counts to one of them.
const LEAST_NUMBERS: usize = 64;
/// The longest spelling of a number (bytes).
const MOST_DIGITS: usize = 32;
/// What stands behind the number of them.
const POINTS: &str = " points from ";
const NUMBERS: &str = " numbers ";

/// Replaces series in a value by texts that tell of them.
pub(super) fn tell_series(value: &mut Json) {
    match value {
        Json::List(items) => {
            let told = points(items).or_else(|| dated(items));
            if let Some(told) = told.or_else(|| numbers(items)) {
                *value = Json::String(told);
            } else {
                items.iter_mut().for_each(tell_series);
            }
        }
        Json::Object(members) => members
            .iter_mut()
            .for_each(|(_, member)| tell_series(member)),
        _ => {}
    }
}

/// Whether a value tells of a series of points.
pub(super) fn tells_of_points(value: &Json) -> bool {
    let Json::String(text) = value else {
        return false;
    };
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    behind.len() < text.len() && behind.starts_with(POINTS)
}

/// A list of points, each with its time and what was measured, such as
/// `[[1731679200, "0.0148"], …]`.
fn points(items: &[Json]) -> Option<String> {
    if items.len() < LEAST_POINTS {
        return None;
    }
    let point = |item: &Json| match item {
        Json::List(cells) if (2..=MOST_CELLS).contains(&cells.len()) => {
            cells.iter().map(number).collect::<Option<Vec<f64>>>()
        }
        _ => None,
    };
    let points: Vec<Vec<f64>> = items.iter().map(point).collect::<Option<_>>()?;
    let cells = points.first()?.len();
    let times: Vec<f64> = points
        .iter()
        .filter_map(|point| point.first().copied())
        .collect();
    if points.iter().any(|point| point.len() != cells) || !are_times(&times) {
        return None;
    }
    let [first, last] = [items.first()?, items.last()?].map(shown);
    let mut told = format!("{}{POINTS}{first} to {last}", items.len());
    if cells == 2 {
        let values = points.iter().filter_map(|point| point.get(1).copied());
        let cells = items.iter().filter_map(|item| match item {
            Json::List(cells) => cells.get(1),
            _ => None,
        });
        tell_extremes(cells.zip(values), &mut told);
    }
    Some(told)
}

/// The same of objects with a time, such as `{"t": "2026-01-12T01:40:00Z", "v": 25.0}`.
fn dated(items: &[Json]) -> Option<String> {
    if items.len() < LEAST_DATED {
        return None;
    }
    let point = |item: &Json| -> Option<(Json, Json, f64)> {
        let Json::Object(members) = item else {
            return None;
        };
        let [(_, one), (_, other)] = members.as_slice() else {
            return None;
        };
        let (time, value) = if is_time(one) {
            (one, other)
        } else {
            (other, one)
        };
        is_time(time).then_some((time.clone(), value.clone(), number(value)?))
    };
    let points: Vec<(Json, Json, f64)> = items.iter().map(point).collect::<Option<_>>()?;
    let times = points.iter().map(|(time, _, _)| spelled(time));
    if !times.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let shown =
        |(time, value, _): &(Json, Json, f64)| format!("{}={}", spelled(time), spelled(value));
    let (first, last) = (shown(points.first()?), shown(points.last()?));
    let mut told = format!("{}{POINTS}{first} to {last}", items.len());
    let values = points.iter().map(|(_, value, number)| (value, *number));
    tell_extremes(values, &mut told);
    Some(told)
}

/// Whether a value is a date with a time of the day, as ISO 8601 writes it.
fn is_time(value: &Json) -> bool {
    let Json::String(text) = value else {
        return false;
    };
    let (date, time) = text.split_once(['T', ' ']).unwrap_or_default();
    let is_made_of = |text: &str, mark: char| {
        text.chars().all(|c| c.is_ascii_digit() || c == mark) && text.contains(mark)
    };
    let clock = time.get(..5).unwrap_or_default();
    text.len() <= MOST_DIGITS && is_made_of(date, '-') && is_made_of(clock, ':')
}

fn spelled(value: &Json) -> String {
    let mut text = String::new();
    write_cell(value, &mut text);
    text
}

/// Whether numbers are the times of points: one after another, mostly in like steps.
fn are_times(numbers: &[f64]) -> bool {
    let scale = match numbers.first() {
        Some(first) if TIMES.contains(first) => 1.0,
        Some(first) if TIMES_MS.contains(first) => 1_000.0,
        _ => return false,
    };
    let mut steps: Vec<f64> = numbers
        .windows(2)
        .filter_map(|pair| match pair {
            [one, next] => Some((next - one) / scale),
            _ => None,
        })
        .collect();
    steps.sort_by(f64::total_cmp);
    let Some(usual) = steps.get(steps.len() / 2).copied() else {
        return false;
    };
    let is_usual = |step: &&f64| (**step - usual).abs() <= usual * JITTER;
    steps.first().is_some_and(|least| *least > 0.0)
        && usual >= LEAST_STEP
        && steps.iter().filter(is_usual).count() * 2 > steps.len()
}

/// A list of nothing but numbers that were measured, or that follow each other at one distance.
fn numbers(items: &[Json]) -> Option<String> {
    let is_number = |item: &Json| matches!(item, Json::Number(_));
    if items.len() < LEAST_NUMBERS || !items.iter().all(is_number) {
        return None;
    }
    let [first, last] = [items.first()?, items.last()?].map(shown);
    if items.iter().filter(|item| has_fraction(item)).count() * 2 > items.len() {
        let values: Vec<f64> = items.iter().map(number).collect::<Option<_>>()?;
        let mut told = format!("{}{NUMBERS}from {first} to {last}", items.len());
        tell_extremes(items.iter().zip(values), &mut told);
        return Some(told);
    }
    let whole = |item: &Json| spelling(item)?.parse::<i64>().ok();
    let values: Vec<i64> = items.iter().map(whole).collect::<Option<_>>()?;
    let mut steps = values.windows(2).map(|pair| match pair {
        [one, next] => next.checked_sub(*one),
        _ => None,
    });
    let step = steps.next()??;
    let is_even = step != 0 && steps.all(|other| other == Some(step));
    is_even.then(|| {
        let count = items.len();
        format!("{count}{NUMBERS}in steps of {step} from {first} to {last}")
    })
}

/// A number, or the numbers of a point, such as `1731679200=0.0148`.
fn shown(item: &Json) -> String {
    let cells = match item {
        Json::List(cells) => cells.as_slice(),
        other => std::slice::from_ref(other),
    };
    let cells: Vec<&str> = cells.iter().filter_map(spelling).collect();
    match cells.as_slice() {
        [at, value] => format!("{at}={value}"),
        _ => cells.join(" "),
    }
}

/// Appends the least and the most of values, each beside its number.
fn tell_extremes<'j>(values: impl Iterator<Item = (&'j Json, f64)>, told: &mut String) {
    let mut extremes: Option<[(&Json, f64); 2]> = None;
    for value in values {
        let [least, most] = extremes.unwrap_or([value; 2]);
        extremes = Some([
            if value.1 < least.1 { value } else { least },
            if value.1 > most.1 { value } else { most },
        ]);
    }
    if let Some([least, most]) = extremes
        && let (Some(least), Some(most)) = (spelling(least.0), spelling(most.0))
    {
        told.push_str(&format!("; least {least}; most {most}"));
    }
}

/// The spelling of a number, which may be in a string.
fn spelling(value: &Json) -> Option<&str> {
    let text: &str = match value {
        Json::Number(number) => number,
        Json::String(text) => text,
        _ => return None,
    };
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
    (text.len() <= MOST_DIGITS && text.bytes().all(plain)).then_some(text)
}

fn number(value: &Json) -> Option<f64> {
    spelling(value)?
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

fn has_fraction(value: &Json) -> bool {
    spelling(value).is_some_and(|number| number.contains(['.', 'e', 'E']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let mut json = Json::parse(text).unwrap();
        tell_series(&mut json);
        json.to_string()
    }

    #[test]
    fn dated_values_are_told_by_their_extremes() {
        let point = |at: usize| {
            format!(
                r#"{{"t":"2026-01-12T{:02}:00:00Z","v":{}.5}}"#,
                at,
                20 + at % 7
            )
        };
        let series = listed(14, point);
        let expected = concat!(
            r#""14 points from 2026-01-12T00:00:00Z=20.5 to 2026-01-12T13:00:00Z=26.5; "#,
            r#"least 20.5; most 26.5""#
        );
        assert_eq!(told(&series), expected);
        let few = listed(5, point);
        assert_eq!(told(&few), few);
        let unordered = listed(14, |at| point(13 - at));
        assert_eq!(told(&unordered), unordered);
    }

    fn listed(count: usize, item: impl Fn(usize) -> String) -> String {
        let items: Vec<String> = (0..count).map(item).collect();
        format!("[{}]", items.join(","))
    }

    #[test]
    fn series_are_told_by_their_ends_and_extremes() {
        let points = listed(7, |at| {
            format!(
                r#"[{},"{}.5"]"#,
                1_731_679_200 + 300 * at + at % 2,
                (at * 3) % 7
            )
        });
        assert_eq!(
            told(&format!(r#"{{"metric":{{"pod":"a"}},"values":{points}}}"#)),
            concat!(
                r#"{"metric":{"pod":"a"},"values":"7 points from 1731679200=0.5 to "#,
                r#"1731681000=4.5; least 0.5; most 6.5"}"#
            )
        );
        assert_eq!(
            told(&listed(70, |at| format!("{}.25", 90 - at))),
            r#""70 numbers from 90.25 to 21.25; least 21.25; most 90.25""#
        );
        assert_eq!(
            told(&format!("[{}]", listed(70, |at| (at * 60).to_string()))),
            r#"["70 numbers in steps of 60 from 0 to 4140"]"#
        );
        assert!(tells_of_points(&Json::String(
            "7 points from 1=2 to 3=4".to_owned()
        )));
        assert!(!tells_of_points(&Json::String(
            "5 points to note".to_owned()
        )));
    }

    #[test]
    fn ids_amounts_and_few_points_stay() {
        for text in [
            listed(99, |at| (at * at + 7).to_string()),
            listed(99, |at| {
                (1_234_567_890_123_456_768 + 256 * at + 37 * at % 100).to_string()
            }),
            listed(40, |at| format!("[{},{at}.17]", at + 1)),
            listed(40, |at| format!("[{},{at}.17]", 1_731_679_200 + at)),
            listed(40, |at| {
                format!(r#"["{}",{at}]"#, 4_006_381_333_931_usize + at * at * 977)
            }),
            listed(40, |at| format!("{at}.99")),
            "[[1731679200,1.5],[1731679500,1.5]]".to_owned(),
            listed(9, |at| format!(r#"["a{at}",1.5]"#)),
            listed(9, |at| format!(r#"["1e999{at}",1.5]"#)),
        ] {
            assert_eq!(told(&text), text);
        }
    }
}
