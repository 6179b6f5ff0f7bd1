//! Which lines of a result say that the call failed, and why.

use super::line::{DigestLine, Part, Standing};
use crate::core::text::ToolFailures;

/// Announces a trace of calls.
const TRACE: &str = "Traceback (most recent call last)";

/// Marks the lines of a result that a policy calls reports of failures and, where the call is
/// `to_mend`, what says why it failed: a line of a text, two of JSON.
pub(super) fn note_failures(lines: &mut [DigestLine], failures: ToolFailures<'_>, to_mend: bool) {
    for line in lines.iter_mut() {
        if line.part == Part::Text && failures.told_by_policy(&line.text) {
            line.standing = Standing::Failure;
        }
    }
    if !to_mend {
        return;
    }
    let says = |line: &DigestLine| matches!(line.part, Part::Text | Part::Record | Part::Member);
    let tells = |line: &DigestLine| says(line) && failures.tell(&line.text);
    // What only announces a reason is not it. A trace ends with the reason.
    let is_trace = |line: &DigestLine| line.part == Part::Text && line.text.contains(TRACE);
    let is_whole = |line: &DigestLine| !line.text.ends_with(':') && !is_trace(line);
    let ends = lines.iter().any(is_trace);
    let first = |is: &dyn Fn(&DigestLine) -> bool| match ends {
        true => lines.iter().rposition(is),
        false => lines.iter().position(is),
    };
    let why = first(&|line| tells(line) && is_whole(line)).or_else(|| first(&says));
    let Some(why) = why else {
        return;
    };
    // A code comes before what explains it.
    let is_text = lines.get(why).is_some_and(|line| line.part == Part::Text);
    let mut left = if is_text { 1 } else { 2 };
    for line in lines.iter_mut().skip(why).take_while(|line| says(line)) {
        line.standing = Standing::ToMend;
        left -= usize::from(is_whole(line));
        if left == 0 {
            break;
        }
    }
}
