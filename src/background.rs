//! Work beside requests: tracked, and over when Baler is.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// For what still runs to end once Baler stops.
const CLOSING: Duration = Duration::from_secs(1);

/// Tasks that nobody waits for.
#[derive(Debug, Default)]
pub struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    /// Runs a task that ends with Baler at the latest: what it finds out then is of no use any more.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks
            .spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Whether Baler stops: nothing is worth beginning.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Ends what runs, and waits until it has; not for ever, as a thread may be busy with something else.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(CLOSING, self.tasks.wait()).await;
    }
}
