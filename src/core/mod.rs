//! The pure core: what a chat request says, how full its window is, and which edits make it fit.
//!
//! INVARIANT: everything below this module is a pure function of its arguments. No async, no I/O, no clock, no
//! randomness, no logging, no panics. Work that may take long looks at a [`Cancel`] between steps.
//!
//! Each room imports only from those above it in this list.

mod cancel;
mod patterns;

pub mod budget;
pub mod conversation;
pub mod edit;
pub mod json;
pub mod models;
pub mod planner;
pub mod policy;
pub mod strategy;
pub mod summary;
pub mod text;
pub mod tokens;
pub mod wire;

pub use cancel::{Cancel, Cancelled};
pub use patterns::check_patterns;
