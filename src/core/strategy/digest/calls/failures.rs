//! Which lines of a result say that the call failed, and why.

use crate::core::strategy::digest::line::{DigestLine, Outcome, Part, Standing};
use crate::core::text::{
    TELLING, TRACE, ToolFailures, is_not_run, shape, tells_of_failure, words_of,
};

/// Begins the result of a call that the user did not allow, and announces what he said to it.
const NOT_ALLOWED: &str = "The user doesn't want to proceed with this tool use.";
const SAID: &str = "the user said:";

/// Marks the lines of a result that a policy calls reports of failures and, where the call is
/// `to_mend`, what says why it failed: a line of a text, two of JSON.
pub(in super::super) fn note_failures(
    lines: &mut [DigestLine],
    failures: ToolFailures<'_>,
    to_mend: bool,
) {
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

/// Marks what the model said of failures that were made good later, which would be mended again,
/// and of what was undone.
pub(in super::super) fn note_made_good(lines: &mut [DigestLine]) {
    let mut call: Option<(Outcome, u32, Vec<String>)> = None;
    for line in lines {
        if line.part == Part::Call && line.depth == 0 {
            let is_over = matches!(
                line.outcome,
                Outcome::Undone | Outcome::MadeGood | Outcome::DoneOtherwise
            );
            let given = || {
                let values = words_of(&line.text).filter(|word| shape(word) >= TELLING);
                values.map(str::to_owned).collect()
            };
            call = is_over.then(|| (line.outcome, line.turn, given())).or(call);
            continue;
        }
        let of_turn = call.as_ref().filter(|(_, turn, _)| *turn == line.turn);
        let is_over = of_turn.is_some_and(|(outcome, _, given)| match outcome {
            Outcome::Undone => words_of(&line.text).any(|word| given.iter().any(|g| g == word)),
            _ => tells_of_failure(&line.text),
        });
        if line.part == Part::Assistant && is_over {
            line.standing = Standing::Repeated;
        }
    }
}

/// Marks in the result of a call that the user did not allow what he said to it. It is not told
/// among his words: a file may begin with the same. Of one that was not run because of its form,
/// how it is to be made says nothing.
pub(in super::super) fn note_refusal(lines: &mut [DigestLine]) {
    let is_text = |line: &DigestLine| line.part == Part::Text;
    let Some(first) = lines.iter().position(is_text) else {
        return;
    };
    let opening = lines.get(first).map_or("", |line| line.text.as_str());
    let is_not_allowed = opening.starts_with(NOT_ALLOWED);
    if is_not_run(opening) {
        let form = lines.iter_mut().skip(first + 1);
        form.for_each(|line| line.standing = Standing::Replaced);
        return;
    }
    if !is_not_allowed {
        return;
    }
    let mut is_said = false;
    for line in lines.iter_mut().skip(first).filter(|line| is_text(line)) {
        if is_said {
            line.standing = Standing::Usual;
            line.changes = true;
        } else {
            line.standing = Standing::Replaced;
        }
        is_said |= line.text.trim_end().ends_with(SAID);
    }
}
