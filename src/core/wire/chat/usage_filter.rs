//! Takes out of a stream of chunks everything that is only there because Baler asked for usage. The
//! client gets the bytes that it would have got without:
//!
//! - an event whose chunk has no choices and reports usage is removed as a whole;
//! - a `"usage":null` member, which servers add to every other chunk when asked, is removed with
//!   its comma.
//!
//! Usage next to choices stays: servers that send it do so unasked. All else passes byte for byte.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::json::present;
use crate::core::json::span_in;

/// The longest event that is examined, bytes.
const MAX_EVENT_BYTES: usize = 256 * 1024;

/// An incremental filter of an event stream. An event is passed on when its last byte has arrived,
/// a comment line between events at once. A longer event than the bound passes as it arrives.
#[derive(Debug, Default)]
pub struct UsageFilter {
    /// The present event, as far as it has arrived.
    held: Vec<u8>,
    /// Where the present line begins in it.
    line_start: usize,
    /// Bytes of the present line so far.
    line_bytes: usize,
    /// The data of the event, where it is a single line.
    data: Data,
    /// The present event is too long: the rest of it passes unexamined.
    passing: bool,
    /// The last byte was a CR: an LF next belongs to it.
    after_cr: bool,
    /// The last event was taken out.
    taken: bool,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    Line(Range<usize>),
    Lines,
}

/// The decision about an event.
enum Verdict {
    Pass,
    Take,
    /// Passes without these bytes of its data.
    Cut(Range<usize>),
}

impl UsageFilter {
    /// Takes the next bytes of the stream and appends the client's share of them to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                self.end_of_crlf(out);
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line_bytes += line.len();
            self.keep(line, out);
            let Some(terminator) = rest.first() else {
                break;
            };
            self.end_line(*terminator, out);
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    /// Ends the stream. Bytes still held are an event without an end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.line_bytes > 0 && !self.passing {
            self.note_line();
        }
        self.end_event(out);
    }

    fn keep(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if !self.passing && self.held.len() + bytes.len() > MAX_EVENT_BYTES {
            out.append(&mut self.held);
            self.passing = true;
        }
        let target = if self.passing { out } else { &mut self.held };
        target.extend_from_slice(bytes);
    }

    fn end_line(&mut self, terminator: u8, out: &mut Vec<u8>) {
        self.after_cr = terminator == b'\r';
        let is_comment = self.line_start == 0 && self.held.first() == Some(&b':');
        if std::mem::take(&mut self.line_bytes) == 0 {
            self.keep(&[terminator], out);
            return self.end_event(out);
        }
        if !self.passing {
            self.note_line();
        }
        self.keep(&[terminator], out);
        if is_comment && !self.passing {
            // Servers keep connections alive with comments: one before an event need not wait for
            // it.
            self.taken = false;
            out.append(&mut self.held);
        }
        self.line_start = self.held.len();
    }

    /// Sends the LF of a CRLF where its CR went.
    fn end_of_crlf(&mut self, out: &mut Vec<u8>) {
        if self.passing || (self.held.is_empty() && !self.taken) {
            out.push(b'\n');
        } else if !self.held.is_empty() {
            self.held.push(b'\n');
            self.line_start = self.held.len();
        }
    }

    fn note_line(&mut self) {
        let line = self.held.get(self.line_start..).unwrap_or_default();
        let Some(payload) = line.strip_prefix(b"data:") else {
            return;
        };
        let payload = payload.strip_prefix(b" ").unwrap_or(payload);
        self.data = match self.data {
            Data::None => Data::Line(self.held.len() - payload.len()..self.held.len()),
            Data::Line(_) | Data::Lines => Data::Lines,
        };
    }

    fn end_event(&mut self, out: &mut Vec<u8>) {
        let verdict = match std::mem::take(&mut self.data) {
            Data::Line(range) => judge(
                self.held.get(range.clone()).unwrap_or_default(),
                range.start,
            ),
            Data::None | Data::Lines => Verdict::Pass,
        };
        self.taken = matches!(verdict, Verdict::Take);
        match verdict {
            Verdict::Pass => out.extend_from_slice(&self.held),
            Verdict::Take => {}
            Verdict::Cut(range) => {
                out.extend_from_slice(self.held.get(..range.start).unwrap_or_default());
                out.extend_from_slice(self.held.get(range.end..).unwrap_or_default());
            }
        }
        self.held.clear();
        (self.line_start, self.line_bytes, self.passing) = (0, 0, false);
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    choices: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    usage: Option<&'a RawValue>,
}

