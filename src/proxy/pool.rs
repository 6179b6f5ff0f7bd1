//! The threads that plan: as many as serve requests, first come, first served. Of those that are
//! idle, the one that worked last goes on: what it has at hand is warm.
//!
//! They are apart from the event loops and from name resolution, so that planning delays neither.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Work, with the permit that it holds until it really ends.
struct Job {
    slot: OwnedSemaphorePermit,
    work: Box<dyn FnOnce() + Send>,
}

/// The numbers of the threads that have nothing to do; the one that worked last is the last.
type Idle = Mutex<Vec<usize>>;

/// A bounded set of threads for work that would hold up an event loop. The threads end when the
/// pool is dropped.
#[derive(Debug)]
pub(super) struct PlanningPool {
    /// One permit for each thread: who has none waits outside.
    slots: Arc<Semaphore>,
    idle: Arc<Idle>,
    threads: Vec<Sender<Job>>,
}

impl PlanningPool {
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn new(threads: usize) -> io::Result<Self> {
        let numbers = 0..threads.max(1);
        let mut pool = PlanningPool {
            slots: Arc::new(Semaphore::new(numbers.len())),
            idle: Arc::new(Mutex::new(numbers.clone().rev().collect())),
            threads: Vec::with_capacity(numbers.len()),
        };
        for nth in numbers {
            let (jobs, queue) = mpsc::channel();
            let idle = Arc::clone(&pool.idle);
            std::thread::Builder::new()
                .name(format!("planner-{nth}"))
                .spawn(move || work(nth, &queue, &idle))?;
            pool.threads.push(jobs);
        }
        Ok(pool)
    }

    /// Runs `work` on a thread of the pool. Dropped while it waits for a thread, it lets go of all
    /// that the work holds. `None` when the work panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let (done, result) = oneshot::channel();
        let work = Box::new(move || {
            let _ = done.send(work());
        });
        // INVARIANT: who has a permit finds a thread, which is idle before it gives its own back.
        let nth = self.idle().pop()?;
        self.threads.get(nth)?.send(Job { slot, work }).ok()?;
        result.await.ok()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes one job after the other until there can be no more.
fn work(nth: usize, queue: &Receiver<Job>, idle: &Idle) {
    while let Ok(Job { slot, work }) = queue.recv() {
        // INVARIANT: a panic drops the job's sender, which its caller sees; the thread goes on.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        idle.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(nth);
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_run_at_a_time_than_there_are_threads() {
        let pool = Arc::new(PlanningPool::new(2).unwrap());
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..40)
            .map(|nth| {
                let (pool, running, most) =
                    (Arc::clone(&pool), Arc::clone(&running), Arc::clone(&most));
                tokio::spawn(async move {
                    let work = move || {
                        most.fetch_max(
                            running.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        nth
                    };
                    pool.run(work).await
                })
            })
            .collect();
        for (nth, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Some(nth));
        }
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }

    #[tokio::test]
    async fn one_after_the_other_they_stay_on_one_thread() {
        let pool = PlanningPool::new(3).unwrap();
        let mut threads = std::collections::HashSet::new();
        for _ in 0..20 {
            threads.insert(pool.run(|| std::thread::current().id()).await.unwrap());
            // The thread is idle again once it gave its permit back.
            let all = pool.slots.acquire_many(3).await.unwrap();
            drop(all);
        }
        assert_eq!(threads.len(), 1);
    }

    #[tokio::test]
    async fn a_panic_costs_neither_the_thread_nor_its_slot() {
        let pool = PlanningPool::new(1).unwrap();
        assert_eq!(pool.run(|| -> u8 { panic!("a defect") }).await, None);
        assert_eq!(pool.run(|| 7).await, Some(7));
    }

    #[tokio::test]
    async fn who_leaves_the_queue_takes_his_body_with_him() {
        let pool = PlanningPool::new(1).unwrap();
        let (release, held) = mpsc::channel::<()>();
        let first = pool.run(move || held.recv().is_ok());
        let body = Arc::new(());
        let kept = Arc::clone(&body);
        let mut second = Box::pin(pool.run(move || drop(kept)));
        tokio::pin!(first);
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(Arc::strong_count(&body), 2);
        drop(second);
        assert_eq!(Arc::strong_count(&body), 1);
        release.send(()).unwrap();
        assert_eq!(first.await, Some(true));
    }
}
