//! The full form of a digest: older exchanges as short lines, before anything is left out.
//!
//! ```text
//! user: words of the user
//!  a further line of them
//! assistant: words of the model
//! → get_order(id=O-17)
//!  status: shipped
//!  items: [2]{sku,count}:
//!   A-1,3
//!   B-9,1
//! → shell(cat > a.py <<'EOF'…)
//!   import os
//! ```
//!
//! A line that begins without a blank opens an entry; a line with one blank belongs to the entry; one with more belongs
//! to the last line with one blank that ends with a colon, or to the entry. A digest can thus be read back and extended.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::core::conversation::{Exchange, Kind, Role};
use crate::core::json::Json;
use crate::core::strategy::digest::result::{Said, answered, inline};
use crate::core::text::{pieces, without_noise};
use crate::core::wire::chat::text_of;
use crate::core::wire::chat::{Call, Message};

/// The longest line, roughly (bytes): long ones are cut into pieces that stay or go on their own.
pub(super) const LINE_BYTES: usize = 240;
/// An argument up to this length stands in the call's own line (bytes).
const ARGUMENT_BYTES: usize = 160;

/// Begins the line above an argument that has lines of its own.
pub(super) const ARGUMENT: &str = "with ";

/// Begins the line that tells by name what else was there.
pub(super) const ALSO: &str = "also:";

/// A line of the full digest.
#[derive(Debug)]
pub(super) struct DigestLine {
    /// The line, with the blanks that tell its place.
    pub text: String,
    /// Prose, code, output: its names mean something without the line.
    pub plain: bool,
    /// Of a call's arguments.
    pub argument: bool,
}

impl DigestLine {
    /// The lines of an earlier digest.
    pub(super) fn read_back(body: &str) -> Vec<Self> {
        let mut above: HashMap<&str, &str> = HashMap::new();
        let line = |line| {
            let text = match Heading::of(line) {
                Some(heading) if heading.columns == AGAIN => [
                    heading.counted,
                    above.get(heading.name).copied().unwrap_or(AGAIN),
                ]
                .concat(),
                heading => {
                    above.extend(heading.map(|heading| (heading.name, heading.columns)));
                    line.to_owned()
                }
            };
            DigestLine {
                text,
                plain: false,
                argument: false,
            }
        };
        body.lines().map(line).collect()
    }

    /// Appends a line.
    pub(super) fn push(out: &mut Vec<DigestLine>, text: String, plain: bool, argument: bool) {
        let text = if text.contains(['\n', '\r']) {
            text.replace(['\n', '\r'], " ")
        } else {
            text
        };
        out.push(DigestLine {
            text,
            plain,
            argument,
        });
    }
}

/// Columns that are those of the last table of the same name.
const AGAIN: &str = "{}:";

/// The head of a table: ` items: [2]{sku,count}:`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading<'t> {
    /// The line up to the columns.
    counted: &'t str,
    /// The name of the list.
    pub name: &'t str,
    /// The columns.
    pub columns: &'t str,
}

impl<'t> Heading<'t> {
    /// The head in a line, if it is one.
    pub(super) fn of(line: &'t str) -> Option<Self> {
        let (name, rest) = line.strip_suffix("}:")?.split_once('[')?;
        let (count, _) = rest.split_once("]{")?;
        let (counted, columns) = line.split_at_checked(name.len() + count.len() + 2)?;
        (line.starts_with(' ') && !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()))
            .then_some(Heading {
                counted,
                name,
                columns,
            })
    }

    /// The names of the cells of a row; columns in which all rows say the same are not among them.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'t str> {
        // What stands before an opening bracket is a group.
        let leaf = |part: &&str| !part.is_empty() && !part.contains('=');
        self.columns
            .trim_end_matches(':')
            .split([',', '}'])
            .filter_map(|part| part.rsplit('{').next())
            .filter(leaf)
    }

    /// The line when the last table of this name had the same columns.
    pub(super) fn again(&self) -> String {
        [self.counted, AGAIN].concat()
    }
}

/// Appends the lines of one exchange.
pub(super) fn lines_of(
    messages: &[Message<'_>],
    exchange: &Exchange,
    said: &mut Option<Said>,
    out: &mut Vec<DigestLine>,
) {
    let messages = messages
        .get(exchange.first..exchange.end)
        .unwrap_or_default();
    let Some((first, results)) = messages.split_first() else {
        return;
    };
    match exchange.kind {
        Kind::User => spoken("user:", first, out),
        Kind::Assistant | Kind::Calls => spoken("assistant:", first, out),
        Kind::Instruction | Kind::Other => {}
    }
    for call in &first.calls {
        let arguments = arguments(call);
        called(&call.name, arguments.as_deref(), out);
        if let (Some(said), Some(arguments)) = (said.as_mut(), &arguments) {
            said.note(arguments);
        }
        if let Some(result) = results
            .iter()
            .find(|result| result.answers.as_deref() == Some(&call.id))
        {
            answered(result, arguments.as_deref(), said, out);
        }
    }
    if let Some(raw) = first.function_call {
        let call = Json::parse(raw);
        let text = |key| {
            call.as_ref().and_then(|call| call.get(key)).and_then(|v| {
                if let Json::String(s) = v {
                    Some(s.as_str())
                } else {
                    None
                }
            })
        };
        called(text("name").unwrap_or_default(), text("arguments"), out);
        results
            .iter()
            .filter(|result| result.role == Role::Function)
            .for_each(|result| answered(result, text("arguments"), said, out));
    }
}

/// The decoded arguments of a call.
fn arguments<'a>(call: &Call<'a>) -> Option<Cow<'a, str>> {
    call.arguments
        .map(|raw| serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned))
}

