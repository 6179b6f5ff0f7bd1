//! The calls that a digest does not show, those that change something first and those made last
//! before others, and the files that they changed; and how many messages of the parties it does not
//! show: `… 9 calls and 2 texts (1 by the user) not shown: edit ×3, think, …; changed src/a.rs, …`.
//! Without that, what is shown would look like all that was done and said.

use super::given::{Shared, given_to};
use crate::core::conversation::{Entry, Exchange, Kind};
use crate::core::strategy::digest::calls::changes::is_change;
use crate::core::strategy::digest::calls::in_text::calls_without_output;
use crate::core::strategy::digest::calls::made::{edited, is_editor};
use crate::core::strategy::digest::line::{DigestLine, GAP, OLDER, Part, Standing};
use crate::core::strategy::maps::Map;
use crate::core::text::shown_name;
use crate::core::{Cancel, Cancelled};

/// Ends the numbers of calls and texts.
pub(in super::super) const NOT_SHOWN: &str = " not shown";
/// Between them.
const AND: &str = " and ";
const CALL: &str = "call";
const TEXT: &str = "text";
/// Around the number of texts that the user wrote.
const BY_USER: (&str, &str) = (" (", " by the user)");
/// Begins the tools of calls.
const TOOLS: &str = ": ";
/// Begins the files that they changed.
const CHANGED: &str = "; changed ";
/// Between two tools or files.
const NEXT: &str = ", ";
/// Before the number of equal calls, or of the calls of a tool.
const TIMES: &str = " ×";
/// Bytes for the names of tools, and one in so many bytes of the digest where that is more.
const NAMES_BYTES: usize = 48;
const NAMES_SHARE: usize = 200;
/// The same for the names of files.
const FILES_BYTES: usize = 96;
const FILES_SHARE: usize = 80;
/// Marks calls that failed: all those of a tool, or a number of them.
const FAILED: &str = "failed";
/// So many tools are named, and so many files.
const MOST_NAMED: usize = 8;
/// Begins, separates and ends what the calls of a tool were given: `read [a.rs; b.rs] ×2`. It takes
/// one in so many bytes of the digest. How many of a tool are named.
const GIVEN: (&str, &str, &str) = (" [", "; ", "]");
const GIVEN_SHARE: usize = 150;
const MOST_GIVEN: usize = 4;

/// The calls of a tool.
#[derive(Default)]
struct Calls<'t> {
    number: u64,
    /// The place of the last one among all calls.
    place: usize,
    /// Those that failed.
    failed: u64,
    /// What they were given, oldest first, of those that are named.
    given: Vec<&'t str>,
    /// Others were given something else, or what they were given is not named.
    more_given: bool,
}

/// Messages of the parties, and those of the user among them.
#[derive(Clone, Copy, Default)]
struct Texts {
    all: u64,
    by_user: u64,
}

impl Texts {
    fn add(&mut self, other: Texts) {
        self.all = self.all.saturating_add(other.all);
        self.by_user = self.by_user.saturating_add(other.by_user);
    }

    fn one(is_user: bool) -> Self {
        Texts {
            all: 1,
            by_user: u64::from(is_user),
        }
    }
}

/// What is not shown.
#[derive(Default)]
struct Untold<'t> {
    calls: u64,
    texts: Texts,
    /// Their tools.
    tools: Map<&'t str, Calls<'t>>,
    /// There are tools without a name here.
    more: bool,
    /// The files that they changed, each with the place of the last such call; there are others.
    files: Map<&'t str, usize>,
    more_files: bool,
    places: usize,
}

