//! Pages as browsers tell them to models: a tree of roles with names, each with a handle by which it
//! can be clicked. The handles of a page end with the next one, and much of its tree says nothing.

use super::line::{DigestLine, Part, Standing};
use super::quoted::LINE_BYTES;
use super::seen::Seen;
use super::weigh::STRIDE;
use crate::core::text::pieces;
use crate::core::{Cancel, Cancelled};

/// The fewest lines with a handle that make a text a page.
const LEAST_HANDLES: usize = 6;
/// What handles begin with: the first stand behind the name, the others before the role.
const REF: &str = " [ref=";
const UID: &str = "uid=";
/// What else browsers tell of an element that says nothing.
const OF_PAGE: [&str; 2] = [" [active]", " [cursor=pointer]"];
const DISABLED: &str = " [disabled]";
/// Parts of a page, whose names say nothing of the things in it.
const LANDMARKS: [&str; 9] = [
    "banner",
    "complementary",
    "contentinfo",
    "form",
    "main",
    "navigation",
    "region",
    "search",
    "tabpanel",
];
/// What one acts on a page by: it ends with the page, but for what was entered or chosen.
const CONTROLS: [&str; 10] = [
    "button",
    "checkbox",
    "combobox",
    "menuitem",
    "option",
    "radio",
    "searchbox",
    "slider",
    "spinbutton",
    "textbox",
];
/// One of several like things.
const ITEMS: [&str; 6] = [
    "article", "listitem", "menuitem", "option", "row", "treeitem",
];
/// The address below a link.
const URL: &str = "/url:";
/// Lines before one that may say the same, as the image in a link does.
const BESIDE: usize = 4;

/// Whether a text is a page with handles.
pub(super) fn is_page(text: &str) -> bool {
    let handles = text.lines().filter(|line| handle_of(line).is_some());
    handles.take(LEAST_HANDLES).count() == LEAST_HANDLES
}

/// Appends the lines of a page whose handles have ended: what has a name or a text, each with the
/// first line of the thing that it belongs to. What a newer page says of the same thing is not told
/// again.
///
/// # Errors
/// [`Cancelled`].
pub(super) fn page_lines(
    text: &str,
    seen: &mut Seen,
    cancel: &Cancel,
    out: &mut Vec<DigestLine>,
) -> Result<(), Cancelled> {
    let from = out.len();
    let mut said_of: Vec<String> = Vec::new();
    let mut open: Vec<Group> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        let element = Element::of(line);
        let said = element
            .as_ref()
            .map_or(line.trim(), |element| element.said.as_str());
        let indent = line.len() - line.trim_start().len();
        open.truncate(
            open.iter()
                .rposition(|group| group.indent < indent)
                .map_or(0, |at| at + 1),
        );
        let outer = open.last().and_then(|group| group.name);
        let is_empty = element
            .as_ref()
            .is_some_and(|element| element.says_nothing());
        let recent = out.get(out.len().saturating_sub(BESIDE).max(from)..);
        let name = element.as_ref().and_then(|element| element.name());
        let repeats = name.is_some_and(|name| {
            recent.is_some_and(|lines| lines.iter().any(|line| line.text.contains(name)))
                && outer.is_some()
        });
        if said.is_empty() || is_empty || repeats {
            let is_item = element.is_some_and(|element| ITEMS.contains(&element.role()));
            let name = outer.filter(|_| !is_item || repeats);
            open.push(Group { indent, name });
            continue;
        }
        let place = out.len();
        let thing = outer.and_then(|outer| said_of.get(outer - from));
        let key = format!("{}\n{said}", thing.map_or("", String::as_str));
        let is_newest = seen.say(None, &key);
        for piece in pieces(said, LINE_BYTES) {
            let shown = format!(
                "{}{}",
                if outer.is_some() { "  " } else { "" },
                piece.trim()
            );
            let mut line = DigestLine::new(Part::Text, 1, &shown);
            line.within = outer.map(|outer| out.len() - outer);
            if !is_newest {
                line.standing = Standing::Repeated;
            }
            said_of.push(said.to_owned());
            out.push(line);
        }
        let is_landmark = element.is_some_and(|element| LANDMARKS.contains(&element.role()));
        if let Some(group) = open.last_mut().filter(|_| !is_landmark) {
            group.name.get_or_insert(place);
        }
        let name = Some(place).filter(|_| !is_landmark);
        open.push(Group { indent, name });
    }
    Ok(())
}

