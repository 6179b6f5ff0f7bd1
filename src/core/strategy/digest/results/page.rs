//! Pages as browsers tell them to models: a tree of roles with names, each with a handle by which
//! it can be clicked. The handles of a page end with the next one, and much of its tree says
//! nothing.

use std::borrow::Cow;

use memchr::memmem;

use super::seen::Seen;
use crate::core::strategy::digest::line::{DigestLine, Part, STRIDE, Standing};
use crate::core::strategy::digest::texts::quoted::LINE_BYTES;
use crate::core::strategy::maps::hash_of;
use crate::core::text::{pieces, without_escapes};
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
/// Those of them that all pages of a site have, with links to other pages.
const FRAME: [&str; 3] = ["banner", "contentinfo", "navigation"];
const LINK: &str = "link";
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
/// One of several like things, and the parts of one that its own name repeats.
const ITEMS: [&str; 6] = [
    "article", "listitem", "menuitem", "option", "row", "treeitem",
];
const CELLS: [&str; 4] = ["cell", "columnheader", "gridcell", "rowheader"];
/// What the labels of controls are.
const LABELS: [&str; 3] = ["generic", "label", "text"];
/// The address below a link.
const URL: &str = "/url:";
/// Lines before one that may say the same, as the image in a link does.
const BESIDE: usize = 4;
/// Things within each other whose names are told.
const MOST_WITHIN: u8 = 4;

/// Whether a text is a page with handles.
pub(super) fn is_page(text: &str) -> bool {
    let has = |mark: &str| memmem::find(text.as_bytes(), mark.as_bytes()).is_some();
    if !has(REF) && !has(UID) {
        return false;
    }
    let handles = text.lines().filter(|line| handle_of(line).is_some());
    handles.take(LEAST_HANDLES).count() == LEAST_HANDLES
}

/// Whether a line of a page is the address of the link above it: left out, it leaves no gap.
pub(in super::super) fn is_address(line: &str) -> bool {
    line.trim_start().starts_with(URL)
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
    let text = without_escapes(text);
    let mut tree = Tree {
        from: out.len(),
        said: Vec::new(),
        open: Vec::new(),
        label: None,
    };
    for (at, line) in text.lines().enumerate() {
        if at.is_multiple_of(STRIDE) {
            cancel.check_budget()?;
        }
        tree.read(line, seen, out);
    }
    Ok(())
}

/// The tree that a page is, up to a line.
struct Tree {
    /// The first line of the page.
    from: usize,
    /// What each of its lines says, by its hash.
    said: Vec<u64>,
    /// The parts that are open, outermost first.
    open: Vec<Group>,
    /// The name of the last control: the label beside it says the same.
    label: Option<String>,
}

/// A part of the tree: where it begins, and the line that tells what it is.
struct Group {
    indent: usize,
    name: Option<usize>,
    /// A control that is told if there is something to tell within it: what was chosen says nothing
    /// without it.
    control: Option<String>,
    /// Lines that tell what it is within.
    within: u8,
    /// It is of the frame that all pages of a site have.
    is_frame: bool,
}

impl Group {
    fn new(indent: usize, name: Option<usize>, (within, is_frame): (u8, bool)) -> Self {
        Group {
            indent,
            name,
            control: None,
            within,
            is_frame,
        }
    }
}

impl Tree {
    fn read(&mut self, line: &str, seen: &mut Seen, out: &mut Vec<DigestLine>) {
        let element = Element::of(line);
        let said = element
            .as_ref()
            .map_or(line.trim(), |element| &element.said);
        let role = element.as_ref().map_or("", Element::role);
        if said.is_empty() || self.is_label(role, said) {
            return;
        }
        let indent = line.len() - line.trim_start().len();
        let outer = self.open.iter().rposition(|group| group.indent < indent);
        self.open.truncate(outer.map_or(0, |last| last + 1));
        let outer = self.open.last();
        let (thing, within) = outer.map_or((None, 0), |group| (group.name, group.within));
        let is_frame = outer.is_some_and(|group| group.is_frame) || FRAME.contains(&role);
        let repeats = element
            .as_ref()
            .is_some_and(|element| self.repeats(element, thing, out));
        if repeats || element.as_ref().is_some_and(Element::says_nothing) {
            let name = thing.filter(|_| repeats || !ITEMS.contains(&role));
            let is_control = !repeats && CONTROLS.contains(&role) && said != role;
            let control = is_control.then(|| said.to_owned());
            self.open.push(Group {
                control,
                ..Group::new(indent, name, (within, is_frame))
            });
            return;
        }
        let control = self.open.last_mut().and_then(|group| group.control.take());
        let thing = match control {
            Some(control) => {
                let place = out.len();
                self.tell(&control, thing, seen, out);
                if let Some(group) = self.open.last_mut() {
                    group.name = Some(place);
                }
                Some(place)
            }
            None => thing,
        };
        let place = out.len();
        self.tell(said, thing, seen, out);
        if is_frame && role == LINK {
            let told = out.iter_mut().skip(place);
            told.for_each(|line| line.standing = Standing::Alike);
        }
        let is_landmark = LANDMARKS.contains(&role);
        if let Some(group) = self.open.last_mut().filter(|_| !is_landmark) {
            group.name.get_or_insert(place);
        }
        let (name, within) = match thing {
            _ if is_landmark => (None, 0),
            Some(_) if within >= MOST_WITHIN => (thing, within),
            _ => (Some(place), within + 1),
        };
        self.open.push(Group::new(indent, name, (within, is_frame)));
    }

