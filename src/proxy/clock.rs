//! The times of the phases of one run of the planner.

use std::time::{Duration, Instant};

use crate::observe::event::{Phase, PhaseTimed};
use crate::proxy::Shared;

/// Takes the time of each phase; recorded once, at the end of a run.
pub(super) struct Clock<'s> {
    shared: &'s Shared,
    last: Instant,
    laps: Vec<(Phase, Duration)>,
}

impl<'s> Clock<'s> {
    /// Starts the first phase.
    pub(super) fn start(shared: &'s Shared) -> Self {
        Clock {
            shared,
            last: Instant::now(),
            laps: Vec::with_capacity(4),
        }
    }

    /// Ends a phase, and starts the next one.
    pub(super) fn lap(&mut self, phase: Phase) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        match self.laps.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, time)) => *time += took,
            None => self.laps.push((phase, took)),
        }
    }
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        for (phase, took) in self.laps.drain(..) {
            PhaseTimed { phase, took }.emit(&self.shared.metrics);
        }
    }
}
