//! Results in YAML, which many tools print instead of JSON, as values. Only where nothing is lost
//! by that and nothing else can be meant: no comments, anchors or tags, and keys that are names.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::core::json::{Json, is_number};
use crate::core::strategy::digest::json_form::is_long_text;
use crate::core::strategy::maps::Set;

/// The longest text that is read (bytes), the deepest value in it, and the fewest values of one.
const MOST_BYTES: usize = 1 << 18;
const MOST_LEVELS: usize = 32;
const LEAST_VALUES: usize = 3;
/// The longest key, in bytes and in words: longer ones are sentences or lines of a log.
const KEY_BYTES: usize = 64;
const KEY_WORDS: usize = 4;
/// The longest line: values are looked for in theirs (bytes).
const LINE_BYTES: usize = 1 << 11;
/// What may be escaped.
const ESCAPED: [char; 4] = ['"', 'n', 't', 'u'];
/// Room for quotes that are added (bytes).
const QUOTES_BYTES: usize = 256;
/// Keys of the items of a list, at least: fewer are bullets of a text.
const LEAST_MEMBERS: usize = 2;

/// The value that a text is in YAML; a list where it has several documents.
pub(super) fn value_of(text: &str) -> Option<Json> {
    if !may_be(text) {
        return None;
    }
    read(text).or_else(|| read(&with_quotes(text)?))
}

/// The text with quotes around values that are none in YAML, as where a tool writes `from: -` or
/// `note: see: above`. `None` where a text of several lines may be among them.
fn with_quotes(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + QUOTES_BYTES);
    for line in text.lines() {
        let last = line.split_whitespace().next_back().unwrap_or_default();
        match line.split_once(": ") {
            _ if last.starts_with(['|', '>']) => return None,
            Some((key, value)) if needs_quotes(value) => {
                quoted.push_str(key);
                quoted.push_str(": '");
                quoted.push_str(&value.trim().replace('\'', "''"));
                quoted.push('\'');
            }
            _ => quoted.push_str(line),
        }
        quoted.push('\n');
    }
    Some(quoted)
}

/// Whether a value on a line of its own is text, but would be read as something else.
fn needs_quotes(value: &str) -> bool {
    let value = value.trim();
    let is_other = value.starts_with(['"', '\'', '[', '{', '&', '*', '!']);
    let is_sign = value.starts_with(['-', '?', ':', '@', '%', '`', ',', ']', '}']);
    let is_sign = is_sign && !is_number(value);
    !is_other && (is_sign || value.contains(": ") || value.contains(" #") || value.ends_with(':'))
}

fn read(text: &str) -> Option<Json> {
    let mut reader = Reader::of(text);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        reader.read(event, span)?;
    }
    reader.finish()
}

/// Whether a text may be one, by its first line and what no record has.
fn may_be(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.find(|line| line.trim_end() != "---");
    let names = |line: &str| {
        let line = line.trim_end();
        let line = line.strip_prefix("- ").unwrap_or(line);
        let begins = line.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '"'));
        begins && (line.contains(": ") || line.ends_with(':'))
    };
    // What is left out, or escaped for something else, is in no record.
    let is_record = |line: &str| {
        line.len() <= LINE_BYTES && line.trim() != "..." && !line.starts_with('\t') && {
            let mut escaped = line.split('\\').skip(1);
            escaped.all(|behind| behind.is_empty() || behind.starts_with(ESCAPED))
        }
    };
    text.len() <= MOST_BYTES && first.is_some_and(names) && text.lines().all(is_record)
}

/// A list or an object whose end was not read yet.
enum Open {
    List(Vec<Json>),
    Object {
        members: Vec<(String, Json)>,
        keys: Set<String>,
        /// The key whose value comes next.
        key: Option<String>,
    },
}

/// Builds values from what the parser tells.
struct Reader<'t> {
    lines: Vec<&'t str>,
    /// Signs that begin comments: as many as there are have to be in keys and values.
    signs: usize,
    open: Vec<Open>,
    documents: Vec<Json>,
    values: usize,
}