    /// Appends what an element says of the thing that it belongs to.
    fn tell(
        &mut self,
        said: &str,
        thing: Option<usize>,
        seen: &mut Seen,
        out: &mut Vec<DigestLine>,
    ) {
        let of_thing = thing.and_then(|thing| self.said.get(thing.checked_sub(self.from)?));
        let is_newest = seen.say(None, &format!("{of_thing:?} {said}"));
        let blanks = if thing.is_some() { "  " } else { "" };
        for piece in pieces(said, LINE_BYTES) {
            let shown = format!("{blanks}{}", piece.trim());
            let mut line = DigestLine::new(Part::Text, 1, &shown);
            line.within = thing.map(|thing| out.len() - thing);
            line.is_printed_row = thing.is_some();
            if !is_newest {
                line.standing = Standing::Repeated;
            }
            self.said.push(hash_of(said));
            out.push(line);
        }
    }

    /// Whether an element is the label beside a control, as whose state it would read where that is
    /// not told. Takes note of a control's name.
    fn is_label(&mut self, role: &str, said: &str) -> bool {
        if CONTROLS.contains(&role) {
            let name = said.split('"').nth(1);
            self.label = name.filter(|name| !name.is_empty()).map(str::to_owned);
            return false;
        }
        let text = said
            .strip_prefix(role)
            .and_then(|text| text.strip_prefix(": "));
        let is_plain = LABELS.contains(&role);
        is_plain && text.is_some() && text == self.label.as_deref()
    }

    /// Whether a line above says what an element does: the name of the same thing, or of its row.
    fn repeats(&self, element: &Element, thing: Option<usize>, out: &[DigestLine]) -> bool {
        let Some((name, row)) = element
            .bare_name()
            .zip(thing.and_then(|thing| out.get(thing)))
        else {
            return false;
        };
        if CELLS.contains(&element.role()) {
            return says(&row.text, name);
        }
        let quoted = format!("\"{name}\"");
        let from = out.len().saturating_sub(BESIDE).max(self.from);
        let above = out.get(from..).unwrap_or_default();
        above.iter().any(|line| line.text.contains(&quoted))
    }
}

/// Whether words stand in a text as whole ones.
fn says(text: &str, words: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(words).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let behind = text.get(at + words.len()..);
        !is_word(before) && !is_word(behind.and_then(|behind| behind.chars().next()))
    })
}

/// An element without its handle: `button "Send"`, `generic: 9 left`.
struct Element {
    said: String,
}

impl Element {
    fn of(line: &str) -> Option<Self> {
        let trimmed = line.trim();
        if let Some(said) = trimmed
            .strip_prefix("- ")
            .filter(|said| said.starts_with(URL))
        {
            return Some(Element {
                said: said.to_owned(),
            });
        }
        let handle = handle_of(line)?;
        let said = OF_PAGE
            .iter()
            .fold(line.replace(handle, ""), |said, state| {
                said.replace(state, "")
            });
        let said = without_handles(&said);
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
        let name = rest.strip_suffix(DISABLED).unwrap_or(rest);
        rest.is_empty() || (is_control && (name.is_empty() || is_name(name)))
    }

    /// Its name, where it says no more than that.
    fn bare_name(&self) -> Option<&str> {
        let (_, rest) = self.said.split_once(" \"")?;
        rest.strip_suffix('"').filter(|name| !name.is_empty())
    }
}

/// Whether what stands behind a role is a name in quotes, and nothing else.
fn is_name(text: &str) -> bool {
    let name = text
        .strip_prefix(" \"")
        .and_then(|name| name.strip_suffix('"'));
    name.is_some_and(|name| !name.replace("\\\"", "").contains('"'))
}

/// A line without the handles of the elements that stand on it beside its own.
fn without_handles(line: &str) -> Cow<'_, str> {
    let mut parts = line.split(REF);
    let first = parts.next().unwrap_or_default();
    if first.len() == line.len() {
        return Cow::Borrowed(line);
    }
    let behind = parts.map(|part| part.split_once(']').map_or(part, |(_, behind)| behind));
    Cow::Owned(std::iter::once(first).chain(behind).collect())
}

