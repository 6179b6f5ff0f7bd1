//! The pure core: what a chat request says, how full its window is, and which edits make it fit.
//!
//! INVARIANT: everything below this module is a pure function of its arguments. No async, no I/O,
//! no clock, no randomness, no logging, no panics. Work that may take long looks at a [`Cancel`]
//! between steps.
//!
//! Each room imports only from those above it in this list. Blank lines keep the list in its order.

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

mod patterns;

pub use cancel::{Cancel, Cancelled};
pub use patterns::check_patterns;