impl<'t> Untold<'t> {
    /// Adds a line that opens an entry which is not shown: a call, what a party said, or what an
    /// earlier digest did not show. Lines come in the order of the messages.
    fn add(&mut self, line: &'t DigestLine, shared: &Shared<'_>) {
        match line.part {
            // It is said again later.
            Part::User | Part::Assistant if line.standing == Standing::Repeated => {}
            Part::User | Part::Assistant => self.texts.add(Texts::one(line.part == Part::User)),
            Part::Call => {
                let tool = line.text.split('(').next().unwrap_or_default();
                let without_mark = line
                    .text
                    .trim_end_matches(OLDER)
                    .trim_end_matches([' ', '…']);
                let (_, calls) = counted(without_mark);
                self.calls = self.calls.saturating_add(calls);
                let is_done = !line.outcome.is_failure();
                self.add_calls(tool, calls, if is_done { 0 } else { calls });
                match edited(&line.text) {
                    Some(file) if is_done && line.standing != Standing::Gone => {
                        self.add_file(file);
                    }
                    Some(_) => {}
                    None => {
                        let given = given_to(without_mark, |value| shared.has(tool, value));
                        self.add_given(tool, &[given.unwrap_or(GAP)]);
                    }
                }
            }
            Part::Untold => {
                let (text, files) = line.text.split_once(CHANGED).unwrap_or((&line.text, ""));
                for file in files.split(NEXT).collect::<Vec<_>>().into_iter().rev() {
                    self.add_file(file);
                }
                let (numbers, tools) = text.split_once(TOOLS).unwrap_or((text, ""));
                let (calls, texts) = numbers_in(numbers);
                self.calls = self.calls.saturating_add(calls);
                self.texts.add(texts);
                self.more |= calls > 0 && tools.is_empty();
                for tool in tools.split(NEXT).collect::<Vec<_>>().into_iter().rev() {
                    let (tool, failed) = failed_of(tool);
                    let (tool, calls) = counted(tool);
                    let (tool, given) = without_given(tool);
                    let failed = failed.map_or(0, |failed| failed.unwrap_or(calls));
                    self.add_calls(tool, calls, failed);
                    self.add_given(tool, &given);
                }
            }
            _ => {}
        }
    }

    fn add_calls(&mut self, tool: &'t str, calls: u64, failed: u64) {
        if tool.is_empty() || tool == GAP {
            self.more = true;
            return;
        }
        self.places += 1;
        let of_tool = self.tools.entry(tool).or_default();
        of_tool.number = of_tool.number.saturating_add(calls);
        of_tool.place = self.places;
        of_tool.failed = of_tool.failed.saturating_add(failed);
    }

    /// Adds what calls of a tool were given; [`GAP`] stands for what is not named.
    fn add_given(&mut self, tool: &'t str, given: &[&'t str]) {
        let Some(of_tool) = self.tools.get_mut(tool) else {
            return;
        };
        of_tool.more_given |= given.is_empty() || given.contains(&GAP);
        for one in given.iter().filter(|one| **one != GAP) {
            // What was looked at last is told.
            of_tool.given.retain(|other| other != one);
            of_tool.given.push(one);
        }
        let more = of_tool.given.len().saturating_sub(MOST_GIVEN);
        of_tool.more_given |= more > 0;
        of_tool.given.drain(..more);
    }

    fn add_file(&mut self, file: &'t str) {
        self.more_files |= file == GAP;
        if !file.is_empty() && file != GAP {
            self.places += 1;
            self.files.insert(file, self.places);
        }
    }

    /// What is told of them in a digest of so many bytes; `None` where there are none.
    fn text(&self, digest_bytes: usize) -> Option<String> {
        let counted = |(number, word): (u64, &str)| match number {
            0 => None,
            1 => Some(format!("1 {word}")),
            _ => Some(format!("{number} {word}s")),
        };
        let numbers = [(self.calls, CALL), (self.texts.all, TEXT)];
        let mut numbers: Vec<String> = numbers.into_iter().filter_map(counted).collect();
        let (begin, end) = BY_USER;
        if self.texts.by_user > 0
            && let Some(texts) = numbers.last_mut()
        {
            texts.push_str(&format!("{begin}{}{end}", self.texts.by_user));
        }
        if numbers.is_empty() {
            return None;
        }
        let mut text = format!("{}{NOT_SHOWN}", numbers.join(AND));
        let mut tools: Vec<_> = self.tools.iter().collect();
        // Whether something was changed matters more than what was looked up.
        tools.sort_by_cached_key(|(tool, calls)| std::cmp::Reverse((is_change(tool), calls.place)));
        let mut room_for_given = digest_bytes / GIVEN_SHARE;
        let tools = tools.into_iter().map(|(tool, calls)| {
            let given = given_in(calls, &mut room_for_given);
            let times = match calls.number {
                1 => String::new(),
                calls => format!("{TIMES}{calls}"),
            };
            let failed = match calls.failed {
                0 => String::new(),
                failed if failed == calls.number => format!(" ({FAILED})"),
                failed => format!(" ({failed} {FAILED})"),
            };
            let own = tool.len() + times.len() + failed.len();
            (format!("{tool}{given}{times}{failed}"), own)
        });
        let room = NAMES_BYTES.max(digest_bytes / NAMES_SHARE);
        let named = push_names(&mut text, TOOLS, tools, room);
        if named > 0 && (self.more || self.tools.len() > named) {
            text.push_str(NEXT);
            text.push_str(GAP);
        }
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, place)| std::cmp::Reverse(**place));
        let files = files
            .into_iter()
            .map(|(file, _)| ((*file).to_owned(), file.len()));
        let room = FILES_BYTES.max(digest_bytes / FILES_SHARE);
        let named = push_names(&mut text, CHANGED, files, room);
        if self.more_files || self.files.len() > named {
            text.push_str(if named == 0 { CHANGED } else { NEXT });
            text.push_str(GAP);
        }
        Some(text)
    }
}

