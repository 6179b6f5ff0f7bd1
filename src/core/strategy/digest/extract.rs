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
use std::collections::{HashMap, HashSet};

use super::words::{TELLING, shape, words_of};
use crate::core::chat::{Call, Exchange, Kind, Message, Role};
use crate::core::draft::text_of;
use crate::core::json::Json;
use crate::core::notation::{Table, write_cell};
use crate::core::text::{pieces, without_noise};

/// The longest line, roughly (bytes): long ones are cut into pieces that stay or go on their own.
const LINE_BYTES: usize = 240;
/// An argument up to this length stands in the call's own line (bytes).
const ARGUMENT_BYTES: usize = 160;
/// A text from this length on is more than a label (bytes).
const PROSE_BYTES: usize = 32;
/// An object or list up to this length is one line (bytes).
const INLINE_BYTES: usize = 120;

/// Begins the line above an argument that has lines of its own.
pub(super) const ARGUMENT: &str = "with ";

/// Begins the line that tells by name what else was there.
pub(super) const ALSO: &str = "also:";

/// A line of the full digest.
#[derive(Debug)]
pub(super) struct Extract {
    /// The line, with the blanks that tell its place.
    pub text: String,
    /// Prose, code, output: its names mean something without the line.
    pub plain: bool,
    /// Of a call's arguments.
    pub argument: bool,
}

impl Extract {
    /// The lines of an earlier digest.
    pub(super) fn read_back(body: &str) -> Vec<Self> {
        let mut above: HashMap<&str, &str> = HashMap::new();
        let line = |line| {
            let columns = Heading::of(line).map(|heading| match heading.columns {
                AGAIN => above.get(heading.name).copied().unwrap_or(AGAIN),
                columns => {
                    above.insert(heading.name, columns);
                    columns
                }
            });
            let text = match columns {
                Some(columns) if line.ends_with(AGAIN) => [line.strip_suffix(AGAIN).unwrap_or(line), columns].concat(),
                _ => line.to_owned(),
            };
            Extract { text, plain: false, argument: false }
        };
        body.lines().map(line).collect()
    }

    fn push(out: &mut Vec<Extract>, text: String, plain: bool, argument: bool) {
        let text = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text };
        out.push(Extract { text, plain, argument });
    }
}

/// Columns that are those of the last table of the same name.
const AGAIN: &str = "{as above}:";

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
        (line.starts_with(' ') && !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit())).then_some(Heading {
            counted,
            name,
            columns,
        })
    }

    /// The line when the last table of this name had the same columns.
    pub(super) fn again(&self) -> String {
        [self.counted, AGAIN].concat()
    }
}

/// Appends the lines of one exchange.
pub(super) fn lines_of(messages: &[Message<'_>], exchange: &Exchange, said: &mut Option<Said>, out: &mut Vec<Extract>) {
    let messages = messages.get(exchange.first..exchange.end).unwrap_or_default();
    let Some((first, results)) = messages.split_first() else { return };
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
        if let Some(result) = results.iter().find(|result| result.answers.as_deref() == Some(&call.id)) {
            answered(result, arguments.as_deref(), said, out);
        }
    }
    if let Some(raw) = first.function_call {
        let call = Json::parse(raw);
        let text =
            |key| call.as_ref().and_then(|call| call.get(key)).and_then(|v| if let Json::String(s) = v { Some(s.as_str()) } else { None });
        called(text("name").unwrap_or_default(), text("arguments"), out);
        results.iter().filter(|result| result.role == Role::Function).for_each(|result| answered(result, text("arguments"), said, out));
    }
}

/// The decoded arguments of a call.
fn arguments<'a>(call: &Call<'a>) -> Option<Cow<'a, str>> {
    call.arguments.map(|raw| serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned))
}

fn spoken(who: &str, message: &Message<'_>, out: &mut Vec<Extract>) {
    let mut head = Some(who);
    let mut line = |text: &str| match head.take() {
        Some(who) => Extract::push(out, format!("{who} {}", text.trim_start()), true, false),
        None => Extract::push(out, format!(" {text}"), true, false),
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
    let Some(Json::List(parts)) = message.content.filter(|raw| raw.starts_with('[')).and_then(Json::parse) else { return Vec::new() };
    let kind = |part: &Json| match part.get("type") {
        Some(Json::String(kind)) if kind != "text" => Some(kind.trim_start_matches("input_").trim_end_matches("_url").to_owned()),
        _ => None,
    };
    parts.iter().filter_map(kind).collect()
}

/// Whether a line is blank but for the number that a listing gave it.
fn is_only_numbered(line: &str) -> bool {
    let number = line.trim();
    line.starts_with([' ', '\t']) && number.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'-' || b == b'|')
}

fn for_each_line(text: &str, line: &mut impl FnMut(&str)) {
    let numbered = text.lines().nth(1).is_some();
    for long in without_noise(text).lines().filter(|line| !(line.trim().is_empty() || (numbered && is_only_numbered(line)))) {
        for piece in pieces(long, LINE_BYTES) {
            let piece = piece.trim_end();
            if !piece.trim_start().is_empty() {
                line(piece);
            }
        }
    }
}