/// A part of the tree: where it begins, and the line that tells what it is.
struct Group {
    indent: usize,
    name: Option<usize>,
}

/// An element without its handle: `button "Send"`, `generic: 9 left`.
struct Element {
    said: String,
}

impl Element {
    fn of(line: &str) -> Option<Self> {
        let trimmed = line.trim();
        if trimmed.starts_with("- ") && trimmed.contains(URL) {
            let said = trimmed.trim_start_matches("- ").to_owned();
            return said.starts_with(URL).then_some(Element { said });
        }
        let handle = handle_of(line)?;
        let said = OF_PAGE
            .iter()
            .fold(line.replace(handle, ""), |said, state| {
                said.replace(state, "")
            });
        let said = said.trim().trim_start_matches("- ").trim_end_matches(':');
        Some(Element {
            said: said.trim().to_owned(),
        })
    }

    fn role(&self) -> &str {
        let end = self.said.find([' ', ':']).unwrap_or(self.said.len());
        self.said.get(..end).unwrap_or_default()
    }

    /// Whether it has no name, text or state; a control, whether it has no text or state.
    fn says_nothing(&self) -> bool {
        let role = self.role();
        let rest = self.said.get(role.len()..).unwrap_or_default();
        let is_control = CONTROLS.contains(&role);
        rest.is_empty() || (is_control && (rest.ends_with('"') || rest.ends_with(DISABLED)))
    }

    /// The text in quotes.
    fn name(&self) -> Option<&str> {
        let (_, rest) = self.said.split_once('"')?;
        rest.rsplit_once('"').map(|(name, _)| name)
    }
}

/// The handle in a line of a page.
fn handle_of(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if trimmed.starts_with(UID) {
        let end = trimmed.find(' ')?;
        return trimmed.get(..=end);
    }
    let begin = line.find(REF).filter(|_| trimmed.starts_with("- "))?;
    let rest = line.get(begin..)?;
    rest.get(..=rest.find(']')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "- Page URL: https://shop/\n\
        - main [ref=e1]:\n\
        \x20 - list [ref=e2]:\n\
        \x20   - listitem [ref=e3]:\n\
        \x20     - link \"Lamp A\" [ref=e4] [cursor=pointer]:\n\
        \x20       - /url: /a\n\
        \x20       - img \"Lamp A\" [ref=e5]\n\
        \x20     - button \"Buy\" [ref=e11]\n\
        \x20     - checkbox \"Gift\" [checked] [ref=e12]\n\
        \x20     - generic [ref=e6]:\n\
        \x20       - generic [ref=e7]: €30\n\
        \x20   - listitem [ref=e8]:\n\
        \x20     - link \"Lamp B\" [ref=e9]:\n\
        \x20       - /url: /b\n\
        \x20     - deletion [ref=e10]: €50";

    #[test]
    fn a_page_is_told_without_handles_and_what_belongs_together_does() {
        assert!(is_page(SHOP));
        assert!(!is_page("- a [ref=e1]\n- b\n- c [x]"));
        let mut lines = Vec::new();
        let mut seen = Seen::default();
        page_lines(SHOP, &mut seen, &Cancel::default(), &mut lines).unwrap();
        let told: Vec<(&str, Option<usize>)> = lines
            .iter()
            .map(|line| (line.text.trim(), line.within))
            .collect();
        assert_eq!(
            told,
            [
                ("- Page URL: https://shop/", None),
                ("link \"Lamp A\"", None),
                ("/url: /a", Some(1)),
                ("checkbox \"Gift\" [checked]", Some(2)),
                ("generic: €30", Some(3)),
                ("link \"Lamp B\"", None),
                ("/url: /b", Some(1)),
                ("deletion: €50", Some(2)),
            ]
        );
    }

    #[test]
    fn handles_before_the_role_are_known_too() {
        let line = "  uid=1_5 button \"Send\" focusable";
        assert_eq!(handle_of(line), Some("uid=1_5 "));
        assert_eq!(Element::of(line).unwrap().said, "button \"Send\" focusable");
    }
}
