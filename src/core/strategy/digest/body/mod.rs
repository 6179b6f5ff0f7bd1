//! The body of a digest: how it is written, and how one is read back where it is extended.

pub(super) mod read_back;
mod given;
pub(super) mod untold;
pub(super) mod write;