impl<'t> Reader<'t> {
    fn of(text: &'t str) -> Self {
        Reader {
            lines: text.lines().collect(),
            signs: signs_in(text),
            open: Vec::new(),
            documents: Vec::new(),
            values: 0,
        }
    }

    /// Takes the next event. `None` where the text is not told as a value.
    fn read(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::SequenceStart(0, None) => self.begin(Open::List(Vec::new())),
            Event::MappingStart(0, None) => self.begin(Open::Object {
                members: Vec::new(),
                keys: Set::default(),
                key: None,
            }),
            Event::SequenceEnd | Event::MappingEnd => {
                let value = match self.open.pop()? {
                    Open::List(items) => Json::List(items),
                    // A name in braces, as of a placeholder.
                    Open::Object { members, .. } if are_names(&members) => return None,
                    Open::Object { members, .. } => Json::Object(members),
                };
                self.put(value)
            }
            Event::Scalar(text, style, 0, None) => self.scalar(text, style, span),
            Event::Scalar(..)
            | Event::Alias(_)
            | Event::SequenceStart(..)
            | Event::MappingStart(..) => None,
            _ => Some(()),
        }
    }

    fn begin(&mut self, open: Open) -> Option<()> {
        // What is a key is no name.
        let is_key = matches!(self.open.last(), Some(Open::Object { key: None, .. }));
        (self.open.len() < MOST_LEVELS && !is_key).then(|| self.open.push(open))
    }

    fn scalar(&mut self, text: Cow<'_, str>, style: ScalarStyle, span: Span) -> Option<()> {
        self.signs = self.signs.checked_sub(signs_in(&text))?;
        let at_root = self.open.len() == 1;
        if let Some(Open::Object { keys, key, .. }) = self.open.last_mut()
            && key.is_none()
        {
            let is_new = is_key(&text, at_root) && keys.insert(text.clone().into_owned());
            *key = is_new.then(|| text.into_owned());
            return key.is_some().then_some(());
        }
        if style == ScalarStyle::Plain {
            // Lines that would be joined are lines of something else, as of a table.
            let line = span.start.line().checked_sub(1);
            let line = line.and_then(|line| self.lines.get(line));
            if !line.is_some_and(|line| line.contains(text.as_ref())) {
                return None;
            }
        }
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if at_root && !is_block && is_long_text(&text) {
            // Long values are told below the short ones: what somebody said, or steps.
            return None;
        }
        self.values += usize::from(!text.is_empty());
        self.put(match text.as_ref() {
            _ if style != ScalarStyle::Plain => Json::String(text.into_owned()),
            "null" => Json::Null,
            plain => Json::unquoted(plain),
        })
    }

    /// Puts a value to where it belongs.
    fn put(&mut self, value: Json) -> Option<()> {
        match self.open.last_mut() {
            None => self.documents.push(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object { members, key, .. }) => members.push((key.take()?, value)),
        }
        Some(())
    }

    fn finish(mut self) -> Option<Json> {
        let is_record = |value: &Json| match value {
            Json::Object(_) => true,
            Json::List(items) => items.iter().all(
                |item| matches!(item, Json::Object(members) if members.len() >= LEAST_MEMBERS),
            ),
            _ => false,
        };
        if self.signs > 0
            || self.values < LEAST_VALUES
            || !self.documents.iter().all(is_record)
            || !are_alike(&self.documents)
        {
            return None;
        }
        match self.documents.len() {
            1 => self.documents.pop(),
            _ => Some(Json::List(self.documents)),
        }
    }
}

/// Whether several documents are like things, rather than the parts of one text.
fn are_alike(documents: &[Json]) -> bool {
    let first = |document: &Json| match document {
        Json::Object(members) => members.first().map(|(key, _)| key.clone()),
        _ => None,
    };
    let mut firsts = documents.iter().map(first);
    let one = firsts.next();
    firsts.all(|other| other.is_some() && Some(other) == one)
}

