//! Series of numbers, as monitoring and measuring return them: told by their ends and extremes.

use crate::core::json::Json;

/// The first of the Unix times that a list of points may begin with, seconds: 2001.
const FIRST_TIME: f64 = 1e9;
/// Points below this number are told one by one: by their times, and by other numbers.
const LEAST_TIMED: usize = 4;
const LEAST_POINTS: usize = 16;
/// The most numbers of a point.
const MOST_CELLS: usize = 6;

/// What follows the number of them.
const POINTS: &str = " points ";
const NUMBERS: &str = " numbers ";

/// Replaces series in a value by texts that tell of them.
pub(super) fn tell_series(value: &mut Json) {
    match value {
        Json::List(items) => {
            if let Some(told) = points(items).or_else(|| numbers(items)) {
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

/// Whether a value tells of a series.
pub(super) fn tells_series(value: &Json) -> bool {
    let Json::String(text) = value else {
        return false;
    };
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    behind.len() < text.len()
        && [POINTS, NUMBERS]
            .iter()
            .any(|mark| behind.starts_with(mark))
}

/// A list of points, each with a time or a step and what was measured, such as
/// `[[1731679200, "0.0148"], …]`.
fn points(items: &[Json]) -> Option<String> {
    if items.len() < LEAST_TIMED {
        return None;
    }
    let points: Vec<&[Json]> = items
        .iter()
        .map(|item| match item {
            Json::List(cells) => Some(cells.as_slice()),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let cells = points.first()?.len();
    let is_point =
        |point: &&[Json]| point.len() == cells && point.iter().all(|c| number(c).is_some());
    if !(2..=MOST_CELLS).contains(&cells) || !points.iter().all(is_point) {
        return None;
    }
    let at = |point: &[Json]| point.first().and_then(number);
    let is_ordered = points.is_sorted_by(|one, next| at(one) < at(next));
    let is_timed = at(points.first()?)? >= FIRST_TIME;
    let is_measured = || {
        points
            .iter()
            .flat_map(|point| point.iter())
            .any(has_fraction)
    };
    if !is_ordered || !(is_timed || (points.len() >= LEAST_POINTS && is_measured())) {
        return None;
    }
    let [first, last] = [points.first()?, points.last()?].map(|point| shown(point));
    let mut told = format!("{}{POINTS}from {first} to {last}", points.len());
    if cells == 2 {
        tell_extremes(points.iter().filter_map(|point| point.get(1)), &mut told);
    }
    Some(told)
}

/// A list of numbers that were measured, or that follow each other at one distance.
fn numbers(items: &[Json]) -> Option<String> {
    let is_number = |item: &Json| matches!(item, Json::Number(_));
    if items.len() < LEAST_POINTS || !items.iter().all(is_number) {
        return None;
    }
    let values: Vec<f64> = items.iter().filter_map(number).collect();
    let is_even = || {
        let mut steps = values.windows(2).filter_map(|pair| match pair {
            [one, next] => Some(next - one),
            _ => None,
        });
        let first = steps.next();
        first.is_some_and(|first| first != 0.0) && steps.all(|step| Some(step) == first)
    };
    let is_measured = items.iter().filter(|item| has_fraction(item)).count() * 2 > items.len();
    let [first, last] =
        [items.first()?, items.last()?].map(|item| shown(std::slice::from_ref(item)));
    if is_measured {
        let mut told = format!("{}{NUMBERS}from {first} to {last}", items.len());
        tell_extremes(items.iter(), &mut told);
        return Some(told);
    }
    is_even().then(|| {
        format!(
            "{}{NUMBERS}in even steps from {first} to {last}",
            items.len()
        )
    })
}

/// The numbers of a point, such as `1731679200=0.0148`.
fn shown(point: &[Json]) -> String {
    let cells: Vec<&str> = point.iter().filter_map(spelling).collect();
    match cells.as_slice() {
        [at, value] => format!("{at}={value}"),
        _ => cells.join(" "),
    }
}

fn tell_extremes<'j>(values: impl Iterator<Item = &'j Json> + Clone, told: &mut String) {
    let by_size = |one: &&Json, other: &&Json| {
        let [one, other] = [one, other].map(|value| number(value).unwrap_or_default());
        one.total_cmp(&other)
    };
    let least = values.clone().min_by(by_size).and_then(spelling);
    let most = values.max_by(by_size).and_then(spelling);
    if let (Some(least), Some(most)) = (least, most) {
        told.push_str(&format!("; least {least}; most {most}"));
    }
}

/// The spelling of a number, which may be in a string.
fn spelling(value: &Json) -> Option<&str> {
    match value {
        Json::Number(number) => Some(number),
        Json::String(text) => {
            let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
            (text.bytes().all(plain) && text.parse::<f64>().is_ok()).then_some(text.as_str())
        }
        _ => None,
    }
}

fn number(value: &Json) -> Option<f64> {
    spelling(value)?.parse().ok()
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
    fn series_are_told_by_their_ends_and_extremes() {
        let points: Vec<String> = (0..7)
            .map(|at| format!(r#"[{},"{}.5"]"#, 1_731_679_200 + 300 * at, (at * 3) % 7))
            .collect();
        let points = points.join(",");
        assert_eq!(
            told(&format!(
                r#"{{"metric":{{"pod":"a"}},"values":[{points}]}}"#
            )),
            concat!(
                r#"{"metric":{"pod":"a"},"values":"7 points from 1731679200=0.5 to "#,
                r#"1731681000=4.5; least 0.5; most 6.5"}"#
            )
        );
        let measured: Vec<String> = (0..20).map(|at| format!("{}.25", 40 - at)).collect();
        assert_eq!(
            told(&format!("[{}]", measured.join(","))),
            r#""20 numbers from 40.25 to 21.25; least 21.25; most 40.25""#
        );
        let even: Vec<String> = (0..20).map(|at| (at * 60).to_string()).collect();
        assert_eq!(
            told(&format!("[[{}]]", even.join(","))),
            r#"["20 numbers in even steps from 0 to 1140"]"#
        );
    }

    #[test]
    fn ids_amounts_and_few_points_stay() {
        let ids: Vec<String> = (0..20).map(|at| (at * at + 7).to_string()).collect();
        let pairs: Vec<String> = (0..20).map(|at| format!("[{},{at}]", at + 7)).collect();
        for text in [
            format!("[{}]", ids.join(",")),
            format!("[{}]", pairs.join(",")),
            "[[1731679200,1.5],[1731679500,1.5]]".to_owned(),
            r#"[["a",1.5],["b",1.5],["c",1.5],["d",1.5],["e",1.5],["f",1.5]]"#.to_owned(),
            "[1.5,2.5,3.5]".to_owned(),
        ] {
            assert_eq!(told(&text), text);
        }
    }
}
