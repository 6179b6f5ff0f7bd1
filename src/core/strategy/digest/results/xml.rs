//! Results in XML as values: attributes and elements are members, like elements a list. Only where
//! nothing is lost by that: no comments, no text between elements or of several lines, no elements
//! that take turns, and none that say something by being there.

use roxmltree::{Document, ExpandedName, Node, ParsingOptions};

use crate::core::json::Json;
use crate::core::strategy::maps::Set;

/// The longest text that is read (bytes), the longest tag with the text behind it: attributes are
/// compared with each other; the most nodes, and the deepest element.
const MOST_BYTES: usize = 1 << 18;
const TAG_BYTES: usize = 1 << 13;
const MOST_NODES: u32 = 50_000;
const MOST_LEVELS: usize = 32;
/// The most names of elements in one.
const MOST_NAMES: usize = 64;
/// Attributes and elements with a value, at least.
const LEAST_VALUES: usize = 3;
/// Documents for eyes, by the names of their outermost elements.
const PAGES: [&str; 2] = ["html", "svg"];
/// The key of the text of an element that has attributes.
const TEXT: &str = "text";

/// The value that a text is in XML, under the name of its outermost element.
pub(super) fn value_of(text: &str) -> Option<Json> {
    let text = text.trim();
    if text.len() > MOST_BYTES || !text.starts_with('<') || !text.ends_with('>') {
        return None;
    }
    if text.split('<').any(|tag| tag.len() > TAG_BYTES) {
        return None;
    }
    let options = ParsingOptions {
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).ok()?;
    let root = document.root_element();
    let name = root.tag_name().name();
    let is_page = PAGES.iter().any(|page| name.eq_ignore_ascii_case(page));
    let is_plain = !document.descendants().any(|node| node.is_comment());
    if is_page || !is_plain || !root.has_children() {
        return None;
    }
    let mut values = 0;
    let value = element(root, MOST_LEVELS, &mut values)?;
    let is_record = !value.is_scalar() && values >= LEAST_VALUES;
    is_record.then(|| Json::Object(vec![(name.to_owned(), value)]))
}

/// The value of an element; counts those of its attributes and texts.
fn element(node: Node<'_, '_>, levels: usize, values: &mut usize) -> Option<Json> {
    let levels = levels.checked_sub(1)?;
    let attributes = node.attributes();
    let mut members: Vec<(String, Json)> = attributes
        .map(|attribute| {
            (
                attribute.name().to_owned(),
                Json::unquoted(attribute.value()),
            )
        })
        .collect();
    *values += members.len();
    let text: String = node.children().filter_map(text_of).collect();
    let text = text.trim();
    if text.contains('\n') {
        return None;
    }
    let of_attributes = members.len();
    let mut elements = node.children().filter(Node::is_element).peekable();
    if elements.peek().is_none() {
        *values += usize::from(!text.is_empty());
        if members.is_empty() {
            return Some(Json::unquoted(text));
        }
        if !text.is_empty() {
            members.push((TEXT.to_owned(), Json::unquoted(text)));
        }
        return has_one_each(&members).then_some(Json::Object(members));
    }
    if !text.is_empty() {
        return None;
    }
    let mut lists = lists_of(elements, levels, values)?;
    if lists.iter().any(|(_, items)| has_flags(items)) {
        return None;
    }
    // What only holds a list, and is called like it, is that list.
    if let [(name, items)] = lists.as_mut_slice()
        && of_attributes == 0
        && items.len() > 1
        && is_list_of(node.tag_name().name(), name.name())
    {
        return Some(Json::List(std::mem::take(items)));
    }
    for (name, mut items) in lists {
        let value = match items.len() {
            1 => items.pop()?,
            _ => Json::List(items),
        };
        members.push((name.name().to_owned(), value));
    }
    has_one_each(&members).then_some(Json::Object(members))
}

/// Elements that follow each other, by their names.
type Lists<'x> = Vec<(ExpandedName<'x, 'x>, Vec<Json>)>;

/// The values of elements, those of one name together.
fn lists_of<'x>(
    elements: impl Iterator<Item = Node<'x, 'x>>,
    levels: usize,
    values: &mut usize,
) -> Option<Lists<'x>> {
    let mut lists: Lists<'x> = Vec::new();
    for child in elements {
        let name = child.tag_name();
        let value = element(child, levels, values)?;
        match lists.last_mut() {
            Some((last, items)) if *last == name => items.push(value),
            _ => lists.push((name, vec![value])),
        }
        if lists.len() > MOST_NAMES {
            return None;
        }
    }
    Some(lists)
}

