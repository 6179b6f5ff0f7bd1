//! Files that were removed: what was written to one before, or read from it, is gone.

use super::made::{COMMANDS, FILE, Made, is_among, words_in};
use crate::core::json::Json;
use crate::core::strategy::maps::Set;

/// Commands that remove files or give them another name, and what may stand before them.
const REMOVE: [&str; 3] = ["rm", "unlink", "mv"];
const BEFORE: [&str; 2] = ["git", "sudo"];
/// Words in the names of tools that remove a file.
const REMOVES: [&str; 3] = ["delete", "remove", "unlink"];
/// What ends a command.
const ENDS: [char; 4] = [';', '&', '|', '\n'];
/// The most files that are known, and the longest command (bytes).
const MOST_FILES: usize = 256;
const COMMAND_BYTES: usize = 2_000;

/// The files that newer calls removed.
#[derive(Debug, Default)]
pub(in super::super) struct Removed {
    files: Set<String>,
}

impl Removed {
    /// Takes note of what a call removed.
    pub(in super::super) fn note(&mut self, made: &Made) {
        let files = removed_by(made);
        let room = MOST_FILES.saturating_sub(self.files.len());
        self.files
            .extend(files.into_iter().take(room).map(str::to_owned));
    }

    /// Whether a call was about a file that is gone.
    pub(in super::super) fn has(&self, made: &Made) -> bool {
        !self.files.is_empty()
            && file_of(made).is_some_and(|file| self.files.contains(file.trim_start_matches("./")))
    }
}

fn file_of(made: &Made) -> Option<&str> {
    text_of(made, &FILE)
}

fn text_of<'m>(made: &'m Made, keys: &[&str]) -> Option<&'m str> {
    let mut members = made.arguments.iter();
    members.find_map(|(key, value)| match value {
        Json::String(text) if keys.contains(&key.as_str()) => Some(text.as_str()),
        _ => None,
    })
}

/// The files that a call removed, by its tool or its command.
fn removed_by(made: &Made) -> Vec<&str> {
    if words_in(made.tool()).any(|word| is_among(&REMOVES, word)) {
        return file_of(made).into_iter().collect();
    }
    let command = text_of(made, &COMMANDS).filter(|command| command.len() <= COMMAND_BYTES);
    let commands = command.into_iter().flat_map(|command| command.split(ENDS));
    commands.flat_map(removed_in).collect()
}

fn removed_in(command: &str) -> Vec<&str> {
    let mut words = command
        .split_whitespace()
        .skip_while(|word| BEFORE.contains(word));
    let Some(program) = words.next().filter(|program| REMOVE.contains(program)) else {
        return Vec::new();
    };
    let is_file = |word: &&str| !word.starts_with('-') && word.contains(['.', '/']);
    let mut files: Vec<&str> = words.filter(is_file).collect();
    if program == "mv" {
        // The last one is the new name.
        files.pop();
    }
    let plain = files.into_iter();
    plain
        .map(|file| file.trim_matches(['"', '\'']).trim_start_matches("./"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(tool: &str, arguments: &str) -> Made {
        match Json::parse(arguments) {
            Some(Json::Object(members)) => Made::new(tool, members),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_that_were_removed_are_known_by_their_names() {
        let mut removed = Removed::default();
        let command = r#"{"cmd":"git rm -q --cached a/b.ts; rm -f ./a/b.spec.ts && mv c.ts d.ts"}"#;
        removed.note(&made("run", command));
        removed.note(&made("delete_file", r#"{"path":"src/e.rs"}"#));
        removed.note(&made(
            "run",
            r#"{"cmd":"cargo test --rm x.rs; echo rm y.rs"}"#,
        ));
        for file in ["a/b.ts", "a/b.spec.ts", "./c.ts", "src/e.rs"] {
            let write = format!(r#"{{"path":"{file}","content":"x"}}"#);
            assert!(removed.has(&made("write_file", &write)), "{file}");
        }
        for file in ["d.ts", "x.rs", "y.rs", "b.ts"] {
            let write = format!(r#"{{"path":"{file}"}}"#);
            assert!(!removed.has(&made("read_file", &write)), "{file}");
        }
    }
}