/// Adds names behind `begin`, as far as they have room, each with the bytes that it takes of that.
/// Returns their number.
fn push_names(
    text: &mut String,
    begin: &str,
    names: impl Iterator<Item = (String, usize)>,
    room: usize,
) -> usize {
    let (mut left, mut named) = (room, 0);
    for (name, bytes) in names {
        let room = left.checked_sub(bytes + NEXT.len());
        let Some(less) = room.filter(|_| named < MOST_NAMED) else {
            break;
        };
        text.push_str(if named == 0 { begin } else { NEXT });
        text.push_str(&name);
        (left, named) = (less, named + 1);
    }
    named
}

/// What the calls of a tool were given, in brackets, as far as there is room for it. Where others
/// were given something else, that is said: it would look as if one was made several times.
fn given_in(calls: &Calls<'_>, room: &mut usize) -> String {
    let (begin, next, end) = GIVEN;
    let mut shown: Vec<&str> = Vec::new();
    for one in calls.given.iter().rev() {
        let Some(left) = room.checked_sub(one.len() + next.len()) else {
            break;
        };
        *room = left;
        shown.push(one);
    }
    if shown.is_empty() {
        return String::new();
    }
    let more = calls.more_given || shown.len() < calls.given.len();
    shown.extend(more.then_some(GAP));
    shown.reverse();
    format!("{begin}{}{end}", shown.join(next))
}

/// A tool without what its calls were given, and that.
fn without_given(tool: &str) -> (&str, Vec<&str>) {
    let (begin, next, end) = GIVEN;
    let given = tool
        .strip_suffix(end)
        .and_then(|tool| tool.split_once(begin));
    given.map_or((tool, Vec::new()), |(tool, given)| {
        (tool, given.split(next).collect())
    })
}

/// The line of the calls that are not shown in a digest of so many bytes, given the lines that open
/// its hidden entries.
pub(in super::super) fn line_of<'t>(
    hidden: impl Iterator<Item = &'t DigestLine>,
    digest_bytes: usize,
) -> Option<String> {
    let hidden: Vec<&DigestLine> = hidden.collect();
    let calls = hidden.iter().filter(|line| line.part == Part::Call);
    let shared = Shared::of(calls.map(|line| line.text.as_str()));
    let mut untold = Untold::default();
    hidden.iter().for_each(|line| untold.add(line, &shared));
    let text = untold.text(digest_bytes)?;
    Some(format!("{GAP} {text}"))
}

/// What a line tells that [`line_of`] wrote.
pub(in super::super) fn read_line(line: &str) -> Option<DigestLine> {
    let text = line.strip_prefix(GAP)?.strip_prefix(' ')?;
    let (number, rest) = text.split_once(' ')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let what = rest.split(' ').next().unwrap_or_default();
    let what = what.strip_suffix('s').unwrap_or(what);
    let is_it = is_number && [CALL, TEXT].contains(&what) && rest.contains(NOT_SHOWN);
    is_it.then(|| DigestLine::new(Part::Untold, 0, text))
}

