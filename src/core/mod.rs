//! The pure core: it reads a chat request, estimates how full its window is, and finds the edits
//! that make it fit.
//!
//! INVARIANT: everything below this module is a pure function of its arguments. No async, no I/O,
//! no clock, no randomness, no logging, no panics. Work that may take long looks at a [`Cancel`]
//! between steps.
//!
//! INVARIANT: each room imports only from those above it in this list, and no files import each
//! other in a circle.

mod cancel;

pub mod json;

pub mod text;

pub mod conversation;

pub mod models;

pub mod tokens;

pub mod wire;

pub mod budget;

pub mod edit;

pub mod summary;

pub mod strategy;

pub mod policy;

pub mod planner;

pub use cancel::{Cancel, Cancelled};
