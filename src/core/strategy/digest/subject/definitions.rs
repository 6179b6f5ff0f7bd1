//! Where the functions and types that the newest messages name are defined, in what was read or
//! written last: they are changed next.

use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::strategy::maps::{Map, Set};
use crate::core::text::{ByteSet, words_of};
use crate::core::{Cancel, Cancelled};

/// Names that are looked for, and the least and the most bytes of one.
const MOST_NAMES: usize = 8;
const LEAST_NAME: usize = 4;
const MOST_NAME: usize = 64;
/// Calls that stay of which it is looked for what their code goes on with.
const MOST_CALLS: usize = 3;
/// The newest messages of the model's, of those that stay and of those that go, whose names are
/// looked for.
const LAST_SAID: usize = 3;
/// The shortest word in a name that tells what it is about (bytes).
const LEAST_PART: usize = 3;
/// The end of a text in which names are looked for (bytes).
const SEARCHED_BYTES: usize = 8 * 1_024;
/// Words that stand before the name of a definition, at most.
const MOST_BEFORE: usize = 7;
/// What stands before the code on a line, and what names have.
static BEFORE_CODE: ByteSet = ByteSet::of(b" \t:|+-").and(b'0', b'9');
static IN_NAMES: ByteSet = ByteSet::of(b"_").and_alphanumeric();
/// Words that methods begin with, before their type, and those that other definitions have.
const BEFORE_METHODS: [&str; 10] = [
    "abstract",
    "async",
    "final",
    "internal",
    "override",
    "private",
    "protected",
    "public",
    "static",
    "virtual",
];
const NO_METHODS: [&str; 10] = [
    "class",
    "def",
    "enum",
    "fn",
    "func",
    "function",
    "interface",
    "new",
    "record",
    "struct",
];
/// What stands in brackets behind `pub`.
const VISIBLE: [&str; 4] = ["crate", "super", "self", "in"];

/// The lines that begin the newest definitions of what the newest messages name, the most wanted
/// first. What a text that stays defines is not among them.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn definitions(
    lines: &[DigestLine],
    context: &Context,
    cancel: &Cancel,
) -> Result<Vec<usize>, Cancelled> {
    let names = Names::of(lines, context, cancel)?;
    if names.defined.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = names.in_what_stays(context, cancel)?;
    found.extend(names.in_what_the_model_said(lines, context, cancel)?);
    let mut known: Set<usize> = Set::default();
    found.retain(|place| known.insert(*place));
    found.truncate(MOST_NAMES);
    // An edit has the new first line of a function; the rest of it was read before.
    let name = |at: usize| lines.get(at).and_then(|line| defined_in(&line.text));
    let rest = |at: usize| names.replaced.get(name(at)?).copied();
    let with_rest = found.into_iter();
    Ok(with_rest
        .flat_map(|at| rest(at).into_iter().chain([at]))
        .collect())
}

/// What is defined, by names: the lines that were read or written last.
#[derive(Default)]
struct Names<'t> {
    /// What the lines of files define, and what code that was run assigns.
    defined: Map<&'t str, usize>,
    /// The first lines of the latter.
    assigned: Map<&'t str, usize>,
    /// Of what was read, first lines of definitions that edits replaced.
    replaced: Map<&'t str, usize>,
    /// What a text that stays defines.
    told: Set<&'t str>,
}