fn are_names(members: &[(String, Json)]) -> bool {
    let mut members = members.iter();
    members.all(|(_, value)| *value == Json::String(String::new()))
}

fn signs_in(text: &str) -> usize {
    memchr::memchr_iter(b'#', text.as_bytes()).count()
}

/// Whether a key is a name. The outermost ones are no places of lines, as `a.rs:12: …` begins with.
pub(super) fn is_key(key: &str, at_root: bool) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '(' | ')');
    let is_name = key.chars().all(is_of_name) && key.contains(char::is_alphabetic);
    key.len() <= KEY_BYTES && key.split(' ').count() <= KEY_WORDS && (!at_root || is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        value_of(text).map(|value| value.to_string())
    }

    #[test]
    fn records_and_their_lists_are_values() {
        let text = "order: W1\nstatus: open\nnote: 'Lot #7'\nitems:\n  - {sku: 0042, count: 3}\n  \
                    - sku: \"17\"\n    gift: true\n    price: 9.50\n    seen:\n";
        assert_eq!(
            told(text).as_deref(),
            Some(concat!(
                r##"{"order":"W1","status":"open","note":"Lot #7","items":[{"sku":"0042","##,
                r##""count":3},{"sku":"17","gift":true,"price":9.50,"seen":""}]}"##
            ))
        );
        let several = "a: 1\nb: x\n---\na: 2\nb: y\n";
        assert_eq!(
            told(several).as_deref(),
            Some(r#"[{"a":1,"b":"x"},{"a":2,"b":"y"}]"#)
        );
    }

    #[test]
    fn values_that_are_none_in_yaml_are_texts() {
        let text = "name: Lot #7 #8\nfrom: -\nto       : a: b\nleft: -5\nwho: it's: me\n";
        assert_eq!(
            told(text).as_deref(),
            Some(r##"{"name":"Lot #7 #8","from":"-","to":"a: b","left":-5,"who":"it's: me"}"##)
        );
        assert_eq!(told(&format!("{text}more: |\n  a: b: c\n")), None);
    }

    #[test]
    fn what_would_lose_something_or_means_something_else_stays_as_it_is() {
        let long = "no, ".repeat(100);
        for text in [
            format!("Ann: Ship it?\nBob: {long}\nCarl: Agreed.").as_str(),
            "a: 1\nb: 2\n...\nc: 3\nd: 4",
            "a: 1\nb: 2\n---\nc: 3\nd: 4",
            "a: 1\nb: 2\nc: {name}",
            "a: 1\nb: 2\nc: \"C:\\apps\"",
            "name: a: b\nscript: |+\n  x: a: b\nowner: ann",
            "# about\na: 1\nb: 2\nc: 3",
            "a: &x 1\nb: *x\nc: 3",
            "a: !secret x\nb: 2\nc: 3",
            "a: 1\na: 2\nb: 3",
            "src/a.rs: 3\nsrc/b.rs: 4\nsrc/c.rs: 5",
            "12: let a = 1;\n13: let b = 2;\n14: let c = 3;",
            "2026-01-02 10:00 INFO start: a\nb: 1\nc: 2",
            "name: web\nstate: up\nevents:\n  Type  Age\n  ----  ---\n  Pull  2m",
            "a: x\nb: y\nc: z\n# of four",
            "- Note: one\n- Note: two\n- Note: three",
            "- one\n- two\n- three",
            "a: 1",
            "",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_texts_end_soon() {
        let begin = "a: 1\nb: 2\nc: ";
        for open in ["[", "{a: ", "- ", "? "] {
            for times in [500, 50_000] {
                assert!(value_of(&format!("{begin}{}", open.repeat(times))).is_none());
            }
        }
        let nested: String = (0..400)
            .map(|n| format!("{}- - -\n", " ".repeat(n)))
            .collect();
        assert!(value_of(&format!("{begin}\n{nested}")).is_none());
        let deep: String = (0..400).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
        assert_eq!(told(&format!("{begin}\n{deep}")), None);
    }
}