fn called(name: &str, arguments: Option<&str>, out: &mut Vec<Extract>) {
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
                    Json::String(text) if phrase || text.len() > ARGUMENT_BYTES || text.contains('\n') => {
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
    Extract::push(out, head, true, false);
    let alone = rest.len() == 1;
    for (key, text) in rest {
        if !alone {
            Extract::push(out, format!(" {ARGUMENT}{key}:"), true, true);
        }
        for_each_line(text, &mut |line| Extract::push(out, format!("  {line}"), true, true));
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
    (first.trim_end(), text.get(first.len()..).unwrap_or_default())
}

fn answered(result: &Message<'_>, arguments: Option<&str>, said: &mut Option<Said>, out: &mut Vec<Extract>) {
    let asked = match arguments.and_then(Json::parse) {
        Some(Json::Object(members)) => members,
        _ => Vec::new(),
    };
    text_of(result).iter().for_each(|text| result_lines(text, &asked, said, out));
}

/// Appends the lines of a tool result to a call with these arguments.
pub(super) fn result_lines(text: &str, asked: &[(String, Json)], said: &mut Option<Said>, out: &mut Vec<Extract>) {
    match Json::parse(text) {
        Some(json) if is_empty(&json) => json_lines("", &json, out),
        Some(mut json) => {
            without_echo(&mut json, asked);
            let json = match said.as_mut() {
                Some(said) => essence("", json, said),
                None => json,
            };
            if !is_empty(&json) {
                json_lines("", &json, out);
            }
        }
        None => for_each_line(text, &mut |line| Extract::push(out, format!(" {line}"), true, false)),
    }
}

/// Takes away what only repeats the call's arguments, or the key above it; from a list of objects, what does so in all of them.
fn without_echo(value: &mut Json, asked: &[(String, Json)]) {
    let echoes = |(key, value): &(String, Json)| value.is_scalar() && asked.iter().any(|(k, v)| k == key && v == value);
    match value {
        Json::Object(members) => {
            members.retain(|member| !echoes(member));
            for (key, value) in members {
                // A map from ids to what has these ids.
                if let Json::Object(inner) = value {
                    inner.retain(|(_, value)| !matches!(value, Json::String(text) if text == key));
                }
                without_echo(value, asked);
            }
        }
        Json::List(items) => {
            let has = |item: &Json, wanted: &(String, Json)| matches!(item, Json::Object(members) if members.contains(wanted));
            let in_all: Vec<(String, Json)> = asked.iter().filter(|member| items.iter().all(|item| has(item, member))).cloned().collect();
            items.iter_mut().for_each(|item| without_echo(item, &in_all));
        }
        _ => {}
    }
}

/// Values that were said with their key: newer ones first, so that what is told last is told in full.
#[derive(Debug, Default)]
pub(super) struct Said(HashSet<String>);

impl Said {
    /// Whether this is said for the first time.
    fn first(&mut self, key: &str, value: &Json) -> bool {
        self.0.insert(format!("{key}\0{value}"))
    }

    /// Takes note of all that a text says that stays as it is.
    pub(super) fn note(&mut self, text: &str) {
        if let Some(json) = Json::parse(text) {
            essence("", json, self);
        }
    }
}

/// A value without the members that say little (small numbers, times of day, plain words) or were said before.
fn essence(key: &str, value: Json, said: &mut Said) -> Json {
    match value {
        Json::Object(members) => Json::Object(
            members
                .into_iter()
                .filter_map(|(key, value)| {
                    if value.is_scalar() {
                        return (worth(&value) && said.first(&key, &value)).then_some((key, value));
                    }
                    let value = essence(&key, value, said);
                    (!is_empty(&value)).then_some((key, value))
                })
                .collect(),
        ),
        Json::List(items) => Json::List(columns(items.into_iter().filter(|item| said.first(key, item)).collect())),
        scalar => scalar,
    }
}

/// The same for a list: of its objects, members go or stay in all of them together, so that rows stay alike.
fn columns(items: Vec<Json>) -> Vec<Json> {
    let mut tally = Tally::new();
    items.iter().for_each(|item| look("", item, &mut tally));
    items.into_iter().map(|item| strip("", item, &tally)).collect()
}

/// Per path of a member: in how many objects its value says something, and in how many it stands.
type Tally = HashMap<String, (usize, usize)>;

fn look(prefix: &str, item: &Json, tally: &mut Tally) {
    let Json::Object(members) = item else { return };
    for (key, value) in members {
        let path = format!("{prefix}.{key}");
        match value {
            Json::Object(_) => look(&path, value, tally),
            Json::List(_) => {}
            scalar => {
                let (telling, all) = tally.entry(path).or_default();
                *telling += usize::from(worth(scalar));
                *all += 1;
            }
        }
    }
}

fn strip(prefix: &str, item: Json, tally: &Tally) -> Json {
    match item {
        Json::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| {
                let path = format!("{prefix}.{key}");
                if tally.get(&path).is_some_and(|(telling, all)| telling * 2 < *all) {
                    return None;
                }
                let value = strip(&path, value, tally);
                (!is_empty(&value)).then_some((key, value))
            });
            Json::Object(kept.collect())
        }
        Json::List(items) => Json::List(columns(items)),
        scalar => scalar,
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Object(members) => members.is_empty(),
        Json::List(items) => items.is_empty(),
        _ => false,
    }
}