/// The handle in a line of a page.
fn handle_of(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if let Some(uid) = trimmed.strip_prefix(UID) {
        let end = uid.find(' ')?;
        let (page, element) = uid.get(..end)?.split_once('_')?;
        let is_number = |part: &str| part.parse::<u32>().is_ok();
        return (is_number(page) && is_number(element)).then(|| trimmed.get(..=UID.len() + end))?;
    }
    if !trimmed.starts_with("- ") {
        return None;
    }
    let begin = line.find(REF)?;
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
        \x20     - generic [ref=e16]: Gift\n\
        \x20     - checkbox \"Wrap\" [ref=e17]\n\
        \x20     - generic [ref=e18]: Wrap\n\
        \x20     - generic [ref=e6]:\n\
        \x20       - generic [ref=e7]: €30\n\
        \x20   - listitem [ref=e8]:\n\
        \x20     - link \"Lamp B\" [ref=e9]:\n\
        \x20       - /url: /b\n\
        \x20     - deletion [ref=e10]: €50\n\
        \x20 - row \"Panel IPS\" [ref=e13]:\n\
        \x20   - cell \"IPS\" [ref=e14]\n\
        \x20   - cell \"PS\" [ref=e15]";

    fn told(text: &str, seen: &mut Seen) -> Vec<DigestLine> {
        let mut lines = Vec::new();
        page_lines(text, seen, &Cancel::default(), &mut lines).unwrap();
        lines
    }

    fn shown(lines: &[DigestLine]) -> Vec<(&str, Option<usize>)> {
        let shown = lines.iter().map(|line| (line.text.trim(), line.within));
        shown.collect()
    }

    #[test]
    fn no_handle_of_a_page_that_has_ended_is_told() {
        let line = "- row \"Monday [ref=e1]: from [ref=e2] to [ref=e3]\"";
        assert_eq!(Element::of(line).unwrap().said, "row \"Monday: from to\"");
        let radios = "- group \"Gas\" [ref=e1]: radio \"Yes\" [ref=e2], radio \"No\" [ref=e3]";
        let said = "group \"Gas\": radio \"Yes\", radio \"No\"";
        assert_eq!(Element::of(radios).unwrap().said, said);
    }

    #[test]
    fn a_page_is_told_without_handles_and_what_belongs_together_does() {
        assert!(is_page(SHOP));
        assert!(!is_page("- a [ref=e1]\n- b\n- c [x]"));
        assert!(!is_page(&"uid=1001(ann) gid=1001(ann)\n".repeat(9)));
        let lines = told(SHOP, &mut Seen::default());
        assert_eq!(
            shown(&lines),
            [
                ("- Page URL: https://shop/", None),
                ("link \"Lamp A\"", None),
                ("/url: /a", Some(1)),
                ("checkbox \"Gift\" [checked]", Some(2)),
                ("generic: €30", Some(3)),
                ("link \"Lamp B\"", None),
                ("/url: /b", Some(1)),
                ("deletion: €50", Some(2)),
                ("row \"Panel IPS\"", None),
                ("cell \"PS\"", Some(1)),
            ]
        );
    }

    #[test]
    fn what_was_entered_and_chosen_stays_with_its_control() {
        let form = "- group \"Alcohol\" [ref=e1]:\n\
            \x20 - radio \"Yes\" [ref=e2]\n\
            \x20 - radio \"No\" [checked] [ref=e3]\n\
            - combobox \"Gas\" [ref=e4]:\n\
            \x20 - option \"None\" [selected]\n\
            \x20 - option \"LPG\"\n\
            - combobox \"Empty\" [ref=e5]\n\
            - textbox \"Power\" [invalid] [ref=e6]: \"3360\"\n\
            - textbox \"Notes\" [ref=e7]\n- button \"Next\" [ref=e8]";
        let lines = told(form, &mut Seen::default());
        assert_eq!(
            shown(&lines),
            [
                ("group \"Alcohol\"", None),
                ("radio \"No\" [checked]", Some(1)),
                ("combobox \"Gas\"", None),
                ("- option \"None\" [selected]", Some(1)),
                ("- option \"LPG\"", Some(2)),
                ("textbox \"Power\" [invalid]: \"3360\"", None),
            ]
        );
    }

    #[test]
    fn what_a_newer_page_says_of_the_same_thing_is_repeated() {
        let mut seen = Seen::default();
        told(SHOP, &mut seen);
        let lines = told(&SHOP.replace("€50", "€30"), &mut seen);
        let newest: Vec<&str> = lines
            .iter()
            .filter(|line| line.standing != Standing::Repeated)
            .map(|line| line.text.trim())
            .collect();
        assert_eq!(newest, ["deletion: €30"]);
    }

    #[test]
    fn a_long_name_is_not_copied_for_each_of_its_lines() {
        let name = "lamp ".repeat(100_000);
        let mut text = format!("- link \"{name}\" [ref=e1]:\n");
        for at in 0..1_000 {
            text.push_str(&format!("  - generic [ref=f{at}]: {at}\n"));
        }
        let lines = told(&text, &mut Seen::default());
        let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes < 2 * text.len(), "{bytes}");
    }

    #[test]
    fn handles_before_the_role_are_known_too() {
        let line = "  uid=1_5 button \"Send\" focusable";
        assert_eq!(handle_of(line), Some("uid=1_5 "));
        assert_eq!(Element::of(line).unwrap().said, "button \"Send\" focusable");
    }
}
