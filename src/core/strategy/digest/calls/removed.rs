//! Files that were removed, or restored as they had been: what was written to one before is gone.

use super::commands::written_by;
use super::made::{FILE, Made};
use super::names::{COMMANDS, is_among, words_in};
use crate::core::json::Json;
use crate::core::strategy::maps::Set;

/// Commands that remove files or give them another name, and what may stand before them.
const REMOVE: [&str; 3] = ["rm", "unlink", "mv"];
const BEFORE: [&str; 2] = ["git", "sudo"];
/// Commands of git that restore files; the first takes names of branches, too.
const CHECKOUT: &str = "checkout";
const RESTORE: &str = "restore";
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
    /// Those that were restored.
    restored: Set<String>,
}

impl Removed {
    /// Takes note of what a call removed.
    pub(in super::super) fn note(&mut self, made: &Made) {
        let files = removed_by(made);
        let room = MOST_FILES.saturating_sub(self.files.len());
        self.files
            .extend(files.into_iter().take(room).map(str::to_owned));
        let room = MOST_FILES.saturating_sub(self.restored.len());
        let files = commands_of(made).flat_map(restored_in);
        self.restored.extend(files.take(room).map(str::to_owned));
    }

    /// Whether a call was about a file that was restored as it had been.
    pub(in super::super) fn has_restored(&self, made: &Made) -> bool {
        !self.restored.is_empty()
            && file_of(made)
                .is_some_and(|file| self.restored.contains(file.trim_start_matches("./")))
    }

    /// Whether a call was about a file that is gone, or wrote nothing else.
    pub(in super::super) fn has(&self, made: &Made) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let is_gone = |file: &str| self.has_file(file.trim_start_matches("./"));
        match file_of(made) {
            Some(file) => is_gone(file),
            None => {
                let mut written = written_in(made).peekable();
                written.peek().is_some() && written.all(is_gone)
            }
        }
    }

    /// Whether a file, or a folder that it is in, was removed.
    fn has_file(&self, file: &str) -> bool {
        let folders = file.match_indices('/').filter_map(|(at, _)| file.get(..at));
        self.files.contains(file)
            || folders
                .into_iter()
                .any(|folder| self.files.contains(folder))
    }
}

/// The files that the command of a call writes.
pub(in super::super) fn written_in(made: &Made) -> impl Iterator<Item = &str> {
    text_of(made, &COMMANDS).into_iter().flat_map(written_by)
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
    commands_of(made).flat_map(removed_in).collect()
}

fn commands_of(made: &Made) -> impl Iterator<Item = &str> {
    let command = text_of(made, &COMMANDS).filter(|command| command.len() <= COMMAND_BYTES);
    command.into_iter().flat_map(|command| command.split(ENDS))
}

/// The files that a command of git restores.
fn restored_in(command: &str) -> Vec<&str> {
    let mut words = command.split_whitespace();
    let does = words.next().filter(|word| *word == "git").and(words.next());
    let files: Vec<&str> = match does {
        Some(RESTORE) => words.collect(),
        Some(CHECKOUT) => words.filter(|word| has_extension(word)).collect(),
        _ => return Vec::new(),
    };
    let is_file = |word: &&str| !word.starts_with('-');
    files.into_iter().filter(is_file).map(plain).collect()
}

fn has_extension(word: &str) -> bool {
    let name = plain(word).rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    extension.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn plain(file: &str) -> &str {
    let file = file.trim_matches(['"', '\'']).trim_start_matches("./");
    file.trim_end_matches('/')
}

fn removed_in(command: &str) -> Vec<&str> {
    let mut words = command
        .split_whitespace()
        .skip_while(|word| BEFORE.contains(word));
    let Some(program) = words.next().filter(|program| REMOVE.contains(program)) else {
        return Vec::new();
    };
    // Of names without a dot, those of folders are known that are removed with what is in them.
    let of_flag = |word: &str| word.starts_with('-') && word.contains(['r', 'R']);
    let with_folders = program == "rm" && words.clone().any(of_flag);
    let is_file =
        |word: &&str| !word.starts_with('-') && (with_folders || word.contains(['.', '/']));
    let mut files: Vec<&str> = words.filter(is_file).collect();
    if program == "mv" {
        // The last one is the new name.
        files.pop();
    }
    files.into_iter().map(plain).collect()
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

    #[test]
    fn files_that_git_restored_are_known_by_their_names() {
        let mut removed = Removed::default();
        for command in [
            "git checkout a/b.ts && git checkout -b fix/c",
            "git checkout HEAD -- d.rs",
            "git restore --staged ./e.rs",
        ] {
            removed.note(&made("run", &format!(r#"{{"cmd":"{command}"}}"#)));
        }
        for (file, is_restored) in [
            ("a/b.ts", true),
            ("d.rs", true),
            ("e.rs", true),
            ("fix/c", false),
            ("HEAD", false),
        ] {
            let edit = made("edit_file", &format!(r#"{{"path":"{file}"}}"#));
            assert_eq!(removed.has_restored(&edit), is_restored, "{file}");
        }
    }
}
