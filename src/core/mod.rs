//! The thinking part of Baler: what a chat request says, how full its window is, and which edits make it fit.
//!
//! INVARIANT: everything below this module is a pure function of its arguments. No async, no I/O, no clock, no
//! randomness, no logging, no panics. Work that may take long looks at a [`Cancel`] between steps.
//!
//! Data flows one way:
//!
//! ```text
//! bytes -> chat (borrowed view, exchanges) -> digest + tokens (a Measure per message)
//!       -> think (replay, estimate, decide) -> strategy (the ladder edits a Draft) -> plan (Edits)
//!       -> render (slices of the client's body plus the new pieces)
//! ```
//!
//! Answers are read for what they teach: [`usage`] for counts, [`overflow`] for windows, [`sse`] to find both in streams,
//! [`discovery`] for the windows that a list of models names; [`decode`] where they are compressed. What [`inject`] asks for beyond the client's own wishes, [`sse`] takes out again.

pub mod calibration;
pub mod chat;
pub mod decode;
pub mod digest;
pub mod discovery;
pub mod draft;
pub mod gate;
pub mod inject;
pub mod json;
pub mod models;
pub mod notation;
pub mod overflow;
pub mod plan;
pub mod policy;
pub mod render;
pub mod size;
pub mod sse;
pub mod strategy;
pub mod summary;
pub mod text;
pub mod think;
pub mod tokens;
pub mod usage;
pub mod when;

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells thinking that nobody waits for its result any more.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

/// Thinking stopped because its [`Cancel`] was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped: nobody waits for the result")]
pub struct Cancelled;

impl Cancel {
    /// Asks the work that looks at this flag to stop at its next step.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// [`Cancelled`] once [`Cancel::set`] was called.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.0.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }
}
