//! The line of a call, with its arguments: long ones have lines of their own below it.

use std::borrow::Cow;

use super::names::is_among;
use super::numbering::first_below;
use crate::core::json::Json;
use crate::core::strategy::digest::body::write::ARGUMENT;
use crate::core::strategy::digest::json_form::{inline, inline_bytes, shown_key};
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::texts::quoted::{LINE_BYTES, Quote, quoted_lines};
use crate::core::text::{Table, pieces, shown_name};
use crate::core::{Cancel, Cancelled};

/// An argument up to this length is in the call's own line (bytes).
const ARGUMENT_BYTES: usize = 160;
/// The same where it has no other lines: a command is run again as a whole.
const LINE_ALONE_BYTES: usize = 400;
/// The first line of a patch in the form of OpenAI's tool.
const PATCH: &str = "*** Begin Patch\n";
/// Arguments with a command of a shell, and the number of the line below its first.
const SHELL: [&str; 2] = ["cmd", "command"];
const SECOND: u32 = 2;
/// A list or object in an argument up to this length is in the call's own line (bytes).
const VALUE_BYTES: usize = 1_000;
/// Arguments that begin beyond this place are no longer in the call's own line (bytes).
const HEAD_BYTES: usize = 2_000;

/// The key of an argument, and what is not in the line of its call.
type Rest<'j> = (&'j str, Argument<'j>);

/// What has lines of its own.
enum Argument<'j> {
    /// The rest of a text, and the number of its first line; `None` where its lines have none.
    Text(Cow<'j, str>, Option<u32>),
    Rows(Table<'j>),
}

/// Appends the line of a call, and those of its long arguments: `members` where they are an object.
pub(in super::super) fn called(
    name: &str,
    arguments: Option<&str>,
    members: Option<&[(String, Json)]>,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let mut head = shown_name(name);
    head.push('(');
    // Long texts: the parts of them that are not in the head line yet.
    let mut rest: Vec<Rest<'_>> = Vec::new();
    if let Some(members) = members {
        named_arguments(members, &mut head, &mut rest);
    } else {
        let opening = Opening::of(arguments.unwrap_or_default());
        head.push_str(opening.first);
        if !opening.rest.is_empty() {
            rest.push(("", opening.rest()));
        }
    }
    head.push(')');
    out.push(DigestLine::new(Part::Call, 0, &head));
    // What it belongs to is said unless there is nothing else.
    let has_others = members.is_some_and(|members| members.len() > 1);
    let alone = rest.len() == 1 && !has_others;
    for (key, argument) in rest {
        let key = shown_argument(key);
        match argument {
            Argument::Text(text, first) => {
                if !alone {
                    push_part(Part::Member, 1, &format!("{ARGUMENT}{key}:"), out);
                }
                let quote = Quote {
                    part: Part::Argument,
                    depth: 2,
                    first,
                };
                quoted_lines(&text, quote, cancel, out)?;
            }
            Argument::Rows(table) => {
                push_part(
                    Part::Head,
                    1,
                    &format!("{ARGUMENT}{key}: {}", table.head()),
                    out,
                );
                table
                    .rows()
                    .for_each(|row| push_part(Part::Row, 2, &row, out));
            }
        }
    }
    Ok(())
}

/// Appends a line of an argument that is not quoted.
fn push_part(part: Part, depth: u8, text: &str, out: &mut Vec<DigestLine>) {
    let mut line = DigestLine::new(part, depth, text);
    line.of_argument = true;
    out.push(line);
}

/// Appends arguments to the head line of their call, and the parts of long texts that have no place
/// there to `rest`.
fn named_arguments<'j>(members: &'j [(String, Json)], head: &mut String, rest: &mut Vec<Rest<'j>>) {
    for (at, (key, value)) in members.iter().enumerate() {
        if head.len() > HEAD_BYTES {
            head.push_str(", …");
            let more = members.iter().skip(at).map(|(key, value)| {
                let mut text = format!("{}=", shown_key(key));
                inline(value, &mut text);
                text
            });
            let more = more.collect::<Vec<_>>().join("\n");
            rest.push(("more", Argument::Text(Cow::Owned(more), None)));
            return;
        }
        if at > 0 {
            head.push_str(", ");
        }
        head.push_str(&shown_argument(key));
        head.push('=');
        match value {
            Json::String(text)
                if is_long(text)
                    && !(needs_quotes(text) && (members.len() > 1 || imitates_end(text))) =>
            {
                let opening = Opening::of(text);
                head.push_str(opening.first);
                if !opening.rest.is_empty() {
                    head.push('…');
                    let is_command = is_among(&SHELL, key);
                    rest.push(match is_command {
                        true => (key, opening.rest_of_command()),
                        false => (key, opening.rest()),
                    });
                }
            }
            Json::List(items) if let Some(table) = table_of(items) => {
                head.push('…');
                rest.push((key, Argument::Rows(table)));
            }
            Json::List(items)
                if !items.is_empty()
                    && let Some(text) = texts_of(items) =>
            {
                head.push('…');
                rest.push((key, Argument::Text(Cow::Owned(text), None)));
            }
            value if inline_bytes(value, VALUE_BYTES) > VALUE_BYTES => {
                let mut text = String::new();
                inline(value, &mut text);
                let opening = Opening::of(&text);
                head.push_str(opening.first);
                head.push('…');
                let after = opening.rest.to_owned();
                rest.push((key, Argument::Text(Cow::Owned(after), None)));
            }
            value => inline(value, head),
        }
    }
}

