//! What calls were given and did: their arguments, changes, edits, outcomes and failures.

pub(super) mod arguments;
pub(super) mod changes;
pub(super) mod commands;
pub(super) mod diffs;
pub(super) mod echo;
pub(super) mod failures;
pub(super) mod in_text;
pub(super) mod made;
pub(super) mod names;
pub(super) mod numbering;
pub(super) mod outcomes;
pub(super) mod pairs;
mod passages;
pub(super) mod removed;
pub(super) mod scope;
