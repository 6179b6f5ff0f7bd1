//! The cut of a long failure: the lines that say what failed stay, with those around them, then its
//! beginning and its end. Of JSON the message of the error stays.

use super::maps::Map;
use super::truncate::{Cutter, Truncate};
use crate::core::json::Json;
use crate::core::text::{ToolFailures, is_message_key};

/// The share of the room for lines that report a failure, and for those with their neighbours
/// (percent).
const SHARES: [usize; 2] = [50, 75];
/// Lines before and after one that reports a failure, which belong to it.
const AROUND: usize = 2;
/// The message of a failure is shown in at least so many bytes, however little is to stay.
const LEAST_BYTES: usize = 200;

/// The failure in its smaller form; `None` when it stays as it is.
pub(super) fn cut(cutter: Cutter<'_>, failures: ToolFailures<'_>, text: &str) -> Option<String> {
    if let Some(Json::Object(members)) = Json::parse(text) {
        let new = object(cutter, &members).to_string();
        return Some(new).filter(|new| new.len() < text.len());
    }
    let total = cutter.measure(text).max(1);
    let stays = cutter.to.head.saturating_add(cutter.to.tail);
    let room = u128::from(stays) * text.len() as u128 / u128::from(total);
    let room = usize::try_from(room).unwrap_or(usize::MAX).max(LEAST_BYTES);
    let lines: Vec<&str> = text.split('\n').collect();
    let mut kept = Kept {
        stays: vec![false; lines.len()],
        lines,
        used: 0,
    };
    kept.choose(room, |line| failures.tell(line));
    if kept.used == 0 {
        return cutter.text(text);
    }
    Some(kept.text(cutter)).filter(|new| new.len() < text.len())
}

/// The members of an error: its message whole, the others cut as in any JSON.
fn object(cutter: Cutter<'_>, members: &[(String, Json)]) -> Json {
    let is_short = |value: &Json| cutter.measure(&value.to_string()) <= cutter.to.size / 2;
    let stays = |(key, value): &(String, Json)| is_message_key(key) && is_short(value);
    let stay: Vec<bool> = members.iter().map(stays).collect();
    let of = |wanted: bool| {
        let found = members.iter().zip(&stay);
        let found = found.filter(|(_, stays)| **stays == wanted);
        Json::Object(found.map(|(member, _)| member.clone()).collect())
    };
    let taken = cutter.measure(&of(true).to_string());
    let to = Truncate {
        size: cutter.to.size.saturating_sub(taken),
        ..cutter.to
    };
    match cutter.with(to).json(&of(false)) {
        Json::Object(cut) => Json::Object(merged(cut, members, &stay)),
        _ => Json::Object(members.to_vec()),
    }
}

/// The members that are left of those that were `cut`, and among them, each in its place, the
/// `members` that `stay`.
fn merged(
    cut: Vec<(String, Json)>,
    members: &[(String, Json)],
    stay: &[bool],
) -> Vec<(String, Json)> {
    let mut places: Map<&str, usize> = Map::default();
    for (at, (key, _)) in cut.iter().enumerate() {
        places.entry(key.as_str()).or_insert(at);
    }
    // Each message, and how many of the members that are left stand before it.
    let (mut messages, mut before) = (Vec::new(), 0);
    for (member, stays) in members.iter().zip(stay) {
        if *stays {
            messages.push((before, member.clone()));
        } else if let Some(at) = places.get(member.0.as_str()) {
            before = before.max(at + 1);
        }
    }
    let mut messages = messages.into_iter().peekable();
    let mut all = Vec::with_capacity(members.len());
    for (at, member) in cut.into_iter().enumerate() {
        while let Some((_, message)) = messages.next_if(|(before, _)| *before <= at) {
            all.push(message);
        }
        all.push(member);
    }
    all.extend(messages.map(|(_, message)| message));
    all
}

/// The lines of a text, and which of them stay.
struct Kept<'t> {
    lines: Vec<&'t str>,
    stays: Vec<bool>,
    /// Bytes of those that stay.
    used: usize,
}

