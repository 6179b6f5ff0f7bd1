//! Tasks that no request waits for: tracked, and ended when Baler shuts down.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time for running tasks to end at shutdown.
const CLOSING: Duration = Duration::from_secs(1);

/// Tasks that no request waits for.
#[derive(Debug, Default)]
pub struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    /// Runs a task until it ends or Baler shuts down; after that its result is of no use.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks
            .spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Whether Baler is shutting down, so that nothing new is worth beginning.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Ends the running tasks and waits for them, but not for ever: a thread may be busy with
    /// something else.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSING, self.tasks.wait()).await;
    }
}
