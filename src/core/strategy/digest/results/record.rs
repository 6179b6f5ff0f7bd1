//! The lines of a tool result: of JSON its records with their keys, lists of like objects as
//! tables; anything else line by line.

mod lists;

use super::encoded::{ResultText, unfold};
use super::left_out::{leave_out, mark_call};
use super::named::mark_changed;
use super::page::{is_page, page_lines};
use super::plumbing::{MARK, is_content, is_of_envelope, is_plumbing, without_plumbing};
use super::records::{RecordParts, acknowledges};
use super::rows::{keyed_rows, name_columns};
use super::seen::{Item, MOST_LEVELS, Seen};
use super::series::tell_series;
use crate::core::json::Json;
use crate::core::strategy::digest::calls::echo::without_echo;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::calls::numbering::first_line;
use crate::core::strategy::digest::json_form::{
    has_ids, has_own_id, has_rows, inline, inline_bytes, is_id, is_long_text, is_short, lists_ids,
    may_tell_anything, naming, shown_key,
};
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::texts::quoted::{Quote, quoted_lines};
use crate::core::text::{tells_of_failure, write_cell};
use crate::core::{Cancel, Cancelled};

/// An object or list up to this length is one line (bytes).
const INLINE_BYTES: usize = 120;
/// The longest line of scalars that a record itself has (bytes).
const RECORD_BYTES: usize = 400;
/// The part of a path of keys that is shown before its last one (bytes).
const PATH_BYTES: usize = 160;
/// The most items of a list that are compared with their newer states.
const MOST_COMPARED: usize = 100;
/// Records inside of a record that are told with it.
const MOST_OWN: usize = 6;
/// The deepest place of a line that has others below it.
const MOST_DEPTH: u8 = 3;
/// Says that a newer result shows it.
pub(in super::super) const TOLD_LATER: &str = "told later";
/// The same, where it has other values there.
pub(in super::super) const CHANGED_LATER: &str = "changed later";
/// Names of rows that are shown below are listed up to this length (bytes).
const NAMES_BYTES: usize = 50;
/// A result that is not JSON, line by line.
pub(in super::super) const OF_RESULT: Quote = Quote {
    part: Part::Text,
    depth: 1,
    first: None,
};

/// Whether newer results show an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    No,
    Same,
    /// With other values.
    Otherwise,
}

type Member = (String, Json);

/// What the results of calls are read with.
pub(in super::super) struct Results<'r> {
    pub seen: &'r mut Seen,
    /// The parts of records that can be told by rows.
    pub records: &'r mut Vec<RecordParts>,
    /// The result is a failure.
    pub failed: bool,
    /// A change was only tried or asked for.
    pub is_proposed: bool,
    /// The answer of a change may mean that it was not made.
    pub is_doubtful: bool,
    pub cancel: &'r Cancel,
}

impl Results<'_> {
    /// Appends the lines of a tool result to those of its call.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub(in super::super) fn read(
        &mut self,
        result: ResultText<'_>,
        made: &Made,
        out: &mut Vec<DigestLine>,
    ) -> Result<(), Cancelled> {
        let Some(mut json) = result.json else {
            return self.read_text(&result.content, made, out);
        };
        unfold(&mut json);
        without_plumbing(&mut json);
        tell_series(&mut json);
        if let Some(empty) = empty(&json) {
            out.push(DigestLine::new(Part::Member, 1, empty));
            return Ok(());
        }
        let from = out.len();
        let Some(parts) = self.state(&mut json, made) else {
            leave_out(out, made.only_names(&json));
            return Ok(());
        };
        without_echo(&mut json, made);
        let mut lines = Lines {
            seen: self.seen,
            made,
            out,
            cancel: self.cancel,
            steps: 0,
            depth: 1,
            level: 0,
        };
        lines.value("", json, true)?;
        self.seen.end_result();
        if result.is_log {
            let lines = out.iter_mut().skip(from);
            let reports = lines.filter(|line| tells_of_failure(&line.text));
            reports.for_each(|line| line.standing = Standing::Failure);
        }
        if let Some(parts) = parts {
            let at = self.records.len();
            self.records.push(parts);
            let of_text = |line: &DigestLine| {
                line.part.is_quoted() || (line.is_section() && line.part != Part::Head)
            };
            let lines = out.iter_mut().skip(from).filter(|line| !of_text(line));
            lines.for_each(|line| line.record = Some(at));
        }
        Ok(())
    }

    /// Appends the lines of a text that is no JSON.
    fn read_text(
        &mut self,
        text: &str,
        made: &Made,
        out: &mut Vec<DigestLine>,
    ) -> Result<(), Cancelled> {
        if !is_page(text) {
            let quote = Quote {
                first: first_line(made),
                ..OF_RESULT
            };
            return quoted_lines(text, quote, self.cancel, out);
        }
        let is_older = self.seen.page();
        let mut told = Vec::new();
        page_lines(text, self.seen, self.cancel, &mut told)?;
        if !is_older {
            // Its handles are needed.
            return quoted_lines(text, OF_RESULT, self.cancel, out);
        }
        mark_call(out);
        out.append(&mut told);
        Ok(())
    }
}