impl Kept<'_> {
    fn choose(&mut self, room: usize, tells: impl Fn(&str) -> bool) {
        let numbered = self.lines.iter().enumerate();
        let reports: Vec<usize> = numbered
            .filter(|(_, line)| tells(line))
            .map(|(at, _)| at)
            .collect();
        // The last names the cause in traces, the first in the output of compilers.
        let ordered = from_both_ends(&reports);
        for at in &ordered {
            self.take(*at, room * SHARES[0] / 100);
        }
        let told: Vec<usize> = ordered.into_iter().filter(|at| self.is_kept(*at)).collect();
        for distance in 1..=AROUND {
            for at in &told {
                for near in [at.checked_sub(distance), at.checked_add(distance)] {
                    self.take(near.unwrap_or(usize::MAX), room * SHARES[1] / 100);
                }
            }
        }
        let all = self.lines.len();
        let (mut head, mut tail) = (true, true);
        for at in 0..all {
            head = head && self.take(at, room);
            tail = tail && self.take(all - 1 - at, room);
            if !head && !tail {
                break;
            }
        }
    }

    fn is_kept(&self, at: usize) -> bool {
        self.stays.get(at).copied().unwrap_or_default()
    }

    /// Keeps a line where there is room for it. Reports whether it stays.
    fn take(&mut self, at: usize, room: usize) -> bool {
        let (Some(line), Some(stays)) = (self.lines.get(at), self.stays.get_mut(at)) else {
            return false;
        };
        let more = line.len() + 1;
        if !*stays && self.used + more <= room {
            *stays = true;
            self.used += more;
        }
        *stays
    }

    /// The lines that stay, with a mark where others stood.
    fn text(&self, cutter: Cutter<'_>) -> String {
        let mut text = String::with_capacity(self.used * 2);
        let mut removed = 0;
        for (line, stays) in self.lines.iter().zip(&self.stays) {
            if *stays {
                push_mark(cutter, &mut removed, &mut text);
                push_line(line, &mut text);
            } else {
                removed += line.chars().count() + 1;
            }
        }
        push_mark(cutter, &mut removed, &mut text);
        text
    }
}

fn push_mark(cutter: Cutter<'_>, removed: &mut usize, text: &mut String) {
    if *removed > 0 {
        let mark = cutter.mark(&format!("{removed} characters"));
        push_line(&format!("[… {mark} …]"), text);
        *removed = 0;
    }
}

fn push_line(line: &str, text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The last, the first, the last but one, and so on.
fn from_both_ends(all: &[usize]) -> Vec<usize> {
    let mut all = all.iter().copied();
    let mut ordered = Vec::with_capacity(all.len());
    while let Some(last) = all.next_back() {
        ordered.push(last);
        ordered.extend(all.next());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(key: &str, value: &str) -> (String, Json) {
        (key.to_owned(), Json::String(value.to_owned()))
    }

    #[test]
    fn messages_stand_in_their_places_also_where_a_key_occurs_twice() {
        let all = [
            ("message", "first"),
            ("a", "1"),
            ("error", "one"),
            ("b", "2"),
            ("error", "two"),
            ("c", "3"),
            ("detail", "last"),
        ];
        let members = all.map(|(key, value)| member(key, value));
        let stay = all.map(|(key, _)| key.len() > 1);
        let left = merged(vec![member("a", "…"), member("c", "…")], &members, &stay);
        let told: Vec<String> = left
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            told,
            [
                r#"message="first""#,
                r#"a="…""#,
                r#"error="one""#,
                r#"error="two""#,
                r#"c="…""#,
                r#"detail="last""#,
            ]
        );
    }

    #[test]
    fn a_key_that_occurs_ten_thousand_times_is_merged_in_one_pass() {
        let members: Vec<(String, Json)> = (0..20_000)
            .map(|at| member(if at % 2 == 0 { "error" } else { "a" }, &at.to_string()))
            .collect();
        let stay: Vec<bool> = (0..20_000).map(|at| at % 2 == 0).collect();
        let cut = members.iter().filter(|(key, _)| key == "a").cloned();
        let left = merged(cut.collect(), &members, &stay);
        assert_eq!(left.len(), members.len());
        assert_eq!(left.first(), members.first());
    }
}