impl<'t> Names<'t> {
    fn of(
        lines: &'t [DigestLine],
        context: &'t Context,
        cancel: &Cancel,
    ) -> Result<Self, Cancelled> {
        let mut names = Names::default();
        for (at, line) in lines.iter().enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            names.note(at, line);
        }
        for text in &context.texts {
            cancel.check_budget()?;
            names.told.extend(text.lines().filter_map(defined_in));
        }
        for text in &context.calls {
            cancel.check_budget()?;
            names.told.extend(text.lines().filter_map(assigned_in));
        }
        Ok(names)
    }

    fn note(&mut self, at: usize, line: &'t DigestLine) {
        if line.part == Part::Text && line.standing == Standing::Gone {
            let replaced = defined_in(&line.text).map(|name| (name, at));
            self.replaced.extend(replaced);
        }
        let is_code = matches!(line.part, Part::Text | Part::Argument) || line.is_code;
        let is_told = matches!(
            line.standing,
            Standing::Beside | Standing::Gone | Standing::Repeated
        );
        let is_old = is_told || line.standing.is_old();
        if !is_code || is_old {
            return;
        }
        if let Some(name) = defined_in(&line.text) {
            self.defined.insert(name, at);
        } else if line.part == Part::Argument
            && let Some(name) = assigned_in(&line.text)
        {
            self.defined.insert(name, at);
            self.assigned.entry(name).or_insert(at);
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        let place = self.defined.get(name).copied();
        place.filter(|_| !self.told.contains(name))
    }

    /// The places of what the user's newest message, the newest texts and the newest code name.
    fn in_what_stays(&self, context: &Context, cancel: &Cancel) -> Result<Vec<usize>, Cancelled> {
        let mut found: Vec<usize> = Vec::new();
        let compound = self.defined.keys().filter(|name| is_compound(name));
        let by_letters: Map<String, &str> =
            compound.map(|name| (letters_of(name), *name)).collect();
        for text in &context.said_last {
            cancel.check_budget()?;
            let named = named_by_user(searched(text), &by_letters);
            found.extend(named.filter_map(|name| self.place(name)));
        }
        let said = context.said.iter().filter(|(is_user, _)| !is_user);
        let said = said.map(|(_, text)| text).take(LAST_SAID);
        for text in context.recent.iter().chain(said) {
            found.extend(names_in(searched(text)).filter_map(|name| self.place(name)));
        }
        // The next cell of a notebook goes on with what those before it made.
        for text in context.calls.iter().take(MOST_CALLS) {
            for name in searched(text).split(|c| !is_of_name(c)) {
                let first = self.assigned.get(name);
                let first = first.filter(|_| !self.told.contains(name)).copied();
                found.extend(first.and_then(|_| self.place(name)));
                found.extend(first);
            }
        }
        Ok(found)
    }

    /// The places of what the model named: in its last messages, or by a word of the user's.
    /// `Make the ack change` is about what the model said of `AckBatch`.
    fn in_what_the_model_said(
        &self,
        lines: &[DigestLine],
        context: &Context,
        cancel: &Cancel,
    ) -> Result<Vec<usize>, Cancelled> {
        let said = context.said_last.iter().flat_map(|text| words_of(text));
        let said: Set<String> = said.map(str::to_lowercase).collect();
        let is_about = |name: &str| parts_of_name(name).any(|part| said.contains(&part));
        let said_by_model = |line: &&DigestLine| line.part == Part::Assistant && !line.is_code;
        let mut found = Vec::new();
        let mut messages = 0;
        for (at, line) in lines.iter().rev().filter(said_by_model).enumerate() {
            if at.is_multiple_of(STRIDE) {
                cancel.check_budget()?;
            }
            // What it said last is what it is at, whatever the user says to it: `Go.`
            let is_last = messages < LAST_SAID;
            let names = names_in(searched(&line.text)).filter(|name| is_last || is_about(name));
            found.extend(names.filter_map(|name| self.place(name)));
            messages += usize::from(line.depth == 0);
        }
        Ok(found)
    }
}

/// The end of a text, in which names are looked for.
pub(super) fn searched(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
    text.get(from..).unwrap_or_default()
}

/// What a message of the user may name: what is a name by its form, words with a capital letter, as
/// in `do Renew now`, and the names that stand in parts there, of those `by_letters`: `the export
/// menu`.
fn named_by_user<'t>(
    text: &'t str,
    by_letters: &Map<String, &'t str>,
) -> impl Iterator<Item = &'t str> {
    let words: Vec<&str> = words_of(text).collect();
    let is_large = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
    let large: Vec<&str> = words.iter().copied().filter(is_large).collect();
    let in_parts = |parts: &[&str]| by_letters.get(&letters_of(&parts.concat())).copied();
    let pairs = words.windows(2).filter_map(in_parts);
    let in_parts: Vec<&str> = pairs.chain(words.windows(3).filter_map(in_parts)).collect();
    names_in(text).chain(large).chain(in_parts)
}