/// The numbers of calls and of texts in `9 calls and 2 texts (1 by the user) not shown`.
fn numbers_in(text: &str) -> (u64, Texts) {
    let (mut calls, mut texts) = (0_u64, Texts::default());
    let (begin, end) = BY_USER;
    for counted in text.split(AND) {
        let (number, what) = counted.split_once(' ').unwrap_or((counted, CALL));
        let number = number.parse().unwrap_or(1);
        if what.starts_with(TEXT) {
            let by_user = what.split_once(begin).and_then(|(_, rest)| {
                let (number, _) = rest.split_once(end)?;
                number.parse().ok()
            });
            texts.add(Texts {
                all: number,
                by_user: by_user.unwrap_or_default(),
            });
        } else {
            calls = calls.saturating_add(number);
        }
    }
    (calls, texts)
}

/// What was done and said in exchanges that are not read, oldest first.
pub(in super::super) fn of_unread(
    messages: &[Entry<'_>],
    unread: &[Exchange],
    cancel: &Cancel,
) -> Result<Option<DigestLine>, Cancelled> {
    let (mut names, mut texts) = (Vec::new(), Texts::default());
    for exchange in unread {
        cancel.check_budget()?;
        let entry = messages.get(exchange.first).into_iter();
        if matches!(exchange.kind, Kind::User | Kind::Assistant) {
            texts.add(Texts::one(exchange.kind == Kind::User));
        }
        names.extend(entry.flat_map(Entry::calls).map(|c| shown_name(&c.name)));
        let in_text = calls_without_output(messages, exchange.first);
        names.extend(in_text.iter().map(|call| shown_name(&call.call().name)));
    }
    let mut untold = Untold {
        calls: names.len() as u64,
        texts,
        ..Untold::default()
    };
    names.iter().for_each(|name| untold.add_calls(name, 1, 0));
    // Their arguments were not read.
    untold.more_files = names.iter().any(|name| is_editor(name));
    let text = untold.text(usize::MAX);
    Ok(text.map(|text| DigestLine::new(Part::Untold, 0, &text)))
}

/// A tool of calls that are counted without the mark of those that failed, and these: all of them
/// where there is no number.
fn failed_of(text: &str) -> (&str, Option<Option<u64>>) {
    let marked = text.strip_suffix(')').and_then(|text| {
        let (tool, mark) = text.rsplit_once(" (")?;
        let number = mark.strip_suffix(FAILED)?.trim_end();
        let number = (!number.is_empty()).then(|| number.parse().ok());
        match number {
            None => Some((tool, None)),
            Some(number) => Some((tool, Some(number?))),
        }
    });
    marked.map_or((text, None), |(tool, failed)| (tool, Some(failed)))
}

/// A text without the number of times at its end, and these; 1 where it has none.
fn counted(text: &str) -> (&str, u64) {
    let times = text.rsplit_once(TIMES);
    times
        .and_then(|(text, times)| Some((text, times.parse().ok()?)))
        .unwrap_or((text, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::strategy::digest::line::Outcome;

    fn lines(of: &[(Part, &str)]) -> Vec<DigestLine> {
        of.iter()
            .map(|(part, text)| DigestLine::new(*part, 0, text))
            .collect()
    }

    fn written(hidden: &[(Part, &str)]) -> Option<String> {
        line_of(lines(hidden).iter(), 8_000)
    }

    #[test]
    fn calls_that_are_not_shown_are_counted_with_those_of_an_earlier_digest() {
        let hidden = [
            (Part::Untold, "4 calls not shown: think, search ×3"),
            (Part::Call, "search(q=a ×9) …"),
            (Part::Call, "add(n=1) ×3"),
            (Part::Call, "add(n=2) ×2 …"),
            (Part::User, "pay(1)"),
        ];
        let expected = "… 10 calls and 1 text (1 by the user) not shown: add ×5, search ×4, think";
        assert_eq!(written(&hidden).as_deref(), Some(expected));
        let one = written(&hidden[1..2]);
        assert_eq!(one.as_deref(), Some("… 1 call not shown: search"));
        assert_eq!(written(&hidden[5..]), None);
    }

    #[test]
    fn changes_are_named_first_and_texts_counted() {
        let hidden = [
            (
                Part::Untold,
                "2 calls and 3 texts not shown: book_seat, list_seats",
            ),
            (Part::User, "The aisle, please"),
            (Part::Call, "list_meals()"),
        ];
        let expected =
            "… 3 calls and 4 texts (1 by the user) not shown: book_seat, list_meals, list_seats";
        assert_eq!(written(&hidden).as_deref(), Some(expected));
        let mut lines = lines(&hidden[1..2]);
        assert_eq!(
            line_of(lines.iter(), 900).as_deref(),
            Some("… 1 text (1 by the user) not shown")
        );
        // What is said again later is told.
        lines[0].standing = Standing::Repeated;
        assert_eq!(line_of(lines.iter(), 900), None);
    }

    #[test]
    fn files_that_were_changed_are_named_the_newest_first() {
        let call = |text| DigestLine::new(Part::Call, 0, text);
        let earlier = "5 calls not shown: edit ×2, run ×3; changed src/b.rs, src/a.rs, …";
        let mut failed = call("edit(path=src/d.rs)");
        failed.outcome = Outcome::Failed;
        let hidden = [
            DigestLine::new(Part::Untold, 0, earlier),
            call("read(path=src/c.rs)"),
            call("edit(path=src/a.rs, old=see x.rs)"),
            call("str_replace_editor(command=view, path=src/e.rs)"),
            failed,
        ];
        let expected = "… 9 calls not shown: edit ×4 (1 failed), str_replace_editor [src/e.rs], \
                        read [src/c.rs], …; changed src/a.rs, src/b.rs, …";
        let text = line_of(hidden.iter(), 4_000);
        assert_eq!(text.as_deref(), Some(expected));
        let again = read_line(expected).unwrap();
        assert_eq!(line_of([&again].into_iter(), 4_000), text);
        // One that has no room is not named, and not forgotten.
        let long = format!("edit(path={}/a.rs)", "x".repeat(200));
        let text = line_of([&call(&long)].into_iter(), 4_000).unwrap();
        assert_eq!(text, "… 1 call not shown: edit; changed …");
        let again = read_line(&text).unwrap();
        assert_eq!(line_of([&again].into_iter(), 4_000), Some(text));
    }

    #[test]
    fn what_calls_were_given_is_told_where_there_is_room() {
        let hidden = [
            (Part::Call, "get_letter(document_id=DOC-02299204)"),
            (Part::Call, r#"get_thread(channel=C02, ts="17956.09")"#),
            (Part::Call, "get_letter(language=de, document_id=DOC-7)"),
            (Part::Call, "say(text=all of it; [and more])"),
        ];
        let of = |bytes| line_of(lines(&hidden).iter(), bytes).unwrap();
        let expected = "… 4 calls not shown: say, get_letter [DOC-02299204; DOC-7] ×2, \
                        get_thread [C02]";
        assert_eq!(of(9_000), expected);
        assert_eq!(
            of(1_500),
            "… 4 calls not shown: say, get_letter […; DOC-7] ×2, get_thread"
        );
        // One that was made several times is told from several.
        let again = [
            (Part::Call, "get(id=DOC-7) …"),
            (Part::Call, "get(id=DOC-7) …"),
            (Part::Call, "find(filters=[{operator: EQ, value: 7}])"),
        ];
        let text = line_of(lines(&again).iter(), 9_000).unwrap();
        assert_eq!(text, "… 3 calls not shown: find, get [DOC-7] ×2");
        // A part of a command or of code tells nothing.
        let commands = [
            (Part::Call, "run(command=pytest tests/test_api.py)"),
            (Part::Call, "run(command=cd ~/shop && git diff a1b2)"),
            (
                Part::Call,
                "sql(query=select 1 where id not in (311,2740), target=b2)",
            ),
        ];
        assert_eq!(
            line_of(lines(&commands).iter(), 9_000).unwrap(),
            "… 3 calls not shown: sql, run […; pytest tests/test_api.py] ×2"
        );
        let hidden = [(Part::Untold, &text[4..]), (Part::Call, "get(n=1)")];
        assert_eq!(
            line_of(lines(&hidden).iter(), 9_000).unwrap(),
            "… 4 calls not shown: get […; DOC-7] ×3, find"
        );
        let again = read_line(expected).unwrap();
        assert_eq!(line_of([&again].into_iter(), 9_000).unwrap(), expected);
    }

    #[test]
    fn only_files_that_a_call_was_told_to_edit_are_named() {
        for (call, file) in [
            (
                "write_file(content=import os.path, path=src/a.py)",
                Some("src/a.py"),
            ),
            (
                "search_replace(file_path=src/b.rs, old=x.rs)",
                Some("src/b.rs"),
            ),
            (
                "apply_patch(patch=*** Update File: src/c.rs…)",
                Some("src/c.rs"),
            ),
            (
                "edit(path=/repo/Makefile, old=see x.rs)",
                Some("/repo/Makefile"),
            ),
            ("str_replace_editor(path=src/a.py, command=view)", None),
            ("send_email(to=anna.oz@mail.com, subject=x)", None),
            ("update_plan(explanation=Next I look at src/plan.rs)", None),
            ("read_file(path=src/a.py)", None),
            ("edit(mypath=src/a.py)", None),
        ] {
            assert_eq!(edited(call), file, "{call}");
        }
    }

    #[test]
    fn tools_have_names_where_there_is_room() {
        let long = "a_tool_with_a_name_that_is_long(";
        let longer = "another_tool_with_a_name_of_that_length(";
        let hidden = [(Part::Call, longer), (Part::Call, long)];
        let hidden = lines(&hidden);
        let short = line_of(hidden.iter(), 2_000).unwrap();
        assert!(
            short.ends_with(": a_tool_with_a_name_that_is_long, …"),
            "{short}"
        );
        let all = line_of(hidden.iter(), 20_000).unwrap();
        assert!(
            all.ends_with("that_is_long, another_tool_with_a_name_of_that_length"),
            "{all}"
        );
        let nameless = [(Part::Call, "(x=1)"), (Part::Call, "f()")];
        let expected = "… 2 calls not shown: f, …";
        assert_eq!(written(&nameless).as_deref(), Some(expected));
    }

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        for line in [
            "… 1 call not shown",
            "… 2 texts not shown",
            "… 3 calls and 21 texts (13 by the user) not shown: think, …",
            "… 12 calls and 1 text not shown: think, …",
            "… 3 calls not shown: mcp:a/b-2 ×2, think",
            "… 4 calls not shown: pay ×3 (2 failed), think (failed)",
            "… 12 calls not shown: mcp:a/b-2, think, …",
        ] {
            let read = read_line(line).unwrap();
            let again = line_of([&read].into_iter(), 8_000);
            assert_eq!(again.as_deref(), Some(line));
        }
        for other in [
            "… 2 more",
            "… 2 texters were not shown",
            "… also calls not shown",
            "… calls not shown",
            "…",
        ] {
            assert!(read_line(other).is_none(), "{other}");
        }
    }

    #[test]
    fn forged_numbers_and_many_tools_do_no_harm() {
        let forged = "99999999999999999999 calls not shown: f ×18446744073709551615, f ×2, g ×-1";
        let most = "18446744073709551615 calls not shown";
        let hidden = [(Part::Untold, forged), (Part::Untold, most)];
        let text = written(&hidden).unwrap();
        assert!(
            text.starts_with("… 18446744073709551615 calls not shown: f ×184467"),
            "{text}"
        );
        let calls: Vec<String> = (0..1000).map(|n| format!("tool_{n}()")).collect();
        let calls: Vec<(Part, &str)> = calls.iter().map(|c| (Part::Call, c.as_str())).collect();
        let text = line_of(lines(&calls).iter(), usize::MAX).unwrap();
        assert!(text.starts_with("… 1000 calls not shown: tool_999, "));
        assert!(text.ends_with("tool_992, …"), "{text}");
    }
}
