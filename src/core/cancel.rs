//! The flag that stops work for which nobody waits any more.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set when nobody waits for the result of planning any more.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

/// Planning stopped because its [`Cancel`] was set.
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
        if self.0.load(Ordering::Relaxed) {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }
}
