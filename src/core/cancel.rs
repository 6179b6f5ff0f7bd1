//! How work learns that nobody waits for its result any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers whether a deadline is over.
type Deadline = Box<dyn Fn() -> bool + Send + Sync>;

/// Bounds the time of work. It stops when nobody waits for its result any more: on request, or when
/// a deadline is over. Before that a budget may be spent: from then on whatever has a cheaper
/// substitute is left out. The core has no clock, so the caller supplies both.
#[derive(Default)]
pub struct Cancel {
    cancelled: AtomicBool,
    deadline: Option<Deadline>,
    late: AtomicBool,
    budget: Option<Deadline>,
    brief: bool,
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel")
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}

/// Work stopped because its [`Cancel`] asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped: nobody waits for the result")]
pub struct Cancelled;

impl Cancel {
    /// A flag that is also set once `is_over` answers true. Each check asks it, so it must be
    /// cheap.
    #[must_use]
    pub fn at_deadline(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Cancel {
            deadline: Some(Box::new(is_over)),
            ..Cancel::default()
        }
    }

    /// The same with a budget, which is spent once `is_spent` answers true.
    #[must_use]
    pub fn with_budget(mut self, is_spent: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.budget = Some(Box::new(is_spent));
        self
    }

    /// The same for work that is given up as soon as it is found to take long.
    #[must_use]
    pub fn for_brief_work(mut self) -> Self {
        self.brief = true;
        self
    }

    /// Whether only brief work is wanted.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        self.brief
    }

    /// Asks the work that checks this flag to stop at its next step.
    pub fn set(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the budget is spent: work that has a cheaper substitute is not begun, and not gone
    /// on with.
    #[must_use]
    pub fn is_late(&self) -> bool {
        if self.late.load(Ordering::Relaxed) {
            return true;
        }
        let late = self.budget.as_ref().is_some_and(|is_spent| is_spent());
        if late {
            self.late.store(true, Ordering::Relaxed);
        }
        late
    }

    /// The check of work that has a cheaper substitute.
    ///
    /// # Errors
    /// [`Cancelled`] as for [`Cancel::check`], and once the budget is spent.
    pub fn check_budget(&self) -> Result<(), Cancelled> {
        if self.is_late() {
            return Err(Cancelled);
        }
        self.check()
    }

    /// # Errors
    /// [`Cancelled`] once [`Cancel::set`] was called or the deadline is over.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled);
        }
        if self.deadline.as_ref().is_some_and(|is_over| is_over()) {
            self.set();
            return Err(Cancelled);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn work_stops_at_the_first_check_after_its_deadline() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let cancel = Cancel::at_deadline(move || counter.fetch_add(1, Ordering::Relaxed) >= 3);
        let steps = (0..100).take_while(|_| cancel.check().is_ok()).count();
        assert_eq!(steps, 3);
        // Once over, the deadline is not asked again.
        assert_eq!(cancel.check(), Err(Cancelled));
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_spent_budget_stops_only_work_that_has_a_substitute() {
        let cancel = Cancel::default().with_budget(|| true);
        assert!(cancel.is_late());
        assert_eq!(cancel.check_budget(), Err(Cancelled));
        assert_eq!(cancel.check(), Ok(()));
        assert_eq!(Cancel::default().check_budget(), Ok(()));
    }

    #[test]
    fn a_flag_without_a_deadline_waits_for_its_caller() {
        let cancel = Cancel::default();
        assert_eq!(cancel.check(), Ok(()));
        cancel.set();
        assert_eq!(cancel.check(), Err(Cancelled));
    }
}
