//! What the newest messages are about: what they name, describe, and go on with.

pub(super) mod at_hand;
mod chosen;
mod definitions;
mod described;
pub(super) mod files;
pub(super) mod in_question;
pub(super) mod named;
mod piece;
mod programs;
pub(super) mod regions;
pub(super) mod sections;