/// Whether an element is called like a list of others: `slots`, `slot-list`, `categories`.
fn is_list_of(name: &str, item: &str) -> bool {
    let stem = item.strip_suffix('y').unwrap_or(item);
    let begin = name.get(..stem.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(stem))
}

/// Whether some of like elements have an empty one that others have not: it says something by being
/// there.
fn has_flags(items: &[Json]) -> bool {
    let mut empty: Set<&str> = Set::default();
    for item in items {
        if let Json::Object(members) = item {
            let without = |(_, value): &&(String, Json)| *value == Json::String(String::new());
            empty.extend(members.iter().filter(without).map(|(key, _)| key.as_str()));
        }
    }
    let has_all = |item: &Json| empty.iter().all(|key| item.get(key).is_some());
    empty.len() > MOST_NAMES || !items.iter().all(has_all)
}

/// Whether no two members have the same key, as an attribute and an element may, or elements that
/// take turns.
fn has_one_each(members: &[(String, Json)]) -> bool {
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys.windows(2).all(|two| two.first() != two.last())
}

fn text_of<'t>(node: Node<'t, '_>) -> Option<&'t str> {
    node.text().filter(|_| node.is_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        value_of(text).map(|value| value.to_string())
    }

    #[test]
    fn attributes_and_elements_are_members_and_like_elements_a_list() {
        let text = r#"<?xml version="1.0"?>
            <plans date="2025-03-12">
              <plan code="T5"><name>Trio</name><price currency="EUR">58.90</price></plan>
              <plan code="T9"><name>Giga &amp; TV</name><price currency="EUR">84</price></plan>
              <areas><area>N</area><area>S</area></areas>
            </plans>"#;
        assert_eq!(
            told(text).as_deref(),
            Some(concat!(
                r#"{"plans":{"date":"2025-03-12","plan":[{"code":"T5","name":"Trio","#,
                r#""price":{"currency":"EUR","text":58.90}},{"code":"T9","name":"Giga & TV","#,
                r#""price":{"currency":"EUR","text":84}}],"areas":["N","S"]}}"#
            ))
        );
    }

    #[test]
    fn the_name_of_what_is_listed_stays() {
        let failed = "<result><failed>w1</failed><failed>w2</failed><failed>w3</failed></result>";
        let expected = r#"{"result":{"failed":["w1","w2","w3"]}}"#;
        assert_eq!(told(failed).as_deref(), Some(expected));
    }

    #[test]
    fn documents_code_and_parts_of_them_stay_as_they_are() {
        for text in [
            "<p>It is <b>so</b> and <i>so</i> and <u>so</u>.</p>",
            "<html><body><p>a</p><p>b</p><p>c</p></body></html>",
            "<file path=\"a.py\">def a():\n    return 1\n</file>",
            "<a><!-- why --><b>1</b><c>2</c><d>3</d></a>",
            "<returncode>0</returncode>\n<output>\n</output>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><a><b>&b;</b><c>1</c><d>2</d></a>",
            "<a id=\"1\"><id>2</id><b>3</b></a>",
            "<a>1</a>",
            "<plan><create id='a'/><delete id='b'/><create id='c'/></plan>",
            "<dl><dt>A</dt><dd>1</dd><dt>B</dt><dt>C</dt><dd>3</dd></dl>",
            "<r><i><n>1</n><full/></i><i><n>2</n></i><i><n>3</n></i></r>",
            "<r xmlns:o='o' xmlns:n='n'><o:p>10</o:p><n:p>12</n:p><q>1</q></r>",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_texts_end_soon() {
        assert_eq!(
            told(&format!(
                "{}1{}",
                "<a>".repeat(30_000),
                "</a>".repeat(30_000)
            )),
            None
        );
        let names: String = (0..20_000).map(|n| format!("<a{n}/>")).collect();
        assert_eq!(told(&format!("<a>{names}</a>")), None);
        let attributes: String = (0..20_000).map(|n| format!(" a{n}='1'")).collect();
        assert_eq!(told(&format!("<a x='>'{attributes}><b/></a>")), None);
    }
}