/// A name in small letters, without what joins its parts.
fn letters_of(name: &str) -> String {
    let letters = name.chars().filter(|c| *c != '_');
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The words of a text that are names in code by their form, `AckBatch`, `total_label`, `parse()`,
/// or by the marks around them.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let begin = rest.find(is_of_name)?;
            let begun = rest.get(begin..)?;
            let end = begun.find(|c| !is_of_name(c)).unwrap_or(begun.len());
            let (name, behind) = begun.split_at_checked(end)?;
            let is_quoted = behind.starts_with('`') && rest.get(..begin)?.ends_with('`');
            rest = behind;
            let is_name = is_quoted || behind.starts_with('(') || is_compound(name);
            if (LEAST_NAME..=MOST_NAME).contains(&name.len()) && is_name {
                return Some(name);
            }
        }
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word has parts: `AckBatch`, `ackBatch`, `ack_batch`, `ACK_BATCH`.
fn is_compound(word: &str) -> bool {
    let letters = word.as_bytes();
    let begins = letters.first().is_some_and(|c| !c.is_ascii_digit());
    let pairs = || letters.iter().zip(letters.iter().skip(1));
    let has_hump = pairs().any(|(one, next)| one.is_ascii_lowercase() && next.is_ascii_uppercase());
    let is_joined = |(one, next): (&u8, &u8)| *one == b'_' && next.is_ascii_alphabetic();
    begins && (has_hump || pairs().any(is_joined))
}

/// The parts of a name that are words, in small letters.
pub(super) fn parts_of_name(name: &str) -> impl Iterator<Item = String> {
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
pub(super) fn defined_in(line: &str) -> Option<&str> {
    // A listing has numbers before it.
    let (_, code) = line.split_at_checked(BEFORE_CODE.run(line.as_bytes(), true))?;
    let (first, _) = code.split_at_checked(IN_NAMES.run(code.as_bytes(), true))?;
    if !defines(first) {
        return None;
    }
    if let Some(method) = method_in(first, code) {
        return Some(method);
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

/// The name of a method whose type stands before it: `public List<Row> rowsOf(Sheet sheet) {`.
fn method_in<'t>(first: &str, code: &'t str) -> Option<&'t str> {
    if !BEFORE_METHODS.contains(&first) {
        return None;
    }
    let (before, _) = code.split_once('(')?;
    let name = before.rsplit(|c| !is_of_name(c)).next()?;
    let words = || {
        before
            .split(|c: char| !is_of_name(c))
            .filter(|word| !word.is_empty())
    };
    let is_typed = words().filter(|word| !defines(word)).nth(1).is_some();
    let is_other = words().any(|word| NO_METHODS.contains(&word)) || before.contains('=');
    Some(name).filter(|name| !name.is_empty() && is_typed && !is_other)
}

/// The name that a line of a script assigns, at its beginning: `clean = trips.merge(weather)`.
fn assigned_in(line: &str) -> Option<&str> {
    let end = line.find(|c| !is_of_name(c))?;
    let (name, behind) = line.split_at_checked(end)?;
    let is_assigned = behind.starts_with(" = ") && !name.starts_with(|c: char| c.is_ascii_digit());
    Some(name).filter(|name| is_assigned && name.len() >= LEAST_NAME)
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
    fn what_the_user_names_in_parts_is_known_by_its_definition() {
        let defined = ["ExportMenu", "max_rows", "Renew", "total"];
        let by_letters = defined[..2].iter().map(|name| (letters_of(name), *name));
        let by_letters: Map<String, &str> = by_letters.collect();
        let named = |text: &'static str| -> Vec<&str> {
            let named = named_by_user(text, &by_letters);
            named.filter(|name| defined.contains(name)).collect()
        };
        assert_eq!(named("now the export menu"), ["ExportMenu"]);
        assert_eq!(named("Renew with max rows"), ["Renew", "max_rows"]);
        assert_eq!(named("export it in total"), [""; 0]);
        for (line, name) in [
            ("clean = trips.copy()", Some("clean")),
            ("    clean = trips", None),
            ("clean == trips", None),
            ("1 = x", None),
        ] {
            assert_eq!(assigned_in(line), name, "{line}");
        }
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
            (
                "    public void onCancelled(SchemeMessage msg) {",
                Some("onCancelled"),
            ),
            (
                "private static List<Row> rowsOf(Sheet sheet) {",
                Some("rowsOf"),
            ),
            ("public record Refund(RefundId id) {", Some("Refund")),
            ("+    pub fn take(&mut self) -> Verdict {", Some("take")),
            ("return totalLabel(inv);", None),
            ("totalLabel(inv)", None),
            ("", None),
        ] {
            assert_eq!(defined_in(line), name, "{line}");
        }
    }
}
