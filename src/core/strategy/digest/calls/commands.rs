//! Commands of a shell, as far as a digest has to understand them: as they are given, and the files
//! that they write.

use super::names::{COMMANDS, is_among};
use crate::core::json::Json;

/// What parts commands.
const BETWEEN: [char; 4] = [';', '&', '|', '\n'];
/// Programs that run the command that they are given behind a flag.
const SHELLS: [&str; 6] = ["bash", "dash", "ksh", "pwsh", "sh", "zsh"];
/// The most bytes of a command that are read for the files that it writes.
const MOST_BYTES: usize = 4_000;

/// Replaces commands that are given word by word by what is run: `["bash", "-lc", "make"]` by
/// `make`.
pub(in super::super) fn join_commands(arguments: &mut [(String, Json)]) {
    for (key, value) in arguments {
        if is_among(&COMMANDS, key)
            && let Json::List(words) = value
            && let Some(command) = joined(words)
        {
            *value = Json::String(command);
        }
    }
}

fn joined(words: &[Json]) -> Option<String> {
    let text = |word: &Json| match word {
        Json::String(text) => Some(text.clone()),
        _ => None,
    };
    let words = words.iter().map(text).collect::<Option<Vec<String>>>()?;
    if let [program, flags @ .., command] = words.as_slice()
        && SHELLS.contains(&program.rsplit('/').next().unwrap_or(program))
        && !flags.is_empty()
        && flags.iter().all(|flag| flag.starts_with('-'))
    {
        return Some(command.clone());
    }
    let is_plain = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
    (!words.is_empty() && words.iter().all(is_plain)).then(|| words.join(" "))
}

/// The files that a command writes by redirection: `a.py` of `cat <<'EOF' > a.py`. Only its first
/// line counts: below, text of a file may begin.
pub(in super::super) fn written_by(command: &str) -> impl Iterator<Item = &str> {
    let first = command.trim_start().lines().next().unwrap_or_default();
    let first = first.get(..first.floor_char_boundary(MOST_BYTES));
    redirected(first.unwrap_or_default())
}

/// Where a line of a command redirects what it prints to.
fn redirected(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('>').filter_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        // `2>&1`, `a->b`, `n => 1`, and the second of `>>`.
        if matches!(before, Some('2' | '&' | '-' | '=' | '>')) {
            return None;
        }
        let behind = line.get(at..)?.trim_start_matches('>').trim_start();
        let end = behind.find(|c: char| c.is_whitespace() || BETWEEN.contains(&c) || c == ')');
        let file = behind.get(..end.unwrap_or(behind.len()))?;
        let file = file.trim_matches(['"', '\'']);
        let is_file = !file.is_empty() && !file.starts_with(['&', '(', '=']) && file != "/dev/null";
        is_file.then_some(file.trim_start_matches("./"))
    })
}

/// Whether a command writes a file by redirection, or removes, moves or copies one.
pub(super) fn writes(command: &str) -> bool {
    const PROGRAMS: [&str; 9] = [
        "chmod", "cp", "ln", "mkdir", "mv", "patch", "rm", "tee", "touch",
    ];
    let runs = |part: &str| {
        let program = part.split_whitespace().find(|word| *word != "sudo");
        program.is_some_and(|program| PROGRAMS.contains(&program))
    };
    let start = command.get(..command.floor_char_boundary(MOST_BYTES));
    let start = start.unwrap_or_default();
    start.split(BETWEEN).any(runs) || start.lines().any(|line| redirected(line).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_command_writes_are_known() {
        let files = |command| written_by(command).collect::<Vec<_>>();
        assert_eq!(files("cat <<'EOF' > ./a.py\nif x > 3:\nEOF"), ["a.py"]);
        assert_eq!(files("cat > a/b.py <<EOF"), ["a/b.py"]);
        assert_eq!(
            files("make >> \"log.txt\" 2>&1; ls >/dev/null"),
            ["log.txt"]
        );
        assert!(files("f() { a->b; } # n => 1").is_empty());
        for command in ["cd a && rm -f b", "echo 1 > x", "sudo mv a b", "mkdir -p c"] {
            assert!(writes(command), "{command}");
        }
        for command in ["cat a.py", "pytest 2>&1 | tail", "grep -rn 'rm ' .", "ls"] {
            assert!(!writes(command), "{command}");
        }
    }
}
