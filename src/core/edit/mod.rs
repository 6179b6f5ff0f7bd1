//! Edits: the fate of each message, the draft that strategies work on, and the bytes that come of
//! it.

mod by_meaning;
mod checkpoint;
mod draft;
mod edits;
mod marks;
mod measured;
mod render;
mod synthetic;
mod validate;
mod zones;

use crate::core::text::Pattern;

pub use checkpoint::Checkpoint;
pub use draft::Draft;
pub use edits::{Edit, Replacement};
pub use measured::{
    MeasuredConversation, fingerprints_of, last_user, sent_size_of, sent_size_of_edited, size_of,
    size_of_edited, tokens_of, unused_of,
};
pub use render::{Piece, assemble, render};
pub(in crate::core) use synthetic::{FILLER, Tag, is_synthetic};
pub use validate::{Invalid, validate};
pub use zones::{Keep, Pin, Target, Zone};

/// The patterns of this room.
pub(in crate::core) static PATTERNS: [&Pattern; 1] = [&synthetic::OWN_TAG];
