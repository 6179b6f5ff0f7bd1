//! Where the functions and types that the newest messages name are defined, in what was read or
//! written last: they are changed next.

use super::context::Context;
use super::line::{DigestLine, Part, Standing};
use super::weigh::STRIDE;
use crate::core::strategy::maps::Set;
use crate::core::text::{ByteSet, words_of};
use crate::core::{Cancel, Cancelled};

/// Names that are looked for, and the least and the most bytes of one.
const MOST_NAMES: usize = 8;
const LEAST_NAME: usize = 4;
const MOST_NAME: usize = 64;
/// The shortest word in a name that tells what it is about (bytes).
const LEAST_PART: usize = 3;
/// The end of a text in which names are looked for (bytes).
const SEARCHED_BYTES: usize = 8 * 1_024;
/// Words that stand before the name of a definition, at most.
const MOST_BEFORE: usize = 7;
/// What stands before the code on a line, and what names have.
static BEFORE_CODE: ByteSet = ByteSet::of(b" \t:|-").and(b'0', b'9');
static IN_NAMES: ByteSet = ByteSet::of(b"_").and_alphanumeric();
/// What stands in brackets behind `pub`.
const VISIBLE: [&str; 4] = ["crate", "super", "self", "in"];

/// The lines that begin the newest definitions of what the newest messages name, the most wanted
/// first. What a text that stays defines is not among them.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn definitions<'t>(
    lines: &'t [DigestLine],
    context: &'t Context,
    cancel: &Cancel,
) -> Result<Vec<usize>, Cancelled> {
    let mut names: Vec<&str> = Vec::new();
    let mut add = |text: &'t str, is_wanted: &dyn Fn(&str) -> bool| {
        let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
        for name in names_in(text.get(from..).unwrap_or_default()).filter(|name| is_wanted(name)) {
            if names.len() < MOST_NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
    };
    for text in context.said_last.iter().chain(&context.recent) {
        add(text, &|_| true);
    }
    // `Make the ack change` is about what the model said of `AckBatch`.
    let said = context.said_last.iter().flat_map(|text| words_of(text));
    let said: Set<String> = said.map(str::to_lowercase).collect();
    let is_about = |name: &str| parts_of_name(name).any(|part| said.contains(&part));
    let said_by_model = |line: &&DigestLine| line.part == Part::Assistant && !line.is_code;
    for (at, line) in lines.iter().rev().filter(said_by_model).enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        add(&line.text, &is_about);
    }
    for text in &context.texts {
        cancel.check_budget()?;
        let defined: Set<&str> = text.lines().filter_map(defined_in).collect();
        names.retain(|name| !defined.contains(name));
    }
    let mut found: Vec<Option<usize>> = vec![None; names.len()];
    if names.is_empty() {
        return Ok(Vec::new());
    }
    for (at, line) in lines.iter().enumerate().rev() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let is_code = matches!(line.part, Part::Text | Part::Argument) || line.is_code;
        if !is_code || matches!(line.standing, Standing::Repeated | Standing::Stale) {
            continue;
        }
        let name = defined_in(&line.text);
        let nth = name.and_then(|name| names.iter().position(|known| *known == name));
        if let Some(place @ None) = nth.and_then(|nth| found.get_mut(nth)) {
            *place = Some(at);
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// The words of a text that are names in code by their form: `AckBatch`, `total_label`,
/// `parse()`.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let begin = rest.find(is_of_name)?;
            let begun = rest.get(begin..)?;
            let end = begun.find(|c| !is_of_name(c)).unwrap_or(begun.len());
            let (name, behind) = begun.split_at_checked(end)?;
            rest = behind;
            let is_called = behind.starts_with('(');
            if (LEAST_NAME..=MOST_NAME).contains(&name.len()) && (is_called || is_compound(name)) {
                return Some(name);
            }
        }
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word has parts: `AckBatch`, `ackBatch`, `ack_batch`.
fn is_compound(word: &str) -> bool {
    let letters = word.as_bytes();
    let begins = letters.first().is_some_and(|c| !c.is_ascii_digit());
    let pairs = || letters.iter().zip(letters.iter().skip(1));
    let has_hump = pairs().any(|(one, next)| one.is_ascii_lowercase() && next.is_ascii_uppercase());
    let is_joined = |(one, next): (&u8, &u8)| *one == b'_' && next.is_ascii_lowercase();
    begins && (has_hump || pairs().any(is_joined))
}

/// The parts of a name that are words, in small letters.
fn parts_of_name(name: &str) -> impl Iterator<Item = String> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let behind = rest.get(first..).unwrap_or_default();
        let end = behind.find(|c: char| c.is_uppercase() || c == '_');
        let (part, more) = rest.split_at_checked(first + end.unwrap_or(behind.len()))?;
        rest = more;
        Some(part.trim_start_matches('_').to_lowercase())
    })
    .filter(|part| part.len() >= LEAST_PART)
}

/// Whether a definition may begin with a word.
fn defines(word: &str) -> bool {
    matches!(
        word,
        "abstract"
            | "async"
            | "class"
            | "const"
            | "data"
            | "declare"
            | "def"
            | "default"
            | "enum"
            | "export"
            | "final"
            | "fn"
            | "fun"
            | "func"
            | "function"
            | "impl"
            | "interface"
            | "internal"
            | "let"
            | "macro_rules"
            | "module"
            | "object"
            | "override"
            | "private"
            | "proc"
            | "protected"
            | "pub"
            | "public"
            | "record"
            | "static"
            | "struct"
            | "sub"
            | "suspend"
            | "trait"
            | "type"
            | "val"
            | "var"
            | "virtual"
    )
}

/// The name that a line of code defines, if it does.
fn defined_in(line: &str) -> Option<&str> {
    // A listing has numbers before it.
    let (_, code) = line.split_at_checked(BEFORE_CODE.run(line.as_bytes(), true))?;
    let (first, _) = code.split_at_checked(IN_NAMES.run(code.as_bytes(), true))?;
    if !defines(first) {
        return None;
    }
    // `func (q *Queue) AckBatch(`
    let receiver = code
        .strip_prefix("func (")
        .and_then(|code| code.split_once(") "));
    let code = receiver.map_or(code, |(_, code)| code);
    let words = code.split(|c: char| !is_of_name(c)).take(MOST_BEFORE);
    let mut named = words.filter(|word| !word.is_empty() && !defines(word));
    // `pub(crate) fn`
    named.find(|word| !VISIBLE.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_their_form() {
        let text = "Change totalLabel and AckBatch in ack.go (not ack_all), then call run() and \
            parse_2; CamelCase, HTTPServer, id_, 2fast, we.";
        let names: Vec<&str> = names_in(text).collect();
        let expected = ["totalLabel", "AckBatch", "ack_all", "CamelCase"];
        assert_eq!(names, expected);
    }

    #[test]
    fn definitions_are_told_from_uses() {
        for (line, name) in [
            (
                "func (q *Queue) AckBatch(ctx context.Context) error {",
                Some("AckBatch"),
            ),
            (
                "export function totalLabel(inv: Invoice): string {",
                Some("totalLabel"),
            ),
            ("    12\tpub(crate) async fn read_all(", Some("read_all")),
            ("  def total_label(self):", Some("total_label")),
            ("12:class Invoice(Base):", Some("Invoice")),
            (
                "const formatMinor = (minor: number) => {",
                Some("formatMinor"),
            ),
            ("return totalLabel(inv);", None),
            ("totalLabel(inv)", None),
            ("", None),
        ] {
            assert_eq!(defined_in(line), name, "{line}");
        }
    }
}
