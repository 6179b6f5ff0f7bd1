//! Calls of which something is left out, since it is told elsewhere.

use crate::core::strategy::digest::line::{DigestLine, Part, Standing};

/// Marks a call of which something is left out.
pub(super) fn mark_call(lines: &mut [DigestLine]) {
    let call = lines.first_mut().filter(|line| line.part == Part::Call);
    if let Some(call) = call.filter(|call| !call.text.ends_with(" …")) {
        call.text.push_str(" …");
    }
}

/// Marks the call of a result that is left out, as a newer one tells the state of its record. What
/// else was asked for, it does not tell.
pub(super) fn leave_out(lines: &mut [DigestLine], only_names: bool) {
    mark_call(lines);
    let call = lines.first_mut().filter(|line| line.part == Part::Call);
    if let Some(call) = call.filter(|_| only_names) {
        call.standing = Standing::Repeated;
    }
}
