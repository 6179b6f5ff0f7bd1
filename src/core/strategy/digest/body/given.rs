//! What tells the calls of a tool apart that a digest does not show.

use crate::core::strategy::digest::calls::names::{COMMANDS, is_among};
use crate::core::strategy::digest::weigh::place::commas;
use crate::core::strategy::digest::weigh::weights::word as words_by;
use crate::core::strategy::maps::Map;
use crate::core::text::shape;

/// The longest value that is told (bytes).
const LONGEST_GIVEN: usize = 40;
/// The most calls of which the values are compared.
const MOST_COMPARED: u32 = 64;

/// The values that all calls of a tool were given.
#[derive(Default)]
pub(super) struct Shared<'t> {
    calls: Map<&'t str, u32>,
    values: Map<(&'t str, &'t str), u32>,
}

impl<'t> Shared<'t> {
    /// Those of calls, by the lines that these begin with.
    pub(super) fn of(lines: impl Iterator<Item = &'t str>) -> Self {
        let mut shared = Shared::default();
        for (tool, rest) in lines.filter_map(|line| line.split_once('(')) {
            let calls = shared.calls.entry(tool).or_default();
            if *calls == MOST_COMPARED {
                continue;
            }
            *calls += 1;
            let end = rest.rfind(')').unwrap_or(rest.len());
            let mut seen: Vec<&str> = Vec::new();
            for value in values_of(rest.get(..end).unwrap_or_default()) {
                if is_short(value) && !seen.contains(&value) {
                    seen.push(value);
                    *shared.values.entry((tool, value)).or_default() += 1;
                }
            }
        }
        shared
    }

    /// Whether all of several calls of a tool were given a value.
    pub(super) fn has(&self, tool: &str, value: &str) -> bool {
        let calls = self.calls.get(tool).copied().unwrap_or_default();
        calls > 1 && self.values.get(&(tool, value)) == Some(&calls)
    }
}

/// What tells a call from others of its tool that are not shown: an id, a path or a number that it
/// was given, and that is not the same for all of them; where all of these are, any other value.
pub(super) fn given_to(call: &str, is_shared: impl Fn(&str) -> bool) -> Option<&str> {
    let (_, arguments) = call.split_once('(')?;
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let first = arguments.split_once('=');
    let is_command = |(key, value): (&str, &str)| {
        let mut values = value.split(", ");
        is_among(&COMMANDS, key) && values.next().is_some_and(|value| value.contains(' '))
    };
    if first.is_some_and(is_command) {
        return of_command(arguments);
    }
    let short: Vec<&str> = values_of(arguments)
        .filter(|value| is_short(value))
        .collect();
    let own = |value: &&&str| !is_shared(value);
    let named = || short.iter().filter(|value| has_name(value));
    let first = named().next()?;
    let told = named().find(own).or_else(|| short.iter().find(own));
    Some(told.unwrap_or(first))
}

/// What a call was given, without the keys.
fn values_of(arguments: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    let ends = commas(arguments).into_iter().chain([arguments.len()]);
    ends.map(move |end| {
        let argument = arguments.get(from..end).unwrap_or_default();
        from = end + 1;
        let (_, value) = argument.split_once('=').unwrap_or(("", argument));
        value.trim().trim_matches('"')
    })
}

fn is_short(value: &str) -> bool {
    (1..=LONGEST_GIVEN).contains(&value.len())
        && !value.contains(['[', ']', ';', ',', '×', '(', ')', '…', '{', '}'])
        && !value.contains(": ")
}

/// What tells a command from others: all of a short one. A part of it, or of code, says nothing.
fn of_command(arguments: &str) -> Option<&str> {
    let (_, command) = arguments.split_once('=')?;
    let command = command.trim().trim_matches('"');
    let is_one = |part: &&str| {
        (1..=LONGEST_GIVEN).contains(&part.len())
            && !part.contains([
                '[', ']', ';', ',', '×', '(', ')', '…', '{', '}', '=', '&', '|', '\n',
            ])
            && !part.contains(": ")
            && has_name(part)
    };
    Some(command).filter(is_one)
}

/// Whether a word of a value is a name or a number.
fn has_name(value: &str) -> bool {
    let mut words = value.split_whitespace();
    words.any(|word| shape(word) >= words_by::TELLING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_what_tells_them_apart() {
        let search = |from: &str, to: &str| {
            format!("search(origin={from}, destination={to}, date=2031-05-20)")
        };
        let told = |calls: &[String]| {
            let shared = Shared::of(calls.iter().map(String::as_str));
            let given = |call: &String| {
                let given = given_to(call, |value| shared.has("search", value));
                given.map(str::to_owned)
            };
            calls.iter().filter_map(given).collect::<Vec<String>>()
        };
        assert_eq!(
            told(&[search("JFK", "LAX"), search("JFK", "SEA")]),
            ["LAX", "SEA"]
        );
        // A name or a number that is not the same for all comes first.
        let other = "search(origin=JFK, destination=SEA, date=2031-05-21)".to_owned();
        let both = [search("JFK", "LAX"), other];
        assert_eq!(told(&both), ["2031-05-20", "2031-05-21"]);
        // One alone is told by that, and equal ones are.
        assert_eq!(told(&[search("JFK", "LAX")]), ["2031-05-20"]);
        let twice = [search("JFK", "LAX"), search("JFK", "LAX")];
        assert_eq!(told(&twice), ["2031-05-20", "2031-05-20"]);
        assert!(told(&["search(origin=JFK)".to_owned()]).is_empty());
    }
}
