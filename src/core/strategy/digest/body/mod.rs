//! The body of a digest: how it is written, and how one is read back where it is extended.

mod marks;
pub(super) mod read_back;
pub(super) mod gaps;
mod given;
pub(super) mod untold;
pub(super) mod write;
