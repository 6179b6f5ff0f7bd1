//! The calls that a digest does not show: `… 9 calls not shown, with all of search, think`. Without
//! their number, and the tools none of whose calls is shown, what is shown would look like all that
//! was done.

use super::line::{DigestLine, GAP, Part, Standing};
use crate::core::conversation::{Entry, Exchange};
use crate::core::strategy::maps::Set;
use crate::core::text::shown_name;

/// Ends the number of the calls.
const NOT_SHOWN: &str = " not shown";
/// Begins the tools.
const TOOLS: &str = ", with all of ";
/// So many of them are named, in one of so many bytes of the digest: in a small one other lines say
/// more.
const MOST_TOOLS: usize = 8;
const NAMES_SHARE: usize = 200;
/// Before the number of equal calls.
const TIMES: &str = " ×";

/// Calls that are not shown.
#[derive(Default)]
struct Untold<'t> {
    calls: u64,
    /// Their tools, in the order of their first calls.
    tools: Vec<&'t str>,
    known: Set<&'t str>,
    /// Those of which calls are shown, or told elsewhere.
    shown: Set<&'t str>,
    /// There are more of these tools.
    more: bool,
}

impl<'t> Untold<'t> {
    /// Adds a line that opens an entry which is not shown: a call, or those that an earlier digest
    /// did not show.
    fn add(&mut self, line: &'t DigestLine) {
        match line.part {
            // Its row or its record tells it.
            Part::Call if line.standing == Standing::Repeated => {
                self.shown.insert(tool_of(line));
            }
            Part::Call => self.add_calls(tool_of(line), times_of(line)),
            Part::Untold => {
                let (calls, tools) = line.text.split_once(TOOLS).unwrap_or((&line.text, ""));
                let number = calls.split(' ').next().unwrap_or_default();
                self.calls = self.calls.saturating_add(number.parse().unwrap_or(1));
                tools.split(", ").for_each(|tool| self.add_calls(tool, 0));
            }
            _ => {}
        }
    }

    fn add_calls(&mut self, tool: &'t str, calls: u64) {
        self.calls = self.calls.saturating_add(calls);
        if tool == GAP {
            self.more = true;
        } else if !tool.is_empty() && self.known.insert(tool) {
            self.tools.push(tool);
        }
    }

    /// What is told of them in a digest of so many bytes; `None` where there are none.
    fn text(&self, digest_bytes: usize) -> Option<String> {
        if self.calls == 0 {
            return None;
        }
        let plural = if self.calls == 1 { "" } else { "s" };
        let mut text = format!("{} call{plural}{NOT_SHOWN}", self.calls);
        let mut left = digest_bytes / NAMES_SHARE;
        let mut named = 0;
        let hidden = self.tools.iter().filter(|tool| !self.shown.contains(*tool));
        for tool in hidden.clone() {
            let Some(less) = left
                .checked_sub(tool.len() + 2)
                .filter(|_| named < MOST_TOOLS)
            else {
                break;
            };
            text.push_str(if named == 0 { TOOLS } else { ", " });
            text.push_str(tool);
            (left, named) = (less, named + 1);
        }
        if named > 0 && (self.more || hidden.count() > named) {
            text.push_str(", ");
            text.push_str(GAP);
        }
        Some(text)
    }
}

/// The line of the calls that are not shown in a digest of so many bytes, given the lines that open
/// its entries and those that open the hidden ones.
pub(super) fn line_of<'t>(
    shown: impl Iterator<Item = &'t DigestLine>,
    hidden: impl Iterator<Item = &'t DigestLine>,
    digest_bytes: usize,
) -> Option<String> {
    let calls = shown.filter(|line| line.part == Part::Call);
    let mut untold = Untold {
        shown: calls.map(tool_of).collect(),
        ..Untold::default()
    };
    hidden.for_each(|line| untold.add(line));
    let text = untold.text(digest_bytes)?;
    Some(format!("{GAP} {text}"))
}

/// The calls in a line that [`line_of`] wrote.
pub(super) fn read_line(line: &str) -> Option<DigestLine> {
    let text = line.strip_prefix(GAP)?.strip_prefix(' ')?;
    let (number, _) = text.split_once(" call")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (is_number && text.contains(NOT_SHOWN)).then(|| DigestLine::new(Part::Untold, 0, text))
}