/// A list of objects with texts of several lines, such as files: each text as it is, below the
/// other members of its object.
fn texts_of(items: &[Json]) -> Option<String> {
    let is_text = |value: &Json| matches!(value, Json::String(text) if text.contains('\n'));
    let mut out = String::new();
    for item in items {
        let Json::Object(members) = item else {
            return None;
        };
        let (texts, others): (Vec<_>, Vec<_>) =
            members.iter().partition(|(_, value)| is_text(value));
        if texts.is_empty() {
            return None;
        }
        for (key, value) in others {
            out.push_str(&shown_argument(key));
            out.push_str(": ");
            inline(value, &mut out);
            out.push('\n');
        }
        for (key, value) in texts {
            let Json::String(text) = value else { continue };
            out.push_str(&format!("{}:\n{}\n", shown_argument(key), text.trim_end()));
        }
    }
    Some(out)
}

/// A list as a table, where its rows are short: edits and texts are quoted, line by line.
fn table_of(items: &[Json]) -> Option<Table<'_>> {
    let is_short = |item: &Json| inline_bytes(item, LINE_BYTES) <= LINE_BYTES;
    items.iter().all(is_short).then(|| Table::of(items))?
}

/// The name of an argument; one that is too long for a name is cut, and one that could be taken for
/// more is quoted.
fn shown_argument(key: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-. /#@$".contains(c);
    if key.len() <= ARGUMENT_BYTES && key.chars().all(is_plain) {
        Cow::Borrowed(key)
    } else {
        shown_key(key)
    }
}

/// Whether an argument has lines of its own, or is a phrase, which needs no quotes.
fn is_long(text: &str) -> bool {
    text.len() > ARGUMENT_BYTES || text.contains(char::is_whitespace)
}

/// Whether a phrase reads as one only in quotes: behind a comma, another argument could begin, and
/// behind a bracket what came of the call.
fn needs_quotes(text: &str) -> bool {
    let is_phrase = text.len() <= ARGUMENT_BYTES && !text.contains(['\n', '"', '\\']);
    is_phrase && (text.contains(", ") || text.trim() != text || imitates_end(text))
}

fn imitates_end(text: &str) -> bool {
    text.split_once(')')
        .is_some_and(|(_, behind)| behind.contains('…'))
}

/// The beginning of a text, for its call's own line, and the rest.
struct Opening<'t> {
    first: &'t str,
    rest: &'t str,
    /// The number of the first line of the rest.
    number: u32,
}

impl<'t> Opening<'t> {
    fn of(text: &'t str) -> Self {
        let begun = text.trim_start();
        let above = text.len() - begun.len();
        let above = text.get(..above).unwrap_or_default();
        let number = u32::try_from(above.matches('\n').count()).unwrap_or(u32::MAX);
        let number = number.saturating_add(1);
        let begun = begun.trim_end();
        // Of a text that is edited, the blanks before its first line count.
        let from = above.rfind('\n').map_or(0, |at| at + 1);
        let indented = text.get(from..).unwrap_or_default().trim_end();
        let text = if begun.contains('\n') {
            indented
        } else {
            begun
        };
        // What is patched says more. Once: a text of such lines only must not nest.
        let (text, number) = match text.strip_prefix(PATCH) {
            Some(patch) => (patch, number.saturating_add(1)),
            None => (text, number),
        };
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        let most = if rest.is_empty() {
            LINE_ALONE_BYTES
        } else {
            ARGUMENT_BYTES
        };
        if line.len() <= most {
            return Opening {
                first: line.trim_end(),
                rest,
                number: number.saturating_add(1),
            };
        }
        let first = pieces(line, ARGUMENT_BYTES).next().unwrap_or_default();
        Opening {
            first: first.trim_end(),
            rest: text.get(first.len()..).unwrap_or_default(),
            number,
        }
    }

    fn rest(&self) -> Argument<'t> {
        Argument::Text(Cow::Borrowed(self.rest), Some(self.number))
    }

    /// The same of a command, whose lines have the numbers of a text that it is given below it.
    fn rest_of_command(&self) -> Argument<'t> {
        let first = first_below(self.first).filter(|_| self.number == SECOND);
        Argument::Text(Cow::Borrowed(self.rest), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_text_has_the_number_of_its_line() {
        let long = format!("{}\nb", "word ".repeat(40));
        let patch = format!("{PATCH}*** Add File: a\n+b");
        for (text, number) in [("a\nb", 2), ("\n\na\nb", 4), (&long, 1), (&patch, 3)] {
            assert_eq!(Opening::of(text).number, number, "{text}");
        }
        let first = |text| Opening::of(text).first;
        assert_eq!(first("\n    x = 1\n    y"), "    x = 1");
        assert_eq!(first("  x = 1\n"), "x = 1");
        // A megabyte of them takes no stack.
        let hostile = PATCH.repeat(1 << 16);
        assert_eq!(Opening::of(&hostile).number, 3);
    }

    #[test]
    fn files_in_a_list_are_texts_below_their_names() {
        let json = r#"{"files":[{"content":"use a;\nfn b() {}\n","path":"src/b.rs","mode":420},
            {"path":"c.txt","content":"one\ntwo"}],"short":[{"path":"d","content":"one"}]}"#;
        let json = Json::parse(json).unwrap();
        let items = |key: &str| match json.get(key) {
            Some(Json::List(items)) => items.clone(),
            other => panic!("{other:?}"),
        };
        let expected = "path: src/b.rs\nmode: 420\ncontent:\nuse a;\nfn b() {}\n\
            path: c.txt\ncontent:\none\ntwo\n";
        assert_eq!(texts_of(&items("files")).as_deref(), Some(expected));
        assert_eq!(texts_of(&items("short")), None, "a row says as much");
    }
}
