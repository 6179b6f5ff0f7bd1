//! What ends the line of a call: what came of it.

/// Ends a call that failed, where what is shown of its result does not tell.
pub(super) const FAILED: &str = " failed";
/// Follows it where the call has several steps: those before may have done what they were to do.
pub(super) const AT_A_STEP: &str = " at a step";
/// Ends a call that failed where a newer one made it good, which may not be shown.
pub(super) const MADE_GOOD: &str = ", succeeded since";
/// The same, with other arguments.
pub(super) const DONE_OTHERWISE: &str = ", succeeded since with other arguments";
/// Ends a call that a newer one undid.
pub(super) const UNDONE: &str = ", undone since";
/// Ends a command that wrote a file which a newer call removed.
pub(super) const REMOVED: &str = ", removed since";