/// What stands for a value that has nothing in it.
fn empty(value: &Json) -> Option<&'static str> {
    match value {
        Json::Object(members) if members.is_empty() => Some("{}"),
        Json::List(items) if items.is_empty() => Some("[]"),
        _ => None,
    }
}

/// Writes JSON as lines.
struct Lines<'s> {
    seen: &'s mut Seen,
    made: &'s Made,
    out: &'s mut Vec<DigestLine>,
    cancel: &'s Cancel,
    /// Values that were read.
    steps: usize,
    /// The place of the next line.
    depth: u8,
    /// How deep the present value is in the result. What reads a value as a whole is not done
    /// everywhere in a deep one, so that its time does not grow with bytes times levels.
    level: usize,
}

impl Lines<'_> {
    fn push(&mut self, part: Part, path: &str, text: &str) {
        let line = match path {
            "" => DigestLine::new(part, self.depth, text),
            _ => DigestLine::new(part, self.depth, &format!("{path}: {text}")),
        };
        self.out.push(line);
    }

    /// The lines of the value at `path`; `own` where it is what the result is about.
    fn value(&mut self, path: &str, value: Json, own: bool) -> Result<(), Cancelled> {
        self.step()?;
        match value {
            Json::Object(members) => self.object(path, members, own),
            Json::List(items) => self.list(path, items, own),
            Json::String(text) if is_long_text(&text) => {
                let section = if path.is_empty() { "text" } else { path };
                let section = format!("{section}:");
                let depth = self.depth;
                self.out
                    .push(DigestLine::new(Part::Member, depth, &section));
                let quote = Quote {
                    depth: depth + 1,
                    first: first_line(self.made),
                    ..OF_RESULT
                };
                quoted_lines(&text, quote, self.cancel, self.out)
            }
            scalar => {
                let mut text = String::new();
                write_cell(&scalar, &mut text);
                self.push(Part::Member, path, &text);
                Ok(())
            }
        }
    }

    fn step(&mut self) -> Result<(), Cancelled> {
        self.steps += 1;
        if self.steps.is_multiple_of(STRIDE) {
            self.cancel.check_budget()?;
        }
        Ok(())
    }

    fn is_deep(&self) -> bool {
        self.level >= MOST_LEVELS
    }

    /// Whether a newer result shows an object under this key.
    fn is_known(&mut self, key: &str, value: &Json) -> bool {
        matches!(value, Json::Object(_)) && !self.is_deep() && self.seen.object(key, value)
    }

    /// What stands for an object that a newer result shows: with its name, since another one under
    /// this key may stand between.
    fn reference_to(&mut self, key: &str, value: &Json) -> Option<String> {
        if !self.is_known(key, value) {
            return None;
        }
        match naming(value).filter(|name| name.len() <= NAMES_BYTES) {
            Some(name) => Some(format!("{name} ({TOLD_LATER})")),
            // Another one under this key may stand below.
            None if self.seen.has_several(key) => None,
            None => Some(format!("({TOLD_LATER})")),
        }
    }

    /// Whether a newer result shows the same item of a list. What has no id may belong to another
    /// record there. Of one that has changed since, these values are marked.
    fn is_known_item(&mut self, path: &str, item: &mut Json, is_compared: bool) -> Known {
        let is_told = self.is_known("", item);
        let known = |is_known: bool| if is_known { Known::Same } else { Known::No };
        let Json::Object(members) = item else {
            return Known::No;
        };
        let has_id = |(key, _): &Member| is_id(key) && !may_tell_anything(key);
        let is_item = !self.is_deep() && members.iter().any(has_id);
        // The card that two payments refer to does not make one of them.
        let list = path.rsplit('.').next().unwrap_or_default();
        if !is_item || !is_compared || !has_own_id(list, members) {
            return known(is_item && is_told);
        }
        match self.seen.item(members, self.made) {
            Item::Known => Known::Same,
            Item::KnownOtherwise => Known::Otherwise,
            Item::Changed(changed) => {
                mark_changed(item, changed);
                known(is_told)
            }
        }
    }

    /// The scalars of an object on one line, small members on shared ones, others on their own.
    fn object(
        &mut self,
        path: &str,
        members: Vec<(String, Json)>,
        own: bool,
    ) -> Result<(), Cancelled> {
        let members = match keyed_rows(members) {
            Ok(rows) => return self.list(path, rows, false),
            Err(members) => members,
        };
        let (scalars, rest): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|(_, value)| is_short(value));
        // Pages and counts, and that it was done, say nothing of what the result is about.
        let is_around = |(key, value): &Member| is_of_envelope(key) || acknowledges(key, value);
        let is_envelope = !rest.is_empty() && scalars.iter().all(is_around);
        let is_only = is_envelope && matches!(rest.as_slice(), [(_, Json::Object(_))]);
        if own && !is_envelope {
            let (plumbing, own): (Vec<_>, Vec<_>) =
                scalars.into_iter().partition(|(key, _)| is_plumbing(key));
            self.joined(Part::Record, path, RECORD_BYTES, &own);
            self.joined(Part::Member, path, RECORD_BYTES, &plumbing);
        } else {
            self.joined(Part::Member, path, RECORD_BYTES, &scalars);
        }
        self.members(path, rest, (own, is_only))
    }

    /// An item of a list: its scalars after its label, and below them, indented, all else.
    fn item(&mut self, label: &str, item: Json, own: bool) -> Result<(), Cancelled> {
        self.step()?;
        let Json::Object(members) = item else {
            return self.value(label, item, own);
        };
        if self.depth >= MOST_DEPTH {
            return self.object(label, members, own);
        }
        let part = if own { Part::Record } else { Part::Member };
        let (scalars, rest): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|(_, value)| is_short(value));
        let from = self.out.len();
        if scalars.is_empty() {
            let label = DigestLine::new(Part::Member, self.depth, &format!("{label}:"));
            self.out.push(label);
        }
        self.joined(part, label, RECORD_BYTES, &scalars);
        if let Some(first) = self.out.get_mut(from) {
            first.opens = true;
        }
        self.depth += 1;
        self.members("", rest, (own, false))?;
        self.depth -= 1;
        Ok(())
    }

    /// The members of an object that are no scalars; `is_only` where there is one, with what a
    /// change made.
    fn members(
        &mut self,
        path: &str,
        mut rest: Vec<(String, Json)>,
        (own, is_only): (bool, bool),
    ) -> Result<(), Cancelled> {
        name_columns(&mut rest);
        let part = if own { Part::Record } else { Part::Member };
        let (mut named, mut small, mut large) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in rest {
            if let Some(reference) = self.reference_to(&key, &value) {
                small.push((key, Json::String(reference)));
            } else if own && lists_ids(&value) {
                // What it refers to is likely to be looked up next.
                named.push((key, value));
            } else if inline_bytes(&value, INLINE_BYTES) <= INLINE_BYTES && !has_rows(&value) {
                if own && has_ids(&value) {
                    named.push((key, value));
                } else {
                    small.push((key, value));
                }
            } else {
                large.push((key, value));
            }
        }
        self.joined(part, path, RECORD_BYTES, &named);
        let (content, small): (Vec<_>, Vec<_>) = small
            .into_iter()
            .partition(|(key, _)| own && is_content(key));
        self.joined(part, path, RECORD_BYTES, &content);
        self.joined(Part::Member, path, INLINE_BYTES, &small);
        self.level += 1;
        for (key, value) in large {
            let shown = shown_key(&key);
            let path = if path.is_empty() {
                shown.into_owned()
            } else {
                // Every line below repeats it.
                let from = path.ceil_char_boundary(path.len().saturating_sub(PATH_BYTES));
                let cut = if from > 0 { "…" } else { "" };
                format!("{cut}{}.{shown}", path.get(from..).unwrap_or_default())
            };
            // The one thing that was found is what the result is about.
            let single = matches!(&value, Json::List(items) if items.len() == 1);
            self.value(&path, value, own && (single || is_only || is_content(&key)))?;
        }
        self.level -= 1;
        Ok(())
    }

    /// Members on as few lines as have room for them.
    fn joined(&mut self, part: Part, path: &str, limit: usize, members: &[(String, Json)]) {
        let mut line = String::new();
        for (key, value) in members {
            let mut member = match key.as_str() {
                MARK => format!("{MARK} "),
                key => format!("{}: ", shown_key(key)),
            };
            inline(value, &mut member);
            if !line.is_empty() && line.len() + member.len() > limit {
                self.push(part, path, &std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(&member);
        }
        if !line.is_empty() {
            self.push(part, path, &line);
        }
    }
}
