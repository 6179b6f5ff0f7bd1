//! The words in names of tools and arguments.

/// Arguments with what is run.
pub(in super::super) const COMMANDS: [&str; 6] =
    ["cmd", "code", "command", "query", "script", "sql"];

pub(in super::super) fn is_among(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The words in the name of a call's tool.
pub(in super::super) fn words_in(call: &str) -> impl Iterator<Item = &str> {
    let name = call.split('(').next().unwrap_or_default();
    let is_break = |c: char| !c.is_alphanumeric() || c.is_uppercase();
    let mut rest = name;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let begin = first.len_utf8();
        let after = rest.get(begin..).unwrap_or_default();
        let end = begin + after.find(is_break).unwrap_or(after.len());
        let (word, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(word.trim_start_matches(|c: char| !c.is_alphanumeric()))
    })
}