/// The calls of exchanges that are not read.
pub(super) fn of_unread(messages: &[Entry<'_>], unread: &[Exchange]) -> Option<DigestLine> {
    let entries = unread
        .iter()
        .filter_map(|exchange| messages.get(exchange.first));
    let names: Vec<String> = entries
        .flat_map(Entry::calls)
        .map(|call| shown_name(&call.name))
        .collect();
    let mut untold = Untold::default();
    names.iter().for_each(|name| untold.add_calls(name, 1));
    let text = untold.text(usize::MAX)?;
    Some(DigestLine::new(Part::Untold, 0, &text))
}

fn tool_of(call: &DigestLine) -> &str {
    call.text.split('(').next().unwrap_or_default()
}

/// How often a call was made.
fn times_of(call: &DigestLine) -> u64 {
    let times = call.text.rsplit_once(TIMES);
    times.and_then(|(_, times)| times.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[(Part, &str)]) -> Vec<DigestLine> {
        of.iter()
            .map(|(part, text)| DigestLine::new(*part, 0, text))
            .collect()
    }

    fn written(shown: &[(Part, &str)], hidden: &[(Part, &str)]) -> Option<String> {
        line_of(lines(shown).iter(), lines(hidden).iter(), 8_000)
    }

    #[test]
    fn calls_that_are_not_shown_are_counted_with_those_of_an_earlier_digest() {
        let shown = [(Part::Call, "search(q=b)"), (Part::User, "think(1)")];
        let hidden = [
            (Part::Untold, "4 calls not shown, with all of think, search"),
            (Part::Call, "search(q=a ×9) …"),
            (Part::Call, "add(n=1) ×3"),
            (Part::User, "pay(1)"),
        ];
        let expected = "… 8 calls not shown, with all of think, add";
        assert_eq!(written(&shown, &hidden).as_deref(), Some(expected));
        let in_small = line_of([].into_iter(), lines(&hidden).iter(), 2_000);
        assert_eq!(
            in_small.as_deref(),
            Some("… 8 calls not shown, with all of think, …")
        );
        let told = DigestLine {
            standing: Standing::Repeated,
            ..DigestLine::new(Part::Call, 0, "add(n=2) …")
        };
        let hidden_too = lines(&hidden);
        let text = line_of([].into_iter(), hidden_too.iter().chain([&told]), 8_000);
        let expected = "… 8 calls not shown, with all of think, search";
        assert_eq!(text.as_deref(), Some(expected), "rows tell of another one");
        let one = written(&shown, &hidden[1..2]);
        assert_eq!(one.as_deref(), Some("… 1 call not shown"));
        assert_eq!(written(&shown, &hidden[3..]), None);
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        for line in [
            "… 1 call not shown",
            "… 12 calls not shown, with all of mcp:a/b-2, think, …",
        ] {
            let read = read_line(line).unwrap();
            let again = line_of([].into_iter(), [&read].into_iter(), 8_000);
            assert_eq!(again.as_deref(), Some(line));
        }
        for other in [
            "… 2 more",
            "… also calls not shown",
            "… calls not shown",
            "…",
        ] {
            assert!(read_line(other).is_none(), "{other}");
        }
    }

    #[test]
    fn forged_numbers_and_many_tools_do_no_harm() {
        let forged = "99999999999999999999 calls not shown, with all of ";
        let most = "18446744073709551615 calls not shown";
        let hidden = [(Part::Untold, forged), (Part::Untold, most)];
        let expected = "… 18446744073709551615 calls not shown";
        assert_eq!(written(&[], &hidden).as_deref(), Some(expected));
        let calls: Vec<String> = (0..1000).map(|n| format!("tool_{n}()")).collect();
        let calls: Vec<(Part, &str)> = calls.iter().map(|c| (Part::Call, c.as_str())).collect();
        let text = line_of([].into_iter(), lines(&calls).iter(), usize::MAX).unwrap();
        assert!(text.starts_with("… 1000 calls not shown, with all of tool_0, "));
        assert!(text.ends_with("tool_7, …"), "{text}");
    }
}
