//! One text that becomes shorter: the lines stay that a digest would keep.

use super::text_tokens::TextTokens;
use crate::core::strategy::digest::calls::made::Made;
use crate::core::strategy::digest::choose::Choice;
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::results::encoded::ResultText;
use crate::core::strategy::digest::results::record::Results;
use crate::core::strategy::digest::results::seen::Seen;
use crate::core::strategy::digest::weigh::context::Context;
use crate::core::{Cancel, Cancelled};

/// A result with fewer lines than this leaves nothing to choose.
const LEAST_LINES: usize = 8;
/// The same for JSON, where each line is a value with its key: a value that is not a line of its
/// own is cut in the middle.
const LEAST_MEMBERS: usize = 3;

/// The lines of one text that is to become shorter.
pub(in crate::core::strategy) struct TextLines(Vec<DigestLine>);

impl TextLines {
    /// `None` where there are too few lines to choose from.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(in crate::core::strategy) fn of(
        text: &str,
        cancel: &Cancel,
    ) -> Result<Option<Self>, Cancelled> {
        let mut lines = Vec::new();
        let mut results = Results {
            seen: &mut Seen::default(),
            records: &mut Vec::new(),
            failed: false,
            is_proposed: false,
            is_doubtful: false,
            cancel,
        };
        results.read(ResultText::of(text), &Made::default(), &mut lines)?;
        lines.retain(DigestLine::is_whole);
        let least = if lines.iter().all(|line| line.part == Part::Text) {
            LEAST_LINES
        } else {
            LEAST_MEMBERS
        };
        Ok((lines.len() >= least).then_some(TextLines(lines)))
    }

    /// Weighs them by the texts of `context`.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(in crate::core::strategy) fn weighed<'t>(
        &'t self,
        context: &Context,
        tokens: &'t TextTokens,
        cancel: &'t Cancel,
    ) -> Result<Shortening<'t>, Cancelled> {
        Ok(Shortening {
            lines: &self.0,
            choice: Choice::new(&self.0, context, tokens, cancel)?,
        })
    }
}

/// A text that is cut to one size after another; its lines are weighed once.
pub(in crate::core::strategy) struct Shortening<'t> {
    lines: &'t [DigestLine],
    choice: Choice<'t>,
}

impl Shortening<'_> {
    /// The text cut to about `budget` tokens: its beginning, its end, and the lines in between that
    /// a digest would keep. `mark`, given the number of lines left out and of all, fills the first
    /// gap. `None` where no line has room.
    ///
    /// # Errors
    /// [`Cancelled`], also once there is no time left for a choice.
    pub(in crate::core::strategy) fn within(
        &mut self,
        budget: u64,
        mark: impl FnOnce(usize, usize) -> String,
    ) -> Result<Option<String>, Cancelled> {
        self.choice.restart_within(budget)?;
        let taken = &self.choice.taken;
        let left_out = taken.iter().filter(|taken| !**taken).count();
        if left_out == self.lines.len() {
            return Ok(None);
        }
        let mut out = Shortened {
            lines: Vec::new(),
            mark: Some(mark(left_out, self.lines.len())),
            gap: false,
            rows: None,
        };
        for (line, taken) in self.lines.iter().zip(taken) {
            out.read(line, *taken);
        }
        Ok(Some(out.finish()))
    }
}

/// A text with the lines that stay, and marks of what was left out.
struct Shortened {
    lines: Vec<String>,
    /// The mark for the first gap.
    mark: Option<String>,
    /// Lines were left out before the next one.
    gap: bool,
    /// Depth and number of the rows that were left out of the present table.
    rows: Option<(u8, usize)>,
}

impl Shortened {
    fn read(&mut self, line: &DigestLine, taken: bool) {
        match (line.part, taken, &mut self.rows) {
            (Part::Row, false, Some((_, missing))) => {
                *missing += 1;
                return;
            }
            (Part::Row, ..) => {}
            _ => self.end_table(),
        }
        if !taken {
            self.gap = true;
            return;
        }
        self.close_gap();
        if line.part == Part::Head {
            self.rows = Some((line.depth, 0));
        }
        let blanks = " ".repeat(usize::from(line.depth) - 1);
        self.lines.push([&blanks, line.text.as_str()].concat());
    }

    /// Says how many rows are missing, among the others, so that the table does not look complete.
    fn end_table(&mut self) {
        if let Some((depth, missing @ 1..)) = self.rows.take() {
            let blanks = " ".repeat(usize::from(depth));
            self.lines.push(format!("{blanks}… {missing} more"));
        }
    }

    fn close_gap(&mut self) {
        if std::mem::take(&mut self.gap) {
            let mark = self.mark.take().unwrap_or_else(|| "…".to_owned());
            self.lines.push(mark);
        }
    }

    fn finish(mut self) -> String {
        self.end_table();
        // The mark says that something was left out, even where only rows were.
        self.gap |= self.mark.is_some();
        self.close_gap();
        self.lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::core::tokens::Encoding;

    /// A text of lines that differ.
    fn numbered(lines: usize) -> String {
        let lines = (0..lines).map(|n| format!("line {n} has {}", n * 7919));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_texts_of_the_context_are_read_once_for_all_sizes_of_a_text() {
        let lines = TextLines::of(&numbered(60), &Cancel::default());
        let lines = lines.unwrap().unwrap();
        let context = Context {
            texts: vec!["It was line 7.".to_owned(); 500],
            ..Context::default()
        };
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        });
        let tokens = TextTokens::new(Encoding::O200K);
        let mut shortening = lines.weighed(&context, &tokens, &cancel).unwrap();
        let weighed = looked.load(Ordering::Relaxed);
        assert!(weighed >= 500, "{weighed} looks for 500 texts");
        let mut cut = |budget| {
            let short = shortening.within(budget, |left_out, all| format!("{left_out} of {all}"));
            short.unwrap().unwrap()
        };
        let (long, short, again) = (cut(300), cut(100), cut(300));
        assert!(short.len() < long.len(), "{short}");
        assert_eq!(long, again, "a size does not depend on those before it");
        let tried = looked.load(Ordering::Relaxed) - weighed;
        assert!(tried < 50, "{tried} looks for three sizes");
    }

    #[test]
    fn a_context_is_not_read_on_when_nobody_waits_any_more() {
        let lines = TextLines::of(&numbered(20), &Cancel::default());
        let lines = lines.unwrap().unwrap();
        let context = Context {
            texts: vec!["It was line 7.".to_owned(); 500],
            ..Context::default()
        };
        let looked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&looked);
        let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= 100);
        let tokens = TextTokens::new(Encoding::O200K);
        assert!(lines.weighed(&context, &tokens, &cancel).is_err());
        assert!(looked.load(Ordering::Relaxed) <= 101);
    }
}