fn spoken(who: &str, message: &Message<'_>, out: &mut Vec<DigestLine>) {
    let mut head = Some(who);
    let mut line = |text: &str| match head.take() {
        Some(who) => DigestLine::push(out, format!("{who} {}", text.trim_start()), true, false),
        None => DigestLine::push(out, format!(" {text}"), true, false),
    };
    for text in text_of(message) {
        for_each_line(&text, &mut line);
    }
    for part in others(message) {
        line(&format!("[{part}]"));
    }
}

/// The types of a message's parts that are no text.
fn others(message: &Message<'_>) -> Vec<String> {
    let Some(Json::List(parts)) = message
        .content
        .filter(|raw| raw.starts_with('['))
        .and_then(Json::parse)
    else {
        return Vec::new();
    };
    let kind = |part: &Json| match part.get("type") {
        Some(Json::String(kind)) if kind != "text" => Some(
            kind.trim_start_matches("input_")
                .trim_end_matches("_url")
                .to_owned(),
        ),
        _ => None,
    };
    parts.iter().filter_map(kind).collect()
}

/// Whether a line is blank but for the number that a listing gave it.
fn is_only_numbered(line: &str) -> bool {
    let number = line.trim();
    line.starts_with([' ', '\t'])
        && number
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b':' || b == b'-' || b == b'|')
}

/// The lines of a text, without terminal noise, long ones in pieces.
pub(super) fn for_each_line(text: &str, line: &mut impl FnMut(&str)) {
    let numbered = text.lines().nth(1).is_some();
    for long in without_noise(text)
        .lines()
        .filter(|line| !(line.trim().is_empty() || (numbered && is_only_numbered(line))))
    {
        for piece in pieces(long, LINE_BYTES) {
            let piece = piece.trim_end();
            if !piece.trim_start().is_empty() {
                line(piece);
            }
        }
    }
}

fn called(name: &str, arguments: Option<&str>, out: &mut Vec<DigestLine>) {
    let mut head = format!("→ {name}(");
    // Long texts: what of them stands in no head line yet.
    let mut rest: Vec<(&str, &str)> = Vec::new();
    let json = arguments.and_then(Json::parse);
    match &json {
        Some(Json::Object(members)) => {
            let phrase = matches!(members.as_slice(), [(_, Json::String(text))] if text.contains(char::is_whitespace));
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    head.push_str(", ");
                }
                // A command or a question that is all there is says itself what it is.
                if !phrase {
                    head.push_str(key);
                    head.push('=');
                }
                match value {
                    Json::String(text)
                        if phrase || text.len() > ARGUMENT_BYTES || text.contains('\n') =>
                    {
                        let (first, behind) = opening(text);
                        head.push_str(first);
                        if !behind.is_empty() {
                            head.push('…');
                            rest.push((key, behind));
                        }
                    }
                    value => {
                        let mut cell = String::new();
                        inline(value, &mut cell);
                        head.push_str(&cell);
                    }
                }
            }
        }
        _ => {
            let (first, behind) = opening(arguments.unwrap_or_default());
            head.push_str(first);
            if !behind.is_empty() {
                rest.push(("", behind));
            }
        }
    }
    head.push(')');
    DigestLine::push(out, head, true, false);
    let alone = rest.len() == 1;
    for (key, text) in rest {
        if !alone {
            DigestLine::push(out, format!(" {ARGUMENT}{key}:"), true, true);
        }
        for_each_line(text, &mut |line| {
            DigestLine::push(out, format!("  {line}"), true, true)
        });
    }
}

/// The beginning of a text that stands in a call's own line, and the rest.
fn opening(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    if line.len() <= ARGUMENT_BYTES {
        return (line.trim_end(), rest);
    }
    let first = pieces(line, ARGUMENT_BYTES).next().unwrap_or_default();
    (
        first.trim_end(),
        text.get(first.len()..).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_columns_is_read_back_with_those_above_and_a_list_of_texts_is_no_table() {
        let body = "→ stock()\n [2]{sku,count}:\n  A-1,3\n→ stock()\n [1]{}:\n  B-9,1\n→ notes()\n [0]:\n  a long text\n → [3]:";
        let lines: Vec<String> = DigestLine::read_back(body)
            .into_iter()
            .map(|line| line.text)
            .collect();
        assert_eq!(lines.join("\n"), body.replace("[1]{}:", "[1]{sku,count}:"));
        let cells: Vec<&str> = Heading::of(" f: [2]{id,name{first,last},kind=guest}:")
            .unwrap()
            .cells()
            .collect();
        assert_eq!(cells, ["id", "first", "last"]);
    }
}
