//! Keys that the instructions name as code: what a policy turns on is in the fields with these
//! names, and what a tool is to be given has them, too.

use crate::core::strategy::maps::Set;

/// The part of a text that is looked at (bytes), the most keys, and the longest one (bytes).
const LOOKED_AT: usize = 1 << 16;
const MOST_KEYS: usize = 512;
const LONGEST: usize = 64;
/// The part behind the name of a function that is looked at (bytes).
const GIVEN_BYTES: usize = 1_000;
/// The shortest part of a name with dots (bytes): `e.g.` is none.
const LEAST_PART: usize = 2;

/// The keys that a text names: `` `loyalty` ``, `term.minimum_end`, and those in the brackets
/// behind the name of a function.
pub(super) fn keys_in(text: &str) -> Set<String> {
    let near = text.get(..text.floor_char_boundary(LOOKED_AT));
    let near = near.unwrap_or_default();
    let mut found: Set<String> = Set::default();
    let add = |found: &mut Set<String>, name: &str| {
        let parts = name.split('.').filter(|part| is_key(part));
        let left = MOST_KEYS.saturating_sub(found.len());
        found.extend(parts.take(left).map(str::to_owned));
    };
    let in_backticks = near.split('`').skip(1).step_by(2);
    for code in in_backticks.filter(|code| code.len() <= LONGEST && is_name(code)) {
        add(&mut found, code);
    }
    let is_break = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'));
    for word in near.split(is_break).map(|word| word.trim_matches('.')) {
        if is_name(word) && (is_snake(word) || is_dotted(word)) {
            add(&mut found, word);
        }
    }
    for (function, rest) in near
        .match_indices('(')
        .filter_map(|(at, _)| near.split_at_checked(at))
    {
        let name = function.rsplit(is_break).next().unwrap_or_default();
        if !is_snake(name) {
            continue;
        }
        let near = rest.get(1..rest.floor_char_boundary(GIVEN_BYTES));
        let given = near.and_then(|near| near.split_once(')'));
        if let Some((given, _)) = given.filter(|(given, _)| !given.contains('(')) {
            let names = given
                .split(',')
                .map(|one| one.trim().trim_end_matches(['[', ']', '?']));
            names
                .filter(|name| is_name(name))
                .for_each(|name| add(&mut found, name));
        }
    }
    found
}

fn is_name(word: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    word.len() <= LONGEST && word.starts_with(char::is_alphabetic) && word.chars().all(is_of_name)
}

fn is_key(part: &str) -> bool {
    part.len() >= LEAST_PART && part.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn is_snake(word: &str) -> bool {
    word.trim_matches('_').contains('_')
}

fn is_dotted(word: &str) -> bool {
    let is_part = |part: &str| part.len() >= LEAST_PART && part.starts_with(char::is_lowercase);
    word.contains('.') && word.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_prose() {
        let text = "Waive the fee if `loyalty` is gold or term.minimum_end has passed. \
            See keep_numbers. create_event(titel, von, teilnehmer[]) books it, e.g. on Monday. \
            Use `git status`.";
        let mut keys: Vec<String> = keys_in(text).into_iter().collect();
        keys.sort_unstable();
        let expected = [
            "create_event",
            "keep_numbers",
            "loyalty",
            "minimum_end",
            "teilnehmer",
            "term",
            "titel",
            "von",
        ];
        assert_eq!(keys, expected);
        assert!(keys_in("Only pending orders (see below) may be changed.").is_empty());
    }

    #[test]
    fn a_long_text_has_so_many() {
        let text: String = (0..2_000).map(|n| format!("a_{n} ")).collect();
        assert_eq!(keys_in(&text).len(), MOST_KEYS);
    }
}