fn worth(scalar: &Json) -> bool {
    match scalar {
        Json::Null | Json::Bool(_) => false,
        // Prose is ranked by its lines.
        Json::String(text) if text.len() > PROSE_BYTES => true,
        scalar => {
            let mut text = String::new();
            write_cell(scalar, &mut text);
            words_of(&text).map(shape).fold(0.0, f32::max) >= TELLING
        }
    }
}

/// A value on one line, with as few marks as can be read.
fn inline(value: &Json, out: &mut String) {
    let separated = |at: usize, out: &mut String| {
        if at > 0 {
            out.push_str(", ");
        }
    };
    match value {
        Json::List(items) if let Some(table) = Table::of(items) => {
            out.push('[');
            out.push_str(table.columns_head().trim_end());
            for (at, row) in table.rows().enumerate() {
                out.push_str(if at > 0 { "; " } else { " " });
                out.push_str(&row);
            }
            out.push(']');
        }
        Json::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separated(at, out);
                inline(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                separated(at, out);
                out.push_str(key);
                out.push_str(": ");
                inline(value, out);
            }
            out.push('}');
        }
        scalar => write_cell(scalar, out),
    }
}

/// A lower bound of the bytes that [`inline`] takes, which stops counting at `limit`.
fn inline_bytes(value: &Json, limit: usize) -> usize {
    let mut sum = 2;
    match value {
        Json::String(text) => text.len(),
        Json::Number(text) => text.len(),
        Json::Null | Json::Bool(_) => 4,
        Json::List(items) => {
            for item in items {
                sum += 2 + inline_bytes(item, limit);
                if sum > limit {
                    break;
                }
            }
            sum
        }
        Json::Object(members) => {
            for (key, value) in members {
                sum += 4 + key.len() + inline_bytes(value, limit);
                if sum > limit {
                    break;
                }
            }
            sum
        }
    }
}

/// Appends the lines of a JSON value that stands at `path` of a result.
fn json_lines(path: &str, value: &Json, out: &mut Vec<Extract>) {
    let named = |text: &str| if path.is_empty() { format!(" {text}") } else { format!(" {path}: {text}") };
    if inline_bytes(value, INLINE_BYTES) <= INLINE_BYTES {
        let mut text = String::new();
        inline(value, &mut text);
        Extract::push(out, named(&text), false, false);
        return;
    }
    match value {
        Json::String(text) => {
            Extract::push(out, format!(" {path}:"), false, false);
            for_each_line(text, &mut |line| Extract::push(out, format!("  {line}"), true, false));
        }
        Json::List(items) => {
            let rows = Table::of(items).map(|table| (table.head(), table.rows().collect::<Vec<_>>()));
            match rows {
                Some((head, rows)) if rows.iter().all(|row| row.len() <= 2 * LINE_BYTES) => {
                    Extract::push(out, named(&head), false, false);
                    rows.into_iter().for_each(|row| Extract::push(out, format!("  {row}"), false, false));
                }
                _ => list_lines(path, items, out),
            }
        }
        Json::Object(members) => object_lines(path, members, out),
        scalar => Extract::push(out, named(&scalar.to_string()), false, false),
    }
}

fn list_lines(path: &str, items: &[Json], out: &mut Vec<Extract>) {
    let scalars = items.iter().all(Json::is_scalar);
    let mut line = String::new();
    for (at, item) in items.iter().enumerate() {
        if !scalars {
            json_lines(&format!("{path}[{at}]"), item, out);
            continue;
        }
        if line.is_empty() {
            line = format!(" {path}[{at}]: ");
        } else {
            line.push_str(", ");
        }
        inline(item, &mut line);
        if line.len() >= INLINE_BYTES {
            Extract::push(out, std::mem::take(&mut line), false, false);
        }
    }
    if !line.is_empty() {
        Extract::push(out, line, false, false);
    }
}

/// Small members of an object share lines, larger ones have their own.
fn object_lines(path: &str, members: &[(String, Json)], out: &mut Vec<Extract>) {
    let mut line = String::new();
    let flush = |line: &mut String, out: &mut Vec<Extract>| {
        if !line.is_empty() {
            Extract::push(out, std::mem::take(line), false, false);
        }
    };
    for (key, value) in members {
        if inline_bytes(value, INLINE_BYTES) > INLINE_BYTES / 2 {
            flush(&mut line, out);
            json_lines(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, out);
            continue;
        }
        if line.is_empty() {
            line = if path.is_empty() { " ".to_owned() } else { format!(" {path}: ") };
        } else {
            line.push_str(", ");
        }
        line.push_str(key);
        line.push_str(": ");
        inline(value, &mut line);
        if line.len() >= INLINE_BYTES {
            flush(&mut line, out);
        }
    }
    flush(&mut line, out);
}
