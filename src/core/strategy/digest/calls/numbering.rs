//! The number that the first line of a result, or of a text below a command, has in its file.

use super::made::{FILE, Made};
use super::names::{COMMANDS, is_among, words_in};
use crate::core::json::Json;

/// Words in the names of tools that give a file, and the command by which an editor does.
const READS: [&str; 8] = [
    "cat", "fetch", "get", "load", "open", "read", "show", "view",
];
const VIEW: &str = "view";
/// Arguments with the number of the first line of a file that is wanted, and those that choose
/// lines in another way.
const BEGINS: [&str; 9] = [
    "begin_line",
    "first_line",
    "from",
    "from_line",
    "line_start",
    "start",
    "start_line",
    "startLine",
    "view_range",
];
const CHOOSES: [&str; 8] = [
    "glob", "grep", "offset", "pattern", "regex", "search", "symbol", "tail",
];
/// What parts commands in a line, but for pipes.
const STEPS: [char; 2] = ['\n', ';'];
/// Programs that print a file from its first line on.
const FROM_FIRST: [&str; 3] = ["bat", "cat", "head"];
/// What stands before a text that a command is given below it.
const BELOW: &str = "<<";

/// The number in its file of the first line of the result; `None` where that is no file, or
/// lines of it that somebody chose.
pub(in super::super) fn first_line(made: &Made) -> Option<u32> {
    let mut reads = words_in(made.tool()).any(|word| is_among(&READS, word));
    let (mut has_file, mut first) = (false, 1);
    for (key, value) in &made.arguments {
        match value {
            // An editor that views a file.
            Json::String(command) if is_among(&COMMANDS, key) && command == VIEW => reads = true,
            Json::String(command) if is_among(&COMMANDS, key) => return first_printed(command),
            _ if is_among(&CHOOSES, key) => return None,
            _ if is_among(&BEGINS, key) => first = first_of(value)?,
            _ => has_file |= is_among(&FILE, key),
        }
    }
    (reads && has_file).then_some(first)
}

/// The number of a line, or the first of a range; `None` where it is none.
fn first_of(value: &Json) -> Option<u32> {
    let number = match value {
        Json::List(range) => range.first(),
        one => Some(one),
    };
    match number {
        Some(Json::Number(number)) => number.parse().ok().filter(|number| *number > 0),
        _ => None,
    }
}

/// The number of the first line that a command prints, in the file that it is from; `None` where it
/// prints no file, or lines that it chose.
fn first_printed(command: &str) -> Option<u32> {
    let mut steps = command
        .split(STEPS)
        .flat_map(|part| part.split("&&"))
        .map(str::trim)
        .filter(|step| !step.is_empty() && !step.starts_with("cd "));
    let (only, None) = (steps.next()?, steps.next()) else {
        return None;
    };
    let mut parts = only.split('|').map(str::trim);
    let mut first = printed_by(parts.next()?, true)?;
    for part in parts {
        first = first.saturating_add(printed_by(part, false)? - 1);
    }
    Some(first)
}

/// The first line that a program prints of what it is given. `opens`: it is given the name of a
/// file, and no more than one.
fn printed_by(part: &str, opens: bool) -> Option<u32> {
    let mut words = part.split_whitespace();
    let program = words.next()?;
    let (flags, files): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('-'));
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    match program {
        // `-5`, `-n 5`
        _ if FROM_FIRST.contains(&program) => {
            let files = files.iter().filter(|word| number(word).is_none());
            (files.count() == usize::from(opens)).then_some(1)
        }
        // `-n '5,9p' FILE`
        "sed" if flags == ["-n"] => {
            let (range, rest) = files.split_first()?;
            let lines = range.trim_matches(['"', '\'']).strip_suffix('p')?;
            let begin = lines.split_once(',').map_or(lines, |(begin, _)| begin);
            number(begin).filter(|_| rest.len() == usize::from(opens))
        }
        // `-n +5 FILE`
        "tail" => {
            let begin = files.iter().chain(&flags).find_map(|word| {
                let (_, number) = word.split_once('+')?;
                Some(number)
            });
            number(begin?)
        }
        _ => None,
    }
}

/// The number of the first line below that of a command, in a text that it is given there; `None`
/// where it is given none.
pub(in super::super) fn first_below(command: &str) -> Option<u32> {
    let first = command.trim_start().lines().next().unwrap_or_default();
    first.contains(BELOW).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_result_has_the_number_that_it_has_in_its_file() {
        for (tool, arguments, first) in [
            ("read_file", r#"{"path":"a.py"}"#, Some(1)),
            ("readFile", r#"{"path":"a.py","startLine":120}"#, Some(120)),
            ("read", r#"{"path":"a.py","offset":120}"#, None),
            (
                "editor",
                r#"{"command":"view","path":"a.py","view_range":[30,60]}"#,
                Some(30),
            ),
            ("bash", r#"{"command":"sed -n 40,60p a.py"}"#, Some(40)),
            ("bash", r#"{"command":"pytest a.py"}"#, None),
            ("grep", r#"{"pattern":"x","path":"a.py"}"#, None),
            ("list_folder", r#"{"path":"src"}"#, None),
            ("get_page", r#"{"url":"https://a.example"}"#, None),
        ] {
            let Some(Json::Object(members)) = Json::parse(arguments) else {
                panic!("{arguments}");
            };
            assert_eq!(
                first_line(&Made::new(tool, members)),
                first,
                "{tool} {arguments}"
            );
        }
    }

    #[test]
    fn lines_have_their_numbers_only_where_a_command_prints_a_file() {
        for (command, first) in [
            ("cat src/a.py", Some(1)),
            ("cd /repo && sed -n '530,555p' tests.py", Some(530)),
            ("cat a.py | sed -n 20,30p", Some(20)),
            ("cat a.py | head -50", Some(1)),
            ("head -n 40 a.py", Some(1)),
            ("tail -n +120 a.py", Some(120)),
            ("tail -n +120 a.py | head -20", Some(120)),
            ("tail -n +4294967295 a | tail -n +9", Some(u32::MAX)),
            ("tail -50 a.py", None),
            ("cat a.py b.py", None),
            ("cat a.py && cat b.py", None),
            ("cat a.py | grep x", None),
            ("sed -n '/def x/,/return/p' a.py", None),
            ("sed -n -e 1p a.py", None),
            ("pytest -q", None),
            ("ls", None),
            ("", None),
        ] {
            assert_eq!(first_printed(command), first, "{command}");
        }
        assert_eq!(first_below("cat <<EOF > a.py\nx"), Some(1));
        assert_eq!(first_below("make\nmake test"), None);
    }
}
