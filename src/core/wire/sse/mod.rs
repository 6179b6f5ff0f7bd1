//! Server-sent events.

mod lines;

pub use lines::Lines;
