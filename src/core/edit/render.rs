//! From edits to bytes: slices of the client's body plus the few new pieces.

use std::ops::Range;

use super::edits::Edit;
use super::marks::marks_of_edits;
use crate::core::json::span_in;
use crate::core::wire::Dialect;
use crate::core::wire::chat::Outline;

/// A run of the bytes to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the client's body.
    Client(Range<usize>),
    /// A new message.
    New(Box<str>),
    /// The comma between two messages that were not neighbours before.
    Comma,
}

/// The body under `edits` (one per message). Neighbouring runs of the client's bytes are one piece.
#[must_use]
pub fn render(dialect: Dialect, outline: &Outline<'_>, edits: &[Edit]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let client = |pieces: &mut Vec<Piece>, range: Range<usize>| match pieces.last_mut() {
        Some(Piece::Client(last)) if last.end == range.start => last.end = range.end,
        _ => pieces.push(Piece::Client(range)),
    };
    let spans: Vec<Range<usize>> = outline
        .messages
        .iter()
        .map(|raw| span_in(outline.body, raw))
        .collect();
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return vec![Piece::Client(0..outline.body.len())];
    };

    let marks = marks_of_edits(dialect, outline, edits);
    client(&mut pieces, 0..first.start);
    let mut previous: Option<usize> = None;
    for (at, (span, edit)) in spans.iter().zip(edits).enumerate() {
        if *edit == Edit::Drop {
            continue;
        }
        if let Some(previous) = previous {
            match spans.get(previous) {
                Some(before) if previous + 1 == at => client(&mut pieces, before.end..span.start),
                _ => pieces.push(Piece::Comma),
            }
        }
        if *edit == Edit::Keep {
            client(&mut pieces, span.clone());
        }
        let marked = marks.get(&at).zip(largest(edit));
        for (nth, new) in edit.new_messages().iter().enumerate() {
            if nth > 0 {
                pieces.push(Piece::Comma);
            }
            let marked = marked.filter(|(_, marked)| *marked == nth);
            let json = marked.and_then(|(marks, _)| dialect.with_marks(&new.json, marks));
            pieces.push(Piece::New(
                json.map_or_else(|| new.json.clone(), String::into_boxed_str),
            ));
        }
        previous = Some(at);
    }
    client(&mut pieces, last.end..outline.body.len());
    pieces
}

/// The largest of the messages that an edit puts in the place of another: the others only fill
/// gaps.
fn largest(edit: &Edit) -> Option<usize> {
    let new = edit.new_messages().iter().enumerate();
    new.max_by_key(|(_, new)| new.tokens).map(|(nth, _)| nth)
}

/// The bytes that `pieces` stand for.
#[must_use]
pub fn assemble(body: &str, pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Client(range) => body.get(range.clone()).unwrap_or_default(),
            Piece::New(json) => json,
            Piece::Comma => ",",
        })
        .collect()
}