/// Judges an event by its data, which begins at `start` of it. Most events do not contain the key
/// and are not parsed.
fn judge(data: &[u8], start: usize) -> Verdict {
    if memchr::memmem::find(data, b"\"usage\"").is_none()
        || !data.trim_ascii_start().starts_with(b"{")
    {
        return Verdict::Pass;
    }
    let Ok(data) = std::str::from_utf8(data) else {
        return Verdict::Pass;
    };
    let Ok(Chunk {
        choices,
        usage: Some(usage),
    }) = serde_json::from_str::<Chunk<'_>>(data)
    else {
        return Verdict::Pass;
    };
    let has_no_choices = choices
        .and_then(|choices| choices.get().strip_prefix('['))
        .is_some_and(|rest| rest.trim_start() == "]");
    match usage.get() {
        "null" => member(data, span_in(data, usage.get())).map_or(Verdict::Pass, |range| {
            Verdict::Cut(start + range.start..start + range.end)
        }),
        usage if has_no_choices && usage.starts_with('{') => Verdict::Take,
        _ => Verdict::Pass,
    }
}

/// The bytes of the member `usage` whose value stands at `value`: its name, and the comma that sets
/// it apart.
fn member(json: &str, value: Range<usize>) -> Option<Range<usize>> {
    let before = json
        .get(..value.start)?
        .trim_end()
        .strip_suffix(':')?
        .trim_end()
        .strip_suffix("\"usage\"")?;
    let after = json.get(value.end..)?;
    if let Some(before) = before.trim_end().strip_suffix(',') {
        return Some(before.len()..value.end);
    }
    let end = after
        .trim_start()
        .strip_prefix(',')
        .map_or(value.end, |rest| json.len() - rest.trim_start().len());
    Some(before.len()..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(chunks: &[&[u8]]) -> String {
        let (mut filter, mut out) = (UsageFilter::default(), Vec::new());
        for chunk in chunks {
            filter.push(chunk, &mut out);
            assert!(filter.held.len() <= MAX_EVENT_BYTES + 1);
        }
        filter.finish(&mut out);
        assert!(filter.held.is_empty());
        String::from_utf8(out).unwrap()
    }

    /// Events of a server that was asked for usage, and the same as if it had not been asked.
    const EVENTS: [(&str, &str); 15] = [
        (": ping", ": ping"),
        (
            "data: {\"choices\":[{\"delta\":{}}]}",
            "data: {\"choices\":[{\"delta\":{}}]}",
        ),
        (
            "data: {\"choices\":[{}],\"usage\":null}",
            "data: {\"choices\":[{}]}",
        ),
        (
            "data:{\"choices\": [{}], \"usage\": null, \"obfuscation\": \"x\"}",
            "data:{\"choices\": [{}], \"obfuscation\": \"x\"}",
        ),
        (
            "data: { \"usage\" : null , \"choices\":[{}]}",
            "data: { \"choices\":[{}]}",
        ),
        ("id: 7\ndata: {\"usage\":null}", "id: 7\ndata: {}"),
        ("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}", ""),
        (
            "event: chunk\ndata:{\"usage\" : {\"prompt_tokens\":7}, \"choices\": [ ]}\n: late",
            "",
        ),
        (
            "data: {\"choices\":[],\"prompt_filter_results\":[],\"usage\":null}",
            "data: {\"choices\":[],\"prompt_filter_results\":[]}",
        ),
        (
            "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":7}}",
            "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":7}}",
        ),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":null\",\"usage\":null}}]}",
            "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":null\",\"usage\":null}}]}",
        ),
        (
            "data: {\"usage\":null,\"usage\":null}",
            "data: {\"usage\":null,\"usage\":null}",
        ),
        (
            "data: {\"choices\":[],\ndata: \"usage\":{}}",
            "data: {\"choices\":[],\ndata: \"usage\":{}}",
        ),
        ("data: {\"usage\":null", "data: {\"usage\":null"),
        ("data: [DONE]", "data: [DONE]"),
    ];

    proptest! {
        #[test]
        fn usage_is_removed_however_the_bytes_are_cut(
            picks in proptest::collection::vec(0..EVENTS.len(), 0..8),
            end in 0..3_usize,
            mut cuts in proptest::collection::vec(0..1_000_usize, 0..12),
        ) {
            let end = ["\n", "\r\n", "\r"][end];
            let ended = |event: &str| event.replace('\n', end) + end + end;
            let text = |event: &str| if event.is_empty() { String::new() } else { ended(event) };
            let stream: String = picks.iter().map(|pick| text(EVENTS[*pick].0)).collect();
            let expected: String = picks.iter().map(|pick| text(EVENTS[*pick].1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                let cut = cut.min(stream.len());
                chunks.push(&stream.as_bytes()[from..cut]);
                from = cut;
            }
            chunks.push(&stream.as_bytes()[from..]);
            prop_assert_eq!(filter(&chunks), expected);
        }

        #[test]
        fn other_bytes_pass_as_they_are(text in "(data|data:|\
            [ :a-z\\n\\r{}\\[\\]\",0é]|\"choices\":\\[\\]|null){0,60}", cut in 0..200_usize) {
            let bytes = text.as_bytes();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(filter(&[head, tail]), text.clone());
        }
    }

    #[test]
    fn a_complete_event_is_not_held_back() {
        let (mut filter, mut out) = (UsageFilter::default(), Vec::new());
        let mut seen = |bytes: &str| {
            out.clear();
            filter.push(bytes.as_bytes(), &mut out);
            String::from_utf8(out.clone()).unwrap()
        };
        assert_eq!(seen("data: 1\n\nda"), "data: 1\n\n");
        assert_eq!(
            seen("ta: 2\r\n\r"),
            "data: 2\r\n\r",
            "a CR alone ends a line"
        );
        assert_eq!(seen("\n"), "\n");
        assert_eq!(seen(": ping\n"), ": ping\n", "a comment is not an event");
        assert_eq!(seen("data: {\"choices\":[],\"usage\":{}}\r\n\r"), "");
        assert_eq!(
            seen("\ndata: 3\n\n"),
            "data: 3\n\n",
            "the end of a removed event is removed too"
        );
    }

    #[test]
    fn the_last_event_needs_no_end() {
        assert_eq!(
            filter(&[b"data: 1\n\ndata: {\"choices\":[],\"usage\":{}}"]),
            "data: 1\n\n"
        );
        assert_eq!(
            filter(&[b"data: 1\n\ndata: [DONE]"]),
            "data: 1\n\ndata: [DONE]"
        );
        assert_eq!(
            filter(&[b"data: 1\n\ndata: {\"choices\":[],\"usa"]),
            "data: 1\n\ndata: {\"choices\":[],\"usa"
        );
    }

    #[test]
    fn an_event_over_the_bound_passes_untouched_and_the_next_is_examined() {
        let long = format!(
            "data: {{\"x\":\"{}\",\"usage\":null}}\n\n",
            "x".repeat(MAX_EVENT_BYTES)
        );
        let stream = format!("{long}data: {{\"usage\":null}}\n\n");
        let expected = format!("{long}data: {{}}\n\n");
        for size in [1_000, 64 * 1024, usize::MAX] {
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            assert_eq!(filter(&chunks), expected, "pieces of {size}");
        }
    }
}
